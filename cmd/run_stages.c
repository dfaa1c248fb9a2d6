/* A transaction: several commands over one branch, all or nothing. */
#include <signal.h>
#include <string.h>

#include "cmd.h"

CLEANUP_PTR(struct sandlock_request, sandlock_request_free);
CLEANUP_PTR(struct sandlock_transaction, sandlock_transaction_free);

static int refuse_options(const struct args *args, struct sandlock_error *err)
{
	static const char *const names[] = {
		"profile", "profile-file", "exec-shell",
		"dry-run", "status-fd",	   "bundle",
		"on-exit", "on-error",	   "interactive",
	};

	if (args->n_operands)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "a stage's command is in its file, not on the "
				 "command line");
	for (size_t i = 0; i < args->n_values; i++)
		for (size_t k = 0; k < ARRAY_LEN(names); k++)
			if (strcmp(args->values[i].opt->name, names[k]) == 0)
				return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
						 "--%s is not for stages",
						 names[k]);
	return cmd_refuse_bundle_options(args, err);
}

/* What the command line says holds for every stage. */
static int add_stage(struct sandlock_transaction *t, const struct args *args,
		     const char *path, struct sandlock_error *err)
{
	auto_ptr(sandlock_request_free) struct sandlock_request *q =
		sandlock_request_new();
	const struct sandlock_launch l = { .refuse_conflicts = true };
	int r;

	if (!q)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	r = sandlock_request_load(q, path, true, err);
	if (r == 0)
		r = cmd_set_request(args, q, err);
	return r == 0 ? sandlock_transaction_add(t, q, &l, err) : r;
}

static int add_stages(struct sandlock_transaction *t, const struct args *args,
		      struct sandlock_error *err)
{
	int r = refuse_options(args, err);

	for (size_t i = 0; r == 0 && i < args->n_values; i++)
		if (strcmp(args->values[i].opt->name, "stage") == 0)
			r = add_stage(t, args, args->values[i].value, err);
	return r;
}

/* Whoever is at the terminal means the command; we wait for its end. */
static void leave_keys_to_command(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	(void)sigaction(SIGINT, &ignore, NULL);
	(void)sigaction(SIGQUIT, &ignore, NULL);
}

static void tell_failure(const struct ctx *ctx,
			 const struct sandlock_transaction_result *r,
			 const struct sandlock_result *stage)
{
	const char *what = stage->exit_kind == SANDLOCK_EXIT_TIMEOUT
				   ? "took too long"
				   : "failed";

	cmd_note(ctx, "stage %zu %s: nothing of '%s' is published",
		 r->failed + 1, what, r->name);
}

static int commit_status(struct ctx *ctx,
			 const struct sandlock_transaction_result *r)
{
	const struct sandlock_error *why = &r->outcome_error;

	if (r->outcome != SANDLOCK_OUTCOME_PENDING)
		return 0;
	cmd_note(ctx,
		 "%s; nothing is published, all of it waits as '%s': sandlock "
		 "diff %s, then commit or abort",
		 why->msg, r->name, r->name);
	if (why->kind == SANDLOCK_ERR_CONFLICT ||
	    why->kind == SANDLOCK_ERR_LOCKED)
		return STATUS_LOCKED;
	return STATUS_COMMIT_FAILURE;
}

int cmd_run_stages(struct ctx *ctx, const struct args *args)
{
	auto_ptr(sandlock_transaction_free) struct sandlock_transaction *t =
		NULL;
	struct sandlock_transaction_result r;
	const struct sandlock_report *report;
	struct sandlock_error err = { 0 };

	if (sandlock_transaction_new(&ctx->env, &t, &err) < 0)
		return cmd_fail(ctx, &err);
	if (add_stages(t, args, &err) < 0) {
		(void)cmd_fail(ctx, &err);
		return STATUS_STAGE_REFUSED;
	}
	leave_keys_to_command();
	if (sandlock_transaction_run(t, 0, &r, &err) < 0) {
		(void)cmd_fail(ctx, &err);
		return STATUS_STAGE_FAILURE;
	}
	if (r.failed == r.n_run)
		return commit_status(ctx, &r);
	report = sandlock_transaction_report(t, r.failed);
	tell_failure(ctx, &r, &report->result);
	return cmd_child_status(&report->result);
}
