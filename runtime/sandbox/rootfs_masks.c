#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/mount.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/*
 * A clone of the host's null device, checked when it was opened, and for all
 * but the first one a clone of that. Read-only: its mode and owner are the
 * host's (to a device data can be written all the same). nodev, nobody opens
 * it: may_open_dev() in the kernel's fs/namei.c.
 */
static int mask_file(struct rootfs *r, int fd, bool refuses, struct error *err)
{
	struct mount_change c = { .set = MOUNT_ATTR_RDONLY |
					 (refuses ? MOUNT_ATTR_NODEV : 0) };
	bool is_made = r->mask_fd >= 0;
	int null_fd = is_made ? r->mask_fd : rootfs_null_fd(r, err);
	auto_close int clone_fd = -1;
	int n;

	if (null_fd < 0)
		return null_fd;
	clone_fd = mount_clone(null_fd, "", 0);
	n = clone_fd < 0 ? clone_fd : 0;
	if (n == 0 && (!is_made || refuses))
		n = mount_change(clone_fd, &c);
	if (n == 0)
		n = mount_attach(clone_fd, fd);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "null device");
	if (!is_made && !refuses)
		r->mask_fd = take_fd(&clone_fd);
	return 0;
}

static int mask_path(struct rootfs *r, const char *path, bool refuses,
		     struct error *err)
{
	auto_close int fd = fd_open_in_root(r->root_fd, path, O_PATH, 0);
	struct stat st;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, ERR_SYSTEM, fd < 0 ? -fd : errno,
				 "cannot open it");
	return S_ISDIR(st.st_mode) ? rootfs_cover(r, fd, err)
				   : mask_file(r, fd, refuses, err);
}

/* The clone keeps nosuid, nodev and noexec of what it covers. */
static int freeze_path(struct rootfs *r, const char *path, struct error *err)
{
	struct mount_change c = { .set = MOUNT_ATTR_RDONLY, .recursive = true };
	auto_close int fd = fd_open_in_root(r->root_fd, path, O_PATH, 0);
	auto_close int clone_fd = -1;
	int n;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, -fd, "cannot open it");
	clone_fd = mount_clone(fd, "", AT_RECURSIVE);
	n = clone_fd < 0 ? clone_fd : mount_change(clone_fd, &c);
	if (n == 0)
		n = mount_attach(clone_fd, fd);
	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "read-only mount") : 0;
}

int rootfs_apply_masks(struct rootfs *r, struct error *err)
{
	const struct spec *s = r->o.spec;
	size_t i;
	int n;

	for (i = 0; i < s->readonly_paths.n; i++) {
		n = freeze_path(r, s->readonly_paths.v[i], err);
		if (n < 0)
			return error_wrap(err,
					  "linux.readonlyPaths[%zu] ('%s')", i,
					  s->readonly_paths.v[i]);
	}
	for (i = 0; i < s->masked_paths.n; i++) {
		n = mask_path(r, s->masked_paths.v[i],
			      i + r->o.n_refusing >= s->masked_paths.n, err);
		if (n < 0)
			return error_wrap(err, "linux.maskedPaths[%zu] ('%s')",
					  i, s->masked_paths.v[i]);
	}
	return 0;
}
