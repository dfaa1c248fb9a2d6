#include "cmd.h"

#include <string.h>

#include "base/limits.h"
#include "spec/request.h"

/* clang-format off */
static const struct {
	const char *name;
	enum sandlock_disposition value;
} dispositions[] = {
	{ "commit", SANDLOCK_COMMIT },
	{ "abort", SANDLOCK_ABORT },
	{ "keep", SANDLOCK_KEEP },
	{ "defer", SANDLOCK_DEFER },
};
/* clang-format on */

static enum sandlock_disposition disposition(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_LEN(dispositions); i++)
		if (!strcmp(dispositions[i].name, name))
			return dispositions[i].value;
	return SANDLOCK_UNSAID;
}

int cmd_preserve_fds(const struct args *args, unsigned int *ret,
		     struct sandlock_error *err)
{
	int64_t n = args_number(args, "preserve-fds", 0);

	if (n < 0 || n > LIMIT_PRESERVE_FDS)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "--preserve-fds must be 0 to %d",
				 LIMIT_PRESERVE_FDS);
	*ret = n;
	return 0;
}

int cmd_bundle(const struct ctx *ctx, const struct args *args,
	       struct sandlock_bundle *ret, struct sandlock_error *err)
{
	const char *branch = args_str(args, "branch");
	const char *quota = args_str(args, "quota");

	*ret = (struct sandlock_bundle){
		.name = args->operands[0],
		.bundle = args_str(args, "bundle"),
		.config = args_str(args, "config"),
		.console_socket = args_str(args, "console-socket"),
		.pidfd_socket = args_str(args, "pidfd-socket"),
		.pid_file = args_str(args, "pid-file"),
		.no_pivot = args_has(args, "no-pivot"),
		.no_new_keyring = args_has(args, "no-new-keyring"),
		.disable_cgroups = ctx->disable_cgroups,
		.systemd_cgroup = ctx->systemd_cgroup,
		.on_exit = disposition(args_str(args, "on-exit")),
		.on_error = disposition(args_str(args, "on-error")),
		.storage = args_str(args, "storage"),
		.durable = args_has(args, "durable"),
		.no_control_socket = args_flag(args, "control-socket") == 0,
		.no_supervisor = args_has(args, "no-supervisor"),
		.branch = ctx->engine ? SANDLOCK_BRANCH_ASKED
				      : SANDLOCK_BRANCH_DEFAULT,
	};
	if (quota && request_parse_size(quota, &ret->quota_bytes) < 0)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "%s: '%s' is not %s", args_as(args, "quota"),
				 quota, request_kind_wants(REQUEST_SIZE));
	if (branch)
		ret->branch = strcmp(branch, "none") ? SANDLOCK_BRANCH_DEFAULT
						     : SANDLOCK_BRANCH_NONE;
	return cmd_preserve_fds(args, &ret->preserve_fds, err);
}
