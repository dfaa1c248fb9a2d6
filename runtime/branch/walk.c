#include "branch/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "branch/internal.h"
#include "branch/modes.h"

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
	size_t sides, n_sides; /* of the uppers: first and number */
	struct walk_side lower;
	enum walk_region region;
	uint32_t tag;
	size_t path_len;  /* of the directory itself */
	struct buf bytes; /* the names */
	char **names;
	size_t n, next;
};

int walk_init(struct walk *w, int upper_fd, int lower_fd, const char *prefix,
	      struct error *err)
{
	*w = (struct walk){ .upper_fd = upper_fd,
			    .lower_fd = lower_fd,
			    .prefix = prefix };
	w->scratch = malloc(SCRATCH_BYTES);
	if (!w->scratch || walk_add_upper(w, upper_fd) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot walk");
	return 0;
}

int walk_add_upper(struct walk *w, int fd)
{
	size_t n = w->n_roots;
	struct walk_side *roots = reallocarray(w->roots, n + 1, sizeof(*roots));
	size_t *joined;

	if (!roots)
		return -ENOMEM;
	w->roots = roots;
	joined = reallocarray(w->joined, n + 1, sizeof(*joined));
	if (!joined)
		return -ENOMEM;
	w->joined = joined;
	roots[w->n_roots++] = (struct walk_side){ .fd = fd, .layer = n };
	return 0;
}

/* The directory that is being listed, in the uppers that have it. */
static const struct walk_side *sides_here(const struct walk *w, size_t *ret_n)
{
	const struct walk_frame *f = w->frames;

	if (w->depth == 0) {
		*ret_n = w->n_roots;
		return w->roots;
	}
	f += w->depth - 1;
	*ret_n = f->n_sides;
	return w->sides + f->sides;
}

static int upper_fd_of(const struct walk *w, const struct walk_frame *f)
{
	return f->n_sides > 0 ? w->sides[f->sides].fd : -1;
}

static void close_side(struct walk_side *s)
{
	cleanup_close(&s->fd);
	s->fd = -1;
}

static void close_frame_fds(struct walk *w, struct walk_frame *f)
{
	for (size_t i = 0; i < f->n_sides; i++)
		close_side(&w->sides[f->sides + i]);
	close_side(&f->lower);
}

/* It is the last one. */
static void frame_done(struct walk *w, struct walk_frame *f)
{
	close_frame_fds(w, f);
	w->n_sides = f->sides;
	buf_done(&f->bytes);
	free(f->names);
}

void walk_done(struct walk *w)
{
	while (w->depth > 0)
		frame_done(w, &w->frames[--w->depth]);
	free(w->frames);
	free(w->scratch);
	free(w->roots);
	free(w->sides);
	free(w->joined);
	buf_done(&w->path);
	xattrs_done(&w->entry.private);
	*w = (struct walk){ .n_roots = 0 };
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

/* Twins in the order in which they were listed. */
static int compare_plain(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	int order = strcmp(x + 1, y + 1);

	return order ? order : (x > y) - (x < y);
}

/* Of two uppers the newer one, which is listed later, says what it is. */
static void join_twins(char *to, char with)
{
	if (*to & with & NAME_IN_UPPER)
		*to = (char)(*to & ~NAME_IS_DIR);
	*to = (char)(*to | with);
}

/* A name that exists on several sides was listed as often: makes them one. */
static void merge_twins(struct walk_frame *f)
{
	size_t kept = 0;

	qsort(f->names, f->n, sizeof(*f->names), compare_plain);
	for (size_t i = 0; i < f->n; i++) {
		if (kept > 0 &&
		    strcmp(f->names[kept - 1] + 1, f->names[i] + 1) == 0)
			join_twins(f->names[kept - 1], f->names[i][0]);
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
	       object_stat(f->lower.fd, d->d_name, &o) == 0 && S_ISDIR(o.mode);
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

/*
 * The oldest upper first: what moves up meanwhile (collapse.c) is met at least
 * once.
 */
static int list_uppers(struct walk *w, struct walk_frame *f)
{
	int r = 0;

	for (size_t i = f->n_sides; r == 0 && i > 0; i--) {
		int fd = w->sides[f->sides + i - 1].fd;

		if (fd >= 0)
			r = list_side(w, f, fd, NAME_IN_UPPER);
	}
	return r;
}

static int list_frame(struct walk *w, struct walk_frame *f)
{
	bool both = f->region == WALK_REPLACED;
	char *p;
	int r = list_uppers(w, f);

	if (r == 0 && (both || f->region == WALK_DELETED) && f->lower.fd >= 0)
		r = list_side(w, f, f->lower.fd, NAME_IN_LOWER);
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
	if (both || f->n_sides > 1)
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
		fd = hostile && name[0] ? fd : -errno;
	/* Gone meanwhile: the sandbox is alive, or the host removed it. */
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int walk_open_lower(const struct walk_entry *e, int *ret_fd)
{
	return open_child(e->lower_dirfd, e->name, &e->lower, true, ret_fd);
}

static int add_side(struct walk *w, struct walk_frame *f, int fd, uint64_t ino,
		    size_t layer)
{
	if (w->n_sides == w->cap_sides) {
		size_t cap = w->cap_sides ? w->cap_sides * 2 : 16;
		struct walk_side *grown =
			reallocarray(w->sides, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		w->sides = grown;
		w->cap_sides = cap;
	}
	/* Gone meanwhile: there is nothing to open again. */
	w->sides[w->n_sides++] =
		(struct walk_side){ fd, fd < 0 ? 0 : ino, layer };
	f->n_sides++;
	return 0;
}

/* Opens the entry in the @k-th of the uppers that have its parent. */
static int enter_side(struct walk *w, struct walk_frame *f, size_t k)
{
	const struct walk_entry *e = &w->entry;
	size_t n;
	struct walk_side parent = sides_here(w, &n)[k];
	struct object o = e->upper;
	auto_close int fd = -1;
	int r = k == w->found ? 0 : object_stat(parent.fd, e->name, &o);

	if (r == 0)
		r = open_child(parent.fd, e->name, &o, false, &fd);
	if (r == 0)
		r = add_side(w, f, fd, o.ino, parent.layer);
	if (r == 0)
		(void)take_fd(&fd);
	return r;
}

static int enter_uppers(struct walk *w, struct walk_frame *f)
{
	int r = enter_side(w, f, w->found);

	for (size_t i = 0; r == 0 && i < w->n_joined; i++)
		r = enter_side(w, f, w->joined[i]);
	return r;
}

static struct walk_frame *grow_frames(struct walk *w)
{
	size_t cap = w->cap ? w->cap * 2 : 16;
	struct walk_frame *grown;

	if (w->depth < w->cap)
		return w->frames;
	grown = reallocarray(w->frames, cap, sizeof(*grown));
	if (grown) {
		w->frames = grown;
		w->cap = cap;
	}
	return grown;
}

int walk_enter(struct walk *w, enum walk_region region, uint32_t tag,
	       struct error *err)
{
	struct walk_entry *e = &w->entry;
	struct walk_frame f = { .sides = w->n_sides,
				.lower = { .fd = -1, .ino = e->lower.ino },
				.region = region,
				.tag = tag,
				.path_len = w->path.len };
	size_t kept = FDS_KEPT / w->n_roots + 1;
	int r = 0;

	if (!grow_frames(w))
		return walk_error(w, ENOMEM, "walk into", err);
	if (region != WALK_DELETED)
		r = enter_uppers(w, &f);
	if (r == 0 && region != WALK_NEW)
		r = open_child(e->lower_dirfd, e->name, &e->lower, true,
			       &f.lower.fd);
	if (f.lower.fd < 0)
		f.lower.ino = 0;
	if (r == 0)
		r = list_frame(w, &f);
	if (r < 0) {
		frame_done(w, &f);
		return walk_error(w, -r, "read the directory", err);
	}
	w->frames[w->depth++] = f;
	if (w->depth > kept)
		close_frame_fds(w, &w->frames[w->depth - 1 - kept]);
	return 0;
}

/* From the top; @path is that of the directory itself. */
static int open_again(int root_fd, const char *path, int *ret_fd)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
	auto_close int dirfd = -1;
	const char *name;
	int fd, r = walk_lookup(root_fd, path, &dirfd, &name);

	if (r < 0)
		return r;
	fd = name[0] ? fd_open_beneath(dirfd, name, flags, 0) : take_fd(&dirfd);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

/*
 * The directory of @s again: one level up from @child_fd, if that is there, and
 * if that is still the directory we came from.
 */
static int reopen(struct walk_side *s, int child_fd, int root_fd,
		  const char *path)
{
	auto_close int fd = -1;
	struct object o;
	int r = 0;

	if (child_fd < 0)
		r = open_again(root_fd, path, &fd);
	else
		fd = openat(child_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r == 0)
		r = fd < 0 ? -errno : object_stat(fd, "", &o);
	if (r < 0)
		return r;
	if (o.ino != s->ino)
		return -ESTALE;
	s->fd = take_fd(&fd);
	return 0;
}

/* Where @child is in that upper; -1: nowhere. */
static int fd_in_layer(const struct walk *w, const struct walk_frame *child,
		       size_t layer)
{
	for (size_t i = 0; i < child->n_sides; i++)
		if (w->sides[child->sides + i].layer == layer)
			return w->sides[child->sides + i].fd;
	return -1;
}

static bool has_closed_fds(const struct walk *w, const struct walk_frame *f)
{
	return upper_fd_of(w, f) < 0 && f->lower.fd < 0;
}

/* Opens again the fds of the directory above @child, which is at @path. */
static int reopen_above(struct walk *w, struct walk_frame *f,
			const struct walk_frame *child, const char *path)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_sides; i++) {
		struct walk_side *s = &w->sides[f->sides + i];

		if (s->ino)
			r = reopen(s, fd_in_layer(w, child, s->layer),
				   w->roots[s->layer].fd, path);
	}
	if (r == 0 && f->lower.ino)
		r = reopen(&f->lower, child->lower.fd, w->lower_fd, path);
	return r;
}

static void cut_path(struct walk *w, size_t len)
{
	if (!w->path.data)
		return;
	w->path.len = len;
	w->path.data[len] = '\0';
}

static int prepare_leave(struct walk *w, struct walk_frame *f)
{
	auto_free char *path = NULL;

	if (w->depth == 1 || !has_closed_fds(w, f - 1))
		return 0;
	path = strndup(buf_str(&w->path), f[-1].path_len);
	return path ? reopen_above(w, f - 1, f, path) : -ENOMEM;
}

/* The top directory is done: tells so, and drops it with the next call. */
static int leave(struct walk *w, struct walk_entry **ret, struct error *err)
{
	struct walk_frame *f = &w->frames[w->depth - 1];
	int r = prepare_leave(w, f);

	if (r < 0)
		return walk_error(w, -r, "go back above", err);
	cut_path(w, f->path_len);
	w->entry = (struct walk_entry){
		.path = buf_str(&w->path),
		.path_len = w->path.len,
		.leaving = true,
		.upper_dirfd = w->depth > 1 ? upper_fd_of(w, f - 1) : -1,
		.lower_dirfd = w->depth > 1 ? f[-1].lower.fd : -1,
		.tag = f->tag,
	};
	w->entry.name = strrchr(w->entry.path, '/');
	w->entry.name = w->entry.name ? w->entry.name + 1 : w->entry.path;
	frame_done(w, f);
	w->depth--;
	*ret = &w->entry;
	return 1;
}

static bool is_whiteout_of_nothing(const struct walk_entry *e)
{
	return e->whiteout && (e->region != WALK_MERGED || !e->lower.mode);
}

/* In the newest upper that has it. */
static int find_upper(struct walk *w, struct walk_entry *e)
{
	size_t n;
	const struct walk_side *sides = sides_here(w, &n);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		r = object_stat(sides[i].fd, e->name, &e->upper);
		if (!e->upper.mode)
			continue;
		w->found = i;
		e->upper_dirfd = sides[i].fd;
		break;
	}
	return r;
}

static void tell_noted_mode(const struct walk *w, struct walk_entry *e)
{
	const struct branch_record *r =
		w->noted ? modes_find(w->noted, e->path, e->upper.ino) : NULL;

	if (r)
		e->upper.mode = r->mode;
}

/* Which sides matter depends on the region; mode stays 0 for the other. */
static int look_up(struct walk *w, struct walk_entry *e, int flags)
{
	int r = 0;

	w->found = 0;
	if (flags & NAME_IN_UPPER)
		r = find_upper(w, e);
	/* It moved up while we looked down. */
	if (r == 0 && (flags & NAME_IN_UPPER) && !e->upper.mode &&
	    w->n_roots > 1)
		r = find_upper(w, e);
	if (r == 0 && (e->region != WALK_NEW))
		r = object_stat(e->lower_dirfd, e->name, &e->lower);
	if (r < 0 || !e->upper.mode)
		return r;
	tell_noted_mode(w, e);
	e->whiteout = object_is_whiteout(&e->upper);
	/* It hid what an older upper has. */
	if (w->n_roots > 1 && is_whiteout_of_nothing(e)) {
		e->whiteout = false;
		e->upper = (struct object){ .mode = 0 };
	}
	if (e->whiteout || !e->upper.mode)
		return 0;
	r = xattrs_read_private(e->upper_dirfd, e->name, w->prefix,
				&e->private);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
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
	const struct xattr *mtime = find_private(w, e, "mtime");

	if (find_private(w, e, "redirect") || find_private(w, e, "metacopy")) {
		(void)walk_error(w, EOPNOTSUPP, "read", err);
		return error_hint(err, "it was written with redirect_dir or "
				       "metacopy, and holds no data");
	}
	e->opaque = S_ISDIR(e->upper.mode) && opaque && opaque->len == 1 &&
		    opaque->value[0] == 'y';
	/* Noted by collapse.c, which is at work in the directory. */
	if (S_ISDIR(e->upper.mode) && mtime &&
	    mtime->len == sizeof(e->upper.mtime))
		memcpy(&e->upper.mtime, mtime->value, mtime->len);
	if (S_ISREG(e->upper.mode) && e->upper.size == 0 &&
	    find_private(w, e, "whiteout"))
		e->whiteout = true;
	return 0;
}

/* What an older upper has made was not copied up from the lower. */
static void check_origin(const struct walk *w, struct walk_entry *e, int dirfd)
{
	struct xattr *origin = (struct xattr *)find_private(w, e, "origin");

	if (!origin || xattr_get(dirfd, e->name, origin->key, NULL, 0) >= 0)
		return;
	free(origin->key);
	free(origin->value);
	memmove(origin, origin + 1,
		(size_t)(e->private.v + e->private.n - (origin + 1)) *
			sizeof(*origin));
	e->private.n--;
}

/*
 * Down the older uppers until one hides the rest. A directory is merged with
 * theirs; where one of them has none it is opaque, as one that is marked.
 */
static int look_below(struct walk *w, struct walk_entry *e)
{
	bool is_dir = S_ISDIR(e->upper.mode), ends = e->opaque;
	size_t n;
	const struct walk_side *sides = sides_here(w, &n);

	for (size_t i = w->found + 1; i < n && !ends; i++) {
		struct object o;
		int r = object_stat(sides[i].fd, e->name, &o);

		if (r < 0)
			return r;
		if (!o.mode)
			continue;
		ends = object_is_whiteout(&o) || (is_dir && !S_ISDIR(o.mode));
		if (!object_is_whiteout(&o))
			check_origin(w, e, sides[i].fd);
		if (!ends && is_dir) {
			w->joined[w->n_joined++] = i;
			ends = xattr_is_opaque(sides[i].fd, e->name, w->prefix);
		}
		e->opaque = is_dir && ends;
	}
	return 0;
}

/* 0: there is nothing to tell, it vanished after it was listed. */
static int tell(struct walk *w, int flags, struct walk_entry **ret,
		struct error *err)
{
	struct walk_entry *e = &w->entry;
	int r = look_up(w, e, flags), below = 0;

	w->n_joined = 0;
	if (r == 1)
		r = read_marks(w, e, err);
	else if (r < 0)
		r = walk_error(w, -r, "look up", err);
	if (r == 0 && e->upper.mode && !e->whiteout && w->n_roots > 1)
		below = look_below(w, e);
	if (r < 0 || below < 0)
		return r < 0 ? r : walk_error(w, -below, "look up", err);
	if (!e->upper.mode && !(flags & NAME_IN_LOWER))
		return 0;
	/* The root may be one: it is where we were told to look. */
	if (e->path_len == 0)
		e->lower.is_mount = false;
	*ret = e;
	return 1;
}

static int tell_root(struct walk *w, struct walk_entry **ret, struct error *err)
{
	w->started = true;
	w->entry = (struct walk_entry){ .path = "",
					.name = "",
					.upper_dirfd = w->upper_fd,
					.lower_dirfd = w->lower_fd,
					.tag = WALK_NO_TAG };
	return tell(w, NAME_IN_UPPER | NAME_IN_LOWER, ret, err);
}

static int tell_next(struct walk *w, struct walk_frame *f,
		     struct walk_entry **ret, struct error *err)
{
	const char *listed = f->names[f->next++];
	size_t n = strlen(listed + 1);

	cut_path(w, f->path_len);
	if (f->path_len > 0)
		buf_add_char(&w->path, '/');
	buf_add(&w->path, listed + 1, n);
	if (buf_failed(&w->path))
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot walk");
	w->entry = (struct walk_entry){ .path = w->path.data,
					.path_len = w->path.len,
					.name = w->path.data + w->path.len - n,
					.upper_dirfd = upper_fd_of(w, f),
					.lower_dirfd = f->lower.fd,
					.region = f->region,
					.tag = f->tag };
	return tell(w, listed[0], ret, err);
}

int walk_next(struct walk *w, struct walk_entry **ret, struct error *err)
{
	int r = 0;

	if (!w->started)
		return tell_root(w, ret, err);
	while (r == 0 && w->depth > 0) {
		struct walk_frame *f = &w->frames[w->depth - 1];

		xattrs_done(&w->entry.private);
		r = f->next == f->n ? leave(w, ret, err)
				    : tell_next(w, f, ret, err);
	}
	if (r == 0)
		xattrs_done(&w->entry.private);
	return r;
}

int walk_next_lower(struct walk *w, struct walk_entry **e, struct error *err)
{
	int r = walk_next(w, e, err);

	if (r == 1 && !(*e)->leaving && S_ISDIR((*e)->lower.mode) &&
	    !(*e)->lower.is_mount) {
		int entered = walk_enter(w, WALK_DELETED, WALK_NO_TAG, err);

		if (entered < 0)
			return entered;
	}
	return r;
}
