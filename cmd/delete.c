#include "cmd.h"

int cmd_delete(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };

	if (sandlock_delete(&ctx->env, args->operands[0],
			    args_has(args, "force"), &err) < 0)
		return cmd_fail(ctx, &err);
	cmd_note_left(ctx, args->operands[0]);
	return 0;
}
