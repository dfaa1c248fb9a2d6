#include "cmd.h"

#include <string.h>
#include <time.h>

#include "base/path.h"

void table_init(struct table *t, size_t n_columns, size_t min_width,
		size_t padding)
{
	*t = (struct table){ .n_columns = n_columns,
			     .min_width = min_width,
			     .padding = padding };
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){ 0 };
}

void table_add(struct table *t, const char *text, size_t max)
{
	auto_(buf) struct buf cut = BUF_INIT, cell = BUF_INIT;
	const char *s = text ? text : "-";

	if (max) {
		text_cut(&cut, s, max);
		s = buf_str(&cut);
	}
	text_escape(&cell, s, strlen(s));
	/* Grown at every power of two. */
	if (!(t->n_cells & (t->n_cells - 1))) {
		size_t cap = t->n_cells ? 2 * t->n_cells : 1;
		char **bigger = reallocarray(t->cells, cap, sizeof(*bigger));

		if (!bigger) {
			t->failed = true;
			return;
		}
		t->cells = bigger;
	}
	t->cells[t->n_cells] = buf_take(&cell, NULL);
	if (t->cells[t->n_cells])
		t->n_cells++;
	else
		t->failed = true;
}

static size_t count_characters(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

int table_print(const struct table *t, FILE *f)
{
	auto_free size_t *widths = calloc(t->n_columns, sizeof(*widths));

	if (t->failed || !widths)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t w = count_characters(t->cells[i]) + t->padding;
		size_t c = i % t->n_columns;

		if (w < t->min_width)
			w = t->min_width;
		if (w > widths[c])
			widths[c] = w;
	}
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t c = i % t->n_columns;
		size_t w = count_characters(t->cells[i]);
		bool last = c + 1 == t->n_columns;

		(void)fputs(t->cells[i], f);
		if (last)
			(void)fputc('\n', f);
		else
			(void)fprintf(f, "%*s", (int)(widths[c] - w), "");
	}
	return 0;
}

const char *print_uptime(int64_t s, char ret[24])
{
	enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };

	if (s < 0)
		(void)snprintf(ret, 24, "-");
	else if (s < MINUTE)
		(void)snprintf(ret, 24, "%ds", (int)s);
	else if (s < HOUR)
		(void)snprintf(ret, 24, "%dm%02ds", (int)(s / MINUTE),
			       (int)(s % MINUTE));
	else if (s < DAY)
		(void)snprintf(ret, 24, "%dh%02dm", (int)(s / HOUR),
			       (int)(s % HOUR / MINUTE));
	else
		(void)snprintf(ret, 24, "%lldd%02dh", (long long)(s / DAY),
			       (int)(s % DAY / HOUR));
	return ret;
}

int print_json(struct ctx *ctx, struct json_out *o)
{
	auto_(buf) struct buf text = BUF_INIT;

	if (json_out_end(o, &text) < 0 || buf_failed(&text))
		return cmd_fail_memory(ctx);
	(void)fwrite(text.data, 1, text.len, stdout);
	return cmd_flush(ctx);
}

void print_json_str_or_null(struct json_out *o, const char *s)
{
	if (s)
		json_out_str(o, s);
	else
		json_out_null(o);
}
