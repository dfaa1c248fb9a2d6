#include "branch/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/modes.h"
#include "branch/plan.h"
#include "branch/publish.h"
#include "branch/recover.h"
#include "branch/sink.h"
#include "branch/site.h"
#include "branch/stage.h"

enum { LOCK_WAIT_MS = 5000 };

static int settle(struct branch *b, bool *ret_gone, struct error *err)
{
	const struct exit_status unknown = { .kind = EXIT_UNKNOWN };
	struct branch_settled settled;
	int r = root_settle(b, &unknown, false, &settled, err);

	if (r == 0)
		*ret_gone = settled.gone;
	return r;
}

int branch_make_ready(struct branch *b, bool force_torn, int timeout_ms,
		      bool *ret_gone, struct error *err)
{
	enum branch_state state;
	int r = root_get_state(b, &state, err);

	*ret_gone = false;
	if (r < 0)
		return r;
	switch (state) {
	case BRANCH_PENDING:
		return 0;
	case BRANCH_TORN:
		if (!force_torn)
			return settle(b, ret_gone, err);
		r = root_collapse(b, err);
		return r < 0 || branch_needs_userns(&b->meta)
			       ? r
			       : modes_open(b, err);
	case BRANCH_OPEN:
	case BRANCH_INTERRUPTED:
		return settle(b, ret_gone, err);
	case BRANCH_COMMITTING:
		r = recover_intent(b, false, timeout_ms, ret_gone, err);
		return r == 0 && *ret_gone ? branch_remove_committed(b, err)
					   : r;
	case BRANCH_COMMITTED:
		*ret_gone = true;
		return branch_remove_committed(b, err);
	}
	return 0;
}

struct work {
	struct branch *branch;
	const struct commit_options *options;
	bool prepare;
};

struct outcome {
	struct commit_result result;
	bool published; /* everything; the branch is only to be removed */
};

/* What can be done about an error that has left everything as it was. */
static int advise(struct error *e)
{
	if ((e->sys == ENOSPC || e->sys == EDQUOT) && !*e->hint)
		(void)error_hint(e, "nothing was published: free some space, "
				    "then commit again");
	return error_code(e);
}

/*
 * Nobody publishes half a commit: what was done is taken back, and the reason
 * told. If even that fails the intent stays, and with it both ways on.
 */
static int take_back(struct branch *b, struct site *s, const struct plan *p,
		     struct error *err)
{
	struct error why = ERROR_INIT;
	int r = error_code(err);

	if (commit_is_past_return(b) ||
	    faccessat(b->dir_fd, "done", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return r;
	/* A part that is published, but for what is to be removed. */
	if (!root_has(b, "intent"))
		return r;
	if (commit_back(b, s, p, &why) == 0 || !root_has(b, "intent"))
		return advise(err);
	return error_hint(err,
			  "half of it is published: 'sandlock recover %s' goes "
			  "on, with --rollback it goes back",
			  b->meta.name);
}

/*
 * Settling has put upper on disk and taken the volatile marker away, and
 * nobody writes to upper afterwards: then there is nothing to do. It leaves
 * both to us where a disposition followed at once; a durable overlay has no
 * marker that would tell.
 */
static int make_durable(struct branch *b, struct error *err)
{
	if (branch_has_marker(b))
		return branch_make_durable(b, err);
	if (!b->meta.durable || branch_wanted(&b->meta) != DISPOSE_COMMIT)
		return 0;
	return syncfs(b->upper_fd) < 0
		       ? error_set(err, ERR_SYSTEM, errno,
				   "cannot put branch '%s' on disk",
				   b->meta.name)
		       : 0;
}

/* Up to the intent, of whatever name. */
static int get_ready(struct branch *b, struct site *s, struct plan *p,
		     const char *intent, struct error *e)
{
	int r = site_make_stage(s, e);

	if (r == 0)
		r = plan_stage(p, s, e);
	if (r == 0)
		r = make_durable(b, e);
	if (r == 0) {
		branch_step("intent");
		r = intent_write(p, b->dir_fd, intent, e);
	}
	if (r == 0)
		return 0;
	(void)site_discard_stage(s, b, NULL);
	return advise(e);
}

static int carry_out(struct branch *b, struct site *s, struct plan *p,
		     struct error *err)
{
	struct error own = ERROR_INIT, *e = err ? err : &own;
	int r = get_ready(b, s, p, "intent", e);

	if (r < 0)
		return r;
	r = commit_forward(b, s, p, true, e);
	return r < 0 ? take_back(b, s, p, e) : 0;
}

/* What a commit that was killed before its intent left behind. */
static int clear_leftovers(struct branch *b, struct site *s, struct error *err)
{
	(void)unlinkat(b->dir_fd, "intent.tmp", 0);
	(void)unlinkat(b->dir_fd, "prepared", 0);
	(void)unlinkat(b->dir_fd, "published", 0);
	return site_discard_stage(s, b, err);
}

static int run_commit(void *data, struct sink *sink, struct error *err)
{
	const struct work *w = data;
	struct branch *b = w->branch;
	struct outcome *out = sink->result;
	auto_(plan) struct plan p = { .n_ops = 0 };
	auto_(site) struct site s = SITE_INIT;
	bool empty;
	int r = site_open(&s, b, w->options->lock_timeout_ms, err);

	if (r == 0)
		r = clear_leftovers(b, &s, err);
	if (r == 0)
		r = plan_commit(&p, b, &s, w->options, sink, err);
	if (r < 0)
		return r;
	empty = p.n_ops == 0 && p.n_dirs == 0;
	if (w->prepare) {
		struct error own = ERROR_INIT;

		p.partial = p.partial || b->keep;
		r = empty && p.partial ? root_prepare_nothing(b, err)
				       : get_ready(b, &s, &p, "prepared",
						   err ? err : &own);
		out->result.n_published = p.n_published;
		out->result.n_skipped = p.n_skipped;
		out->result.gone = !p.partial;
		return r;
	}
	if (empty && w->options->n_paths > 0 && p.n_skipped == 0)
		return error_say(err, ERR_NOT_FOUND, ENOENT,
				 "branch '%s' did not change '%s'",
				 b->meta.name, w->options->paths[0]);
	if (!empty)
		r = carry_out(b, &s, &p, err);
	if (r < 0)
		return r;
	out->result.n_published = p.n_published;
	out->result.n_skipped = p.n_skipped;
	out->published = !p.partial;
	return 0;
}

static int commit_locked(struct branch *b, const struct commit_options *o,
			 struct commit_result *ret, struct error *err)
{
	struct work w = { .branch = b, .options = o };
	struct outcome out = { .published = false };
	int r = branch_make_ready(b, o->force_torn, o->lock_timeout_ms,
				  &out.result.gone, err);

	if (r == 0 && !out.result.gone) {
		r = site_check(b, err);
		if (r == 0)
			r = sink_run(b, run_commit, &w, o->on_conflict, o->data,
				     &out, sizeof(out), err);
		if (r == 0 && out.published) {
			out.result.gone = true;
			r = branch_remove_committed(b, err);
		} else if (r == 0) {
			r = branch_remove_if_empty(b, true, &out.result.gone,
						   err);
		}
	}
	if (r == 0)
		*ret = out.result;
	return r;
}

int root_commit(struct branch *b, const struct commit_options *o,
		struct commit_result *ret, struct error *err)
{
	bool held = b->locked;
	int r = branch_lock(b, o->lock_timeout_ms, err);

	/* What was asked for is done. */
	if (r == -ENOENT && b->was_committed) {
		*ret = (struct commit_result){ .gone = true };
		return 0;
	}
	if (r < 0)
		return r;
	r = commit_locked(b, o, ret, err);
	if (!held)
		branch_unlock(b);
	return r;
}

int root_prepare(struct branch *b, const struct commit_options *o,
		 struct commit_result *ret, struct error *err)
{
	struct work w = { .branch = b, .options = o, .prepare = true };
	struct outcome out = { .published = false };
	int r = site_check(b, err);

	if (r == 0)
		r = sink_run(b, run_commit, &w, o->on_conflict, o->data, &out,
			     sizeof(out), err);
	if (r == 0)
		*ret = out.result;
	return r;
}

int root_prepare_nothing(struct branch *b, struct error *err)
{
	const struct plan nothing = { .partial = true };

	(void)unlinkat(b->dir_fd, "published", 0);
	return intent_write(&nothing, b->dir_fd, "prepared", err);
}

int root_promise(struct branch *b, struct error *err)
{
	branch_step("promise");
	if (renameat(b->dir_fd, "prepared", b->dir_fd, "intent") < 0 ||
	    fsync(b->dir_fd) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot write '%s/intent'", b->dir);
	return 0;
}

bool root_has(const struct branch *b, const char *name)
{
	return faccessat(b->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int unprepare(void *data, struct sink *sink, struct error *err)
{
	struct branch *b = data;
	auto_(site) struct site s = SITE_INIT;
	int r = site_open(&s, b, LOCK_WAIT_MS, err);

	return r < 0 ? r : clear_leftovers(b, &s, err);
}

int root_unprepare(struct branch *b, struct error *err)
{
	/* Then nothing was made beside it. */
	if (b->lower_fd < 0)
		return unlinkat(b->dir_fd, "prepared", 0) < 0 && errno != ENOENT
			       ? error_set(err, ERR_SYSTEM, errno,
					   "cannot remove '%s/prepared'",
					   b->dir)
			       : 0;
	return sink_run(b, unprepare, b, NULL, NULL, NULL, 0, err);
}
