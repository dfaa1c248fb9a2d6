/* Opening directories of a plan one after the other; see site.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "branch/plan.h"
#include "branch/site.h"

void cursor_init(struct cursor *c, const struct plan *p, int root_fd,
		 bool hostile)
{
	*c = (struct cursor){ .plan = p,
			      .root_fd = root_fd,
			      .hostile = hostile };
}

static void keep_only(struct cursor *c, unsigned int n)
{
	while (c->n_kept > n)
		(void)close(c->kept[--c->n_kept].fd);
}

void cursor_done(struct cursor *c)
{
	keep_only(c, 0);
	free(c->climb);
	c->climb = NULL;
}

static void push(struct cursor *c, uint32_t dir, int fd)
{
	if (c->n_kept == CURSOR_KEPT) {
		(void)close(c->kept[0].fd);
		c->n_kept--;
		memmove(&c->kept[0], &c->kept[1],
			c->n_kept * sizeof(c->kept[0]));
	}
	c->kept[c->n_kept].dir = dir;
	c->kept[c->n_kept].fd = fd;
	c->n_kept++;
}

/* How many of the kept fds lead to @dir: 0 if none is above it. */
static unsigned int find_kept(const struct cursor *c, uint32_t dir)
{
	for (unsigned int i = c->n_kept; i > 0; i--)
		if (c->kept[i - 1].dir == dir)
			return i;
	return 0;
}

/* Collects what has to be opened, innermost first; closes what is beside. */
static int climb(struct cursor *c, uint32_t dir, size_t *ret_n)
{
	unsigned int found = 0;
	size_t n = 0;

	while (c->plan->dirs[dir].parent != PLAN_NONE &&
	       !(found = find_kept(c, dir))) {
		if (n == c->cap_climb) {
			size_t cap = n ? 2 * n : 32;
			uint32_t *grown =
				reallocarray(c->climb, cap, sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			c->climb = grown;
			c->cap_climb = cap;
		}
		c->climb[n++] = dir;
		dir = c->plan->dirs[dir].parent;
	}
	keep_only(c, found);
	*ret_n = n;
	return 0;
}

static int open_step(const struct cursor *c, int from, uint32_t dir)
{
	const struct plan_dir *d = &c->plan->dirs[dir];
	const char *name = plan_text(c->plan, d->name);
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
	auto_close int fd = -1;
	struct object o;
	int r;

	if (!c->hostile) {
		fd = openat(from, name, flags | O_CLOEXEC);
		return fd < 0 ? -errno : take_fd(&fd);
	}
	fd = fd_open_beneath(from, name, flags, 0);
	if (fd < 0 || !d->ino)
		return take_fd(&fd);
	r = object_stat(fd, "", &o);
	if (r < 0)
		return r;
	return o.ino == d->ino ? take_fd(&fd) : -ESTALE;
}

int cursor_open(struct cursor *c, uint32_t dir, int *ret_fd)
{
	size_t n;
	int fd, r = climb(c, dir, &n);

	if (r < 0)
		return r;
	fd = c->n_kept > 0 ? c->kept[c->n_kept - 1].fd : c->root_fd;
	while (n > 0) {
		uint32_t next = c->climb[--n];

		fd = open_step(c, fd, next);
		if (fd < 0)
			return fd;
		push(c, next, fd);
	}
	*ret_fd = fd;
	return 0;
}
