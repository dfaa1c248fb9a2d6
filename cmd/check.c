#include "cmd.h"

#include <string.h>

#include "base/path.h"

CLEANUP_PTR(struct json, json_free);

static const char *state_name(enum sandlock_check_state s)
{
	switch (s) {
	case SANDLOCK_CHECK_OK:
		return "ok";
	case SANDLOCK_CHECK_LIMITED:
		return "limited";
	case SANDLOCK_CHECK_MISSING:
		return "missing";
	}
	return "";
}

static int print_check_json(struct ctx *ctx, const struct sandlock_check *c)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.check/1");
	json_out_bool_member(o, "usable", c->usable);
	json_out_str_member(o, "tier", c->tier);
	json_out_int_member(o, "landlock_abi", c->landlock_abi);
	json_out_key(o, "checks");
	json_out_array(o);
	for (size_t i = 0; i < c->n_rows; i++) {
		const struct sandlock_check_row *r = &c->rows[i];

		json_out_object(o);
		json_out_str_member(o, "name", r->name);
		json_out_str_member(o, "state", state_name(r->state));
		json_out_str_member(o, "found", r->found);
		json_out_str_member(o, "means", r->means);
		json_out_str_member(o, "fix", r->fix);
		json_out_object_end(o);
	}
	json_out_array_end(o);
	json_out_object_end(o);
	return print_json(ctx, o);
}

static int print_check_text(struct ctx *ctx, const struct sandlock_check *c)
{
	for (size_t i = 0; i < c->n_rows; i++) {
		const struct sandlock_check_row *r = &c->rows[i];
		auto_(buf) struct buf b = BUF_INIT;

		text_escape(&b, r->found, strlen(r->found));
		printf("%-18s %-8s %s\n", r->name, state_name(r->state),
		       buf_str(&b));
		if (r->means)
			printf("%27s means: %s\n", "", r->means);
		if (r->fix)
			printf("%27s fix:   %s\n", "", r->fix);
	}
	return cmd_flush(ctx);
}

static void print_syscall(const struct json *row)
{
	const char *only = json_str_or(row, "only", NULL);
	const char *when = json_str_or(row, "when", NULL);

	printf("%-18s %-10s %s", json_str_or(row, "name", ""),
	       json_str_or(row, "group", ""), json_str_or(row, "errno", ""));
	if (only)
		printf(": %s", only);
	printf("%s%s\n", when ? ", " : "", when ? when : "");
}

static int print_syscalls(struct ctx *ctx, bool as_json)
{
	const struct json_limits limits = { 1 << 20, 8, 10000 };
	auto_ptr(json_free) struct json *list = NULL;
	struct sandlock_error err = { 0 };
	auto_free char *text = NULL;

	if (sandlock_syscalls(&text, &err) < 0)
		return cmd_fail(ctx, &err);
	if (as_json) {
		(void)fputs(text, stdout);
		return cmd_flush(ctx);
	}
	if (json_parse(text, strlen(text), &limits, "system calls", &list,
		       NULL) < 0)
		return cmd_fail_memory(ctx);
	for (size_t i = 0; i < list->n; i++)
		print_syscall(&list->items[i]);
	return cmd_flush(ctx);
}

int cmd_check(struct ctx *ctx, struct args *args)
{
	struct sandlock_check c = { 0 };
	struct sandlock_error err = { 0 };
	int status;
	bool usable;

	if (args_has(args, "syscalls"))
		return print_syscalls(ctx, args_json(args));
	if (sandlock_check(&ctx->env, &c, &err) < 0)
		return cmd_fail(ctx, &err);
	status = args_json(args) ? print_check_json(ctx, &c)
				 : print_check_text(ctx, &c);
	usable = c.usable;
	sandlock_check_done(&c);
	return status ? status : usable ? 0 : STATUS_FAILURE;
}
