#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "branch/branch.h"
#include "embed/handle.h"
#include "spec/request.h"

#define API __attribute__((visibility("default")))

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
		s->pending = *s->root && is_stored(s);
		return;
	}
	s->pending = r->outcome == SANDLOCK_OUTCOME_PENDING &&
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

API int sandlock_sandbox_upper_dir(const struct sandlock_sandbox *s, char **ret,
				   struct sandlock_error *err)
{
	struct sandlock_sandbox *own = (struct sandlock_sandbox *)s;
	struct error e = ERROR_INIT;
	int r;

	(void)pthread_mutex_lock(&own->lock);
	r = check_pending(s, &e);
	if (r == 0 && !(*ret = strdup(s->upper)))
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "upper_dir");
	(void)pthread_mutex_unlock(&own->lock);
	return api_result(r, &e, err);
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

	handle_begin(s);
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
