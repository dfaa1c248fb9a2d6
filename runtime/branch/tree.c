#include "branch/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/judge.h"
#include "branch/links.h"
#include "branch/modes.h"
#include "branch/origin.h"
#include "branch/walk.h"

enum { COPY_CHUNK = 1 << 30, READ_CHUNK = 128 * 1024 };

/* Contents */

static int copy_by_hand(int from, int to, off_t pos, off_t end)
{
	auto_free char *chunk = malloc(READ_CHUNK);

	if (!chunk)
		return -ENOMEM;
	while (pos < end) {
		size_t want = end - pos < READ_CHUNK ? (size_t)(end - pos)
						     : READ_CHUNK;
		ssize_t n = pread(from, chunk, want, pos);

		if (n == 0)
			return 0; /* shorter than it was */
		for (ssize_t at = 0; n > 0 && at < n;) {
			ssize_t m = pwrite(to, chunk + at, (size_t)(n - at),
					   pos + at);

			if (m < 0 && errno != EINTR)
				return -errno;
			at += m > 0 ? m : 0;
		}
		if (n < 0 && errno != EINTR)
			return -errno;
		pos += n > 0 ? n : 0;
	}
	return 0;
}

static int copy_range(int from, int to, off_t pos, off_t end)
{
	off_t at = pos;

	while (pos < end) {
		size_t want = end - pos < COPY_CHUNK ? (size_t)(end - pos)
						     : COPY_CHUNK;
		ssize_t n = copy_file_range(from, &pos, to, &at, want, 0);

		if (n < 0 && errno == EINTR)
			continue;
		/* Not between these two file systems. */
		if (n <= 0)
			return n < 0 && (errno == ENOSPC || errno == EDQUOT ||
					 errno == EIO)
				       ? -errno
				       : copy_by_hand(from, to, pos, end);
	}
	return 0;
}

/* A clone where the file system can, else the data between the holes. */
static int copy_data(int from, int to, off_t size)
{
	off_t pos = 0;

	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (ftruncate(to, size) < 0)
		return -errno;
	while (pos < size) {
		off_t data = lseek(from, pos, SEEK_DATA), hole;
		int r;

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0)
			data = pos;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0)
			hole = size;
		r = copy_range(from, to, data, hole);
		if (r < 0)
			return r;
		pos = hole;
	}
	return 0;
}

static int copy_file(const struct tree_copy *t, int from_dirfd,
		     const char *from, const struct object *o, int to_dirfd,
		     const char *to)
{
	auto_close int source = -1;
	auto_close int target = openat(
		to_dirfd, to,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = target < 0 ? -errno : content_open(from_dirfd, from, &source);

	if (r == 0)
		r = copy_data(source, target, (off_t)o->size);
	if (r == 0 && t->sync_each && fsync(target) < 0)
		r = -errno;
	return r;
}

/* Objects */

static int copy_symlink(int from_dirfd, const char *from, int to_dirfd,
			const char *to)
{
	auto_(buf) struct buf target = BUF_INIT;
	int r = content_readlink(from_dirfd, from, &target);

	if (r == 0 && symlinkat(buf_str(&target), to_dirfd, to) < 0)
		r = -errno;
	return r;
}

static int make_object(const struct tree_copy *t, int from_dirfd,
		       const char *from, const struct object *o, int to_dirfd,
		       const char *to)
{
	switch (o->mode & S_IFMT) {
	case S_IFREG:
		return copy_file(t, from_dirfd, from, o, to_dirfd, to);
	case S_IFLNK:
		return copy_symlink(from_dirfd, from, to_dirfd, to);
	case S_IFDIR:
		return mkdirat(to_dirfd, to, 0700) < 0 ? -errno : 0;
	default:
		return mknodat(to_dirfd, to, (o->mode & S_IFMT) | 0600,
			       o->rdev) < 0
			       ? -errno
			       : 0;
	}
}

/*
 * chown clears set-id bits and an ACL changes the mode, so mode comes last.
 * What was made in a directory with a default ACL has inherited one.
 */
int tree_set_metadata(const char *prefix, int from_dirfd, const char *from,
		      const struct object *o, int to_dirfd, const char *to)
{
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	auto_(xattrs) struct xattrs inherited = XATTRS_INIT;
	int r = xattrs_read_visible(from_dirfd, from, prefix, &x);

	if (r == 0)
		r = xattrs_read_visible(to_dirfd, to, prefix, &inherited);
	if (r == 0 &&
	    fchownat(to_dirfd, to, o->uid, o->gid, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0)
		r = xattrs_apply(to_dirfd, to, &inherited, &x);
	if (r == 0 && !S_ISLNK(o->mode))
		r = object_set_mode(to_dirfd, to, o->mode & 07777);
	return r < 0 ? r : object_set_mtime(to_dirfd, to, o->mtime);
}

int tree_copy_object(const char *prefix, int from_dirfd, const char *from,
		     const struct object *o, int to_dirfd, const char *to)
{
	static const struct tree_copy plain = { .stage_fd = -1 };
	int r = make_object(&plain, from_dirfd, from, o, to_dirfd, to);

	return r < 0 ? r
		     : tree_set_metadata(prefix, from_dirfd, from, o, to_dirfd,
					 to);
}

/* Another name of something that was copied before: 1, else 0. */
static int link_again(const struct tree_copy *t, const struct object *o,
		      int to_dirfd, const char *to)
{
	const struct link *l = links_find(t->links, o->ino);
	auto_close int dirfd = -1;
	const char *name;
	int r;

	if (!l)
		return 0;
	if (linkat(t->stage_fd, l->path, to_dirfd, to, 0) == 0)
		return 1;
	if (errno != ENAMETOOLONG)
		return -errno;
	r = walk_lookup(t->stage_fd, l->path, &dirfd, &name);
	if (r == 0 && linkat(dirfd, name, to_dirfd, to, 0) < 0)
		r = -errno;
	return r < 0 ? r : 1;
}

struct copier {
	const struct tree_copy *t;
	struct walk walk;
	int dirfd;	/* in the stage, where the walk is */
	const char *to; /* name of the whole in the stage */
	struct buf path;
};

static void copier_done(struct copier *c)
{
	walk_done(&c->walk);
	cleanup_close(&c->dirfd);
	buf_done(&c->path);
}

static int go_down(struct copier *c, const char *name)
{
	int fd = openat(c->dirfd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)close(c->dirfd);
	c->dirfd = fd;
	return 0;
}

/* The stage is private: nobody moves what is in it. */
static int go_up(struct copier *c)
{
	int fd = openat(c->dirfd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (c->t->sync_each && fsync(c->dirfd) < 0)
		return -errno;
	(void)close(c->dirfd);
	c->dirfd = fd;
	return 0;
}

static int leave_dir(struct copier *c, const struct walk_entry *e)
{
	struct object o;
	int r = go_up(c);

	if (r == 0)
		r = object_stat(e->upper_dirfd, e->name, &o);
	return r < 0 ? r
		     : tree_set_metadata(c->t->prefix, e->upper_dirfd, e->name,
					 &o, c->dirfd, e->name);
}

static int remember(struct copier *c, const struct walk_entry *e)
{
	buf_clear(&c->path);
	buf_printf(&c->path, "%s/%s", c->to, e->path);
	if (buf_failed(&c->path))
		return -ENOMEM;
	return links_add(c->t->links, e->upper.ino, 0, buf_str(&c->path))
		       ? 0
		       : -ENOMEM;
}

static int copy_entry(struct copier *c, const struct walk_entry *e)
{
	const struct object *o = &e->upper;
	bool linked = !S_ISDIR(o->mode) && o->nlink > 1;
	int r;

	if (e->whiteout || (S_ISSOCK(o->mode) && !c->t->allow_special))
		return 0;
	r = linked ? link_again(c->t, o, c->dirfd, e->name) : 0;
	if (r)
		return r < 0 ? r : 0;
	r = make_object(c->t, e->upper_dirfd, e->name, o, c->dirfd, e->name);
	if (r == 0 && linked)
		r = remember(c, e);
	if (r < 0)
		return r;
	if (S_ISDIR(o->mode))
		return go_down(c, e->name);
	return tree_set_metadata(c->t->prefix, e->upper_dirfd, e->name, o,
				 c->dirfd, e->name);
}

static int copy_failed(const char *path, int sys, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;

	path_quote(&b, path, strlen(path));
	return error_set(err, ERR_SYSTEM, sys, "cannot copy '%s'", buf_str(&b));
}

static int copy_below(const struct tree_copy *t, int dirfd, const char *name,
		      const char *to, struct error *err)
{
	auto_(copier) struct copier c = { .t = t, .dirfd = -1, .to = to };
	auto_close int from = openat(
		dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct walk_entry *e;
	int r;

	c.dirfd = openat(t->stage_fd, to,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 || c.dirfd < 0)
		return copy_failed(name, errno, err);
	r = walk_init(&c.walk, from, -1, t->prefix, err);
	while (r == 0 && (r = walk_next(&c.walk, &e, err)) == 1) {
		bool enter = !e->leaving && S_ISDIR(e->upper.mode);
		int n = 0;

		if (e->leaving && e->path_len > 0)
			n = leave_dir(&c, e);
		else if (!e->leaving && e->path_len > 0)
			n = copy_entry(&c, e);
		if (n < 0)
			return copy_failed(e->path, -n, err);
		r = enter ? walk_enter(&c.walk, WALK_NEW, WALK_NO_TAG, err) : 0;
	}
	if (r == 0 && t->sync_each && fsync(c.dirfd) < 0)
		return copy_failed(name, errno, err);
	return r;
}

int tree_copy(struct tree_copy *t, int dirfd, const char *name, const char *to,
	      struct error *err)
{
	struct object o;
	bool linked;
	int r = object_stat(dirfd, name, &o);

	linked = !S_ISDIR(o.mode) && o.nlink > 1;
	if (r == 0 && linked)
		r = link_again(t, &o, t->stage_fd, to);
	if (r == 1)
		return 0;
	if (r == 0)
		r = make_object(t, dirfd, name, &o, t->stage_fd, to);
	if (r == 0 && linked && !links_add(t->links, o.ino, 0, to))
		r = -ENOMEM;
	if (r < 0)
		return copy_failed(name, -r, err);
	if (S_ISDIR(o.mode))
		r = copy_below(t, dirfd, name, to, err);
	if (r < 0)
		return r;
	r = tree_set_metadata(t->prefix, dirfd, name, &o, t->stage_fd, to);
	return r < 0 ? copy_failed(name, -r, err) : 0;
}

uint64_t tree_hash_entry(uint64_t hash, const struct walk_entry *e)
{
	const struct object *o = &e->lower;
	bool is_dir = S_ISDIR(o->mode), is_alone = is_dir || o->nlink < 2;
	const uint64_t parts[] = {
		o->ino,
		(uint64_t)o->mode << 32 | is_alone,
		(uint64_t)o->uid << 32 | o->gid,
		is_dir ? 0 : o->size,
		(uint64_t)o->mtime.tv_sec,
		(uint64_t)o->mtime.tv_nsec,
		is_alone ? (uint64_t)o->ctime.tv_sec : 0,
		is_alone ? (uint64_t)o->ctime.tv_nsec : 0,
	};

	hash = origin_hash(hash, e->path, e->path_len + 1);
	return origin_hash(hash, parts, sizeof(parts));
}

int tree_hash(int dirfd, const char *name, uint64_t *ret)
{
	auto_(walk) struct walk w = { .depth = 0 };
	auto_close int fd = openat(
		dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct walk_entry *e;
	uint64_t hash = 0;
	int r = fd < 0 ? -errno : walk_init(&w, -1, fd, "", NULL);

	while (r >= 0 && (r = walk_next_lower(&w, &e, NULL)) == 1)
		if (!e->leaving && e->path_len > 0)
			hash = tree_hash_entry(hash, e);
	if (r == 0)
		*ret = hash;
	return r;
}

/* What goes has no mode that is to be kept. */
static int enter_to_remove(struct walk *w, const struct walk_entry *e)
{
	auto_close int fd = -1;
	int r = walk_open_lower(e, &fd);

	if (r == 0 && fd >= 0)
		r = modes_let_in(fd);
	return r < 0 ? r : walk_enter(w, WALK_DELETED, WALK_NO_TAG, NULL);
}

static int remove_entry(struct walk *w, const struct walk_entry *e)
{
	bool is_dir = e->leaving || S_ISDIR(e->lower.mode);

	if (is_dir && !e->leaving)
		return enter_to_remove(w, e);
	if (e->path_len == 0) /* the caller's */
		return 0;
	if (unlinkat(e->lower_dirfd, e->name, is_dir ? AT_REMOVEDIR : 0) < 0 &&
	    errno != ENOENT)
		return -errno;
	return 0;
}

int tree_remove(int dirfd, const char *name)
{
	auto_(walk) struct walk w = { .depth = 0 };
	auto_close int fd = openat(
		dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct walk_entry *e;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = walk_init(&w, -1, fd, "", NULL);
	while (r == 0 && (r = walk_next(&w, &e, NULL)) == 1)
		r = remove_entry(&w, e);
	if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}
