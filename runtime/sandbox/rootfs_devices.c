/*
 * /dev. The directory is opened once, inside the root, and everything is made
 * relative to that fd: where an image has a link in its place, nothing outside
 * of the root is touched (CVE-2026-41579).
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "kernel/mount.h"
#include "kernel/tty.h"

/* clang-format off */
static const struct {
	const char *path;
	unsigned int minor, major;
} default_devices[] = {
	{ "/dev/null",	  3, 1 },
	{ "/dev/zero",	  5, 1 },
	{ "/dev/full",	  7, 1 },
	{ "/dev/random",  8, 1 },
	{ "/dev/urandom", 9, 1 },
	{ "/dev/tty",	  0, 5 },
};

/* @needs: the link is made if that exists. */
static const struct {
	const char *name, *text, *needs;
} links[] = {
	{ "ptmx",   "pts/ptmx",	       NULL	       },
	{ "fd",	    "/proc/self/fd",   "proc/self/fd"  },
	{ "stdin",  "/proc/self/fd/0", "proc/self/fd"  },
	{ "stdout", "/proc/self/fd/1", "proc/self/fd"  },
	{ "stderr", "/proc/self/fd/2", "proc/self/fd"  },
	{ "core",   "/proc/kcore",     "proc/kcore"    },
};
/* clang-format on */

int rootfs_null_fd(struct rootfs *r, struct error *err)
{
	auto_close int fd = -1;

	if (r->null_fd >= 0)
		return r->null_fd;
	fd = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot open the host's '/dev/null'");
	if (!fd_is_null_device(fd))
		return error_say(
			err, ERR_SYSTEM, ENODEV,
			"the host's '/dev/null' is not the null device");
	r->null_fd = take_fd(&fd);
	return r->null_fd;
}

static mode_t node_type(const struct spec_device *d)
{
	switch (d->type) {
	case 'b':
		return S_IFBLK;
	case 'p':
		return S_IFIFO;
	default:
		return S_IFCHR;
	}
}

static bool is_node(const struct spec_device *d, const struct stat *st)
{
	if ((st->st_mode & S_IFMT) != node_type(d))
		return false;
	return d->type == 'p' || st->st_rdev == makedev((unsigned int)d->major,
							(unsigned int)d->minor);
}

/*
 * What is in the place of a node: that node, or (for a bind) an empty file as
 * an earlier run may have left it. Else an error, spec "devices".
 */
static int check_existing(const struct spec_device *d, int dir_fd,
			  const char *name, bool file_is_fine,
			  struct error *err)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat it");
	if (is_node(d, &st) || (file_is_fine && S_ISREG(st.st_mode)))
		return 0;
	(void)error_say(err, ERR_BUNDLE, EEXIST,
			"it exists and is something else");
	return error_hint(err, "remove it from the root file system, or mount "
			       "a tmpfs on /dev");
}

static int open_host_node(const struct spec_device *d, int *ret_fd,
			  struct error *err)
{
	auto_close int fd = open(d->path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		(void)error_set(err, ERR_BUNDLE, errno,
				"cannot open it on the host");
	else if (!is_node(d, &st))
		(void)error_say(err, ERR_BUNDLE, ENODEV,
				"on the host it is no %c %lld:%lld", d->type,
				(long long)d->major, (long long)d->minor);
	else {
		*ret_fd = take_fd(&fd);
		return 0;
	}
	return error_hint(err, "where device nodes cannot be made they are "
			       "bound from the host");
}

/*
 * Where mknod is not allowed the host's node is bound on an empty file. Mode
 * and owner are the host's, and not ours to change, nor the payload's: so the
 * mount is read-only, which stops no writing to a device.
 */
static int bind_node(struct rootfs *r, const struct spec_device *d,
		     const struct target *dir, const char *name,
		     struct error *err)
{
	static const struct mount_change ro = { .set = MOUNT_ATTR_RDONLY |
						       MOUNT_ATTR_NOSUID |
						       MOUNT_ATTR_NOEXEC };
	auto_close int host_fd = -1, clone_fd = -1, fd = -1;
	int n = open_host_node(d, &host_fd, err);

	if (n < 0)
		return n;
	if (mknodat(dir->fd, name, S_IFREG | 0666, 0) == 0)
		n = rootfs_note_made(r, dir->fd, dir->path, name);
	else if (errno == EEXIST)
		n = check_existing(d, dir->fd, name, true, err);
	else
		n = error_set(err, ERR_SYSTEM, errno, "cannot make it");
	if (n < 0)
		return n;
	clone_fd = mount_clone(host_fd, "", 0);
	if (clone_fd < 0)
		return error_set(err, ERR_SYSTEM, -clone_fd,
				 "cannot clone the host's");
	fd = openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	n = fd < 0 ? -errno : mount_change(clone_fd, &ro);
	if (n == 0)
		n = mount_attach(clone_fd, fd);
	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "cannot bind it") : 0;
}

static int make_node(struct rootfs *r, const struct spec_device *d,
		     const struct target *dir, const char *name,
		     struct error *err)
{
	mode_t mode = d->has_mode ? d->mode & 07777 : 0666;
	int n;

	if (r->o.new_userns && d->type != 'p')
		return bind_node(r, d, dir, name, err);
	if (mknodat(dir->fd, name, node_type(d) | mode,
		    makedev((unsigned int)d->major, (unsigned int)d->minor)) <
	    0) {
		if (errno == EEXIST)
			return check_existing(d, dir->fd, name, false, err);
		if (errno == EPERM && d->type != 'p')
			return bind_node(r, d, dir, name, err);
		return error_set(err, ERR_SYSTEM, errno, "cannot make it");
	}
	n = rootfs_note_made(r, dir->fd, dir->path, name);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "cannot note it");
	if ((d->uid || d->gid) &&
	    fchownat(dir->fd, name, d->uid, d->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, ERR_SYSTEM, errno, "owner %u:%u", d->uid,
				 d->gid);
	return 0;
}

/* @dev is the directory that "/dev" stands for. */
static int make_device(struct rootfs *r, const struct spec_device *d,
		       const struct target *dev, struct error *err)
{
	auto_(target) struct target other = TARGET_INIT;
	auto_free char *path = path_normalize(d->path);
	char *name = path ? strrchr(path, '/') : NULL;
	int n;

	if (!name)
		return error_set(err, ERR_SYSTEM, ENOMEM, "devices");
	*name++ = '\0';
	if (!*name)
		return error_say(err, ERR_BUNDLE, EINVAL, "it has no name");
	if (strcmp(path, "/dev") == 0)
		return make_node(r, d, dev, name, err);
	n = rootfs_open_target(r, path, TARGET_ROOT, &other, err);
	return n < 0 ? n : make_node(r, d, &other, name, err);
}

static bool is_same_place(const struct rootfs *r, const char *path, int fd)
{
	auto_close int at =
		fd_open_in_root(r->root_fd, path, O_PATH | O_DIRECTORY, 0);
	struct stat a, b;

	return at >= 0 && fstat(at, &a) == 0 && fstat(fd, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * A host's /dev that was bound has what it has; it is not ours to fill. However
 * its place is written: "/dev/", or a link of the image.
 */
static bool is_dev_bound(const struct rootfs *r, const struct target *dev)
{
	const struct spec *s = r->o.spec;

	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].kind == SPEC_MOUNT_BIND &&
		    is_same_place(r, s->mounts[i].destination, dev->fd))
			return true;
	return false;
}

static bool is_listed(const struct spec *s, const char *path)
{
	size_t i;

	for (i = 0; i < s->n_devices; i++) {
		if (strcmp(s->devices[i].path, path) == 0)
			return true;
	}
	return false;
}

static int make_listed(struct rootfs *r, const struct target *dev,
		       bool dev_is_bound, struct error *err)
{
	const struct spec *s = r->o.spec;
	size_t i;
	int n;

	for (i = 0; i < s->n_devices; i++) {
		if (dev_is_bound && path_is_under(s->devices[i].path, "/dev"))
			continue;
		n = make_device(r, &s->devices[i], dev, err);
		if (n < 0) {
			(void)error_wrap(err, "linux.devices[%zu] ('%s')", i,
					 s->devices[i].path);
			return n;
		}
	}
	return 0;
}

static int make_defaults(struct rootfs *r, const struct target *dev,
			 struct error *err)
{
	size_t i;
	int n;

	for (i = 0; i < ARRAY_LEN(default_devices); i++) {
		char path[16];
		struct spec_device d = {
			.path = path,
			.type = 'c',
			.major = default_devices[i].major,
			.minor = default_devices[i].minor,
		};

		(void)snprintf(path, sizeof(path), "%s",
			       default_devices[i].path);
		if (is_listed(r->o.spec, path))
			continue;
		n = make_node(r, &d, dev, path + strlen("/dev/"), err);
		if (n < 0) {
			(void)error_wrap(err, "device '%s'", path);
			return n;
		}
	}
	return 0;
}

/* What an image has in the place of a link stays if it can do the same. */
static int check_link(const struct target *dev, const char *name,
		      struct error *err)
{
	struct stat st;

	if (fstatat(dev->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot stat '/dev/%s'", name);
	if (S_ISLNK(st.st_mode) || S_ISCHR(st.st_mode))
		return 0;
	(void)error_say(err, ERR_BUNDLE, EEXIST,
			"'/dev/%s' exists and is no link", name);
	return error_hint(err, "remove it from the root file system, or mount "
			       "a tmpfs on /dev");
}

static int make_links(struct rootfs *r, const struct target *dev,
		      struct error *err)
{
	const char *needs = NULL;
	bool has = true;
	size_t i;
	int n;

	for (i = 0; i < ARRAY_LEN(links); i++) {
		if (links[i].needs != needs) {
			auto_close int fd = -1;

			needs = links[i].needs;
			fd = fd_open_in_root(r->root_fd, needs, O_PATH, 0);
			has = fd >= 0;
		}
		if (!has)
			continue;
		if (symlinkat(links[i].text, dev->fd, links[i].name) == 0)
			n = rootfs_note_made(r, dev->fd, dev->path,
					     links[i].name);
		else if (errno == EEXIST)
			n = check_link(dev, links[i].name, err);
		else
			n = error_set(err, ERR_SYSTEM, errno,
				      "cannot make '/dev/%s'", links[i].name);
		if (n < 0)
			return n;
	}
	return 0;
}

int rootfs_make_devices(struct rootfs *r, struct error *err)
{
	auto_(target) struct target dev = TARGET_INIT;
	int n = rootfs_open_target(r, "/dev", 0, &dev, err);
	bool is_bound;

	if (n < 0)
		return n;
	is_bound = is_dev_bound(r, &dev);
	n = make_listed(r, &dev, is_bound, err);
	if (n < 0 || is_bound)
		return n;
	n = make_defaults(r, &dev, err);
	return n < 0 ? n : make_links(r, &dev, err);
}

static int open_devpts(struct rootfs *r, int *ret_fd, struct error *err)
{
	auto_close int fd = fd_open_in_root(r->root_fd, "/dev/pts",
					    O_PATH | O_DIRECTORY, 0);
	struct statfs st;

	if (fd < 0 || fstatfs(fd, &st) < 0)
		(void)error_set(err, ERR_BUNDLE, fd < 0 ? -fd : errno,
				"a terminal needs '/dev/pts'");
	else if (st.f_type != DEVPTS_SUPER_MAGIC)
		(void)error_say(err, ERR_BUNDLE, ENODEV,
				"'/dev/pts' is no devpts file system");
	else {
		*ret_fd = take_fd(&fd);
		return 0;
	}
	return error_hint(err, "mount devpts on /dev/pts");
}

/* The slave by its fd, never by a name below /dev/pts (CVE-2025-52565). */
static int bind_console(struct rootfs *r, int slave_fd, struct error *err)
{
	static const struct spec_device console = {
		.path = NULL, .type = 'c', .major = 5, .minor = 1
	};
	auto_(target) struct target dev = TARGET_INIT;
	auto_close int clone_fd = -1, fd = -1;
	int n = rootfs_open_target(r, "/dev", 0, &dev, err);

	if (n < 0)
		return n;
	/* The terminal is one without that name, too. */
	if (faccessat(dev.fd, "console", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno == ENOENT && is_dev_bound(r, &dev))
		return 0;
	if (mknodat(dev.fd, "console", S_IFREG | 0600, 0) == 0)
		n = rootfs_note_made(r, dev.fd, dev.path, "console");
	else if (errno == EEXIST)
		n = check_existing(&console, dev.fd, "console", true, err);
	else
		n = error_set(err, ERR_SYSTEM, errno, "cannot make it");
	if (n < 0)
		return n;
	clone_fd = mount_clone(slave_fd, "", 0);
	fd = openat(dev.fd, "console", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (clone_fd < 0 || fd < 0)
		return error_set(err, ERR_SYSTEM,
				 clone_fd < 0 ? -clone_fd : errno,
				 "cannot clone the terminal");
	n = mount_attach(clone_fd, fd);
	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "cannot bind it") : 0;
}

int rootfs_open_console(struct rootfs *r, int *ret_master_fd, int *ret_slave_fd,
			struct error *err)
{
	const struct spec_process *p = &r->o.spec->process;
	auto_close int pts_fd = -1, master_fd = -1, slave_fd = -1;
	mode_t mask;
	int n = open_devpts(r, &pts_fd, err);

	if (n == 0)
		n = tty_open_pair(pts_fd, p->console_width, p->console_height,
				  &master_fd, &slave_fd, err);
	if (n < 0)
		return n;
	mask = umask(0);
	n = bind_console(r, slave_fd, err);
	(void)umask(mask);
	if (n < 0) {
		(void)error_wrap(err, "device '/dev/console'");
		return n;
	}
	*ret_master_fd = take_fd(&master_fd);
	*ret_slave_fd = take_fd(&slave_fd);
	return 0;
}
