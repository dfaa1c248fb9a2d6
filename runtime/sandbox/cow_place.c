/* What a path of the caller leads to: in a branch, or not. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "kernel/caps.h"
#include "sandbox/cow_internal.h"

enum { WAYS_MAX = 40, WITHIN = COW_BENEATH | COW_IN_ROOT | COW_STAY };

/* A way through the tree of the host, until it enters a branch. */
struct way {
	struct cow *w;
	struct call *c;
	char at[PATH_MAX];   /* where it is, without links; "" is the root */
	char todo[PATH_MAX]; /* behind it */
	unsigned int links;
	unsigned int flags; /* enum cow_flag */
	int unnamed_fd;
	const struct cow_root *root; /* that it has entered, */
	size_t part;		     /* there, */
	const char *rel;	     /* and where in it; in at */
};

static bool is_lower(const struct way *y)
{
	return y->part > y->root->n_layers;
}

static const char *below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (strncmp(path, dir, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return path[n] ? path + n + 1 : path + n;
}

const char *cow_part(const struct cow_root *root, size_t which)
{
	if (which == 0)
		return root->upper;
	if (which <= root->n_layers)
		return root->layers[which - 1];
	return which == root->n_layers + 1 ? root->lower : NULL;
}

/* What @path is in one of those that only we write to, or NULL. */
static const char *below_upper(const struct cow_root *root, const char *path,
			       size_t *ret_part)
{
	for (size_t i = 0; i <= root->n_layers; i++) {
		const char *rel = below(path, cow_part(root, i));

		if (rel) {
			*ret_part = i;
			return rel;
		}
	}
	return NULL;
}

/* The deepest: one may be in another. */
static bool enters(struct way *y)
{
	const struct cow *w = y->w;
	size_t best = 0;

	y->root = NULL;
	for (size_t i = 0; i < w->n; i++) {
		const struct cow_root *root = &w->roots[i];
		const char *lower = below(y->at, root->lower);
		const char *upper = below_upper(root, y->at, &y->part);
		size_t n = strlen(root->lower);

		if (upper) {
			y->root = root;
			y->rel = upper;
			return true;
		}
		if (!lower || (y->root && n <= best))
			continue;
		best = n;
		y->root = root;
		y->rel = lower;
	}
	if (y->root)
		y->part = y->root->n_layers + 1;
	return y->root;
}

static int put(char ret[PATH_MAX], const char *a, const char *b)
{
	int n = snprintf(ret, PATH_MAX, "%s%s%s", a, *b && *b != '/' ? "/" : "",
			 b);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Without a link on the way it is what it says. */
static bool is_plain(const char *whole, bool follow, bool *ret_exists)
{
	int fd = fd_openat2(AT_FDCWD, whole, O_PATH | (follow ? 0 : O_NOFOLLOW),
			    0, RESOLVE_NO_SYMLINKS);

	*ret_exists = fd >= 0;
	if (fd >= 0)
		(void)close(fd);
	return fd >= 0 || fd == -ENOENT;
}

/* What the caller's own links in procfs are called. */
static int own_link(const struct way *y, const char *name, char ret[PATH_MAX])
{
	if (strcmp(y->at, "/proc") != 0)
		return 0;
	if (strcmp(name, "self") == 0)
		(void)snprintf(ret, PATH_MAX, "%d", (int)call_tgid(y->c));
	else if (strcmp(name, "thread-self") == 0)
		(void)snprintf(ret, PATH_MAX, "%d/task/%d",
			       (int)call_tgid(y->c), (int)call_tid(y->c));
	else
		return 0;
	return 1;
}

/* 1: @name is a link, and says @ret; 0: it is none, or is not there. */
static int read_link(const struct way *y, const char *name, char ret[PATH_MAX])
{
	char path[PATH_MAX];
	int r = own_link(y, name, ret);

	if (r)
		return r;
	r = put(path, y->at, name);
	if (r < 0)
		return r;
	r = fd_read_link(AT_FDCWD, path, ret);
	if (r == -ENAMETOOLONG)
		return r;
	return r == 0;
}

static int follow_link(struct way *y, const char *target)
{
	char rest[PATH_MAX];

	if (y->flags & COW_NO_LINKS)
		return -ELOOP;
	if (++y->links > WAYS_MAX)
		return -ELOOP;
	path_copy(rest, y->todo);
	if (*target == '/')
		*y->at = '\0';
	return put(y->todo, target, rest);
}

/* "/proc/PID/fd" or "/proc/PID/task/TID/fd" of the caller itself. */
static bool is_own_fds(const struct way *y)
{
	int pid, tid, end = 0;

	if (sscanf(y->at, "/proc/%d/fd%n", &pid, &end) != 1 || !end) {
		end = 0;
		if (sscanf(y->at, "/proc/%d/task/%d/fd%n", &pid, &tid, &end) !=
			    2 ||
		    !end || tid != (int)call_tid(y->c))
			return false;
	}
	return !y->at[end] && pid == (int)call_tgid(y->c);
}

/*
 * What it says is the path that the file had, followed by this. A file that is
 * called so has a name.
 */
static bool is_unnamed(const char *target)
{
	static const char mark[] = " (deleted)";
	size_t n = strlen(target);
	struct stat st;

	return n > sizeof(mark) &&
	       strcmp(target + n - (sizeof(mark) - 1), mark) == 0 &&
	       lstat(target, &st) < 0;
}

/* One component; 1 at the end, outside. */
static int step(struct way *y)
{
	char name[NAME_MAX + 1], target[PATH_MAX];
	const char *from = y->todo + strspn(y->todo, "/");
	size_t n = strcspn(from, "/");
	bool is_last = !from[n];
	char *slash;
	int r;

	if (n == 0)
		return 1;
	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, from, n);
	name[n] = '\0';
	memmove(y->todo, from + n, strlen(from + n) + 1);
	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		slash = strrchr(y->at, '/');
		*(slash ? slash : y->at) = '\0';
		return 0;
	}
	r = is_last && !(y->flags & COW_FOLLOW) ? 0
						: read_link(y, name, target);
	if (r > 0 && is_last && is_own_fds(y) && is_unnamed(target)) {
		y->unnamed_fd = (int)strtol(name, NULL, 10);
		r = 0;
	}
	if (r > 0)
		return follow_link(y, target);
	if (r < 0)
		return r;
	if (put(target, y->at, name) < 0)
		return -ENAMETOOLONG;
	path_copy(y->at, target);
	return 0;
}

static int walk(struct way *y)
{
	int r = 0;

	while (r == 0 && !enters(y))
		r = step(y);
	return r < 0 ? r : 0;
}

/* The way to the store may lead through a lower. */
static bool enters_upper(struct way *y, const char *plain)
{
	for (size_t i = 0; i < y->w->n; i++) {
		const struct cow_root *root = &y->w->roots[i];
		size_t part;
		const char *rel = below_upper(root, plain, &part);

		if (!rel)
			continue;
		path_copy(y->at, cow_part(root, part));
		path_copy(y->todo, rel);
		return enters(y);
	}
	return false;
}

/* Most ways go nowhere near a branch, and meet no link. */
static int begin(struct way *y, const char *base, const char *text)
{
	char whole[PATH_MAX];
	auto_free char *plain = NULL;
	bool exists;
	int r;

	if (*text == '/' && !(y->flags & COW_IN_ROOT)) {
		*y->at = '\0';
		r = put(whole, "", text);
	} else {
		path_copy(y->at, strcmp(base, "/") == 0 ? "" : base);
		r = put(whole, y->at, text);
	}
	if (r < 0)
		return r;
	path_copy(y->todo, text);
	if (enters(y))
		return 0;
	if (!is_plain(*whole ? whole : "/", y->flags & COW_FOLLOW, &exists))
		return walk(y);
	plain = path_normalize(whole);
	if (!plain)
		return -ENOMEM;
	if (enters_upper(y, plain))
		return 0;
	for (size_t i = 0; i < y->w->n; i++)
		if (below(plain, y->w->roots[i].lower))
			return walk(y);
	path_copy(y->at, strcmp(plain, "/") == 0 ? "" : plain);
	*y->todo = '\0';
	return 0;
}

/* From where a branch was entered; 1: it was left again. */
static int go_inside(struct way *y, struct cow_place *ret)
{
	auto_free char *rel = strdup(y->rel);
	const struct merged_place *at = &ret->at;
	bool was_real = ret->is_as_it_is;
	unsigned int flags = (y->flags & COW_FOLLOW ? MERGED_FOLLOW : 0) |
			     (y->flags & COW_NO_LINKS ? MERGED_NO_LINKS : 0) |
			     (y->flags & COW_BENEATH ? MERGED_BENEATH : 0) |
			     (y->flags & COW_IN_ROOT ? MERGED_IN_ROOT : 0);
	int r = rel ? merged_resolve(y->root->merged, rel, y->part, y->todo,
				     flags, &ret->at)
		    : -ENOMEM;

	if (r < 0)
		return r;
	if (at->is_outside && (y->flags & WITHIN))
		return -EOPNOTSUPP;
	ret->is_as_it_is = was_real && at->is_real;
	if (!at->is_outside) {
		ret->root = y->root;
		ret->is_home_dir = was_real && at->is_real_home;
		return 0;
	}
	/* Into another branch, which lies in this one. */
	if (at->is_stop) {
		path_copy(y->todo, at->rest);
		r = put(y->at, y->root->lower, at->path);
		if (r == 0)
			r = walk(y);
		return r < 0 ? r : 1;
	}
	/* ".." of upper leads to the store. */
	if (*at->rest != '/' && !is_lower(y))
		ret->is_as_it_is = false;
	if (++y->links > WAYS_MAX)
		return -ELOOP;
	path_copy(y->todo, at->rest);
	if (*at->rest == '/')
		*y->at = '\0';
	else if (strlen(y->root->lower) < sizeof(y->at))
		path_copy(y->at, y->root->lower);
	/* The lower itself would be entered at once. */
	if (*at->rest != '/') {
		char *slash = strrchr(y->at, '/');

		*(slash ? slash : y->at) = '\0';
		memmove(y->todo, y->todo + 2, strlen(y->todo + 2) + 1);
	}
	r = walk(y);
	return r < 0 ? r : 1;
}

static bool began_inside(const struct way *y, const char *base)
{
	size_t part;

	return below(base, y->root->lower) || below_upper(y->root, base, &part);
}

int cow_find_text(struct cow *w, struct call *c, const char *base,
		  const char *text, unsigned int flags, struct cow_place *ret)
{
	auto_free struct way *y = calloc(1, sizeof(*y));
	int r;

	if (!y)
		return -ENOMEM;
	*y = (struct way){ .w = w, .c = c, .flags = flags, .unnamed_fd = -1 };
	ret->root = NULL;
	ret->unnamed_fd = -1;
	ret->is_as_it_is = true;
	ret->is_home_dir = false;
	r = begin(y, base, text);
	ret->is_unsure = (flags & WITHIN) && y->root && !began_inside(y, base);
	if (ret->is_unsure)
		y->flags &= ~(unsigned int)WITHIN;
	do {
		if (r < 0 || !y->root)
			break;
		r = go_inside(y, ret);
	} while (r > 0);
	if (r < 0)
		return r;
	ret->unnamed_fd = y->unnamed_fd;
	if (!ret->root)
		return put(ret->outside, y->at, y->todo);
	return flags & COW_LOOK ? 0 : cow_check(w, c, ret);
}

int cow_base(struct call *c, int dirfd, char ret[PATH_MAX])
{
	char link[64];
	uint64_t was = 0;
	int r;

	if (dirfd == AT_FDCWD)
		(void)snprintf(link, sizeof(link), "/proc/%d/cwd",
			       (int)call_tid(c));
	else if (dirfd < 0)
		return -EBADF;
	else
		(void)snprintf(link, sizeof(link), "/proc/%d/fd/%d",
			       (int)call_tid(c), dirfd);
	/* Of who has changed its ids they are root's. */
	r = caps_begin_all(&was);
	if (r == 0) {
		r = fd_read_link(AT_FDCWD, link, ret);
		caps_end_all(was);
	}
	if (!call_is_valid(c))
		return -ESRCH;
	return r == -ENOENT ? -EBADF : r;
}

static bool is_in_branch(const struct cow *w, int fd)
{
	struct stat st, top;

	if (fstat(fd, &st) < 0)
		return true;
	for (size_t i = 0; i < w->n; i++)
		for (size_t k = 0; cow_part(&w->roots[i], k); k++)
			if (stat(cow_part(&w->roots[i], k), &top) == 0 &&
			    top.st_ino == st.st_ino && top.st_dev == st.st_dev)
				return true;
	return false;
}

/*
 * From a directory so deep that paths are too long to be told the kernel finds
 * its way, if it is in no branch: -EBADF, as from what is no directory.
 */
static int find_deep(const struct cow *w, struct call *c, int dirfd)
{
	auto_close int fd = call_open_dirfd(c, dirfd);
	struct stat st, above;

	while (fd >= 0 && !is_in_branch(w, fd) && fstat(fd, &st) == 0) {
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		(void)close(fd);
		fd = up;
		if (fd >= 0 && fstat(fd, &above) == 0 &&
		    above.st_ino == st.st_ino && above.st_dev == st.st_dev)
			return -EBADF;
	}
	return -ENAMETOOLONG;
}

/* A directory that was removed is there as long as somebody is in it. */
static bool is_lost(struct call *c, int dirfd, const char *base,
		    const char *text)
{
	auto_close int fd = -1;
	struct stat st;

	if (text[strspn(text, "./")] || strstr(text, "..") || !is_unnamed(base))
		return false;
	fd = call_open_dirfd(c, dirfd);
	return fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/*
 * What is no path (a pipe), or has none any more, is outside. Of a directory
 * fd the kernel says what is wrong with it.
 */
static int find_from(struct cow *w, struct call *c, int dirfd,
		     unsigned int flags, struct cow_place *ret)
{
	bool is_whole = *ret->text == '/' && !(flags & COW_IN_ROOT);
	char base[PATH_MAX] = "/";
	int r = is_whole ? 0 : cow_base(c, dirfd, base);

	if (r == 0 && !is_whole && is_lost(c, dirfd, base, ret->text))
		r = -EBADF;
	else if (r == 0 && *base == '/')
		r = cow_find_text(w, c, base, ret->text, flags, ret);
	else if (r == 0)
		r = -EBADF;
	if (r == -ENAMETOOLONG && !is_whole)
		r = find_deep(w, c, dirfd);
	if (r != -EBADF)
		return r;
	ret->root = NULL;
	*ret->outside = '\0';
	return 0;
}

/*
 * The way out of the branch goes through something that the kernel does not
 * see: a link of upper, or its "..". The caller goes where we got to.
 */
static int go_there(struct call *c, uint64_t addr, const struct cow_place *p)
{
	struct redirect to = { .path = p->outside, .is_anew = true };

	while (to.arg < 4 && call_arg(c, to.arg) != addr)
		to.arg++;
	/* What openat2 is told about links would be lost. */
	if (to.arg == 4 || call_nr(c) == SYS_openat2)
		return -EOPNOTSUPP;
	if (call_nr(c) == SYS_execveat)
		to.arg = 0;
	return (int)-redirect_call(c, &to).error;
}

int cow_find_said(struct cow *w, struct call *c, int dirfd, uint64_t addr,
		  unsigned int flags, struct cow_place *ret)
{
	int r;

	ret->root = NULL;
	ret->unnamed_fd = -1;
	*ret->outside = '\0';
	if (!*ret->text)
		return flags & COW_EMPTY ? 0 : -ENOENT;
	ret->is_as_it_is = true;
	r = find_from(w, c, dirfd, flags, ret);
	if (r == 0 && !ret->root && !(flags & COW_LOOK))
		r = cow_check_outside(w, c, ret);
	if (r < 0 || ret->root || ret->is_as_it_is || !*ret->outside)
		return r;
	return addr ? go_there(c, addr, ret) : -ESTALE;
}

int cow_find(struct cow *w, struct call *c, int dirfd, uint64_t addr,
	     unsigned int flags, struct cow_place *ret)
{
	int r = call_read_string(c, addr, ret->text, sizeof(ret->text));

	return r < 0 ? r : cow_find_said(w, c, dirfd, addr, flags, ret);
}

int cow_find_fd(struct cow *w, struct call *c, int fd, struct cow_place *ret)
{
	char base[PATH_MAX];
	int r = cow_base(c, fd, base);

	*ret->text = *ret->outside = '\0';
	ret->root = NULL;
	ret->unnamed_fd = -1;
	/* A pipe, or the like. */
	if (r < 0 || *base != '/')
		return r;
	return cow_find_text(w, c, "/", base, 0, ret);
}

int cow_real_path(const struct cow_place *p, char ret[PATH_MAX])
{
	return put(ret, cow_part(p->root, p->at.home), p->at.path);
}

int cow_may(const struct cow_place *p, int how)
{
	auto_close int fd = -1;
	int r;

	if (!p->root || !p->at.has_parts)
		return 0;
	r = merged_find(p->root->merged, p->at.path, &fd);
	if (r == 0 && syscall(SYS_faccessat2, fd, "", how,
			      AT_EMPTY_PATH | AT_EACCESS) < 0)
		r = -errno;
	return r;
}

int cow_inside_path(const struct cow_place *p, char ret[PATH_MAX])
{
	return put(ret, p->root->lower, p->at.path);
}

bool cow_shown_path(const struct cow *w, const char *real, char ret[PATH_MAX])
{
	for (size_t i = 0; i < w->n; i++) {
		size_t part;
		const char *rel = below_upper(&w->roots[i], real, &part);

		if (rel)
			return put(ret, w->roots[i].lower, rel) == 0;
	}
	return false;
}
