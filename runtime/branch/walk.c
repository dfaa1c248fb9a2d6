#include "branch/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"

enum {
	SCRATCH_BYTES = 128 * 1024, /* of directory entries at a time */
	FDS_KEPT = 48,		    /* frames whose directories stay open */
};

/* A listed name: one byte of these flags, the name, NUL. */
enum name_flag {
	NAME_IS_DIR = 1 << 0,
	NAME_IN_UPPER = 1 << 1,
	NAME_IN_LOWER = 1 << 2,
};

struct walk_frame {
	int upper_fd, lower_fd;
	uint64_t upper_ino, lower_ino;
	enum walk_region region;
	uint32_t tag;
	size_t path_len;  /* of the directory itself */
	struct buf bytes; /* the names */
	char **names;
	size_t n, next;
};

int time_compare(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	if (a->tv_nsec != b->tv_nsec)
		return a->tv_nsec < b->tv_nsec ? -1 : 1;
	return 0;
}

static struct timespec time_of(const struct statx_timestamp *t)
{
	return (struct timespec){ .tv_sec = t->tv_sec,
				  .tv_nsec = (long)t->tv_nsec };
}

int object_stat(int dirfd, const char *name, struct object *ret)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
		    (name[0] ? 0 : AT_EMPTY_PATH);
	struct statx st;

	*ret = (struct object){ .mode = 0 };
	if (dirfd < 0)
		return 0;
	if (statx(dirfd, name, flags, STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	*ret = (struct object){
		.mode = st.stx_mode,
		.uid = st.stx_uid,
		.gid = st.stx_gid,
		.nlink = st.stx_nlink,
		.ino = st.stx_ino,
		.size = st.stx_size,
		.blocks = st.stx_blocks,
		.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.rdev = makedev(st.stx_rdev_major, st.stx_rdev_minor),
		.mtime = time_of(&st.stx_mtime),
		.ctime = time_of(&st.stx_ctime),
		.is_mount = st.stx_attributes & STATX_ATTR_MOUNT_ROOT,
		.is_locked = st.stx_attributes &
			     (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND),
	};
	if (st.stx_mask & STATX_BTIME)
		ret->btime = time_of(&st.stx_btime);
	return 0;
}

bool object_is_whiteout(const struct object *o)
{
	return S_ISCHR(o->mode) && o->rdev == makedev(0, 0);
}

int walk_init(struct walk *w, int upper_fd, int lower_fd, const char *prefix,
	      struct error *err)
{
	*w = (struct walk){ .upper_fd = upper_fd,
			    .lower_fd = lower_fd,
			    .prefix = prefix };
	w->scratch = malloc(SCRATCH_BYTES);
	if (!w->scratch)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot walk");
	return 0;
}

static void close_frame_fds(struct walk_frame *f)
{
	cleanup_close(&f->upper_fd);
	cleanup_close(&f->lower_fd);
	f->upper_fd = f->lower_fd = -1;
}

static void frame_done(struct walk_frame *f)
{
	close_frame_fds(f);
	buf_done(&f->bytes);
	free(f->names);
}

void walk_done(struct walk *w)
{
	while (w->depth > 0)
		frame_done(&w->frames[--w->depth]);
	free(w->frames);
	free(w->scratch);
	buf_done(&w->path);
	xattrs_done(&w->entry.private);
	w->frames = NULL;
	w->scratch = NULL;
}

static int walk_error(const struct walk *w, int sys, const char *what,
		      struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;

	path_quote(&b, buf_str(&w->path), w->path.len);
	return error_set(err, ERR_SYSTEM, sys, "cannot %s '%s'", what,
			 w->path.len ? buf_str(&b) : ".");
}

/* The order of a listing; see the header. */
static int compare_names(const void *a, const void *b)
{
	const unsigned char *x = *(unsigned char *const *)a;
	const unsigned char *y = *(unsigned char *const *)b;
	unsigned char x_end = *x++ & NAME_IS_DIR ? '/' : '\0';
	unsigned char y_end = *y++ & NAME_IS_DIR ? '/' : '\0';

	while (*x && *x == *y) {
		x++;
		y++;
	}
	return (*x ? *x : x_end) - (*y ? *y : y_end);
}

static int compare_plain(const void *a, const void *b)
{
	return strcmp(*(char *const *)a + 1, *(char *const *)b + 1);
}

/* A name that exists on both sides was listed twice: makes one of the two. */
static void merge_twins(struct walk_frame *f)
{
	size_t kept = 0;

	qsort(f->names, f->n, sizeof(*f->names), compare_plain);
	for (size_t i = 0; i < f->n; i++) {
		if (kept > 0 &&
		    compare_plain(&f->names[kept - 1], &f->names[i]) == 0)
			f->names[kept - 1][0] |= f->names[i][0];
		else
			f->names[kept++] = f->names[i];
	}
	f->n = kept;
}

/*
 * A whiteout counts as a directory where it removes one. Where the file system
 * does not tell types, everything is looked up.
 */
static bool sorts_as_dir(const struct walk_frame *f, int dirfd,
			 const struct dirent64 *d)
{
	struct object o;

	if (d->d_type == DT_UNKNOWN && object_stat(dirfd, d->d_name, &o) == 0 &&
	    !object_is_whiteout(&o))
		return S_ISDIR(o.mode);
	if (d->d_type != DT_CHR && d->d_type != DT_UNKNOWN)
		return d->d_type == DT_DIR;
	return f->region == WALK_MERGED &&
	       object_stat(f->lower_fd, d->d_name, &o) == 0 && S_ISDIR(o.mode);
}

static void add_name(struct walk_frame *f, int dirfd, const struct dirent64 *d,
		     enum name_flag side)
{
	const char *name = d->d_name;
	int flags = side;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return;
	if (sorts_as_dir(f, dirfd, d))
		flags |= NAME_IS_DIR;
	buf_add_char(&f->bytes, (char)flags);
	buf_add(&f->bytes, name, strlen(name) + 1);
	f->n++;
}

static int list_side(struct walk *w, struct walk_frame *f, int dirfd,
		     enum name_flag side)
{
	auto_close int fd =
		openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = getdents64(fd, w->scratch, SCRATCH_BYTES);

		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *d =
				(const void *)(w->scratch + at);

			add_name(f, fd, d, side);
			at += d->d_reclen;
		}
	}
}

static int list_frame(struct walk *w, struct walk_frame *f)
{
	bool both = f->region == WALK_REPLACED;
	char *p;
	int r = 0;

	if (f->upper_fd >= 0)
		r = list_side(w, f, f->upper_fd, NAME_IN_UPPER);
	if (r == 0 && (both || f->region == WALK_DELETED) && f->lower_fd >= 0)
		r = list_side(w, f, f->lower_fd, NAME_IN_LOWER);
	if (r < 0)
		return r;
	if (buf_failed(&f->bytes))
		return -ENOMEM;
	if (f->n == 0)
		return 0;
	f->names = calloc(f->n, sizeof(*f->names));
	if (!f->names)
		return -ENOMEM;
	p = f->bytes.data;
	for (size_t i = 0; i < f->n; i++) {
		f->names[i] = p;
		p += 2 + strlen(p + 1);
	}
	if (both)
		merge_twins(f);
	qsort(f->names, f->n, sizeof(*f->names), compare_names);
	return 0;
}

/* Opens one level down; in the lower nobody may lead us elsewhere. */
static int open_child(int dirfd, const char *name, const struct object *o,
		      bool hostile, int *ret_fd)
{
	int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
	int fd;

	if (dirfd < 0 || !S_ISDIR(o->mode))
		return 0;
	if (!name[0])
		fd = openat(dirfd, ".", flags | O_CLOEXEC);
	else if (hostile)
		fd = fd_open_beneath(dirfd, name, flags, 0);
	else
		fd = openat(dirfd, name, flags | O_CLOEXEC);
	if (fd < 0)
		return hostile && name[0] ? fd : -errno;
	*ret_fd = fd;
	return 0;
}

int walk_open_lower(const struct walk_entry *e, int *ret_fd)
{
	return open_child(e->lower_dirfd, e->name, &e->lower, true, ret_fd);
}

int walk_enter(struct walk *w, enum walk_region region, uint32_t tag,
	       struct error *err)
{
	struct walk_entry *e = &w->entry;
	struct walk_frame f = { .upper_fd = -1,
				.lower_fd = -1,
				.upper_ino = e->upper.ino,
				.lower_ino = e->lower.ino,
				.region = region,
				.tag = tag,
				.path_len = w->path.len };
	struct walk_frame *grown;
	int r = 0;

	if (w->depth == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 16;

		grown = reallocarray(w->frames, cap, sizeof(*grown));
		if (!grown)
			return walk_error(w, ENOMEM, "walk into", err);
		w->frames = grown;
		w->cap = cap;
	}
	if (region != WALK_DELETED)
		r = open_child(e->upper_dirfd, e->name, &e->upper, false,
			       &f.upper_fd);
	if (r == 0 && region != WALK_NEW)
		r = open_child(e->lower_dirfd, e->name, &e->lower, true,
			       &f.lower_fd);
	if (r == 0)
		r = list_frame(w, &f);
	if (r < 0) {
		frame_done(&f);
		return walk_error(w, -r, "read the directory", err);
	}
	w->frames[w->depth++] = f;
	if (w->depth > FDS_KEPT)
		close_frame_fds(&w->frames[w->depth - 1 - FDS_KEPT]);
	return 0;
}

/* One level up from @fd, if that is still the directory we came from. */
static int open_parent(int fd, uint64_t ino, int *ret_fd)
{
	auto_close int up = -1;
	struct object o;
	int r;

	if (fd < 0)
		return 0;
	up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (up < 0)
		return -errno;
	r = object_stat(up, "", &o);
	if (r < 0)
		return r;
	if (o.ino != ino)
		return -ESTALE;
	*ret_fd = take_fd(&up);
	return 0;
}

static bool has_closed_fds(const struct walk_frame *f)
{
	return f->upper_fd < 0 && f->lower_fd < 0;
}

/* Opens again the fds of the directory above @child. */
static int reopen_above(struct walk_frame *f, const struct walk_frame *child)
{
	int r = 0;

	if (!has_closed_fds(f))
		return 0;
	if (f->region != WALK_DELETED)
		r = open_parent(child->upper_fd, f->upper_ino, &f->upper_fd);
	if (r == 0 && f->region != WALK_NEW)
		r = open_parent(child->lower_fd, f->lower_ino, &f->lower_fd);
	return r;
}

static void cut_path(struct walk *w, size_t len)
{
	if (!w->path.data)
		return;
	w->path.len = len;
	w->path.data[len] = '\0';
}

/* The top directory is done: tells so, and drops it with the next call. */
static int leave(struct walk *w, struct walk_entry **ret, struct error *err)
{
	struct walk_frame *f = &w->frames[w->depth - 1];
	int r = w->depth > 1 ? reopen_above(f - 1, f) : 0;

	if (r < 0)
		return walk_error(w, -r, "go back above", err);
	cut_path(w, f->path_len);
	w->entry = (struct walk_entry){
		.path = buf_str(&w->path),
		.path_len = w->path.len,
		.leaving = true,
		.upper_dirfd = w->depth > 1 ? f[-1].upper_fd : -1,
		.lower_dirfd = w->depth > 1 ? f[-1].lower_fd : -1,
		.tag = f->tag,
	};
	w->entry.name = strrchr(w->entry.path, '/');
	w->entry.name = w->entry.name ? w->entry.name + 1 : w->entry.path;
	frame_done(f);
	w->depth--;
	*ret = &w->entry;
	return 1;
}

/* Which sides matter depends on the region; mode stays 0 for the other. */
static int look_up(struct walk *w, struct walk_entry *e, int flags)
{
	int r = 0;

	if (flags & NAME_IN_UPPER)
		r = object_stat(e->upper_dirfd, e->name, &e->upper);
	if (r == 0 && (e->region != WALK_NEW))
		r = object_stat(e->lower_dirfd, e->name, &e->lower);
	if (r < 0 || !e->upper.mode)
		return r;
	e->whiteout = object_is_whiteout(&e->upper);
	if (e->whiteout)
		return 0;
	r = xattrs_read_private(e->upper_dirfd, e->name, w->prefix,
				&e->private);
	if (r < 0 || e->private.n == 0)
		return r == -ENOENT ? 0 : r;
	return 1;
}

static const struct xattr *
find_private(const struct walk *w, const struct walk_entry *e, const char *key)
{
	size_t n = strlen(w->prefix);

	for (size_t i = 0; i < e->private.n; i++)
		if (strcmp(e->private.v[i].key + n, key) == 0)
			return &e->private.v[i];
	return NULL;
}

/* What the overlay's attributes say; those we never ask for are refused. */
static int read_marks(struct walk *w, struct walk_entry *e, struct error *err)
{
	const struct xattr *opaque = find_private(w, e, "opaque");

	if (find_private(w, e, "redirect") || find_private(w, e, "metacopy")) {
		(void)walk_error(w, EOPNOTSUPP, "read", err);
		return error_hint(err, "it was written with redirect_dir or "
				       "metacopy, and holds no data");
	}
	e->opaque = S_ISDIR(e->upper.mode) && opaque && opaque->len == 1 &&
		    opaque->value[0] == 'y';
	if (S_ISREG(e->upper.mode) && e->upper.size == 0 &&
	    find_private(w, e, "whiteout"))
		e->whiteout = true;
	return 0;
}

static int tell(struct walk *w, int flags, struct walk_entry **ret,
		struct error *err)
{
	struct walk_entry *e = &w->entry;
	int r = look_up(w, e, flags);

	if (r == 1)
		r = read_marks(w, e, err);
	else if (r < 0)
		r = walk_error(w, -r, "look up", err);
	if (r < 0)
		return r;
	/* The root may be one: it is where we were told to look. */
	if (e->path_len == 0)
		e->lower.is_mount = false;
	*ret = e;
	return 1;
}

int walk_next(struct walk *w, struct walk_entry **ret, struct error *err)
{
	struct walk_frame *f;
	const char *name;

	xattrs_done(&w->entry.private);
	if (!w->started) {
		w->started = true;
		w->entry = (struct walk_entry){ .path = "",
						.name = "",
						.upper_dirfd = w->upper_fd,
						.lower_dirfd = w->lower_fd,
						.tag = WALK_NO_TAG };
		return tell(w, NAME_IN_UPPER, ret, err);
	}
	if (w->depth == 0)
		return 0;
	f = &w->frames[w->depth - 1];
	cut_path(w, f->path_len);
	if (f->next == f->n)
		return leave(w, ret, err);
	name = f->names[f->next++];
	if (f->path_len > 0)
		buf_add_char(&w->path, '/');
	buf_add_str(&w->path, name + 1);
	if (buf_failed(&w->path))
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot walk");
	w->entry = (struct walk_entry){ .path = w->path.data,
					.path_len = w->path.len,
					.name = w->path.data + w->path.len -
						strlen(name + 1),
					.upper_dirfd = f->upper_fd,
					.lower_dirfd = f->lower_fd,
					.region = f->region,
					.tag = f->tag };
	return tell(w, name[0], ret, err);
}

int walk_lookup(int root_fd, const char *path, int *ret_dirfd,
		const char **ret_name)
{
	auto_close int fd =
		openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *slash;

	if (fd < 0)
		return -errno;
	while ((slash = strchr(path, '/'))) {
		auto_free char *name = strndup(path, (size_t)(slash - path));
		int next;

		if (!name)
			return -ENOMEM;
		next = fd_open_beneath(fd, name,
				       O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
		if (next < 0)
			return next;
		(void)close(fd);
		fd = next;
		path = slash + 1;
	}
	*ret_dirfd = take_fd(&fd);
	*ret_name = path;
	return 0;
}
