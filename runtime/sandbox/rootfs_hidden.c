/*
 * Host directories that a payload must not see even through a bind mount of a
 * directory above them. Directories are recognised by device and inode, so it
 * does not matter by which name a bind source is given. Where the host itself
 * has bound such a directory somewhere else (/mnt/copy on /var/lib), that
 * place counts as a hidden one too.
 */
#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
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
	size_t i;

	if (stat(dir, &st) < 0)
		return -errno;
	for (i = 0; i < r->n_hidden; i++) {
		step = &r->hidden[i];
		if (step->dev == st.st_dev && step->ino == st.st_ino &&
		    strcmp(step->rest, rest) == 0)
			return 0;
	}
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

/* One line of mountinfo, proc_pid_mountinfo(5); it points into the line. */
struct mounted {
	const char *dev;  /* "8:1" */
	const char *root; /* of the mount, inside of its file system */
	const char *at;
};

static bool read_mounted(char *line, struct mounted *m)
{
	char *save = NULL;
	char *root, *at;

	if (!strtok_r(line, " ", &save) || !strtok_r(NULL, " ", &save))
		return false;
	m->dev = strtok_r(NULL, " ", &save);
	root = strtok_r(NULL, " ", &save);
	at = strtok_r(NULL, " ", &save);
	if (!at)
		return false;
	rootfs_unescape(root);
	rootfs_unescape(at);
	m->root = root;
	m->at = at;
	return true;
}

struct mount_list {
	struct mounted *v;
	size_t n;
	struct buf text;
};

static void mount_list_done(struct mount_list *l)
{
	free(l->v);
	buf_done(&l->text);
}

static int read_mounts(struct mount_list *l)
{
	char *line, *save = NULL;
	size_t lines = 0, i;
	int n = fd_read_file(AT_FDCWD, "/proc/self/mountinfo",
			     LIMIT_MOUNTINFO_BYTES, &l->text);

	if (n < 0)
		return n;
	for (i = 0; i < l->text.len; i++)
		lines += l->text.data[i] == '\n';
	l->v = calloc(lines + 1, sizeof(*l->v));
	if (!l->v)
		return -ENOMEM;
	for (line = strtok_r(l->text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (l->n < lines && read_mounted(line, &l->v[l->n]))
			l->n++;
	}
	return 0;
}

/* The mount that @path lies on: the longest mount point, the last of equals. */
static const struct mounted *mount_of(const struct mount_list *l,
				      const char *path)
{
	const struct mounted *best = NULL;
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (path_is_under(path, l->v[i].at) &&
		    (!best || strlen(l->v[i].at) >= strlen(best->at)))
			best = &l->v[i];
	}
	return best;
}

/* Adds the other places where the host shows the directory @real. */
static int add_aliases(struct rootfs *r, const struct mount_list *l,
		       const char *real)
{
	const struct mounted *home = mount_of(l, real);
	auto_free char *inside = NULL;
	size_t i;
	int n = 0;

	if (!home)
		return 0;
	inside = path_join(home->root, path_below(real, home->at));
	if (!inside)
		return -ENOMEM;
	for (i = 0; n == 0 && i < l->n; i++) {
		const struct mounted *m = &l->v[i];
		auto_free char *alias = NULL;

		if (m == home || strcmp(m->dev, home->dev) != 0)
			continue;
		if (path_is_under(inside, m->root))
			alias = path_join(m->at, path_below(inside, m->root));
		else if (path_is_under(m->root, inside))
			alias = strdup(m->at);
		else
			continue;
		n = alias ? add_steps(r, alias) : -ENOMEM;
		/* Covered by another mount, or not for us to see. */
		if (n == -ENOENT || n == -EACCES || n == -ENOTDIR)
			n = 0;
	}
	return n;
}

static bool has_bind(const struct spec *s)
{
	size_t i;

	for (i = 0; i < s->n_mounts; i++) {
		if (s->mounts[i].kind == SPEC_MOUNT_BIND)
			return true;
	}
	return false;
}

static bool is_in_root(const struct rootfs *r)
{
	const char *const *h;

	for (h = r->o.hidden; *h; h++) {
		if (path_is_under(*h, r->path))
			return true;
	}
	return false;
}

int rootfs_find_hidden(struct rootfs *r, struct error *err)
{
	auto_(mount_list) struct mount_list mounts = { .text = BUF_INIT };
	const char *const *h;
	int n = 0;

	if (!r->o.hidden ||
	    (!r->o.skeleton && !has_bind(r->o.spec) && !is_in_root(r)))
		return 0;
	n = read_mounts(&mounts);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot read the mounts of the host");
	for (h = r->o.hidden; *h; h++) {
		auto_free char *real = realpath(*h, NULL);

		if (!real && errno == ENOENT)
			continue;
		n = real ? add_steps(r, real) : -errno;
		if (n == 0)
			n = add_aliases(r, &mounts, real);
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
