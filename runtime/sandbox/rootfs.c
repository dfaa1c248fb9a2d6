#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "branch/branch.h"
#include "kernel/mount.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/* The directory by its real name, which hooks and mounts on it go by. */
static int open_root_dir(struct rootfs *r, struct error *err)
{
	const char *given = r->o.spec->root_path;
	char real[PATH_MAX];
	struct stat st;
	int n;

	r->dir_fd = open(given, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->dir_fd < 0) {
		n = error_set(err, ERR_BUNDLE, errno, "root file system '%s'",
			      given);
		(void)error_hint(
			err, "root.path of config.json must be a directory");
		return n;
	}
	n = fd_path(r->dir_fd, real);
	if (n == 0 && fstat(r->dir_fd, &st) < 0)
		n = -errno;
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "root file system '%s'",
				 given);
	if (strcmp(real, "/") == 0) {
		(void)error_say(err, ERR_BUNDLE, EINVAL,
				"the root of the host cannot be a bundle's "
				"root file system");
		return error_hint(err, "give a directory as root.path");
	}
	r->path = strdup(real);
	if (!r->path)
		return error_set(err, ERR_SYSTEM, ENOMEM, "root file system");
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	return 0;
}

/*
 * What needs a mount namespace of the sandbox's own: without one it would
 * happen on the host.
 */
static int check_no_mounts(const struct rootfs *r, struct error *err)
{
	const struct spec *s = r->o.spec;
	const char *what = NULL;

	if (r->o.branch)
		what = "a branch";
	else if (s->n_mounts)
		what = "mounts";
	else if (s->masked_paths.n)
		what = "linux.maskedPaths";
	else if (s->readonly_paths.n)
		what = "linux.readonlyPaths";
	else if (s->root_readonly)
		what = "root.readonly";
	else if (s->root_propagation)
		what = "linux.rootfsPropagation";
	else if (s->has_process && s->process.terminal)
		what = "process.terminal";
	if (!what)
		return 0;
	(void)error_say(err, ERR_BUNDLE, EINVAL,
			"%s cannot be had without a mount namespace of the "
			"sandbox's own",
			what);
	return error_hint(err, "add {\"type\": \"mount\"}, without a path, to "
			       "linux.namespaces");
}

static size_t n_roots(const struct rootfs *r)
{
	return r->o.skeleton && r->o.branch ? branch_n_roots(r->o.branch) : 0;
}

/* The next one. */
static int open_branch(struct rootfs *r, struct error *err)
{
	int n = branch_overlay(branch_root(r->o.branch, r->n_branches),
			       &r->branch_fds[r->n_branches], err);

	r->n_branches += n == 0;
	return n;
}

/* The root is the branch, which is mounted beside what init does first. */
static bool gets_root(const struct rootfs *r)
{
	return r->parent_opens && r->o.branch && !r->o.skeleton;
}

bool rootfs_makes_branch(const struct rootfs *r)
{
	return r->parent_opens && r->o.branch;
}

int rootfs_make_branch(struct rootfs *r, rootfs_give_fn *give, void *data,
		       struct error *err)
{
	int e = 0;

	if (gets_root(r)) {
		e = branch_overlay(r->o.branch, &r->root_fd, err);
		return e == 0 ? give(data, r->root_fd, err) : e;
	}
	while (e == 0 && r->n_branches < n_roots(r)) {
		e = open_branch(r, err);
		if (e == 0)
			e = give(data, r->branch_fds[r->n_branches - 1], err);
	}
	return e;
}

/* Where it holds directories and mount points only that is bounded. */
static int open_skeleton(struct rootfs *r, struct error *err)
{
	const struct mount_fs fs = {
		.type = "tmpfs",
		.source = "tmpfs",
		.data = rootfs_shares_skeleton(r)
				? "mode=755"
				: "mode=755,size=1m,nr_inodes=4096",
		.flags = MS_NOSUID | MS_NODEV,
	};

	r->branch_fds = calloc(n_roots(r) + 1, sizeof(*r->branch_fds));
	if (!r->branch_fds)
		return error_set(err, ERR_SYSTEM, ENOMEM, "root file system");
	return mount_new(&fs, &r->root_fd, err);
}

/* Detached; the caller's namespaces are those that will own it. */
static int open_root_mount(struct rootfs *r, struct error *err)
{
	struct stat st;
	int fd;

	if (r->o.skeleton)
		return open_skeleton(r, err);
	if (r->o.branch)
		return branch_overlay(r->o.branch, &r->root_fd, err);
	fd = mount_clone(AT_FDCWD, r->path, AT_RECURSIVE | AT_SYMLINK_NOFOLLOW);
	if (fd < 0) {
		(void)error_set(
			err, ERR_SYSTEM, -fd,
			"cannot clone the mount of the root file system '%s'",
			r->path);
		if (fd == -EPERM)
			(void)error_hint(
				err, "mounting needs root or a user namespace");
		return fd;
	}
	r->root_fd = fd;
	if (fstat(fd, &st) < 0 || st.st_dev != r->dev || st.st_ino != r->ino)
		return error_say(
			err, ERR_BUNDLE, ESTALE,
			"the root file system '%s' was exchanged meanwhile",
			r->path);
	return 0;
}

int rootfs_new(const struct rootfs_options *o, struct rootfs **ret,
	       struct error *err)
{
	auto_ptr(rootfs_free) struct rootfs *r = calloc(1, sizeof(*r));
	int n;

	if (!r)
		return error_set(err, ERR_SYSTEM, ENOMEM, "root file system");
	r->o = *o;
	r->dir_fd = r->root_fd = -1;
	r->null_fd = r->mask_fd = r->cover_fd = -1;
	r->proc_fd = r->scratch_fd = -1;
	r->own_mounts = o->spec->ns[SPEC_NS_MOUNT].want == SPEC_NS_NEW;
	r->parent_opens = r->own_mounts && (o->privileged || !o->new_userns);
	n = o->skeleton ? 0 : open_root_dir(r, err);
	if (n == 0 && !r->own_mounts)
		n = check_no_mounts(r, err);
	if (n == 0 && o->spec->mount_label) {
		n = error_say(err, ERR_UNSUPPORTED, ENOTSUP,
			      "linux.mountLabel needs SELinux");
	}
	if (n == 0)
		n = rootfs_find_hidden(r, err);
	if (n == 0 && r->own_mounts)
		n = rootfs_take_sources(r, err);
	if (n == 0 && r->parent_opens && !gets_root(r))
		n = open_root_mount(r, err);
	if (n < 0)
		return n;
	*ret = take_ptr(&r);
	return 0;
}

void rootfs_leave_sources(struct rootfs *r)
{
	for (size_t i = 0; r && r->mount_fds && i < r->o.spec->n_mounts; i++) {
		cleanup_close(&r->mount_fds[i]);
		r->mount_fds[i] = -1;
	}
}

void rootfs_let_go(struct rootfs *r)
{
	if (gets_root(r) && r->root_fd >= 0)
		fd_let_go(take_fd(&r->root_fd));
	while (r->n_branches > 0)
		fd_let_go(r->branch_fds[--r->n_branches]);
}

void rootfs_free(struct rootfs *r)
{
	size_t i;

	if (!r)
		return;
	rootfs_leave_sources(r);
	free(r->mount_fds);
	cleanup_close(&r->dir_fd);
	cleanup_close(&r->root_fd);
	for (i = 0; i < r->n_branches; i++)
		cleanup_close(&r->branch_fds[i]);
	free(r->branch_fds);
	cleanup_close(&r->null_fd);
	cleanup_close(&r->mask_fd);
	cleanup_close(&r->cover_fd);
	cleanup_close(&r->scratch_fd);
	cleanup_close(&r->proc_fd);
	rootfs_free_hidden(r);
	free(r->path);
	buf_done(&r->made);
	free(r);
}

/*
 * Nothing that happens here may reach the host's mounts. A mount namespace
 * made together with a user namespace has slaves only, which is enough; else
 * the whole copied tree is cut off. Sources that are to stay in touch with the
 * host were cloned before.
 */
static int cut_off(const struct rootfs *r, struct error *err)
{
	struct mount_change c = { .recursive = true,
				  .propagation = MS_PRIVATE };
	auto_close int fd = -1;
	int n;

	if (r->o.new_userns)
		return 0;
	fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	n = fd < 0 ? -errno : mount_change(fd, &c);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot make the mounts of the host private");
	return 0;
}

unsigned long rootfs_default_propagation(const struct rootfs *r)
{
	if (r->o.spec->root_propagation & MS_SHARED)
		return 0;
	return r->o.spec->root_propagation & MS_SLAVE ? MS_SLAVE : MS_PRIVATE;
}

/*
 * On the root directory itself, where hooks look for it. Where the child's
 * user may not go there, or without pivot_root, on "/": lookups of absolute
 * paths do not see what lies on "/", so the host stays reachable for us.
 */
static int attach_root(struct rootfs *r, struct error *err)
{
	auto_close int at_fd = -1;
	int n;

	if (!r->o.no_pivot && !r->o.skeleton && !r->o.host_sources)
		at_fd = fd_openat2(AT_FDCWD, r->path, O_PATH | O_DIRECTORY, 0,
				   RESOLVE_NO_SYMLINKS);
	if (at_fd < 0) {
		r->on_host_root = true;
		at_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	n = at_fd < 0 ? -errno : mount_attach(r->root_fd, at_fd);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot mount the root file system '%s'",
				 r->path ? r->path : "/");
	return 0;
}

/* Over its own lower: what is not covered cannot be seen. */
static int mount_branch(struct rootfs *r, size_t i, struct error *err)
{
	const char *at = path_below(branch_lower(branch_root(r->o.branch, i)),
				    r->o.chroot ? r->o.chroot : "/");
	/* Devices in the lower are none of the command's business. */
	const struct mount_change c = { .set = MOUNT_ATTR_NOSUID |
					       MOUNT_ATTR_NODEV };
	auto_(target) struct target t = TARGET_INIT;
	struct stat lower = { 0 };
	int n;

	n = mount_change(r->branch_fds[i], &c);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot restrict the branch of '%s'", at);
	n = branch_stat_lower(branch_root(r->o.branch, i), &lower, err);
	if (n == 0)
		n = rootfs_open_target(r, at, 0, &t, err);
	if (n < 0)
		return n;
	n = mount_attach(r->branch_fds[i], t.fd);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot mount the branch on '%s'", at);
	return rootfs_cover_hidden(r, r->branch_fds[i], &lower, err);
}

static int get_branches(struct rootfs *r, rootfs_take_fn *take, void *data,
			struct error *err)
{
	int n = 0;

	while (n == 0 && r->n_branches < n_roots(r)) {
		if (r->parent_opens) {
			n = take(data, &r->branch_fds[r->n_branches], err);
			r->n_branches += n == 0;
		} else {
			n = open_branch(r, err);
		}
	}
	return n;
}

/* One may lie within another: what lies in it has the longer path. */
static int mount_branches(struct rootfs *r, struct error *err)
{
	size_t done = 0, len = 0, next;
	int n = 0;

	for (; done < r->n_branches && n == 0; len = next) {
		next = SIZE_MAX;
		for (size_t i = 0; i < r->n_branches && n == 0; i++) {
			size_t l = strlen(
				branch_lower(branch_root(r->o.branch, i)));

			if (l == len) {
				n = mount_branch(r, i, err);
				done++;
			} else if (l > len && l < next) {
				next = l;
			}
		}
	}
	return n;
}

static int mount_root(struct rootfs *r, rootfs_take_fn *take, void *data,
		      struct error *err)
{
	bool is_slave = r->o.spec->root_propagation & MS_SLAVE;
	struct mount_change c = {
		.recursive = true,
		.propagation = is_slave ? MS_SLAVE : MS_PRIVATE,
	};
	struct stat dir = { .st_dev = r->dev, .st_ino = r->ino };
	struct statx st;
	int n;

	n = cut_off(r, err);
	if (n == 0 && gets_root(r)) {
		rootfs_prepare_mounts(r);
		n = take(data, &r->root_fd, err);
	} else if (n == 0 && r->root_fd < 0) {
		n = open_root_mount(r, err);
	}
	if (n < 0)
		return n;
	/* As in a workdir: devices there are none of a command's business. */
	if (r->o.host_sources)
		c.set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	/* The rest of linux.rootfsPropagation comes last, when the host is out
	 * of reach; but a slave of nobody is private. */
	n = r->o.branch && !c.set ? 0 : mount_change(r->root_fd, &c);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "propagation of the root file system");
	if (statx(r->root_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID,
		  &st) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot stat the root file system");
	r->root_mnt_id = st.stx_mnt_id;
	r->root_ino = st.stx_ino;
	n = attach_root(r, err);
	if (n < 0 || r->o.skeleton)
		return n;
	return rootfs_cover_hidden(r, r->root_fd, &dir, err);
}

int rootfs_build(struct rootfs *r, rootfs_take_fn *take, void *data,
		 struct error *err)
{
	mode_t mask;
	int n;

	if (!r->own_mounts) {
		r->root_fd = fcntl(r->dir_fd, F_DUPFD_CLOEXEC, 3);
		return r->root_fd < 0 ? error_set(err, ERR_SYSTEM, errno,
						  "root file system")
				      : 0;
	}
	mask = umask(0);
	n = mount_root(r, take, data, err);
	if (n == 0)
		n = rootfs_mount_all(r, err);
	if (n == 0)
		n = get_branches(r, take, data, err);
	if (n == 0)
		n = mount_branches(r, err);
	if (n == 0)
		n = rootfs_make_devices(r, err);
	(void)umask(mask);
	return n;
}

int rootfs_fd(const struct rootfs *r)
{
	return r->root_fd;
}

void rootfs_made(const struct rootfs *r, const char **ret, size_t *ret_len)
{
	*ret = r->made.len ? r->made.data : "";
	*ret_len = r->made.len;
}

int rootfs_add_made(struct rootfs *r, const char *path)
{
	if (!r->o.branch || r->o.skeleton)
		return 0;
	buf_add_str(&r->made, path + strspn(path, "/"));
	buf_add_char(&r->made, '\0');
	return buf_failed(&r->made) ? -ENOMEM : 0;
}
