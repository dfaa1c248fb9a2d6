#include <string.h>

#include "cmd.h"

/* Questions, of one sandbox or of all. */
struct questions {
	struct ctx *ctx;
	const char *name; /* of the one that is listed now */
	bool json, watch;
	struct json_out *out;
	struct table table;
	size_t n;
	int status;
};

static void add_json(struct json_out *o, const char *name,
		     const struct sandlock_question *q)
{
	static const struct json_limits limits = { .bytes = 1 << 20,
						   .depth = 16,
						   .values = 100 * 1000 };
	struct json *j = NULL;

	json_out_object(o);
	json_out_str_member(o, "sandbox", name);
	json_out_key(o, "approval");
	if (json_parse(q->json, strlen(q->json), &limits, "approval", &j,
		       NULL) == 0)
		json_out_value(o, j);
	else
		json_out_null(o);
	json_free(j);
	json_out_object_end(o);
}

static void add_row(struct questions *l, const struct sandlock_question *q)
{
	char left[24], times[16];

	(void)print_uptime(q->seconds_left, left);
	(void)snprintf(times, sizeof(times), "%u", q->count);
	table_add(&l->table, l->name, 0);
	table_add(&l->table, q->id, 0);
	table_add(&l->table, left, 0);
	table_add(&l->table, times, 0);
	table_add(&l->table, q->program, 40);
	/* It is escaped already; backslashes are not escaped again. */
	table_add(&l->table, q->what, 0);
}

/* "web 12-0a1b2c3d waiting: node wants to connect to 192.0.2.1:443 (tcp)" */
static void print_line(const struct questions *l,
		       const struct sandlock_question *q)
{
	auto_(table) struct table t;
	auto_(buf) struct buf b = BUF_INIT;

	table_init(&t, 2, 0, 0);
	table_add(&t, q->program, 0);
	table_add(&t, q->by, 0);
	buf_printf(&b, "%s %s %s: %s wants to %s", l->name, q->id, q->state,
		   t.n_cells ? t.cells[0] : "-", q->what);
	if (q->by)
		buf_printf(&b, " (by %s)", t.n_cells > 1 ? t.cells[1] : "-");
	(void)puts(buf_str(&b));
}

static int watch_one(struct questions *l, const struct sandlock_question *q)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;

	if (!l->json) {
		print_line(l, q);
		l->status = cmd_flush(l->ctx);
		return l->status;
	}
	o = json_out_new(false);
	add_json(o, l->name, q);
	l->status = print_json(l->ctx, o);
	return l->status;
}

static int take(void *data, const struct sandlock_question *q)
{
	struct questions *l = data;

	l->n++;
	if (l->watch)
		return watch_one(l, q);
	if (l->json)
		add_json(l->out, l->name, q);
	else
		add_row(l, q);
	return 0;
}

/* Those that ask nobody, or have no socket, have nothing to list. */
static int take_all(struct questions *l, struct sandlock_error *err)
{
	struct sandlock_error ignored = { 0 };
	struct sandlock_info *v = NULL;
	size_t n = 0;
	int r = sandlock_list(&l->ctx->env, false, &v, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		l->name = v[i].name;
		(void)sandlock_questions(&l->ctx->env, v[i].name, take, l,
					 &ignored);
	}
	sandlock_list_free(v, n);
	return 0;
}

static int print_all(struct questions *l)
{
	if (l->json) {
		json_out_array_end(l->out);
		json_out_object_end(l->out);
		return print_json(l->ctx, l->out);
	}
	if (l->n && table_print(&l->table, stdout) < 0)
		return cmd_fail_memory(l->ctx);
	return cmd_flush(l->ctx);
}

int cmd_approvals(struct ctx *ctx, struct args *args)
{
	static const char *const header[] = { "NAME",  "ID",	  "LEFT",
					      "TIMES", "PROGRAM", "WANTS TO" };
	const char *name = args->n_operands ? args->operands[0] : NULL;
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);
	struct sandlock_error err = { 0 };
	struct questions l = { .ctx = ctx,
			       .name = name,
			       .json = args_json(args),
			       .watch = args_has(args, "watch"),
			       .out = o };
	int r;

	if (l.watch && !name) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"--watch takes the name of a sandbox");
		return cmd_fail(ctx, &err);
	}
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.approvals/1");
	json_out_key(o, "approvals");
	json_out_array(o);
	table_init(&l.table, ARRAY_LEN(header), 0, 2);
	for (size_t i = 0; i < ARRAY_LEN(header); i++)
		table_add(&l.table, header[i], 0);
	if (l.watch)
		r = sandlock_watch_questions(&ctx->env, name, take, &l, &err);
	else if (name)
		r = sandlock_questions(&ctx->env, name, take, &l, &err);
	else
		r = take_all(&l, &err);
	if (r < 0)
		l.status = cmd_fail(ctx, &err);
	else if (!l.watch)
		l.status = print_all(&l);
	table_done(&l.table);
	return l.status;
}
