#include "branch/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "branch/publish.h"
#include "branch/walk.h"

unsigned int move_without_flags;
bool move_touches;

void place_open_shut(const struct place *p, struct shut *ret)
{
	char path[FD_PATH_MAX];
	auto_close int fd =
		openat(p->dirfd, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	ret->fd = -1;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
	    (st.st_mode & S_IWUSR) || S_ISLNK(st.st_mode) ||
	    chmod(fd_proc_path(fd, path), (st.st_mode & 07777) | S_IWUSR) < 0)
		return;
	ret->mode = st.st_mode & 07777;
	ret->fd = take_fd(&fd);
}

void place_shut(struct shut *d)
{
	char path[FD_PATH_MAX];

	if (d->fd >= 0)
		(void)chmod(fd_proc_path(d->fd, path), d->mode);
	cleanup_close(&d->fd);
}

static void open_shut_dir(const struct place *p, struct shut *ret)
{
	struct object o;

	ret->fd = -1;
	if (object_stat(p->dirfd, p->name, &o) == 0 && S_ISDIR(o.mode))
		place_open_shut(p, ret);
}

/*
 * To move a directory elsewhere takes the right to write to it, because of its
 * "..". Its owner has that in any case, if not by its mode.
 */
static int rename_shut(const struct place *from, const struct place *to,
		       unsigned int flags)
{
	struct shut a, b = { .fd = -1 };
	int r = -EACCES;

	open_shut_dir(from, &a);
	if (flags & RENAME_EXCHANGE)
		open_shut_dir(to, &b);
	if (a.fd >= 0 || b.fd >= 0)
		r = renameat2(from->dirfd, from->name, to->dirfd, to->name,
			      flags) < 0
			    ? -errno
			    : 0;
	place_shut(&a);
	place_shut(&b);
	return r;
}

static int rename_flags(const struct place *from, const struct place *to,
			unsigned int flags)
{
	int r;

	branch_step("rename");
	if (flags & move_without_flags)
		return -EINVAL;
	r = renameat2(from->dirfd, from->name, to->dirfd, to->name, flags);
	if (r == 0)
		return 0;
	if (errno == EACCES)
		return rename_shut(from, to, flags);
	return errno == ENOSYS ? -EINVAL : -errno;
}

static int rename_plain(const struct place *from, const struct place *to)
{
	branch_step("plain rename");
	return renameat(from->dirfd, from->name, to->dirfd, to->name) < 0
		       ? -errno
		       : 0;
}

static int remove_name(const struct place *p)
{
	branch_step("unlink");
	return unlinkat(p->dirfd, p->name, 0) < 0 ? -errno : 0;
}

static int add_name(const struct place *from, const struct place *to)
{
	branch_step("link");
	return linkat(from->dirfd, from->name, to->dirfd, to->name, 0) < 0
		       ? -errno
		       : 0;
}

static bool no_links(int r)
{
	return r == -EPERM || r == -EOPNOTSUPP || r == -ENOSYS ||
	       r == -EMLINK || r == -EACCES;
}

/* A link cannot replace anything. A directory only replaces an empty one. */
static int move_in_steps(const struct place *from, const struct place *to)
{
	struct object f, t;
	int r = object_stat(from->dirfd, from->name, &f);

	if (r == 0)
		r = object_stat(to->dirfd, to->name, &t);
	if (r < 0)
		return r;
	if (!f.mode)
		return -ENOENT;
	/* Both are names of it: that was cut off. */
	if (t.mode && t.ino == f.ino && !S_ISDIR(f.mode))
		return remove_name(from);
	if (t.mode)
		return -EEXIST;
	if (S_ISDIR(f.mode))
		return rename_plain(from, to);
	r = add_name(from, to);
	if (no_links(r))
		return rename_plain(from, to);
	return r < 0 ? r : remove_name(from);
}

int move_new(const struct place *from, const struct place *to)
{
	int r = rename_flags(from, to, RENAME_NOREPLACE);

	/* That may be a second name of it, which steps have left. */
	return r == -EINVAL || r == -EEXIST ? move_in_steps(from, to) : r;
}

static void touch_dir(const struct place *p)
{
	struct object o;

	if (object_stat(p->dirfd, p->name, &o) == 0 && S_ISDIR(o.mode))
		(void)utimensat(p->dirfd, p->name, NULL, AT_SYMLINK_NOFOLLOW);
}

int move_exchange(const struct place *a, const struct place *b)
{
	int r = rename_flags(a, b, RENAME_EXCHANGE);

	if (r == 0 && move_touches) {
		touch_dir(a);
		touch_dir(b);
	}
	return r;
}

/* 1 if @p is the inode @ino, 0 if it is none, or another. */
static int is_inode(const struct place *p, uint64_t ino, struct object *ret)
{
	int r = object_stat(p->dirfd, p->name, ret);

	return r < 0 ? r : ret->mode && ret->ino == ino;
}

/*
 * A second name for what is at @from, so that a rename over the first one
 * loses nothing: 1, or 0 where that cannot be.
 */
static int keep_under(const struct place *from, const struct place *to,
		      uint64_t ino)
{
	struct object o;
	int r = add_name(from, to);

	if (no_links(r))
		return 0;
	if (r < 0 && r != -EEXIST)
		return r;
	r = is_inode(to, ino, &o);
	if (r == 0) {
		(void)remove_name(to);
		return -ESTALE;
	}
	return r;
}

/* @from to @to, where @old is, which gets another name first. */
static int replace(const struct place *from, const struct place *to,
		   const struct place *aside, uint64_t old)
{
	struct object f, t, o;
	int r = object_stat(from->dirfd, from->name, &f);

	if (r == 0)
		r = is_inode(to, old, &t);
	if (r < 0)
		return r;
	if (r == 0)
		return -ESTALE;
	if (!S_ISDIR(f.mode) && !S_ISDIR(t.mode)) {
		r = keep_under(to, aside, old);
		if (r < 0)
			return r;
		if (r == 1)
			return rename_plain(from, to);
	}
	/* Of two names of one file a rename would leave both. */
	r = S_ISDIR(t.mode) ? 0 : is_inode(aside, old, &o);
	if (r < 0)
		return r;
	r = r == 1 ? remove_name(to) : rename_plain(to, aside);
	if (r == 0)
		r = is_inode(aside, old, &t);
	if (r == 0) {
		(void)move_in_steps(aside, to);
		return -ESTALE;
	}
	return r < 0 ? r : move_in_steps(from, to);
}

int move_over(const struct place *from, const struct place *to,
	      const struct place *aside, uint64_t old)
{
	struct object o;
	int r = object_stat(to->dirfd, to->name, &o);

	if (r < 0)
		return r;
	if (o.mode)
		return replace(from, to, aside, old);
	/* Cut off in between. */
	r = is_inode(aside, old, &o);
	if (r == 1)
		return move_in_steps(from, to);
	return r < 0 ? r : -ESTALE;
}

int move_back(const struct place *from, const struct place *to,
	      const struct place *aside, uint64_t new)
{
	struct object o;
	int r = object_stat(to->dirfd, to->name, &o);

	if (r < 0)
		return r;
	if (o.mode)
		return replace(aside, to, from, new);
	return move_in_steps(aside, to);
}
