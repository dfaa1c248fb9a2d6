#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "branch/branch.h"
#include "branch/commit.h"
#include "embed/handle.h"
#include "sandbox/finish.h"
#include "spec/request.h"

static bool is_stored(const struct sandlock_sandbox *s)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;

	return store_open(s->env.store, NULL, &st, NULL) == 0 &&
	       branch_find(st, s->name, &b, NULL) == 0;
}

/*
 * A branch in which nothing was changed has gone, but whoever asked for a
 * decision gets to make it. One that was to be kept waits in the store, not
 * here.
 */
void decide_pending(struct sandlock_sandbox *s)
{
	const struct sandlock_result *r = &s->report.result;
	bool success = r->exit_kind == SANDLOCK_EXIT_CODE && !r->exit_value;
	enum disposition wanted =
		success ? s->request->on_exit : s->request->on_error;

	s->nothing = false;
	if (s->failure.kind != ERR_NONE) {
		s->pending = s->n_roots && is_stored(s);
		return;
	}
	s->pending = r->outcome == SANDLOCK_OUTCOME_PENDING && !s->is_stage &&
		     wanted != DISPOSE_KEEP;
	if (r->outcome == SANDLOCK_OUTCOME_EMPTY && wanted == DISPOSE_DEFER)
		s->pending = s->nothing = true;
}

API bool sandlock_sandbox_pending(const struct sandlock_sandbox *s)
{
	struct sandlock_sandbox *own = (struct sandlock_sandbox *)s;
	bool pending;

	(void)pthread_mutex_lock(&own->lock);
	pending = s->pending;
	(void)pthread_mutex_unlock(&own->lock);
	return pending;
}

static int check_pending(const struct sandlock_sandbox *s, struct error *err)
{
	if (s->pending)
		return 0;
	if (s->state == SANDLOCK_SANDBOX_CREATED ||
	    s->state == SANDLOCK_SANDBOX_RUNNING)
		return error_say(err, ERR_STATE, EBUSY,
				 "'%s' has not ended yet", s->name);
	return error_say(err, ERR_STATE, EINVAL, "nothing is pending");
}

/* @root NULL: the only one. */
static const struct root *find_root(const struct sandlock_sandbox *s,
				    const char *root, struct error *err)
{
	if (!root && s->n_roots == 1)
		return &s->roots[0];
	for (size_t i = 0; root && i < s->n_roots; i++)
		if (strcmp(s->roots[i].lower, root) == 0)
			return &s->roots[i];
	if (root) {
		(void)error_say(err, ERR_NOT_FOUND, ENOENT,
				"'%s' is none of the directories that are "
				"worked in",
				root);
		return NULL;
	}
	(void)error_say(err, ERR_USAGE, EINVAL,
			"there is more than one directory that is worked in");
	(void)error_hint(err, "say which, as the root of "
			      "sandlock_sandbox_upper_dir_of");
	return NULL;
}

static int get_upper(const struct sandlock_sandbox *s, const char *root,
		     char **ret, struct error *err)
{
	const struct root *found;
	int r = check_pending(s, err);

	if (r < 0)
		return r;
	found = find_root(s, root, err);
	if (!found)
		return error_code(err);
	*ret = strdup(found->upper);
	return *ret ? 0 : error_set(err, ERR_SYSTEM, ENOMEM, "upper_dir");
}

API int sandlock_sandbox_upper_dir_of(const struct sandlock_sandbox *s,
				      const char *root, char **ret,
				      struct sandlock_error *err)
{
	struct sandlock_sandbox *own = (struct sandlock_sandbox *)s;
	struct error e = ERROR_INIT;
	int r;

	(void)pthread_mutex_lock(&own->lock);
	r = get_upper(s, root, ret, &e);
	(void)pthread_mutex_unlock(&own->lock);
	return api_result(r, &e, err);
}

API int sandlock_sandbox_upper_dir(const struct sandlock_sandbox *s, char **ret,
				   struct sandlock_error *err)
{
	return sandlock_sandbox_upper_dir_of(s, NULL, ret, err);
}

/*
 * The work is done without the lock, by the one who is busy. Somebody else,
 * who had the name, may have decided.
 */
static int decide(struct sandlock_sandbox *s, bool publish,
		  struct sandlock_commit *c, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	bool gone = true;
	int r;

	r = handle_enter(s, &e);
	if (r < 0)
		return api_result(r, &e, err);
	r = api_result(check_pending(s, &e), &e, err);
	if (r == 0 && !s->nothing) {
		(void)pthread_mutex_unlock(&s->lock);
		r = publish ? sandlock_commit(&s->env, s->name, c, err)
			    : sandlock_abort(&s->env, s->name, NULL, 0, err);
		gone = r == 0 ? !publish || c->gone : !is_stored(s);
		(void)pthread_mutex_lock(&s->lock);
		if (gone)
			s->pending = false;
	} else if (r == 0) {
		s->pending = false;
	}
	handle_finish(s);
	return r;
}

API int sandlock_sandbox_commit(struct sandlock_sandbox *s,
				struct sandlock_commit *c,
				struct sandlock_error *err)
{
	struct sandlock_commit all = { .conflicts = SANDLOCK_CONFLICT_FORCE };

	return decide(s, true, c ? c : &all, err);
}

API int sandlock_sandbox_abort(struct sandlock_sandbox *s,
			       struct sandlock_error *err)
{
	return decide(s, false, NULL, err);
}

/* What was handed on to us; its lock is held. */
struct held {
	struct proc_id self;
	struct store *store;
	struct branch *branch;
};

static void held_done(struct held *h)
{
	branch_close(h->branch);
	store_close(h->store);
}

static int held_open(const struct sandlock_env *env, const char *name,
		     struct held *h, struct error *err)
{
	int r = proc_id_of(getpid(), &h->self);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "transaction");
	r = store_open(env->store, NULL, &h->store, err);
	if (r == 0)
		r = branch_find(h->store, name, &h->branch, err);
	return r == 0 ? branch_join(h->branch, &h->self, err) : r;
}

static const struct proc_id nobody;

void decide_discard(const struct sandlock_env *env, const char *name)
{
	auto_(held) struct held h = { .branch = NULL };

	if (held_open(env, name, &h, NULL) == 0 &&
	    branch_hand_on(h.branch, &nobody, NULL) == 0)
		(void)branch_abort(h.branch, NULL, 0, NULL);
}

int decide_roll_back(const struct sandlock_env *env, const char *name, size_t n,
		     struct error *err)
{
	auto_(held) struct held h = { .branch = NULL };
	int r = held_open(env, name, &h, err);

	return r == 0 ? branch_roll_back(h.branch, n, err) : r;
}

int decide_settle(const struct sandlock_env *env, const char *name,
		  enum disposition d, bool success, bool force,
		  struct sandlock_result *ret, struct error *err)
{
	const struct exit_status status = { success ? EXIT_CODE : EXIT_UNKNOWN,
					    0 };
	const struct command_options o = { .force = force };
	struct sandbox_result result = { .outcome = SANDBOX_NO_BRANCH };
	auto_(held) struct held h = { .branch = NULL };
	int r = held_open(env, name, &h, err);

	if (r < 0)
		return r;
	branch_set_disposition(h.branch, d);
	r = branch_hand_on(h.branch, &nobody, err);
	if (r < 0)
		return r;
	finish_branch(h.branch, &status, true, &o, &result);
	api_result_of(&result, ret);
	return 0;
}
