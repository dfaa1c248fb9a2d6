/* Making something in a merged view. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "branch/merged_internal.h"
#include "branch/xattr.h"

enum { ACL_MAX = 65536 };
static const char default_acl[] = "system.posix_acl_default";

void spot_done(struct spot *s)
{
	merged_dir_done(&s->dir);
}

int spot_find(const struct merged *m, const char *path, struct spot *ret)
{
	int r;

	merged_dir_done(&ret->dir);
	ret->path = path;
	r = dir_open_parent(m, path, &ret->dir, &ret->name);
	return r < 0 ? r : dir_lookup(m, &ret->dir, ret->name, &ret->e);
}

int spot_may_write(const struct merged *m, const struct spot *s)
{
	if (m->is_read_only)
		return -EROFS;
	return faccessat(dir_newest(&s->dir), "", W_OK | X_OK,
			 AT_EMPTY_PATH | AT_EACCESS) < 0
		       ? -errno
		       : 0;
}

int spot_go_up(struct merged *m, struct spot *s)
{
	auto_free char *parent = NULL;

	if (s->dir.up >= 0)
		return 0;
	parent = strndup(s->path, (size_t)(s->name - s->path));
	return parent ? up_dir(m, parent, &s->dir.up) : -ENOMEM;
}

static int make_at(struct make *k, int dirfd, const char *name)
{
	char link[FD_PATH_MAX];

	if (k->from_fd >= 0)
		return linkat(AT_FDCWD, fd_proc_path(k->from_fd, link), dirfd,
			      name, AT_SYMLINK_FOLLOW) < 0
			       ? -errno
			       : 0;
	if (k->target)
		return symlinkat(k->target, dirfd, name) < 0 ? -errno : 0;
	if (S_ISDIR(k->mode))
		return mkdirat(dirfd, name, k->mode & 07777) < 0 ? -errno : 0;
	if (!S_ISREG(k->mode))
		return mknodat(dirfd, name, k->mode, k->dev) < 0 ? -errno : 0;
	k->fd = openat(dirfd, name, k->flags | O_CREAT | O_EXCL | O_CLOEXEC,
		       k->mode & 07777);
	return k->fd < 0 ? -errno : 0;
}

/* The bits that a umask took from it. */
static int give_back(const struct merged *m, const struct make *k, int dirfd,
		     const char *name)
{
	auto_close int fd = -1;
	char path[FD_PATH_MAX];
	struct stat st;

	if (k->has_acl || !(k->mode & m->umask) || k->from_fd >= 0 || k->target)
		return 0;
	/* Where others write, too, it may have become a link. */
	fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ENOENT;
	return chmod(fd_proc_path(fd, path),
		     (st.st_mode & 07000) | (k->mode & (07777 & ~S_ISGID))) < 0
		       ? -errno
		       : 0;
}

bool has_default_acl(int dirfd)
{
	char link[FD_PATH_MAX];

	return getxattr(fd_proc_path(dirfd, link), default_acl, NULL, 0) > 0;
}

static void heed_umask(struct make *k, int dirfd)
{
	k->has_acl = k->from_fd < 0 && !k->target && has_default_acl(dirfd);
	if (!k->has_acl)
		k->mode &= ~k->mask;
}

/*
 * Where something is made that a directory with a default ACL is to have: what
 * it gives to it, and what that makes of the mode, only the kernel knows.
 */
static int open_heir(struct merged *m, int dirfd, char name[MERGED_TEMP_MAX])
{
	char link[FD_PATH_MAX], acl[ACL_MAX];
	ssize_t n = getxattr(fd_proc_path(dirfd, link), default_acl, acl,
			     sizeof(acl));
	int fd, r = n < 0 ? -errno : 0;

	merged_temp(m, name);
	if (r == 0 && mkdirat(m->work_fd, name, 0700) < 0)
		r = -errno;
	if (r < 0)
		return r;
	r = xattr_set(m->work_fd, name, default_acl, acl, (size_t)n);
	fd = r < 0 ? r
		   : fd_open_beneath(m->work_fd, name,
				     O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		merged_drop(m, name);
	return fd;
}

/* In work, with all that it inherits. */
static int make_apart(struct merged *m, struct make *k, const struct spot *s,
		      const char *temp)
{
	auto_close int heir = -1;
	char name[MERGED_TEMP_MAX];
	int r;

	if (!k->has_acl)
		return make_at(k, m->work_fd, temp);
	heir = open_heir(m, s->dir.up, name);
	if (heir < 0)
		return heir;
	r = make_at(k, heir, temp);
	if (r == 0 && renameat(heir, temp, m->work_fd, temp) < 0)
		r = -errno;
	merged_drop(m, name);
	return r;
}

/* What the directory would have given it. */
static int inherit(const struct merged *m, const struct make *k,
		   const struct spot *s, const char *temp)
{
	struct stat st;

	if (k->from_fd >= 0)
		return 0;
	if (fstat(s->dir.up, &st) < 0)
		return -errno;
	if (!(st.st_mode & S_ISGID))
		return 0;
	if (fchownat(m->work_fd, temp, (uid_t)-1, st.st_gid,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	/* What a default ACL made of its mode stays. */
	if (S_ISDIR(k->mode) &&
	    (fstatat(m->work_fd, temp, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	     fchmodat(m->work_fd, temp, (st.st_mode & 07777) | S_ISGID, 0) < 0))
		return -errno;
	return 0;
}

/* Takes what a directory had to have while it was made. */
static int shut(const struct make *k, const struct spot *s)
{
	struct stat st;

	if (fstatat(s->dir.up, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(s->dir.up, s->name,
		     st.st_mode & (07077 | (k->mode & 0700)), 0) < 0)
		return -errno;
	return 0;
}

/*
 * In the place of a whiteout, in one step: what was removed does not come
 * back for a moment. A directory says that nothing of the lower is in it, which
 * its owner may have no right to write down, nor to move it here.
 */
static int make_over_whiteout(struct merged *m, struct make *k,
			      const struct spot *s)
{
	char temp[MERGED_TEMP_MAX];
	bool dir = S_ISDIR(k->mode);
	mode_t mode = k->mode;
	bool is_open;
	int r;

	merged_temp(m, temp);
	if (dir)
		k->mode |= 0700;
	r = make_apart(m, k, s, temp);
	if (r == 0)
		r = inherit(m, k, s, temp);
	if (r == 0 && dir)
		r = up_set_opaque(m, m->work_fd, temp);
	if (r == 0 && renameat2(m->work_fd, temp, s->dir.up, s->name,
				dir ? RENAME_EXCHANGE : 0) < 0)
		r = -errno;
	if (r < 0 || dir)
		merged_drop(m, temp);
	is_open = k->mode != mode;
	k->mode = mode;
	if (r == 0 && is_open)
		r = shut(k, s);
	if (r < 0)
		cleanup_close(&k->fd);
	if (r < 0)
		k->fd = -1;
	return r;
}

int merged_make(struct merged *m, const char *path, struct make *k)
{
	auto_(spot) struct spot s = SPOT_INIT;
	int r = *path ? spot_find(m, path, &s) : -EEXIST;

	if (r < 0)
		return r;
	if (entry_seen(&s.e))
		return -EEXIST;
	r = spot_may_write(m, &s);
	if (r == 0)
		r = spot_go_up(m, &s);
	if (r < 0)
		return r;
	heed_umask(k, s.dir.up);
	r = s.e.is_whiteout ? make_over_whiteout(m, k, &s)
			    : make_at(k, s.dir.up, s.name);
	return r == 0 ? give_back(m, k, s.dir.up, s.name) : r;
}

static int make_locked(struct merged *m, const char *path, struct make *k)
{
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = merged_make(m, path, k);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

int merged_mkdir(struct merged *m, const char *path, struct merged_mode mode)
{
	struct make k = { .mode = S_IFDIR | (mode.mode & 01777),
			  .mask = mode.umask,
			  .from_fd = -1,
			  .fd = -1 };

	return make_locked(m, path, &k);
}

int merged_mknod(struct merged *m, const char *path, struct merged_mode mode,
		 dev_t dev)
{
	struct make k = {
		.mode = mode.mode & S_IFMT ? mode.mode : S_IFREG | mode.mode,
		.mask = mode.umask,
		.dev = dev,
		.flags = O_WRONLY,
		.from_fd = -1,
		.fd = -1,
	};
	int r;

	/* It would be a whiteout. */
	if (S_ISCHR(k.mode) && dev == 0)
		return -EPERM;
	if (S_ISDIR(k.mode) || S_ISLNK(k.mode))
		return -EPERM;
	r = make_locked(m, path, &k);
	cleanup_close(&k.fd);
	return r;
}

int merged_symlink(struct merged *m, const char *target, const char *path)
{
	struct make k = { .mode = S_IFLNK | 0777,
			  .target = target,
			  .from_fd = -1,
			  .fd = -1 };

	return *target ? make_locked(m, path, &k) : -ENOENT;
}

int merged_link_fd(struct merged *m, int fd, const char *to)
{
	struct make k = { .mode = S_IFREG, .from_fd = fd, .fd = -1 };

	return make_locked(m, to, &k);
}
