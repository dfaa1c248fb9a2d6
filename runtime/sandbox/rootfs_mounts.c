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

/* What lxcfs and its like replace; everything else below /proc is forged. */
/* clang-format off */
static const char *const proc_files[] = {
	"cpuinfo", "diskstats", "loadavg", "meminfo", "net/dev", "slabinfo",
	"stat", "swaps", "sys/crypto/fips_enabled",
	"sys/kernel/ns_last_pid", "uptime",
};
/* clang-format on */

bool rootfs_is_proc(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && st.f_type == PROC_SUPER_MAGIC;
}

static bool is_proc_file(const char *path)
{
	size_t i;

	if (strncmp(path, "proc/", 5) != 0)
		return false;
	for (i = 0; i < ARRAY_LEN(proc_files); i++) {
		if (strcmp(path + 5, proc_files[i]) == 0)
			return true;
	}
	return false;
}

/*
 * A payload trusts /proc, and so do we where we look into it: nothing but
 * procfs goes there, and nothing on top of its files but what is known to be
 * harmless.
 */
static int check_proc(const struct target *t, bool is_proc, struct error *err)
{
	if (is_proc)
		return 0;
	if (strcmp(t->path, "proc") == 0) {
		(void)error_say(err, ERR_BUNDLE, EINVAL,
				"only procfs can be mounted on /proc");
		return error_hint(err, "mount it elsewhere");
	}
	if (t->is_new || !rootfs_is_proc(t->fd) || is_proc_file(t->path))
		return 0;
	return error_say(
		err, ERR_BUNDLE, EINVAL,
		"'/%s' cannot be mounted on because it is inside /proc",
		t->path);
}

/*
 * procfs and sysfs go on a real directory by its own name: behind a link they
 * would land where no mask is applied (CVE-2019-19921).
 */
static int open_ordinary(struct rootfs *r, const struct spec_mount *m,
			 struct target *ret, struct error *err)
{
	auto_(target) struct target t = TARGET_INIT;
	auto_free char *plain = path_normalize(m->destination);
	int n;

	if (!plain)
		return error_set(err, ERR_SYSTEM, ENOMEM, "mount");
	n = rootfs_open_target(r, m->destination, TARGET_NOFOLLOW, &t, err);
	if (n < 0 && n != -ENOTDIR)
		return n;
	if (n == -ENOTDIR || strcmp(t.path, plain + 1) != 0)
		return error_say(err, ERR_BUNDLE, ENOTDIR,
				 "file system '%s' must be mounted on ordinary "
				 "directory",
				 m->type);
	ret->fd = take_fd(&t.fd);
	ret->path = take_ptr(&t.path);
	return 0;
}

int rootfs_mount_target(struct rootfs *r, const struct spec_mount *m,
			bool is_proc, bool is_file, struct target *ret,
			struct error *err)
{
	auto_(target) struct target t = TARGET_INIT;
	unsigned int flags = is_file ? TARGET_FILE : 0;
	int n;

	if (m->dest_nofollow)
		flags |= TARGET_NOFOLLOW;
	if (m->kind == SPEC_MOUNT_FS &&
	    (strcmp(m->type, "proc") == 0 || strcmp(m->type, "sysfs") == 0))
		n = open_ordinary(r, m, &t, err);
	else
		n = rootfs_open_target(r, m->destination, flags, &t, err);
	if (n == 0)
		n = check_proc(&t, is_proc, err);
	if (n < 0)
		return n;
	ret->fd = take_fd(&t.fd);
	ret->path = take_ptr(&t.path);
	ret->is_new = t.is_new;
	return 0;
}

int rootfs_change_recursive(const struct spec_mount *m, int mount_fd,
			    const struct mount_change *also, struct error *err)
{
	struct mount_change c = {
		.set = m->rec_set | (also ? also->set : 0),
		.clear = m->rec_clear,
		.propagation = m->propagation & ~(unsigned long)MS_REC,
		.recursive = true,
	};
	int n;

	/* An atime mode replaces the one in force, whatever it was. */
	if ((c.set | c.clear) & MOUNT_ATTR__ATIME)
		c.clear |= MOUNT_ATTR__ATIME;
	if (c.propagation && !(m->propagation & MS_REC)) {
		struct mount_change top = { .propagation = c.propagation };

		n = mount_change(mount_fd, &top);
		if (n < 0)
			return error_set(err, ERR_SYSTEM, -n, "propagation");
		c.propagation = 0;
	}
	if (also && !m->propagation)
		c.propagation = also->propagation;
	n = mount_change(mount_fd, &c);
	if (n == 0)
		return 0;
	n = error_set(err, ERR_SYSTEM, -n, "recursive mount options");
	if (n == -EPERM && m->rec_clear)
		(void)error_hint(
			err,
			"an option that the host has locked cannot be cleared");
	return n;
}

static void hint_at_type(const struct spec_mount *m, struct error *err)
{
	if (err->sys == ENODEV)
		(void)error_hint(err,
				 "'%s' is not in /proc/filesystems; a bind "
				 "mount needs the option \"bind\" or \"rbind\"",
				 m->type);
	else if (err->sys == EPERM && strcmp(m->type, "sysfs") == 0)
		(void)error_hint(
			err, "sysfs needs a network namespace of the sandbox's "
			     "own; bind /sys instead (\"rbind\", \"ro\")");
	else if (err->sys == EPERM && strcmp(m->type, "proc") == 0)
		(void)error_hint(
			err, "procfs needs a pid namespace of the sandbox's "
			     "own, and a /proc with nothing masked outside");
	else if (err->sys == EPERM && strcmp(m->type, "mqueue") == 0)
		(void)error_hint(
			err,
			"mqueue needs an ipc namespace of the sandbox's own");
	else if (err->sys == EINVAL && strcmp(m->type, "devpts") == 0 &&
		 m->data && strstr(m->data, "gid="))
		(void)error_hint(
			err,
			"is the id in '%s' mapped in the user namespace? leave "
			"gid= out as `sandlock spec --rootless` does",
			m->data);
}

static bool has_option(const char *data, const char *name)
{
	while (data && strncmp(data, name, strlen(name)) != 0) {
		data = strchr(data, ',');
		data = data ? data + 1 : NULL;
	}
	return data;
}

/*
 * tmpcopyup: the tmpfs starts with what it covers. Made here so that a size
 * limit of the tmpfs bounds it.
 */
static int copy_up(const struct target *t, int mount_fd, struct error *err)
{
	auto_close int from_fd = -1;

	from_fd = openat(t->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot read '/%s'",
				 t->path);
	return rootfs_copy_up(from_fd, mount_fd, err);
}

static bool is_tmpfs(const struct spec_mount *m)
{
	return strcmp(m->type, "tmpfs") == 0;
}

/* A tmpfs is written to until rootfs_enter: more may be mounted below it. */
static struct mount_fs fs_of(const struct rootfs *r, const struct spec_mount *m)
{
	bool is_proc = strcmp(m->type, "proc") == 0;

	return (struct mount_fs){
		.type = m->type,
		.source = m->source,
		.data = m->data,
		.flags = is_tmpfs(m) ? m->set & ~(unsigned long)MS_RDONLY
				     : m->set,
		.pidns_fd = is_proc ? r->o.procfs_pidns_fd : 0,
	};
}

/* A tmpfs without a mode takes that of the directory it covers. */
static bool depends_on_target(const struct spec_mount *m)
{
	return is_tmpfs(m) && !has_option(m->data, "mode=");
}

void rootfs_prepare_mounts(struct rootfs *r)
{
	const struct spec *s = r->o.spec;

	for (size_t i = 0; i < s->n_mounts; i++) {
		const struct spec_mount *m = &s->mounts[i];
		struct mount_fs fs;

		if (m->kind != SPEC_MOUNT_FS || m->set & MS_REMOUNT ||
		    depends_on_target(m))
			continue;
		fs = fs_of(r, m);
		(void)mount_new(&fs, &r->mount_fds[i], NULL);
	}
}

/* Nothing but a mode is asked of it. */
static bool is_plain_tmpfs(const struct spec_mount *m)
{
	return m->kind == SPEC_MOUNT_FS && is_tmpfs(m) && m->data &&
	       strncmp(m->data, "mode=", 5) == 0 && !strchr(m->data, ',') &&
	       !m->tmpcopyup && !m->propagation && !m->rec_set &&
	       !m->rec_clear && !(m->set & ~(MS_NOSUID | MS_NODEV | MS_NOEXEC));
}

bool rootfs_shares_skeleton(const struct rootfs *r)
{
	const struct spec *s = r->o.spec;

	for (size_t i = 0; r->o.skeleton && i < s->n_mounts; i++)
		if (is_plain_tmpfs(&s->mounts[i]))
			return true;
	return false;
}

/*
 * The skeleton is a tmpfs, too, and read-only in the end by its mount alone: a
 * directory that was made in it is as good, and half as dear as a file system.
 */
static int mount_of_skeleton(struct rootfs *r, const struct spec_mount *m,
			     const struct target *t, int *ret_fd)
{
	const struct mount_change c = { .set = mount_attrs(m->set) };
	mode_t mode = (mode_t)strtoul(m->data + strlen("mode="), NULL, 8);
	auto_close int fd = -1;
	char path[FD_PATH_MAX];
	uint64_t id;
	int n;

	n = mount_id(t->fd, &id);
	if (n < 0 || id != r->root_mnt_id)
		return n < 0 ? n : -EXDEV;
	if (mode != 0755 && chmod(fd_proc_path(t->fd, path), mode) < 0)
		return -errno;
	fd = mount_clone(t->fd, "", 0);
	n = fd < 0 ? fd : mount_change(fd, &c);
	if (n == 0)
		*ret_fd = take_fd(&fd);
	return n;
}

static int new_filesystem(const struct rootfs *r, const struct spec_mount *m,
			  const struct target *t, int *ret_fd,
			  struct error *err)
{
	struct mount_fs fs = fs_of(r, m);
	auto_free char *data = NULL;
	struct stat st;
	int n;

	if (!t->is_new && depends_on_target(m)) {
		if (fstat(t->fd, &st) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot stat '/%s'", t->path);
		n = asprintf(&data, "mode=%04o,%s", st.st_mode & 07777,
			     fs.data ? fs.data : "");
		if (n < 0)
			return error_set(err, ERR_SYSTEM, ENOMEM, "mount");
		fs.data = data;
	}
	return mount_is_long(&fs) ? mount_new_long(&fs, t->fd, ret_fd, err)
				  : mount_new(&fs, ret_fd, err);
}

/* What a tmpfs holds, and whether it becomes read-only in the end. */
static int fill_tmpfs(struct rootfs *r, size_t i, const struct target *t,
		      int fd, struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[i];
	int n = m->tmpcopyup ? copy_up(t, fd, err) : 0;

	if (n < 0 || !(m->set & MS_RDONLY))
		return n;
	r->mount_fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return r->mount_fds[i] < 0 ? error_set(err, ERR_SYSTEM, errno, "mount")
				   : 0;
}

static int mount_filesystem(struct rootfs *r, size_t i, struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[i];
	auto_(target) struct target t = TARGET_INIT;
	auto_close int fd = take_fd(&r->mount_fds[i]);
	struct error why = ERROR_INIT;
	int n;

	n = rootfs_mount_target(r, m, strcmp(m->type, "proc") == 0, false, &t,
				err);
	if (n < 0)
		return n;
	if (fd < 0 && r->o.skeleton && t.is_new && is_plain_tmpfs(m))
		(void)mount_of_skeleton(r, m, &t, &fd);
	if (fd < 0)
		n = new_filesystem(r, m, &t, &fd, &why);
	if (n == 0 && is_tmpfs(m))
		n = fill_tmpfs(r, i, &t, fd, &why);
	if (n < 0) {
		hint_at_type(m, &why);
		if (err)
			*err = why;
		return n;
	}
	n = rootfs_change_recursive(m, fd, NULL, err);
	if (n < 0)
		return n;
	n = mount_attach(fd, t.fd);
	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "mount on '/%s'", t.path)
		     : 0;
}

static int remount(struct rootfs *r, const struct spec_mount *m,
		   struct error *err)
{
	struct mount_change c = { .set = mount_attrs(m->set),
				  .clear = mount_attrs(m->clear) };
	auto_close int fd = -1;
	int n = 0;

	fd = fd_open_in_root(r->root_fd, m->destination, O_PATH, 0);
	if (fd < 0)
		return error_set(err, ERR_BUNDLE, -fd, "cannot remount");
	if (!(m->set & MS_BIND) && (m->data || m->set & MS_SYNCHRONOUS))
		n = mount_reconfigure(fd, m->data, m->set & ~MS_RDONLY, err);
	if (n < 0)
		return n;
	if ((c.set | c.clear) & MOUNT_ATTR__ATIME || m->set & MS_RELATIME)
		c.clear |= MOUNT_ATTR__ATIME;
	n = mount_change(fd, &c);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "remount");
	return rootfs_change_recursive(m, fd, NULL, err);
}

static int mount_entry(struct rootfs *r, size_t i, struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[i];

	if (m->set & MS_REMOUNT)
		return remount(r, m, err);
	switch (m->kind) {
	case SPEC_MOUNT_FS:
		return mount_filesystem(r, i, err);
	case SPEC_MOUNT_BIND:
		return rootfs_mount_bind(r, i, err);
	case SPEC_MOUNT_CGROUP:
		return rootfs_mount_cgroup(r, i, err);
	}
	return error_say(err, ERR_BUNDLE, EINVAL, "unknown kind of mount");
}

int rootfs_mount_all(struct rootfs *r, struct error *err)
{
	const struct spec *s = r->o.spec;
	size_t i;

	for (i = 0; i < s->n_mounts; i++) {
		int n = mount_entry(r, i, err);

		if (n < 0) {
			(void)error_wrap(err, "mounts[%zu] ('%s')", i,
					 s->mounts[i].destination);
			return n;
		}
	}
	return rootfs_mount_hosts(r, err);
}
