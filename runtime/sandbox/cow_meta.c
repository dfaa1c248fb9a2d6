/* Modes, owners, times and attributes of what is in a branch. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "sandbox/cow_internal.h"

/* What is changed: a path, or an fd. */
struct subject {
	int dirfd;
	uint64_t addr;
	unsigned int flags;
	unsigned int at_flags; /* what was said, AT_* */
	bool is_fd;	       /* dirfd is it */
	bool is_kernels;
	mode_t mode;
	int fd; /* O_PATH, upper's */
	char link[FD_PATH_MAX];
};

static void subject_done(struct subject *s)
{
	cleanup_close(&s->fd);
}

static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/');
}

/* What is unlinked leaves upper by way of work, which is beside it. */
static bool is_in_work(const struct cow_root *root, const char *real)
{
	size_t n = strlen(root->upper) - strlen("upper");

	return !merged_is_plain(root->merged) &&
	       strncmp(real, root->upper, n) == 0 &&
	       is_at_or_below(real + n, "work");
}

int cow_is_uppers(const struct cow *w, const char *real)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct cow_root *root = &w->roots[i];

		if (is_at_or_below(real, root->upper) || is_in_work(root, real))
			return merged_is_read_only(root->merged) ? -EROFS : 1;
	}
	return 0;
}

/*
 * An fd of upper is what it is, named or not; one of the lower stands for its
 * path. What has neither is none of ours.
 */
static int take_fd_of(struct cow *w, struct call *c, int number,
		      struct subject *s)
{
	auto_close int fd = call_open_dirfd(c, number);
	char base[PATH_MAX];
	int r = fd < 0 ? fd : fd_path(fd, base);

	if (r == 0)
		r = cow_is_uppers(w, base);
	if (r == 1)
		s->fd = take_fd(&fd);
	return r;
}

static int prepare(struct cow *w, struct call *c, struct subject *s,
		   bool (*suits)(mode_t mode))
{
	struct cow_place p = { .root = NULL };
	int r;

	s->fd = -1;
	if (s->at_flags & ~(unsigned int)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (s->at_flags & AT_SYMLINK_NOFOLLOW)
		s->flags &= ~(unsigned int)COW_FOLLOW;
	if (s->at_flags & AT_EMPTY_PATH)
		s->flags |= COW_EMPTY;
	/* Only a path, if it is empty, stands for the working directory. */
	if (s->is_fd && s->dirfd == AT_FDCWD && !(s->flags & COW_EMPTY))
		return call_nr(c) == SYS_utimensat ? -EFAULT : -EBADF;
	if (s->is_fd) {
		r = take_fd_of(w, c, s->dirfd, s);
		if (r < 0)
			return r;
		if (r == 0)
			r = cow_find_fd(w, c, s->dirfd, &p);
		else
			r = 0;
	} else {
		r = cow_find(w, c, s->dirfd, s->addr, s->flags, &p);
		if (r == 0 && (s->flags & COW_EMPTY) && !*p.text) {
			s->is_fd = true;
			return prepare(w, c, s, suits);
		}
		if (r == 0 && !p.root && p.unnamed_fd >= 0) {
			s->is_fd = true;
			s->dirfd = p.unnamed_fd;
			return prepare(w, c, s, suits);
		}
	}
	if (r == 0 && s->fd < 0) {
		s->is_kernels = !p.root;
		if (s->is_kernels)
			return 0;
		if (!p.at.exists)
			return -ENOENT;
		if (suits && !suits(p.at.mode))
			return -EPERM;
		r = merged_copy_up(p.root->merged, p.at.path, &s->fd);
	}
	if (r == 0)
		(void)fd_proc_path(s->fd, s->link);
	return r;
}

static struct outcome finish(const struct subject *s, int r)
{
	return s->is_kernels && r == 0 ? OUTCOME_GO : cow_outcome(r);
}

static int is_link(const struct subject *s)
{
	struct stat st;

	return fstat(s->fd, &st) == 0 && S_ISLNK(st.st_mode);
}

/* ----------------------------------------------------------------- modes -- */

struct outcome cow_chmod(struct cow *w, struct call *c)
{
	auto_(subject) struct subject s = { .dirfd = AT_FDCWD, .fd = -1 };
	mode_t mode = (mode_t)call_arg(c, 1);
	int r;

	s.flags = COW_FOLLOW;
	s.addr = call_arg(c, 0);
	if (call_nr(c) == SYS_fchmod) {
		s.is_fd = true;
		s.dirfd = (int)call_arg(c, 0);
	} else if (call_nr(c) == SYS_fchmodat || call_nr(c) == SYS_fchmodat2) {
		s.dirfd = (int)call_arg(c, 0);
		s.addr = call_arg(c, 1);
		mode = (mode_t)call_arg(c, 2);
	}
	if (call_nr(c) == SYS_fchmodat2)
		s.at_flags = (unsigned int)call_arg(c, 3);
	r = prepare(w, c, &s, NULL);
	if (r == 0 && !s.is_kernels) {
		r = is_link(&s) ? -EOPNOTSUPP : 0;
		if (r == 0 && chmod(s.link, mode & 07777) < 0)
			r = -errno;
	}
	return finish(&s, r);
}

/* ---------------------------------------------------------------- owners -- */

struct outcome cow_chown(struct cow *w, struct call *c)
{
	auto_(subject) struct subject s = { .dirfd = AT_FDCWD, .fd = -1 };
	unsigned int i = 1;
	int r;

	s.flags = COW_FOLLOW;
	s.addr = call_arg(c, 0);
	if (call_nr(c) == SYS_fchown) {
		s.is_fd = true;
		s.dirfd = (int)call_arg(c, 0);
	} else if (call_nr(c) == SYS_fchownat) {
		s.dirfd = (int)call_arg(c, 0);
		s.addr = call_arg(c, 1);
		s.at_flags = (unsigned int)call_arg(c, 4);
		i = 2;
	}
#ifdef SYS_lchown
	if (call_nr(c) == SYS_lchown)
		s.at_flags = AT_SYMLINK_NOFOLLOW;
#endif
	r = prepare(w, c, &s, NULL);
	if (r == 0 && !s.is_kernels &&
	    fchownat(s.fd, "", (uid_t)call_arg(c, i), (gid_t)call_arg(c, i + 1),
		     AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return finish(&s, r);
}

/* ----------------------------------------------------------------- times -- */

static int read_times(struct call *c, uint64_t addr, bool is_micro,
		      struct timespec ret[2])
{
	int r = call_read(c, addr, ret, 2 * sizeof(*ret));

	if (r < 0 || !is_micro)
		return r;
	/* struct timeval has the same shape. */
	for (int i = 0; i < 2; i++) {
		if (ret[i].tv_nsec < 0 || ret[i].tv_nsec >= 1000000)
			return -EINVAL;
		ret[i].tv_nsec *= 1000;
	}
	return 0;
}

#ifdef SYS_utime
static int read_utime(struct call *c, uint64_t addr, struct timespec ret[2])
{
	struct utimbuf u;
	int r = call_read(c, addr, &u, sizeof(u));

	ret[0] = (struct timespec){ .tv_sec = u.actime };
	ret[1] = (struct timespec){ .tv_sec = u.modtime };
	return r;
}
#endif

struct outcome cow_utimes(struct cow *w, struct call *c)
{
	auto_(subject) struct subject s = { .dirfd = AT_FDCWD, .fd = -1 };
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
				     { .tv_nsec = UTIME_NOW } };
	uint64_t from = call_arg(c, 1);
	bool is_micro = true;
	int r;

	s.flags = COW_FOLLOW;
	s.addr = call_arg(c, 0);
	if (call_nr(c) == SYS_utimensat) {
		s.at_flags = (unsigned int)call_arg(c, 3);
		is_micro = false;
	}
	if (call_nr(c) == SYS_utimensat
#ifdef SYS_futimesat
	    || call_nr(c) == SYS_futimesat
#endif
	) {
		s.dirfd = (int)call_arg(c, 0);
		s.addr = call_arg(c, 1);
		s.is_fd = !s.addr;
		from = call_arg(c, 2);
	}
	r = !from ? 0
#ifdef SYS_utime
	    : call_nr(c) == SYS_utime ? read_utime(c, from, times)
#endif
				      : read_times(c, from, is_micro, times);
	if (r == 0)
		r = prepare(w, c, &s, NULL);
	if (r == 0 && !s.is_kernels &&
	    utimensat(s.fd, "", times, AT_EMPTY_PATH) < 0)
		r = -errno;
	return finish(&s, r);
}

/* ------------------------------------------------------------ attributes -- */

static bool has_attributes(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode);
}

size_t cow_private_prefix(const char *key)
{
	return strncmp(key, "user.overlay.", 13) == 0	   ? 13
	       : strncmp(key, "trusted.overlay.", 16) == 0 ? 16
							   : 0;
}

int cow_stored_key(const char *key, char ret[XATTR_NAME_MAX + 1])
{
	size_t n = cow_private_prefix(key);
	int k = snprintf(ret, XATTR_NAME_MAX + 1, "%.*s%s%s", (int)n, key,
			 n ? "overlay." : "", key + n);

	return k < 0 || k > XATTR_NAME_MAX ? -ERANGE : 0;
}

static int set_key(struct call *c, const struct subject *s, const char *key)
{
	uint64_t size = call_arg(c, 3);
	auto_free char *value = NULL;
	int r = 0;

	if (size > XATTR_SIZE_MAX)
		return -E2BIG;
	value = malloc(size ? size : 1);
	if (!value)
		return -ENOMEM;
	if (size)
		r = call_read(c, call_arg(c, 2), value, size);
	if (r == 0 &&
	    setxattr(s->link, key, value, size, (int)call_arg(c, 4)) < 0)
		r = -errno;
	return r;
}

static bool is_removal(int nr)
{
	return nr == SYS_removexattr || nr == SYS_lremovexattr ||
	       nr == SYS_fremovexattr;
}

struct outcome cow_setxattr(struct cow *w, struct call *c)
{
	auto_(subject) struct subject s = { .dirfd = AT_FDCWD, .fd = -1 };
	char key[XATTR_NAME_MAX + 1], stored[XATTR_NAME_MAX + 1];
	int nr = call_nr(c), r;

	s.addr = call_arg(c, 0);
	s.flags = nr == SYS_setxattr || nr == SYS_removexattr ? COW_FOLLOW : 0;
	s.is_fd = nr == SYS_fsetxattr || nr == SYS_fremovexattr;
	if (s.is_fd)
		s.dirfd = (int)call_arg(c, 0);
	r = call_read_string(c, call_arg(c, 1), key, sizeof(key));
	if (r == 0)
		r = cow_stored_key(key, stored);
	if (r == -ENAMETOOLONG)
		r = -ERANGE;
	if (r == 0)
		r = prepare(w, c, &s,
			    strncmp(key, "user.", 5) == 0 ? has_attributes
							  : NULL);
	if (r == 0 && !s.is_kernels && is_removal(nr))
		r = removexattr(s.link, stored) < 0 ? -errno : 0;
	else if (r == 0 && !s.is_kernels)
		r = set_key(c, &s, stored);
	return finish(&s, r);
}
