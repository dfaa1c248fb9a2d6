/*
 * The overlay mount (cow.md sections 2.2 and 2.3). All options are spelt out,
 * since their defaults differ between distributions: an upper made with them
 * holds regular objects, whiteouts and opaque directories, and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "kernel/mount.h"

enum { NAME_SPACE = 64, FS_LOG_MAX = 512 };

static int set_flag(int fs_fd, const char *key)
{
	return (int)syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FLAG, key, NULL,
			    0);
}

const struct branch_overlay_option
	branch_overlay_options[BRANCH_OVERLAY_OPTIONS] = {
		/* "off" would mean "follow" in some builds of the kernel. */
		{ "redirect_dir", "nofollow" },
		{ "metacopy", "off" },
		{ "index", "off" },
		{ "xino", "off" },
	};

static int set_string(int fs_fd, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_STRING, key,
			    value, 0);
}

static int set_fd(int fs_fd, const char *key, int fd)
{
	return (int)syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FD, key, NULL,
			    fd);
}

/* A layer: the path it is known by, and an fd in our mount namespace. */
struct layer {
	const char *path;
	int fd;
};

/*
 * The kernel clones the mounts that the fds were opened through, and refuses
 * those of another mount namespace. So a child that has left the parent's
 * opens the layers again, and takes only the very same directories.
 */
static int reopen(const char *path, int held_fd)
{
	auto_close int fd =
		open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat a, b;

	if (fd < 0 && errno == EACCES)
		fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &a) < 0 || fstat(held_fd, &b) < 0 ||
	    a.st_ino != b.st_ino || a.st_dev != b.st_dev)
		return -1;
	return take_fd(&fd);
}

struct layers {
	struct layer lower, upper, work;
	int opened[3];
	struct layer *saved; /* the oldest first; all is ours */
	size_t n_saved;
};

static void layers_done(struct layers *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->opened); i++) {
		if (l->opened[i] >= 0)
			(void)close(l->opened[i]);
	}
	for (size_t i = 0; i < l->n_saved; i++) {
		free((char *)l->saved[i].path);
		if (l->saved[i].fd >= 0)
			(void)close(l->saved[i].fd);
	}
	free(l->saved);
}

static int saved_open(const struct branch *b, struct layers *l)
{
	l->saved = calloc(b->n_layers + 1, sizeof(*l->saved));
	if (!l->saved)
		return -ENOMEM;
	for (size_t i = 0; i < b->n_layers; i++) {
		char *path = layers_path(b, i);

		if (!path)
			return -ENOMEM;
		l->saved[l->n_saved++] = (struct layer){
			.path = path,
			.fd = reopen(path, b->layers[i].fd),
		};
		if (l->saved[i].fd < 0)
			return -ESTALE;
	}
	return 0;
}

static void open_parts(const struct branch *b, const char *work,
		       struct layers *l)
{
	const int held[] = { b->lower_fd, b->upper_fd, b->work_fd };
	struct layer *layer[] = { &l->lower, &l->upper, &l->work };

	l->lower.path = b->meta.lower;
	l->upper.path = b->upper;
	l->work.path = work;
	for (size_t i = 0; i < ARRAY_LEN(held); i++) {
		l->opened[i] = reopen(layer[i]->path, held[i]);
		layer[i]->fd = l->opened[i] >= 0 ? l->opened[i] : held[i];
	}
}

static void escape(struct buf *b, const char *path, const char *special)
{
	for (; *path; path++) {
		if (strchr(special, *path))
			buf_add_char(b, '\\');
		buf_add_char(b, *path);
	}
}

/* fsconfig(2) refuses a longer string: the layer's fd names it, too. */
static int set_layer(int fs_fd, const char *key, const struct layer *l,
		     const char *special)
{
	auto_(buf) struct buf b = BUF_INIT;
	char name[FD_PATH_MAX];

	escape(&b, l->path, special);
	if (buf_failed(&b)) {
		errno = ENOMEM;
		return -1;
	}
	if (strlen(buf_str(&b)) <= MOUNT_VALUE_MAX)
		return set_string(fs_fd, key, buf_str(&b));
	return set_string(fs_fd, key, fd_proc_path(l->fd, name));
}

/* The topmost first. */
static void list_lowers(struct buf *b, const struct layers *l)
{
	static const char special[] = "\\:,";

	for (size_t i = l->n_saved; i > 0; i--) {
		escape(b, l->saved[i - 1].path, special);
		buf_add_char(b, ':');
	}
	escape(b, l->lower.path, special);
}

static void list_lower_fds(struct buf *b, const struct layers *l)
{
	char name[FD_PATH_MAX];

	for (size_t i = l->n_saved; i > 0; i--) {
		buf_add_str(b, fd_proc_path(l->saved[i - 1].fd, name));
		buf_add_char(b, ':');
	}
	buf_add_str(b, fd_proc_path(l->lower.fd, name));
}

/* Before 6.8, all in one string. */
static int set_lowerdir(int fs_fd, const struct layers *l)
{
	auto_(buf) struct buf b = BUF_INIT;
	auto_(buf) struct buf fds = BUF_INIT;

	list_lowers(&b, l);
	list_lower_fds(&fds, l);
	if (buf_failed(&b) || buf_failed(&fds)) {
		errno = ENOMEM;
		return -1;
	}
	return set_string(fs_fd, "lowerdir",
			  strlen(buf_str(&b)) <= MOUNT_VALUE_MAX
				  ? buf_str(&b)
				  : buf_str(&fds));
}

/* The first one tells what this kernel can. */
static int set_lowers_by_name(int fs_fd, const struct layers *l)
{
	for (size_t i = l->n_saved; i > 0; i--)
		if (set_layer(fs_fd, "lowerdir+", &l->saved[i - 1], "") < 0)
			return i == l->n_saved ? set_lowerdir(fs_fd, l) : -1;
	if (set_layer(fs_fd, "lowerdir+", &l->lower, "") < 0)
		return l->n_saved ? -1 : set_lowerdir(fs_fd, l);
	return 0;
}

static int set_lowers(int fs_fd, const struct layers *l)
{
	for (size_t i = l->n_saved; i > 0; i--)
		if (set_fd(fs_fd, "lowerdir+", l->saved[i - 1].fd) < 0)
			return -1;
	return set_fd(fs_fd, "lowerdir+", l->lower.fd);
}

/*
 * Before 6.13 layers are named by strings; before 6.8 lowerdir alone. Before
 * 6.5 (@legacy) what is unknown is refused with everything, at the end.
 */
static int set_layers_by_name(int fs_fd, const struct layers *l, bool legacy)
{
	int r = legacy ? set_lowerdir(fs_fd, l) : set_lowers_by_name(fs_fd, l);

	if (r < 0)
		return -1;
	if (set_layer(fs_fd, "upperdir", &l->upper, "\\,") < 0)
		return -1;
	return set_layer(fs_fd, "workdir", &l->work, "\\,");
}

/* Refused there before the key is looked at. */
static bool is_legacy(int fs_fd, const struct layers *l)
{
	return set_fd(fs_fd, "none", l->lower.fd) < 0 && errno == EOPNOTSUPP;
}

static int set_layers(int fs_fd, const struct layers *l, bool by_name)
{
	if (by_name)
		return set_layers_by_name(fs_fd, l, is_legacy(fs_fd, l));
	if (set_lowers(fs_fd, l) < 0)
		return errno == EINVAL || errno == EOPNOTSUPP
			       ? set_layers_by_name(fs_fd, l,
						    errno == EOPNOTSUPP)
			       : -1;
	if (set_fd(fs_fd, "upperdir", l->upper.fd) < 0)
		return -1;
	return set_fd(fs_fd, "workdir", l->work.fd);
}

static int set_options(int fs_fd, const struct branch *b)
{
	if (b->meta.userxattr && set_flag(fs_fd, "userxattr") < 0)
		return -1;
	for (size_t i = 0; i < BRANCH_OVERLAY_OPTIONS; i++)
		if (set_string(fs_fd, branch_overlay_options[i].key,
			       branch_overlay_options[i].value) < 0)
			return -1;
	/* Unknown before 5.10: slower, and no less correct. */
	if (!b->meta.durable)
		(void)set_flag(fs_fd, "volatile");
	return 0;
}

/* The last line the kernel wrote about @fs_fd, without its "e overlay: ". */
static const char *read_log(int fs_fd, char text[FS_LOG_MAX])
{
	const char *colon;
	ssize_t n, last = 0;

	text[0] = '\0';
	while ((n = read(fs_fd, text, FS_LOG_MAX - 1)) > 0)
		last = n;
	while (last > 0 && text[last - 1] == '\n')
		last--;
	text[last] = '\0';
	colon = strstr(text, ": ");
	return colon ? colon + 2 : text;
}

static bool can_clone(int fd)
{
	auto_close int tree =
		(int)syscall(SYS_open_tree, fd, "",
			     OPEN_TREE_CLONE | AT_EMPTY_PATH | O_CLOEXEC);

	return tree >= 0 || errno != EINVAL;
}

static bool is_overlay(int fd)
{
	struct statfs sfs;

	return fstatfs(fd, &sfs) == 0 && sfs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Most reasons reach the kernel's log only, as EINVAL they are one. */
static int explain(const struct branch *b, int fs_fd, const struct layers *l,
		   int sys, struct error *err)
{
	char text[FS_LOG_MAX];
	const char *reason = read_log(fs_fd, text);

	if (*reason)
		return error_set(err, ERR_SYSTEM, sys,
				 "cannot mount the overlay over '%s': %s",
				 b->meta.lower, reason);
	if (sys == EINVAL && !can_clone(l->lower.fd)) {
		(void)error_say(err, ERR_UNSUPPORTED, sys,
				"cannot mount an overlay over '%s': there are "
				"mounts below it that an ordinary user may not "
				"uncover",
				b->meta.lower);
		return error_hint(err, "unmount them, or run as root");
	}
	if (sys == EINVAL && is_overlay(l->lower.fd)) {
		(void)error_say(err, ERR_UNSUPPORTED, sys,
				"cannot mount an overlay over '%s', which is "
				"on stacked overlays already",
				b->meta.lower);
		return error_hint(err, "copy it to a disk or volume");
	}
	if (sys == EINVAL && is_overlay(l->upper.fd)) {
		(void)error_say(err, ERR_UNSUPPORTED, sys,
				"'%s' is on an overlay file system, which "
				"cannot hold a branch",
				b->upper);
		return error_hint(err, "name a directory on a disk or volume "
				       "with --storage");
	}
	(void)error_set(err, ERR_SYSTEM, sys,
			"cannot mount the overlay over '%s'", b->meta.lower);
	return error_hint(err, "the kernel's log says why: dmesg");
}

/*
 * An upper that cannot hold the overlay's xattrs mounts, and then fails with
 * EIO where a directory is replaced.
 */
static int check_xattrs(const struct branch *b, int upper_fd, struct error *err)
{
	char name[NAME_SPACE];
	const char *prefix = branch_xattr_prefix(b);

	(void)snprintf(name, sizeof(name), "%suuid", prefix);
	if (fgetxattr(upper_fd, name, NULL, 0) > 0)
		return 0;
	(void)snprintf(name, sizeof(name), "%simpure", prefix);
	if (fgetxattr(upper_fd, name, NULL, 0) > 0)
		return 0;
	if (fsetxattr(upper_fd, name, "n", 1, XATTR_CREATE) == 0) {
		(void)fremovexattr(upper_fd, name);
		return 0;
	}
	(void)error_set(err, ERR_UNSUPPORTED, errno,
			"the file system of '%s' cannot hold the xattrs of a "
			"branch ('%s*')",
			b->upper, prefix);
	return error_hint(err, "name a directory on another file system with "
			       "--storage");
}

static int open_fs(struct error *err)
{
	int fd = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == ENODEV) {
		(void)error_say(err, ERR_UNSUPPORTED, ENODEV,
				"this kernel has no overlay file system");
		return error_hint(err, "modprobe overlay, or --branch=none");
	}
	return error_set(err, errno == EPERM ? ERR_UNSUPPORTED : ERR_SYSTEM,
			 errno, "cannot mount an overlay");
}

static int mount_layers(const struct branch *b, const struct layers *l,
			bool by_name, int *ret_mount_fd, struct error *err)
{
	auto_close int fs_fd = open_fs(err);
	auto_close int mount_fd = -1;
	int r;

	if (fs_fd < 0)
		return fs_fd;
	if (set_layers(fs_fd, l, by_name) < 0 || set_options(fs_fd, b) < 0 ||
	    syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) <
		    0)
		return explain(b, fs_fd, l, errno, err);
	mount_fd = (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, 0);
	if (mount_fd < 0)
		return explain(b, fs_fd, l, errno, err);
	r = check_xattrs(b, l->upper.fd, err);
	if (r < 0)
		return r;
	*ret_mount_fd = take_fd(&mount_fd);
	return 0;
}

int overlay_mount(const struct branch *b, bool by_name, int *ret_mount_fd,
		  struct error *err)
{
	auto_(layers) struct layers l = { .opened = { -1, -1, -1 } };
	auto_free char *work = path_join(b->dir, "work");
	int r = work ? saved_open(b, &l) : -ENOMEM;

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot mount the overlay over '%s'",
				 b->meta.lower);
	open_parts(b, work, &l);
	return mount_layers(b, &l, by_name, ret_mount_fd, err);
}

int branch_overlay(const struct branch *b, int *ret_mount_fd, struct error *err)
{
	return overlay_mount(b, false, ret_mount_fd, err);
}

static const char marker_dir[] = "work/incompat/volatile";
static const char marker_file[] = "work/incompat/volatile/dirty";

/* The kernel makes all of this with mode 000, which stops an ordinary owner. */
static bool open_up_work(const struct branch *b)
{
	return fchmodat(b->work_fd, "work", 0700, 0) == 0 &&
	       fchmodat(b->work_fd, "work/incompat", 0700, 0) == 0 &&
	       fchmodat(b->work_fd, marker_dir, 0700, 0) == 0;
}

bool branch_has_marker(const struct branch *b)
{
	struct stat st;

	if (b->work_fd < 0)
		return false;
	if (fstatat(b->work_fd, marker_dir, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	return errno == EACCES && open_up_work(b);
}

int branch_remove_marker(const struct branch *b)
{
	if (b->work_fd < 0)
		return 0;
	if (unlinkat(b->work_fd, marker_file, 0) < 0 && errno != ENOENT) {
		if (errno != EACCES || !open_up_work(b) ||
		    unlinkat(b->work_fd, marker_file, 0) < 0)
			return errno == ENOENT ? 0 : -errno;
	}
	if (unlinkat(b->work_fd, marker_dir, AT_REMOVEDIR) < 0 &&
	    errno != ENOENT)
		return -errno;
	return 0;
}
