#include "cmd.h"

int cmd_inspect(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };
	auto_free char *text = NULL;

	if (sandlock_inspect(&ctx->env, args->operands[0],
			     args_has(args, "toml"), &text, &err) < 0)
		return cmd_fail(ctx, &err);
	(void)fputs(text, stdout);
	return cmd_flush(ctx);
}
