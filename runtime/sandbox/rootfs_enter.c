#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/mount.h"

/* A cwd that is missing is made. Whoever goes there says what is wrong. */
static void make_cwd(struct rootfs *r)
{
	auto_(target) struct target t = TARGET_INIT;

	if (r->o.spec->has_process)
		(void)rootfs_open_target(r, r->o.spec->process.cwd, TARGET_ROOT,
					 &t, NULL);
}

/* Read-only file systems that had to be written to until now. */
static int freeze_mounts(struct rootfs *r, struct error *err)
{
	const struct mount_change c = { .set = MOUNT_ATTR_RDONLY };
	const struct spec *s = r->o.spec;
	size_t i;
	int n;

	for (i = 0; i < s->n_mounts; i++) {
		if (r->mount_fds[i] < 0)
			continue;
		n = mount_change(r->mount_fds[i], &c);
		if (n < 0)
			return error_set(err, ERR_SYSTEM, -n,
					 "mounts[%zu] ('%s'): read-only", i,
					 s->mounts[i].destination);
	}
	/* The host's directories are there, or are not to be seen. */
	if (s->root_readonly && !r->o.skeleton)
		make_cwd(r);
	n = s->root_readonly ? mount_change(r->root_fd, &c) : 0;
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot make the root read-only");
	return 0;
}

/*
 * Only once the old root is gone: pivot_root(2) refuses a shared one, and
 * nothing of the host could be a peer any more.
 */
static int set_propagation(struct rootfs *r, struct error *err)
{
	unsigned long flags = r->o.spec->root_propagation;
	struct mount_change c = {
		.propagation = flags & ~(unsigned long)MS_REC,
		.recursive = flags & MS_REC,
	};
	int n = mount_change(r->root_fd, &c);

	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "linux.rootfsPropagation")
		     : 0;
}

static int enter_chroot(int fd, struct error *err)
{
	if (fchdir(fd) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot enter the root file system");
	return 0;
}

void rootfs_unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] && s[2] && s[3]) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 +
				       (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

static int detach_other(struct rootfs *r, unsigned long long parent, char *line,
			struct error *err)
{
	unsigned long long id, up;
	int at = 0;
	char *end;

	if (sscanf(line, "%llu %llu %*s %*s %n", &id, &up, &at) < 2 || !at)
		return 0;
	if (up != parent || id == r->root_mnt_id || id == parent)
		return 0;
	end = strchr(line + at, ' ');
	if (!end)
		return 0;
	*end = '\0';
	rootfs_unescape(line + at);
	if (umount2(line + at, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return 0;
	/* A user namespace may not take away what it did not mount. */
	if (errno == EINVAL && r->o.new_userns)
		return 0;
	return error_set(err, ERR_SYSTEM, errno, "cannot detach '%s'",
			 line + at);
}

/*
 * Without pivot_root (an initramfs cannot be pivoted from) the root lies on
 * top of "/", where ".." of an escaped process ends as well. The other mounts
 * on the host's root are detached, so that no procfs without masks remains.
 */
static int detach_others(struct rootfs *r, struct error *err)
{
	auto_file FILE *f = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	auto_close int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t parent;
	size_t size = 0;
	int n;

	n = fd < 0 ? -errno : mount_id(fd, &parent);
	if (!f || n < 0)
		return error_set(err, ERR_SYSTEM, f ? -n : errno,
				 "cannot read the mounts of the host");
	while (n == 0 && getline(&line, &size, f) > 0)
		n = detach_other(r, parent, line, err);
	return n;
}

/* Whoever joins the mount namespace comes to its top. */
static int check_top(const struct rootfs *r, struct error *err)
{
	int n = mount_enter_top(r->root_fd);

	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot leave the chroot that this runs in");
	return n ? 0
		 : error_say(err, ERR_UNSUPPORTED, ENOTSUP,
			     "--no-pivot in a chroot would leave the host's "
			     "root where exec comes to");
}

/*
 * Security labels are written after the pivot; in a user namespace a procfs
 * can only be mounted as long as one without masks is in sight.
 */
static int prepare_proc(struct rootfs *r, struct error *err)
{
	const struct spec_process *p = &r->o.spec->process;

	if (!p->apparmor_profile && !p->selinux_label)
		return 0;
	return rootfs_proc_fd(r, err) < 0 ? -errno : 0;
}

int rootfs_enter(struct rootfs *r, struct error *err)
{
	int n = prepare_proc(r, err);

	if (n < 0)
		return n;
	if (!r->own_mounts)
		return enter_chroot(r->root_fd, err);
	n = rootfs_apply_masks(r, err);
	if (n == 0)
		n = freeze_mounts(r, err);
	if (n < 0)
		return n;
	if (r->o.no_pivot) {
		n = detach_others(r, err);
		if (n == 0)
			n = enter_chroot(r->root_fd, err);
		if (n == 0)
			n = check_top(r, err);
	} else {
		n = mount_pivot(r->root_fd, err);
	}
	if (n < 0)
		return n;
	r->entered = true;
	return set_propagation(r, err);
}
