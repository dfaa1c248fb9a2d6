#include "cmd.h"

#include <string.h>

static int read_gids(const struct args *args, gid_t **ret, size_t *ret_n,
		     struct sandlock_error *err)
{
	auto_free const char **words = NULL;
	auto_free gid_t *gids = NULL;
	size_t n;

	if (args_list(args, "additional-gids", &words, &n) < 0)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	if (!n)
		return 0;
	gids = calloc(n, sizeof(*gids));
	if (!gids)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	for (size_t i = 0; i < n; i++) {
		char *end;
		unsigned long id;

		errno = 0;
		id = strtoul(words[i], &end, 10);
		if (errno || *end || words[i][0] < '0' || words[i][0] > '9' ||
		    id >= UINT32_MAX)
			return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
					 "'%s' is no group id", words[i]);
		gids[i] = id;
	}
	*ret = take_ptr(&gids);
	*ret_n = n;
	return 0;
}

/* The command line after NAME, without a "--" in front. */
static const char *const *command_line(const struct args *args)
{
	const char **words = args->operands + 1;

	return words[0] && !strcmp(words[0], "--") ? words + 1 : words;
}

static int read_command(const struct args *args, struct sandlock_exec *x,
			struct sandlock_error *err)
{
	x->process_file = args_str(args, "process");
	x->args = command_line(args);
	if (!x->process_file && !x->args[0]) {
		(void)cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				"process args cannot be empty");
		return cmd_hint(err, "sandlock exec %s COMMAND",
				args->operands[0]);
	}
	if (x->process_file && x->args[0])
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "a command line and --process exclude each "
				 "other");
	return 0;
}

int cmd_exec(struct ctx *ctx, struct args *args)
{
	struct sandlock_exec x = {
		.cwd = args_str(args, "cwd"),
		.user = args_str(args, "user"),
		.terminal = args_flag(args, "tty"),
		.no_new_privs = args_flag(args, "no-new-privs"),
		.apparmor = args_str(args, "apparmor"),
		.process_label = args_str(args, "process-label"),
		.console_socket = args_str(args, "console-socket"),
		.pidfd_socket = args_str(args, "pidfd-socket"),
		.pid_file = args_str(args, "pid-file"),
		.ignore_paused = args_has(args, "ignore-paused"),
		.detach = args_has(args, "detach"),
	};
	auto_free const char **env = NULL, **caps = NULL, **cgroups = NULL;
	struct sandlock_result result = { 0 };
	struct sandlock_error err = { 0 };
	auto_free gid_t *gids = NULL;
	size_t n;

	if (args_list(args, "env", &env, &n) < 0 ||
	    args_list(args, "cap", &caps, &n) < 0 ||
	    args_list(args, "cgroup", &cgroups, &n) < 0)
		return cmd_fail_memory(ctx);
	if (read_command(args, &x, &err) < 0 ||
	    read_gids(args, &gids, &x.n_additional_gids, &err) < 0 ||
	    cmd_preserve_fds(args, &x.preserve_fds, &err) < 0)
		return cmd_fail(ctx, &err);
	x.env = env;
	x.caps = caps;
	x.cgroups = cgroups;
	x.additional_gids = gids;
	if (sandlock_exec(&ctx->env, args->operands[0], &x, &result, &err) < 0)
		return cmd_fail(ctx, &err);
	return x.detach ? 0 : cmd_child_status(&result);
}
