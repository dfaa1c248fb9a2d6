/*
 * Who may divide its cgroup nests deeper than a path can say, and makes more
 * than a list has room for: what is below is removed as it is found.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/cgroup_internal.h"

/* Somebody may make them as fast as we remove them. */
enum { REMOVE_TRIES = 200, REMOVE_WAIT_MS = 10, STEPS_MAX = 1 << 20 };

/* Waits a little for the last tasks to be gone. */
static void wait_unpopulated(int dirfd, const char *name, bool v2)
{
	auto_close int fd = -1;
	char path[PATH_MAX], text[256];
	struct pollfd p = { .events = POLLPRI };

	if (v2 && cgroup_file_path(name, "cgroup.events", path) == 0)
		fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	p.fd = fd;
	/* Only a change after a read wakes up; without a file we sleep. */
	if (fd >= 0)
		(void)!read(fd, text, sizeof(text));
	(void)poll(&p, fd >= 0 ? 1 : 0, REMOVE_WAIT_MS);
}

/* In cgroupfs the links of a directory are its own two and those below. */
static bool has_children(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_nlink > 2;
}

/* 1: there are others below it. */
static int remove_dir(int dirfd, const char *name, bool v2)
{
	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			return -errno;
		if (has_children(dirfd, name))
			return 1;
		wait_unpopulated(dirfd, name, v2);
	}
	return -EBUSY;
}

/* 1: not @ret_name, which has others below it. */
static int remove_children(int dirfd, bool v2, char ret_name[NAME_MAX + 1])
{
	auto_dir DIR *d = NULL;
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *e;

	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		int sys = errno;

		cleanup_close(&fd);
		return -sys;
	}
	while ((e = readdir(d))) {
		int r;

		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0)
			continue;
		r = remove_dir(dirfd, e->d_name, v2);
		if (r > 0)
			(void)snprintf(ret_name, NAME_MAX + 1, "%s", e->d_name);
		if (r != 0)
			return r;
	}
	return 0;
}

static int remove_below(const char *dir, bool v2)
{
	auto_close int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t depth = 0;

	if (at < 0)
		return -errno;
	for (int i = 0; i < STEPS_MAX; i++) {
		char name[NAME_MAX + 1];
		int r = remove_children(at, v2, name);
		int next;

		if (r < 0 || (r == 0 && depth == 0))
			return r;
		next = openat(at, r ? name : "..",
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 && r && errno == ENOENT)
			continue;
		if (next < 0)
			return -errno;
		depth = r ? depth + 1 : depth - 1;
		(void)close(at);
		at = next;
	}
	return -E2BIG;
}

int cgroup_remove_tree(const char *dir, bool v2)
{
	int r = remove_dir(AT_FDCWD, dir, v2);

	if (r <= 0)
		return r;
	r = remove_below(dir, v2);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = remove_dir(AT_FDCWD, dir, v2);
	return r > 0 ? -EBUSY : r;
}
