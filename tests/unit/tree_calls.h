/*
 * Random calls in a small tree of the names a to d, for tests that hold one
 * implementation against another.
 */
#ifndef SANDLOCK_TESTS_TREE_CALLS_H
#define SANDLOCK_TESTS_TREE_CALLS_H

#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { PATH_LEN = 64 };

static unsigned int seed;
static bool stays_inside; /* no links that could lead out of the tree */

static inline unsigned int pick(unsigned int n)
{
	seed = seed * 1103515245U + 12345U;
	return (seed >> 16) % n;
}

/* Made at OLD seconds, so that what was changed since can be told. */
enum { OLD = 1000000000 };
static const char lower_script[] =
	"mkdir -p lower/a/a/a lower/a/b lower/b/c lower/c lower/d/d;"
	"for f in a/c b/a b/c/d c/a c/b d/d/a; do echo $f > lower/$f; done;"
	"ln lower/c/a lower/c/c; ln -s ../b lower/a/d; ln -s c/a lower/b/d;"
	"ln -s /nowhere lower/c/d; mkfifo lower/d/b; chmod 4755 lower/c/b;"
	"chmod 1777 lower/d; chmod 2755 lower/b; chgrp 7 lower/b;"
	"chown 3:4 lower/a/b lower/b/a; setfattr -n user.k -v v lower/a/a;"
	"setfattr -n user.k -v w lower/b/a;"
	"find lower | xargs touch -h -d @1000000000";

enum op {
	OP_CREATE,
	OP_APPEND,
	OP_TRUNC,
	OP_OPEN_RDWR,
	OP_READ,
	OP_UNLINK,
	OP_MKDIR,
	OP_RMDIR,
	OP_RENAME,
	OP_EXCHANGE,
	OP_NOREPLACE,
	OP_LINK,
	OP_SYMLINK,
	OP_MKFIFO,
	OP_CHMOD,
	OP_CHOWN,
	OP_UTIME,
	OP_SETXATTR,
	OP_LIST,
	OPS,
};

struct what {
	enum op op;
	char a[PATH_LEN], b[PATH_LEN];
	unsigned int n;
};

static inline void random_path(char ret[PATH_LEN])
{
	unsigned int depth = 1 + pick(3);

	*ret = '\0';
	for (unsigned int i = 0; i < depth; i++) {
		size_t n = strlen(ret);

		(void)snprintf(ret + n, PATH_LEN - n, "%s%c", n ? "/" : "",
			       "abcd"[pick(4)]);
	}
}

static inline int finish_file(int fd, const struct what *w, char seen[256])
{
	int r = 0;

	if (fd < 0)
		return fd;
	if (w->op == OP_READ)
		r = (int)read(fd, seen, 255);
	else if (w->op != OP_OPEN_RDWR)
		r = dprintf(fd, "%u\n", w->n) < 0 ? -errno : 0;
	(void)close(fd);
	return r < 0 ? -EIO : 0;
}

static inline int open_flags(enum op op)
{
	static const int flags[OPS] = {
		[OP_CREATE] = O_WRONLY | O_CREAT | O_EXCL,
		[OP_APPEND] = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK,
		[OP_TRUNC] = O_WRONLY | O_TRUNC | O_NONBLOCK,
		[OP_OPEN_RDWR] = O_RDWR | O_NONBLOCK,
		[OP_READ] = O_RDONLY | O_NONBLOCK,
	};

	return flags[op] | O_CLOEXEC;
}

static inline void list_dir(int fd, char seen[256])
{
	for (const char *c = "abcd"; *c; c++)
		if (faccessat(fd, (char[]){ *c, '\0' }, F_OK,
			      AT_SYMLINK_NOFOLLOW) == 0)
			(void)strncat(seen, (char[]){ *c, '\0' }, 2);
}

static inline int on_kernel(int root, const struct what *w, char seen[256])
{
	const struct timespec t[2] = { { w->n, 0 }, { w->n, 0 } };
	int fd;

	assert_int_equal(fchdir(root), 0);
	errno = 0;
	switch (w->op) {
	case OP_CREATE:
	case OP_APPEND:
	case OP_TRUNC:
	case OP_OPEN_RDWR:
	case OP_READ:
		fd = open(w->a, open_flags(w->op), 0640);
		return finish_file(fd < 0 ? -errno : fd, w, seen);
	case OP_UNLINK:
		return unlink(w->a) < 0 ? -errno : 0;
	case OP_MKDIR:
		return mkdir(w->a, 0751) < 0 ? -errno : 0;
	case OP_RMDIR:
		return rmdir(w->a) < 0 ? -errno : 0;
	case OP_RENAME:
	case OP_EXCHANGE:
	case OP_NOREPLACE:
		return renameat2(AT_FDCWD, w->a, AT_FDCWD, w->b,
				 w->op == OP_RENAME	? 0
				 : w->op == OP_EXCHANGE ? RENAME_EXCHANGE
							: RENAME_NOREPLACE) < 0
			       ? -errno
			       : 0;
	case OP_LINK:
		return link(w->a, w->b) < 0 ? -errno : 0;
	case OP_SYMLINK:
		return symlink(w->b, w->a) < 0 ? -errno : 0;
	case OP_MKFIFO:
		return mkfifo(w->a, 0600) < 0 ? -errno : 0;
	case OP_CHMOD:
		return chmod(w->a, w->n & 07777) < 0 ? -errno : 0;
	case OP_CHOWN:
		return lchown(w->a, w->n % 5, 1) < 0 ? -errno : 0;
	case OP_UTIME:
		return utimensat(AT_FDCWD, w->a, t, AT_SYMLINK_NOFOLLOW) < 0
			       ? -errno
			       : 0;
	case OP_SETXATTR:
		return setxattr(w->a, "user.k", "x", 1, 0) < 0 ? -errno : 0;
	case OP_LIST:
		fd = open(w->a, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		list_dir(fd, seen);
		(void)close(fd);
		return 0;
	case OPS:
		break;
	}
	return -ENOSYS;
}

static inline struct what random_call(void)
{
	struct what w = { .op = (enum op)pick(OPS), .n = 10 + pick(3000) };

	random_path(w.a);
	random_path(w.b);
	if (w.op == OP_SYMLINK && pick(3) == 0 && !stays_inside)
		(void)snprintf(w.b, sizeof(w.b), "../%c", "abcd"[pick(4)]);
	/* A setuid bit goes with a write, of whoever has not CAP_FSETID. */
	w.n |= 0600;
	return w;
}

#endif
