#include "cmd.h"

/* True if the words stand for a command line of the host, no bundle. */
static bool is_host_command(const struct ctx *ctx, const struct args *args)
{
	return !ctx->engine && !args_has_value(args, "bundle") &&
	       (args->dashes || args->n_operands > 1);
}

static int refuse_host_command(struct sandlock_error *err)
{
	(void)cmd_error(err, SANDLOCK_ERR_UNSUPPORTED, 0,
			"host commands are not in this version");
	return cmd_hint(err, "sandlock run -b BUNDLE NAME runs a bundle");
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

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/*
 * What became of the branch, in one line. Returns whether an automatic commit
 * that was asked for did not happen for a reason other than a conflict.
 */
static bool tell_outcome(const struct ctx *ctx, const struct sandlock_result *r)
{
	const struct sandlock_error *why = &r->outcome_error;
	size_t n = r->n_changes;

	if (why->kind) {
		cmd_note(ctx,
			 "%s; %zu change%s wait%s as '%s': sandlock diff %s",
			 why->msg, n, plural(n), n == 1 ? "s" : "", r->name,
			 r->name);
		return why->kind != SANDLOCK_ERR_CONFLICT;
	}
	switch (r->outcome) {
	case SANDLOCK_OUTCOME_PENDING:
		if (n)
			cmd_note(ctx,
				 "%zu change%s wait%s as '%s': sandlock diff "
				 "%s, then commit or abort",
				 n, plural(n), n == 1 ? "s" : "", r->name,
				 r->name);
		break;
	case SANDLOCK_OUTCOME_COMMITTED:
		if (n)
			cmd_note(ctx, "committed %zu change%s of '%s'", n,
				 plural(n), r->name);
		break;
	case SANDLOCK_OUTCOME_ABORTED:
		if (n)
			cmd_note(ctx, "discarded %zu change%s of '%s'", n,
				 plural(n), r->name);
		break;
	case SANDLOCK_OUTCOME_NONE:
	case SANDLOCK_OUTCOME_EMPTY:
		break;
	}
	return false;
}

int cmd_run(struct ctx *ctx, struct args *args)
{
	struct sandlock_bundle b = SANDLOCK_BUNDLE_INIT;
	struct sandlock_error err = { 0 };
	struct sandlock_result result = { 0 };
	bool failed;
	int status;

	if (is_host_command(ctx, args)) {
		(void)refuse_host_command(&err);
		return cmd_fail(ctx, &err);
	}
	if (args->n_operands > 1) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"unexpected operand '%s' for 'run'",
				args->operands[1]);
		return cmd_fail(ctx, &err);
	}
	if (check_current_bundle(ctx, args, &err) < 0 ||
	    cmd_bundle(ctx, args, &b, &err) < 0)
		return cmd_fail(ctx, &err);
	b.detach = args_has(args, "detach");
	b.keep = args_has(args, "keep");
	if (sandlock_run(&ctx->env, &b, &result, &err) < 0)
		return cmd_fail(ctx, &err);
	if (b.detach) {
		if (!b.name)
			printf("%s\n", result.name);
		return cmd_flush(ctx);
	}
	failed = tell_outcome(ctx, &result);
	status = cmd_child_status(&result);
	return failed && !status && !ctx->engine ? STATUS_RUN_FAILURE : status;
}
