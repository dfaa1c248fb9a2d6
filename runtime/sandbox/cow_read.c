/* Calls that look at what is in a branch, and open. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/cow_internal.h"
#include "supervise/open.h"

/* Where the path of a call is. */
struct where {
	int dirfd;
	uint64_t addr;
	unsigned int flags;
};

/* 1: it is the kernel's to do; 0: @p is ours; or a negative errno. */
static int look(struct cow *w, struct call *c, const struct where *at,
		struct cow_place *p)
{
	enum cow_sight sight;
	int r = cow_find(w, c, at->dirfd, at->addr, at->flags | COW_LOOK, p);

	if (r < 0)
		return r;
	sight = cow_sight(w, p);
	p->is_hidden = sight == COW_HIDDEN;
	if (sight == COW_NOTHING)
		return -ENOENT;
	if (p->root && !p->at.exists)
		return p->is_as_it_is ? 1 : -ENOENT;
	return (p->root && !p->is_as_it_is) || p->is_hidden ? 0 : 1;
}

/* The same, and an O_PATH fd of it. */
static int find_fd(struct cow *w, struct call *c, const struct where *at,
		   struct cow_place *p, int *ret_fd)
{
	int fd, r = look(w, c, at, p);

	if (r)
		return r;
	if (p->root)
		return merged_find(p->root->merged, p->at.path, ret_fd);
	fd = open(p->outside, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* What says more than that something is there. */
static int look_and_open(struct cow *w, struct call *c, const struct where *at,
			 struct cow_place *p, int *ret_fd)
{
	int r = find_fd(w, c, at, p, ret_fd);

	return r == 0 && p->is_hidden ? -EACCES : r;
}

static struct outcome finish(int r)
{
	return r > 0 ? OUTCOME_GO : cow_outcome(r);
}

/* --------------------------------------------------------------- opening -- */

enum { TRIES = 8 };

static bool follows(const struct open_how *how)
{
	return !(how->flags & O_NOFOLLOW) &&
	       (how->flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
}

int cow_open_unnamed(const struct cow *w, struct call *c,
		     const struct cow_place *p, int flags)
{
	auto_close int fd = -1;
	char real[PATH_MAX];
	struct stat st;
	int r;

	if (p->unnamed_fd < 0)
		return -EAGAIN;
	fd = call_open_dirfd(c, p->unnamed_fd);
	r = fd < 0 ? fd : fd_path(fd, real);
	if (r == 0)
		r = cow_is_uppers(w, real);
	if (r < 0)
		return r;
	if (r == 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EAGAIN;
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return -EEXIST;
	if ((flags & O_DIRECTORY) || !call_is_valid(c))
		return -ENOTDIR;
	return fd_reopen(fd, flags & ~(O_CREAT | O_PATH));
}

static void read_mode(struct call *c, struct open_how *how)
{
	switch (call_nr(c)) {
#ifdef SYS_open
	case SYS_open:
		how->mode = call_arg(c, 2);
		break;
	case SYS_creat:
		how->mode = call_arg(c, 1);
		break;
#endif
	case SYS_openat:
		how->mode = call_arg(c, 3);
		break;
	default:
		break;
	}
	how->mode &= 07777;
}

/* What is opened, and how. Where somebody was asked it is what was shown. */
struct opening {
	struct cow_place p;
	struct open_how how;
	bool is_shown;
	struct merged_id id; /* then */
};

static bool has_id(int fd, const struct merged_id *id)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == id->ino &&
	       st.st_dev == id->dev;
}

/* A FIFO of the lower leads to whoever has it open on the host: here it is
 * upper's. */
static struct outcome open_fifo(struct cow *w, struct call *c,
				const struct opening *x, int flags)
{
	const struct cow_place *p = &x->p;
	auto_close int fd = -1;
	int r;

	/* Of others, so that nobody would tell us of the other end. */
	if (merged_is_plain(p->root->merged))
		return OUTCOME_FAIL(EOPNOTSUPP);
	if (p->at.wants_dir || (flags & O_DIRECTORY))
		return OUTCOME_FAIL(ENOTDIR);
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return OUTCOME_FAIL(EEXIST);
	r = merged_copy_up(p->root->merged, p->at.path, &fd);
	if (r == 0 && x->is_shown && p->at.in_upper && !has_id(fd, &x->id))
		r = -ESTALE;
	return r < 0 ? OUTCOME_FAIL(-r)
		     : cow_fifo_open(w, c, fd, flags & ~O_CREAT);
}

/* Nothing else waits here either: not for a lease, nor for a carrier. */
static int open_now(const struct opening *x, int flags, struct merged_mode mode,
		    int *ret_fd)
{
	auto_close int fd = -1;
	struct stat st;
	int had, r = merged_open_that(x->p.root->merged, x->p.at.path,
				      x->is_shown ? &x->id : NULL,
				      flags | O_NONBLOCK, mode, &fd);

	/* It has become a FIFO since. */
	if (r == -ENXIO && !(flags & O_NONBLOCK) && S_ISREG(x->p.at.mode))
		return -ESTALE;
	if (r < 0)
		return r;
	if (!(flags & O_NONBLOCK)) {
		if (fstat(fd, &st) < 0 || S_ISFIFO(st.st_mode))
			return -ESTALE;
		had = fcntl(fd, F_GETFL);
		if (had < 0 || fcntl(fd, F_SETFL, had & ~O_NONBLOCK) < 0)
			return -errno;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static struct outcome open_at(struct cow *w, struct call *c,
			      const struct opening *x)
{
	const struct cow_place *p = &x->p;
	const struct open_how *how = &x->how;
	bool makes =
		(how->flags & O_CREAT) || (how->flags & O_TMPFILE) == O_TMPFILE;
	int flags = (int)how->flags, fd = -1;
	struct merged_mode mode = { .mode = (mode_t)how->mode };
	int r = makes ? cow_umask(c, &mode.umask) : 0;

	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (p->at.wants_dir && (how->flags & O_CREAT))
		return OUTCOME_FAIL(EISDIR);
	if ((how->flags & O_PATH) && S_ISLNK(p->at.mode))
		return OUTCOME_FAIL(EOPNOTSUPP);
	/* No such fd can be passed on. */
	if (flags & O_PATH)
		flags = (flags & ~(O_PATH | O_ACCMODE)) | O_RDONLY | O_NONBLOCK;
	if (p->at.exists && S_ISFIFO(p->at.mode))
		return open_fifo(w, c, x, flags);
	r = open_now(x, flags | (p->at.wants_dir ? O_DIRECTORY : 0) | O_NOCTTY,
		     mode, &fd);
	if (r == -EWOULDBLOCK && !(flags & O_NONBLOCK))
		return cow_wait(c);
	return r < 0 ? OUTCOME_FAIL(-r)
		     : OUTCOME_OPEN(fd, how->flags & O_CLOEXEC);
}

/*
 * Devices are the host's, as in a mount without them, and FIFOs are upper's.
 * A descriptor without rights is of neither, and we could not pass one on.
 */
static bool is_other_way(const struct cow_place *p, const struct open_how *how)
{
	mode_t mode = p->at.exists ? p->at.mode : 0;

	return (S_ISFIFO(mode) || S_ISCHR(mode) || S_ISBLK(mode)) &&
	       (!(how->flags & O_PATH) || merged_is_plain(p->root->merged));
}

/* Of a descriptor without rights Landlock says nothing. */
static bool is_kernels(const struct cow *w, const struct cow_place *p,
		       const struct open_how *how)
{
	if (open_is_write(how) ||
	    (!(how->flags & O_PATH) && cow_is_beside_denied(w, p)))
		return false;
	return (p->is_as_it_is && !is_other_way(p, how)) || p->is_home_dir;
}

/*
 * The names in "/" are no secret, and a Landlock rule to list it would go down
 * to all that there is.
 */
static struct outcome open_outside(const struct cow *w, struct call *c,
				   const struct cow_place *p,
				   const struct open_how *how)
{
	struct open_how shown;
	int fd;

	if (p->unnamed_fd >= 0 && !open_shown(c, &shown)) {
		fd = cow_open_unnamed(w, c, p, (int)how->flags);
		if (fd != -EAGAIN)
			return fd < 0 ? OUTCOME_FAIL(-fd)
				      : OUTCOME_OPEN(fd,
						     how->flags & O_CLOEXEC);
	}

	/* Landlock says nothing of it, and fstat asks nobody. */
	if ((how->flags & O_PATH) && cow_sight(w, p) != COW_SEEN)
		return OUTCOME_FAIL(EACCES);
	if (*p->text != '/' || *p->outside || open_is_write(how) ||
	    (how->flags & O_PATH) || how->resolve)
		return OUTCOME_GO;
	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? OUTCOME_GO : OUTCOME_OPEN(fd, how->flags & O_CLOEXEC);
}

static int take_shown(const struct call *c, struct opening *x)
{
	struct open_how how;
	const struct object *shown = open_shown(c, &how);

	if (!shown)
		return 0;
	x->is_shown = true;
	if (shown->exists)
		x->id = (struct merged_id){ shown->st.st_ino,
					    shown->st.st_dev };
	return cow_is_shown(&x->p, shown);
}

/* Another kind of link than these there is none of in a branch. */
static unsigned int within(const struct open_how *how)
{
	return (how->resolve & RESOLVE_NO_SYMLINKS ? COW_NO_LINKS : 0) |
	       (how->resolve & RESOLVE_BENEATH ? COW_BENEATH : 0) |
	       (how->resolve & RESOLVE_IN_ROOT ? COW_IN_ROOT : 0) |
	       (how->resolve & ~(uint64_t)RESOLVE_NO_SYMLINKS ? COW_STAY : 0);
}

/* The kernel looks at it before it looks at anything else. */
static int check_how(const struct opening *x)
{
	struct open_how how = x->how;

	if (syscall(SYS_openat2, -1, "none", &how, sizeof(how)) < 0 &&
	    errno != EBADF)
		return -errno;
	if ((how.resolve & RESOLVE_BENEATH) && *x->p.text == '/')
		return -EXDEV;
	/* Nothing is told of what is cached. */
	if (how.resolve & RESOLVE_CACHED)
		return -EAGAIN;
	return x->p.is_unsure ? -EOPNOTSUPP : 0;
}

static struct outcome open_once(struct cow *w, struct call *c)
{
	struct opening x = { .how.flags = 0 };
	struct outcome o;
	unsigned int i;
	int dirfd, r = open_call_read(c, &dirfd, &x.how, &i);

	/* The kernel refuses what we do not know. */
	if (r < 0)
		return OUTCOME_GO;
	(void)open_shown(c, &x.how);
	read_mode(c, &x.how);
	r = cow_find(w, c, dirfd, call_arg(c, i),
		     (follows(&x.how) ? COW_FOLLOW : 0) | within(&x.how), &x.p);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (!x.p.root)
		return open_outside(w, c, &x.p, &x.how);
	r = (x.how.flags & O_PATH) || open_is_write(&x.how)
		    ? 0
		    : cow_may(&x.p, R_OK);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (is_kernels(w, &x.p, &x.how))
		return OUTCOME_GO;
	r = call_nr(c) == SYS_openat2 ? check_how(&x) : 0;
	if (r == 0)
		r = take_shown(c, &x);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	o = open_at(w, c, &x);
	return x.is_shown && o.kind == OUTCOME_ERRNO && o.error == ESTALE
		       ? OUTCOME_FAIL(EPERM)
		       : o;
}

struct outcome cow_open(struct cow *w, struct call *c)
{
	struct outcome o;

	if (cow_fifo_is_waiting(c))
		return cow_fifo_again(w, c);
	/* What it was when we looked it may not be when we open it. */
	for (int i = 0; i < TRIES; i++) {
		o = open_once(w, c);
		if (o.kind != OUTCOME_ERRNO || o.error != ESTALE)
			break;
	}
	return o;
}

/* ---------------------------------------------------------------- status -- */

enum {
	STAT_FLAGS = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH |
		     AT_STATX_SYNC_TYPE
};

/* Of what is denied: a name, and whether it is a directory. */
static void hide(struct stat *st)
{
	*st = (struct stat){ .st_dev = st->st_dev,
			     .st_ino = st->st_ino,
			     .st_mode = st->st_mode & S_IFMT,
			     .st_nlink = 1,
			     .st_blksize = st->st_blksize };
}

static void hide_x(struct statx *st)
{
	*st = (struct statx){ .stx_mask = st->stx_mask,
			      .stx_dev_major = st->stx_dev_major,
			      .stx_dev_minor = st->stx_dev_minor,
			      .stx_ino = st->stx_ino,
			      .stx_mode = st->stx_mode & S_IFMT,
			      .stx_nlink = 1,
			      .stx_blksize = st->stx_blksize };
}

struct outcome cow_stat(struct cow *w, struct call *c)
{
	struct where at = { AT_FDCWD, call_arg(c, 0), COW_FOLLOW };
	uint64_t to = call_arg(c, 1);
	auto_close int fd = -1;
	struct cow_place p;
	struct stat st;
	int r;

	if (call_nr(c) == SYS_newfstatat) {
		unsigned int flags = (unsigned int)call_arg(c, 3);

		if (flags & ~(unsigned int)STAT_FLAGS)
			return OUTCOME_FAIL(EINVAL);
		at = (struct where){
			(int)call_arg(c, 0), call_arg(c, 1),
			(flags & AT_SYMLINK_NOFOLLOW ? 0 : COW_FOLLOW) |
				(flags & AT_EMPTY_PATH ? COW_EMPTY : 0)
		};
		to = call_arg(c, 2);
	}
#ifdef SYS_lstat
	if (call_nr(c) == SYS_lstat)
		at.flags = 0;
#endif
	r = find_fd(w, c, &at, &p, &fd);
	if (r == 0 && syscall(SYS_fstat, fd, &st) < 0)
		r = -errno;
	/* How many directories are in both is not known: as the overlay. */
	if (r == 0 && p.root && p.at.has_parts) {
		st.st_ino = p.at.ino;
		st.st_dev = p.at.dev;
		st.st_nlink = 1;
	}
	if (r == 0 && p.is_hidden)
		hide(&st);
	if (r == 0)
		r = call_write(c, to, &st, sizeof(st));
	return finish(r);
}

struct outcome cow_statx(struct cow *w, struct call *c)
{
	unsigned int flags = (unsigned int)call_arg(c, 2);
	struct where at = { (int)call_arg(c, 0), call_arg(c, 1),
			    (flags & AT_SYMLINK_NOFOLLOW ? 0 : COW_FOLLOW) |
				    (flags & AT_EMPTY_PATH ? COW_EMPTY : 0) };
	auto_close int fd = -1;
	struct cow_place p;
	struct statx st;
	int r;

	/* A null path is the fd itself since 6.11. What is said wrong the
	 * kernel says, of what is in our registers as of what is in its. */
	if (!at.addr || (flags & ~(unsigned int)STAT_FLAGS) ||
	    (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE ||
	    (call_arg(c, 3) & STATX__RESERVED))
		return OUTCOME_GO;
	r = find_fd(w, c, &at, &p, &fd);
	if (r == 0 &&
	    statx(fd, "", AT_EMPTY_PATH | (int)(flags & AT_STATX_SYNC_TYPE),
		  (unsigned int)call_arg(c, 3), &st) < 0)
		r = -errno;
	if (r == 0 && p.root && p.at.has_parts) {
		st.stx_ino = p.at.ino;
		st.stx_dev_major = major(p.at.dev);
		st.stx_dev_minor = minor(p.at.dev);
		st.stx_nlink = 1;
	}
	if (r == 0 && p.is_hidden)
		hide_x(&st);
	if (r == 0)
		r = call_write(c, call_arg(c, 4), &st, sizeof(st));
	return finish(r);
}

static bool is_read_only(const struct cow_place *p)
{
	return p->root && merged_is_read_only(p->root->merged);
}

struct outcome cow_access(struct cow *w, struct call *c)
{
	struct where at = { (int)call_arg(c, 0), call_arg(c, 1), COW_FOLLOW };
	int mode = (int)call_arg(c, 2), flags = 0;
	auto_close int fd = -1;
	struct cow_place p;
	int r;

#ifdef SYS_access
	if (call_nr(c) == SYS_access) {
		at = (struct where){ AT_FDCWD, call_arg(c, 0), COW_FOLLOW };
		mode = (int)call_arg(c, 1);
	}
#endif
	if (mode & ~(R_OK | W_OK | X_OK))
		return OUTCOME_FAIL(EINVAL);
	if (call_nr(c) == SYS_faccessat2) {
		flags = (int)call_arg(c, 3);
		if (flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
			return OUTCOME_FAIL(EINVAL);
		if (flags & AT_SYMLINK_NOFOLLOW)
			at.flags = 0;
		if (flags & AT_EMPTY_PATH)
			at.flags |= COW_EMPTY;
	}
	r = find_fd(w, c, &at, &p, &fd);
	if (r >= 0 && mode != F_OK && (cow_check(w, c, &p) < 0 || p.is_hidden))
		r = -EACCES;
	/* Our real ids are the caller's as little as its effective ones. */
	if (r == 0 && syscall(SYS_faccessat2, fd, "", mode,
			      AT_EMPTY_PATH | AT_EACCESS) < 0)
		r = -errno;
	if (r == 0 && (mode & W_OK) && is_read_only(&p))
		r = -EROFS;
	return finish(r);
}

struct outcome cow_statfs(struct cow *w, struct call *c)
{
	const struct where at = { AT_FDCWD, call_arg(c, 0), COW_FOLLOW };
	auto_close int fd = -1;
	struct cow_place p;
	struct statfs st;
	int r = look_and_open(w, c, &at, &p, &fd);

	if (r == 0 && syscall(SYS_fstatfs, fd, &st) < 0)
		r = -errno;
	if (r == 0 && p.root && merged_is_plain(p.root->merged))
		st.f_flags |= ST_NOSUID | ST_NODEV |
			      (is_read_only(&p) ? ST_RDONLY : 0);
	if (r == 0)
		r = call_write(c, call_arg(c, 1), &st, sizeof(st));
	return finish(r);
}

/* ----------------------------------------------------------------- links -- */

static struct outcome give_text(struct call *c, uint64_t to, uint64_t room,
				const char *text, size_t n)
{
	int r;

	if ((int)room <= 0)
		return OUTCOME_FAIL(EINVAL);
	if (n > room)
		n = room;
	r = call_write(c, to, text, n);
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE((int64_t)n);
}

/* The magic links of procfs name what upper has by its real path. */
static struct outcome read_magic(struct cow *w, struct call *c,
				 const struct cow_place *p, uint64_t to,
				 uint64_t room)
{
	char real[PATH_MAX], shown[PATH_MAX];

	if (strncmp(p->outside, "/proc/", 6) != 0 ||
	    fd_read_link(AT_FDCWD, p->outside, real) < 0 || !call_is_valid(c))
		return OUTCOME_GO;
	if (!cow_shown_path(w, real, shown))
		return OUTCOME_GO;
	return give_text(c, to, room, shown, strlen(shown));
}

struct outcome cow_readlink(struct cow *w, struct call *c)
{
	struct where at = { (int)call_arg(c, 0), call_arg(c, 1), COW_EMPTY };
	uint64_t to = call_arg(c, 2), room = call_arg(c, 3);
	char text[PATH_MAX];
	auto_close int fd = -1;
	struct cow_place p;
	ssize_t n;
	int r;

#ifdef SYS_readlink
	if (call_nr(c) == SYS_readlink) {
		at = (struct where){ AT_FDCWD, call_arg(c, 0), 0 };
		to = call_arg(c, 1);
		room = call_arg(c, 2);
	}
#endif
	p.root = NULL;
	*p.outside = '\0';
	r = look_and_open(w, c, &at, &p, &fd);
	if (r > 0 && !p.root)
		return read_magic(w, c, &p, to, room);
	if (r)
		return finish(r);
	if (!S_ISLNK(p.at.mode))
		return OUTCOME_FAIL(EINVAL);
	n = readlinkat(fd, "", text, sizeof(text));
	return n < 0 ? OUTCOME_FAIL(errno)
		     : give_text(c, to, room, text, (size_t)n);
}

/* ------------------------------------------------------------ attributes -- */

/* But those that are somebody's, as cow_stored_key calls them. */
static ssize_t without_private(char *names, ssize_t n)
{
	static const char twice[] = "overlay.";
	ssize_t kept = 0;

	for (ssize_t i = 0; i < n;) {
		size_t len = strlen(names + i) + 1;
		size_t own = cow_private_prefix(names + i), more = 0;

		if (own &&
		    strncmp(names + i + own, twice, sizeof(twice) - 1) == 0)
			more = sizeof(twice) - 1;
		if (!own || more) {
			memmove(names + kept, names + i, own);
			memmove(names + kept + own, names + i + own + more,
				len - own - more);
			kept += (ssize_t)(len - more);
		}
		i += (ssize_t)len;
	}
	return kept;
}

static struct outcome give_value(struct call *c, uint64_t to, uint64_t room,
				 const char *value, ssize_t n)
{
	int r;

	if (room == 0)
		return OUTCOME_VALUE(n);
	if ((uint64_t)n > room)
		return OUTCOME_FAIL(ERANGE);
	r = call_write(c, to, value, (size_t)n);
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(n);
}

static bool is_list(const struct call *c)
{
	return call_nr(c) == SYS_listxattr || call_nr(c) == SYS_llistxattr ||
	       call_nr(c) == SYS_flistxattr;
}

/* An fd of upper is what it is; one of the lower may have a part in upper. */
static int find_attributed_fd(struct cow *w, struct call *c, int *ret_fd)
{
	int number = (int)call_arg(c, 0);
	auto_close int fd = call_open_dirfd(c, number);
	auto_free struct cow_place *p = malloc(sizeof(*p));
	char base[PATH_MAX];
	struct stat st;
	int r;

	if (!p)
		return -ENOMEM;
	/* The kernel says what is wrong with it. */
	if (fd < 0 || fd_path(fd, base) < 0 || fstat(fd, &st) < 0)
		return 1;
	r = cow_is_uppers(w, base);
	if (r) {
		*ret_fd = take_fd(&fd);
		return 0;
	}
	r = cow_find_fd(w, c, number, p);
	if (r < 0 || !p->root || !p->at.has_parts || p->at.ino != st.st_ino)
		return 1;
	return merged_find(p->root->merged, p->at.path, ret_fd);
}

/* Also where the kernel would find the same: it would show ours, too. */
static int find_attributed(struct cow *w, struct call *c, int *ret_fd)
{
	int nr = call_nr(c);
	bool links = nr == SYS_lgetxattr || nr == SYS_llistxattr;
	const struct where at = { AT_FDCWD, call_arg(c, 0),
				  links ? 0 : COW_FOLLOW };
	auto_free struct cow_place *p = malloc(sizeof(*p));
	int r;

	if (nr == SYS_fgetxattr || nr == SYS_flistxattr)
		return find_attributed_fd(w, c, ret_fd);
	r = p ? look_and_open(w, c, &at, p, ret_fd) : -ENOMEM;
	return r > 0 && p->root && p->at.exists && p->at.in_upper
		       ? merged_find(p->root->merged, p->at.path, ret_fd)
		       : r;
}

struct outcome cow_getxattr(struct cow *w, struct call *c)
{
	auto_free char *value = malloc(XATTR_SIZE_MAX);
	char link[FD_PATH_MAX], key[XATTR_NAME_MAX + 1];
	char stored[XATTR_NAME_MAX + 1];
	auto_close int fd = -1;
	ssize_t n;
	int r = value ? find_attributed(w, c, &fd) : -ENOMEM;

	if (r == 0 && !is_list(c))
		r = call_read_string(c, call_arg(c, 1), key, sizeof(key));
	if (r == 0 && !is_list(c))
		r = cow_stored_key(key, stored);
	if (r)
		return r == -ENAMETOOLONG ? OUTCOME_FAIL(ERANGE) : finish(r);
	if (is_list(c)) {
		n = listxattr(fd_proc_path(fd, link), value, XATTR_SIZE_MAX);
		if (n < 0)
			return OUTCOME_FAIL(errno);
		return give_value(c, call_arg(c, 1), call_arg(c, 2), value,
				  without_private(value, n));
	}
	n = getxattr(fd_proc_path(fd, link), stored, value, XATTR_SIZE_MAX);
	return n < 0 ? OUTCOME_FAIL(errno)
		     : give_value(c, call_arg(c, 2), call_arg(c, 3), value, n);
}

/* --------------------------------------------------------------- watches -- */

struct outcome cow_watch(struct cow *w, struct call *c)
{
	uint32_t mask = (uint32_t)call_arg(c, 2);
	const struct where at = { AT_FDCWD, call_arg(c, 1),
				  mask & IN_DONT_FOLLOW ? 0 : COW_FOLLOW };
	char link[FD_PATH_MAX];
	auto_close int fd = -1, inotify = -1;
	struct cow_place p;
	int r = look_and_open(w, c, &at, &p, &fd);

	if (r)
		return finish(r);
	inotify = call_get_fd(c, (int)call_arg(c, 0));
	if (inotify < 0)
		return OUTCOME_FAIL(inotify == -EPERM ? EOPNOTSUPP : -inotify);
	r = inotify_add_watch(inotify, fd_proc_path(fd, link),
			      mask & ~(uint32_t)IN_DONT_FOLLOW);
	return r < 0 ? OUTCOME_FAIL(errno) : OUTCOME_VALUE(r);
}

/* Calls that name something in a branch and are not answered. */
struct outcome cow_refuse(struct cow *w, struct call *c)
{
	struct cow_place p;
	int r = cow_find(w, c, (int)call_arg(c, 0), call_arg(c, 1),
			 COW_FOLLOW | COW_EMPTY, &p);

	if (r < 0)
		return OUTCOME_FAIL(-r);
	return p.root ? OUTCOME_FAIL(EOPNOTSUPP) : OUTCOME_GO;
}
