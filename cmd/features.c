#include "cmd.h"

int cmd_features(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };
	auto_free char *json = NULL;

	if (sandlock_features(&json, &err) < 0)
		return cmd_fail(ctx, &err);
	(void)fputs(json, stdout);
	return cmd_flush(ctx);
}
