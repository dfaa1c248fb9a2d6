#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd.h"
#include "denials.h"
#include "diff.h"
#include "spec/request.h"

/* A variable by its name alone is the caller's. */
static char *add_value(const char *name)
{
	const char *value = strchr(name, '=') ? NULL : getenv(name);
	char *pair = NULL;

	return value && asprintf(&pair, "%s=%s", name, value) >= 0 ? pair
								   : NULL;
}

static int set_one(struct sandlock_request *q, const struct request_key *k,
		   const struct arg_value *v, struct sandlock_error *err)
{
	const char *value = v->value ? v->value : v->no ? "false" : "true";
	auto_free char *pair = k->kind == REQUEST_ENV ? add_value(value) : NULL;

	return sandlock_request_set(q, k->key, pair ? pair : value, v->as, err);
}

/* Protections are for whoever runs it to waive, not for a profile. */
static int set_waived(const struct args *args, const char *option,
		      const char *key, struct sandlock_request *q,
		      struct sandlock_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < args->n_values; i++)
		if (strcmp(args->values[i].opt->name, option) == 0)
			r = sandlock_request_set(q, key, args->values[i].value,
						 args->values[i].as, err);
	return r;
}

/* An option of the command line is the key of a profile that has its name. */
static int set_keys(const struct args *args, struct sandlock_request *q,
		    struct sandlock_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < args->n_values; i++) {
		const struct arg_value *v = &args->values[i];

		for (size_t k = 0; r == 0 && k < request_n_keys; k++) {
			const char *flag = request_keys[k].flag;

			if (flag && strcmp(flag, v->opt->name) == 0)
				r = set_one(q, &request_keys[k], v, err);
		}
	}
	return r;
}

int cmd_set_request(const struct args *args, struct sandlock_request *q,
		    struct sandlock_error *err)
{
	const char *branch = args_str(args, "branch");
	int r = set_keys(args, q, err);

	if (r == 0 && args_str(args, "name"))
		r = sandlock_request_set(q, "name", args_str(args, "name"),
					 "--name", err);
	if (r == 0 && branch && strcmp(branch, "none") == 0)
		r = sandlock_request_set(q, "config.branch", "false",
					 "--branch=none", err);
	if (r == 0)
		r = set_waived(args, "allow-degraded", "allow_degraded", q,
			       err);
	if (r == 0)
		r = set_waived(args, "disable", "disable", q, err);
	if (r == 0 && args_has(args, "dry-run"))
		r = sandlock_request_set(q, "dry_run", "true", "--dry-run",
					 err);
	return r;
}

/* The profile comes first, so that options have the last word. */
static int load_profile(const struct args *args, struct sandlock_request *q,
			struct sandlock_error *err)
{
	const char *name = args_str(args, "profile");
	const char *path = args_str(args, "profile-file");

	if (name && path)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "--profile and --profile-file: only one of "
				 "them");
	if (!name && !path)
		return 0;
	return sandlock_request_load(q, name ? name : path, !name, err);
}

static int set_words(const struct args *args, struct sandlock_request *q,
		     struct sandlock_error *err)
{
	const char *shell = args_str(args, "exec-shell");
	const char *const words[] = { "/bin/sh", "-c", shell, NULL };
	const char *const *v =
		shell ? words : (const char *const *)args->operands;
	int r = 0;

	/* A command line takes the place of the profile's. */
	if (v && *v) {
		sandlock_request_clear(q, "program.exec");
		sandlock_request_clear(q, "program.args");
	}
	for (; r == 0 && v && *v; v++)
		r = sandlock_request_set(q, "program.args", *v, "COMMAND", err);
	return r;
}

/* Bundle options mean nothing here; better said than ignored. */
int cmd_refuse_bundle_options(const struct args *args,
			      struct sandlock_error *err)
{
	static const char *const names[] = {
		"config",	  "detach",	  "keep",
		"durable",	  "pid-file",	  "no-pivot",
		"no-new-keyring", "preserve-fds", "console-socket",
		"pidfd-socket",
	};
	const struct arg_value *v =
		args_first_of(args, names, ARRAY_LEN(names));

	if (v)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "%s is for bundles, not for a command of the "
				 "host",
				 v->as);
	return 0;
}

static int print_change(void *data, const struct sandlock_change *c)
{
	auto_(buf) struct buf b = BUF_INIT;

	diff_line(&b, c, false);
	buf_add_char(&b, '\n');
	return fd_write_full(*(int *)data, buf_str(&b), b.len);
}

/* Before anything is run: it is the caller's mistake. */
static int check_status_fd(const struct args *args, struct sandlock_error *err)
{
	const char *value = args_str(args, "status-fd");
	int64_t fd = args_number(args, "status-fd", -1);

	if (!value ||
	    (fd >= 0 && fd <= INT_MAX && fcntl((int)fd, F_GETFD) >= 0))
		return 0;
	return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
			 "--status-fd: '%s' is no open file descriptor", value);
}

/* Without a branch nothing would come of these. */
static int check_branch_options(const struct args *args,
				struct sandlock_error *err)
{
	const char *branch = args_str(args, "branch");

	if (!branch || strcmp(branch, "none") != 0 ||
	    (!args_str(args, "on-exit") && !args_str(args, "on-error") &&
	     !args_str(args, "storage") && !args_str(args, "quota") &&
	     !args_has(args, "dry-run")))
		return 0;
	(void)cmd_error(err, SANDLOCK_ERR_USAGE, 0,
			"there is no branch to commit, abort or store");
	return cmd_hint(err, "drop --branch=none");
}

/* One JSON line: what --status-fd is told of the end. */
struct ending {
	const char *limit; /* "timed_out", "over_quota" or NULL */
	const char *key;   /* "exit_code", "signal" or "exec_failed" */
	int value;
	const char *error; /* of what never ran, or NULL */
	const char *branch;
	size_t n_denials;
};

static int tell_ending(const struct args *args, const struct ending *e)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;
	int64_t fd = args_number(args, "status-fd", -1);
	auto_(buf) struct buf b = BUF_INIT;
	int r;

	if (fd < 0)
		return 0;
	o = json_out_new(false);
	json_out_object(o);
	if (e->limit)
		json_out_bool_member(o, e->limit, true);
	json_out_int_member(o, e->key, e->value);
	if (e->error)
		json_out_str_member(o, "error", e->error);
	json_out_str_member(o, "branch", e->branch);
	json_out_uint_member(o, "denials", e->n_denials);
	json_out_object_end(o);
	r = json_out_end(o, &b);
	return r < 0 ? r : fd_write_full((int)fd, buf_str(&b), b.len);
}

static int tell_status(const struct args *args, const struct sandlock_result *r,
		       size_t n_denials)
{
	struct ending e = {
		.key = "signal",
		.value = r->exit_value,
		.branch = r->outcome == SANDLOCK_OUTCOME_PENDING ? r->name : "",
		.n_denials = n_denials,
	};

	switch (r->exit_kind) {
	case SANDLOCK_EXIT_CODE:
		e.key = "exit_code";
		break;
	case SANDLOCK_EXIT_SIGNAL:
		break;
	case SANDLOCK_EXIT_QUOTA:
		e.limit = "over_quota";
		break;
	case SANDLOCK_EXIT_TIMEOUT:
	case SANDLOCK_EXIT_UNKNOWN:
		e.limit = "timed_out";
		break;
	}
	return tell_ending(args, &e);
}

static int fail_to_tell(struct ctx *ctx, int sys)
{
	struct sandlock_error err = { 0 };

	(void)cmd_error(&err, SANDLOCK_ERR_USAGE, sys,
			"cannot write to --status-fd");
	return cmd_fail(ctx, &err);
}

static int fail_to_run(struct ctx *ctx, const struct args *args,
		       const struct sandlock_error *cause, size_t n_denials)
{
	const struct ending e = {
		.key = "exec_failed",
		.value = cmd_fail(ctx, cause),
		.error = cause->msg,
		.branch = "",
		.n_denials = n_denials,
	};
	int r;

	if (cause->kind != SANDLOCK_ERR_EXEC_MISSING &&
	    cause->kind != SANDLOCK_ERR_EXEC_DENIED)
		return e.value;
	r = tell_ending(args, &e);
	return r < 0 ? fail_to_tell(ctx, -r) : e.value;
}

/* Nothing else says why it is dead. */
static void tell_killed(const struct ctx *ctx, const struct last_denial *l,
			const struct sandlock_result *r)
{
	if (l->n_killed)
		cmd_note(ctx, "out of memory: of '%s' %llu %s killed", r->name,
			 (unsigned long long)l->n_killed,
			 l->n_killed == 1 ? "process was" : "processes were");
}

/*
 * For a person, and only where something may have failed for it: a program
 * that tries and does without is none of their business.
 */
static void tell_denials(const struct ctx *ctx, const struct last_denial *l,
			 const struct sandlock_result *r)
{
	bool failed = r->exit_kind != SANDLOCK_EXIT_CODE || r->exit_value;

	if (!l->headline || !l->because || !l->remedy || !failed ||
	    !isatty(STDERR_FILENO))
		return;
	cmd_note(ctx, "refused: %s", l->headline);
	cmd_note(ctx, "  because: %s", l->because);
	if (r->outcome == SANDLOCK_OUTCOME_PENDING && l->n > 1)
		cmd_note(ctx, "  to allow: %s; %zu more: sandlock why %s",
			 l->remedy, l->n - 1, r->name);
	else
		cmd_note(ctx, "  to allow: %s", l->remedy);
}

/* Nobody is there to be asked, whatever a profile says. */
static int set_unattended(struct sandlock_request *q,
			  struct sandlock_error *err)
{
	const char *ask = getenv("SANDLOCK_ASK");

	return ask && strcmp(ask, "never") == 0
		       ? sandlock_request_set(q, "ask.by", "never",
					      "SANDLOCK_ASK", err)
		       : 0;
}

static int run_request(struct ctx *ctx, const struct args *args,
		       struct sandlock_request *q)
{
	struct sandlock_error err = { 0 };
	struct sandlock_result result = { 0 };
	bool terminal = isatty(0) && isatty(1) && isatty(2);
	auto_(last_denial) struct last_denial denied = { .n = 0 };
	int out = STDERR_FILENO, r;

	if (check_status_fd(args, &err) < 0)
		return cmd_fail(ctx, &err);
	if (args_has(args, "dry-run"))
		sandlock_request_on_changes(q, print_change, &out);
	sandlock_request_on_denials(q, last_denial_take, &denied);
	if (set_unattended(q, &err) < 0)
		return cmd_fail(ctx, &err);
	if (sandlock_run_command(&ctx->env, q, terminal, &result, &err) < 0)
		return fail_to_run(ctx, args, &err, denied.n);
	r = tell_status(args, &result, denied.n);
	if (r < 0)
		return fail_to_tell(ctx, -r);
	if (result.exit_kind == SANDLOCK_EXIT_TIMEOUT)
		cmd_note(ctx, "the time is over: '%s' was killed", result.name);
	cmd_note_quota(ctx, args, &result);
	tell_killed(ctx, &denied, &result);
	tell_denials(ctx, &denied, &result);
	if (args_has(args, "dry-run"))
		return cmd_child_status(&result);
	return cmd_run_status(ctx, &result);
}

int cmd_run_command(struct ctx *ctx, const struct args *args)
{
	auto_ptr(sandlock_request_free) struct sandlock_request *q =
		sandlock_request_new();
	struct sandlock_error err = { 0 };

	if (!q)
		return cmd_fail_memory(ctx);
	if (cmd_refuse_bundle_options(args, &err) < 0 ||
	    check_branch_options(args, &err) < 0 ||
	    load_profile(args, q, &err) < 0 ||
	    cmd_set_request(args, q, &err) < 0 || set_words(args, q, &err) < 0)
		return cmd_fail(ctx, &err);
	return run_request(ctx, args, q);
}

bool cmd_asks(const struct args *args)
{
	for (size_t i = 0; i < args->n_values; i++)
		if (strncmp(args->values[i].opt->name, "ask", 3) == 0)
			return true;
	return false;
}

int cmd_asking_bundle(const struct args *args, struct sandlock_bundle *b,
		      struct sandlock_request **ret, struct sandlock_error *err)
{
	int r;

	if (!cmd_asks(args))
		return 0;
	*ret = sandlock_request_new();
	if (!*ret)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM, "request");
	b->request = *ret;
	r = sandlock_request_set(*ret, "program.bundle",
				 b->bundle ? b->bundle : ".", "--bundle", err);
	if (r == 0)
		r = set_keys(args, *ret, err);
	return r == 0 ? set_unattended(*ret, err) : r;
}

/* What no key of a request stands for. */
static int refuse_command_options(const struct args *args,
				  struct sandlock_error *err)
{
	static const char *const names[] = { "exec-shell", "profile",
					     "profile-file" };
	const struct arg_value *v =
		args_first_of(args, names, ARRAY_LEN(names));

	if (v)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "%s is for a command of the host, not for a "
				 "bundle",
				 v->as);
	return 0;
}

int cmd_run_asking_bundle(struct ctx *ctx, const struct args *args)
{
	auto_ptr(sandlock_request_free) struct sandlock_request *q =
		sandlock_request_new();
	const char *dir = args_str(args, "bundle");
	struct sandlock_bundle b = SANDLOCK_BUNDLE_INIT;
	struct sandlock_error err = { 0 };

	if (!q)
		return cmd_fail_memory(ctx);
	if (refuse_command_options(args, &err) < 0 ||
	    cmd_bundle(ctx, args, &b, &err) < 0 ||
	    sandlock_request_set(q, "program.bundle", dir ? dir : ".",
				 "--bundle", &err) < 0 ||
	    cmd_set_request(args, q, &err) < 0)
		return cmd_fail(ctx, &err);
	b.keep = args_has(args, "keep");
	sandlock_request_set_bundle(q, &b);
	if (args->operands[0] &&
	    sandlock_request_set(q, "name", args->operands[0], "NAME", &err) <
		    0)
		return cmd_fail(ctx, &err);
	return run_request(ctx, args, q);
}
