#include "branch/movable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "branch/internal.h"
#include "branch/links.h"
#include "branch/publish.h"
#include "branch/tree.h"
#include "branch/walk.h"

enum {
	NAME_LEN = 48,
	NOTE_MAX = 16 * 1024,
	DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};
static const char note_prefix[] = "move-";
static const char temp_prefix[] = ".sandlock-move-";
static const char link_name[] = ".sandlock-move-link";
/* No attribute is hidden: the overlay's own are by the overlay. */
static const char no_prefix[] = "/";

/* ---------------------------------------------------- where it comes from --
 */

/* One step down; *fd becomes -1 where there is no directory. */
static void step_down(int *fd, const char *name)
{
	int next =
		*fd < 0 ? -1
			: openat(*fd, name,
				 O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	cleanup_close(fd);
	*fd = next;
}

/* Is it there, as far as upper hides nothing of it? */
static bool is_below(const struct branch *b, int lower_fd, const char *path)
{
	auto_free char *copy = strdup(path);
	auto_close int lower = fcntl(lower_fd, F_DUPFD_CLOEXEC, 3);
	auto_close int upper = fcntl(b->upper_fd, F_DUPFD_CLOEXEC, 3);
	char *save = NULL;

	if (!copy || lower < 0 || upper < 0)
		return true;
	for (char *p = strtok_r(copy, "/", &save); p;
	     p = strtok_r(NULL, "/", &save)) {
		struct object o = { .mode = 0 };

		if (upper >= 0 && object_stat(upper, p, &o) < 0)
			return true;
		/* A whiteout, or opaque: the lower ends here. */
		if (o.mode &&
		    (!S_ISDIR(o.mode) ||
		     xattr_is_opaque(upper, p, branch_xattr_prefix(b))))
			return false;
		step_down(&upper, p);
		step_down(&lower, p);
		if (lower < 0)
			return errno == EACCES;
	}
	return true;
}

/* A layer that hides it from those below counts as if it did not. */
bool branch_has_lower_dir(const struct branch *b, const char *path)
{
	for (size_t i = 0; i < b->n_layers; i++)
		if (is_below(b, b->layers[i].fd, path))
			return true;
	return is_below(b, b->lower_fd, path);
}

/* -------------------------------------------------------------- copying up --
 */

/* The data of a regular file moves up when it is opened for writing. */
static int copy_up(int dirfd, const char *name)
{
	int fd = object_open_file(dirfd, name, O_WRONLY);

	if (fd >= 0) {
		(void)close(fd);
		return 0;
	}
	/* Gone, or no file any more; one that runs is moved all the same. */
	return fd == -ENOENT || fd == -ESTALE || fd == -ETXTBSY ? 0 : fd;
}

/*
 * Copying up breaks hard links of the lower: the second name becomes one of
 * the first's copy. A link across the mount's border, should a payload lead us
 * there, is EXDEV.
 */
static int link_again(int top_fd, const char *first, const struct walk_entry *e)
{
	int r = 0;

	(void)unlinkat(e->lower_dirfd, link_name, 0);
	if (linkat(top_fd, first, e->lower_dirfd, link_name, 0) < 0)
		return -errno;
	branch_step("link");
	if (renameat2(e->lower_dirfd, link_name, e->lower_dirfd, e->name, 0) <
	    0)
		r = -errno;
	/* Of two names that are one file already, none goes. */
	(void)unlinkat(e->lower_dirfd, link_name, 0);
	return r;
}

static int copy_up_file(int top_fd, struct link_table *links,
			const struct walk_entry *e)
{
	const struct link *l = NULL;

	if (e->lower.nlink > 1) {
		l = links_find(links, e->lower.ino);
		if (l)
			return link_again(top_fd, l->path, e);
		if (!links_add(links, e->lower.ino, 0, e->path))
			return -ENOMEM;
	}
	return copy_up(e->lower_dirfd, e->name);
}

static int copy_up_each(int fd, struct link_table *links)
{
	auto_(walk) struct walk w = { .depth = 0 };
	struct walk_entry *e;
	int r = walk_init(&w, -1, fd, "", NULL);

	while (r == 0 && (r = walk_next(&w, &e, NULL)) == 1) {
		r = 0;
		if (e->leaving)
			continue;
		if (e->path_len > 0 && e->lower.is_mount)
			return -EXDEV;
		if (S_ISDIR(e->lower.mode))
			r = walk_enter(&w, WALK_DELETED, WALK_NO_TAG, NULL);
		else if (S_ISREG(e->lower.mode))
			r = copy_up_file(fd, links, e);
	}
	return r;
}

static int copy_up_all(int fd)
{
	struct link_table *links = links_new();
	int r = links ? copy_up_each(fd, links) : -ENOMEM;

	links_free(links);
	return r;
}

/* ---------------------------------------------------------------- moving -- */

/* A directory that is being moved, as it was. */
struct level {
	ino_t to_ino;
	struct object was;
};

/*
 * From one directory into another. Offline, in the layer itself, there are
 * whiteouts where something was taken away.
 */
struct mover {
	struct walk walk;
	int to_fd; /* where the walk is, on the other side */
	struct level *levels;
	size_t n, cap;
	const char *opaque_key; /* offline: marks what had a whiteout */
};

static void mover_done(struct mover *m)
{
	walk_done(&m->walk);
	cleanup_close(&m->to_fd);
	free(m->levels);
}

static int push(struct mover *m, int fd, const struct object *was)
{
	struct stat st;

	if (m->n == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 16;
		struct level *v = realloc(m->levels, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		m->levels = v;
		m->cap = cap;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	m->levels[m->n++] = (struct level){ st.st_ino, *was };
	return 0;
}

/* Down into @name of the other side, which is made if it is missing. */
static int go_down(struct mover *m, const struct walk_entry *e)
{
	auto_close int fd = -1;
	struct object there;
	int r = object_stat(m->to_fd, e->name, &there);

	if (r == 0 && object_is_whiteout(&there) &&
	    unlinkat(m->to_fd, e->name, 0) < 0)
		r = -errno;
	if (r == 0 && !S_ISDIR(there.mode) &&
	    mkdirat(m->to_fd, e->name, 0700) < 0)
		r = -errno;
	/* Nothing of the lower's may show through again. */
	if (r == 0 && !S_ISDIR(there.mode) && m->opaque_key)
		r = xattr_set(m->to_fd, e->name, m->opaque_key, "y", 1);
	/* At once: what is cut off here is moved back as it is. */
	if (r == 0 && !S_ISDIR(there.mode))
		r = tree_set_metadata(no_prefix, e->lower_dirfd, e->name,
				      &e->lower, m->to_fd, e->name);
	if (r < 0)
		return r;
	fd = fd_open_beneath(m->to_fd, e->name, DIR_FLAGS, 0);
	if (fd < 0)
		return fd;
	r = push(m, fd, &e->lower);
	if (r < 0)
		return r;
	(void)close(m->to_fd);
	m->to_fd = take_fd(&fd);
	return 0;
}

/* A payload may have moved it elsewhere meanwhile: then the work ends. */
static int go_up(struct mover *m)
{
	auto_close int fd = fd_openat2(m->to_fd, "..", DIR_FLAGS, 0,
				       RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || st.st_ino != m->levels[m->n - 2].to_ino)
		return -ESTALE;
	m->n--;
	(void)close(m->to_fd);
	m->to_fd = take_fd(&fd);
	return 0;
}

/* What was moved into the directory that we are in has changed its mtime. */
static int set_mtime(const struct mover *m)
{
	return object_set_mtime(m->to_fd, "", m->levels[m->n - 1].was.mtime);
}

static int leave(struct mover *m, const struct walk_entry *e)
{
	int r = set_mtime(m);

	if (r == 0)
		r = go_up(m);
	if (r == 0 && unlinkat(e->lower_dirfd, e->name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

static int move_entry(struct mover *m, const struct walk_entry *e)
{
	/* Offline a whiteout may be there, which is to go. */
	unsigned int flags = m->opaque_key ? 0 : RENAME_NOREPLACE;

	branch_step("move");
	if (e->leaving)
		return e->path_len ? leave(m, e) : 0;
	if (e->path_len > 0 && e->lower.is_mount)
		return -EXDEV;
	if (S_ISDIR(e->lower.mode)) {
		int r = e->path_len ? go_down(m, e)
				    : push(m, m->to_fd, &e->lower);

		return r < 0 ? r
			     : walk_enter(&m->walk, WALK_DELETED, WALK_NO_TAG,
					  NULL);
	}
	if (renameat2(e->lower_dirfd, e->name, m->to_fd, e->name, flags) < 0 &&
	    errno != ENOENT)
		return -errno;
	return 0;
}

static void finish_levels(struct mover *m)
{
	while (m->n > 1)
		if (set_mtime(m) < 0 || go_up(m) < 0)
			return;
}

static int move_contents(int from_fd, int to_fd, const char *opaque_key)
{
	auto_(mover) struct mover m = { .to_fd = -1, .opaque_key = opaque_key };
	struct walk_entry *e;
	int r = walk_init(&m.walk, -1, from_fd, "", NULL);

	m.to_fd = openat(to_fd, ".", DIR_FLAGS);
	if (r == 0 && m.to_fd < 0)
		r = -errno;
	while (r == 0 && (r = walk_next(&m.walk, &e, NULL)) == 1)
		r = move_entry(&m, e);
	if (r < 0)
		finish_levels(&m);
	return r;
}

/* ------------------------------------------------------------- the whole -- */

/* "move-HEX" in the branch's directory, ".sandlock-move-HEX" in the tree. */
struct names {
	char note[NAME_LEN], temp[NAME_LEN];
};

static void make_names(struct names *n)
{
	uint64_t id = 0;

	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id))
		id = (uint64_t)getpid();
	(void)snprintf(n->note, sizeof(n->note), "%s%016jx", note_prefix,
		       (uintmax_t)id);
	(void)snprintf(n->temp, sizeof(n->temp), "%s%016jx", temp_prefix,
		       (uintmax_t)id);
}

static int write_note(const struct branch *b, const struct names *n,
		      const char *path)
{
	return fd_write_atomic(b->dir_fd, n->note, path, strlen(path), 0600,
			       false);
}

/* The new directory takes the place of the old one, which is empty. */
static int replace(int parent_fd, const char *temp, const char *name,
		   const struct object *was)
{
	int r = tree_set_metadata(no_prefix, parent_fd, name, was, parent_fd,
				  temp);

	branch_step("replace");
	if (r == 0 && renameat2(parent_fd, temp, parent_fd, name, 0) < 0)
		r = -errno;
	return r;
}

static int put_back(int parent_fd, const char *temp, int temp_fd,
		    const char *name, int dir_fd, const struct object *was)
{
	int r = move_contents(temp_fd, dir_fd, NULL);

	if (r == 0 && unlinkat(parent_fd, temp, AT_REMOVEDIR) < 0)
		r = -errno;
	(void)object_set_mtime(parent_fd, name, was->mtime);
	return r;
}

/* Moves all that is in @name to a new directory, which becomes @name. */
static int exchange(int parent_fd, const char *name, int dir_fd,
		    const char *temp, const struct object *was)
{
	auto_close int temp_fd = -1;
	int r;

	branch_step("make");
	if (mkdirat(parent_fd, temp, 0700) < 0)
		return -errno;
	temp_fd = fd_open_beneath(parent_fd, temp, DIR_FLAGS, 0);
	if (temp_fd < 0) {
		(void)unlinkat(parent_fd, temp, AT_REMOVEDIR);
		return temp_fd;
	}
	r = move_contents(dir_fd, temp_fd, NULL);
	if (r == 0)
		r = replace(parent_fd, temp, name, was);
	if (r < 0 && put_back(parent_fd, temp, temp_fd, name, dir_fd, was) < 0)
		return -EUCLEAN; /* settling will do it */
	return r;
}

/* What the caller is told, see the header. */
static int outward(int r)
{
	switch (-r) {
	case 0:
	case ENOSPC:
	case EDQUOT:
	case EXDEV:
		return r;
	case ENOTEMPTY: /* somebody made, or moved, something */
	case EEXIST:
	case ENOENT:
	case ENOTDIR:
	case ESTALE:
		return -EXDEV;
	default:
		return -EIO;
	}
}

int branch_make_movable(const struct branch *b, int parent_fd, const char *name,
			const char *path)
{
	auto_close int dir_fd = fd_open_beneath(parent_fd, name, DIR_FLAGS, 0);
	auto_close int parent = openat(parent_fd, ".", DIR_FLAGS);
	struct object was, parent_was;
	struct names n = { .note = "" };
	int r;

	if (dir_fd < 0 || parent < 0)
		return outward(dir_fd < 0 ? dir_fd : -errno);
	r = object_stat(dir_fd, "", &was);
	if (r == 0)
		r = object_stat(parent, "", &parent_was);
	make_names(&n);
	if (r == 0)
		r = write_note(b, &n, path);
	if (r < 0)
		return outward(r);
	r = copy_up_all(dir_fd);
	if (r == 0)
		r = exchange(parent, name, dir_fd, n.temp, &was);
	branch_step("note");
	if (r != -EUCLEAN) {
		(void)object_set_mtime(parent, "", parent_was.mtime);
		(void)unlinkat(b->dir_fd, n.note, 0);
	}
	return outward(r);
}

/* ------------------------------------------------------ after a cut-off -- */

/*
 * In upper itself. What was emptied so far may be a whiteout by now, or gone
 * altogether if the lower never had it.
 */
static int undo_at(const struct branch *b, int parent_fd, const char *name,
		   const char *temp)
{
	auto_close int temp_fd = fd_open_beneath(parent_fd, temp, DIR_FLAGS, 0);
	auto_close int dir_fd = -1;
	char key[64];
	int r;

	if (temp_fd < 0)
		return temp_fd == -ENOENT ? 0 : temp_fd;
	(void)snprintf(key, sizeof(key), "%sopaque", branch_xattr_prefix(b));
	dir_fd = fd_open_beneath(parent_fd, name, DIR_FLAGS, 0);
	if (dir_fd < 0 && dir_fd != -ENOENT)
		return dir_fd;
	r = dir_fd < 0 ? 0 : move_contents(temp_fd, dir_fd, key);
	/* Not there yet: nothing had been moved. */
	if (r == 0 && unlinkat(parent_fd, temp, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

/*
 * Where @temp is by now: its parent may have been renamed meanwhile. A link
 * that was to replace a file's second name is taken away on the way.
 */
static int find_temp(const struct branch *b, const char *temp, int *ret_fd)
{
	auto_(walk) struct walk w = { .depth = 0 };
	struct walk_entry *e;
	int r = walk_init(&w, -1, b->upper_fd, "", NULL);

	while (r == 0 && (r = walk_next(&w, &e, NULL)) == 1) {
		bool is_dir = S_ISDIR(e->lower.mode);

		r = 0;
		if (e->leaving)
			continue;
		if (is_dir && strcmp(e->name, temp) == 0) {
			*ret_fd = fcntl(e->lower_dirfd, F_DUPFD_CLOEXEC, 3);
			return *ret_fd < 0 ? -errno : 0;
		}
		if (is_dir)
			r = walk_enter(&w, WALK_DELETED, WALK_NO_TAG, NULL);
		else if (strcmp(e->name, link_name) == 0 &&
			 e->lower.nlink > 1 &&
			 unlinkat(e->lower_dirfd, e->name, 0) < 0)
			r = -errno;
	}
	return r;
}

static int undo_note(const struct branch *b, const char *note)
{
	auto_(buf) struct buf path = BUF_INIT;
	auto_close int parent_fd = -1;
	char temp[NAME_LEN];
	const char *name;
	int r = fd_read_file(b->dir_fd, note, NOTE_MAX, &path);

	if (r < 0)
		return r;
	(void)snprintf(temp, sizeof(temp), "%s%s", temp_prefix,
		       note + strlen(note_prefix));
	name = strrchr(buf_str(&path), '/');
	name = name ? name + 1 : buf_str(&path);
	r = find_temp(b, temp, &parent_fd);
	if (r == 0 && parent_fd >= 0)
		r = undo_at(b, parent_fd, name, temp);
	if (r == 0 && unlinkat(b->dir_fd, note, 0) < 0)
		r = -errno;
	return r;
}

static int undo_all(void *data, int out_fd, struct error *err)
{
	const struct branch *b = data;
	auto_close int fd = openat(b->dir_fd, ".", DIR_FLAGS);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;

	if (!dir)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot read branch '%s'", b->meta.name);
	(void)take_fd(&fd);
	for (struct dirent *d = readdir(dir); d && r == 0; d = readdir(dir))
		if (strncmp(d->d_name, note_prefix, strlen(note_prefix)) == 0)
			r = undo_note(b, d->d_name);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot undo a rename that was cut off in "
				 "branch '%s'",
				 b->meta.name);
	return 0;
}

static bool has_notes(const struct branch *b)
{
	auto_close int fd = openat(b->dir_fd, ".", DIR_FLAGS);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool found = false;

	if (!dir)
		return false;
	(void)take_fd(&fd);
	for (struct dirent *d = readdir(dir); d && !found; d = readdir(dir))
		found = strncmp(d->d_name, note_prefix, strlen(note_prefix)) ==
			0;
	return found;
}

int branch_undo_moves(struct branch *b, struct error *err)
{
	if (b->upper_fd < 0 || !has_notes(b))
		return 0;
	return branch_enter(b, undo_all, NULL, b, err);
}
