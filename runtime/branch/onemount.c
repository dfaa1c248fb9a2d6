#include "branch/onemount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "branch/mountinfo.h"
#include "kernel/mount.h"

/* "/dir" below "/", or what is left of @path below @dir; NULL if it is not. */
static const char *below(const char *path, const char *dir)
{
	size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

	if (strncmp(path, dir, n) != 0 || (path[n] != '/' && path[n] != '\0'))
		return NULL;
	return path + n;
}

/* The path of a directory within its file system, whatever is mounted where. */
static int path_in_fs(int fd, char **ret)
{
	char path[PATH_MAX];
	const char *rest = NULL;
	struct mountinfo m;
	uint64_t id;
	int r = fd_path(fd, path);

	if (r == 0)
		r = mount_id(fd, &id);
	if (r == 0)
		r = mountinfo_open(&m, "self");
	if (r < 0)
		return r;
	*ret = NULL;
	while (!rest && mountinfo_next(&m) == 1)
		if (m.id == id)
			rest = below(path, m.point);
	if (rest &&
	    asprintf(ret, "%s%s", strcmp(m.root, "/") ? m.root : "", rest) < 0)
		*ret = NULL;
	mountinfo_done(&m);
	return *ret ? 0 : -ENOENT;
}

/* Is it really that mount, or does another one cover it? */
static int clone_mount(const struct mountinfo *m)
{
	auto_close int fd = open(m->point, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t id;
	int r = fd < 0 ? -errno : mount_id(fd, &id);

	if (r < 0)
		return r;
	return id == m->id ? mount_clone(fd, "", AT_EMPTY_PATH) : -ESTALE;
}

/* The same directory by way of the clone, or nothing. */
static int open_same(int tree_fd, const char *rest, int fd, int *ret)
{
	auto_close int again = fd_open_beneath(
		tree_fd, rest[0] ? rest + 1 : ".", O_RDONLY | O_DIRECTORY, 0);
	struct stat a, b;

	if (again < 0)
		return again;
	if (fstat(again, &a) < 0 || fstat(fd, &b) < 0)
		return -errno;
	if (a.st_ino != b.st_ino || a.st_dev != b.st_dev)
		return -ESTALE;
	*ret = take_fd(&again);
	return 0;
}

int onemount_open(int a, int b, int *ret_a, int *ret_b)
{
	auto_free char *path_a = NULL;
	auto_free char *path_b = NULL;
	struct mountinfo m;
	struct stat st;
	int r = path_in_fs(a, &path_a);
	bool found = false;

	if (r == 0)
		r = path_in_fs(b, &path_b);
	if (r == 0 && fstat(a, &st) < 0)
		r = -errno;
	if (r == 0)
		r = mountinfo_open(&m, "self");
	if (r < 0)
		return r;
	while (!found && mountinfo_next(&m) == 1) {
		const char *rest_a = below(path_a, m.root);
		const char *rest_b = below(path_b, m.root);
		auto_close int tree = -1;
		auto_close int fd_a = -1;
		auto_close int fd_b = -1;

		if (m.dev != st.st_dev || m.read_only || !rest_a || !rest_b)
			continue;
		tree = clone_mount(&m);
		if (tree < 0 || open_same(tree, rest_a, a, &fd_a) < 0 ||
		    open_same(tree, rest_b, b, &fd_b) < 0)
			continue;
		*ret_a = take_fd(&fd_a);
		*ret_b = take_fd(&fd_b);
		found = true;
	}
	mountinfo_done(&m);
	return found ? 0 : -EXDEV;
}
