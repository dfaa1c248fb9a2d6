#include "supervise/object.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "supervise/handler.h"

/* What a magic link says; malloc'ed, NULL where it says nothing useful. */
static char *read_link(const char *link)
{
	char text[PATH_MAX];
	ssize_t n = readlink(link, text, sizeof(text));

	if (n <= 0 || (size_t)n >= sizeof(text) || *text != '/')
		return NULL;
	return strndup(text, (size_t)n);
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
	*ret = read_link(link);
	if (!*ret && errno == ENOENT && dirfd != AT_FDCWD)
		return -EBADF;
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

int object_find(struct call *c, int dirfd, const char *path, bool follow,
		struct object *ret)
{
	auto_free char *dir = NULL;
	auto_free char *whole = NULL;
	auto_close int root_fd = call_open_root(c);
	auto_close int fd = -1;
	int r;

	*ret = (struct object){ .exists = false };
	if (root_fd < 0)
		return root_fd;
	if (*path != '/') {
		r = begin_at(c, dirfd, &dir);
		if (r < 0)
			return r;
	}
	/* As the kernel would walk it: ".." behind a link is not lexical. */
	whole = *path == '/' ? strdup(path)
			     : (*path ? path_join(dir, path) : strdup(dir));
	if (!whole || join("/", whole, &ret->path) < 0)
		return -ENOMEM;
	fd = fd_open_in_root(root_fd, whole, O_PATH | (follow ? 0 : O_NOFOLLOW),
			     0);
	if (fd >= 0 && fstat(fd, &ret->st) == 0) {
		ret->exists = true;
		ret->real = real_path(fd);
	} else if (fd == -ENOENT) {
		r = find_missing(root_fd, whole, &ret->real);
		if (r < 0)
			return r;
	}
	return call_is_valid(c) ? 0 : -ESRCH;
}

void object_done(struct object *t)
{
	free(t->path);
	free(t->real);
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

bool object_is_same(const struct object *a, const struct object *b)
{
	if (!is_equal(a->path, b->path) || !is_equal(a->real, b->real) ||
	    a->exists != b->exists)
		return false;
	return !a->exists ||
	       (a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino &&
		a->st.st_mode == b->st.st_mode);
}

bool object_is_unchanged(const struct object *a, const struct object *b)
{
	return object_is_same(a, b) &&
	       (!a->exists || (a->st.st_size == b->st.st_size &&
			       is_same_time(&a->st.st_mtim, &b->st.st_mtim) &&
			       is_same_time(&a->st.st_ctim, &b->st.st_ctim)));
}
