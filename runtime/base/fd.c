#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/uapi.h"

enum {
	OPEN_TRIES = 128, /* openat2's EAGAIN: a rename raced with ".." */
	PASS_FDS_MAX = 16,
	READ_CHUNK = 64 * 1024,
};

ssize_t fd_read_full(int fd, void *data, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, (char *)data + got, n - got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

int fd_write_full(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n > 0) {
		ssize_t r = write(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

/* The first chunk of a regular file is all of it. */
static size_t first_chunk(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return 4096;
	return st.st_size < READ_CHUNK ? (size_t)st.st_size + 1 : READ_CHUNK;
}

int fd_read_all(int fd, size_t max, struct buf *b)
{
	size_t chunk = first_chunk(fd), size = 0;
	size_t total = 0;
	auto_free char *data = NULL;

	for (;;) {
		ssize_t r;

		if (size < chunk) {
			free(data);
			data = malloc(chunk);
			if (!data)
				return -ENOMEM;
			size = chunk;
		}
		r = read(fd, data, chunk);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		if ((size_t)r > max - total)
			return -EFBIG;
		total += (size_t)r;
		buf_add(b, data, (size_t)r);
		/* There is more where it was filled, and little where not. */
		if ((size_t)r == chunk)
			chunk = READ_CHUNK;
	}
	return buf_failed(b) ? -ENOMEM : 0;
}

int fd_read_file(int dirfd, const char *path, size_t max, struct buf *b)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fd_read_all(fd, max, b);
}

int fd_read_own(int dirfd, const char *name, size_t max, struct buf *b)
{
	auto_close int fd = openat(
		dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP || errno == ENXIO ? -EINVAL : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? fd_read_all(fd, max, b) : -EINVAL;
}

/* Opens a file of a new name next to @name; @tmp has NAME_MAX + 1 bytes. */
static int open_temp(int dirfd, const char *name, char *tmp)
{
	for (int i = 0; i < 16; i++) {
		uint64_t salt;
		int fd;

		if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
			return -errno;
		(void)snprintf(tmp, NAME_MAX + 1, ".%.200s.%016llx", name,
			       (unsigned long long)salt);
		fd = openat(dirfd, tmp,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
				    O_CLOEXEC,
			    0600);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int fill_temp(int fd, const void *data, size_t len, mode_t mode,
		     bool durable)
{
	int r = fd_write_full(fd, data, len);

	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0)
		return -errno;
	if (durable && fsync(fd) < 0)
		return -errno;
	return 0;
}

static int sync_dir(int dirfd)
{
	auto_close int fd =
		openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int fd_write_atomic(int dirfd, const char *name, const void *data, size_t len,
		    mode_t mode, bool durable)
{
	char tmp[NAME_MAX + 1];
	auto_close int fd = -1;
	int r;

	if (name[0] == '\0' || strchr(name, '/'))
		return -EINVAL;
	fd = open_temp(dirfd, name, tmp);
	if (fd < 0)
		return take_fd(&fd);
	r = fill_temp(fd, data, len, mode, durable);
	if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dirfd, tmp, 0);
		return r;
	}
	return durable ? sync_dir(dirfd) : 0;
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
	auto_close int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	ssize_t r;

	if (fd < 0)
		return -errno;
	do
		r = write(fd, text, n);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return (size_t)r == n ? 0 : -EIO;
}

int fd_openat2(int dirfd, const char *path, int flags, mode_t mode,
	       uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned int)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = resolve,
	};

	for (int i = 0; i < OPEN_TRIES; i++) {
		long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	return fd_openat2(dirfd, path, flags, mode,
			  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
				  RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
}

int fd_open_in_root(int rootfd, const char *path, int flags, mode_t mode)
{
	return fd_openat2(rootfd, path, flags, mode,
			  RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int fd_open_deepest(int rootfd, const char *path, size_t *ret_len, int *ret_why)
{
	auto_free char *part = strdup(path);
	size_t n = strlen(path);
	int fd, why = 0;

	if (!part)
		return -ENOMEM;
	while ((fd = fd_open_in_root(rootfd, n ? part : "/", O_PATH, 0)) < 0 &&
	       n) {
		why = fd;
		while (n && part[--n] != '/')
			;
		part[n] = '\0';
	}
	*ret_len = n;
	if (ret_why)
		*ret_why = why;
	return fd;
}

const char *fd_proc_path(int fd, char buf[FD_PATH_MAX])
{
	(void)snprintf(buf, FD_PATH_MAX, "/proc/self/fd/%d", fd);
	return buf;
}

int fd_read_link(int dirfd, const char *path, char ret[PATH_MAX])
{
	ssize_t n = readlinkat(dirfd, path, ret, PATH_MAX);

	if (n < 0)
		return -errno;
	if (n == PATH_MAX)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	return 0;
}

int fd_path(int fd, char ret[PATH_MAX])
{
	char link[FD_PATH_MAX];

	return fd_read_link(AT_FDCWD, fd_proc_path(fd, link), ret);
}

int fd_reopen(int fd, int flags)
{
	char path[FD_PATH_MAX];
	int ret =
		open(fd_proc_path(fd, path), (flags & ~O_NOFOLLOW) | O_CLOEXEC);

	return ret < 0 ? -errno : ret;
}

union pass_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * PASS_FDS_MAX)];
};

int fd_send(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union pass_control control = { .bytes = { 0 } };
	ssize_t r;

	if (n_fds > PASS_FDS_MAX)
		return -EINVAL;
	if (n_fds > 0) {
		struct cmsghdr *c;

		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	do
		r = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return (size_t)r == n ? 0 : -EMSGSIZE;
}

/*
 * A socket that waits to be received from itself: when nobody has it the
 * kernel's collector of such cycles closes what is in it. It is woken by the
 * end of a socket, which is that of the other one alone, and looks only once:
 * so that one goes last. From Linux 6.9 on it is a thread of its own.
 */
void fd_let_go(int fd)
{
	int pair[2] = { -1, -1 };

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0) {
		const int cycle[] = { pair[1], fd };

		(void)fd_send(pair[0], "", 1, cycle, ARRAY_LEN(cycle));
	}
	(void)close(fd);
	cleanup_close(&pair[1]);
	cleanup_close(&pair[0]);
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)close(fds[i]);
}

/* Moves the received fds to @fds; what does not fit is closed. */
static int collect_fds(struct msghdr *msg, int *fds, size_t room, size_t *ret_n)
{
	bool lost = msg->msg_flags & MSG_CTRUNC;
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (n < room) {
				fds[n++] = fd;
			} else {
				(void)close(fd);
				lost = true;
			}
		}
	}
	if (lost) {
		close_all(fds, n);
		return -EMSGSIZE;
	}
	*ret_n = n;
	return 0;
}

ssize_t fd_recv(int sock, void *data, size_t n, int *fds, size_t *n_fds)
{
	struct iovec iov = { .iov_base = data, .iov_len = n };
	union pass_control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	size_t got = 0;
	ssize_t r;
	int collected;

	do
		r = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	collected = collect_fds(&msg, fds, n_fds ? *n_fds : 0, &got);
	if (collected < 0)
		return collected;
	if (msg.msg_flags & MSG_TRUNC) {
		close_all(fds, got);
		return -EMSGSIZE;
	}
	if (n_fds)
		*n_fds = got;
	return r;
}

/* For kernels before 5.11, which lack CLOSE_RANGE_CLOEXEC. */
static int cloexec_by_proc(unsigned int first)
{
	auto_dir DIR *dir = opendir("/proc/self/fd");
	const struct dirent *d;

	if (!dir)
		return -errno;
	for (errno = 0; (d = readdir(dir)); errno = 0) {
		char *end;
		unsigned long fd = strtoul(d->d_name, &end, 10);

		if (*end || end == d->d_name || fd < first)
			continue;
		if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
			return -errno;
	}
	return -errno;
}

int fd_cloexec_from(unsigned int first)
{
	if (syscall(SYS_close_range, first, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL)
		return -errno;
	return cloexec_by_proc(first);
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int fd_close_others(unsigned int first, int *keep, size_t n)
{
	if (n)
		qsort(keep, n, sizeof(*keep), compare_fds);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < 0 || (unsigned int)keep[i] < first)
			continue;
		if ((unsigned int)keep[i] > first &&
		    syscall(SYS_close_range, first, keep[i] - 1, 0) < 0)
			return -errno;
		first = (unsigned int)keep[i] + 1;
	}
	if (syscall(SYS_close_range, first, ~0U, 0) < 0)
		return -errno;
	return 0;
}

int fd_ensure_std(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		int got;

		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number is this one; it is inherited. */
		/* NOLINTNEXTLINE(android-cloexec-open) */
		got = open("/dev/null", O_RDWR);
		if (got < 0)
			return -errno;
		if (got != fd) {
			(void)close(got);
			return -EBADF;
		}
	}
	return 0;
}

bool fd_is_null_device(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(1, 3);
}
