/*
 * File descriptors: whole reads and writes, atomic files, opening below a
 * directory without following what a stranger put there, passing descriptors.
 * Every fd that is returned has O_CLOEXEC. Functions return 0 or a negative
 * errno unless they say otherwise. Thread-safe.
 */
#ifndef SANDLOCK_BASE_FD_H
#define SANDLOCK_BASE_FD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

/* Reads until @n bytes or the end; returns the count or a negative errno. */
ssize_t fd_read_full(int fd, void *data, size_t n);
int fd_write_full(int fd, const void *data, size_t n);

/* Appends all of @fd to @b; -EFBIG if there are more than @max bytes. */
int fd_read_all(int fd, size_t max, struct buf *b);

/* Opens @path below @dirfd (AT_FDCWD allowed) and appends its contents. */
int fd_read_file(int dirfd, const char *path, size_t max, struct buf *b);
/* The same of a file that we have written: -EINVAL for a link or a FIFO. */
int fd_read_own(int dirfd, const char *name, size_t max, struct buf *b);

/*
 * Writes @name in @dirfd by a temporary file and a rename: a reader sees the
 * old contents or the new ones. @durable syncs the file and the directory.
 */
int fd_write_atomic(int dirfd, const char *name, const void *data, size_t len,
		    mode_t mode, bool durable);

/* Writes a short string to an existing file in one write(2), e.g. in /proc. */
int fd_write_file(int dirfd, const char *path, const char *text);

/*
 * openat2(2) with RESOLVE_BENEATH, NO_SYMLINKS, NO_MAGICLINKS and NO_XDEV:
 * for trees somebody else writes to. Returns the fd or a negative errno.
 */
int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* openat2(2) with RESOLVE_IN_ROOT and NO_MAGICLINKS; fd or negative errno. */
int fd_open_in_root(int rootfd, const char *path, int flags, mode_t mode);
/*
 * O_PATH of the longest part of the absolute @path that can be opened so, whole
 * components and at least "/"; its length goes to @ret_len. @ret_why (or NULL):
 * why one component more cannot, a negative errno; 0: it is the whole path.
 */
int fd_open_deepest(int rootfd, const char *path, size_t *ret_len,
		    int *ret_why);

/* openat2(2) as it is, with retries on EAGAIN; fd or negative errno. */
int fd_openat2(int dirfd, const char *path, int flags, mode_t mode,
	       uint64_t resolve);

/* Opens again what an O_PATH fd stands for (through /proc/self/fd). */
int fd_reopen(int fd, int flags);

/* "/proc/self/fd/N" in a caller's buffer of FD_PATH_MAX. */
enum { FD_PATH_MAX = 32 };
const char *fd_proc_path(int fd, char buf[FD_PATH_MAX]);
/* readlinkat(2), whole and terminated; -ENAMETOOLONG rather than a part. */
int fd_read_link(int dirfd, const char *path, char ret[PATH_MAX]);

/*
 * What the kernel says of an fd in /proc/self/fd: its path, as the mounts have
 * it that it was opened in, or "pipe:[1]" and the like.
 */
int fd_path(int fd, char ret[PATH_MAX]);

/* Sends @n bytes and up to 16 fds in one message over an AF_UNIX socket. */
int fd_send(int sock, const void *data, size_t n, const int *fds, size_t n_fds);

/*
 * Receives one message: returns the number of bytes, 0 at the end, or a
 * negative errno. *@n_fds holds the room and then the number of fds.
 */
ssize_t fd_recv(int sock, void *data, size_t n, int *fds, size_t *n_fds);

/*
 * close(2) that does not wait for what the kernel does about the last fd of
 * something. Where that cannot be had it waits.
 */
void fd_let_go(int fd);

/* Sets FD_CLOEXEC on every fd >= @first. */
int fd_cloexec_from(unsigned int first);

/*
 * Closes every fd >= @first but the @n in @keep (any order, -1 is skipped; the
 * array is sorted in place).
 */
int fd_close_others(unsigned int first, int *keep, size_t n);

/* Makes fd 0, 1 and 2 exist (on /dev/null) so that no other file gets them. */
int fd_ensure_std(void);

/* True if @fd is /dev/null's device, whatever its name. */
bool fd_is_null_device(int fd);

#endif
