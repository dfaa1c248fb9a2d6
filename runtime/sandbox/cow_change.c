/* Calls that make, remove and move names in a branch. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "sandbox/cow_internal.h"

/* -------------------------------------------------------------- making -- */

enum kind { KIND_DIR, KIND_NODE, KIND_LINK };

struct make {
	enum kind kind;
	int dirfd;
	uint64_t path, target;
	mode_t mode;
	dev_t dev;
};

static struct make read_make(const struct call *c)
{
	uint64_t a[5];

	for (unsigned int i = 0; i < 5; i++)
		a[i] = call_arg(c, i);
	switch (call_nr(c)) {
#ifdef SYS_mkdir
	case SYS_mkdir:
		return (struct make){ .kind = KIND_DIR,
				      .dirfd = AT_FDCWD,
				      .path = a[0],
				      .mode = (mode_t)a[1] };
	case SYS_mknod:
		return (struct make){ .kind = KIND_NODE,
				      .dirfd = AT_FDCWD,
				      .path = a[0],
				      .mode = (mode_t)a[1],
				      .dev = (dev_t)(unsigned int)a[2] };
	case SYS_symlink:
		return (struct make){ .kind = KIND_LINK,
				      .dirfd = AT_FDCWD,
				      .path = a[1],
				      .target = a[0] };
#endif
	case SYS_mkdirat:
		return (struct make){ .kind = KIND_DIR,
				      .dirfd = (int)a[0],
				      .path = a[1],
				      .mode = (mode_t)a[2] };
	case SYS_mknodat:
		return (struct make){ .kind = KIND_NODE,
				      .dirfd = (int)a[0],
				      .path = a[1],
				      .mode = (mode_t)a[2],
				      .dev = (dev_t)(unsigned int)a[3] };
	default:
		return (struct make){ .kind = KIND_LINK,
				      .dirfd = (int)a[1],
				      .path = a[2],
				      .target = a[0] };
	}
}

static int make_link(struct call *c, const struct make *k,
		     const struct cow_place *p)
{
	char target[PATH_MAX];
	int r = call_read_string(c, k->target, target, sizeof(target));

	return r < 0 ? r : merged_symlink(p->root->merged, target, p->at.path);
}

static int make(struct call *c, const struct make *k, const struct cow_place *p)
{
	struct merged_mode mode = { .mode = k->mode };
	int r;

	if (p->at.exists)
		return -EEXIST;
	if (k->kind != KIND_DIR && p->at.wants_dir)
		return -ENOENT;
	if (k->kind == KIND_LINK)
		return make_link(c, k, p);
	r = cow_umask(c, &mode.umask);
	if (r < 0)
		return r;
	return k->kind == KIND_DIR
		       ? merged_mkdir(p->root->merged, p->at.path, mode)
		       : merged_mknod(p->root->merged, p->at.path, mode,
				      k->dev);
}

struct outcome cow_make(struct cow *w, struct call *c)
{
	const struct make k = read_make(c);
	struct cow_place p;
	int r = cow_find(w, c, k.dirfd, k.path, 0, &p);

	if (r == 0 && !p.root)
		return OUTCOME_GO;
	return cow_outcome(r < 0 ? r : make(c, &k, &p));
}

/* ------------------------------------------------------------ removing -- */

static int remove_name(const struct cow_place *p, bool dir)
{
	if (path_ends_in_dots(p->text)) {
		size_t n = strlen(p->text);

		if (!dir)
			return -EISDIR;
		while (n > 1 && p->text[n - 1] == '/')
			n--;
		if (n > 1 && p->text[n - 1] == '.' && p->text[n - 2] == '.')
			return -ENOTEMPTY;
		return *p->text == '/' && n == 1 ? -EBUSY : -EINVAL;
	}
	return dir ? merged_rmdir(p->root->merged, p->at.path)
		   : merged_unlink(p->root->merged, p->at.path);
}

struct outcome cow_remove(struct cow *w, struct call *c)
{
	int dirfd = AT_FDCWD, nr = call_nr(c), r;
	unsigned int i = 0;
	struct cow_place p;
	bool dir = false;

	if (nr == SYS_unlinkat) {
		if (call_arg(c, 2) & ~(uint64_t)AT_REMOVEDIR)
			return OUTCOME_GO;
		dirfd = (int)call_arg(c, 0);
		dir = call_arg(c, 2) & AT_REMOVEDIR;
		i = 1;
	}
#ifdef SYS_rmdir
	dir = dir || nr == SYS_rmdir;
#endif
	r = cow_find(w, c, dirfd, call_arg(c, i), 0, &p);
	if (r == 0 && !p.root)
		return OUTCOME_GO;
	return cow_outcome(r < 0 ? r : remove_name(&p, dir));
}

/* -------------------------------------------------------------- moving -- */

/* Another branch lies in it. */
static bool holds_branch(const struct cow *w, const struct cow_place *p)
{
	char real[PATH_MAX];

	if (cow_inside_path(p, real) < 0)
		return true;
	for (size_t i = 0; i < w->n; i++)
		if (&w->roots[i] != p->root &&
		    path_is_under(w->roots[i].lower, real))
			return true;
	return false;
}

struct outcome cow_rename(struct cow *w, struct call *c)
{
	int from_fd = (int)call_arg(c, 0), to_fd = (int)call_arg(c, 2);
	uint64_t from = call_arg(c, 1), to = call_arg(c, 3);
	unsigned int flags = 0;
	struct cow_place p, q;
	int r, s;

	if (call_nr(c) == SYS_renameat2)
		flags = (unsigned int)call_arg(c, 4);
#ifdef SYS_rename
	if (call_nr(c) == SYS_rename) {
		from_fd = to_fd = AT_FDCWD;
		from = call_arg(c, 0);
		to = call_arg(c, 1);
	}
#endif
	if (!merged_may_rename_so(flags))
		return OUTCOME_FAIL(EINVAL);
	r = cow_find(w, c, from_fd, from, 0, &p);
	s = r < 0 ? r : cow_find(w, c, to_fd, to, 0, &q);
	if (s < 0)
		return OUTCOME_FAIL(-s);
	if (!p.root && !q.root)
		return OUTCOME_GO;
	if (p.root != q.root)
		return OUTCOME_FAIL(EXDEV);
	if (path_ends_in_dots(p.text) || path_ends_in_dots(q.text))
		return OUTCOME_FAIL(EBUSY);
	if (!p.at.exists)
		return OUTCOME_FAIL(ENOENT);
	if ((p.at.wants_dir || q.at.wants_dir) && !S_ISDIR(p.at.mode))
		return OUTCOME_FAIL(ENOTDIR);
	if (holds_branch(w, &p) || holds_branch(w, &q))
		return OUTCOME_FAIL(EBUSY);
	r = cow_check_within(w, c, &p);
	if (r == 0 && (flags & RENAME_EXCHANGE))
		r = cow_check_within(w, c, &q);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	return cow_outcome(
		merged_rename(p.root->merged, p.at.path, q.at.path, flags));
}

/*
 * The number of the fd that the caller wants to link, by itself or as
 * /proc/self/fd/N; -1: it names a file.
 */
static int linked_fd(int dirfd, const char *text, int flags)
{
	int fd, end = 0;

	if (!*text && (flags & AT_EMPTY_PATH))
		return dirfd;
	if ((flags & AT_SYMLINK_FOLLOW) &&
	    sscanf(text, "/proc/self/fd/%d%n", &fd, &end) == 1 && !text[end])
		return fd;
	return -1;
}

/* A file of the lower stands for its path, as long as it is there. */
static int link_lower(struct cow *w, struct call *c, const char *path,
		      const struct stat *st, const struct cow_place *to)
{
	auto_free struct cow_place *p = calloc(1, sizeof(*p));
	auto_close int fd = -1;
	struct stat now;
	int r = p ? cow_find_text(w, c, "/", path, 0, p) : -ENOMEM;

	if (r < 0)
		return r;
	if (p->root != to->root || !p->at.exists)
		return -EXDEV;
	r = merged_find(p->root->merged, p->at.path, &fd);
	if (r == 0 && (fstat(fd, &now) < 0 || now.st_ino != st->st_ino ||
		       now.st_dev != st->st_dev))
		r = -EXDEV;
	return r < 0 ? r
		     : merged_link(p->root->merged, p->at.path, to->at.path);
}

/*
 * The lower's files must not get a name by an fd. A number of the caller's is
 * another file a moment later: judged is the very fd that is used.
 */
static int link_fd(struct cow *w, struct call *c, int number,
		   const struct cow_place *to)
{
	auto_close int fd = call_open_dirfd(c, number);
	char base[PATH_MAX];
	size_t n = strlen(to->root->upper);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	r = fstat(fd, &st) < 0 ? -errno : fd_path(fd, base);
	if (r == 0 && S_ISDIR(st.st_mode))
		r = -EPERM;
	if (r < 0)
		return r;
	if (strncmp(base, to->root->upper, n) != 0 || base[n] != '/')
		return link_lower(w, c, base, &st, to);
	return merged_link_fd(to->root->merged, fd, to->at.path);
}

static struct outcome link_names(struct cow *w, struct call *c, int from_fd,
				 uint64_t from, int flags, int to_fd,
				 uint64_t to)
{
	struct cow_place p, q;
	int number, s, r;

	if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return OUTCOME_FAIL(EINVAL);
	r = cow_find(w, c, from_fd, from,
		     (flags & AT_SYMLINK_FOLLOW ? COW_FOLLOW : 0) |
			     (flags & AT_EMPTY_PATH ? COW_EMPTY : 0),
		     &p);

	number = r == -EFAULT || r == -ESRCH ||
				 r == -OUTCOME_ALWAYS_RESTART_ERRNO
			 ? -1
			 : linked_fd(from_fd, p.text, flags);
	if (r == 0 && number < 0)
		number = p.unnamed_fd;
	if (r < 0 && number < 0)
		return OUTCOME_FAIL(-r);
	if (number < 0 && p.root && !p.at.exists)
		return OUTCOME_FAIL(ENOENT);
	s = cow_find(w, c, to_fd, to, 0, &q);
	if (s < 0)
		return OUTCOME_FAIL(-s);
	if (!q.root && (!p.root || number >= 0))
		return OUTCOME_GO;
	if (q.root && q.at.exists)
		return OUTCOME_FAIL(EEXIST);
	if (q.root && q.at.wants_dir)
		return OUTCOME_FAIL(ENOENT);
	if (q.root && number >= 0)
		return cow_outcome(link_fd(w, c, number, &q));
	if (p.root != q.root)
		return OUTCOME_FAIL(EXDEV);
	return cow_outcome(merged_link(p.root->merged, p.at.path, q.at.path));
}

struct outcome cow_link(struct cow *w, struct call *c)
{
#ifdef SYS_link
	if (call_nr(c) == SYS_link)
		return link_names(w, c, AT_FDCWD, call_arg(c, 0), 0, AT_FDCWD,
				  call_arg(c, 1));
#endif
	return link_names(w, c, (int)call_arg(c, 0), call_arg(c, 1),
			  (int)call_arg(c, 4), (int)call_arg(c, 2),
			  call_arg(c, 3));
}

/* ---------------------------------------------------------- truncating -- */

static int truncate_at(const struct cow_place *p, int64_t length)
{
	auto_close int fd = -1;
	int r;

	if (!p->at.exists)
		return -ENOENT;
	if (S_ISDIR(p->at.mode))
		return -EISDIR;
	if (!S_ISREG(p->at.mode) || length < 0)
		return -EINVAL;
	r = merged_open(p->root->merged, p->at.path,
			O_WRONLY | O_NONBLOCK | (length ? 0 : O_TRUNC), 0, &fd);
	if (r == 0 && length && ftruncate(fd, length) < 0)
		r = -errno;
	return r;
}

static struct outcome truncate_outside(const struct cow *w, struct call *c,
				       const struct cow_place *p)
{
	auto_close int fd = cow_open_unnamed(w, c, p, O_WRONLY);

	if (fd == -EAGAIN)
		return OUTCOME_GO;
	return cow_outcome(fd < 0				      ? fd
			   : ftruncate(fd, (off_t)call_arg(c, 1)) < 0 ? -errno
								      : 0);
}

struct outcome cow_truncate(struct cow *w, struct call *c)
{
	struct cow_place p;
	int r = cow_find(w, c, AT_FDCWD, call_arg(c, 0), COW_FOLLOW, &p);

	if (r == 0 && !p.root)
		return truncate_outside(w, c, &p);
	if (r == 0)
		r = truncate_at(&p, (int64_t)call_arg(c, 1));
	return r == -EWOULDBLOCK ? cow_wait(c) : cow_outcome(r);
}
