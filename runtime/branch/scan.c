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
#include "branch/modes.h"
#include "branch/origin.h"
#include "branch/scan.h"
#include "branch/walk.h"

static void close_kept(struct scan *s)
{
	for (size_t i = 0; i < s->n_files; i++)
		(void)close(s->files[i]);
	for (size_t i = 0; i < s->n_dirs; i++)
		(void)close(s->dirs[i]);
	s->n_files = s->n_dirs = 0;
}

void scan_done(struct scan *s)
{
	close_kept(s);
	buf_done(&s->notes);
	buf_done(&s->lowers);
}

/* From here on it is only counted. */
static void keep_no_more(struct scan *s)
{
	s->over = true;
	close_kept(s);
}

/* One open directory on the way down. */
struct level {
	DIR *dir;
	int lower_fd;	 /* O_PATH; negative: not to be had */
	bool is_new;	 /* the lower has none, and so nothing in it */
	size_t path_len; /* of the path in front of it */
};

struct tour {
	const struct branch *b;
	struct scan *s;
	bool inside;
	struct buf path;
	struct buf deep; /* paths that wait, each with a NUL before it */
	struct level levels[SCAN_MAX_DEPTH];
	size_t depth;
};

static void close_level(struct level *l)
{
	(void)closedir(l->dir);
	cleanup_close(&l->lower_fd);
}

static void tour_done(struct tour *w)
{
	while (w->depth > 0)
		close_level(&w->levels[--w->depth]);
	buf_done(&w->path);
	buf_done(&w->deep);
}

static bool is_out_of_fds(int r)
{
	return r == -EMFILE || r == -ENFILE;
}

static int keep_dir(struct scan *s, int fd)
{
	int keep;

	if (s->over || s->count_only)
		return 0;
	if (s->n_dirs == SCAN_MAX) {
		keep_no_more(s);
		return 0;
	}
	keep = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (keep < 0)
		return -errno;
	s->dirs[s->n_dirs++] = keep;
	return 0;
}

/* Starts to write the file back, so that many fsyncs wait only once. */
static int keep_file(struct scan *s, int dir_fd, const char *name)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd;

	if (s->over || s->count_only)
		return 0;
	if (s->n_files == SCAN_MAX) {
		keep_no_more(s);
		return 0;
	}
	fd = openat(dir_fd, name, flags);
	if (fd < 0)
		return -errno;
	(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	s->files[s->n_files++] = fd;
	return 0;
}

/* A directory by its path from a root, which may be longer than PATH_MAX. */
static int open_path(int root_fd, const char *path, int flags)
{
	auto_close int dirfd = -1;
	const char *name;
	int r = walk_lookup(root_fd, path, &dirfd, &name);

	return r < 0 ? r
		     : fd_open_beneath(dirfd, name[0] ? name : ".",
				       O_DIRECTORY | O_NOFOLLOW | flags, 0);
}

/* The lower's part of the directory that is about to be entered. */
static void open_lower(const struct tour *w, const char *name,
		       struct level *ret)
{
	const struct level *above = w->depth ? &w->levels[w->depth - 1] : NULL;

	ret->lower_fd = -1;
	ret->is_new = above && above->is_new;
	if (w->b->lower_fd < 0 || ret->is_new || (above && above->lower_fd < 0))
		return;
	ret->lower_fd =
		above ? fd_open_beneath(above->lower_fd, name,
					O_PATH | O_DIRECTORY | O_NOFOLLOW, 0)
		      : open_path(w->b->lower_fd, buf_str(&w->path), O_PATH);
	ret->is_new = ret->lower_fd == -ENOENT || ret->lower_fd == -ENOTDIR ||
		      ret->lower_fd == -ELOOP;
}

/* Goes down into @fd, which is taken over. */
static int enter_dir(struct tour *w, int fd, const char *name, size_t path_len)
{
	auto_close int owned = fd;
	int r = keep_dir(w->s, fd);

	if (r < 0)
		return r;
	w->levels[w->depth].dir = fdopendir(fd);
	if (!w->levels[w->depth].dir)
		return -errno;
	(void)take_fd(&owned);
	open_lower(w, name, &w->levels[w->depth]);
	w->levels[w->depth++].path_len = path_len;
	return 0;
}

static void leave_off(struct buf *b, size_t len)
{
	if (b->data) {
		b->len = len;
		b->data[len] = '\0';
	}
}

static void leave_name(struct tour *w, size_t path_len)
{
	leave_off(&w->path, path_len);
}

/* It is looked at when the directories above are closed. */
static int put_off(struct tour *w, size_t path_len)
{
	if (w->deep.len + w->path.len >= SCAN_PATHS_MAX) {
		keep_no_more(w->s);
		w->s->cut = true;
	} else {
		buf_add(&w->deep, "", 1);
		buf_add(&w->deep, w->path.data, w->path.len);
	}
	leave_name(w, path_len);
	return buf_failed(&w->deep) ? -ENOMEM : 0;
}

static int enter_deep(struct tour *w)
{
	size_t at = w->deep.len;
	int fd;

	while (w->deep.data[at - 1])
		at--;
	buf_clear(&w->path);
	buf_add_str(&w->path, w->deep.data + at);
	leave_off(&w->deep, at - 1);
	if (buf_failed(&w->path))
		return -ENOMEM;
	fd = open_path(w->b->upper_fd, w->path.data, O_RDONLY);
	return fd < 0 ? fd : enter_dir(w, fd, "", 0);
}

static int enter_child(struct tour *w, int dir_fd, const char *name,
		       size_t path_len)
{
	int fd;

	if (w->depth == SCAN_MAX_DEPTH)
		return put_off(w, path_len);
	fd = openat(dir_fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : enter_dir(w, fd, name, path_len);
}

/* The records hold ids as they are outside. */
static void map_ids(const struct tour *w, struct stat *st)
{
	uint32_t id;

	if (!w->inside)
		return;
	if (idmap_to_outside(&w->b->meta.idmap.uids, st->st_uid, &id) == 0)
		st->st_uid = id;
	if (idmap_to_outside(&w->b->meta.idmap.gids, st->st_gid, &id) == 0)
		st->st_gid = id;
}

static void look_at_mode(struct tour *w, struct stat *st)
{
	if (modes_keep_out(st))
		w->s->shut = true;
	modes_tell(&w->b->meta, buf_str(&w->path), st);
}

static bool is_as_made(const struct tour *w, const struct stat *st)
{
	const struct branch_meta *m = &w->b->meta;
	const struct branch_record *r =
		record_find(m->made, m->n_made, buf_str(&w->path));

	return r && record_is(r, st);
}

/* A directory that was copied up because of what happened in it. */
static bool is_in_lower(const struct level *l, const char *name)
{
	auto_close int fd = -1;

	if (l->lower_fd >= 0)
		fd = fd_open_beneath(l->lower_fd, name,
				     O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
	return fd >= 0;
}

static bool is_doubtful(const struct tour *w, const struct level *l,
			const char *name, const struct object *lower)
{
	struct object upper;
	const struct origin_place place = {
		.up_dirfd = dirfd(l->dir),
		.low_dirfd = l->lower_fd,
		.name = name,
		.up = &upper,
		.low = lower,
		.base_time = &w->b->meta.base_time,
		.prefix = branch_xattr_prefix(w->b),
	};

	return S_ISDIR(lower->mode) &&
	       object_stat(place.up_dirfd, name, &upper) == 0 &&
	       origin_is_doubtful(&place);
}

static void note_lower(struct tour *w, const char *name)
{
	const struct level *l = &w->levels[w->depth - 1];
	struct object lower;

	if ((l->lower_fd < 0 && !l->is_new) ||
	    origin_is_noted(&w->s->notes, w->path.data, w->path.len))
		return;
	if (object_stat(l->lower_fd, name, &lower) < 0)
		return;
	if (is_doubtful(w, l, name, &lower))
		origin_add_doubtful(&w->s->lowers, w->path.data, w->path.len);
	else
		origin_add_lower(&w->s->lowers, w->path.data, w->path.len,
				 &lower);
}

static int count(struct tour *w, int dir_fd, const char *name,
		 const struct stat *st)
{
	w->s->n_objects++;
	if (w->s->note_lowers)
		note_lower(w, name);
	if (!S_ISDIR(st->st_mode) ||
	    !is_in_lower(&w->levels[w->depth - 1], name))
		w->s->n_changes++;
	if (!S_ISREG(st->st_mode))
		return 0;
	w->s->bytes += (uint64_t)st->st_size;
	return keep_file(w->s, dir_fd, name);
}

static int visit(struct tour *w, const char *name)
{
	int dir_fd = dirfd(w->levels[w->depth - 1].dir);
	size_t start = w->path.len;
	struct stat st;
	int r = 0;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	map_ids(w, &st);
	if (start > 0)
		buf_add_char(&w->path, '/');
	buf_add_str(&w->path, name);
	if (buf_failed(&w->path))
		return -ENOMEM;
	look_at_mode(w, &st);
	if (!is_as_made(w, &st))
		r = count(w, dir_fd, name, &st);
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return enter_child(w, dir_fd, name, start);
	leave_name(w, start);
	return 0;
}

static void leave_dir(struct tour *w)
{
	struct level *l = &w->levels[--w->depth];

	close_level(l);
	leave_name(w, l->path_len);
}

static int step(struct tour *w)
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

/*
 * The root is always there. What happens in it changes its times, too, and the
 * kernel puts its mtime back when it copies up a child: only the rest of its
 * metadata is counted.
 */
static int visit_root(struct tour *w, int fd)
{
	const struct branch_meta *m = &w->b->meta;
	const struct branch_record *r = record_find(m->made, m->n_made, "");
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	map_ids(w, &st);
	look_at_mode(w, &st);
	if (!r || record_is(r, &st))
		return 0;
	w->s->n_objects++;
	if (r->mode != st.st_mode || r->uid != st.st_uid || r->gid != st.st_gid)
		w->s->n_changes++;
	return 0;
}

int scan_upper(const struct branch *b, bool inside, struct scan *s)
{
	auto_(tour) struct tour w = { .b = b, .s = s, .inside = inside };
	int fd = openat(b->upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : visit_root(&w, fd);

	if (s->note_lowers)
		origin_read_notes(b->dir_fd, &s->notes);
	if (r < 0)
		cleanup_close(&fd);
	else
		r = enter_dir(&w, fd, "", 0);
	while (r == 0 && (w.depth > 0 || w.deep.len > 0))
		r = w.depth > 0 ? step(&w) : enter_deep(&w);
	if (is_out_of_fds(r)) {
		keep_no_more(s);
		s->cut = true;
		r = 0;
	}
	return r;
}
