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

static bool is_dir(const struct spot *s)
{
	const struct object *o = entry_seen(&s->e);

	return o && S_ISDIR(o->mode);
}

static int may_remove(const struct merged *m, const struct spot *s)
{
	int fd = dir_newest(&s->dir);
	int r = spot_may_write(m, s);
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

		r = fd < 0 ? -errno : merged_make(m, to, &k);
	}
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

/* --------------------------------------------------------------- opening -- */

static int create(struct merged *m, const char *path, int flags,
		  struct merged_mode mode, int *ret_fd)
{
	struct make k = { .mode = S_IFREG | (mode.mode & 07777),
			  .mask = mode.umask,
			  .flags = flags & ~O_TRUNC,
			  .from_fd = -1,
			  .fd = -1 };
	int r = flags & O_DIRECTORY ? -EINVAL : merged_make(m, path, &k);

	if (r == 0)
		*ret_fd = k.fd;
	return r;
}

static bool is_write(int flags)
{
	return !(flags & O_PATH) &&
	       ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC));
}

/* A device is the host's. Whether a FIFO of others has another end is not told.
 */
static bool is_other_way(const struct merged *m, const struct object *o)
{
	return (m->is_plain && S_ISFIFO(o->mode)) || S_ISCHR(o->mode) ||
	       S_ISBLK(o->mode);
}

/* The checks of open(2) on what exists, before anything is copied. */
static int check_open(const struct merged *m, const struct spot *s,
		      const struct object *o, int flags)
{
	int fd = entry_in_upper(&s->e) ? s->dir.up : s->dir.below[s->e.low_at];

	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return -EEXIST;
	if (S_ISLNK(o->mode) && !(flags & O_PATH))
		return -ELOOP;
	if ((flags & O_DIRECTORY) && !S_ISDIR(o->mode))
		return -ENOTDIR;
	if (is_other_way(m, o) && !(flags & O_PATH))
		return S_ISFIFO(o->mode) ? -EOPNOTSUPP : -EACCES;
	if (!is_write(flags))
		return 0;
	if (S_ISDIR(o->mode))
		return -EISDIR;
	if (faccessat(fd, s->name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return m->is_read_only ? -EROFS : 0;
}

/* What is written goes to upper; a device of the lower is the host's. */
static int must_go_up(const struct object *o, int flags)
{
	if (!is_write(flags) || S_ISFIFO(o->mode))
		return 0;
	if (S_ISSOCK(o->mode))
		return -ENXIO;
	return S_ISREG(o->mode) ? 1 : -EACCES;
}

static bool is_wanted(const struct merged_entry *e, const struct merged_id *id)
{
	const struct object *o = entry_seen(e);

	if (!id || !o)
		return !id || !id->ino;
	if (entry_in_upper(e) && !entry_has_both(e))
		return o->ino == id->ino && o->dev == id->dev;
	return e->home_ino == id->ino && e->home_dev == id->dev;
}

static int prepare(struct merged *m, const char *path,
		   const struct merged_id *id, int flags,
		   struct merged_mode mode, struct spot *s, int *ret_fd)
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
	r = check_open(m, s, seen, flags);
	if (r < 0 || entry_in_upper(&s->e))
		return r;
	r = must_go_up(seen, flags);
	if (r <= 0)
		return r;
	r = up_object(m, path, &o);
	return r == 0 ? spot_find(m, path, s) : r;
}

/* With the lock held: what is opened without it is what was looked at. */
static int pin(const struct spot *s)
{
	int fd = openat(entry_home(&s->dir, &s->e), s->name,
			O_PATH | O_NOFOLLOW | O_CLOEXEC);

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
	named = openat(entry_home(&s->dir, &s->e), s->name, flags | O_CLOEXEC);
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
	*ret_fd = openat(m->below[m->n_below - 1], ".",
			 (flags & ~O_CREAT) | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int open_unnamed(struct merged *m, const char *path,
			const struct merged_id *id, int flags,
			struct merged_mode mode, int *ret_fd)
{
	auto_(spot) struct spot s = SPOT_INIT;
	auto_close int dir = -1;
	bool inherits;
	int r;

	if (m->is_read_only)
		return -EROFS;
	(void)pthread_mutex_lock(&m->lock);
	r = *path ? spot_find(m, path, &s) : 0;
	if (r == 0 && *path && !is_wanted(&s.e, id))
		r = -ESTALE;
	if (r == 0)
		r = up_dir(m, path, &dir);
	(void)pthread_mutex_unlock(&m->lock);
	if (r < 0)
		return r;
	inherits = has_default_acl(dir);
	if (!inherits)
		mode.mode &= ~mode.umask;
	*ret_fd = openat(dir, ".", flags | O_CLOEXEC, mode.mode);
	if (*ret_fd < 0)
		return -errno;
	if (!inherits && (mode.mode & m->umask))
		(void)!fchmod(*ret_fd, mode.mode & 07777);
	return 0;
}

int merged_open_that(struct merged *m, const char *path,
		     const struct merged_id *id, int flags,
		     struct merged_mode mode, int *ret_fd)
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

	if (m->is_read_only)
		return -EROFS;
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
	if (m->is_plain)
		return -errno;
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

	/* The kernel looks at that first, too. */
	if (r == 0 && m->is_read_only)
		r = -EROFS;
	if (r < 0)
		return r;
	if (!entry_seen(&s.e))
		return -ENOENT;
	r = may_remove(m, &s);
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
	r = spot_go_up(m, &s);
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
	r = may_remove(m, from);
	if (r == 0)
		r = b ? may_remove(m, to) : spot_may_write(m, to);
	if (r == 0 && b && !(flags & RENAME_EXCHANGE))
		r = check_replaced(m, from, to);
	return r;
}

static int go_up_all(struct merged *m, struct spot *s)
{
	int r = m->is_plain ? 0
		: is_dir(s) ? up_tree(m, s->path)
			    : up_object(m, s->path, NULL);

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
	if (r == 0 && m->is_read_only)
		r = -EROFS;
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
		r = spot_go_up(m, &to);
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
