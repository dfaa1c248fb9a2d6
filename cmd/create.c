#include "cmd.h"

int cmd_create(struct ctx *ctx, struct args *args)
{
	struct sandlock_bundle b = SANDLOCK_BUNDLE_INIT;
	auto_ptr(sandlock_request_free) struct sandlock_request *q = NULL;
	struct sandlock_error err = { 0 };

	if (cmd_bundle(ctx, args, &b, &err) < 0 ||
	    cmd_asking_bundle(args, &b, &q, &err) < 0 ||
	    sandlock_create(&ctx->env, &b, &err) < 0)
		return cmd_fail(ctx, &err);
	return 0;
}
