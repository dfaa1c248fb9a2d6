/*
 * A quick walk over upper at the end of a sandbox: is there anything but what
 * the runtime made, and, if it is little, the fds of it to be synced. The
 * payload is dead, but what it left is hostile: no link is followed, nothing
 * but regular files and directories is opened, depth and width are bounded.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "branch/internal.h"
#include "branch/scan.h"

void scan_done(struct scan *s)
{
	for (size_t i = 0; i < s->n_files; i++)
		(void)close(s->files[i]);
	for (size_t i = 0; i < s->n_dirs; i++)
		(void)close(s->dirs[i]);
	s->n_files = s->n_dirs = 0;
}

/* One open directory on the way down. */
struct level {
	DIR *dir;
	size_t path_len; /* of the path in front of it */
};

struct walk {
	const struct branch *b;
	struct scan *s;
	struct buf path;
	struct level levels[SCAN_MAX_DEPTH];
	size_t depth;
};

static void walk_done(struct walk *w)
{
	while (w->depth > 0)
		(void)closedir(w->levels[--w->depth].dir);
	buf_done(&w->path);
}

/* Goes down into @fd, which is taken over, and keeps a second fd of it. */
static int enter_dir(struct walk *w, int fd, size_t path_len)
{
	auto_close int owned = fd;
	int keep;

	if (w->depth == SCAN_MAX_DEPTH || w->s->n_dirs == SCAN_MAX)
		return -E2BIG;
	keep = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (keep < 0)
		return -errno;
	w->s->dirs[w->s->n_dirs++] = keep;
	w->levels[w->depth].dir = fdopendir(fd);
	if (!w->levels[w->depth].dir)
		return -errno;
	(void)take_fd(&owned);
	w->levels[w->depth++].path_len = path_len;
	return 0;
}

/* Starts to write the file back, so that many fsyncs wait only once. */
static int keep_file(struct walk *w, int dir_fd, const char *name)
{
	int fd;

	if (w->s->n_files == SCAN_MAX)
		return -E2BIG;
	fd = openat(dir_fd, name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC);
	if (fd < 0 && errno == EPERM)
		fd = openat(dir_fd, name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	w->s->files[w->s->n_files++] = fd;
	return 0;
}

static int visit(struct walk *w, const char *name)
{
	int dir_fd = dirfd(w->levels[w->depth - 1].dir);
	size_t start = w->path.len;
	const struct branch_record *made;
	struct stat st;
	int fd, r = 0;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (start > 0)
		buf_add_char(&w->path, '/');
	buf_add_str(&w->path, name);
	if (buf_failed(&w->path))
		return -ENOMEM;
	made = record_find(w->b->meta.made, w->b->meta.n_made,
			   buf_str(&w->path));
	if (!made || !record_is(made, &st)) {
		w->s->n_changed++;
		if (S_ISREG(st.st_mode))
			r = keep_file(w, dir_fd, name);
	}
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode)) {
		fd = openat(dir_fd, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return fd < 0 ? -errno : enter_dir(w, fd, start);
	}
	w->path.len = start;
	w->path.data[start] = '\0';
	return 0;
}

static void leave_dir(struct walk *w)
{
	struct level *l = &w->levels[--w->depth];

	(void)closedir(l->dir);
	if (w->path.data) {
		w->path.len = l->path_len;
		w->path.data[l->path_len] = '\0';
	}
}

static int step(struct walk *w)
{
	const struct dirent *d;

	errno = 0;
	d = readdir(w->levels[w->depth - 1].dir);
	if (!d) {
		if (errno)
			return -errno;
		leave_dir(w);
		return 0;
	}
	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	return visit(w, d->d_name);
}

int scan_upper(const struct branch *b, struct scan *s)
{
	auto_(walk) struct walk w = { .b = b, .s = s };
	int fd = openat(b->upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : enter_dir(&w, fd, 0);

	while (r == 0 && w.depth > 0)
		r = step(&w);
	/* Too much to be kept open: that is an answer too. */
	if (r == -E2BIG || r == -EMFILE || r == -ENFILE) {
		s->over = true;
		r = 0;
	}
	return r;
}
