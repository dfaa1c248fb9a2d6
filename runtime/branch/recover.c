#include "branch/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/commit.h"
#include "branch/internal.h"
#include "branch/modes.h"
#include "branch/plan.h"
#include "branch/publish.h"
#include "branch/sink.h"
#include "branch/site.h"

enum { LOCK_WAIT_MS = 5000 };

static int write_marker(struct branch *b, const char *name, struct error *err)
{
	int r;

	branch_step(name);
	r = fd_write_atomic(b->dir_fd, name, "", 0, 0600, true);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot write '%s/%s'",
				 b->dir, name)
		     : 0;
}

static int remove_file(struct branch *b, const char *name, struct error *err)
{
	branch_step(name);
	if (unlinkat(b->dir_fd, name, 0) < 0 && errno != ENOENT)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot remove '%s/%s'", b->dir, name);
	if (fsync(b->dir_fd) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot put '%s' on disk", b->dir);
	return 0;
}

bool commit_is_past_return(const struct branch *b)
{
	return faccessat(b->dir_fd, "published", F_OK, AT_SYMLINK_NOFOLLOW) ==
	       0;
}

/* Of several roots one that is not the first: it carries out a decision. */
static bool is_further_root(const struct branch *b)
{
	return strchr(b->meta.name, '~');
}

/*
 * A part was published: from "published" on there is no way back, because
 * what was displaced leaves upper. "intent" goes first at the end, so that
 * "published" without it means nothing, and the next commit removes it. In a
 * further root it is left until then: as long as the first one's intent stands
 * it says that no root can go back.
 */
static int finish_part(struct branch *b, struct site *s, const struct plan *p,
		       struct error *err)
{
	int r = write_marker(b, "published", err);

	if (r == 0)
		r = publish_prune(s, p, err);
	if (r == 0)
		r = publish_rebase(b, s, p, false, err);
	if (r == 0) {
		branch_step("meta");
		r = branch_save(b, true, err);
	}
	if (r == 0)
		r = remove_file(b, "intent", err);
	if (r == 0 && !is_further_root(b))
		r = remove_file(b, "published", err);
	if (r < 0)
		return r;
	r = site_discard_stage(s, b, err);
	return r < 0 ? error_hint(
			       err,
			       "what was named is published: the next "
			       "commit or abort of '%s' removes what is left",
			       b->meta.name)
		     : 0;
}

static int mode_failed(const struct branch *b, int r, struct error *err)
{
	if (err && err->kind != ERR_NONE)
		return r;
	return error_set(err, ERR_SYSTEM, -r,
			 "cannot set the modes of what branch '%s' holds",
			 b->meta.name);
}

/* Nothing that is to be moved, or looked into, keeps its owner out. */
static int open_modes(struct branch *b, struct site *s, const struct plan *p,
		      struct error *err)
{
	int r = publish_open_dirs(s, p, err);

	if (r == 0)
		r = modes_reopen(b, s->upper_fd);
	if (r == 0)
		r = publish_modes(s, p, true);
	return r < 0 ? mode_failed(b, r, err) : 0;
}

int commit_forward(struct branch *b, struct site *s, const struct plan *p,
		   bool strict, struct error *err)
{
	int r = 0;

	if (!commit_is_past_return(b)) {
		r = open_modes(b, s, p, err);
		if (r == 0)
			r = publish_prepare(s, p, err);
		if (r == 0)
			r = publish_ops(s, p, strict, err);
		if (r == 0 && (r = publish_modes(s, p, false)) < 0)
			r = mode_failed(b, r, err);
		if (r == 0)
			r = publish_dirs(s, p, err);
		branch_step("sync");
		if (r == 0)
			r = site_sync(s, p, err);
	}
	if (r < 0)
		return r;
	return p->partial ? finish_part(b, s, p, err)
			  : write_marker(b, "done", err);
}

int commit_back(struct branch *b, struct site *s, const struct plan *p,
		struct error *err)
{
	int r = open_modes(b, s, p, err);

	if (r == 0)
		r = publish_undo_ops(s, p, err);
	if (r == 0)
		r = publish_undo_dirs(s, p, err);
	if (r == 0)
		r = publish_undo_prepare(s, p, err);
	branch_step("sync");
	if (r == 0)
		r = site_sync(s, p, err);
	if (r == 0)
		r = publish_rebase(b, s, p, true, err);
	if (r == 0) {
		branch_step("meta");
		r = branch_save(b, true, err);
	}
	if (r == 0)
		r = remove_file(b, "intent", err);
	return r < 0 ? r : site_discard_stage(s, b, err);
}

static int too_late(const struct branch *b, struct error *err)
{
	return error_say(err, ERR_STATE, EALREADY,
			 "the commit of branch '%s' is durable and cannot be "
			 "taken back",
			 b->meta.name);
}

struct recovery {
	struct branch *branch;
	bool rollback;
	bool strict;
	int timeout_ms;
};

static int run_recovery(void *data, struct sink *sink, struct error *err)
{
	const struct recovery *rec = data;
	struct branch *b = rec->branch;
	auto_(plan) struct plan p = { .n_ops = 0 };
	auto_(site) struct site s = SITE_INIT;
	bool *gone = sink->result;
	int r = intent_read(&p, b->dir_fd, err);

	if (r < 0)
		return r;
	/* Nothing was asked of this root: it may even be missing. */
	if (p.partial && !p.n_ops && !p.n_dirs)
		return remove_file(b, "intent", err);
	if (b->lower_fd < 0 || b->upper_fd < 0)
		return error_say(err, ERR_STATE, ESTALE,
				 "'%s' is not the directory that branch '%s' "
				 "was made on",
				 b->meta.lower, b->meta.name);
	/* It was given its mode already, and will be again. */
	if (p.n_dirs > 0 && (p.dirs[0].flags & DIR_META))
		(void)modes_let_in(b->lower_fd);
	r = site_open(&s, b, rec->timeout_ms, err);
	s.staged = p.staged;
	if (r == 0)
		r = site_find_stage(&s, err);
	if (r < 0)
		return r;
	if (!rec->strict && !commit_is_past_return(b))
		publish_heed_times(&s, &p);
	*gone = !rec->rollback && !p.partial;
	if (!rec->rollback)
		return commit_forward(b, &s, &p, rec->strict, err);
	if (commit_is_past_return(b))
		return too_late(b, err);
	return commit_back(b, &s, &p, err);
}

int recover_intent(struct branch *b, bool rollback, int timeout_ms,
		   bool *ret_gone, struct error *err)
{
	struct recovery rec = { .branch = b,
				.rollback = rollback,
				.timeout_ms = timeout_ms };

	return sink_run(b, run_recovery, &rec, NULL, NULL, ret_gone,
			sizeof(*ret_gone), err);
}

int publish_intent(struct branch *b, int timeout_ms, struct error *err)
{
	struct recovery rec = { .branch = b,
				.strict = true,
				.timeout_ms = timeout_ms };
	bool gone;

	return sink_run(b, run_recovery, &rec, NULL, NULL, &gone, sizeof(gone),
			err);
}

static int clear_lower(void *data, int out_fd, struct error *err)
{
	return site_clear_lower(data, err);
}

static int remove_lower_stage(struct branch *b, struct error *err)
{
	if (!site_has_lower_stage(b))
		return 0;
	return branch_enter(b, clear_lower, NULL, b, err);
}

int branch_remove_all(struct branch *b, struct error *err)
{
	int r = remove_lower_stage(b, err);

	return r < 0 ? r : branch_remove(b, err);
}

int branch_remove_committed(struct branch *b, struct error *err)
{
	int r = branch_remove_all(b, err);

	if (r == 0)
		return 0;
	(void)error_wrap(err, "all of '%s' is published, but it is still there",
			 b->meta.name);
	(void)error_hint(err,
			 "nothing is left to publish; when that is mended, "
			 "'sandlock recover %s' removes it",
			 b->meta.name);
	return r;
}

int root_recover(struct branch *b, bool rollback, enum recover_action *ret,
		 struct error *err)
{
	const struct exit_status unknown = { .kind = EXIT_UNKNOWN };
	struct branch_settled settled;
	enum branch_state state;
	bool held = b->locked, gone = false;
	int r = branch_lock(b, LOCK_WAIT_MS, err);

	if (r < 0)
		return r;
	r = root_get_state(b, &state, err);
	if (r == 0)
		*ret = RECOVER_NOTHING;
	switch (r < 0 ? BRANCH_PENDING : state) {
	case BRANCH_OPEN:
		break;
	case BRANCH_TORN:
	case BRANCH_PENDING:
		r = r < 0 ? r : remove_lower_stage(b, err);
		break;
	case BRANCH_INTERRUPTED:
		r = root_settle(b, &unknown, false, &settled, err);
		*ret = RECOVER_SETTLED;
		break;
	case BRANCH_COMMITTING:
		r = recover_intent(b, rollback, LOCK_WAIT_MS, &gone, err);
		if (r == 0 && gone)
			r = branch_remove_committed(b, err);
		*ret = rollback ? RECOVER_BACK : RECOVER_FORWARD;
		break;
	case BRANCH_COMMITTED:
		r = branch_remove_committed(b, err);
		*ret = RECOVER_FORWARD;
		if (r == 0 && rollback)
			r = too_late(b, err);
		break;
	}
	if (!held)
		branch_unlock(b);
	return r;
}
