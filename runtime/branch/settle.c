/*
 * The one step at the end of a sandbox (DESIGN section 5, "Settle"). Each part
 * may be repeated, so it may be interrupted anywhere:
 *
 *	nothing alive -> empty? gone : on disk -> marker away -> meta.json
 *
 * Where the disposition follows at once it is not synced here: a commit syncs
 * itself, an abort needs nothing. The volatile marker stays then, so that a
 * branch whose disposition did not happen before a crash is known as torn.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/change.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/modes.h"
#include "branch/movable.h"
#include "branch/origin.h"
#include "branch/recover.h"
#include "branch/scan.h"
#include "branch/walk.h"

enum {
	LOCK_WAIT_MS = 5000,
	COMPARE_MAX = 1000, /* objects, bytes: what is counted exactly */
	LINGER_STEPS = 200,
	LINGER_STEP_NS = 10 * 1000 * 1000,
	COMPARE_BYTES_MAX = 16 * 1024 * 1024,
};

static int sync_fds(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fsync(fds[i]) < 0)
			return -errno;
	}
	return 0;
}

/* Few objects one by one: syncfs waits for other people's data, too. */
static int sync_upper(const struct branch *b, const struct scan *s)
{
	int r;

	if (s->over)
		return syncfs(b->dir_fd) < 0 ? -errno : 0;
	r = sync_fds(s->files, s->n_files);
	return r < 0 ? r : sync_fds(s->dirs, s->n_dirs);
}

/* What is asked, and what crosses back from the user namespace. */
struct work {
	const struct branch *b;
	bool sync, inside;
	struct found {
		size_t n_objects, n_changes;
		uint64_t bytes;
		bool cut, shut;
	} found;
};

static int scan_and_sync(void *data, int out_fd, struct error *err)
{
	struct work *w = data;
	auto_(scan) struct scan s = { .count_only = !w->sync,
				      .note_lowers = w->sync };
	int r = scan_upper(w->b, w->inside, &s);

	if (r == 0 && w->sync && s.n_objects > 0)
		r = sync_upper(w->b, &s);
	if (r == 0)
		origin_write_notes(w->b, &s.notes, &s.lowers);
	w->found = (struct found){ s.n_objects, s.n_changes, s.bytes, s.cut,
				   s.shut };
	if (r == 0 && out_fd >= 0)
		r = fd_write_full(out_fd, &w->found, sizeof(w->found));
	return r;
}

static int receive(void *data, int in_fd, struct error *err)
{
	struct work *w = data;
	ssize_t n = fd_read_full(in_fd, &w->found, sizeof(w->found));

	/* An empty answer comes with an error of the writer's. */
	return n < 0 ? (int)n : 0;
}

/*
 * An ordinary user is stopped by modes that do not stop root of the branch's
 * user namespace; it is entered only then, since the helpers that write its
 * maps cost more than all the rest. Where there is none, the modes give way.
 */
static int examine(struct branch *b, bool sync, struct found *ret)
{
	struct work w = { .b = b, .sync = sync };
	int r = b->upper_fd < 0 ? 0 : scan_and_sync(&w, -1, NULL);

	if (branch_needs_userns(&b->meta)) {
		if (r == -EACCES || r == -EPERM) {
			w.inside = true;
			r = branch_enter(b, scan_and_sync, receive, &w, NULL);
		}
	} else if (r == -EACCES || w.found.shut) {
		r = modes_open(b, NULL);
		if (r == 0)
			r = scan_and_sync(&w, -1, NULL);
	}
	*ret = w.found;
	return r;
}

struct tally {
	struct branch *branch;
	size_t shown; /* by a short diff */
	size_t kept;  /* all that would be lost with the branch */
};

static int stat_in(int root_fd, const char *path, struct stat *ret)
{
	auto_close int dirfd = -1;
	const char *name;
	int r = walk_lookup(root_fd, path, &dirfd, &name);

	if (r == 0 && fstatat(dirfd, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

/*
 * The two were compared just now. As long as the file of upper stays what it is
 * it is no change, though the host goes on to edit its own. Where this cannot
 * be noted it will count as one.
 */
static void note_equal(struct branch *b, const char *path)
{
	struct branch_meta *m = &b->meta;
	struct stat upper, lower;

	if (stat_in(b->upper_fd, path, &upper) == 0 && upper.st_nlink == 1 &&
	    stat_in(b->lower_fd, path, &lower) == 0 &&
	    time_compare(&lower.st_ctim, &m->base_time) <= 0) {
		modes_tell(m, path, &upper);
		(void)record_put(&m->equal, &m->n_equal, path, &upper);
	}
}

static int add_change(void *data, const struct change *c)
{
	struct tally *t = data;
	bool mtime = c->flags & CHANGE_MTIME_ONLY;

	if (c->flags & CHANGE_ABSENT)
		return 0;
	if ((c->flags & CHANGE_CONTENT_SAME) && !mtime) {
		note_equal(t->branch, c->path);
		return 0;
	}
	t->shown += !mtime;
	/* Something was made in that directory, and removed again. */
	t->kept += !(mtime && S_ISDIR(c->after.mode));
	return 0;
}

/*
 * Exact where that is cheap; else without a look into files, so that one that
 * was opened for writing and left as it was counts as changed.
 */
static void count_changes(struct branch *b, const struct found *f,
			  struct tally *ret)
{
	const unsigned int want = CHANGE_WANT_META | CHANGE_WANT_UNCHANGED;
	struct tally t = { .branch = b };

	*ret = (struct tally){ b, f->n_changes, f->n_objects };
	if (f->n_objects == 0 || f->n_objects > COMPARE_MAX || f->cut ||
	    f->bytes > COMPARE_BYTES_MAX)
		return;
	if (root_changes(b, want, NULL, 0, add_change, &t, NULL) == 0)
		*ret = t;
}

static int sync_failed(const struct branch *b, int sys, struct error *err)
{
	(void)error_set(err, ERR_SYSTEM, sys, "cannot put branch '%s' on disk",
			b->meta.name);
	/* Without a user namespace we have no more rights than its owner. */
	if (sys == EACCES)
		return error_hint(err,
				  "modes keep you out of it: chmod -R u+rwX "
				  "'%s', and again",
				  b->upper);
	return error_hint(err, "what it wrote is in '%s'", b->upper);
}

static int drop_marker(struct branch *b)
{
	auto_close int fd = -1;
	int r = branch_remove_marker(b);

	if (r < 0)
		return r;
	fd = b->work_fd < 0
		     ? -1
		     : openat(b->work_fd, "work/incompat",
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && fsync(fd) < 0 ? -errno : 0;
}

int branch_make_durable(struct branch *b, struct error *err)
{
	struct found found;
	int r;

	if (!branch_has_marker(b))
		return 0;
	r = examine(b, true, &found);
	if (r == 0)
		r = drop_marker(b);
	if (r < 0)
		return sync_failed(b, -r, err);
	return branch_save(b, true, err);
}

enum disposition branch_wanted(const struct branch_meta *m)
{
	if (m->status.kind == EXIT_UNKNOWN)
		return DISPOSE_DEFER;
	if (m->status.kind == EXIT_CODE && m->status.value == 0)
		return m->on_exit;
	return m->on_error;
}

static bool disposition_follows(const struct branch_meta *m)
{
	switch (branch_wanted(m)) {
	case DISPOSE_COMMIT:
	case DISPOSE_ABORT:
		return true;
	case DISPOSE_KEEP:
	case DISPOSE_DEFER:
	case DISPOSE_UNSAID:
		return false;
	}
	return false;
}

int root_wait_state(struct branch *b, enum branch_state *ret, struct error *err)
{
	const struct timespec nap = { .tv_nsec = LINGER_STEP_NS };
	int r = root_get_state(b, ret, err);

	for (int i = 0; i < LINGER_STEPS && r == 0 && *ret == BRANCH_OPEN &&
			!proc_is_alive(&b->meta.init);
	     i++) {
		(void)nanosleep(&nap, NULL);
		r = root_get_state(b, ret, err);
	}
	return r;
}

/* May it be settled: 1 yes, 0 it is already. */
static int check_state(struct branch *b, bool caller_waited, struct error *err)
{
	enum branch_state state;
	int r;

	if (caller_waited && !b->meta.settled)
		return 1;
	r = root_wait_state(b, &state, err);
	if (r < 0)
		return r;
	switch (state) {
	case BRANCH_INTERRUPTED:
		return 1;
	case BRANCH_PENDING:
	case BRANCH_COMMITTING:
	case BRANCH_COMMITTED:
		return 0;
	case BRANCH_OPEN:
		return root_say_running(b, err);
	case BRANCH_TORN:
		(void)error_say(err, ERR_TORN, EIO,
				"branch '%s' was cut off by a reboot: some of "
				"what it wrote may be missing",
				b->meta.name);
		return error_hint(err,
				  "look at 'sandlock diff %s', then "
				  "commit it with --force, or abort it",
				  b->meta.name);
	}
	return 0;
}

/*
 * Its creator died before it wrote down who lives in it, which it does before
 * it lets a payload run: all that is there was made for the payload.
 */
static bool never_ran(const struct branch *b, const struct exit_status *status)
{
	return status->kind == EXIT_UNKNOWN && b->meta.init.pid == 0 &&
	       b->meta.n_made == 0 && !b->keep;
}

static int settle_first(struct branch *b, const struct exit_status *status,
			struct branch_settled *ret, struct error *err)
{
	struct found found;
	struct tally tally;
	bool sync;
	int r;

	if (never_ran(b, status)) {
		ret->gone = true;
		return branch_remove_empty(b, err);
	}
	r = branch_undo_moves(b, err);
	if (r == 0)
		r = root_collapse(b, err);
	if (r < 0)
		return r;
	r = examine(b, false, &found);
	if (r < 0)
		return sync_failed(b, -r, err);
	count_changes(b, &found, &tally);
	if (tally.kept == 0 && !b->keep) {
		ret->gone = true;
		return branch_remove_empty(b, err);
	}
	ret->n_changes = tally.shown;
	b->meta.status = *status;
	sync = !disposition_follows(&b->meta);
	if (sync) {
		r = examine(b, true, &found);
		if (r == 0)
			r = drop_marker(b);
		if (r < 0)
			return sync_failed(b, -r, err);
	}
	b->meta.settled = true;
	return branch_save(b, sync, err);
}

static int settle_locked(struct branch *b, const struct exit_status *status,
			 bool caller_waited, struct branch_settled *ret,
			 struct error *err)
{
	struct found found;
	struct tally tally;
	int r = check_state(b, caller_waited, err);

	if (r < 0)
		return r;
	if (r == 1)
		return settle_first(b, status, ret, err);
	if (examine(b, false, &found) == 0) {
		count_changes(b, &found, &tally);
		ret->n_changes = tally.shown;
	}
	return 0;
}

int root_settle(struct branch *b, const struct exit_status *status,
		bool caller_waited, struct branch_settled *ret,
		struct error *err)
{
	struct branch_settled out = { .gone = false };
	bool held = b->locked;
	int r = branch_lock(b, LOCK_WAIT_MS, err);

	if (r == -ENOENT) {
		*ret = (struct branch_settled){ .gone = true };
		return 0;
	}
	if (r < 0)
		return r;
	r = settle_locked(b, status, caller_waited, &out, err);
	if (!held)
		branch_unlock(b);
	if (r == 0)
		*ret = out;
	return r;
}
