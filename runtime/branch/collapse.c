/*
 * Several uppers become one (branch/layers.h). The newest stays; into it moves
 * what an older one holds and the newer has nothing at. All by renames, so
 * inodes, hard links and attributes stay what they are. What loses stays where
 * it is and goes with its layer, at the end: whatever was cut off is done again
 * and meets the same.
 *
 *	newest <- layer N, ..., layer 1	merge_layer
 *	layers away			drop_layers
 *	whiteouts of nothing away	sweep
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/modes.h"
#include "branch/movable.h"
#include "branch/publish.h"
#include "branch/walk.h"

enum { KEY_MAX = 64 };

/* One walk over two trees, of which the second one is changed. */
struct merge {
	struct walk walk;
	bool sweep;
	char opaque_key[KEY_MAX], origin_key[KEY_MAX], mtime_key[KEY_MAX];
};

static void merge_done(struct merge *m)
{
	walk_done(&m->walk);
}

/*
 * What moves in changes a directory's mtime. The one it had is noted on the
 * directory itself, so that it survives a kill.
 */
static int note_mtime(const struct merge *m, int dirfd)
{
	struct stat st;
	int r;

	if (xattr_get(dirfd, ".", m->mtime_key, NULL, 0) > 0)
		return 0;
	if (fstatat(dirfd, ".", &st, 0) < 0)
		return -errno;
	r = xattr_set(dirfd, ".", m->mtime_key, &st.st_mtim,
		      sizeof(st.st_mtim));
	return r;
}

/* @dirfd may be O_PATH. */
static int restore_mtime(const struct merge *m, int dirfd)
{
	struct timespec mtime;
	ssize_t n = xattr_get(dirfd, ".", m->mtime_key, &mtime, sizeof(mtime));
	int r;

	if (n != sizeof(mtime))
		return n < 0 && n != -ENODATA && n != -EOPNOTSUPP ? (int)n : 0;
	r = object_set_mtime(dirfd, ".", mtime);
	return r < 0 ? r : xattr_remove(dirfd, ".", m->mtime_key);
}

static int move_over(const struct merge *m, const struct walk_entry *e)
{
	int r = note_mtime(m, e->lower_dirfd);

	if (r < 0)
		return r;
	branch_step("collapse");
	return renameat2(e->upper_dirfd, e->name, e->lower_dirfd, e->name,
			 RENAME_NOREPLACE) < 0
		       ? -errno
		       : 0;
}

static int make_opaque(const struct merge *m, int dirfd, const char *name)
{
	branch_step("opaque");
	return xattr_set(dirfd, name, m->opaque_key, "y", 1);
}

/*
 * "Copied up" is to mean from the lower: what an earlier stage has made is new,
 * though a later one wrote to it, and what it has copied is from where it was.
 */
static int set_origin(const struct merge *m, const struct walk_entry *e)
{
	char value[256]; /* a handle is 128 */
	ssize_t n;

	if (e->whiteout ||
	    xattr_get(e->lower_dirfd, e->name, m->origin_key, NULL, 0) < 0)
		return 0;
	n = xattr_get(e->upper_dirfd, e->name, m->origin_key, value,
		      sizeof(value));
	if (n < 0)
		return xattr_remove(e->lower_dirfd, e->name, m->origin_key);
	/* An ordinary user's says nothing more. */
	return n == 0 ? 0
		      : xattr_set(e->lower_dirfd, e->name, m->origin_key, value,
				  (size_t)n);
}

/* @e->upper is the older one, @e->lower the newer. 1: go into it. */
static int merge_entry(const struct merge *m, const struct walk_entry *e)
{
	bool newer_dir = S_ISDIR(e->lower.mode);
	int r;

	if (e->path_len == 0)
		return 1;
	if (!e->lower.mode)
		return move_over(m, e);
	r = set_origin(m, e);
	if (r < 0)
		return r;
	if (!newer_dir ||
	    xattr_is_opaque(e->lower_dirfd, e->name, m->walk.prefix))
		return 0;
	if (S_ISDIR(e->upper.mode))
		return 1;
	/* It hid what lies below, and the newer one does not say so itself. */
	return make_opaque(m, e->lower_dirfd, e->name);
}

/* The older one's mark comes last, when nothing is to be moved any more. */
static int merge_leave(const struct merge *m, const struct walk_entry *e)
{
	const char *name = e->path_len ? e->name : ".";
	auto_close int fd =
		openat(e->lower_dirfd, name,
		       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : restore_mtime(m, fd);

	if (r == 0 && e->path_len &&
	    xattr_is_opaque(e->upper_dirfd, e->name, m->walk.prefix))
		r = make_opaque(m, e->lower_dirfd, e->name);
	return r;
}

/* Upper over the lower: a whiteout that hides nothing is in the way. */
static int sweep_entry(const struct merge *m, const struct walk_entry *e)
{
	int r;

	if (S_ISDIR(e->upper.mode))
		return 1;
	if (!e->whiteout || (e->region == WALK_MERGED && e->lower.mode))
		return 0;
	r = note_mtime(m, e->upper_dirfd);
	if (r < 0)
		return r;
	branch_step("sweep");
	return unlinkat(e->upper_dirfd, e->name, 0) < 0 ? -errno : 0;
}

static int sweep_leave(const struct merge *m, const struct walk_entry *e)
{
	const char *name = e->path_len ? e->name : ".";
	auto_close int fd =
		openat(e->upper_dirfd, name,
		       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : restore_mtime(m, fd);
}

static enum walk_region region_below(const struct merge *m,
				     const struct walk_entry *e)
{
	bool merged = e->path_len == 0 || e->region == WALK_MERGED;

	return merged && S_ISDIR(e->lower.mode) && !(m->sweep && e->opaque)
		       ? WALK_MERGED
		       : WALK_NEW;
}

/* The root is told as entered from nowhere, and left to nowhere. */
static void fill_root(const struct merge *m, struct walk_entry *e)
{
	if (e->path_len > 0)
		return;
	e->upper_dirfd = m->walk.upper_fd;
	e->lower_dirfd = m->walk.lower_fd;
}

static int visit(struct merge *m, struct walk_entry *e)
{
	fill_root(m, e);
	if (e->leaving)
		return m->sweep ? sweep_leave(m, e) : merge_leave(m, e);
	return m->sweep ? sweep_entry(m, e) : merge_entry(m, e);
}

static int walk_both(const struct branch *b, int upper_fd, int lower_fd,
		     bool sweep, struct error *err)
{
	const char *prefix = branch_xattr_prefix(b);
	auto_(merge) struct merge m = { .sweep = sweep };
	struct walk_entry *e;
	int r = walk_init(&m.walk, upper_fd, lower_fd, prefix, err);

	(void)snprintf(m.opaque_key, KEY_MAX, "%sopaque", prefix);
	(void)snprintf(m.origin_key, KEY_MAX, "%sorigin", prefix);
	(void)snprintf(m.mtime_key, KEY_MAX, "%smtime", prefix);
	while (r == 0 && (r = walk_next(&m.walk, &e, err)) == 1) {
		r = visit(&m, e);
		if (r == 1)
			r = walk_enter(&m.walk, region_below(&m, e),
				       WALK_NO_TAG, err);
		else if (r < 0)
			r = error_set(err, ERR_SYSTEM, -r,
				      "cannot put the stages of branch '%s' "
				      "together",
				      b->meta.name);
	}
	return r;
}

static int merge_all(void *data, int out_fd, struct error *err)
{
	const struct branch *b = data;
	int r = 0;

	for (size_t i = b->n_layers; r == 0 && i > 0; i--)
		r = walk_both(b, b->layers[i - 1].fd, b->upper_fd, false, err);
	return r;
}

static int sweep_all(void *data, int out_fd, struct error *err)
{
	const struct branch *b = data;

	return walk_both(b, b->upper_fd, b->lower_fd, true, err);
}

static int drop_layers(struct branch *b, struct error *err)
{
	int r = 0;

	for (size_t i = b->n_layers; r == 0 && i > 0; i--) {
		const char *name = b->layers[i - 1].name;

		branch_step("drop");
		r = store_discard(b, b->layers_fd, name, err);
	}
	return r;
}

/* ------------------------------------------- what the runtime has made -- */

/* Which records hold, in whatever layer: malloc'ed, one for each. */
static bool *check_records(const struct branch *b)
{
	const struct branch_meta *m = &b->meta;
	bool *holds = calloc(m->n_made + 1, sizeof(*holds));

	for (size_t i = 0; holds && i < m->n_made; i++) {
		for (size_t k = 0; k < b->n_layers && !holds[i]; k++) {
			struct stat st;

			holds[i] = fstatat(b->layers[k].fd, m->made[i].path,
					   &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				   record_is(&m->made[i], &st);
		}
	}
	return holds;
}

/* Moving an object changes its ctime, and nothing that anybody asked for. */
static void renew_records(struct branch *b, const bool *holds)
{
	struct branch_meta *m = &b->meta;

	for (size_t i = 0; i < m->n_made; i++) {
		struct stat st;

		if (holds[i] &&
		    fstatat(b->upper_fd, m->made[i].path, &st,
			    AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_ino == m->made[i].ino)
			record_set(&m->made[i], &st);
	}
}

int root_collapse(struct branch *b, struct error *err)
{
	auto_free bool *holds = NULL;
	int r;

	if (b->layers_fd < 0)
		return 0;
	holds = check_records(b);
	if (!holds)
		return error_set(err, ERR_SYSTEM, ENOMEM, "collapse");
	r = branch_undo_moves(b, err);
	if (r == 0 && !branch_needs_userns(&b->meta))
		r = modes_open(b, err);
	if (r == 0)
		r = branch_enter(b, merge_all, NULL, b, err);
	if (r < 0)
		return r;
	renew_records(b, holds);
	r = branch_save(b, false, err);
	if (r == 0)
		r = drop_layers(b, err);
	if (r == 0)
		r = branch_enter(b, sweep_all, NULL, b, err);
	if (r < 0)
		return r;
	layers_close(b);
	branch_step("collapsed");
	/* Not empty: a step was cut off, and what it left is no layer. */
	if (unlinkat(b->dir_fd, "layers", AT_REMOVEDIR) < 0)
		return errno == ENOTEMPTY
			       ? store_discard(b, b->dir_fd, "layers", err)
			       : error_set(err, ERR_SYSTEM, errno,
					   "cannot remove '%s/layers'", b->dir);
	return 0;
}
