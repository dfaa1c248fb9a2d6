/* Single objects of the trees that walk.h goes over. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "branch/walk.h"

int time_compare(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	if (a->tv_nsec != b->tv_nsec)
		return a->tv_nsec < b->tv_nsec ? -1 : 1;
	return 0;
}

static struct timespec time_of(const struct statx_timestamp *t)
{
	return (struct timespec){ .tv_sec = t->tv_sec,
				  .tv_nsec = (long)t->tv_nsec };
}

int object_stat(int dirfd, const char *name, struct object *ret)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
		    (name[0] ? 0 : AT_EMPTY_PATH);
	struct statx st;

	*ret = (struct object){ .mode = 0 };
	if (dirfd < 0)
		return 0;
	if (statx(dirfd, name, flags, STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	*ret = (struct object){
		.mode = st.stx_mode,
		.uid = st.stx_uid,
		.gid = st.stx_gid,
		.nlink = st.stx_nlink,
		.ino = st.stx_ino,
		.size = st.stx_size,
		.blocks = st.stx_blocks,
		.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.rdev = makedev(st.stx_rdev_major, st.stx_rdev_minor),
		.mtime = time_of(&st.stx_mtime),
		.ctime = time_of(&st.stx_ctime),
		.is_mount = st.stx_attributes & STATX_ATTR_MOUNT_ROOT,
		.is_locked = st.stx_attributes &
			     (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND),
	};
	if (st.stx_mask & STATX_BTIME)
		ret->btime = time_of(&st.stx_btime);
	return 0;
}

int object_set_mtime(int dirfd, const char *name, struct timespec mtime)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, mtime };
	int flags = AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH);

	return utimensat(dirfd, name, times, flags) < 0 ? -errno : 0;
}

int object_open_file(int dirfd, const char *name, int flags)
{
	auto_close int fd =
		openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? fd_reopen(fd, flags) : -ESTALE;
}

int object_set_mode(int dirfd, const char *name, mode_t mode)
{
	if (syscall(SYS_fchmodat2, dirfd, name, mode, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	/* Before Linux 6.6, or a filter that does not know it, libc does it by
	 * a descriptor. */
	if (errno != ENOSYS && errno != EPERM)
		return -errno;
	return fchmodat(dirfd, name, mode, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
								    : 0;
}

bool object_is_whiteout(const struct object *o)
{
	return S_ISCHR(o->mode) && o->rdev == makedev(0, 0);
}

int object_descend(int *fd, const char *name)
{
	int next = fd_open_beneath(*fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
				   0);

	if (next < 0)
		return next;
	(void)close(*fd);
	*fd = next;
	return 0;
}

int walk_lookup(int root_fd, const char *path, int *ret_dirfd,
		const char **ret_name)
{
	auto_close int fd =
		openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *slash;

	if (fd < 0)
		return -errno;
	while ((slash = strchr(path, '/'))) {
		auto_free char *name = strndup(path, (size_t)(slash - path));
		int r = name ? object_descend(&fd, name) : -ENOMEM;

		if (r < 0)
			return r;
		path = slash + 1;
	}
	*ret_dirfd = take_fd(&fd);
	*ret_name = path;
	return 0;
}
