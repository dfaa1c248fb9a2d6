/*
 * Bind mounts. A source is cloned once, by fd; what was checked is what is
 * mounted. Whoever may do it without a new user namespace clones all sources
 * before anything is mounted, because only those clones keep a relation with
 * the host's mounts (shared, slave) and may have their ids mapped. A source
 * below the root directory may lie on an earlier mount of this very list, so
 * it is looked up inside the root when its turn comes.
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "kernel/mount.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static unsigned int clone_flags(const struct spec_mount *m)
{
	unsigned int flags = 0;

	if (m->recursive_bind)
		flags |= AT_RECURSIVE;
	if (m->src_nofollow || m->copy_symlink)
		flags |= AT_SYMLINK_NOFOLLOW;
	return flags;
}

static int explain_source(const struct spec_mount *m, int sys,
			  struct error *err)
{
	int n = error_set(err, ERR_BUNDLE, sys, "bind source '%s'", m->source);

	if (sys == EINVAL && !m->recursive_bind)
		(void)error_hint(err,
				 "it has mounts below it that the user "
				 "namespace may not uncover: use \"rbind\"");
	else if (sys == EPERM)
		(void)error_hint(err,
				 "mounting needs root or a user namespace");
	return n;
}

/* The path below the root directory ("." for itself), or NULL. */
static const char *source_in_root(const struct rootfs *r,
				  const struct spec_mount *m)
{
	const char *rest;

	if (!r->path || r->o.host_sources || !path_is_under(m->source, r->path))
		return NULL;
	rest = m->source + strlen(r->path);
	rest += strspn(rest, "/");
	if (strstr(rest, "..")) /* may lead out again */
		return NULL;
	return *rest ? rest : ".";
}

/*
 * With submounts where the root has covers over hidden directories: without
 * them the clone would show what they hide.
 */
static int clone_in_root(struct rootfs *r, const struct spec_mount *m,
			 const char *path, int *ret_fd, struct error *err)
{
	unsigned int covers = r->cover_used ? AT_RECURSIVE : 0;
	auto_close int fd = -1;
	int flags = O_PATH;
	int n;

	if (m->src_nofollow || m->copy_symlink)
		flags |= O_NOFOLLOW;
	fd = fd_open_in_root(r->root_fd, path, flags, 0);
	if (fd < 0)
		return explain_source(m, -fd, err);
	n = mount_clone(fd, "", clone_flags(m) | covers);
	if (n < 0)
		return explain_source(m, -n, err);
	*ret_fd = n;
	return 0;
}

/*
 * A link that is only read is opened, not cloned: the kernel waits for a grace
 * period of RCU where a clone is dropped that was never mounted.
 */
static int open_link(const struct spec_mount *m, int *ret_fd, struct error *err)
{
	auto_close int fd = open(m->source, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return explain_source(m, errno, err);
	if (S_ISLNK(st.st_mode)) {
		*ret_fd = take_fd(&fd);
		return 0;
	}
	n = mount_clone(fd, "", clone_flags(m));
	if (n < 0)
		return explain_source(m, -n, err);
	*ret_fd = n;
	return 0;
}

static int clone_on_host(const struct spec_mount *m, int *ret_fd,
			 struct error *err)
{
	int fd;

	if (m->copy_symlink)
		return open_link(m, ret_fd, err);
	fd = mount_clone(AT_FDCWD, m->source, clone_flags(m));
	if (fd < 0)
		return explain_source(m, -fd, err);
	*ret_fd = fd;
	return 0;
}

/* Ids are mapped before anything else happens to the clone. */
static int map_ids(const struct rootfs *r, const struct spec_mount *m, int fd,
		   struct error *err)
{
	struct mount_change c = { .set = MOUNT_ATTR_IDMAP,
				  .recursive = m->idmap_recursive,
				  .userns_fd = -1 };
	const struct idmap *map = &m->mappings;
	auto_close int ns_fd = -1;
	struct stat st;
	int n;

	if (!m->idmap)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISLNK(st.st_mode) && m->copy_symlink)
		return 0; /* will be made anew, and is the host's own mount */
	if (idmap_is_empty(map))
		map = &r->o.spec->idmap;
	if (idmap_is_empty(map) && r->o.userns_fd >= 0)
		ns_fd = fcntl(r->o.userns_fd, F_DUPFD_CLOEXEC, 3);
	if (idmap_is_empty(map) && ns_fd < 0) {
		(void)error_say(err, ERR_BUNDLE, EINVAL,
				"an idmapped mount needs mappings");
		return error_hint(err, "give uidMappings and gidMappings, or a "
				       "user namespace");
	}
	n = ns_fd < 0 ? rootfs_idmap_fd(map, &ns_fd, err) : 0;
	if (n < 0)
		return n;
	c.userns_fd = ns_fd;
	n = mount_change(fd, &c);
	if (n == 0)
		return 0;
	n = error_set(err, ERR_SYSTEM, -n, "cannot map the ids of '%s'",
		      m->source);
	if (n == -EINVAL)
		(void)error_hint(err, "its file system does not support "
				      "idmapped mounts, or is mapped already");
	else if (n == -EPERM)
		(void)error_hint(err, "only root in the user namespace of its "
				      "file system may map ids");
	return n;
}

static int take_source(struct rootfs *r, size_t i, struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[i];
	int n = m->ours ? 0 : rootfs_check_source(r, m->source, err);

	if (n < 0)
		return n;
	if (r->parent_opens) {
		n = clone_on_host(m, &r->mount_fds[i], err);
		return n < 0 ? n : map_ids(r, m, r->mount_fds[i], err);
	}
	/* The child clones it; a missing one is told before anything is made.
	 */
	if (faccessat(AT_FDCWD, m->source, F_OK,
		      clone_flags(m) & AT_SYMLINK_NOFOLLOW) < 0)
		return explain_source(m, errno, err);
	return 0;
}

int rootfs_take_sources(struct rootfs *r, struct error *err)
{
	const struct spec *s = r->o.spec;
	size_t i;
	int n;

	if (!s->n_mounts)
		return 0;
	r->mount_fds = calloc(s->n_mounts, sizeof(*r->mount_fds));
	if (!r->mount_fds)
		return error_set(err, ERR_SYSTEM, ENOMEM, "mounts");
	for (i = 0; i < s->n_mounts; i++)
		r->mount_fds[i] = -1;
	for (i = 0; i < s->n_mounts; i++) {
		const struct spec_mount *m = &s->mounts[i];

		if (m->kind != SPEC_MOUNT_BIND || m->set & MS_REMOUNT ||
		    source_in_root(r, m))
			continue;
		n = take_source(r, i, err);
		if (n < 0) {
			(void)error_wrap(err, "mounts[%zu] ('%s')", i,
					 m->destination);
			return n;
		}
	}
	return 0;
}

static int open_source(struct rootfs *r, size_t i, int *ret_fd,
		       struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[i];
	const char *inside = source_in_root(r, m);
	auto_close int fd = -1;
	int n;

	if (r->mount_fds[i] >= 0) {
		*ret_fd = take_fd(&r->mount_fds[i]);
		return 0;
	}
	n = inside ? clone_in_root(r, m, inside, &fd, err)
		   : clone_on_host(m, &fd, err);
	if (n == 0)
		n = map_ids(r, m, fd, err);
	if (n == 0)
		*ret_fd = take_fd(&fd);
	return n;
}

/*
 * An atime mode that is asked for replaces any other. One that is asked to be
 * cleared gives way to the kernel's default, relatime, if it is in force.
 */
static int change_atime(const struct spec_mount *m, int fd,
			struct mount_change *c)
{
	const unsigned long modes = MS_NOATIME | MS_RELATIME | MS_STRICTATIME;
	unsigned long now;
	struct statvfs st;

	c->clear &= ~(uint64_t)MOUNT_ATTR__ATIME;
	if (m->set & modes) {
		c->clear |= MOUNT_ATTR__ATIME;
		return 0;
	}
	if (!(m->clear & modes))
		return 0;
	if (fstatvfs(fd, &st) < 0)
		return -errno;
	if (st.f_flag & ST_NOATIME)
		now = MS_NOATIME;
	else
		now = st.f_flag & ST_RELATIME ? MS_RELATIME : MS_STRICTATIME;
	if (m->clear & now)
		c->clear |= MOUNT_ATTR__ATIME;
	return 0;
}

static int change_bind(const struct rootfs *r, const struct spec_mount *m,
		       int fd, bool is_source, struct error *err)
{
	struct mount_change c = { .set = mount_attrs(m->set),
				  .clear = mount_attrs(m->clear) };
	const struct mount_change tree = {
		.set = m->scratch && is_source ? MOUNT_ATTR_RDONLY : 0,
		.propagation = rootfs_default_propagation(r),
	};
	int n = change_atime(m, fd, &c);

	c.clear &= ~(c.set & ~(uint64_t)MOUNT_ATTR__ATIME);
	if (n == 0)
		n = mount_change(fd, &c);
	if (n < 0) {
		n = error_set(err, ERR_SYSTEM, -n, "mount options");
		if (n == -EPERM)
			(void)error_hint(err, "an option that the host has "
					      "locked cannot be cleared");
		return n;
	}
	return rootfs_change_recursive(m, fd, &tree, err);
}

/* The cover would show up on the host. */
static int check_private(const struct rootfs *r, const struct spec_mount *m,
			 struct error *err)
{
	if (!(m->propagation & MS_SHARED) &&
	    (m->propagation || rootfs_default_propagation(r)))
		return 0;
	(void)error_say(
		err, ERR_BUNDLE, EINVAL,
		"'%s' holds sandlock's own directories and cannot be shared",
		m->source);
	return error_hint(err, "use \"rslave\" or \"rprivate\", or bind less");
}

static bool is_link_to(int dir_fd, const char *name, const char *text)
{
	char now[PATH_MAX];

	return fd_read_link(dir_fd, name, now) == 0 && strcmp(now, text) == 0;
}

/* copy-symlink: a link is made anew instead of being mounted. */
static int copy_symlink(struct rootfs *r, const struct spec_mount *m, int fd,
			struct error *err)
{
	auto_(target) struct target t = TARGET_INIT;
	auto_free char *dir = path_normalize(m->destination);
	char text[PATH_MAX];
	char *name = dir ? strrchr(dir, '/') : NULL;
	int n = fd_read_link(fd, "", text);

	if (!name || n < 0)
		return error_set(err, ERR_SYSTEM, n < 0 ? -n : ENOMEM,
				 "link '%s'", m->source);
	*name++ = '\0';
	n = rootfs_open_target(r, dir, TARGET_ROOT, &t, err);
	if (n < 0)
		return n;
	if (symlinkat(text, t.fd, name) < 0) {
		int sys = errno;

		if (sys == EEXIST && is_link_to(t.fd, name, text))
			return 0;
		return error_set(err, ERR_SYSTEM, sys, "cannot make the link");
	}
	n = rootfs_note_made(r, t.fd, t.path, name);
	return n < 0 ? error_set(err, ERR_SYSTEM, (int)-n, "mounts") : 0;
}

int rootfs_mount_bind(struct rootfs *r, size_t i, struct error *err)
{
	const struct spec_mount *m = &r->o.spec->mounts[i];
	auto_(target) struct target t = TARGET_INIT;
	auto_close int fd = -1, scratch_fd = -1;
	struct stat st;
	bool hides;
	int n;

	n = open_source(r, i, &fd, err);
	if (n < 0)
		return n;
	if (fstat(fd, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 m->source);
	if (S_ISLNK(st.st_mode) && m->copy_symlink)
		return copy_symlink(r, m, fd, err);
	hides = S_ISDIR(st.st_mode) && rootfs_has_hidden(r, &st);
	if (hides)
		n = check_private(r, m, err);
	if (n == 0)
		n = rootfs_mount_target(r, m, rootfs_is_proc(fd),
					!S_ISDIR(st.st_mode), &t, err);
	if (n == 0 && m->scratch && S_ISDIR(st.st_mode) && !hides)
		rootfs_mount_scratch(r, m, fd, &t, &scratch_fd);
	if (n == 0)
		n = change_bind(r, m, scratch_fd >= 0 ? scratch_fd : fd,
				scratch_fd < 0, err);
	if (n < 0)
		return n;
	n = mount_attach(scratch_fd >= 0 ? scratch_fd : fd, t.fd);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "mount on '/%s'", t.path);
	return hides ? rootfs_cover_hidden(r, fd, &st, err) : 0;
}
