/*
 * Commits of branches over several directories: every root is prepared, all
 * that can be refused is refused then, and nothing is published. The intent of
 * the first root is the decision; whoever finds it goes forward with all, and
 * without it what was prepared means nothing. The first root is done last, and
 * removed last.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "branch/internal.h"
#include "branch/publish.h"
#include "branch/recover.h"
#include "branch/roots.h"
#include "branch/site.h"

enum { LOCK_WAIT_MS = 5000 };

static void unlock_others(struct branch *b)
{
	for (size_t i = 0; i < b->n_others; i++)
		branch_unlock(b->others[i]);
}

static int lock_all(struct branch *b, int timeout_ms, struct error *err)
{
	int r = branch_lock(b, timeout_ms, err);

	for (size_t i = 0; r == 0 && i < b->n_others;) {
		r = branch_lock(b->others[i], timeout_ms, err);
		/* Somebody was about to remove all, and got no further. */
		if (r == -ENOENT && b->others[i]->was_committed) {
			roots_forget(b, i + 1);
			r = 0;
		} else {
			i++;
		}
	}
	if (r < 0)
		unlock_others(b);
	return roots_said(b, r, err);
}

/* A conflict names a path in the root. */
static int conflict_in(const struct branch *root, int r, struct error *err)
{
	if (r < 0 && err && err->kind == ERR_CONFLICT)
		return error_wrap(err, "in '%s'", root->meta.lower);
	return r;
}

/* ------------------------------------------------------------- preparing -- */

static void unprepare_all(struct branch *b)
{
	for (size_t i = 0; i < branch_n_roots(b); i++) {
		struct branch *root = branch_root(b, i);

		/* Also what was cut off before that was written. */
		if (root_has(root, "prepared") || site_has_lower_stage(root))
			(void)root_unprepare(root, NULL);
	}
}

/* Conflicts are told with the root that they are in. */
struct forward {
	const struct commit_options *o;
	const char *root;
};

static int add_root(void *data, const struct change *c)
{
	const struct forward *f = data;
	struct change out = *c;

	out.root = f->root;
	return f->o->on_conflict ? f->o->on_conflict(f->o->data, &out) : 0;
}

static int prepare_root(struct branch *b, size_t i,
			const struct commit_options *o,
			struct commit_result *ret, struct error *err)
{
	auto_free const char **part = calloc(o->n_paths + 1, sizeof(*part));
	struct branch *root = branch_root(b, i);
	struct forward f = { o, root->meta.lower };
	struct commit_options own = *o;

	if (!part)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot select");
	own.on_conflict = add_root;
	own.data = &f;
	own.paths = part;
	own.n_paths = roots_select(b, i, o->paths, o->n_paths, part);
	/* Nothing of it was asked for. */
	if (o->n_paths && !own.n_paths)
		return root_prepare_nothing(root, err);
	return conflict_in(root, root_prepare(root, &own, ret, err), err);
}

/* The first one is the last: it stays where something else does. */
static int prepare_all(struct branch *b, const struct commit_options *o,
		       struct commit_result *ret, bool *gone, struct error *err)
{
	struct error first = ERROR_INIT, local = ERROR_INIT;
	bool rest = false;
	int r = 0;

	/* All conflicts are told before the first one refuses it. */
	for (size_t i = branch_n_roots(b);
	     i-- > 0 && (r == 0 || first.kind == ERR_CONFLICT);) {
		struct commit_result part = { 0 };
		int n;

		b->keep = i == 0 && rest;
		n = prepare_root(b, i, o, &part, &local);
		b->keep = false;
		if (n < 0 && r == 0) {
			r = n;
			first = local;
		}
		gone[i] = n == 0 && part.gone;
		rest |= !gone[i];
		ret->n_published += part.n_published;
		ret->n_skipped += part.n_skipped;
	}
	if (r < 0 && err)
		*err = first;
	return r;
}

/* ------------------------------------------------------------ publishing -- */

static int forward_root(struct branch *root, bool is_new, int timeout_ms,
			struct error *err)
{
	bool gone;

	return is_new ? publish_intent(root, timeout_ms, err)
		      : recover_intent(root, false, timeout_ms, &gone, err);
}

/* From wherever it was left, to the end: the first root comes last. */
static int go_forward(struct branch *b, bool is_new, int timeout_ms,
		      struct error *err)
{
	int r = 0;

	for (size_t i = branch_n_roots(b); r == 0 && i-- > 0;) {
		struct branch *root = branch_root(b, i);

		if (root_has(root, "prepared"))
			r = root_promise(root, err);
		if (r == 0 && root_has(root, "intent") &&
		    !root_has(root, "done"))
			r = conflict_in(
				root,
				forward_root(root, is_new, timeout_ms, err),
				err);
	}
	for (size_t i = 0; r == 0 && i < b->n_others; i++)
		(void)unlinkat(b->others[i]->dir_fd, "published", 0);
	return r;
}

static bool is_decided(const struct branch *b)
{
	return root_has(b, "intent") || root_has(b, "done");
}

/*
 * What the first root decided is carried out, or a part of what a root was
 * asked for is published already, and what was displaced by it gone. Other
 * roots that are done are still whole as long as the first one is not, and
 * those of which nothing was asked are what they were.
 */
static bool is_past_return(struct branch *b)
{
	bool decided = is_decided(b);

	for (size_t i = 0; i < branch_n_roots(b); i++) {
		struct branch *root = branch_root(b, i);
		bool intent = root_has(root, "intent");

		if ((i == 0 || !decided || !intent) && root_has(root, "done"))
			return true;
		if ((intent || (decided && i > 0)) &&
		    commit_is_past_return(root))
			return true;
	}
	return false;
}

/* While the decision stands: they are as they were just before. */
static int undo_done(struct branch *b, struct error *err)
{
	for (size_t i = 0; i < b->n_others; i++) {
		struct branch *root = b->others[i];

		if (!root_has(root, "done"))
			continue;
		branch_step("undone");
		if (unlinkat(root->dir_fd, "done", 0) < 0 ||
		    fsync(root->dir_fd) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot remove '%s/done'", root->dir);
	}
	return 0;
}

/* The decision is taken back first. */
static int go_back(struct branch *b, int timeout_ms, struct error *err)
{
	bool gone;
	int r;

	if (is_past_return(b))
		return error_say(err, ERR_STATE, EALREADY,
				 "the commit of branch '%s' is in part durable "
				 "and cannot be taken back",
				 b->meta.name);
	r = undo_done(b, err);
	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++) {
		struct branch *root = branch_root(b, i);

		if (root_has(root, "intent"))
			r = recover_intent(root, true, timeout_ms, &gone, err);
		else if (root_has(root, "prepared"))
			r = root_unprepare(root, err);
	}
	return r;
}

static int go_on(struct branch *b, int timeout_ms, struct error *err)
{
	return is_decided(b) ? go_forward(b, false, timeout_ms, err)
			     : go_back(b, timeout_ms, err);
}

/* Roots of which everything was published go. */
static int remove_done(struct branch *b, bool *ret_gone, struct error *err)
{
	int r = 0;

	for (size_t i = b->n_others; r == 0 && i > 0; i--) {
		struct branch *root = branch_root(b, i);

		if (!root_has(root, "done"))
			continue;
		r = branch_remove_committed(root, err);
		if (r == 0)
			roots_forget(b, i);
	}
	*ret_gone = false;
	if (r < 0 || !root_has(b, "done"))
		return r;
	*ret_gone = true;
	return branch_remove_committed(b, err);
}

static int publish_all(struct branch *b, int timeout_ms, struct error *err)
{
	struct error why = ERROR_INIT;
	int r = root_promise(b, err);

	if (r == 0)
		r = go_forward(b, true, timeout_ms, err);
	if (r == 0 || go_back(b, timeout_ms, &why) == 0)
		return r;
	return error_hint(err,
			  "a part is published: 'sandlock recover %s' goes "
			  "on, with --rollback it goes back",
			  b->meta.name);
}

/* ---------------------------------------------------------------- verbs -- */

int roots_make_ready(struct branch *b, bool force_torn, int timeout_ms,
		     bool *ret_gone, struct error *err)
{
	enum branch_state state;
	int r = branch_get_state(b, &state, err);

	*ret_gone = false;
	if (r == 0 &&
	    (state == BRANCH_COMMITTING || state == BRANCH_COMMITTED)) {
		r = go_on(b, timeout_ms, err);
		if (r == 0)
			r = remove_done(b, ret_gone, err);
		if (r < 0 || *ret_gone)
			return r;
	}
	for (size_t i = b->n_others; r == 0 && i > 0; i--) {
		bool gone;

		r = branch_make_ready(branch_root(b, i), force_torn, timeout_ms,
				      &gone, err);
		if (r == 0 && gone)
			roots_forget(b, i);
	}
	if (r < 0)
		return r;
	b->keep = b->n_others > 0;
	r = branch_make_ready(b, force_torn, timeout_ms, ret_gone, err);
	b->keep = false;
	return r;
}

static int commit_all(struct branch *b, const struct commit_options *o,
		      struct commit_result *ret, struct error *err)
{
	auto_free bool *gone = calloc(branch_n_roots(b), sizeof(*gone));
	struct error own = ERROR_INIT;
	int r;

	if (!gone)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot commit");
	r = roots_make_ready(b, o->force_torn, o->lock_timeout_ms, &ret->gone,
			     err);
	if (r < 0 || ret->gone)
		return r;
	r = prepare_all(b, o, ret, gone, err);
	if (r == 0 && o->n_paths && !ret->n_published && !ret->n_skipped)
		r = error_say(err, ERR_NOT_FOUND, ENOENT,
			      "branch '%s' did not change '%s'", b->meta.name,
			      o->paths[0]);
	if (r < 0) {
		unprepare_all(b);
		return r;
	}
	r = publish_all(b, o->lock_timeout_ms, err ? err : &own);
	return r < 0 ? r : remove_done(b, &ret->gone, err);
}

int branch_commit(struct branch *b, const struct commit_options *o,
		  struct commit_result *ret, struct error *err)
{
	struct commit_result result = { 0 };
	bool held = b->locked;
	int r;

	if (!b->n_others)
		return root_commit(b, o, ret, err);
	r = lock_all(b, o->lock_timeout_ms, err);
	if (r == -ENOENT && b->was_committed) {
		*ret = (struct commit_result){ .gone = true };
		return 0;
	}
	if (r < 0)
		return r;
	r = commit_all(b, o, &result, err);
	unlock_others(b);
	if (!held)
		branch_unlock(b);
	if (r == 0)
		*ret = result;
	return roots_said(b, r, err);
}

static int recover_all(struct branch *b, bool rollback,
		       enum recover_action *ret, struct error *err)
{
	const struct exit_status unknown = { .kind = EXIT_UNKNOWN };
	struct branch_settled settled;
	enum branch_state state;
	bool gone;
	int r = branch_get_state(b, &state, err);

	*ret = RECOVER_NOTHING;
	switch (r < 0 ? BRANCH_OPEN : state) {
	case BRANCH_OPEN:
		break;
	case BRANCH_TORN:
	case BRANCH_PENDING:
		unprepare_all(b);
		break;
	case BRANCH_INTERRUPTED:
		*ret = RECOVER_SETTLED;
		r = branch_settle(b, &unknown, false, &settled, err);
		break;
	case BRANCH_COMMITTING:
	case BRANCH_COMMITTED:
		*ret = rollback ? RECOVER_BACK : RECOVER_FORWARD;
		if (rollback)
			return go_back(b, LOCK_WAIT_MS, err);
		if (!is_decided(b))
			*ret = RECOVER_BACK;
		r = go_on(b, LOCK_WAIT_MS, err);
		if (r == 0)
			r = remove_done(b, &gone, err);
		break;
	}
	return r;
}

int branch_recover(struct branch *b, bool rollback, enum recover_action *ret,
		   struct error *err)
{
	bool held = b->locked;
	int r;

	if (!b->n_others)
		return root_recover(b, rollback, ret, err);
	r = lock_all(b, LOCK_WAIT_MS, err);
	if (r < 0)
		return r;
	r = recover_all(b, rollback, ret, err);
	unlock_others(b);
	if (!held)
		branch_unlock(b);
	return roots_said(b, r, err);
}
