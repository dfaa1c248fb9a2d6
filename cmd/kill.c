#include "cmd.h"

#include <signal.h>
#include <string.h>

#include "spec/spec.h"

int cmd_kill(struct ctx *ctx, struct args *args)
{
	const char *name = args->operands[0], *signal_name = args->operands[1];
	struct sandlock_error err = { 0 };
	int r, sig = SIGTERM;

	if (signal_name) {
		/* 0 asks whether it could be signalled, as in kill(2). */
		sig = strcmp(signal_name, "0") == 0
			      ? 0
			      : spec_signal_parse(signal_name);
		if (sig < 0) {
			(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
					"unknown signal '%s'", signal_name);
			(void)cmd_hint(&err, "a name or a number, "
					     "such as TERM or 15");
			return cmd_fail(ctx, &err);
		}
	}
	if (signal_name || ctx->engine)
		r = sandlock_kill(&ctx->env, name, sig, args_has(args, "all"),
				  &err);
	else
		r = sandlock_kill_tree(&ctx->env, name, &err);
	if (r < 0)
		return cmd_fail(ctx, &err);
	if (!signal_name)
		cmd_note_left(ctx, name);
	return 0;
}
