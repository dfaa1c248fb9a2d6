/*
 * Who may divide its cgroup nests deeper than a path can say: what is below is
 * walked by descriptors, of which one is open at a time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "kernel/cgroup_internal.h"

enum { PENDING_MAX_BYTES = 16 * 1024 * 1024 };

/* What is still to be visited, by its name, its length and its depth. */
struct pending {
	size_t depth;
	size_t len;
};

static int push(struct buf *stack, const char *name, size_t depth)
{
	const struct pending p = { depth, strlen(name) + 1 };

	if (stack->len > PENDING_MAX_BYTES)
		return -E2BIG;
	buf_add(stack, name, p.len);
	buf_add(stack, &p, sizeof(p));
	return buf_failed(stack) ? -ENOMEM : 0;
}

/* @ret_name has NAME_MAX + 1 bytes. */
static size_t pop(struct buf *stack, char *ret_name)
{
	struct pending p;

	stack->len -= sizeof(p);
	memcpy(&p, stack->data + stack->len, sizeof(p));
	stack->len -= p.len;
	memcpy(ret_name, stack->data + stack->len, p.len);
	return p.depth;
}

static int push_children(int dirfd, size_t depth, struct buf *stack)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	int r = 0;

	if (!d) {
		r = -errno;
		cleanup_close(&fd);
		return r;
	}
	while (r == 0 && (e = readdir(d)))
		if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0)
			r = push(stack, e->d_name, depth);
	return r;
}

static int step(int *at, const char *name)
{
	int fd = openat(*at, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)close(*at);
	*at = fd;
	return 0;
}

int cgroup_walk(const char *dir, cgroup_walk_fn *fn, void *data)
{
	auto_close int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_(buf) struct buf stack = BUF_INIT;
	size_t depth = 0;
	int r;

	if (at < 0)
		return -errno;
	r = fn(at, data);
	if (r == 0)
		r = push_children(at, 1, &stack);
	while (r == 0 && stack.len) {
		char name[NAME_MAX + 1];
		size_t below = pop(&stack, name);

		for (; r == 0 && depth >= below; depth--)
			r = step(&at, "..");
		if (r < 0)
			break;
		r = step(&at, name);
		if (r == 0) {
			depth = below;
			r = fn(at, data);
		}
		if (r == 0)
			r = push_children(at, depth + 1, &stack);
		/* It may have gone meanwhile. */
		if (r == -ENOENT)
			r = 0;
	}
	return r;
}
