/* How a caller gets to what only upper has: sandbox/cow_internal.h. */
#include <errno.h>
#include <fcntl.h>
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

void cow_reach_done(struct cow_reach *r)
{
	cleanup_close(&r->fd);
}

/* Where it lies the caller may not go, but may be lent what it could open. */
static int find(const struct cow_place *p, const char *path)
{
	auto_close int top_fd = -1;
	uint64_t was = 0;
	int r = caps_begin_all(&was);

	if (r < 0)
		return r;
	r = open(cow_part(p->root, p->at.home),
		 O_PATH | O_DIRECTORY | O_CLOEXEC);
	top_fd = r < 0 ? -errno : r;
	r = top_fd < 0 ? top_fd
		       : fd_openat2(top_fd, *path ? path : ".",
				    O_PATH | O_NOFOLLOW, 0,
				    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	caps_end_all(was);
	return r;
}

/* With the caller's rights, as it would by cow_open. */
static int open_for_it(const struct cow_place *p, const char *path)
{
	auto_close int fd = find(p, path);

	return fd < 0 ? fd : fd_reopen(fd, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static size_t parent_of(const char *path, size_t n)
{
	while (n > 0 && path[--n] != '/')
		;
	return n;
}

/* From the nearest directory that it may read; of a program the last resort is
 * the file. */
static int lend(const struct cow_place *p, struct cow_reach *ret)
{
	const char *path = p->at.path;
	bool is_dir = S_ISDIR(p->at.mode);
	size_t len = strlen(path), n = is_dir ? len : parent_of(path, len);

	for (;; n = parent_of(path, n)) {
		memcpy(ret->path, path, n);
		ret->path[n] = '\0';
		ret->fd = open_for_it(p, ret->path);
		if (ret->fd != -EACCES || n == 0)
			break;
	}
	if (ret->fd == -EACCES && !is_dir) {
		ret->fd = open_for_it(p, path);
		n = len;
	}
	if (ret->fd < 0)
		return ret->fd;
	ret->is_lent = true;
	path_copy(ret->path, path + n + (path[n] == '/'));
	return 0;
}

int cow_reach(const struct cow_place *p, struct cow_reach *ret)
{
	int r;

	ret->is_lent = false;
	if (!p->root) {
		path_copy(ret->path, p->outside);
		return 0;
	}
	r = cow_real_path(p, ret->path);
	if (r < 0 || getuid() != 0 ||
	    syscall(SYS_faccessat2, AT_FDCWD, ret->path, F_OK,
		    AT_SYMLINK_NOFOLLOW | AT_EACCESS) == 0 ||
	    errno != EACCES)
		return r;
	return lend(p, ret);
}
