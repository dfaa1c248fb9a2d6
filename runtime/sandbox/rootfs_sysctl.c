/*
 * Writes to /proc that nobody can redirect: a procfs mount of our own, that is
 * attached nowhere, walked without links and without crossing mounts
 * (CVE-2025-52881).
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statfs.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "kernel/mount.h"

static int check_proc(int fd, struct error *err)
{
	struct statfs st;

	if (fstatfs(fd, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "procfs");
	if (st.f_type != PROC_SUPER_MAGIC)
		return error_say(err, ERR_SYSTEM, EPERM,
				 "'/proc' is not a procfs");
	return 0;
}

/*
 * In a pid namespace that is not ours to mount for, the host's /proc serves as
 * long as it is in sight: before rootfs_enter.
 */
static int open_host_proc(int *ret_fd, struct error *err)
{
	auto_close int fd =
		open("/proc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int n;

	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '/proc'");
	n = check_proc(fd, err);
	if (n == 0)
		*ret_fd = take_fd(&fd);
	return n;
}

int rootfs_proc_fd(struct rootfs *r, struct error *err)
{
	static const struct mount_fs proc = {
		.type = "proc",
		.source = "proc",
		.flags = MS_NOSUID | MS_NODEV | MS_NOEXEC,
	};
	struct error why = ERROR_INIT;
	int n;

	if (r->proc_fd >= 0)
		return r->proc_fd;
	n = mount_new(&proc, &r->proc_fd, &why);
	if (n == -EPERM && !r->entered)
		n = open_host_proc(&r->proc_fd, &why);
	if (n == 0)
		return r->proc_fd;
	if (err) {
		*err = why;
		(void)error_wrap(err, "cannot get a procfs of our own");
	}
	errno = -n;
	return -1;
}

static int write_sysctl(int proc_fd, const struct spec_pair *p,
			struct error *err)
{
	auto_free char *path = path_join("sys", p->key);
	auto_close int fd = -1;
	int n;

	if (!path)
		return error_set(err, ERR_SYSTEM, ENOMEM, "sysctl");
	fd = fd_open_beneath(proc_fd, path, O_WRONLY | O_NOCTTY, 0);
	if (fd < 0)
		return error_set(err, ERR_BUNDLE, -fd, "sysctl '%s'", p->key);
	n = check_proc(fd, err);
	if (n < 0)
		return n;
	n = fd_write_full(fd, p->value, strlen(p->value));
	if (n < 0)
		return error_set(err, ERR_BUNDLE, -n,
				 "cannot set sysctl '%s' to '%s'", p->key,
				 p->value);
	return 0;
}

int rootfs_write_sysctls(struct rootfs *r, struct error *err)
{
	const struct spec *s = r->o.spec;
	int proc_fd, n = 0;
	size_t i;

	if (!s->n_sysctls)
		return 0;
	proc_fd = rootfs_proc_fd(r, err);
	if (proc_fd < 0)
		return -errno;
	for (i = 0; n == 0 && i < s->n_sysctls; i++)
		n = write_sysctl(proc_fd, &s->sysctls[i], err);
	return n;
}
