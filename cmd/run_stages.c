/* A transaction: several commands over one branch, all or nothing. */
#include <signal.h>
#include <string.h>

#include "cmd.h"

CLEANUP_PTR(struct sandlock_transaction, sandlock_transaction_free);

static int refuse_options(const struct args *args, struct sandlock_error *err)
{
	static const char *const names[] = {
		"profile", "profile-file", "exec-shell",
		"dry-run", "status-fd",	   "bundle",
		"on-exit", "on-error",	   "interactive",
	};
	const struct arg_value *v =
		args_first_of(args, names, ARRAY_LEN(names));

	if (args->n_operands)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "a stage's command is in its file, not on the "
				 "command line");
	if (v)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "%s is not for stages", v->as);
	return cmd_refuse_bundle_options(args, err);
}

/* What the command line says holds for every stage. */
static int add_stage(struct sandlock_transaction *t, const struct args *args,
		     const char *path, size_t i, size_t *ret_n,
		     struct sandlock_error *err)
{
	auto_ptr(sandlock_request_free) struct sandlock_request *q =
		sandlock_request_new();
	const struct sandlock_launch l = { .refuse_conflicts = true };
	int r;

	if (!q)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	r = sandlock_request_load_stage(q, path, i, ret_n, err);
	if (r == 0)
		r = cmd_set_request(args, q, err);
	return r == 0 ? sandlock_transaction_add(t, q, &l, err) : r;
}

static int add_file(struct sandlock_transaction *t, const struct args *args,
		    const char *path, struct sandlock_error *err)
{
	size_t n = 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_stage(t, args, path, i, &n, err);
	return r;
}

static int64_t count_retries(const struct args *args)
{
	return args_number(args, "stage-retries", 0);
}

static bool has_savepoints(const struct args *args)
{
	return args_has(args, "keep-stages") || count_retries(args) > 0;
}

static int add_stages(struct sandlock_transaction *t, const struct args *args,
		      struct sandlock_error *err)
{
	int r = refuse_options(args, err);

	if (r == 0 && count_retries(args) < 0)
		r = cmd_error(err, SANDLOCK_ERR_USAGE, 0,
			      "--stage-retries: not less than none");
	for (size_t i = 0; r == 0 && i < args->n_values; i++)
		if (strcmp(args->values[i].opt->name, "stage") == 0)
			r = add_file(t, args, args->values[i].value, err);
	return r == 0 && has_savepoints(args)
		       ? sandlock_transaction_set_savepoints(t, err)
		       : r;
}

/* Whoever is at the terminal means the command; we wait for its end. */
static void leave_keys_to_command(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	(void)sigaction(SIGINT, &ignore, NULL);
	(void)sigaction(SIGQUIT, &ignore, NULL);
}

static const char *what_failed(const struct sandlock_result *stage)
{
	switch (stage->exit_kind) {
	case SANDLOCK_EXIT_TIMEOUT:
		return "took too long";
	case SANDLOCK_EXIT_QUOTA:
		return "went over its quota";
	case SANDLOCK_EXIT_CODE:
	case SANDLOCK_EXIT_SIGNAL:
	case SANDLOCK_EXIT_UNKNOWN:
		break;
	}
	return "failed";
}

/* What is left when a stage has failed for good. */
static void tell_failure(const struct ctx *ctx,
			 const struct sandlock_transaction_result *r,
			 const struct sandlock_transaction_result *kept,
			 const char *what)
{
	if (kept->outcome == SANDLOCK_OUTCOME_PENDING)
		cmd_note(ctx,
			 "stage %zu %s, and is undone: what was written before "
			 "waits as '%s': sandlock diff %s, then commit or "
			 "abort",
			 r->failed + 1, what, kept->name, kept->name);
	else
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

struct outcome {
	struct sandlock_transaction_result all, kept;
};

/* Each stage has as many attempts more as were asked for. */
static int run_with_retries(struct ctx *ctx, const struct args *args,
			    struct sandlock_transaction *t, struct outcome *o,
			    struct sandlock_error *err)
{
	int64_t left = count_retries(args);
	size_t last = 0;

	for (;;) {
		const struct sandlock_transaction_result *r = &o->all;
		const struct sandlock_report *report;

		if (sandlock_transaction_run(t, 0, &o->all, err) < 0)
			return -1;
		if (r->failed == r->n_run)
			return 0;
		if (r->failed != last)
			left = count_retries(args);
		last = r->failed;
		if (left-- <= 0)
			return 0;
		report = sandlock_transaction_report(t, last);
		cmd_note(ctx, "stage %zu %s, and is run again", last + 1,
			 what_failed(&report->result));
	}
}

static void end_stopped(struct ctx *ctx, const struct args *args,
			struct sandlock_transaction *t, struct outcome *o)
{
	bool keep = args_has(args, "keep-stages");
	struct sandlock_error err = { 0 };

	if (has_savepoints(args) &&
	    sandlock_transaction_end(t, keep ? SANDLOCK_KEEP : SANDLOCK_ABORT,
				     &o->kept, &err) < 0)
		(void)cmd_fail(ctx, &err);
}

static int run(struct ctx *ctx, const struct args *args,
	       struct sandlock_transaction *t)
{
	struct outcome o = { .all = { .n_run = 0 } };
	const struct sandlock_result *stage;
	struct sandlock_error err = { 0 };

	if (run_with_retries(ctx, args, t, &o, &err) < 0) {
		(void)cmd_fail(ctx, &err);
		end_stopped(ctx, args, t, &o);
		if (o.kept.outcome == SANDLOCK_OUTCOME_PENDING)
			tell_failure(ctx, &o.all, &o.kept, "could not be run");
		return STATUS_STAGE_FAILURE;
	}
	if (o.all.failed == o.all.n_run)
		return commit_status(ctx, &o.all);
	stage = &sandlock_transaction_report(t, o.all.failed)->result;
	end_stopped(ctx, args, t, &o);
	tell_failure(ctx, &o.all, &o.kept, what_failed(stage));
	return cmd_child_status(stage);
}

int cmd_run_stages(struct ctx *ctx, const struct args *args)
{
	auto_ptr(sandlock_transaction_free) struct sandlock_transaction *t =
		NULL;
	struct sandlock_error err = { 0 };

	if (sandlock_transaction_new(&ctx->env, &t, &err) < 0)
		return cmd_fail(ctx, &err);
	if (add_stages(t, args, &err) < 0) {
		(void)cmd_fail(ctx, &err);
		return STATUS_STAGE_REFUSED;
	}
	leave_keys_to_command();
	return run(ctx, args, t);
}
