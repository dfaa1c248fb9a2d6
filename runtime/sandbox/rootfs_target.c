/*
 * Destinations. The common cases are one openat2(2) that meets no link, and one
 * name to be made in a directory that such a one opens. Everything else is
 * walked one component at a time: every step is an openat(2) of a single name
 * with O_NOFOLLOW, links are read and resolved here, and ".." goes back along a
 * path that is known to be free of links. So nothing that somebody exchanges
 * meanwhile leads out of the root; it only fails.
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

enum {
	LINKS_MAX = 40,	  /* as the kernel's MAXSYMLINKS */
	STEPS_MAX = 4096, /* components, those of links included */
};

struct walk {
	struct rootfs *r;
	unsigned int flags;
	int fd;		 /* the directory we are in */
	struct buf path; /* its path below the root */
	struct buf rest; /* still to be resolved */
	size_t at;	 /* where in rest */
	unsigned int links;
	bool is_new; /* the last component was made */
};

static void walk_done(struct walk *w)
{
	cleanup_close(&w->fd);
	buf_done(&w->path);
	buf_done(&w->rest);
}

void target_done(struct target *t)
{
	cleanup_close(&t->fd);
	free(t->path);
}

int rootfs_note_made(struct rootfs *r, int dir_fd, const char *dir,
		     const char *name)
{
	uint64_t id;
	int ret;

	if (!r->o.branch || r->o.skeleton)
		return 0;
	ret = mount_id(dir_fd, &id);
	if (ret < 0)
		return ret;
	if (id != r->root_mnt_id)
		return 0;
	if (*dir) {
		buf_add_str(&r->made, dir);
		buf_add_char(&r->made, '/');
	}
	buf_add_str(&r->made, name);
	buf_add_char(&r->made, '\0');
	return buf_failed(&r->made) ? -ENOMEM : 0;
}

/* 1 and the next component, 0 at the end. */
static int next_name(struct walk *w, char name[NAME_MAX + 1], bool *is_last)
{
	const char *s = buf_str(&w->rest) + w->at;
	size_t n;

	s += strspn(s, "/");
	n = strcspn(s, "/");
	if (n == 0)
		return 0;
	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, s, n);
	name[n] = '\0';
	s += n;
	w->at = (size_t)(s - buf_str(&w->rest));
	*is_last = s[strspn(s, "/")] == '\0';
	return 1;
}

static int enter_root(struct walk *w)
{
	int fd = fcntl(w->r->root_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return -errno;
	cleanup_close(&w->fd);
	w->fd = fd;
	buf_clear(&w->path);
	return 0;
}

static int enter_parent(struct walk *w)
{
	auto_(buf) struct buf up = BUF_INIT;
	const char *path = buf_str(&w->path);
	const char *slash = strrchr(path, '/');
	int fd;

	if (!slash)
		return enter_root(w);
	buf_add(&up, path, (size_t)(slash - path));
	if (buf_failed(&up))
		return -ENOMEM;
	fd = fd_openat2(w->r->root_fd, buf_str(&up), O_PATH | O_DIRECTORY, 0,
			RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
				RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return fd;
	cleanup_close(&w->fd);
	w->fd = fd;
	buf_clear(&w->path);
	buf_add_str(&w->path, buf_str(&up));
	return buf_failed(&w->path) ? -ENOMEM : 0;
}

/*
 * What the link says comes in front of what is left to resolve. Links of
 * procfs lead to where no text says.
 */
static int enter_link(struct walk *w, int link_fd)
{
	auto_(buf) struct buf rest = BUF_INIT;
	char text[PATH_MAX];
	int r;

	if (rootfs_is_proc(link_fd))
		return -ELOOP;
	r = fd_read_link(link_fd, "", text);
	if (r < 0)
		return r;
	if (!*text)
		return -ENOENT;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	buf_add_str(&rest, text);
	buf_add_str(&rest, buf_str(&w->rest) + w->at);
	if (buf_failed(&rest))
		return -ENOMEM;
	buf_done(&w->rest);
	w->rest = rest;
	w->at = 0;
	rest = (struct buf)BUF_INIT;
	return text[0] == '/' ? enter_root(w) : 0;
}

/* 1 if it was made, 0 if it is there. */
static int make_name(struct rootfs *r, int dir_fd, const char *dir,
		     const char *name, bool is_file)
{
	int n = is_file ? mknodat(dir_fd, name, S_IFREG | 0644, 0)
			: mkdirat(dir_fd, name, 0755);

	if (n < 0)
		return errno == EEXIST ? 0 : -errno;
	n = rootfs_note_made(r, dir_fd, dir, name);
	return n < 0 ? n : 1;
}

static int open_name(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Opens @name where we are; a missing one is made first. */
static int open_or_make(struct walk *w, const char *name, bool is_last)
{
	int fd = open_name(w->fd, name);
	int n;

	if (fd != -ENOENT)
		return fd;
	n = make_name(w->r, w->fd, buf_str(&w->path), name,
		      is_last && w->flags & TARGET_FILE);
	if (n < 0)
		return n;
	w->is_new = n > 0 && is_last;
	return open_name(w->fd, name);
}

static int enter_name(struct walk *w, const char *name, bool is_last)
{
	auto_close int fd = -1;
	struct stat st;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0)
		return enter_parent(w);
	fd = open_or_make(w, name, is_last);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode) && !(is_last && w->flags & TARGET_NOFOLLOW))
		return enter_link(w, fd);
	if (!S_ISDIR(st.st_mode) && !is_last)
		return -ENOTDIR;
	cleanup_close(&w->fd);
	w->fd = take_fd(&fd);
	if (w->path.len)
		buf_add_char(&w->path, '/');
	buf_add_str(&w->path, name);
	return buf_failed(&w->path) ? -ENOMEM : 0;
}

static int walk_path(struct rootfs *r, const char *path, unsigned int flags,
		     struct target *ret)
{
	auto_(walk) struct walk w = { .r = r, .flags = flags, .fd = -1 };
	unsigned int steps;
	char name[NAME_MAX + 1];
	bool is_last = false;
	int n;

	buf_add_str(&w.rest, path);
	n = buf_failed(&w.rest) ? -ENOMEM : enter_root(&w);
	if (n < 0)
		return n;
	for (steps = 0; steps < STEPS_MAX; steps++) {
		n = next_name(&w, name, &is_last);
		if (n <= 0)
			break;
		n = enter_name(&w, name, is_last);
		if (n < 0)
			return n;
	}
	if (n != 0)
		return n < 0 ? n : -ELOOP;
	free(ret->path);
	ret->path = buf_take(&w.path, NULL);
	if (!ret->path)
		return -ENOMEM;
	ret->fd = take_fd(&w.fd);
	ret->is_new = w.is_new;
	return 0;
}

static int open_beneath(const struct rootfs *r, const char *path, int flags)
{
	return fd_openat2(r->root_fd, path, O_PATH | flags, 0,
			  RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
				  RESOLVE_NO_MAGICLINKS);
}

/* The last name of @path is missing, and what it is to lie in is there. */
static int make_plain(struct rootfs *r, const char *path, unsigned int flags,
		      struct target *t)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	auto_free char *dir = strndup(path, slash ? (size_t)(slash - path) : 0);
	auto_close int dir_fd = -1;
	int n;

	if (!dir)
		return -ENOMEM;
	if (slash)
		dir_fd = open_beneath(r, dir, O_DIRECTORY);
	if (slash && dir_fd < 0)
		return dir_fd;
	n = make_name(r, slash ? dir_fd : r->root_fd, dir, name,
		      flags & TARGET_FILE);
	if (n <= 0) /* somebody else's: what it is has to be looked at */
		return n < 0 ? n : -ELOOP;
	n = open_name(slash ? dir_fd : r->root_fd, name);
	if (n < 0)
		return n;
	t->fd = n;
	t->is_new = true;
	return 0;
}

static int open_plain(struct rootfs *r, const char *path, unsigned int flags,
		      struct target *t)
{
	auto_free char *plain = path_normalize(path);
	int n;

	t->path = plain ? strdup(plain + strspn(plain, "/")) : NULL;
	if (!t->path)
		return -ENOMEM;
	n = open_beneath(r, *path ? path : ".",
			 flags & TARGET_NOFOLLOW ? O_NOFOLLOW : 0);
	if (n == -ENOENT)
		return make_plain(r, t->path, flags, t);
	t->fd = n < 0 ? -1 : n;
	return n < 0 ? n : 0;
}

static int check_target(struct rootfs *r, const struct target *t,
			unsigned int flags, struct error *err)
{
	struct statx st;

	if (t->is_new)
		return 0;
	if (statx(t->fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW,
		  STATX_TYPE | STATX_INO | STATX_MNT_ID, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '/%s'",
				 t->path);
	if (!(flags & TARGET_ROOT) && st.stx_mnt_id == r->root_mnt_id &&
	    st.stx_ino == r->root_ino)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "the root itself cannot be mounted on");
	if (S_ISDIR(st.stx_mode) && flags & TARGET_FILE)
		return error_say(err, ERR_BUNDLE, EISDIR,
				 "'/%s' is a directory, the source is not",
				 t->path);
	if (!S_ISDIR(st.stx_mode) && !(flags & TARGET_FILE))
		return error_say(err, ERR_BUNDLE, ENOTDIR,
				 "'/%s' is not a directory", t->path);
	return 0;
}

int rootfs_open_target(struct rootfs *r, const char *path, unsigned int flags,
		       struct target *ret, struct error *err)
{
	auto_(target) struct target t = TARGET_INIT;
	int n = open_plain(r, path, flags, &t);

	if (n == -ELOOP || n == -ENOENT)
		n = walk_path(r, path, flags, &t);
	if (n < 0) {
		n = error_set(err, ERR_BUNDLE, -n,
			      "cannot open '%s' inside the root", path);
		if (n == -EROFS)
			(void)error_hint(err,
					 "it is missing, and its file system "
					 "is read-only: make it beforehand");
		return n;
	}
	n = check_target(r, &t, flags, err);
	if (n < 0)
		return n;
	ret->fd = take_fd(&t.fd);
	ret->path = take_ptr(&t.path);
	ret->is_new = t.is_new;
	return 0;
}
