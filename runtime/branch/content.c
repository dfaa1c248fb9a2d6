/* Contents of objects on either side: compared, opened, digested. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "branch/change.h"
#include "branch/internal.h"
#include "branch/judge.h"
#include "branch/layers.h"
#include "branch/recover.h"
#include "branch/walk.h"

/*
 * O_NONBLOCK: a FIFO that took the file's place must not hang us. O_NOATIME is
 * for owners only.
 */
int content_open(int dirfd, const char *name, int *ret_fd)
{
	int fd = object_open_file(dirfd, name, O_RDONLY | O_NOATIME);

	if (fd == -EPERM)
		fd = object_open_file(dirfd, name, O_RDONLY);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int content_readlink(int dirfd, const char *name, struct buf *b)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target));

	if (n < 0)
		return -errno;
	buf_add(b, target, (size_t)n);
	return buf_failed(b) ? -ENOMEM : 0;
}

static bool is_sparse(const struct object *o)
{
	return o->blocks < o->size / 512;
}

/* Where the next data of either file start; @size if only holes are left. */
static uint64_t skip_holes(int a, int b, uint64_t pos, uint64_t size)
{
	off_t x = lseek(a, (off_t)pos, SEEK_DATA);
	bool x_ends = x < 0 && errno == ENXIO;
	off_t y = lseek(b, (off_t)pos, SEEK_DATA);
	bool y_ends = y < 0 && errno == ENXIO;

	if ((x < 0 && !x_ends) || (y < 0 && !y_ends))
		return pos; /* cannot be told: read everything */
	if (x_ends && y_ends)
		return size;
	if (x_ends)
		return (uint64_t)y;
	if (y_ends)
		return (uint64_t)x;
	return (uint64_t)(x < y ? x : y);
}

static ssize_t read_at(int fd, char *data, size_t n, uint64_t pos)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = pread(fd, data + got, n - got, (off_t)(pos + got));

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

static int compare_bytes(int a, int b, uint64_t size, bool sparse, char *chunk)
{
	for (uint64_t pos = 0; pos < size;) {
		uint64_t left;
		size_t n;
		ssize_t x, y;

		if (sparse)
			pos = skip_holes(a, b, pos, size);
		if (pos >= size)
			break;
		left = size - pos;
		n = left < CONTENT_CHUNK ? (size_t)left : CONTENT_CHUNK;
		x = read_at(a, chunk, n, pos);
		if (x < 0)
			return (int)x;
		y = read_at(b, chunk + CONTENT_CHUNK, n, pos);
		if (y < 0)
			return (int)y;
		if (x != y || (size_t)x != n ||
		    memcmp(chunk, chunk + CONTENT_CHUNK, n) != 0)
			return 0;
		pos += n;
	}
	return 1;
}

int content_compare(int a_dirfd, const char *a_name, const struct object *a,
		    int b_dirfd, const char *b_name, const struct object *b,
		    char *chunk)
{
	auto_close int x = -1;
	auto_close int y = -1;
	int r;

	if (a->size != b->size)
		return 0;
	if (a->size == 0)
		return 1;
	r = content_open(a_dirfd, a_name, &x);
	if (r == 0)
		r = content_open(b_dirfd, b_name, &y);
	if (r == -ENOENT || r == -ELOOP || r == -ESTALE)
		return 0; /* changed under our eyes */
	/* Of the lower, or while the sandbox lives: nobody can tell. */
	if (r == -EACCES)
		return 0;
	if (r < 0)
		return r;
	return compare_bytes(x, y, a->size, is_sparse(a) || is_sparse(b),
			     chunk);
}

/* By fcntl(2), as SQLite does: on the file, or on its -shm beside it. */
static bool is_locked(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

bool content_is_open_database(int dirfd, const char *name,
			      const struct object *o)
{
	static const char magic[16] = "SQLite format 3";
	enum { PAGE_MIN = 512 };
	auto_close int fd = -1;
	auto_close int shm_fd = -1;
	char head[sizeof(magic)], shm[NAME_MAX + 1];

	/* A number of pages; most files need not be opened. */
	if (!S_ISREG(o->mode) || o->size == 0 || o->size % PAGE_MIN != 0 ||
	    content_open(dirfd, name, &fd) < 0 ||
	    read_at(fd, head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head, magic, sizeof(magic)) != 0)
		return false;
	if (is_locked(fd))
		return true;
	return snprintf(shm, sizeof(shm), "%s-shm", name) < (int)sizeof(shm) &&
	       content_open(dirfd, shm, &shm_fd) == 0 && is_locked(shm_fd);
}

struct opening {
	const struct branch *branch;
	const char *path;
	enum change_content side;
	int socks[2]; /* from the one that opens to the one that asked */
};

static int open_here(const struct opening *o, int *ret_fd, struct error *err)
{
	auto_close int dirfd = -1;
	const char *name;
	int r = o->side == CONTENT_BEFORE
			? walk_lookup(o->branch->lower_fd, o->path, &dirfd,
				      &name)
			: layers_lookup(o->branch, o->path, &dirfd, &name);

	if (r == 0)
		r = content_open(dirfd, name, ret_fd);
	if (r < 0)
		return error_set(err, r == -ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM,
				 -r, "cannot open '%s'", o->path);
	return 0;
}

static int open_and_pass(void *data, int out_fd, struct error *err)
{
	struct opening *o = data;
	auto_close int fd = -1;
	int r = open_here(o, &fd, err);

	if (r < 0)
		return r;
	r = fd_send(o->socks[1], "", 1, &fd, 1);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot pass '%s'",
				 o->path)
		     : 0;
}

/*
 * By a child in the namespace of the branch, which may read everything, and
 * costs more than the rest.
 */
static int open_inside(struct branch *b, struct opening *o, int *ret_fd,
		       struct error *err)
{
	auto_close int ours = -1;
	auto_close int theirs = -1;
	size_t n_fds = 1;
	char byte;
	int r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, o->socks) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 o->path);
	ours = o->socks[0];
	theirs = o->socks[1];
	r = branch_enter(b, open_and_pass, NULL, o, err);
	if (r < 0)
		return r;
	if (fd_recv(ours, &byte, 1, ret_fd, &n_fds) != 1 || n_fds != 1)
		return error_set(err, ERR_SYSTEM, EIO, "cannot open '%s'",
				 o->path);
	return 0;
}

int root_open_content(struct branch *b, const char *path,
		      enum change_content side, int *ret_fd, struct error *err)
{
	struct opening o = { .branch = b, .path = path, .side = side };
	int r;

	if ((side == CONTENT_BEFORE ? b->lower_fd : b->upper_fd) < 0)
		return error_say(err, ERR_STATE, ENOENT,
				 "branch '%s' has no such side", b->meta.name);
	r = open_here(&o, ret_fd, err);
	if ((r == -EACCES || r == -EPERM) && branch_needs_userns(&b->meta))
		return open_inside(b, &o, ret_fd, err);
	return r;
}

int root_digest(struct branch *b, const char *path, enum change_content side,
		unsigned char ret[CHANGE_DIGEST], struct error *err)
{
	auto_free unsigned char *chunk = malloc(CONTENT_CHUNK);
	auto_close int fd = -1;
	SHA2_CTX sha;
	int r = root_open_content(b, path, side, &fd, err);

	if (r < 0)
		return r;
	if (!chunk)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot digest '%s'",
				 path);
	SHA256Init(&sha);
	for (;;) {
		ssize_t n = fd_read_full(fd, chunk, CONTENT_CHUNK);

		if (n < 0)
			return error_set(err, ERR_SYSTEM, (int)-n,
					 "cannot read '%s'", path);
		SHA256Update(&sha, chunk, (size_t)n);
		if (n < CONTENT_CHUNK)
			break;
	}
	SHA256Final(ret, &sha);
	return 0;
}

int branch_digest(struct branch *b, const char *path, enum change_content side,
		  char ret[2 * CHANGE_DIGEST + 1], struct error *err)
{
	unsigned char bytes[CHANGE_DIGEST];
	int r = branch_digest_bytes(b, path, side, bytes, err);

	for (size_t i = 0; r == 0 && i < sizeof(bytes); i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
	return r;
}

int content_same_target(const struct walk_entry *e)
{
	auto_(buf) struct buf a = BUF_INIT;
	auto_(buf) struct buf b = BUF_INIT;
	int r = content_readlink(e->upper_dirfd, e->name, &a);

	if (r == 0)
		r = content_readlink(e->lower_dirfd, e->name, &b);
	if (r < 0)
		return r;
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}
