#include "cmd.h"

int cmd_pause(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };

	if (sandlock_pause(&ctx->env, args->operands[0], &err) < 0)
		return cmd_fail(ctx, &err);
	return 0;
}
