#include "kernel/held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"

enum { BLOCK = 512, FIRST_CAP = 64, OURS = 3 };

struct seen {
	dev_t dev;
	ino_t ino; /* 0: empty */
};

struct held {
	struct seen *v; /* by a hash of the inode */
	size_t n, cap;	/* cap is a power of two */
	struct seen ours[OURS];
	const char *const *dirs;
	dev_t root_dev;
	uint64_t bytes;
};

static bool put(struct seen *v, size_t cap, const struct seen *s)
{
	size_t i = (s->ino * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (cap - 1);

	while (v[i].ino) {
		if (v[i].ino == s->ino && v[i].dev == s->dev)
			return false;
		i = (i + 1) & (cap - 1);
	}
	v[i] = *s;
	return true;
}

static bool grow(struct held *h)
{
	size_t cap = h->cap ? h->cap * 2 : FIRST_CAP;
	struct seen *v = h->n < HELD_MAX ? calloc(cap, sizeof(*v)) : NULL;

	if (!v)
		return false;
	for (size_t i = 0; i < h->cap; i++)
		if (h->v[i].ino)
			(void)put(v, cap, &h->v[i]);
	free(h->v);
	h->v = v;
	h->cap = cap;
	return true;
}

static bool is_new(struct held *h, const struct stat *st)
{
	const struct seen s = { st->st_dev, st->st_ino };

	for (size_t i = 0; i < OURS; i++)
		if (h->ours[i].ino == s.ino && h->ours[i].dev == s.dev)
			return false;
	if (h->n * 2 >= h->cap && !grow(h))
		return false;
	if (!put(h->v, h->cap, &s))
		return false;
	h->n++;
	return true;
}

static bool is_on_overlay(const struct held *h, int dir_fd, const char *name,
			  const struct stat *st)
{
	auto_close int fd = -1;
	struct statfs fs;

	if (major(st->st_dev) || st->st_dev == h->root_dev)
		return false;
	fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);
	return fd >= 0 && fstatfs(fd, &fs) == 0 &&
	       fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* What is too long to be told is not let off. */
static bool was_below(const char *const *dirs, int dir_fd, const char *name)
{
	char path[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, path, sizeof(path) - 1);

	if (n < 0)
		return errno == ENAMETOOLONG;
	path[n] = '\0';
	for (; *dirs; dirs++)
		if (path_is_under(path, *dirs))
			return true;
	return false;
}

static void look_at(struct held *h, int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, 0) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_nlink)
		return;
	if (h->dirs ? was_below(h->dirs, dir_fd, name)
		    : is_on_overlay(h, dir_fd, name, &st)) {
		if (is_new(h, &st))
			h->bytes += (uint64_t)st.st_blocks * BLOCK;
	}
}

static void look_at_process(struct held *h, pid_t pid)
{
	auto_dir DIR *d = NULL;
	const struct dirent *e;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			look_at(h, dirfd(d), e->d_name);
}

uint64_t held_bytes(const pid_t *pids, size_t n, const char *const *dirs)
{
	struct held h = { .dirs = dirs };
	struct stat st;

	if (stat("/", &st) == 0)
		h.root_dev = st.st_dev;
	for (int i = 0; i < OURS; i++)
		if (fstat(i, &st) == 0)
			h.ours[i] = (struct seen){ st.st_dev, st.st_ino };
	for (size_t i = 0; i < n; i++)
		look_at_process(&h, pids[i]);
	free(h.v);
	return h.bytes;
}
