/* Discarding: everything by one rename, or parts of upper. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/commit.h"
#include "branch/internal.h"
#include "branch/recover.h"
#include "branch/select.h"
#include "branch/walk.h"

enum { LOCK_WAIT_MS = 5000 };

/* The time of a directory in which something was discarded is no change. */
static int stop_at_change(void *data, const struct change *c)
{
	const bool *dir_times = data;

	return *dir_times || !S_ISDIR(c->after.mode) ||
	       !(c->flags & CHANGE_MTIME_ONLY);
}

int branch_remove_if_empty(struct branch *b, bool dir_times, bool *ret_gone,
			   struct error *err)
{
	int r = root_changes(b, CHANGE_WANT_META, NULL, 0, stop_at_change,
			     &dir_times, err);

	if (r || b->keep)
		return r < 0 ? r : 0;
	*ret_gone = true;
	return branch_remove_all(b, err);
}

struct work {
	struct branch *branch;
	const struct selection *selection;
	int trash_fd;
};

/* A path of upper that is nobody's in the lower's view: out of sight. */
static int drop_path(const struct work *w, const char *path, size_t i,
		     struct error *err)
{
	auto_close int dirfd = -1;
	auto_(buf) struct buf quoted = BUF_INIT;
	struct object dir;
	const char *name;
	char to[24];
	int r = walk_lookup(w->branch->upper_fd, path, &dirfd, &name);

	path_quote(&quoted, path, strlen(path));
	(void)snprintf(to, sizeof(to), "a%zu", i);
	if (r == 0)
		r = object_stat(dirfd, "", &dir);
	if (r == 0 &&
	    renameat2(dirfd, name, w->trash_fd, to, RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot discard '%s'",
				 buf_str(&quoted));
	(void)object_set_mtime(dirfd, "", dir.mtime);
	return 0;
}

static int check_paths(void *data, int out_fd, struct error *err)
{
	const struct work *w = data;

	return selection_check(w->selection, w->branch->meta.name,
			       w->branch->upper_fd, err);
}

static int drop_paths(void *data, int out_fd, struct error *err)
{
	struct work *w = data;
	struct branch *b = w->branch;
	auto_close int trash_fd = -1;
	int r = selection_check(w->selection, b->meta.name, b->upper_fd, err);

	if (r < 0)
		return r;
	if (mkdirat(b->dir_fd, "trash", 0700) < 0 && errno != EEXIST) {
		r = error_set(err, ERR_SYSTEM, errno, "cannot make '%s/trash'",
			      b->dir);
		return r == -ENOSPC || r == -EDQUOT
			       ? error_hint(err, "free some space, or abort "
						 "the whole branch")
			       : r;
	}
	trash_fd = openat(b->dir_fd, "trash",
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (trash_fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot open '%s/trash'", b->dir);
	w->trash_fd = trash_fd;
	for (size_t i = 0; i < w->selection->n && r == 0; i++)
		r = drop_path(w, w->selection->paths[i], i, err);
	if (r == 0 && fsync(b->upper_fd) < 0)
		r = error_set(err, ERR_SYSTEM, errno, "cannot sync '%s'",
			      b->upper);
	return r;
}

static int discard_trash(struct branch *b, struct error *err)
{
	if (faccessat(b->dir_fd, "trash", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return store_discard(b, b->dir_fd, "trash", err);
}

static int abort_part(struct branch *b, const struct selection *s,
		      struct error *err)
{
	struct work w = { .branch = b, .selection = s, .trash_fd = -1 };
	bool gone = false;
	int r = branch_make_ready(b, true, LOCK_WAIT_MS, &gone, err);

	if (r == 0 && gone)
		return selection_say_unchanged(b->meta.name, s->paths[0], err);
	if (r < 0)
		return r;
	r = discard_trash(b, err);
	if (r == 0)
		r = branch_enter(b, drop_paths, NULL, &w, err);
	if (r == 0)
		r = discard_trash(b, err);
	return r < 0 ? r : branch_remove_if_empty(b, false, &gone, err);
}

int branch_hint_running(const struct branch *b, struct error *err)
{
	char process[64] = "";

	/* Where the runtime directory was lost kill knows no such name. */
	if (proc_is_alive(&b->meta.init))
		(void)snprintf(process, sizeof(process),
			       "; its first process is %d",
			       (int)b->meta.init.pid);
	if (b->meta.hidden)
		return error_hint(err,
				  "it runs without a control socket: end its "
				  "command itself, or wait%s",
				  process);
	return error_hint(err, "'sandlock kill %s' ends it%s", b->meta.name,
			  process);
}

int root_say_running(const struct branch *b, struct error *err)
{
	(void)error_say(err, ERR_STATE, EBUSY,
			"the sandbox of branch '%s' is running", b->meta.name);
	return branch_hint_running(b, err);
}

static int say_committing(const struct branch *b, struct error *err)
{
	(void)error_say(err, ERR_STATE, EBUSY,
			"a commit of branch '%s' was interrupted",
			b->meta.name);
	return error_hint(err, "first 'sandlock recover %s%s'",
			  commit_is_past_return(b) ? "" : "--rollback ",
			  b->meta.name);
}

int root_check_undecided(const struct branch *b, enum branch_state state,
			 struct error *err)
{
	switch (state) {
	case BRANCH_OPEN:
		return root_say_running(b, err);
	case BRANCH_COMMITTING:
		return say_committing(b, err);
	case BRANCH_COMMITTED:
		return error_say(err, ERR_STATE, EALREADY,
				 "branch '%s' was committed: nothing is left "
				 "to discard",
				 b->meta.name);
	case BRANCH_INTERRUPTED:
	case BRANCH_TORN:
	case BRANCH_PENDING:
		break;
	}
	return 0;
}

static int check_undecided(struct branch *b, struct error *err)
{
	enum branch_state state;
	int r = root_wait_state(b, &state, err);

	if (r == 0 && state == BRANCH_COMMITTED)
		r = branch_remove_committed(b, err);
	return r < 0 ? r : root_check_undecided(b, state, err);
}

int root_check_paths(struct branch *b, const char *const *paths, size_t n_paths,
		     struct error *err)
{
	auto_(selection) struct selection s = { .n = 0 };
	struct work w = { .branch = b, .selection = &s, .trash_fd = -1 };
	int r = selection_init(&s, b, paths, n_paths, err);

	return r < 0 ? r : branch_enter(b, check_paths, NULL, &w, err);
}

int root_abort(struct branch *b, const char *const *paths, size_t n_paths,
	       struct error *err)
{
	auto_(selection) struct selection s = { .n = 0 };
	bool held = b->locked, whole = n_paths == 0;
	int r = selection_init(&s, b, paths, n_paths, err);

	for (size_t i = 0; i < s.n; i++)
		whole = whole || !s.paths[i][0];
	if (r == 0)
		r = branch_lock(b, LOCK_WAIT_MS, err);
	if (r < 0)
		return r;
	r = check_undecided(b, err);
	if (r == 0)
		r = whole ? branch_remove_all(b, err) : abort_part(b, &s, err);
	if (!held)
		branch_unlock(b);
	return r;
}
