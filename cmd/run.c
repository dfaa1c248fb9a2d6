#include "cmd.h"

#include <string.h>

/* True if the words stand for a command line of the host, no bundle. */
static bool is_host_command(const struct ctx *ctx, const struct args *args)
{
	return !ctx->engine && !args_has_value(args, "bundle") &&
	       (args->dashes || args->n_operands > 1 ||
		args_has_value(args, "exec-shell") ||
		args_has_value(args, "profile") ||
		args_has_value(args, "profile-file"));
}

/*
 * Only config.json limits a bundle. What was asked for and is not done would be
 * a sandbox that is wider than its command line says.
 */
static int refuse_command_options(const struct args *args,
				  struct sandlock_error *err)
{
	static const char *const both[] = { "keep", "no-subreaper",
					    "interactive" };

	for (size_t i = 0; i < args->n_values; i++) {
		const struct arg_value *v = &args->values[i];
		const struct opt *o = v->opt;
		bool host = o->verbs == V(RUN);

		for (size_t k = 0; k < ARRAY_LEN(both); k++)
			host = host && strcmp(o->name, both[k]) != 0;
		if (!host)
			continue;
		(void)cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				"%s is for a command of the host, not for a "
				"bundle",
				v->as);
		if (strcmp(o->name, "name") == 0)
			return cmd_hint(err, "sandlock run -b BUNDLE NAME");
		return cmd_hint(err, "config.json says what a bundle may do; "
				     "sandlock run [options] -- COMMAND");
	}
	return 0;
}

/* runc's form takes the bundle from the current directory. */
static int check_current_bundle(const struct ctx *ctx, const struct args *args,
				struct sandlock_error *err)
{
	const char *word = args->operands[0];

	if (ctx->engine || args_has_value(args, "bundle") ||
	    args_has_value(args, "config") || !access("config.json", F_OK) ||
	    errno != ENOENT)
		return 0;
	(void)cmd_error(err, SANDLOCK_ERR_BUNDLE, 0,
			"no 'config.json' in the current directory");
	if (word)
		return cmd_hint(err,
				"sandlock run -- %s runs a host command, "
				"sandlock run -b BUNDLE a bundle",
				word);
	return cmd_hint(err, "sandlock run -b BUNDLE runs a bundle");
}

/*
 * What became of the branch, in one line. Returns whether an automatic commit
 * that was asked for did not happen for a reason other than a conflict.
 */
static bool tell_outcome(const struct ctx *ctx, const struct sandlock_result *r)
{
	switch (r->outcome) {
	case SANDLOCK_OUTCOME_PENDING:
		cmd_note_pending(ctx, r->name, r->n_changes,
				 r->outcome_error.msg);
		break;
	case SANDLOCK_OUTCOME_COMMITTED:
		if (r->outcome_error.kind)
			cmd_note(ctx, "%s; %s", r->outcome_error.msg,
				 r->outcome_error.hint);
		else
			cmd_note(ctx, "committed the changes of '%s'", r->name);
		break;
	case SANDLOCK_OUTCOME_ABORTED:
		cmd_note(ctx, "discarded the changes of '%s'", r->name);
		break;
	case SANDLOCK_OUTCOME_NONE:
	case SANDLOCK_OUTCOME_EMPTY:
		if (r->outcome_error.kind)
			cmd_note(ctx, "%s", r->outcome_error.msg);
		break;
	}
	return r->outcome_error.kind &&
	       r->outcome_error.kind != SANDLOCK_ERR_CONFLICT;
}

/* An engine is told of failures only. */
static bool warn_outcome(struct ctx *ctx, const struct sandlock_result *r)
{
	if (r->outcome_error.kind)
		cmd_log(ctx, SANDLOCK_LOG_WARNING, r->outcome_error.msg);
	return false;
}

int cmd_run_status(struct ctx *ctx, const struct sandlock_result *r)
{
	bool failed = ctx->engine ? warn_outcome(ctx, r) : tell_outcome(ctx, r);
	int status = cmd_child_status(r);

	return failed && !status ? STATUS_RUN_FAILURE : status;
}

static bool is_no_bundle(struct ctx *ctx, struct args *args)
{
	return args_has_value(args, "stage") || is_host_command(ctx, args);
}

int cmd_run(struct ctx *ctx, struct args *args)
{
	auto_ptr(sandlock_request_free) struct sandlock_request *q = NULL;
	struct sandlock_bundle b = SANDLOCK_BUNDLE_INIT;
	struct sandlock_error err = { 0 };
	struct sandlock_result result = { 0 };

	if (ctx->systemd_cgroup && is_no_bundle(ctx, args)) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"--cgroup-manager=systemd is for bundles");
		(void)cmd_hint(&err, "systemd-run --user --scope -p "
				     "Delegate=yes sandlock run ...");
		return cmd_fail(ctx, &err);
	}
	if (args_has_value(args, "stage"))
		return cmd_run_stages(ctx, args);
	if (args_has(args, "keep-stages") ||
	    args_has_value(args, "stage-retries")) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"--keep-stages and --stage-retries are for "
				"stages: --stage FILE");
		return cmd_fail(ctx, &err);
	}
	if (is_host_command(ctx, args))
		return cmd_run_command(ctx, args);
	if (args->n_operands > 1) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"unexpected operand '%s' for 'run'",
				args->operands[1]);
		return cmd_fail(ctx, &err);
	}
	if (check_current_bundle(ctx, args, &err) < 0)
		return cmd_fail(ctx, &err);
	if (!ctx->engine && !args_has(args, "detach") && cmd_asks(args))
		return cmd_run_asking_bundle(ctx, args);
	if (refuse_command_options(args, &err) < 0 ||
	    cmd_bundle(ctx, args, &b, &err) < 0 ||
	    cmd_asking_bundle(args, &b, &q, &err) < 0)
		return cmd_fail(ctx, &err);
	b.detach = args_has(args, "detach");
	b.keep = args_has(args, "keep");
	if (sandlock_run(&ctx->env, &b, &result, &err) < 0)
		return cmd_fail(ctx, &err);
	cmd_note_quota(ctx, args, &result);
	if (b.detach) {
		if (!b.name)
			printf("%s\n", result.name);
		return cmd_flush(ctx);
	}
	return cmd_run_status(ctx, &result);
}
