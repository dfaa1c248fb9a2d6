#include "kernel/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/uapi.h"
#include "kernel/pidfd.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/* clang-format off */
static const struct {
	unsigned long flag;
	const char *name;
} sb_flags[] = {
	{ MS_RDONLY,	  "ro"	      },
	{ MS_SYNCHRONOUS, "sync"      },
	{ MS_DIRSYNC,	  "dirsync"   },
	{ MS_MANDLOCK,	  "mand"      },
	{ MS_LAZYTIME,	  "lazytime"  },
	{ MS_I_VERSION,	  "i_version" },
};

static const struct {
	unsigned long flag;
	uint64_t attr;
} attr_flags[] = {
	{ MS_RDONLY,	  MOUNT_ATTR_RDONLY	 },
	{ MS_NOSUID,	  MOUNT_ATTR_NOSUID	 },
	{ MS_NODEV,	  MOUNT_ATTR_NODEV	 },
	{ MS_NOEXEC,	  MOUNT_ATTR_NOEXEC	 },
	{ MS_NODIRATIME,  MOUNT_ATTR_NODIRATIME	 },
	{ MS_NOSYMFOLLOW, MOUNT_ATTR_NOSYMFOLLOW },
	{ MS_NOATIME,	  MOUNT_ATTR_NOATIME	 },
	{ MS_STRICTATIME, MOUNT_ATTR_STRICTATIME },
};
/* clang-format on */

static int sys_fsconfig(int fd, unsigned int cmd, const char *key,
			const char *value)
{
	if (syscall(SYS_fsconfig, fd, cmd, key, value, 0) < 0)
		return -errno;
	return 0;
}

/*
 * Adds what the kernel wrote to the log of the context, "e tmpfs: Bad value
 * for 'size'" a message, to the error. The last one says most.
 */
static int explain(int fs_fd, int sys, const char *doing, struct error *err)
{
	char line[256], last[256] = "";
	char *nl;
	ssize_t n;

	while ((n = read(fs_fd, line, sizeof(line) - 1)) > 0) {
		line[n] = '\0';
		nl = strchr(line, '\n');
		if (nl)
			*nl = '\0';
		if (n > 2 && line[1] == ' ')
			memcpy(last, line + 2, sizeof(line) - 2);
	}
	if (last[0])
		return error_set(err, ERR_SYSTEM, sys, "%s: %s", doing, last);
	return error_set(err, ERR_SYSTEM, sys, "%s", doing);
}

static int set_option(int fs_fd, char *option, struct error *err)
{
	char doing[128];
	char *value = strchr(option, '=');
	int r;

	if (value)
		*value++ = '\0';
	r = sys_fsconfig(fs_fd, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
			 option, value);
	if (r == 0)
		return 0;
	(void)snprintf(doing, sizeof(doing), "option '%s%s%s'", option,
		       value ? "=" : "", value ? value : "");
	return explain(fs_fd, -r, doing, err);
}

/* A comma behind a backslash is part of a value (overlay). */
static size_t option_len(const char *s)
{
	const char *end;

	for (end = s; *end && *end != ','; end++) {
		if (*end == '\\' && end[1])
			end++;
	}
	return (size_t)(end - s);
}

static int set_options(int fs_fd, const char *data, unsigned long flags,
		       struct error *err)
{
	auto_free char *copy = NULL;
	char *s, *end;
	size_t i;
	bool more;
	int r;

	for (i = 0; i < ARRAY_LEN(sb_flags); i++) {
		char name[16];

		if (!(flags & sb_flags[i].flag))
			continue;
		(void)snprintf(name, sizeof(name), "%s", sb_flags[i].name);
		r = set_option(fs_fd, name, err);
		if (r < 0)
			return r;
	}
	if (!data || !*data)
		return 0;
	copy = strdup(data);
	if (!copy)
		return error_set(err, ERR_SYSTEM, ENOMEM, "mount options");
	for (s = copy, more = true; more; s = end + 1) {
		end = s + option_len(s);
		more = *end != '\0';
		*end = '\0';
		if (!*s)
			continue;
		r = set_option(fs_fd, s, err);
		if (r < 0)
			return r;
	}
	return 0;
}

uint64_t mount_attrs(unsigned long flags)
{
	uint64_t attrs = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(attr_flags); i++) {
		if (flags & attr_flags[i].flag)
			attrs |= attr_flags[i].attr;
	}
	return attrs;
}

static int set_pidns(int fs_fd, int pidns_fd)
{
	return syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FD, "pidns", NULL,
		       pidns_fd) < 0
		       ? -errno
		       : 0;
}

bool mount_takes_pidns(int pidns_fd)
{
	auto_close int fd = (int)syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);

	return fd >= 0 && set_pidns(fd, pidns_fd) == 0;
}

int mount_new(const struct mount_fs *fs, int *ret_fd, struct error *err)
{
	auto_close int fs_fd = -1;
	int fd, r;

	fs_fd = (int)syscall(SYS_fsopen, fs->type, FSOPEN_CLOEXEC);
	if (fs_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "file system '%s'",
				 fs->type);
	r = fs->pidns_fd ? set_pidns(fs_fd, fs->pidns_fd) : 0;
	if (r < 0)
		return explain(fs_fd, -r, "pid namespace of a procfs", err);
	if (fs->source) {
		r = sys_fsconfig(fs_fd, FSCONFIG_SET_STRING, "source",
				 fs->source);
		if (r < 0)
			return explain(fs_fd, -r, "mount source", err);
	}
	r = set_options(fs_fd, fs->data, fs->flags, err);
	if (r < 0)
		return r;
	r = sys_fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL);
	if (r < 0)
		return explain(fs_fd, -r, fs->type, err);
	fd = (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC,
			  (unsigned int)mount_attrs(fs->flags));
	if (fd < 0)
		return explain(fs_fd, errno, fs->type, err);
	*ret_fd = fd;
	return 0;
}

bool mount_is_long(const struct mount_fs *fs)
{
	const char *s = fs->data ? fs->data : "";
	const char *value;
	size_t n;

	if (fs->source && strlen(fs->source) > MOUNT_VALUE_MAX)
		return true;
	for (; *s; s += n + (s[n] == ',')) {
		n = option_len(s);
		value = memchr(s, '=', n);
		if (value && s + n - value - 1 > MOUNT_VALUE_MAX)
			return true;
	}
	return false;
}

/* Mounts on "m" of the attached @dir_fd and takes a clone of that. */
static int mount_and_clone(const struct mount_fs *fs, int dir_fd, int *ret_fd,
			   struct error *err)
{
	char place[64];
	int fd;

	if (mkdirat(dir_fd, "m", 0700) < 0)
		return error_set(err, ERR_SYSTEM, errno, "%s", fs->type);
	(void)snprintf(place, sizeof(place), "/proc/self/fd/%d/m", dir_fd);
	if (mount(fs->source, place, fs->type, fs->flags, fs->data) < 0)
		return error_set(err, ERR_SYSTEM, errno, "%s", fs->type);
	fd = mount_clone(dir_fd, "m", 0);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, -fd, "%s", fs->type);
	*ret_fd = fd;
	return 0;
}

int mount_new_long(const struct mount_fs *fs, int at_fd, int *ret_fd,
		   struct error *err)
{
	const struct mount_fs scratch = { .type = "tmpfs", .data = "size=4k" };
	auto_close int dir_fd = -1, fd = -1;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char place[64];
	int r;

	/* It would be cut. */
	if (fs->data && strlen(fs->data) >= page) {
		(void)error_say(err, ERR_UNSUPPORTED, E2BIG,
				"%s: the kernel takes %zu bytes of options, "
				"not %zu",
				fs->type, page - 1, strlen(fs->data));
		return error_hint(err, "use shorter paths, or fewer");
	}
	r = mount_new(&scratch, &dir_fd, err);
	if (r < 0)
		return r;
	r = mount_attach(dir_fd, at_fd);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "%s", fs->type);
	r = mount_and_clone(fs, dir_fd, &fd, err);
	(void)snprintf(place, sizeof(place), "/proc/self/fd/%d", dir_fd);
	if (umount2(place, MNT_DETACH) < 0 && r == 0)
		r = error_set(err, ERR_SYSTEM, errno, "%s", fs->type);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int mount_clone(int dirfd, const char *path, unsigned int at_flags)
{
	int fd;

	if (!*path)
		at_flags |= AT_EMPTY_PATH;
	fd = (int)syscall(SYS_open_tree, dirfd, path,
			  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | at_flags);
	return fd < 0 ? -errno : fd;
}

int mount_attach(int mount_fd, int target_fd)
{
	if (syscall(SYS_move_mount, mount_fd, "", target_fd, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

int mount_change(int fd, const struct mount_change *c)
{
	struct mount_attr attr = {
		.attr_set = c->set,
		.attr_clr = c->clear,
		.propagation = c->propagation,
		.userns_fd = c->set & MOUNT_ATTR_IDMAP ? c->userns_fd : 0,
	};
	unsigned int flags = AT_EMPTY_PATH;

	if (!c->set && !c->clear && !c->propagation)
		return 0;
	if (c->recursive)
		flags |= AT_RECURSIVE;
	if (syscall(SYS_mount_setattr, fd, "", flags, &attr, sizeof(attr)) < 0)
		return -errno;
	return 0;
}

int mount_reconfigure(int fd, const char *data, unsigned long flags,
		      struct error *err)
{
	auto_close int fs_fd = -1;
	int r;

	fs_fd = (int)syscall(SYS_fspick, fd, "",
			     FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	if (fs_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "remount");
	r = set_options(fs_fd, data, flags, err);
	if (r < 0)
		return r;
	r = sys_fsconfig(fs_fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL);
	return r < 0 ? explain(fs_fd, -r, "remount", err) : 0;
}

int mount_id(int fd, uint64_t *ret)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_MNT_ID,
		  &st) < 0)
		return -errno;
	if (!(st.stx_mask & STATX_MNT_ID))
		return -ENOSYS;
	*ret = st.stx_mnt_id;
	return 0;
}

/* Back to the top of the mount namespace, from whatever chroot we are in. */
static int leave_chroot(void)
{
	auto_close int self = pidfd_open_pid(getpid());

	return self < 0 ? self : setns(self, CLONE_NEWNS) < 0 ? -errno : 0;
}

int mount_enter_top(int root_fd)
{
	uint64_t ours = 0, top = 0;
	auto_close int top_fd = -1;
	int r = leave_chroot();

	if (r < 0)
		return r;
	top_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top_fd < 0)
		return -errno;
	r = mount_id(top_fd, &top);
	if (r == 0)
		r = mount_id(root_fd, &ours);
	return r < 0 ? r : ours == top;
}

/*
 * pivot_root(2) replaces the root that we have. In a chroot that is not the
 * namespace's, which would still be there for everybody who joins it.
 */
static int pivot_namespace(int root_fd)
{
	int r = mount_enter_top(root_fd);

	if (r != 0)
		return r < 0 ? r : 0;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0)
		return -errno;
	return 0;
}

int mount_pivot(int root_fd, struct error *err)
{
	int r;

	if (fchdir(root_fd) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot enter the root file system");
	/* The old root lands on top of the new one, and goes from there. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return error_set(err, ERR_SYSTEM, errno, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot detach the host's file systems");
	r = pivot_namespace(root_fd);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot leave the chroot that this runs in");
	if (chdir("/") < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot enter '/'");
	return 0;
}
