#include "cmd.h"

#include <string.h>

static const char *const group_titles[GROUP_COUNT] = {
	[GROUP_LIFECYCLE] = "Life of a sandbox",
	[GROUP_BRANCH] = "What it changed",
	[GROUP_APPROVALS] = "What it asks",
	[GROUP_OTHER] = "Other",
};

/* "-b, --bundle DIR" */
static void add_option_names(struct buf *b, const struct opt *o)
{
	if (o->letter)
		buf_printf(b, "-%c, ", o->letter);
	else
		buf_add_str(b, "    ");
	buf_printf(b, "--%s%s", o->flags & OPT_NEGATABLE ? "[no-]" : "",
		   o->name);
	if (o->arg)
		buf_printf(b, " %s", o->arg);
}

/* Prints @text from column @at on, broken at blanks before column 80. */
static void print_wrapped(const char *text, size_t at)
{
	enum { WIDTH = 79 };
	size_t col = at;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (col > at && col + 1 + n > WIDTH) {
			printf("\n%*s", (int)at, "");
			col = at;
		} else if (col > at) {
			(void)putchar(' ');
			col++;
		}
		printf("%.*s", (int)n, text);
		col += n;
		text += n;
		text += strspn(text, " ");
	}
	(void)putchar('\n');
}

/* "text|json" is told after the explanation: "… [text, json]". */
static void add_values(struct buf *b, const struct opt *o)
{
	if (o->kind != OPT_ENUM)
		return;
	buf_add_str(b, " [");
	for (const char *s = o->values; *s; s++) {
		if (*s == '|')
			buf_add_str(b, ", ");
		else
			buf_add_char(b, *s);
	}
	buf_add_char(b, ']');
}

static void print_options(enum verb_id id)
{
	enum { TEXT_COLUMN = 30 };

	for (size_t i = 0; i < opt_table_len; i++) {
		const struct opt *o = &opt_table[i];
		auto_(buf) struct buf names = BUF_INIT, text = BUF_INIT;

		if (!opt_is_of(o, id) || (o->flags & OPT_HIDDEN))
			continue;
		add_option_names(&names, o);
		buf_add_str(&text, o->help);
		add_values(&text, o);
		if (o->alias)
			buf_printf(&text, " (also --%s)", o->alias);
		printf("  %s", buf_str(&names));
		if (names.len + 4 > TEXT_COLUMN)
			printf("\n%*s", TEXT_COLUMN, "");
		else
			printf("%*s", TEXT_COLUMN - 2 - (int)names.len, "");
		print_wrapped(buf_str(&text), TEXT_COLUMN);
	}
}

int help_overview(struct ctx *ctx)
{
	printf("usage: %s [options] COMMAND ...\n\n"
	       "Runs programs in sandboxes; what they write waits on a branch "
	       "for you to\ncommit or abort.\n",
	       ctx->program);
	for (int g = 0; g < GROUP_COUNT; g++) {
		printf("\n%s:\n", group_titles[g]);
		for (size_t i = 0; i < verb_table_len; i++)
			if ((int)verb_table[i].group == g)
				printf("  %-12s%s\n", verb_table[i].name,
				       verb_table[i].summary);
	}
	printf("\nOptions before the command:\n");
	print_options(VERB_GLOBAL);
	printf("\n%s COMMAND --help explains a command.\n", ctx->program);
	return cmd_flush(ctx);
}

static void print_indented(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		printf("  %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

/* A verb may be used in several ways, one a line. */
static void print_usage(struct ctx *ctx, const struct verb *v)
{
	const char *text = v->operands, *lead = "usage:";

	do {
		size_t n = strcspn(text, "\n");

		printf("%6s %s %s [options]%s%.*s\n", lead, ctx->program,
		       v->name, n ? " " : "", (int)n, text);
		text += n + (text[n] == '\n');
		lead = "or:";
	} while (*text);
}

int help_verb(struct ctx *ctx, const struct verb *v)
{
	print_usage(ctx, v);
	printf("\n%s\n", v->about);
	if (v->alias)
		printf("It is also called '%s'.\n", v->alias);
	printf("\nOptions:\n");
	print_options(v->id);
	printf("\nExamples:\n");
	print_indented(v->examples);
	printf("\nExit status:\n");
	print_indented(v->exit_status);
	return cmd_flush(ctx);
}

static void man_option(FILE *f, const struct opt *o)
{
	auto_(buf) struct buf text = BUF_INIT;

	if (o->letter)
		(void)fprintf(f, "*-%c*, ", o->letter);
	(void)fprintf(f, "*--%s*", o->name);
	if (o->flags & OPT_NEGATABLE)
		(void)fprintf(f, ", *--no-%s*", o->name);
	if (o->alias)
		(void)fprintf(f, ", *--%s*", o->alias);
	if (o->arg)
		(void)fprintf(f, " _%s_", o->arg);
	buf_add_str(&text, o->help);
	add_values(&text, o);
	(void)fputs("\n\t", f);
	/* scdoc takes these for markup. */
	for (const char *s = buf_str(&text); *s; s++) {
		if (strchr("*_\\", *s))
			(void)fputc('\\', f);
		(void)fputc(*s, f);
	}
	(void)fputs("\n\n", f);
}

void help_man_options(FILE *f, const struct verb *v)
{
	enum verb_id id = v ? v->id : VERB_GLOBAL;

	for (size_t i = 0; i < opt_table_len; i++)
		if (opt_is_of(&opt_table[i], id) &&
		    !(opt_table[i].flags & OPT_HIDDEN))
			man_option(f, &opt_table[i]);
}

int cmd_help(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };
	const struct verb *v;

	if (!args->n_operands)
		return help_overview(ctx);
	v = verb_find(args->operands[0]);
	if (v)
		return help_verb(ctx, v);
	(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0, "unknown command '%s'",
			args->operands[0]);
	(void)cmd_hint(&err, "%s --help lists them", ctx->program);
	return cmd_fail(ctx, &err);
}
