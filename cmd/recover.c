#include "cmd.h"

#include <string.h>

/* States that a crash leaves behind; of what is damaged it is told why. */
static bool needs_recovery(const char *state)
{
	return !strcmp(state, "interrupted") || !strcmp(state, "committing") ||
	       !strcmp(state, "committed") || !strcmp(state, "damaged");
}

static const char *action_word(enum sandlock_recovered what)
{
	switch (what) {
	case SANDLOCK_RECOVERED_SETTLED:
		return "settled";
	case SANDLOCK_RECOVERED_FORWARD:
		return "committed";
	case SANDLOCK_RECOVERED_BACK:
		return "rolled-back";
	case SANDLOCK_RECOVERED_NOTHING:
		break;
	}
	return "nothing";
}

static void tell_recovered(const char *name, enum sandlock_recovered what,
			   struct json_out *o)
{
	if (o) {
		json_out_object(o);
		json_out_str_member(o, "name", name);
		json_out_str_member(o, "action", action_word(what));
		json_out_object_end(o);
		return;
	}
	switch (what) {
	case SANDLOCK_RECOVERED_NOTHING:
		printf("nothing to recover in '%s'\n", name);
		break;
	case SANDLOCK_RECOVERED_SETTLED:
		printf("settled '%s': it is pending\n", name);
		break;
	case SANDLOCK_RECOVERED_FORWARD:
		printf("finished the commit of '%s'\n", name);
		break;
	case SANDLOCK_RECOVERED_BACK:
		printf("took the commit of '%s' back: it is pending\n", name);
		break;
	}
}

static void list_one(const struct sandlock_branch_info *b, struct json_out *o)
{
	if (!o) {
		printf("%s  %s\n", b->name, b->state);
		return;
	}
	json_out_object(o);
	json_out_str_member(o, "name", b->name);
	json_out_str_member(o, "state", b->state);
	json_out_object_end(o);
}

/* Goes on after a failure; returns the status of the first one. */
static int recover_all(struct ctx *ctx, const struct args *args,
		       const struct sandlock_branch_info *v, size_t n,
		       struct json_out *o)
{
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		enum sandlock_recovered what = SANDLOCK_RECOVERED_NOTHING;
		struct sandlock_error err = { 0 };
		int r;

		if (!needs_recovery(v[i].state))
			continue;
		if (!args_has(args, "all")) {
			list_one(&v[i], o);
			continue;
		}
		r = sandlock_recover(&ctx->env, v[i].name,
				     args_has(args, "rollback"), &what, &err);
		if (r >= 0) {
			tell_recovered(v[i].name, what, o);
			continue;
		}
		r = cmd_fail(ctx, &err);
		status = status ? status : r;
	}
	return status;
}

static int recover_listed(struct ctx *ctx, const struct args *args,
			  struct json_out *o)
{
	struct sandlock_branch_info *v = NULL;
	struct sandlock_error err = { 0 };
	size_t n = 0;
	int r;

	if (sandlock_branches(&ctx->env, &v, &n, &err) < 0)
		return cmd_fail(ctx, &err);
	r = recover_all(ctx, args, v, n, o);
	sandlock_branches_free(v, n);
	return r;
}

static int recover_one(struct ctx *ctx, const struct args *args,
		       struct json_out *o)
{
	enum sandlock_recovered what = SANDLOCK_RECOVERED_NOTHING;
	const char *name = args->operands[0];
	struct sandlock_error err = { 0 };

	if (sandlock_recover(&ctx->env, name, args_has(args, "rollback"), &what,
			     &err) < 0)
		return cmd_fail(ctx, &err);
	tell_recovered(name, what, o);
	return 0;
}

int cmd_recover(struct ctx *ctx, struct args *args)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;
	struct sandlock_error err = { 0 };
	int r, status;

	if (args_has(args, "all") && args->n_operands) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"--all and a name exclude each other");
		return cmd_fail(ctx, &err);
	}
	if (args_json(args)) {
		o = json_out_new(true);
		if (!o)
			return cmd_fail_memory(ctx);
		json_out_object(o);
		json_out_str_member(o, "schema", "sandlock.recover/1");
		json_out_key(o, args_has(args, "all") || args->n_operands
					? "recovered"
					: "to_recover");
		json_out_array(o);
	}
	r = args->n_operands ? recover_one(ctx, args, o)
			     : recover_listed(ctx, args, o);
	if (!o) {
		status = cmd_flush(ctx);
	} else {
		json_out_array_end(o);
		json_out_object_end(o);
		status = print_json(ctx, o);
	}
	return r ? r : status;
}
