#include "base/utc.h"
#include "cmd.h"

#include <string.h>

enum { COMMAND_WIDTH = 60 };

static bool is_asked_for(const struct sandlock_branch_info *b,
			 const struct args *args)
{
	for (size_t i = 0; i < args->n_operands; i++)
		if (strstr(b->name, args->operands[i]))
			return true;
	return !args->n_operands;
}

static const char *disposition_word(enum sandlock_disposition d)
{
	switch (d) {
	case SANDLOCK_COMMIT:
		return "commit";
	case SANDLOCK_ABORT:
		return "abort";
	case SANDLOCK_KEEP:
		return "keep";
	case SANDLOCK_DEFER:
	case SANDLOCK_UNSAID:
		break;
	}
	return "defer";
}

static void add_exit(struct json_out *o, const struct sandlock_branch_info *b)
{
	json_out_key(o, "exit");
	if (b->exit_kind == SANDLOCK_EXIT_UNKNOWN) {
		json_out_null(o);
		return;
	}
	json_out_object(o);
	switch (b->exit_kind) {
	case SANDLOCK_EXIT_CODE:
		json_out_int_member(o, "code", b->exit_value);
		break;
	case SANDLOCK_EXIT_SIGNAL:
		json_out_int_member(o, "signal", b->exit_value);
		break;
	case SANDLOCK_EXIT_TIMEOUT:
		json_out_bool_member(o, "timeout", true);
		break;
	case SANDLOCK_EXIT_QUOTA:
		json_out_bool_member(o, "over_quota", true);
		break;
	case SANDLOCK_EXIT_UNKNOWN:
		break;
	}
	json_out_object_end(o);
}

static void add_roots(struct json_out *o, const struct sandlock_branch_info *b)
{
	json_out_key(o, "roots");
	json_out_array(o);
	for (size_t i = 0; i < b->n_roots; i++) {
		const struct sandlock_root *r = &b->roots[i];

		json_out_object(o);
		json_out_bytes_member(o, "lower", r->lower);
		json_out_bytes_member(o, "upper", r->upper);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

static void add_branch(struct json_out *o, const struct sandlock_branch_info *b)
{
	json_out_object(o);
	json_out_str_member(o, "name", b->name);
	json_out_str_member(o, "state", b->state);
	if (b->created.tv_sec) {
		utc_member(o, "created", &b->created, 0);
	} else { /* damaged: nothing is known */
		json_out_key(o, "created");
		json_out_null(o);
	}
	json_out_bytes_member(o, "lower", b->lower);
	json_out_bytes_member(o, "upper", b->upper);
	if (b->n_roots > 1)
		add_roots(o, b);
	json_out_key(o, "command");
	print_json_str_or_null(o, b->command);
	json_out_str_member(o, "on_exit", disposition_word(b->on_exit));
	json_out_str_member(o, "on_error", disposition_word(b->on_error));
	add_exit(o, b);
	json_out_object_end(o);
}

static int print_branches_json(struct ctx *ctx, const struct args *args,
			       const struct sandlock_branch_info *v, size_t n)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	if (!o)
		return cmd_fail_memory(ctx);
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.branches/1");
	json_out_key(o, "branches");
	json_out_array(o);
	for (size_t i = 0; i < n; i++)
		if (is_asked_for(&v[i], args))
			add_branch(o, &v[i]);
	json_out_array_end(o);
	json_out_object_end(o);
	return print_json(ctx, o);
}

static int print_branches_table(struct ctx *ctx, const struct args *args,
				const struct sandlock_branch_info *v, size_t n)
{
	static const char *const header[] = { "NAME", "STATE", "CREATED",
					      "LOWER", "CMD" };
	auto_(buf) struct buf lower = BUF_INIT;
	auto_(table) struct table t;
	char when[UTC_MAX];

	table_init(&t, ARRAY_LEN(header), 0, 2);
	for (size_t i = 0; i < ARRAY_LEN(header); i++)
		table_add(&t, header[i], 0);
	for (size_t i = 0; i < n; i++) {
		if (!is_asked_for(&v[i], args))
			continue;
		table_add(&t, v[i].name, 0);
		table_add(&t, v[i].state, 0);
		table_add(&t,
			  v[i].created.tv_sec ? utc_text(&v[i].created, 0, when)
					      : "-",
			  0);
		buf_clear(&lower);
		buf_add_str(&lower, *v[i].lower ? v[i].lower : "-");
		if (v[i].n_roots > 1)
			buf_printf(&lower, " (and %zu more)", v[i].n_roots - 1);
		table_add(&t, buf_str(&lower), 0);
		table_add(&t, v[i].command, COMMAND_WIDTH);
	}
	if (table_print(&t, stdout) < 0)
		return cmd_fail_memory(ctx);
	return cmd_flush(ctx);
}

int cmd_branches(struct ctx *ctx, struct args *args)
{
	struct sandlock_branch_info *v = NULL;
	struct sandlock_error err = { 0 };
	size_t n = 0;
	int r;

	if (sandlock_branches(&ctx->env, &v, &n, &err) < 0)
		return cmd_fail(ctx, &err);
	if (args_has(args, "quiet")) {
		for (size_t i = 0; i < n; i++)
			if (is_asked_for(&v[i], args))
				printf("%s\n", v[i].name);
		r = cmd_flush(ctx);
	} else if (args_json(args)) {
		r = print_branches_json(ctx, args, v, n);
	} else {
		r = print_branches_table(ctx, args, v, n);
	}
	sandlock_branches_free(v, n);
	return r;
}
