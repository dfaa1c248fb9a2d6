#include "cmd.h"

static int print_aborted_json(struct ctx *ctx, const char *name,
			      const struct cmd_paths *paths)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	if (!o)
		return cmd_fail_memory(ctx);
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.abort/1");
	json_out_str_member(o, "name", name);
	json_out_bool_member(o, "whole", !paths->n);
	json_out_object_end(o);
	return print_json(ctx, o);
}

int cmd_abort(struct ctx *ctx, struct args *args)
{
	auto_(cmd_paths) struct cmd_paths paths = { 0 };
	const char *name = args->operands[0];
	struct sandlock_error err = { 0 };

	if (cmd_branch_paths(args, &paths, &err) < 0 ||
	    sandlock_abort(&ctx->env, name, paths.v, paths.n, &err) < 0)
		return cmd_fail(ctx, &err);
	if (args_json(args))
		return print_aborted_json(ctx, name, &paths);
	if (!args_has(args, "quiet"))
		printf(paths.n ? "discarded parts of '%s'\n"
			       : "discarded '%s'\n",
		       name);
	return cmd_flush(ctx);
}
