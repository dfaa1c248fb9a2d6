#include "supervise/object.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "supervise/handler.h"

enum { LINKS_MAX = 40 };

/* WAY_ASTRAY: missing, by links of ordinary kind. */
enum way { WAY_MISSING, WAY_ASTRAY, WAY_UNKNOWN, WAY_VEILED };

/* What a magic link says; malloc'ed, NULL where it says nothing useful. */
static char *read_link(const char *link)
{
	char text[PATH_MAX];

	if (fd_read_link(AT_FDCWD, link, text) < 0 || *text != '/')
		return NULL;
	return strdup(text);
}

static char *real_path(int fd)
{
	char link[FD_PATH_MAX];

	return read_link(fd_proc_path(fd, link));
}

static int join(const char *dir, const char *path, char **ret)
{
	auto_free char *whole =
		*path == '/' ? strdup(path) : path_join(dir, path);

	*ret = whole ? path_normalize(whole) : NULL;
	return *ret ? 0 : -ENOMEM;
}

/* The directory that a relative path begins in. */
static int begin_at(struct call *c, int dirfd, char **ret)
{
	char link[64];

	if (dirfd == AT_FDCWD)
		(void)snprintf(link, sizeof(link), "/proc/%d/cwd",
			       (int)call_tid(c));
	else
		(void)snprintf(link, sizeof(link), "/proc/%d/fd/%d",
			       (int)call_tid(c), dirfd);
	errno = 0;
	*ret = read_link(link);
	if (!*ret && errno == ENOENT && dirfd != AT_FDCWD)
		return -EBADF;
	/* No rule could be held to what is there. */
	if (!*ret && errno == ENAMETOOLONG)
		return -ENAMETOOLONG;
	if (!*ret)
		*ret = strdup("/");
	if (!call_is_valid(c))
		return -ESRCH;
	return *ret ? 0 : -ENOMEM;
}

/* Of what does not exist: in a directory that does. */
static int find_missing(int root_fd, const char *whole, char **ret)
{
	auto_free char *dir = strdup(whole);
	auto_free char *real = NULL;
	auto_close int fd = -1;
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!slash)
		return -ENOMEM;
	*slash = '\0';
	fd = fd_open_in_root(root_fd, *dir ? dir : "/", O_PATH | O_DIRECTORY,
			     0);
	real = fd < 0 ? NULL : real_path(fd);
	if (real)
		*ret = path_join(real, slash + 1);
	return 0;
}

/* Does what follows /proc/self/ go on behind one of its magic links? */
static bool goes_behind(const char *rest)
{
	int behind_fd = 0;
	bool has_task = false;

	while (*rest) {
		size_t n = strcspn(rest, "/");
		bool is_last = rest[n + strspn(rest + n, "/")] == '\0';

		/* A number that is another one for us, or somebody else. */
		if (n == 2 && (strncmp(rest, "..", n) == 0 ||
			       (has_task && strncmp(rest, "fd", n) == 0)))
			return true;
		has_task |= n == 4 && strncmp(rest, "task", n) == 0;
		if (!is_last && ((n == 4 && strncmp(rest, "root", n) == 0) ||
				 (n == 3 && strncmp(rest, "cwd", n) == 0)))
			return true;
		if (behind_fd && ++behind_fd > 2)
			return true;
		if (n == 2 && strncmp(rest, "fd", n) == 0)
			behind_fd = 1;
		rest += n + strspn(rest + n, "/");
	}
	return false;
}

/*
 * The first link on the way of @path, at most @len bytes of it, that we cannot
 * follow: 1 and where it ends; 0 if there is none.
 */
static int find_link(int root_fd, const char *path, size_t *ret_end,
		     int *ret_fd)
{
	size_t end = strspn(path, "/");

	while (path[end]) {
		auto_free char *prefix = NULL;
		auto_close int fd = -1, behind = -1;
		struct stat st;

		end += strcspn(path + end, "/");
		prefix = strndup(path, end);
		if (!prefix)
			return -ENOMEM;
		fd = fd_open_in_root(root_fd, prefix, O_PATH | O_NOFOLLOW, 0);
		if (fd < 0 || fstat(fd, &st) < 0)
			return 0;
		if (S_ISLNK(st.st_mode))
			behind = fd_open_in_root(root_fd, prefix, O_PATH, 0);
		if (S_ISLNK(st.st_mode) && behind < 0) {
			*ret_end = end;
			*ret_fd = take_fd(&fd);
			return 1;
		}
		end += strspn(path + end, "/");
	}
	return 0;
}

/* @path with the link that ends at @end replaced by what it says. */
static char *expand(const char *path, size_t end, int link_fd)
{
	char target[PATH_MAX];
	auto_(buf) struct buf b = BUF_INIT;
	size_t dir = end;

	if (fd_read_link(link_fd, "", target) < 0 || !*target)
		return NULL;
	while (dir && path[dir - 1] != '/')
		dir--;
	if (*target != '/')
		buf_add(&b, path, dir);
	buf_add_str(&b, target);
	buf_add_str(&b, path + end);
	return buf_take(&b, NULL);
}

/* What the caller finds there in its own directory of procfs, O_PATH. */
static int open_own(pid_t pid, const char *rest)
{
	auto_free char *path = NULL;

	if (!pid || asprintf(&path, "/proc/%d/%s", (int)pid, rest) < 0)
		return -1;
	return open(path, O_PATH | O_CLOEXEC);
}

/* /proc/self is the process's, /proc/thread-self the thread's. */
static pid_t owner(struct call *c, const char *way, size_t end)
{
	static const char thread[] = "thread-self";
	size_t n = sizeof(thread) - 1;

	return end >= n && strncmp(way + end - n, thread, n) == 0
		       ? call_tid(c)
		       : call_tgid(c);
}

/* What a magic link leads to that is the last of @way, whoever's it is; where
 * "self" was us, nothing. */
static int open_behind(int root_fd, const char *way, size_t end)
{
	auto_free char *link = strndup(way, end);
	auto_free char *real = NULL;
	auto_close int dir_fd = -1;
	char *slash = link ? strrchr(link, '/') : NULL;
	char ours[32];

	if (!slash)
		return -1;
	*slash = '\0';
	dir_fd = fd_open_in_root(root_fd, *link ? link : "/",
				 O_PATH | O_DIRECTORY, 0);
	real = dir_fd < 0 ? NULL : real_path(dir_fd);
	(void)snprintf(ours, sizeof(ours), "/proc/%d", (int)getpid());
	if (!real || path_is_under(real, ours))
		return -1;
	return openat(dir_fd, slash + 1, O_PATH | O_CLOEXEC);
}

/*
 * Links of procfs are followed by the process that asks: those of another one
 * are magic, and /proc/self does not exist for us. So their ways are only
 * looked at.
 */
static enum way look_at_way(struct call *c, int root_fd, const char *path,
			    int *ret_fd)
{
	auto_free char *way = strdup(path);
	bool has_link = false;

	for (int i = 0; way && i < LINKS_MAX; i++) {
		auto_close int link_fd = -1;
		char *next;
		struct statfs fs;
		size_t end = 0;
		int r = find_link(root_fd, way, &end, &link_fd);
		const char *rest = way + end + strspn(way + end, "/");
		bool is_own =
			end >= 4 && strncmp(way + end - 4, "self", 4) == 0;

		if (r == 0)
			return has_link ? WAY_ASTRAY : WAY_MISSING;
		if (r < 0 || fstatfs(link_fd, &fs) < 0)
			return WAY_VEILED;
		has_link = true;
		if (fs.f_type == PROC_SUPER_MAGIC) {
			if (is_own ? goes_behind(rest) : *rest != '\0')
				return WAY_VEILED;
			*ret_fd = is_own ? open_own(owner(c, way, end), rest)
					 : open_behind(root_fd, way, end);
			return WAY_UNKNOWN;
		}
		next = expand(way, end, link_fd);
		free(way);
		way = next;
	}
	return WAY_VEILED;
}

/* What cannot be opened here: it does not exist, or not for us. */
static int find_unopened(struct call *c, int root_fd, bool follow, int error,
			 struct object *ret)
{
	auto_close int fd = -1;
	const char *whole = ret->walk;
	enum way way = look_at_way(c, root_fd, whole, &fd);

	ret->is_veiled = way == WAY_VEILED;
	ret->is_missing =
		error == -ENOENT && (way == WAY_MISSING || way == WAY_ASTRAY);
	/* A descriptor of its own, say. Pipes and the like have no path. */
	if (fd >= 0 && follow)
		ret->real = real_path(fd);
	if (ret->real)
		ret->exists = object_read_stat(fd, &ret->st, &ret->mount) == 0;
	if (ret->real)
		return ret->exists && call_is_valid(c) ? 0 : -ESRCH;
	return way == WAY_MISSING && error == -ENOENT
		       ? find_missing(root_fd, whole, &ret->real)
		       : 0;
}

int object_find(struct call *c, int dirfd, const char *path, bool follow,
		struct object *ret)
{
	auto_close int root_fd = call_open_root(c);

	*ret = (struct object){ .exists = false };
	if (root_fd < 0)
		return root_fd;
	return object_find_from(c, root_fd, dirfd, path, follow, NULL, ret);
}

/* What @found says, or our own walk. That nothing is there is the same to
 * everybody who comes that far. */
static int look_at(struct call *c, int root_fd, bool follow,
		   const struct object_found *found, struct object *ret)
{
	auto_close int fd = -1;

	if (found && found->fd >= 0) {
		ret->st = found->st;
		ret->mount = found->mount;
		ret->real = found->real ? strdup(found->real)
					: real_path(found->fd);
		ret->exists = true;
		return 0;
	}
	fd = found && found->fd == -ENOENT
		     ? -ENOENT
		     : fd_open_in_root(root_fd, ret->walk,
				       O_PATH | (follow ? 0 : O_NOFOLLOW), 0);
	if (fd < 0)
		return find_unopened(c, root_fd, follow, fd, ret);
	if (object_read_stat(fd, &ret->st, &ret->mount) == 0) {
		ret->exists = true;
		ret->real = real_path(fd);
	}
	return 0;
}

int object_find_from(struct call *c, int root_fd, int dirfd, const char *path,
		     bool follow, const struct object_found *found,
		     struct object *ret)
{
	int r;

	*ret = (struct object){ .exists = false };
	if (*path != '/') {
		r = begin_at(c, dirfd, &ret->dir);
		if (r < 0)
			return r;
	}
	/* As the kernel would walk it: ".." behind a link is not lexical. */
	ret->walk = *path == '/' ? strdup(path)
		    : *path	 ? path_join(ret->dir, path)
				 : strdup(ret->dir);
	if (!ret->walk || join("/", ret->walk, &ret->path) < 0)
		return -ENOMEM;
	r = look_at(c, root_fd, follow, found, ret);
	if (r < 0)
		return r;
	return (found && !ret->dir) || call_is_valid(c) ? 0 : -ESRCH;
}

static struct timespec time_of(const struct statx_timestamp *t)
{
	return (struct timespec){ .tv_sec = t->tv_sec, .tv_nsec = t->tv_nsec };
}

int object_read_stat(int fd, struct stat *ret, uint64_t *ret_mount)
{
	/* The second where there is one. */
	const unsigned int mount_id = STATX_MNT_ID | STATX_MNT_ID_UNIQUE;
	struct statx s;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | mount_id, &s) < 0)
		return -errno;
	*ret = (struct stat){
		.st_dev = makedev(s.stx_dev_major, s.stx_dev_minor),
		.st_ino = s.stx_ino,
		.st_mode = s.stx_mode,
		.st_nlink = s.stx_nlink,
		.st_uid = s.stx_uid,
		.st_gid = s.stx_gid,
		.st_rdev = makedev(s.stx_rdev_major, s.stx_rdev_minor),
		.st_size = (off_t)s.stx_size,
		.st_blksize = (blksize_t)s.stx_blksize,
		.st_blocks = (blkcnt_t)s.stx_blocks,
		.st_atim = time_of(&s.stx_atime),
		.st_mtim = time_of(&s.stx_mtime),
		.st_ctim = time_of(&s.stx_ctime),
	};
	*ret_mount = s.stx_mask & mount_id ? s.stx_mnt_id : 0;
	return 0;
}

bool object_is_unique_mount(uint64_t mount)
{
	return mount >= UINT64_C(1) << 31;
}

void object_done(struct object *t)
{
	free(t->path);
	free(t->real);
	free(t->walk);
	free(t->dir);
	*t = (struct object){ .exists = false };
}

static bool is_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_inode(const struct object *a, const struct object *b)
{
	if (a->exists != b->exists)
		return false;
	return !a->exists ||
	       (a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino &&
		a->st.st_mode == b->st.st_mode);
}

static bool has_same_times(const struct object *a, const struct object *b)
{
	return !a->exists || (a->st.st_size == b->st.st_size &&
			      is_same_time(&a->st.st_mtim, &b->st.st_mtim) &&
			      is_same_time(&a->st.st_ctim, &b->st.st_ctim));
}

bool object_has_same_file(const struct object *a, const struct object *b)
{
	return is_same_inode(a, b) && has_same_times(a, b);
}

bool object_is_same(const struct object *a, const struct object *b)
{
	return is_equal(a->path, b->path) && is_equal(a->real, b->real) &&
	       is_same_inode(a, b);
}

bool object_is_unchanged(const struct object *a, const struct object *b)
{
	return object_is_same(a, b) && has_same_times(a, b);
}
