/*
 * Scratch: a bind mount that may be written to, and whose source never is. The
 * upper layer is a tmpfs below the overlay, where no path leads. Kernels before
 * 6.15 take layers of mounted file systems only, so it is mounted first, on the
 * first target that needs it.
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/branch.h"
#include "branch/mountinfo.h"
#include "kernel/mount.h"

/*
 * An overlay would show what lies below a mount in the source: a cache that is
 * shared between machines, or a file that covers another one.
 */
static bool has_mounts(int dir_fd)
{
	char path[FD_PATH_MAX];
	auto_free char *dir = realpath(fd_proc_path(dir_fd, path), NULL);

	return !dir || mountinfo_has_below(dir);
}

/* As the source is; an owner who is not mapped is nobody there, too. */
static int make_upper(int scratch_fd, int fd, const char *name)
{
	auto_close int dir_fd = -1;
	struct stat st;

	if (fstat(fd, &st) < 0 || mkdirat(scratch_fd, name, 0700) < 0)
		return -1;
	dir_fd = openat(scratch_fd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -1;
	if (mkdirat(dir_fd, "upper", st.st_mode & 07777) < 0 ||
	    mkdirat(dir_fd, "work", 0700) < 0)
		return -1;
	if (fchownat(dir_fd, "upper", st.st_uid, st.st_gid, 0) < 0 &&
	    errno != EINVAL)
		return -1;
	return take_fd(&dir_fd);
}

/* The source by its path: a clone of it is in no mount namespace. */
static int open_lower(const struct spec_mount *m, int fd)
{
	auto_close int lower_fd =
		open(m->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat a, b;

	if (lower_fd < 0 || fstat(lower_fd, &a) < 0 || fstat(fd, &b) < 0 ||
	    a.st_ino != b.st_ino || a.st_dev != b.st_dev)
		return -1;
	return take_fd(&lower_fd);
}

static int mount_layers(const struct rootfs *r, int lower_fd, int dir_fd,
			int *ret_fd)
{
	struct mount_fs fs = { .type = "overlay", .source = "scratch" };
	auto_(buf) struct buf b = BUF_INIT;

	buf_printf(&b,
		   "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,"
		   "workdir=/proc/self/fd/%d/work",
		   lower_fd, dir_fd, dir_fd);
	for (size_t i = 0; i < BRANCH_OVERLAY_OPTIONS; i++)
		buf_printf(&b, ",%s=%s", branch_overlay_options[i].key,
			   branch_overlay_options[i].value);
	if (r->o.new_userns || !r->o.privileged)
		buf_add_str(&b, ",userxattr");
	if (buf_failed(&b))
		return -ENOMEM;
	fs.data = buf_str(&b);
	return mount_new(&fs, ret_fd, NULL);
}

static int open_scratch(struct rootfs *r, const struct target *t)
{
	static const struct mount_fs fs = {
		.type = "tmpfs",
		.source = "scratch",
		.data = "mode=700",
		.flags = MS_NOSUID | MS_NODEV,
	};
	auto_close int fd = -1;

	if (mount_new(&fs, &fd, NULL) < 0 || mount_attach(fd, t->fd) < 0)
		return -1;
	r->scratch_fd = take_fd(&fd);
	return 0;
}

static void drop_scratch(struct rootfs *r)
{
	char path[FD_PATH_MAX];

	(void)umount2(fd_proc_path(r->scratch_fd, path), MNT_DETACH);
	cleanup_close(&r->scratch_fd);
}

void rootfs_mount_scratch(struct rootfs *r, const struct spec_mount *m, int fd,
			  const struct target *t, int *ret_fd)
{
	auto_close int lower_fd = open_lower(m, fd), dir_fd = -1;
	bool is_first = r->scratch_fd < 0;
	char name[24];

	if (lower_fd < 0 || has_mounts(lower_fd))
		return;
	if (is_first && open_scratch(r, t) < 0)
		return;
	(void)snprintf(name, sizeof(name), "%u", r->n_scratch++);
	dir_fd = make_upper(r->scratch_fd, lower_fd, name);
	if ((dir_fd < 0 || mount_layers(r, lower_fd, dir_fd, ret_fd) < 0) &&
	    is_first)
		drop_scratch(r);
}
