#include <errno.h>

#include "cmd.h"

/* Who we are, for the audit log. */
static void describe_us(char ret[128])
{
	char tty[64] = "";

	if (ttyname_r(STDIN_FILENO, tty, sizeof(tty)) != 0)
		*tty = '\0';
	(void)snprintf(ret, 128, "uid %u%s%s", (unsigned int)getuid(),
		       *tty ? " on " : "", tty);
}

static int decide(struct ctx *ctx, const struct args *args, int error)
{
	struct sandlock_error err = { 0 };
	char by[128];

	describe_us(by);
	if (sandlock_decide(&ctx->env, args->operands[0], args->operands[1],
			    error, by, args_str(args, "reason"), &err) < 0)
		return cmd_fail(ctx, &err);
	return 0;
}

int cmd_approve(struct ctx *ctx, struct args *args)
{
	return decide(ctx, args, 0);
}

int cmd_deny(struct ctx *ctx, struct args *args)
{
	return decide(ctx, args, EPERM);
}
