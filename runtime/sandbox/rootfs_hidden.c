/*
 * Host directories that a payload must not see even through a bind mount of a
 * directory above them. Directories are recognised by device and inode, so it
 * does not matter by which name a bind source is given.
 */
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
#include "kernel/mount.h"

/* One directory on the way from "/" to a hidden one, and that one itself. */
struct hidden_step {
	dev_t dev;
	ino_t ino;
	char *rest; /* from here to the hidden directory, "" there */
};

void rootfs_free_hidden(struct rootfs *r)
{
	size_t i;

	for (i = 0; i < r->n_hidden; i++)
		free(r->hidden[i].rest);
	free(r->hidden);
}

static int add_step(struct rootfs *r, const char *dir, const char *rest)
{
	struct hidden_step *more, *step;
	struct stat st;

	if (stat(dir, &st) < 0)
		return -errno;
	more = reallocarray(r->hidden, r->n_hidden + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	r->hidden = more;
	step = &more[r->n_hidden];
	step->dev = st.st_dev;
	step->ino = st.st_ino;
	step->rest = strdup(rest);
	if (!step->rest)
		return -ENOMEM;
	r->n_hidden++;
	return 0;
}

/* @real is absolute and free of links; it is cut at each slash in turn. */
static int add_steps(struct rootfs *r, char *real)
{
	char *slash;
	int n;

	n = add_step(r, "/", real + 1);
	for (slash = strchr(real + 1, '/'); n == 0 && slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		n = add_step(r, real, slash + 1);
		*slash = '/';
	}
	return n == 0 ? add_step(r, real, "") : n;
}

static bool is_needed(const struct rootfs *r)
{
	const struct spec *s = r->o.spec;
	const char *const *h;
	size_t i;

	if (r->o.skeleton)
		return true;
	for (i = 0; i < s->n_mounts; i++) {
		if (s->mounts[i].kind == SPEC_MOUNT_BIND)
			return true;
	}
	for (h = r->o.hidden; *h; h++) {
		if (path_is_under(*h, r->path))
			return true;
	}
	return false;
}

int rootfs_find_hidden(struct rootfs *r, struct error *err)
{
	const char *const *h;
	int n;

	if (!r->o.hidden || !is_needed(r))
		return 0;
	for (h = r->o.hidden; *h; h++) {
		auto_free char *real = realpath(*h, NULL);

		if (!real && errno == ENOENT)
			continue;
		n = real ? add_steps(r, real) : -errno;
		if (n < 0)
			return error_set(err, ERR_SYSTEM, -n,
					 "cannot hide '%s'", *h);
	}
	return 0;
}

int rootfs_check_source(const struct rootfs *r, const char *source,
			struct error *err)
{
	auto_free char *real = NULL;
	const char *const *h;

	if (!r->o.hidden || !r->o.hidden[0])
		return 0;
	real = realpath(source, NULL);
	for (h = r->o.hidden; real && *h; h++) {
		if (path_is_under(real, *h) && strcmp(real, *h) != 0)
			return error_say(err, ERR_BUNDLE, EACCES,
					 "'%s' belongs to sandlock and is "
					 "never visible inside",
					 source);
	}
	return 0;
}

bool rootfs_has_hidden(const struct rootfs *r, const struct stat *st)
{
	size_t i;

	for (i = 0; i < r->n_hidden; i++) {
		if (r->hidden[i].dev == st->st_dev &&
		    r->hidden[i].ino == st->st_ino)
			return true;
	}
	return false;
}

/*
 * One file system serves all covers. Its first mount is attached, the others
 * are clones of that: before 6.15 a detached mount cannot be cloned.
 */
int rootfs_cover(struct rootfs *r, int target_fd, struct error *err)
{
	static const struct mount_fs empty = {
		.type = "tmpfs",
		.source = "tmpfs",
		.data = "mode=0555,nr_inodes=1,nr_blocks=1",
		.flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
	};
	auto_close int clone_fd = -1;
	int n;

	if (r->cover_fd < 0) {
		n = mount_new(&empty, &r->cover_fd, err);
		if (n < 0)
			return n;
	}
	if (r->cover_used) {
		clone_fd = mount_clone(r->cover_fd, "", 0);
		n = clone_fd < 0 ? clone_fd : mount_attach(clone_fd, target_fd);
	} else {
		n = mount_attach(r->cover_fd, target_fd);
	}
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "empty mount");
	r->cover_used = true;
	return 0;
}

int rootfs_cover_hidden(struct rootfs *r, int tree_fd, const struct stat *st,
			struct error *err)
{
	size_t i;
	int n;

	for (i = 0; i < r->n_hidden; i++) {
		const struct hidden_step *step = &r->hidden[i];
		auto_close int fd = -1;

		if (step->dev != st->st_dev || step->ino != st->st_ino)
			continue;
		if (!*step->rest)
			return rootfs_cover(r, tree_fd, err);
		fd = fd_openat2(tree_fd, step->rest, O_PATH | O_DIRECTORY, 0,
				RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
					RESOLVE_NO_MAGICLINKS);
		if (fd == -ENOENT) /* on a mount that was not bound with it */
			continue;
		n = fd < 0 ? error_set(err, ERR_SYSTEM, -fd, "cannot hide '%s'",
				       step->rest)
			   : rootfs_cover(r, fd, err);
		if (n < 0)
			return n;
	}
	return 0;
}
