#include "branch/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/internal.h"

enum {
	BLOCK = 512, /* the unit of st_blocks */
	DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

struct count {
	struct usage *usage;
	uint64_t limit;
	struct buf path; /* of the directory that is read */
	struct buf deep; /* paths that wait, each with a NUL before it */
	DIR *open[USAGE_OPEN_MAX];
	size_t path_len[USAGE_OPEN_MAX]; /* of the directories around */
	size_t n_open;
};

/* A file that has other names elsewhere counts by shares, which add up. */
static void add(struct usage *u, const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * BLOCK;

	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1)
		bytes = (bytes + st->st_nlink - 1) / st->st_nlink;
	u->bytes += bytes;
}

static void cut(struct buf *b, size_t len)
{
	if (len < b->len) {
		b->len = len;
		b->data[len] = '\0';
	}
}

/* It may be gone, or be something else by now. */
static int skip(struct count *c, int sys)
{
	if (sys == EACCES || sys == EPERM)
		c->usage->is_shut = true;
	return sys == EMFILE || sys == ENFILE || sys == ENOMEM ? -sys : 0;
}

static int push(struct count *c, int fd, size_t path_len)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		int sys = errno;

		cleanup_close(&fd);
		return skip(c, sys);
	}
	c->path_len[c->n_open] = path_len;
	c->open[c->n_open++] = d;
	return 0;
}

static void pop(struct count *c)
{
	c->n_open--;
	(void)closedir(c->open[c->n_open]);
	cut(&c->path, c->path_len[c->n_open]);
}

/* Goes into @name now, or later where many directories are open already. */
static int enter(struct count *c, int dir_fd, const char *name)
{
	size_t len = c->path.len, n = c->n_open;
	int r = -EMFILE;

	buf_printf(&c->path, "%s%s", len ? "/" : "", name);
	if (n < USAGE_OPEN_MAX)
		r = push(c, openat(dir_fd, name, DIR_FLAGS), len);
	if (c->n_open > n)
		return buf_failed(&c->path) ? -ENOMEM : 0;
	if (r != -EMFILE && r != -ENFILE) {
		cut(&c->path, len);
		return r;
	}
	if (c->deep.len + c->path.len > USAGE_PATHS_MAX)
		return -E2BIG;
	buf_add(&c->deep, "", 1);
	buf_add(&c->deep, c->path.data, c->path.len);
	cut(&c->path, len);
	return buf_failed(&c->path) || buf_failed(&c->deep) ? -ENOMEM : 0;
}

static int look(struct count *c)
{
	DIR *d = c->open[c->n_open - 1];
	const struct dirent *e = readdir(d);
	struct stat st;

	if (!e) {
		pop(c);
		return 0;
	}
	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
		return 0;
	if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return skip(c, errno);
	add(c->usage, &st);
	return S_ISDIR(st.st_mode) ? enter(c, dirfd(d), e->d_name) : 0;
}

/* Paths may be longer than the kernel takes at once. */
static int open_deep(int root_fd, char *path)
{
	auto_close int at = -1;

	while (strlen(path) >= PATH_MAX) {
		char *end = path + PATH_MAX - 1;
		int fd;

		while (*end != '/')
			end--;
		*end = '\0';
		fd = fd_open_beneath(at < 0 ? root_fd : at, path,
				     O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
		*end = '/';
		if (fd < 0)
			return fd;
		cleanup_close(&at);
		at = fd;
		path = end + 1;
	}
	return fd_open_beneath(at < 0 ? root_fd : at, path, DIR_FLAGS, 0);
}

static int take_deep(struct count *c, int root_fd)
{
	size_t at = c->deep.len;
	int fd;

	while (c->deep.data[at - 1])
		at--;
	buf_clear(&c->path);
	buf_add_str(&c->path, c->deep.data + at);
	cut(&c->deep, at - 1);
	if (buf_failed(&c->path))
		return -ENOMEM;
	fd = open_deep(root_fd, c->path.data);
	if (fd < 0)
		return skip(c, -fd);
	return push(c, fd, 0);
}

int usage_add(int fd, uint64_t limit, struct usage *u)
{
	struct count c = {
		.usage = u, .limit = limit, .path = BUF_INIT, .deep = BUF_INIT
	};
	int r = push(&c, openat(fd, ".", DIR_FLAGS), 0);

	while (r == 0 && u->bytes <= limit && (c.n_open || c.deep.len))
		r = c.n_open ? look(&c) : take_deep(&c, fd);
	while (c.n_open)
		pop(&c);
	buf_done(&c.path);
	buf_done(&c.deep);
	return r;
}

struct work {
	struct branch *b;
	uint64_t limit;
	struct usage usage;
};

static int count_all(void *data, int out_fd, struct error *err)
{
	struct work *w = data;
	int r = 0;

	w->usage = (struct usage){ .bytes = 0 };
	for (size_t i = 0; r == 0 && i < branch_n_roots(w->b); i++) {
		const struct branch *root = branch_root(w->b, i);

		if (root->upper_fd >= 0)
			r = usage_add(root->upper_fd, w->limit, &w->usage);
		for (size_t k = 0; r == 0 && k < root->n_layers; k++)
			r = usage_add(root->layers[k].fd, w->limit, &w->usage);
	}
	if (r == 0 && out_fd >= 0)
		r = fd_write_full(out_fd, &w->usage, sizeof(w->usage));
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot tell how large branch '%s' is",
				 branch_name(w->b))
		     : 0;
}

static int receive(void *data, int in_fd, struct error *err)
{
	struct work *w = data;
	ssize_t n = fd_read_full(in_fd, &w->usage, sizeof(w->usage));

	return n < 0 ? (int)n : 0;
}

int branch_usage(struct branch *b, uint64_t limit, struct usage *ret,
		 struct error *err)
{
	struct work w = { .b = b, .limit = limit };
	int r = count_all(&w, -1, err);

	/* What is not seen can only be more. */
	if (r == 0 && w.usage.is_shut && w.usage.bytes <= limit &&
	    branch_needs_userns(&b->meta))
		r = branch_enter(b, count_all, receive, &w, err);
	if (r == 0)
		*ret = w.usage;
	return r;
}

uint64_t branch_free_space(struct branch *b, int more_fd)
{
	dev_t seen[ROOTS_MAX + 1] = { 0 };
	uint64_t sum = 0;
	size_t n = 0;

	for (size_t i = 0; i <= branch_n_roots(b); i++) {
		int fd = i < branch_n_roots(b) ? branch_root(b, i)->upper_fd
					       : more_fd;
		struct statvfs fs;
		struct stat st;
		size_t k = 0;

		if (fd < 0 || fstat(fd, &st) < 0 || fstatvfs(fd, &fs) < 0)
			continue;
		while (k < n && seen[k] != st.st_dev)
			k++;
		if (k < n)
			continue;
		seen[n++] = st.st_dev;
		sum += (uint64_t)fs.f_bfree * fs.f_frsize;
	}
	return sum;
}
