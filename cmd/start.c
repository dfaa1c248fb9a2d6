#include "cmd.h"

int cmd_start(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };

	if (sandlock_start(&ctx->env, args->operands[0], &err) < 0)
		return cmd_fail(ctx, &err);
	return 0;
}
