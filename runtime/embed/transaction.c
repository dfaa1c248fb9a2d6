#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "embed/handle.h"
#include "spec/request.h"

struct stage {
	struct sandlock_sandbox *sandbox;
	struct sandlock_launch launch; /* argv is the stage's */
	uint64_t timeout_ms;	       /* its own */
	const struct sandlock_report *report;
};

struct sandlock_transaction {
	struct sandlock_env env; /* strings are ours */
	struct stage *stages;
	size_t n;
	size_t next; /* stage, after those that have succeeded */
	bool savepoints;
	bool begun, over;
	bool held;   /* the branch is there, and ours */
	bool failed; /* the next one was run, and is not undone */
	char name[256];
	atomic_bool killed;
};

/* ---------------------------------------------------------------- making -- */

static void free_words(const char *const *argv)
{
	for (size_t i = 0; argv && argv[i]; i++)
		free((char *)argv[i]);
	free((void *)argv);
}

static int copy_words(const char *const *argv, const char *const **ret)
{
	const char **copy;
	size_t n = 0;

	*ret = NULL;
	if (!argv)
		return 0;
	while (argv[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		copy[i] = strdup(argv[i]);
		if (!copy[i]) {
			free_words(copy);
			return -ENOMEM;
		}
	}
	*ret = copy;
	return 0;
}

API int sandlock_transaction_new(const struct sandlock_env *env,
				 struct sandlock_transaction **ret,
				 struct sandlock_error *err)
{
	struct sandlock_transaction *t = calloc(1, sizeof(*t));
	struct error e = ERROR_INIT;

	if (!t || handle_copy_env(env, &t->env) < 0) {
		sandlock_transaction_free(t);
		return api_result(
			error_set(&e, ERR_SYSTEM, ENOMEM, "transaction"), &e,
			err);
	}
	*ret = t;
	return api_result(0, &e, err);
}

API void sandlock_transaction_free(struct sandlock_transaction *t)
{
	if (!t)
		return;
	/* Nobody has decided: it waits. */
	if (t->held && !t->over)
		(void)decide_settle(&t->env, t->name, DISPOSE_KEEP, false,
				    false, &(struct sandlock_result){ 0 },
				    NULL);
	for (size_t i = 0; i < t->n; i++) {
		sandlock_sandbox_free(t->stages[i].sandbox);
		free_words(t->stages[i].launch.argv);
	}
	free(t->stages);
	handle_free_env(&t->env);
	free(t);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_dir(const char *a, const char *b)
{
	auto_free char *x = realpath(a, NULL);
	auto_free char *y = realpath(b, NULL);

	return same_text(x ? x : a, y ? y : b);
}

static bool same_dirs(const struct spec_strings *a,
		      const struct spec_strings *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = same_dir(a->v[i], b->v[i]);
	return same;
}

static int refuse(size_t stage, const char *why, struct error *err)
{
	return error_say(err, ERR_USAGE, EINVAL, "stage %zu: %s", stage + 1,
			 why);
}

/* What one stage may not say, because it is said for all of them. */
static int check_stage(const struct sandlock_transaction *t,
		       const struct request *r, struct error *err)
{
	const struct request *first;

	if ((r->on_exit != DISPOSE_UNSAID && r->on_exit != DISPOSE_COMMIT) ||
	    r->on_error != DISPOSE_UNSAID || r->dry_run)
		return refuse(t->n,
			      "what becomes of the branch is said by the "
			      "transaction: on_exit and on_error are not for "
			      "stages",
			      err);
	if (r->no_branch)
		return refuse(t->n, "a stage needs a branch", err);
	if (!t->n)
		return 0;
	first = t->stages[0].sandbox->request;
	if (!r->bundle != !first->bundle)
		return refuse(t->n,
			      "either all stages are bundles, over the same "
			      "root file system, or none is",
			      err);
	if (!same_dirs(&r->workdirs, &first->workdirs) ||
	    !same_text(r->chroot, first->chroot))
		return refuse(t->n,
			      "all stages work in the same directories, those "
			      "of the first one",
			      err);
	if (!same_text(r->storage, first->storage))
		return refuse(t->n, "there is one branch, kept in one place",
			      err);
	if (r->has_user != first->has_user || r->uid != first->uid ||
	    r->gid != first->gid)
		return refuse(t->n, "all stages run as the same user", err);
	if (r->name && !same_text(r->name, first->name))
		return refuse(t->n, "the name is that of the first stage", err);
	return 0;
}

static int check_launch(const struct sandlock_transaction *t,
			const struct sandlock_launch *l, struct error *err)
{
	if (l->in.kind == SANDLOCK_STDIO_PIPE ||
	    l->out.kind == SANDLOCK_STDIO_PIPE ||
	    l->err.kind == SANDLOCK_STDIO_PIPE)
		return refuse(t->n, "nobody would serve a pipe", err);
	return 0;
}

static int add_stage(struct sandlock_transaction *t,
		     const struct sandlock_request *q,
		     const struct sandlock_launch *l,
		     struct sandlock_error *err)
{
	struct stage *v = realloc(t->stages, (t->n + 1) * sizeof(*v));
	struct error e = ERROR_INIT;
	struct stage *s;
	int r;

	if (!v)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "stage"),
				  &e, err);
	t->stages = v;
	s = &v[t->n];
	*s = (struct stage){ .launch = *l };
	if (copy_words(l->argv, &s->launch.argv) < 0)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "stage"),
				  &e, err);
	r = sandlock_sandbox_new(&t->env, q, &s->sandbox, err);
	if (r < 0) {
		free_words(s->launch.argv);
		return r;
	}
	s->sandbox->is_stage = true;
	s->timeout_ms =
		l->timeout_ms ? l->timeout_ms : s->sandbox->request->timeout_ms;
	t->n++;
	return 0;
}

API int sandlock_transaction_add(struct sandlock_transaction *t,
				 const struct sandlock_request *q,
				 const struct sandlock_launch *l,
				 struct sandlock_error *err)
{
	static const struct sandlock_launch plain = { .argv = NULL };
	struct error e = ERROR_INIT;
	int r;

	l = l ? l : &plain;
	r = check_stage(t, q->request, &e);
	if (r == 0)
		r = check_launch(t, l, &e);
	if (r < 0)
		return api_result(r, &e, err);
	return add_stage(t, q, l, err);
}

/* --------------------------------------------------------------- running -- */

/* The sooner of the end of all and what the stage was given. */
static void set_timeout(struct stage *s, int64_t end_ms)
{
	uint64_t own = s->timeout_ms;
	int64_t left;

	s->launch.timeout_ms = own;
	if (end_ms < 0)
		return;
	left = end_ms - clock_now_ms();
	if (left < 1)
		left = 1;
	s->launch.timeout_ms =
		own && own < (uint64_t)left ? own : (uint64_t)left;
}

/* Stages that find the branch there have its name. */
static int set_place(struct sandlock_transaction *t, size_t i,
		     struct error *err)
{
	struct sandlock_sandbox *s = t->stages[i].sandbox;

	s->join = t->held;
	s->hand_on = i + 1 < t->n;
	s->savepoints = t->savepoints;
	s->stage = i;
	return s->join ? request_set(s->request, "name", t->name, "name", err)
		       : 0;
}

static bool has_succeeded(const struct sandlock_report *r)
{
	return r->result.exit_kind == SANDLOCK_EXIT_CODE &&
	       r->result.exit_value == 0;
}

static int run_stage(struct sandlock_transaction *t, size_t i, int64_t end_ms,
		     struct sandlock_error *err)
{
	struct stage *s = &t->stages[i];
	struct error e = ERROR_INIT;
	int r = api_result(set_place(t, i, &e), &e, err);

	if (r < 0)
		return r;
	if (atomic_load(&t->killed))
		return api_result(error_say(&e, ERR_STATE, ECANCELED,
					    "the transaction was killed"),
				  &e, err);
	set_timeout(s, end_ms);
	s->sandbox->may_run = true;
	r = sandlock_sandbox_create(s->sandbox, &s->launch, err);
	s->sandbox->may_run = false;
	/* Whoever killed it may have found nothing yet that he could. */
	if (r == 0 && atomic_load(&t->killed))
		(void)sandlock_sandbox_kill(s->sandbox, NULL);
	if (r == 0)
		r = sandlock_sandbox_start(s->sandbox, err);
	if (r == 0)
		r = sandlock_sandbox_wait(s->sandbox, -1, &s->report, err);
	if (r < 0)
		s->report = NULL;
	return r;
}

static void take_end(const struct stage *last,
		     struct sandlock_transaction_result *ret)
{
	ret->outcome = last->report->result.outcome;
	ret->outcome_error = last->report->result.outcome_error;
	/* What a stage that failed has changed is nothing, or discarded. */
	if (!has_succeeded(last->report) &&
	    ret->outcome == SANDLOCK_OUTCOME_EMPTY)
		ret->outcome = SANDLOCK_OUTCOME_ABORTED;
}

/* Whose the branch is afterwards. */
static void note_stage(struct sandlock_transaction *t, size_t i, int r)
{
	const struct stage *s = &t->stages[i];
	bool success = r == 0 && has_succeeded(s->report);

	if (!t->held && s->sandbox->name)
		(void)snprintf(t->name, sizeof(t->name), "%s",
			       s->sandbox->name);
	/* One that could not be run at all has given back what it joined. */
	if (r == 0)
		t->held = success ? i + 1 < t->n : t->savepoints;
	if (success)
		t->next = i + 1;
	t->failed = !success;
	t->over = success ? t->next == t->n : !t->savepoints;
}

static int run_all(struct sandlock_transaction *t, int64_t end_ms,
		   struct sandlock_transaction_result *ret,
		   struct sandlock_error *err)
{
	int r = 0;

	while (r == 0 && !t->over && !t->failed) {
		size_t i = t->next;

		r = run_stage(t, i, end_ms, err);
		note_stage(t, i, r);
		ret->n_run = i + 1;
		ret->failed = t->next;
	}
	(void)snprintf(ret->name, sizeof(ret->name), "%s", t->name);
	if (r == 0)
		take_end(&t->stages[ret->n_run - 1], ret);
	else if (!t->savepoints)
		decide_discard(&t->env, t->name);
	return r;
}

static int undo_failed(struct sandlock_transaction *t, struct error *err)
{
	int r = 0;

	if (t->failed && t->held)
		r = decide_roll_back(&t->env, t->name, t->next, err);
	if (r == 0)
		t->failed = false;
	return r;
}

static int begin(struct sandlock_transaction *t, struct error *err)
{
	if (!t->n)
		return error_say(err, ERR_USAGE, EINVAL,
				 "a transaction without stages");
	if (t->over || t->next == t->n)
		return error_say(err, ERR_STATE, EBUSY,
				 "this transaction has run");
	t->begun = true;
	return undo_failed(t, err);
}

API int sandlock_transaction_run(struct sandlock_transaction *t,
				 uint64_t timeout_ms,
				 struct sandlock_transaction_result *ret,
				 struct sandlock_error *err)
{
	int64_t end = timeout_ms ? clock_now_ms() + (int64_t)timeout_ms : -1;
	struct error e = ERROR_INIT;

	*ret = (struct sandlock_transaction_result){
		.outcome = SANDLOCK_OUTCOME_ABORTED,
	};
	if (begin(t, &e) < 0)
		return api_result(error_code(&e), &e, err);
	return run_all(t, end, ret, err);
}

/* ------------------------------------------------------------ savepoints -- */

API int sandlock_transaction_set_savepoints(struct sandlock_transaction *t,
					    struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r = 0;

	if (t->begun)
		r = error_say(&e, ERR_STATE, EBUSY,
			      "savepoints are asked for before the first run");
	else
		t->savepoints = true;
	return api_result(r, &e, err);
}

static int check_stopped(const struct sandlock_transaction *t,
			 struct error *err)
{
	if (!t->savepoints)
		return error_say(err, ERR_STATE, EINVAL,
				 "this transaction has no savepoints");
	if (t->over)
		return error_say(err, ERR_STATE, EINVAL,
				 "this transaction is over");
	return 0;
}

static int roll_back(struct sandlock_transaction *t, size_t n,
		     struct error *err)
{
	int r = check_stopped(t, err);

	if (r == 0 && n > t->next)
		r = error_say(err, ERR_USAGE, EINVAL,
			      "there is no state after stage %zu: %zu have "
			      "succeeded",
			      n, t->next);
	if (r == 0 && t->held && (t->failed || n < t->next))
		r = decide_roll_back(&t->env, t->name, n, err);
	if (r < 0)
		return r;
	t->next = n;
	t->failed = false;
	return 0;
}

API int sandlock_transaction_rollback(struct sandlock_transaction *t, size_t n,
				      struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	return api_result(roll_back(t, n, &e), &e, err);
}

static bool is_forced(const struct sandlock_transaction *t)
{
	return !t->stages[t->next ? t->next - 1 : 0].launch.refuse_conflicts;
}

static int settle(struct sandlock_transaction *t, enum sandlock_disposition d,
		  struct sandlock_transaction_result *ret, struct error *err)
{
	struct sandlock_result result = {
		.outcome = SANDLOCK_OUTCOME_EMPTY,
	};
	int r = undo_failed(t, err);

	if (r == 0 && t->held)
		r = decide_settle(&t->env, t->name, (enum disposition)d, true,
				  is_forced(t), &result, err);
	ret->outcome = result.outcome;
	ret->outcome_error = result.outcome_error;
	return r;
}

static int end(struct sandlock_transaction *t, enum sandlock_disposition d,
	       struct sandlock_transaction_result *ret, struct error *err)
{
	int r = check_stopped(t, err);

	if (r == 0 && d == SANDLOCK_UNSAID)
		r = error_say(err, ERR_USAGE, EINVAL,
			      "what is to become of the branch?");
	if (r < 0)
		return r;
	if (d != SANDLOCK_ABORT)
		r = settle(t, d, ret, err);
	else if (t->held)
		decide_discard(&t->env, t->name);
	if (r == 0)
		t->over = true;
	return r;
}

API int sandlock_transaction_end(struct sandlock_transaction *t,
				 enum sandlock_disposition d,
				 struct sandlock_transaction_result *ret,
				 struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	*ret = (struct sandlock_transaction_result){
		.outcome = SANDLOCK_OUTCOME_ABORTED,
		.n_run = t->next,
		.failed = t->next,
	};
	(void)snprintf(ret->name, sizeof(ret->name), "%s", t->name);
	return api_result(end(t, d, ret, &e), &e, err);
}

API struct sandlock_sandbox *
sandlock_transaction_stage(const struct sandlock_transaction *t, size_t i)
{
	return i < t->n ? t->stages[i].sandbox : NULL;
}

API void sandlock_transaction_kill(struct sandlock_transaction *t)
{
	atomic_store(&t->killed, true);
	for (size_t i = 0; i < t->n; i++)
		(void)sandlock_sandbox_kill(t->stages[i].sandbox, NULL);
}

API const struct sandlock_report *
sandlock_transaction_report(const struct sandlock_transaction *t, size_t i)
{
	return i < t->n ? t->stages[i].report : NULL;
}
