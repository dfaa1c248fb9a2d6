/*
 * A hosts file that is nowhere on the host: a file in a tmpfs of this mount
 * namespace, which has no name any more once the file is mounted. (What was
 * unlinked cannot be mounted, and a mount of the kernel's own, as that of a
 * memfd, cannot be cloned.)
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/mount.h"

static int write_file(int dir_fd, const char *name, const char *text,
		      int *ret_fd)
{
	auto_close int fd = openat(
		dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, text, strlen(text));
	if (r == 0 && fchmod(fd, 0644) < 0) /* whatever the umask */
		r = -errno;
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* The tmpfs lies over the root meanwhile: only what is attached is cloned. */
static int clone_file(const struct rootfs *r, int tmpfs_fd, const char *text,
		      int *ret_fd)
{
	auto_close int file_fd = -1;
	char path[FD_PATH_MAX];
	int n = mount_attach(tmpfs_fd, r->root_fd);
	int fd = -1;

	if (n < 0)
		return n;
	n = write_file(tmpfs_fd, "hosts", text, &file_fd);
	if (n == 0)
		fd = mount_clone(file_fd, "", 0);
	if (umount2(fd_proc_path(tmpfs_fd, path), MNT_DETACH) < 0 && n == 0)
		n = -errno;
	if (n == 0 && fd < 0)
		n = fd;
	if (n < 0)
		cleanup_close(&fd);
	else
		*ret_fd = fd;
	return n;
}

int rootfs_mount_hosts(struct rootfs *r, struct error *err)
{
	static const struct mount_fs fs = {
		.type = "tmpfs",
		.source = "hosts",
		.data = "mode=755",
		.flags = MS_NOSUID | MS_NODEV | MS_NOEXEC,
	};
	const struct mount_change read_only = { .set = MOUNT_ATTR_RDONLY };
	auto_(target) struct target t = TARGET_INIT;
	auto_close int tmpfs_fd = -1, fd = -1;
	int n;

	if (!r->o.hosts)
		return 0;
	n = mount_new(&fs, &tmpfs_fd, err);
	if (n < 0)
		return n;
	n = clone_file(r, tmpfs_fd, r->o.hosts, &fd);
	if (n == 0)
		n = mount_change(fd, &read_only);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot make a file for /etc/hosts");
	n = rootfs_open_target(r, "/etc/hosts", TARGET_FILE, &t, err);
	if (n < 0)
		return n;
	n = mount_attach(fd, t.fd);
	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "mount on '/%s'", t.path)
		     : 0;
}
