#include "branch/merged.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "branch/merged_internal.h"
#include "branch/modes.h"
#include "branch/xattr.h"
#include "kernel/caps.h"

enum {
	LINKS_MAX = 40,
	DIR_PATH = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

static void close_all(struct merged *m)
{
	cleanup_close(&m->upper_fd);
	cleanup_close(&m->work_fd);
	for (size_t i = 0; i < m->n_below; i++)
		(void)close(m->below[i]);
	free(m->below);
}

struct merged *merged_new(int lower_fd, int upper_fd, int work_fd,
			  const char *prefix)
{
	struct merged *m = calloc(1, sizeof(*m));
	pthread_mutexattr_t attr;

	if (!m || pthread_mutexattr_init(&attr)) {
		free(m);
		return NULL;
	}
	(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	m->prefix = prefix;
	m->copied_fd = -1;
	m->copied_before = (struct buf)BUF_INIT;
	(void)snprintf(m->opaque_key, sizeof(m->opaque_key), "%sopaque",
		       prefix);
	m->upper_fd = fcntl(upper_fd, F_DUPFD_CLOEXEC, 3);
	m->work_fd = fcntl(work_fd, F_DUPFD_CLOEXEC, 3);
	if (merged_add_layer(m, lower_fd) < 0 || m->upper_fd < 0 ||
	    m->work_fd < 0 || pthread_mutex_init(&m->lock, &attr)) {
		close_all(m);
		free(m);
		m = NULL;
	}
	(void)pthread_mutexattr_destroy(&attr);
	return m;
}

/* The lower comes first and stays the last. */
int merged_add_layer(struct merged *m, int layer_fd)
{
	int *v = realloc(m->below, (m->n_below + 1) * sizeof(*v));
	int fd;

	if (!v)
		return -ENOMEM;
	m->below = v;
	fd = fcntl(layer_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	if (m->n_below > 0)
		v[m->n_below] = v[m->n_below - 1];
	v[m->n_below ? m->n_below - 1 : 0] = fd;
	m->n_below++;
	return 0;
}

/* Whoever root acts for makes things in work. */
void merged_open_work(const struct merged *m)
{
	char link[FD_PATH_MAX];

	if (getuid() == 0)
		(void)!chmod(fd_proc_path(m->work_fd, link), 0777);
}

size_t merged_lower(const struct merged *m)
{
	return m->n_below;
}

void merged_note_copies(struct merged *m, int fd, struct buf known)
{
	m->copied_fd = fd;
	m->copied_before = known;
}

void merged_free(struct merged *m)
{
	if (!m)
		return;
	close_all(m);
	cleanup_close(&m->copied_fd);
	buf_done(&m->copied_before);
	(void)pthread_mutex_destroy(&m->lock);
	free(m->stops);
	free(m);
}

int merged_stop_at(struct merged *m, const char *path)
{
	const char **v =
		realloc(m->stops, (m->n_stops + 1) * sizeof(*m->stops));

	if (!v)
		return -ENOMEM;
	m->stops = v;
	v[m->n_stops++] = path;
	return 0;
}

void merged_set_plain(struct merged *m, bool read_only)
{
	m->is_plain = true;
	m->is_read_only = read_only;
}

bool merged_is_plain(const struct merged *m)
{
	return m->is_plain;
}

bool merged_is_read_only(const struct merged *m)
{
	return m->is_read_only;
}

void merged_hold(struct merged *m, bool held)
{
	(void)(held ? pthread_mutex_lock : pthread_mutex_unlock)(&m->lock);
}

void merged_set_umask(struct merged *m, mode_t mask)
{
	m->umask = mask;
}

void merged_dir_done(struct merged_dir *d)
{
	cleanup_close(&d->up);
	for (size_t i = 0; i < d->n; i++)
		cleanup_close(&d->below[i]);
	free(d->below);
	*d = (struct merged_dir)MERGED_DIR_INIT;
}

bool dir_has_below(const struct merged_dir *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->below[i] >= 0)
			return true;
	return false;
}

int dir_newest(const struct merged_dir *d)
{
	for (size_t i = 0; d->up < 0 && i < d->n; i++)
		if (d->below[i] >= 0)
			return d->below[i];
	return d->up;
}

/* With no part yet. */
static int make_parts(const struct merged *m, struct merged_dir *d)
{
	d->below = malloc(m->n_below * sizeof(*d->below));
	if (!d->below)
		return -ENOMEM;
	d->n = m->n_below;
	for (size_t i = 0; i < d->n; i++)
		d->below[i] = -1;
	return 0;
}

/* ----------------------------------------------------------------- names -- */

bool entry_in_upper(const struct merged_entry *e)
{
	return e->up.mode && !e->is_whiteout;
}

bool entry_has_lower(const struct merged_entry *e)
{
	return e->low.mode && !object_is_whiteout(&e->low);
}

const struct object *entry_seen(const struct merged_entry *e)
{
	if (e->up.mode)
		return e->is_whiteout ? NULL : &e->up;
	return entry_has_lower(e) ? &e->low : NULL;
}

bool entry_has_both(const struct merged_entry *e)
{
	return S_ISDIR(e->up.mode) && S_ISDIR(e->low.mode) && !e->is_opaque;
}

int entry_home(const struct merged_dir *d, const struct merged_entry *e)
{
	return entry_in_upper(e) && !entry_has_both(e) ? d->up
						       : d->below[e->home_at];
}

/* The caller may have no right to it: the mark is ours. */
static ssize_t read_mark_as_root(const struct merged *m, int dirfd,
				 const char *name, char value[2])
{
	uint64_t was = 0;
	ssize_t n = caps_begin_all(&was);

	if (n < 0)
		return n;
	n = xattr_get(dirfd, name, m->opaque_key, value, 2);
	caps_end_all(was);
	return n;
}

/* Of a directory that its mode may keep us from reading. */
static ssize_t read_mark(const struct merged *m, int dirfd, const char *name,
			 char value[2])
{
	ssize_t n = xattr_get(dirfd, name, m->opaque_key, value, 2);
	struct stat st;

	if (n == -EACCES && getuid() == 0)
		return read_mark_as_root(m, dirfd, name, value);
	if (n != -EACCES ||
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !modes_keep_out(&st) ||
	    fchmodat(dirfd, name, (st.st_mode & 07777) | S_IRUSR, 0) < 0)
		return n;
	n = xattr_get(dirfd, name, m->opaque_key, value, 2);
	return fchmodat(dirfd, name, st.st_mode & 07777, 0) < 0 ? -errno : n;
}

static bool is_opaque(const struct merged *m, int dirfd, const char *name)
{
	char value[2];

	return read_mark(m, dirfd, name, value) == 1 && value[0] == 'y';
}

/* Down to what hides the rest: anything but a directory, or one that says so.
 */
static int look_below(const struct merged *m, const struct merged_dir *d,
		      const char *name, struct merged_entry *e)
{
	for (size_t i = 0; i < d->n && !m->is_plain; i++) {
		struct object o = { .mode = 0 };
		int r = d->below[i] < 0 ? 0
					: object_stat(d->below[i], name, &o);

		if (r < 0)
			return r;
		if (!o.mode)
			continue;
		if (e->low.mode && !S_ISDIR(o.mode))
			break;
		if (!e->low.mode) {
			e->low = o;
			e->low_at = i;
		}
		e->home_at = i;
		e->home_ino = o.ino;
		e->home_dev = o.dev;
		if (!S_ISDIR(o.mode) ||
		    (i + 1 < d->n && is_opaque(m, d->below[i], name)))
			break;
	}
	return 0;
}

int dir_lookup(const struct merged *m, const struct merged_dir *d,
	       const char *name, struct merged_entry *ret)
{
	struct merged_entry e = { .is_whiteout = false };
	int r = object_stat(d->up, name, &e.up);

	if (r == 0)
		r = look_below(m, d, name, &e);
	if (r < 0)
		return r;
	e.is_whiteout = e.up.mode && !m->is_plain && object_is_whiteout(&e.up);
	e.is_opaque =
		S_ISDIR(e.up.mode) && !m->is_plain && is_opaque(m, d->up, name);
	*ret = e;
	return 0;
}

static int enter_below(const struct merged *m, const struct merged_dir *d,
		       const char *name, const struct merged_entry *e,
		       struct merged_dir *next)
{
	int r = make_parts(m, next);

	for (size_t i = e->low_at; r == 0 && i <= e->home_at; i++) {
		int fd = d->below[i] < 0 ? -ENOENT
					 : fd_open_beneath(d->below[i], name,
							   DIR_PATH, 0);

		if (fd >= 0)
			next->below[i] = fd;
		/* A layer between two that have it. */
		else if (fd != -ENOENT || i == e->low_at || i == e->home_at)
			r = fd;
	}
	return r;
}

int dir_enter(const struct merged *m, struct merged_dir *d, const char *name,
	      const struct merged_entry *e)
{
	auto_(merged_dir) struct merged_dir next = MERGED_DIR_INIT;
	const struct object *o = entry_seen(e);
	bool is_up = entry_in_upper(e);
	int r = 0;

	if (!o)
		return -ENOENT;
	if (!S_ISDIR(o->mode))
		return S_ISLNK(o->mode) ? -ELOOP : -ENOTDIR;
	if (is_up) {
		next.up = fd_open_beneath(d->up, name, DIR_PATH, 0);
		if (next.up < 0)
			return next.up;
	}
	if (S_ISDIR(e->low.mode) && !(is_up && e->is_opaque))
		r = enter_below(m, d, name, e, &next);
	if (r < 0)
		return r;
	merged_dir_done(d);
	*d = next;
	next = (struct merged_dir)MERGED_DIR_INIT;
	return 0;
}

int dir_open_root(const struct merged *m, struct merged_dir *ret)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	int r = make_parts(m, &d);

	if (r < 0)
		return r;
	d.up = fcntl(m->upper_fd, F_DUPFD_CLOEXEC, 3);
	for (size_t i = 0; i < d.n && d.up >= 0; i++) {
		d.below[i] = fcntl(m->below[i], F_DUPFD_CLOEXEC, 3);
		if (d.below[i] < 0)
			return -errno;
	}
	if (d.up < 0)
		return -errno;
	*ret = d;
	d = (struct merged_dir)MERGED_DIR_INIT;
	return 0;
}

/* Copies the next component of *@at; false at the end. */
static bool next_name(const char **at, char name[NAME_MAX + 1], int *ret)
{
	const char *from = *at + strspn(*at, "/");
	size_t n = strcspn(from, "/");

	*at = from + n;
	*ret = 0;
	if (n == 0)
		return false;
	if (n > NAME_MAX) {
		*ret = -ENAMETOOLONG;
		return false;
	}
	memcpy(name, from, n);
	name[n] = '\0';
	return true;
}

static int dir_open_n(const struct merged *m, const char *path, size_t len,
		      struct merged_dir *ret)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	const char *at = path;
	char name[NAME_MAX + 1];
	int r = dir_open_root(m, &d), bad = 0;

	while (r == 0 && at < path + len && next_name(&at, name, &bad)) {
		struct merged_entry e;

		r = dir_lookup(m, &d, name, &e);
		if (r == 0)
			r = dir_enter(m, &d, name, &e);
	}
	if (r == 0)
		r = bad;
	if (r < 0)
		return r;
	*ret = d;
	d = (struct merged_dir)MERGED_DIR_INIT;
	return 0;
}

int dir_open(const struct merged *m, const char *path, struct merged_dir *ret)
{
	return dir_open_n(m, path, strlen(path), ret);
}

int dir_open_parent(const struct merged *m, const char *path,
		    struct merged_dir *ret, const char **ret_name)
{
	const char *slash = strrchr(path, '/');

	if (!*path)
		return -EBUSY;
	*ret_name = slash ? slash + 1 : path;
	return dir_open_n(m, path, slash ? (size_t)(slash - path) : 0, ret);
}

/* ------------------------------------------------------------- resolving -- */

struct way {
	const struct merged *m;
	struct merged_dir dir;
	char path[PATH_MAX]; /* of dir */
	char *todo;	     /* behind it */
	const char *at;	     /* in todo */
	size_t from;
	bool is_real;
	unsigned int links;
	unsigned int flags; /* enum merged_flag */
	const char *begin;  /* the path that it began with */
};

static void way_done(struct way *w)
{
	merged_dir_done(&w->dir);
	free(w->todo);
}

static int append(char path[PATH_MAX], const char *name)
{
	size_t n = strlen(path);
	int k = snprintf(path + n, PATH_MAX - n, "%s%s", n ? "/" : "", name);

	if (k < 0 || (size_t)k >= PATH_MAX - n) {
		path[n] = '\0';
		return -ENAMETOOLONG;
	}
	return 0;
}

/* Out of the root of the branch. */
static int leave(struct way *w, const char *first, struct merged_place *ret)
{
	int n = snprintf(ret->rest, sizeof(ret->rest), "%s%s", first, w->at);

	ret->is_outside = true;
	ret->is_real = w->is_real;
	return n < 0 || (size_t)n >= sizeof(ret->rest) ? -ENAMETOOLONG : 0;
}

static bool is_stop(const struct merged *m, const char *path)
{
	for (size_t i = 0; i < m->n_stops; i++)
		if (strcmp(m->stops[i], path) == 0)
			return true;
	return false;
}

/* 1: the next one is not ours, and the way goes on there. */
static int stop(struct way *w, const char *name, struct merged_place *ret)
{
	int r;

	if (!w->m->n_stops)
		return 0;
	path_copy(ret->path, w->path);
	r = append(ret->path, name);
	if (r < 0 || !is_stop(w->m, ret->path))
		return r;
	ret->is_stop = true;
	r = leave(w, "", ret);
	return r < 0 ? r : 1;
}

static int go_up(struct way *w)
{
	char *slash = strrchr(w->path, '/');

	*(slash ? slash : w->path) = '\0';
	merged_dir_done(&w->dir);
	return dir_open(w->m, w->path, &w->dir);
}

/* To the directory that the way began in. */
static int go_back(struct way *w)
{
	path_copy(w->path, w->begin);
	merged_dir_done(&w->dir);
	w->is_real = false;
	return dir_open(w->m, w->path, &w->dir);
}

/* 1: the way goes on outside. */
static int follow(struct way *w, const char *name, int dirfd,
		  struct merged_place *ret)
{
	auto_free char *target = malloc(PATH_MAX);
	char *todo;
	int r = target ? fd_read_link(dirfd, name, target) : -ENOMEM;

	if (r < 0)
		return r;
	if (++w->links > LINKS_MAX || (w->flags & MERGED_NO_LINKS))
		return -ELOOP;
	if (!*target)
		return -ENOENT;
	if (*target == '/' && (w->flags & MERGED_BENEATH))
		return -EXDEV;
	if (*target == '/' && (w->flags & MERGED_IN_ROOT)) {
		r = go_back(w);
		if (r < 0)
			return r;
	} else if (*target == '/') {
		r = leave(w, target, ret);
		return r < 0 ? r : 1;
	}
	/* Longer than a path may be, as links lead on. */
	if (asprintf(&todo, "%s%s", target, w->at) < 0)
		return -ENOMEM;
	free(w->todo);
	w->at = w->todo = todo;
	return 0;
}

/* Where what is seen is. */
static size_t seen_at(const struct merged_entry *e)
{
	return entry_in_upper(e) ? 0 : e->low_at + 1;
}

static int end_at(struct way *w, const char *name, const struct merged_entry *e,
		  struct merged_place *ret)
{
	const struct object *o = entry_seen(e);

	memcpy(ret->path, w->path, sizeof(ret->path));
	ret->wants_dir = *w->at == '/';
	ret->exists = o;
	ret->mode = o ? o->mode : 0;
	ret->in_upper = entry_in_upper(e);
	if (o) {
		ret->is_real = w->is_real && w->from == seen_at(e);
		ret->home = ret->in_upper && !entry_has_both(e)
				    ? 0
				    : e->home_at + 1;
		ret->is_real_home =
			S_ISDIR(o->mode) && w->is_real && w->from == ret->home;
		ret->has_parts = S_ISDIR(o->mode) && ret->home != seen_at(e);
	} else {
		/* Nor does the kernel find anything. */
		ret->is_real = w->is_real && w->from == w->m->n_below &&
			       !e->up.mode && !e->low.mode;
	}
	ret->ino = e->home_ino;
	ret->dev = e->home_dev;
	if (o && ret->wants_dir && !S_ISDIR(o->mode))
		return -ENOTDIR;
	return append(ret->path, name);
}

static int part_of(const struct merged_dir *d, size_t which)
{
	return which == 0 ? d->up : which <= d->n ? d->below[which - 1] : -1;
}

/* The directory that we are in is the end. */
static int end_here(struct way *w, struct merged_place *ret)
{
	size_t first = SIZE_MAX;
	struct object o;
	int r;

	for (size_t i = 0; i <= w->m->n_below; i++) {
		if (part_of(&w->dir, i) < 0)
			continue;
		first = first == SIZE_MAX ? i : first;
		ret->home = i;
	}
	r = object_stat(part_of(&w->dir, ret->home), "", &o);
	if (r < 0)
		return r;
	memcpy(ret->path, w->path, sizeof(ret->path));
	ret->exists = true;
	ret->mode = S_IFDIR;
	ret->wants_dir = true;
	ret->in_upper = first == 0;
	ret->has_parts = first != ret->home;
	ret->is_real = w->is_real && w->from == first;
	ret->is_real_home = w->is_real && w->from == ret->home;
	ret->ino = o.ino;
	ret->dev = o.dev;
	return 0;
}

static int step(struct way *w, const char *name, struct merged_place *ret)
{
	bool is_last = w->at[strspn(w->at, "/")] == '\0';
	struct merged_entry e;
	const struct object *o;
	int r = stop(w, name, ret);

	if (r)
		return r;
	r = dir_lookup(w->m, &w->dir, name, &e);
	if (r < 0)
		return r;
	o = entry_seen(&e);
	if (o && S_ISLNK(o->mode) &&
	    (!is_last || (w->flags & MERGED_FOLLOW) || *w->at == '/')) {
		w->is_real = w->is_real && w->from == seen_at(&e);
		return follow(w, name, part_of(&w->dir, seen_at(&e)), ret);
	}
	if (is_last) {
		r = end_at(w, name, &e, ret);
		return r < 0 ? r : 1;
	}
	if (!o)
		return -ENOENT;
	r = dir_enter(w->m, &w->dir, name, &e);
	if (r == 0)
		r = append(w->path, name);
	w->is_real = w->is_real && part_of(&w->dir, w->from) >= 0;
	return r;
}

/* ".."; 1: the way goes on outside. */
static int step_up(struct way *w, struct merged_place *ret)
{
	bool is_begin = strcmp(w->path, w->begin) == 0;
	int r;

	if (is_begin && (w->flags & MERGED_BENEATH))
		return -EXDEV;
	if (is_begin && (w->flags & MERGED_IN_ROOT))
		return 0;
	if (*w->path)
		return go_up(w);
	r = leave(w, "..", ret);
	return r < 0 ? r : 1;
}

static int walk_way(struct way *w, struct merged_place *ret)
{
	char name[NAME_MAX + 1];
	int r = 0;

	while (r == 0 && next_name(&w->at, name, &r)) {
		if (strcmp(name, ".") == 0)
			continue;
		r = strcmp(name, "..") == 0 ? step_up(w, ret)
					    : step(w, name, ret);
	}
	if (r == 0)
		r = end_here(w, ret);
	return r < 0 ? r : 0;
}

/*
 * A directory of the lower that somebody is in, or has open, and that was
 * removed, or replaced, in the branch: there is nothing in it, and nothing can
 * be made there, whatever has its path now. @r: what came of opening it.
 */
static bool is_removed(const struct way *w, int r)
{
	if (w->from != w->m->n_below || !*w->begin || w->m->is_plain)
		return false;
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ||
	       (r == 0 && part_of(&w->dir, w->from) < 0);
}

/* The directory itself is the kernel's. 1: the way leads out of it at once. */
static int walk_removed(const struct way *w, struct merged_place *ret)
{
	const char *at = w->at;
	size_t n;

	do {
		at += strspn(at, "/");
		n = strcspn(at, "/");
		if (n == 2 && at[0] == '.' && at[1] == '.')
			return 1;
		if (n > 1 || (n == 1 && *at != '.'))
			return n > NAME_MAX ? -ENAMETOOLONG : -ENOENT;
		at += n;
	} while (n);
	path_copy(ret->path, w->path);
	ret->exists = ret->is_real = ret->is_real_home = true;
	ret->home = w->from;
	ret->mode = S_IFDIR;
	ret->wants_dir = true;
	return 0;
}

int merged_resolve(struct merged *m, const char *dir, size_t from,
		   const char *text, unsigned int flags,
		   struct merged_place *ret)
{
	struct way *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	*ret = (struct merged_place){ .exists = false };
	w->m = m;
	w->dir = (struct merged_dir)MERGED_DIR_INIT;
	w->at = w->todo = strdup(text);
	if (!w->todo || strlen(dir) >= PATH_MAX || strlen(text) >= PATH_MAX) {
		r = w->todo ? -ENAMETOOLONG : -ENOMEM;
		way_done(w);
		free(w);
		return r;
	}
	path_copy(w->path, dir);
	(void)pthread_mutex_lock(&m->lock);
	r = dir_open(m, dir, &w->dir);
	w->from = from;
	w->flags = flags;
	w->begin = dir;
	w->is_real = part_of(&w->dir, from) >= 0;
	if (is_removed(w, r))
		r = walk_removed(w, ret);
	else if (r == 0)
		r = 1;
	if (r > 0)
		r = walk_way(w, ret);
	(void)pthread_mutex_unlock(&m->lock);
	way_done(w);
	free(w);
	return r;
}

/* --------------------------------------------------------------- finding -- */

static int find(const struct merged *m, const char *path, int *ret_fd)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	struct merged_entry e;
	const char *name;
	int r, fd;

	if (!*path) {
		*ret_fd = fd_reopen(m->upper_fd, O_PATH | O_DIRECTORY);
		return *ret_fd < 0 ? *ret_fd : 0;
	}
	r = dir_open_parent(m, path, &d, &name);
	if (r == 0)
		r = dir_lookup(m, &d, name, &e);
	if (r < 0)
		return r;
	if (!entry_seen(&e))
		return -ENOENT;
	fd = openat(part_of(&d, seen_at(&e)), name,
		    O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int merged_find(struct merged *m, const char *path, int *ret_fd)
{
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = find(m, path, ret_fd);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}
