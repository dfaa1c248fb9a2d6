/*
 * Mounts of type "cgroup": what the sandbox sees of its own cgroups. Never a
 * cgroup of somebody else that could be written to (CVE-2023-25809).
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/uapi.h"
#include "kernel/cgroup.h"
#include "kernel/mount.h"

struct views {
	struct cgroup_view *v;
	size_t n;
};

static void views_done(struct views *s)
{
	cgroup_views_free(s->v, s->n);
}

static bool has_own_cgroupns(const struct rootfs *r)
{
	return r->o.spec->ns[SPEC_NS_CGROUP].want == SPEC_NS_NEW;
}

/* A detached mount of the directory that @v shows. */
static int clone_view(const struct rootfs *r, const struct spec_mount *m,
		      const struct cgroup_view *v, int *ret_fd,
		      struct error *err)
{
	struct mount_change c = { .set = mount_attrs(m->set) };
	auto_free char *path = NULL;
	auto_close int fd = -1;
	int n;

	if (!v->own || (r->o.new_userns && !has_own_cgroupns(r)))
		c.set |= MOUNT_ATTR_RDONLY;
	if (c.set & MOUNT_ATTR__ATIME || m->set & MS_RELATIME)
		c.clear |= MOUNT_ATTR__ATIME;
	if (asprintf(&path, "%s%s", v->mountpoint, v->path) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "mount");
	/* Written by us, on the host, and out of the sandbox's reach. */
	fd = mount_clone(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
	n = fd < 0 ? fd : mount_change(fd, &c);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "cgroup '%s'", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* "cpu,cpuacct" is also known by each of its names. */
static int link_names(int dir_fd, const char *name, struct error *err)
{
	auto_free char *names = NULL;
	char *one, *save = NULL;

	if (!strchr(name, ','))
		return 0;
	names = strdup(name);
	if (!names)
		return error_set(err, ERR_SYSTEM, ENOMEM, "mount");
	for (one = strtok_r(names, ",", &save); one;
	     one = strtok_r(NULL, ",", &save)) {
		if (symlinkat(name, dir_fd, one) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot make '%s'", one);
	}
	return 0;
}

static int attach_view(struct rootfs *r, const struct spec_mount *m, int dir_fd,
		       const struct cgroup_view *v, struct error *err)
{
	const char *name = strrchr(v->mountpoint, '/');
	auto_close int fd = -1, at_fd = -1;
	int n;

	name = name ? name + 1 : v->mountpoint;
	n = clone_view(r, m, v, &fd, err);
	if (n < 0)
		return n;
	if (mkdirat(dir_fd, name, 0755) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot make '%s'",
				 name);
	at_fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	n = at_fd < 0 ? -errno : mount_attach(fd, at_fd);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "cgroup '%s'", name);
	return link_names(dir_fd, name, err);
}

/*
 * A tmpfs with one directory for each hierarchy that the sandbox has a cgroup
 * in. Hierarchies it has none in would only show the host's cgroups.
 */
static int mount_views(struct rootfs *r, size_t at, const struct views *views,
		       int target_fd, struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[at];
	const struct mount_fs fs = {
		.type = "tmpfs",
		.source = "cgroup",
		.data = "mode=755",
		.flags = m->set & ~(unsigned long)MS_RDONLY,
	};
	auto_close int fd = -1;
	size_t i;
	int n = mount_new(&fs, &fd, err);

	if (n < 0)
		return n;
	n = mount_attach(fd, target_fd);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "cannot mount it");
	for (i = 0; n == 0 && i < views->n; i++) {
		if (views->v[i].own)
			n = attach_view(r, m, fd, &views->v[i], err);
	}
	/* Read-only in the end: engines mount systemd's below it. */
	if (n == 0 && m->set & MS_RDONLY)
		r->mount_fds[at] = take_fd(&fd);
	return n;
}

/*
 * With a cgroup namespace a mount of its own, whose root is the sandbox's
 * cgroup; where that is not allowed, and without one, a bind of that cgroup.
 */
static int mount_unified(struct rootfs *r, const struct spec_mount *m,
			 const struct views *views, int target_fd,
			 struct error *err)
{
	const struct mount_fs fs = { .type = "cgroup2",
				     .source = "cgroup",
				     .flags = m->set &
					      ~(unsigned long)MS_RDONLY };
	const struct mount_change ro = { .set = MOUNT_ATTR_RDONLY };
	auto_close int fd = -1;
	int n = -EPERM;

	if (has_own_cgroupns(r))
		n = mount_new(&fs, &fd, err);
	if (n == 0 && m->set & MS_RDONLY)
		n = mount_change(fd, &ro);
	if ((n == -EPERM || n == -EBUSY) && views->n)
		n = clone_view(r, m, &views->v[0], &fd, err);
	if (n < 0)
		return n;
	n = mount_attach(fd, target_fd);
	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "cannot mount it") : 0;
}

int rootfs_mount_cgroup(struct rootfs *r, size_t i, struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[i];
	auto_(views) struct views views = { NULL, 0 };
	auto_(target) struct target t = TARGET_INIT;
	enum cgroup_mode mode = cgroup_host_mode();
	int n = 0;

	if (mode == CGROUP_NONE)
		return error_say(err, ERR_UNSUPPORTED, ENODEV,
				 "this host has no cgroups");
	if (r->o.cgroup)
		n = cgroup_views(r->o.cgroup, &views.v, &views.n, err);
	if (n == 0)
		n = rootfs_mount_target(r, m, false, false, &t, err);
	if (n < 0)
		return n;
	if (mode == CGROUP_V2 && (views.n || has_own_cgroupns(r)))
		return mount_unified(r, m, &views, t.fd, err);
	return mount_views(r, i, &views, t.fd, err);
}
