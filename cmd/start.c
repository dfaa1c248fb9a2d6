#include "cmd.h"

int cmd_start(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };
	int status;

	if (sandlock_start(&ctx->env, args->operands[0], &err) >= 0)
		return 0;
	status = cmd_fail(ctx, &err);
	/* A poststart hook that fails has the container deleted. */
	if (err.kind == SANDLOCK_ERR_HOOK)
		cmd_note_left(ctx, args->operands[0]);
	return status;
}
