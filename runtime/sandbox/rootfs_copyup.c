/*
 * tmpcopyup: what a directory of the root holds, copied into the tmpfs that
 * will cover it. Without recursion; links are copied, never followed; mounts
 * below are not entered.
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"

enum { DEPTH_MAX = 512 };

/* A directory that is being copied. */
struct level {
	DIR *from;
	int to_fd;
	struct stat st;
};

struct copy {
	struct level *levels;
	size_t n;
	struct error *err;
};

static void pop_level(struct copy *c)
{
	struct level *l = &c->levels[--c->n];

	(void)closedir(l->from);
	cleanup_close(&l->to_fd);
}

static void copy_done(struct copy *c)
{
	while (c->n)
		pop_level(c);
	free(c->levels);
}

static int set_metadata(int fd, const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };

	if (fchown(fd, st->st_uid, st->st_gid) < 0 ||
	    fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* Takes both fds in any case. */
static int push_level(struct copy *c, int from_fd, int to_fd,
		      const struct stat *st)
{
	struct level *more;
	DIR *dir = NULL;

	more = c->n == DEPTH_MAX
		       ? NULL
		       : reallocarray(c->levels, c->n + 1, sizeof(*more));
	if (more)
		c->levels = more;
	errno = c->n == DEPTH_MAX ? ELOOP : errno;
	if (more)
		dir = fdopendir(from_fd);
	if (!dir) {
		int n = -errno;

		(void)close(from_fd);
		(void)close(to_fd);
		return n;
	}
	c->levels[c->n].from = dir;
	c->levels[c->n].to_fd = to_fd;
	c->levels[c->n].st = *st;
	c->n++;
	return 0;
}

static int copy_directory(struct copy *c, int from_fd, int to_fd,
			  const char *name, const struct stat *st)
{
	auto_close int from =
		fd_open_beneath(from_fd, name, O_RDONLY | O_DIRECTORY, 0);
	auto_close int to = -1;

	if (mkdirat(to_fd, name, 0700) < 0)
		return -errno;
	to = openat(to_fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return -errno;
	if (from == -EXDEV) /* a mount: its directory stays empty */
		return set_metadata(to, st);
	if (from < 0)
		return from;
	return push_level(c, take_fd(&from), take_fd(&to), st);
}

static int copy_file(int from_fd, int to_fd, const char *name,
		     const struct stat *st)
{
	auto_close int from = fd_open_beneath(from_fd, name, O_RDONLY, 0);
	auto_close int to = -1;
	ssize_t n;

	if (from < 0)
		return from;
	to = openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	do {
		n = sendfile(to, from, NULL, 1 << 20);
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : set_metadata(to, st);
}

static int copy_other(int from_fd, int to_fd, const char *name,
		      const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	char text[PATH_MAX];
	int r;

	if (S_ISLNK(st->st_mode)) {
		r = fd_read_link(from_fd, name, text);
		if (r < 0)
			return r;
		r = symlinkat(text, to_fd, name);
	} else {
		r = mknodat(to_fd, name, st->st_mode, st->st_rdev);
		/* In a user namespace there are none to be made, and one that
		 * was would not open in a tmpfs of it. */
		if (r < 0 && errno == EPERM &&
		    (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)))
			return 0;
	}
	if (r < 0 ||
	    fchownat(to_fd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    utimensat(to_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int copy_entry(struct copy *c, const char *name)
{
	int from_fd = dirfd(c->levels[c->n - 1].from);
	int to_fd = c->levels[c->n - 1].to_fd;
	struct stat st;
	int n;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(c->err, ERR_SYSTEM, errno,
				 "tmpcopyup: cannot stat '%s'", name);
	if (S_ISDIR(st.st_mode))
		n = copy_directory(c, from_fd, to_fd, name, &st);
	else if (S_ISREG(st.st_mode))
		n = copy_file(from_fd, to_fd, name, &st);
	else
		n = copy_other(from_fd, to_fd, name, &st);
	return n < 0 ? error_set(c->err, ERR_SYSTEM, -n,
				 "tmpcopyup: cannot copy '%s'", name)
		     : 0;
}

/* The directory is complete; the tmpfs's own root keeps mode and owner. */
static int finish_level(struct copy *c)
{
	struct level *l = &c->levels[c->n - 1];
	int n = c->n == 1 ? 0 : set_metadata(l->to_fd, &l->st);

	pop_level(c);
	return n < 0 ? error_set(c->err, ERR_SYSTEM, -n, "tmpcopyup") : 0;
}

int rootfs_copy_up(int from_fd, int to_fd, struct error *err)
{
	auto_(copy) struct copy c = { NULL, 0, err };
	auto_close int from =
		openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int to =
		openat(to_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int n;

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "tmpcopyup");
	n = push_level(&c, take_fd(&from), take_fd(&to), &st);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "tmpcopyup");
	while (n == 0 && c.n) {
		struct dirent *e;

		errno = 0;
		e = readdir(c.levels[c.n - 1].from);
		if (e)
			n = copy_entry(&c, e->d_name);
		else if (errno)
			n = error_set(err, ERR_SYSTEM, errno, "tmpcopyup");
		else
			n = finish_level(&c);
	}
	return n;
}
