/* The calls that change something in a merged view. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "branch/merged_internal.h"
#include "branch/tree.h"

/* A name that is to be made, removed or moved, and where. */
struct spot {
	struct merged_dir dir;
	const char *path, *name;
	struct merged_entry e;
};
#define SPOT_INIT                       \
	{                               \
		.dir = MERGED_DIR_INIT, \
	}

static void spot_done(struct spot *s)
{
	merged_dir_done(&s->dir);
}

static int spot_find(const struct merged *m, const char *path, struct spot *ret)
{
	int r;

	merged_dir_done(&ret->dir);
	ret->path = path;
	r = dir_open_parent(m, path, &ret->dir, &ret->name);
	return r < 0 ? r : dir_lookup(m, &ret->dir, ret->name, &ret->e);
}

static bool is_dir(const struct spot *s)
{
	const struct object *o = entry_seen(&s->e);

	return o && S_ISDIR(o->mode);
}

static int may_write_dir(const struct spot *s)
{
	int fd = s->dir.up >= 0 ? s->dir.up : s->dir.low;

	return faccessat(fd, "", W_OK | X_OK, AT_EMPTY_PATH | AT_EACCESS) < 0
		       ? -errno
		       : 0;
}

static int may_remove(const struct spot *s)
{
	int fd = s->dir.up >= 0 ? s->dir.up : s->dir.low;
	int r = may_write_dir(s);
	uid_t uid = geteuid();
	struct stat st;

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	return (st.st_mode & S_ISVTX) && uid && uid != st.st_uid &&
			       uid != entry_seen(&s->e)->uid
		       ? -EPERM
		       : 0;
}

static int go_up_to(struct merged *m, struct spot *s)
{
	auto_free char *parent = NULL;

	if (s->dir.up >= 0)
		return 0;
	parent = strndup(s->path, (size_t)(s->name - s->path));
	return parent ? up_dir(m, parent, &s->dir.up) : -ENOMEM;
}

/* ---------------------------------------------------------------- making -- */

struct make {
	mode_t mode; /* with its type */
	dev_t dev;
	const char *target; /* of a symlink */
	int from_fd;	    /* of a hard link: -1, or what gets a name */
	int flags;	    /* of open(2) */
	int fd;		    /* the file that was made and opened */
};

static int make_at(struct make *k, int dirfd, const char *name)
{
	char link[FD_PATH_MAX];

	if (k->from_fd >= 0)
		return linkat(AT_FDCWD, fd_proc_path(k->from_fd, link), dirfd,
			      name, AT_SYMLINK_FOLLOW) < 0
			       ? -errno
			       : 0;
	if (k->target)
		return symlinkat(k->target, dirfd, name) < 0 ? -errno : 0;
	if (S_ISDIR(k->mode))
		return mkdirat(dirfd, name, k->mode & 07777) < 0 ? -errno : 0;
	if (!S_ISREG(k->mode))
		return mknodat(dirfd, name, k->mode, k->dev) < 0 ? -errno : 0;
	k->fd = openat(dirfd, name, k->flags | O_CREAT | O_EXCL | O_CLOEXEC,
		       k->mode & 07777);
	return k->fd < 0 ? -errno : 0;
}

/* The bits that a umask took from it. */
static int give_back(const struct merged *m, const struct make *k, int dirfd,
		     const char *name)
{
	struct stat st;

	if (!(k->mode & m->umask) || k->from_fd >= 0 || k->target)
		return 0;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dirfd, name,
		     (st.st_mode & 07000) | (k->mode & (07777 & ~S_ISGID)),
		     0) < 0)
		return -errno;
	return 0;
}

/* What the directory would have given it. */
static int inherit(const struct merged *m, const struct make *k,
		   const struct spot *s, const char *temp)
{
	struct stat st;

	if (k->from_fd >= 0)
		return 0;
	if (fstat(s->dir.up, &st) < 0)
		return -errno;
	if (!(st.st_mode & S_ISGID))
		return 0;
	if (fchownat(m->work_fd, temp, (uid_t)-1, st.st_gid,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(k->mode) &&
	    fchmodat(m->work_fd, temp, (k->mode & 07777) | S_ISGID, 0) < 0)
		return -errno;
	return 0;
}

/* The mode that a directory had to be without while it was made. */
static int shut(const struct make *k, const struct spot *s)
{
	struct stat st;

	if (fstatat(s->dir.up, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(s->dir.up, s->name,
		     (st.st_mode & S_ISGID) | (k->mode & 07777), 0) < 0)
		return -errno;
	return 0;
}

/*
 * In the place of a whiteout, in one step: what was removed does not come
 * back for a moment. A directory says that nothing of the lower is in it, which
 * its owner may have no right to write down, nor to move it here.
 */
static int make_over_whiteout(struct merged *m, struct make *k,
			      const struct spot *s)
{
	char temp[MERGED_TEMP_MAX];
	bool dir = S_ISDIR(k->mode);
	mode_t mode = k->mode;
	bool is_open;
	int r;

	merged_temp(m, temp);
	if (dir)
		k->mode |= 0700;
	r = make_at(k, m->work_fd, temp);
	if (r == 0)
		r = inherit(m, k, s, temp);
	if (r == 0 && dir)
		r = up_set_opaque(m, m->work_fd, temp);
	if (r == 0 && renameat2(m->work_fd, temp, s->dir.up, s->name,
				dir ? RENAME_EXCHANGE : 0) < 0)
		r = -errno;
	if (r < 0 || dir)
		merged_drop(m, temp);
	is_open = k->mode != mode;
	k->mode = mode;
	if (r == 0 && is_open)
		r = shut(k, s);
	if (r < 0)
		cleanup_close(&k->fd);
	if (r < 0)
		k->fd = -1;
	return r;
}

static int make(struct merged *m, const char *path, struct make *k)
{
	auto_(spot) struct spot s = SPOT_INIT;
	int r = *path ? spot_find(m, path, &s) : -EEXIST;

	if (r < 0)
		return r;
	if (entry_seen(&s.e))
		return -EEXIST;
	r = may_write_dir(&s);
	if (r == 0)
		r = go_up_to(m, &s);
	if (r < 0)
		return r;
	r = s.e.is_whiteout ? make_over_whiteout(m, k, &s)
			    : make_at(k, s.dir.up, s.name);
	return r == 0 ? give_back(m, k, s.dir.up, s.name) : r;
}

static int make_locked(struct merged *m, const char *path, struct make *k)
{
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = make(m, path, k);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

int merged_mkdir(struct merged *m, const char *path, mode_t mode)
{
	struct make k = { .mode = S_IFDIR | (mode & 01777),
			  .from_fd = -1,
			  .fd = -1 };

	return make_locked(m, path, &k);
}

int merged_mknod(struct merged *m, const char *path, mode_t mode, dev_t dev)
{
	struct make k = {
		.mode = mode & S_IFMT ? mode : S_IFREG | mode,
		.dev = dev,
		.flags = O_WRONLY,
		.from_fd = -1,
		.fd = -1,
	};
	int r;

	/* It would be a whiteout. */
	if (S_ISCHR(k.mode) && dev == 0)
		return -EPERM;
	if (S_ISDIR(k.mode) || S_ISLNK(k.mode))
		return -EPERM;
	r = make_locked(m, path, &k);
	cleanup_close(&k.fd);
	return r;
}

int merged_symlink(struct merged *m, const char *target, const char *path)
{
	struct make k = { .mode = S_IFLNK | 0777,
			  .target = target,
			  .from_fd = -1,
			  .fd = -1 };

	return *target ? make_locked(m, path, &k) : -ENOENT;
}

int merged_link_fd(struct merged *m, int fd, const char *to)
{
	struct make k = { .mode = S_IFREG, .from_fd = fd, .fd = -1 };

	return make_locked(m, to, &k);
}

int merged_link(struct merged *m, const char *from, const char *to)
{
	auto_(spot) struct spot s = SPOT_INIT;
	auto_(spot) struct spot t = SPOT_INIT;
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = *from ? spot_find(m, from, &s) : -EPERM;
	if (r == 0 && !entry_seen(&s.e))
		r = -ENOENT;
	if (r == 0)
		r = *to ? spot_find(m, to, &t) : -EEXIST;
	if (r == 0 && entry_seen(&t.e))
		r = -EEXIST;
	if (r == 0 && is_dir(&s))
		r = -EPERM;
	if (r == 0)
		r = up_object(m, from, NULL);
	if (r == 0)
		r = spot_find(m, from, &s);
	if (r == 0 && !entry_in_upper(&s.e))
		r = -ENOENT;
	if (r == 0) {
		auto_close int fd = openat(s.dir.up, s.name,
					   O_PATH | O_NOFOLLOW | O_CLOEXEC);
		struct make k = { .mode = S_IFREG, .from_fd = fd, .fd = -1 };

		r = fd < 0 ? -errno : make(m, to, &k);
	}
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

/* --------------------------------------------------------------- opening -- */

static int create(struct merged *m, const char *path, int flags, mode_t mode,
		  int *ret_fd)
{
	struct make k = { .mode = S_IFREG | (mode & 07777),
			  .flags = flags & ~O_TRUNC,
			  .from_fd = -1,
			  .fd = -1 };
	int r = flags & O_DIRECTORY ? -EINVAL : make(m, path, &k);

	if (r == 0)
		*ret_fd = k.fd;
	return r;
}

static bool is_write(int flags)
{
	return !(flags & O_PATH) &&
	       ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC));
}

/* The checks of open(2) on what exists, before anything is copied. */
static int check_open(const struct spot *s, const struct object *o, int flags)
{
	int fd = entry_in_upper(&s->e) ? s->dir.up : s->dir.low;

	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return -EEXIST;
	if (S_ISLNK(o->mode) && !(flags & O_PATH))
		return -ELOOP;
	if ((flags & O_DIRECTORY) && !S_ISDIR(o->mode))
		return -ENOTDIR;
	if (!is_write(flags))
		return 0;
	if (S_ISDIR(o->mode))
		return -EISDIR;
	return faccessat(fd, s->name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) <
			       0
		       ? -errno
		       : 0;
}

/* What is written goes to upper; a device of the lower is the host's. */
static int must_go_up(const struct object *o, int flags)
{
	if (!is_write(flags) || S_ISFIFO(o->mode))
		return 0;
	return S_ISREG(o->mode) ? 1 : -EACCES;
}

static bool is_both(const struct merged_entry *e)
{
	return S_ISDIR(e->up.mode) && S_ISDIR(e->low.mode) && !e->is_opaque;
}

static bool is_wanted(const struct merged_entry *e, const struct merged_id *id)
{
	const struct object *o = is_both(e) ? &e->low : entry_seen(e);

	if (!id || !o)
		return !id || !id->ino;
	return o->ino == id->ino && o->dev == id->dev;
}

static int prepare(struct merged *m, const char *path,
		   const struct merged_id *id, int flags, mode_t mode,
		   struct spot *s, int *ret_fd)
{
	struct up_options o = { .without_data = flags & O_TRUNC,
				.is_exact = id };
	const struct object *seen;
	int r = spot_find(m, path, s);

	if (r < 0)
		return r;
	seen = entry_seen(&s->e);
	if (!is_wanted(&s->e, id))
		return -ESTALE;
	if (!seen)
		return flags & O_CREAT ? create(m, path, flags, mode, ret_fd)
				       : -ENOENT;
	r = check_open(s, seen, flags);
	if (r < 0 || entry_in_upper(&s->e))
		return r;
	r = must_go_up(seen, flags);
	if (r <= 0)
		return r;
	r = up_object(m, path, &o);
	return r == 0 ? spot_find(m, path, s) : r;
}

static int layer_of(const struct spot *s)
{
	return entry_in_upper(&s->e) && !is_both(&s->e) ? s->dir.up
							: s->dir.low;
}

/* With the lock held: what is opened without it is what was looked at. */
static int pin(const struct spot *s)
{
	int fd = openat(layer_of(s), s->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool is_same_object(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* O_NOFOLLOW stays among the flags of who opens it by its name. */
static int open_pinned(const struct spot *s, int *pin_fd, int flags)
{
	auto_close int named = -1;

	flags &= ~(O_CREAT | O_EXCL);
	if (flags & O_PATH)
		return take_fd(pin_fd);
	if (!(flags & O_NOFOLLOW) || (flags & O_TRUNC))
		return fd_reopen(*pin_fd, flags);
	named = openat(layer_of(s), s->name, flags | O_CLOEXEC);
	return named >= 0 && is_same_object(named, *pin_fd)
		       ? take_fd(&named)
		       : fd_reopen(*pin_fd, flags);
}

static int open_root(struct merged *m, int flags, int *ret_fd)
{
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return -EEXIST;
	if (is_write(flags) || (flags & O_CREAT))
		return -EISDIR;
	*ret_fd = openat(m->lower_fd, ".",
			 (flags & ~O_CREAT) | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int open_unnamed(struct merged *m, const char *path,
			const struct merged_id *id, int flags, mode_t mode,
			int *ret_fd)
{
	auto_(spot) struct spot s = SPOT_INIT;
	auto_close int dir = -1;
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = *path ? spot_find(m, path, &s) : 0;
	if (r == 0 && *path && !is_wanted(&s.e, id))
		r = -ESTALE;
	if (r == 0)
		r = up_dir(m, path, &dir);
	(void)pthread_mutex_unlock(&m->lock);
	if (r < 0)
		return r;
	*ret_fd = openat(dir, ".", flags | O_CLOEXEC, mode);
	if (*ret_fd < 0)
		return -errno;
	(void)!(mode & m->umask && fchmod(*ret_fd, mode & 07777));
	return 0;
}

int merged_open_that(struct merged *m, const char *path,
		     const struct merged_id *id, int flags, mode_t mode,
		     int *ret_fd)
{
	auto_(spot) struct spot s = SPOT_INIT;
	auto_close int pin_fd = -1;
	int fd = -1, r;

	if ((flags & O_TMPFILE) == O_TMPFILE)
		return open_unnamed(m, path, id, flags, mode, ret_fd);
	if (!*path)
		return open_root(m, flags, ret_fd);
	(void)pthread_mutex_lock(&m->lock);
	r = prepare(m, path, id, flags, mode, &s, &fd);
	if (r == 0 && fd < 0)
		r = pin_fd = pin(&s);
	(void)pthread_mutex_unlock(&m->lock);
	if (r >= 0 && fd < 0)
		r = fd = open_pinned(&s, &pin_fd, flags);
	if (r < 0)
		return r;
	*ret_fd = fd;
	return 0;
}

int merged_copy_up(struct merged *m, const char *path, int *ret_fd)
{
	auto_(spot) struct spot s = SPOT_INIT;
	int r;

	if (!*path)
		return merged_find(m, path, ret_fd);
	(void)pthread_mutex_lock(&m->lock);
	r = up_object(m, path, NULL);
	if (r == 0)
		r = spot_find(m, path, &s);
	(void)pthread_mutex_unlock(&m->lock);
	if (r < 0)
		return r;
	if (!entry_in_upper(&s.e))
		return -ENOENT;
	*ret_fd = openat(s.dir.up, s.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* -------------------------------------------------------------- removing -- */

static int make_whiteout(int dirfd, const char *name)
{
	return mknodat(dirfd, name, S_IFCHR, 0) < 0 ? -errno : 0;
}

/* What is there in upper goes; if the lower has something, a whiteout comes. */
static int take_away(struct merged *m, const struct spot *s)
{
	char temp[MERGED_TEMP_MAX];
	bool dir = S_ISDIR(s->e.up.mode);
	int r;

	if (!entry_in_upper(&s->e))
		return make_whiteout(s->dir.up, s->name);
	if (!entry_has_lower(&s->e) && !dir)
		return unlinkat(s->dir.up, s->name, 0) < 0 ? -errno : 0;
	/* Where it is, so that ".." of it stays what it was. */
	if (!entry_has_lower(&s->e) &&
	    unlinkat(s->dir.up, s->name, AT_REMOVEDIR) == 0)
		return 0;
	/* There may be whiteouts in it. */
	if (dir && !(s->e.up.mode & S_IWUSR))
		(void)!fchmodat(s->dir.up, s->name, 0700, 0);
	merged_temp(m, temp);
	if (!entry_has_lower(&s->e)) {
		r = renameat2(s->dir.up, s->name, m->work_fd, temp, 0) < 0
			    ? -errno
			    : 0;
	} else {
		r = make_whiteout(m->work_fd, temp);
		if (r == 0 && renameat2(m->work_fd, temp, s->dir.up, s->name,
					RENAME_EXCHANGE) < 0)
			r = -errno;
	}
	merged_drop(m, temp);
	return r;
}

static int remove_name(struct merged *m, const char *path, bool dir)
{
	auto_(spot) struct spot s = SPOT_INIT;
	auto_(merged_dir) struct merged_dir in = MERGED_DIR_INIT;
	int r = spot_find(m, path, &s);

	if (r < 0)
		return r;
	if (!entry_seen(&s.e))
		return -ENOENT;
	r = may_remove(&s);
	if (r < 0)
		return r;
	if (is_dir(&s) != dir)
		return dir ? -ENOTDIR : -EISDIR;
	if (dir) {
		r = dir_open(m, path, &in);
		if (r == 0)
			r = dir_is_empty(m, &in);
		if (r <= 0)
			return r == 0 ? -ENOTEMPTY : r;
	}
	r = go_up_to(m, &s);
	if (r < 0)
		return r;
	return take_away(m, &s);
}

static int remove_locked(struct merged *m, const char *path, bool dir)
{
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = remove_name(m, path, dir);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

int merged_unlink(struct merged *m, const char *path)
{
	return *path ? remove_locked(m, path, false) : -EISDIR;
}

int merged_rmdir(struct merged *m, const char *path)
{
	return remove_locked(m, path, true);
}

/* -------------------------------------------------------------- renaming -- */

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && path[n] == '/';
}

static int check_replaced(const struct merged *m, const struct spot *from,
			  const struct spot *to)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	int r;

	if (is_dir(from) && !is_dir(to))
		return -ENOTDIR;
	if (!is_dir(from) && is_dir(to))
		return -EISDIR;
	if (!is_dir(to))
		return 0;
	r = dir_open(m, to->path, &d);
	if (r == 0)
		r = dir_is_empty(m, &d);
	return r == 0 ? -ENOTEMPTY : r < 0 ? r : 0;
}

/* Two names of one file stay both. */
static bool is_same_file(const struct spot *a, const struct spot *b)
{
	return strcmp(a->path, b->path) == 0 ||
	       (entry_in_upper(&a->e) && entry_in_upper(&b->e) &&
		a->e.up.ino == b->e.up.ino);
}

/* 1: there is nothing to do. */
static int check_rename(const struct merged *m, const struct spot *from,
			const struct spot *to, unsigned int flags)
{
	const struct object *a = entry_seen(&from->e);
	const struct object *b = entry_seen(&to->e);
	int r;

	if (!a || (!b && (flags & RENAME_EXCHANGE)))
		return -ENOENT;
	if (b && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (is_below(to->path, from->path))
		return -EINVAL;
	if (is_below(from->path, to->path))
		return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
	if (is_same_file(from, to))
		return 1;
	r = may_remove(from);
	if (r == 0)
		r = b ? may_remove(to) : may_write_dir(to);
	if (r == 0 && b && !(flags & RENAME_EXCHANGE))
		r = check_replaced(m, from, to);
	return r;
}

static int go_up_all(struct merged *m, struct spot *s)
{
	int r = is_dir(s) ? up_tree(m, s->path) : up_object(m, s->path, NULL);

	return r < 0 ? r : spot_find(m, s->path, s);
}

/* A directory that comes to lie over one of the lower hides that. */
static int close_over(struct merged *m, const struct spot *moved,
		      const struct spot *to)
{
	return S_ISDIR(moved->e.up.mode) && entry_has_lower(&to->e)
		       ? up_set_opaque(m, moved->dir.up, moved->name)
		       : 0;
}

static int exchange(const struct spot *a, const struct spot *b)
{
	return renameat2(a->dir.up, a->name, b->dir.up, b->name,
			 RENAME_EXCHANGE) < 0
		       ? -errno
		       : 0;
}

/* Upper has no object at the other side, or one of the kind that is replaced.
 */
static int move_over(const struct spot *from, const struct spot *to)
{
	unsigned int whiteout = entry_has_lower(&from->e) ? RENAME_WHITEOUT : 0;

	if (renameat2(from->dir.up, from->name, to->dir.up, to->name,
		      whiteout) == 0)
		return 0;
	if (errno != EINVAL || !whiteout)
		return -errno;
	if (renameat2(from->dir.up, from->name, to->dir.up, to->name, 0) < 0)
		return -errno;
	return make_whiteout(from->dir.up, from->name);
}

/* What is replaced goes last, from where the other one was: until then it can
 * come back. */
static int move_over_dir(struct merged *m, struct spot *from,
			 const struct spot *to)
{
	int r = exchange(from, to);

	if (r < 0)
		return r;
	r = dir_lookup(m, &from->dir, from->name, &from->e);
	if (r == 0)
		r = take_away(m, from);
	if (r < 0)
		(void)exchange(from, to);
	return r;
}

static int move(struct merged *m, struct spot *from, const struct spot *to)
{
	bool has_lower = entry_has_lower(&from->e);
	int r;

	if (is_dir(to) && entry_in_upper(&to->e))
		return move_over_dir(m, from, to);
	if (!to->e.is_whiteout || (!has_lower && !S_ISDIR(from->e.up.mode)))
		return move_over(from, to);
	/* The whiteout comes to be where it is needed. */
	r = exchange(from, to);
	if (r == 0 && !has_lower && unlinkat(from->dir.up, from->name, 0) < 0)
		r = -errno;
	return r;
}

static int rename_locked(struct merged *m, const char *from_path,
			 const char *to_path, unsigned int flags)
{
	auto_(spot) struct spot from = SPOT_INIT;
	auto_(spot) struct spot to = SPOT_INIT;
	int r = spot_find(m, from_path, &from);

	if (r == 0)
		r = spot_find(m, to_path, &to);
	if (r == 0)
		r = check_rename(m, &from, &to, flags);
	if (r)
		return r < 0 ? r : 0;
	r = go_up_all(m, &from);
	if (r == 0 && (flags & RENAME_EXCHANGE))
		r = go_up_all(m, &to);
	else if (r == 0)
		r = spot_find(m, to_path, &to);
	if (r == 0)
		r = go_up_to(m, &to);
	/* What was let in while contents were copied. */
	if (r == 0)
		r = check_rename(m, &from, &to, flags);
	if (r == 0)
		r = close_over(m, &from, &to);
	if (r == 0 && (flags & RENAME_EXCHANGE))
		r = close_over(m, &to, &from);
	if (r)
		return r < 0 ? r : 0;
	return flags & RENAME_EXCHANGE ? exchange(&from, &to)
				       : move(m, &from, &to);
}

bool merged_may_rename_so(unsigned int flags)
{
	return flags == 0 || flags == RENAME_NOREPLACE ||
	       flags == RENAME_EXCHANGE;
}

int merged_rename(struct merged *m, const char *from, const char *to,
		  unsigned int flags)
{
	int r;

	if (!merged_may_rename_so(flags))
		return -EINVAL;
	(void)pthread_mutex_lock(&m->lock);
	r = rename_locked(m, from, to, flags);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}
