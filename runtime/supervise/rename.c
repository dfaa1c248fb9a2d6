#include "supervise/rename.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "supervise/denials.h"
#include "supervise/deputy.h"

struct renames {
	const struct rename_branch *branches;
	size_t n;
	pid_t init;
	struct denials *denials;
	pthread_mutex_t lock; /* one directory at a time */
};

struct renames *renames_new(const struct rename_branch *branches, size_t n,
			    pid_t init, struct denials *denials)
{
	struct renames *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct renames){
		.branches = branches, .n = n, .init = init, .denials = denials
	};
	if (pthread_mutex_init(&r->lock, NULL)) {
		free(r);
		return NULL;
	}
	return r;
}

void renames_free(struct renames *r)
{
	if (!r)
		return;
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}

/* ------------------------------------------------------------- the call -- */

struct side {
	int dirfd;
	uint64_t addr;
	char path[PATH_MAX];
};

struct request {
	struct side from, to;
	unsigned int flags;
};

static void read_args(const struct call *c, struct request *q)
{
	q->flags = 0;
	if (call_nr(c) == SYS_renameat2)
		q->flags = (unsigned int)call_arg(c, 4);
#ifdef SYS_rename
	if (call_nr(c) == SYS_rename) {
		q->from.dirfd = q->to.dirfd = AT_FDCWD;
		q->from.addr = call_arg(c, 0);
		q->to.addr = call_arg(c, 1);
		return;
	}
#endif
	q->from.dirfd = (int)call_arg(c, 0);
	q->from.addr = call_arg(c, 1);
	q->to.dirfd = (int)call_arg(c, 2);
	q->to.addr = call_arg(c, 3);
}

/*
 * Opens @path as the caller's kernel would find it. An absolute link on the
 * way has to start at the caller's root, so what meets one starts there, too.
 */
static int open_as(struct call *c, int dirfd, const char *path, int flags)
{
	auto_close int base_fd = -1;
	auto_close int root_fd = -1;
	auto_free char *whole = NULL;
	char base[PATH_MAX];
	int r;

	if (path[0] != '/') {
		base_fd = call_open_dirfd(c, dirfd);
		if (base_fd < 0)
			return base_fd;
		r = fd_openat2(base_fd, path, flags | O_NOFOLLOW, 0,
			       RESOLVE_NO_SYMLINKS);
		if (r != -ELOOP)
			return r;
		r = fd_path(base_fd, base);
		if (r < 0)
			return r;
		whole = path_join(base, path);
		if (!whole)
			return -ENOMEM;
		path = whole;
	}
	root_fd = call_open_root(c);
	if (root_fd < 0)
		return root_fd;
	return fd_open_in_root(root_fd, path, flags | O_NOFOLLOW, 0);
}

static bool is_dots(const char *name)
{
	return !name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ------------------------------------------------- what is to be renamed -- */

/* A directory of a branch that the kernel will not rename. */
struct stuck {
	const struct rename_branch *branch; /* NULL: none of ours */
	int parent_fd;
	char whole[PATH_MAX];
	const char *path; /* relative to the branch */
	const char *name;
};
#define STUCK_INIT              \
	{                       \
		.parent_fd = -1 \
	}

static void stuck_done(struct stuck *s)
{
	cleanup_close(&s->parent_fd);
}

static const struct rename_branch *find_branch(const struct renames *r,
					       const char *path)
{
	const struct rename_branch *best = NULL;

	/* The deepest: one may be mounted within another. */
	for (size_t i = 0; i < r->n; i++) {
		const struct rename_branch *b = &r->branches[i];

		if (path_is_under(path, b->path) &&
		    strcmp(path, b->path) != 0 &&
		    (!best || path_is_under(b->path, best->path)))
			best = b;
	}
	return best;
}

static bool is_same(int dirfd, const char *name, int fd)
{
	struct stat a, b;

	return fstatat(dirfd, name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &b) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

static bool same_mount(int a, int b)
{
	struct statx x, y;

	return statx(a, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) == 0 &&
	       statx(b, "", AT_EMPTY_PATH, STATX_MNT_ID, &y) == 0 &&
	       x.stx_mnt_id == y.stx_mnt_id;
}

/* Another overlay may be mounted below it. */
static bool is_on_branch(struct call *c, const struct rename_branch *b,
			 int dir_fd)
{
	auto_close int root_fd = call_open_root(c);
	auto_close int top_fd =
		root_fd < 0 ? -1
			    : fd_open_in_root(root_fd, b->path,
					      O_PATH | O_DIRECTORY, 0);

	return top_fd >= 0 && same_mount(top_fd, dir_fd);
}

/* @ret->branch is set if the kernel would say EXDEV for this directory. */
static void examine(const struct renames *r, struct call *c, int dir_fd,
		    struct stuck *ret)
{
	const struct rename_branch *b;
	struct statfs sfs;

	if (fstatfs(dir_fd, &sfs) < 0 || sfs.f_type != OVERLAYFS_SUPER_MAGIC ||
	    fd_path(dir_fd, ret->whole) < 0)
		return;
	b = find_branch(r, ret->whole);
	if (!b || !is_on_branch(c, b, dir_fd))
		return;
	ret->path = ret->whole + strlen(b->path);
	ret->path += strspn(ret->path, "/");
	ret->name = strrchr(ret->whole, '/') + 1;
	ret->parent_fd = fd_openat2(dir_fd, "..", O_PATH | O_DIRECTORY, 0,
				    RESOLVE_NO_XDEV);
	if (ret->parent_fd >= 0 && is_same(ret->parent_fd, ret->name, dir_fd) &&
	    b->is_lower(b->data, ret->path))
		ret->branch = b;
}

/* Where it goes. */
struct target {
	int parent_fd;
	char name[NAME_MAX + 1];
};
#define TARGET_INIT             \
	{                       \
		.parent_fd = -1 \
	}

static void target_done(struct target *t)
{
	cleanup_close(&t->parent_fd);
}

/* A directory with something in it, which no rename replaces. */
static bool is_full(const struct target *t)
{
	int fd = openat(t->parent_fd, t->name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;

	if (!dir && fd >= 0)
		(void)close(fd);
	while (dir && n <= 2 && readdir(dir))
		n++;
	return n > 2;
}

static int open_target(struct call *c, struct side *s, struct target *t)
{
	size_t n = strlen(s->path);
	const char *name, *parent = ".";
	char *slash;

	while (n > 1 && s->path[n - 1] == '/')
		s->path[--n] = '\0';
	slash = strrchr(s->path, '/');
	name = slash ? slash + 1 : s->path;
	if (is_dots(name) || strlen(name) > NAME_MAX)
		return -EINVAL;
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	if (slash == s->path) {
		parent = "/";
	} else if (slash) {
		*slash = '\0';
		parent = s->path;
	}
	t->parent_fd = open_as(c, s->dirfd, parent, O_PATH | O_DIRECTORY);
	/* The parent itself may be a link. */
	if (t->parent_fd == -ELOOP || t->parent_fd == -ENOTDIR) {
		auto_free char *dot = path_join(parent, ".");

		t->parent_fd =
			dot ? open_as(c, s->dirfd, dot, O_PATH | O_DIRECTORY)
			    : -ENOMEM;
	}
	return t->parent_fd < 0 ? t->parent_fd : 0;
}

/* ------------------------------------------------------ in the helper -- */

/*
 * May the caller? RENAME_WHITEOUT is checked like any other rename, and then
 * refused by every overlay (EINVAL), so that nothing can come of it. Of an
 * exchange only the parents are looked at.
 */
static bool caller_may(const struct stuck *s, const struct target *t,
		       unsigned int flags)
{
	const int how = AT_EACCESS | AT_EMPTY_PATH;

	if (flags & RENAME_EXCHANGE)
		return faccessat(s->parent_fd, "", W_OK | X_OK, how) == 0 &&
		       faccessat(t->parent_fd, "", W_OK | X_OK, how) == 0;
	return renameat2(s->parent_fd, s->name, t->parent_fd, t->name,
			 RENAME_WHITEOUT) < 0 &&
	       errno == EINVAL;
}

struct work {
	const struct stuck *from, *to;
	const struct target *target;
	unsigned int flags;
};

static int make_movable(const struct stuck *s)
{
	return s->branch
		       ? s->branch->make_movable(s->branch->data, s->parent_fd,
						 s->name, s->path)
		       : 0;
}

static int work(void *data)
{
	const struct work *w = data;
	int r;

	/* The kernel says why not. */
	if (!caller_may(w->from, w->target, w->flags))
		return 0;
	if (!(w->flags & RENAME_EXCHANGE) && is_full(w->target))
		return -ENOTEMPTY;
	r = deputy_become_all_powerful();
	if (r == 0)
		r = make_movable(w->from);
	if (r == 0)
		r = make_movable(w->to);
	return r;
}

/* ------------------------------------------------------------- handler -- */

/* Is @path at or below @name of the directory @parent? */
static bool holds(const char *parent, const char *name, const char *path)
{
	auto_free char *whole = path_join(parent, name);

	return !whole || path_is_under(path, whole);
}

/* True if the kernel would refuse before it comes to what we can mend. */
static bool is_pointless(const struct request *q, const struct stuck *from,
			 const struct target *t)
{
	char to[PATH_MAX];
	struct stat st;
	bool exists;

	if (!same_mount(from->parent_fd, t->parent_fd))
		return true;
	/* Into itself. */
	if (fd_path(t->parent_fd, to) < 0 || path_is_under(to, from->whole))
		return true;
	exists = fstatat(t->parent_fd, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (q->flags & RENAME_EXCHANGE)
		return !exists || holds(to, t->name, from->whole);
	return exists &&
	       ((q->flags & RENAME_NOREPLACE) || !S_ISDIR(st.st_mode));
}

/* The directory that an exchange moves the other way. */
static void examine_target(const struct renames *r, struct call *c,
			   const struct target *t, struct stuck *ret)
{
	auto_close int fd =
		openat(t->parent_fd, t->name,
		       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		examine(r, c, fd, ret);
}

/* In an exchange the first of the two need not be a directory. */
static int examine_file(struct call *c, struct side *s, struct stuck *ret)
{
	auto_(target) struct target t = TARGET_INIT;
	int r = open_target(c, s, &t);
	size_t n;

	if (r == 0)
		r = fd_path(t.parent_fd, ret->whole);
	if (r < 0)
		return r;
	n = strlen(ret->whole);
	r = snprintf(ret->whole + n, sizeof(ret->whole) - n, "/%s", t.name);
	if ((size_t)r >= sizeof(ret->whole) - n)
		return -ENAMETOOLONG;
	ret->name = ret->whole + n + 1;
	ret->parent_fd = take_fd(&t.parent_fd);
	return 0;
}

static const char *why_not_moved(int error)
{
	switch (error) {
	case EXDEV:
		return "a directory of the lower is copied to be renamed, "
		       "which it cannot be: a mount lies in it, or it "
		       "changes meanwhile";
	case ENOSPC:
	case EDQUOT:
		return "a directory of the lower is copied to be renamed, and "
		       "there is no room for it";
	default:
		return "a directory of the lower is copied to be renamed, "
		       "which failed";
	}
}

/* What of it the caller has done wrong is no refusal of ours. */
static void record(const struct renames *r, struct call *c,
		   const struct stuck *s, int error)
{
	const struct denial d = { .code = "branch.rename",
				  .call = "rename",
				  .error = error,
				  .object = s->whole,
				  .rule = why_not_moved(error) };

	if (error != ENOTEMPTY)
		denials_add_call(r->denials, c, &d);
}

static struct outcome mend(struct renames *r, struct call *c, struct request *q,
			   struct stuck *from)
{
	auto_(stuck) struct stuck to = STUCK_INIT;
	auto_(target) struct target t = TARGET_INIT;
	struct work w = {
		.from = from, .to = &to, .target = &t, .flags = q->flags
	};
	const struct deputy d = {
		.tid = call_tid(c), .init = r->init, .work = work, .data = &w
	};
	int n = open_target(c, &q->to, &t);

	if (n < 0)
		return OUTCOME_GO;
	if (q->flags & RENAME_EXCHANGE)
		examine_target(r, c, &t, &to);
	if (!from->branch && !to.branch)
		return OUTCOME_GO;
	if (from->parent_fd < 0 && examine_file(c, &q->from, from) < 0)
		return OUTCOME_GO;
	if (is_pointless(q, from, &t) || !call_is_valid(c))
		return OUTCOME_GO;
	(void)pthread_mutex_lock(&r->lock);
	n = deputy_run(&d);
	(void)pthread_mutex_unlock(&r->lock);
	if (n < 0)
		record(r, c, from->branch ? from : &to, -n);
	return n == 0 || n == -EXDEV ? OUTCOME_GO : OUTCOME_FAIL(-n);
}

static struct outcome handle(struct call *c, void *data)
{
	auto_free struct request *q = malloc(sizeof(*q));
	auto_(stuck) struct stuck from = STUCK_INIT;
	auto_close int fd = -1;
	struct renames *r = data;

	if (!q)
		return OUTCOME_FAIL(ENOMEM);
	read_args(c, q);
	if (q->flags & ~(unsigned int)(RENAME_NOREPLACE | RENAME_EXCHANGE) ||
	    q->flags == (RENAME_NOREPLACE | RENAME_EXCHANGE) ||
	    call_read_string(c, q->from.addr, q->from.path, PATH_MAX) < 0 ||
	    path_ends_in_dots(q->from.path))
		return OUTCOME_GO;
	/* Nearly always it is a file: that is all we want to know of it. */
	fd = open_as(c, q->from.dirfd, q->from.path, O_PATH | O_DIRECTORY);
	if (fd >= 0)
		examine(r, c, fd, &from);
	if (!from.branch && !(q->flags & RENAME_EXCHANGE))
		return OUTCOME_GO;
	if (call_read_string(c, q->to.addr, q->to.path, PATH_MAX) < 0)
		return OUTCOME_GO;
	return mend(r, c, q, &from);
}

size_t renames_rows(struct renames *r, struct handler ret[RENAMES_ROWS])
{
	static const struct {
		const char *name;
		int nr;
	} calls[] = {
#ifdef SYS_rename
		{ "rename", SYS_rename },
#endif
#ifdef SYS_renameat
		{ "renameat", SYS_renameat },
#endif
		{ "renameat2", SYS_renameat2 },
	};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		ret[i] = (struct handler){
			.name = calls[i].name,
			.nr = calls[i].nr,
			.lane = LANE_LOCAL,
			.fn = handle,
			.data = r,
			.takes_32 = true,
		};
	return ARRAY_LEN(calls);
}
