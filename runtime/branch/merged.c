#include "branch/merged.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "branch/merged_internal.h"
#include "branch/xattr.h"

enum {
	LINKS_MAX = 40,
	DIR_PATH = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
	DIR_READ = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

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
	(void)snprintf(m->opaque_key, sizeof(m->opaque_key), "%sopaque",
		       prefix);
	m->lower_fd = fcntl(lower_fd, F_DUPFD_CLOEXEC, 3);
	m->upper_fd = fcntl(upper_fd, F_DUPFD_CLOEXEC, 3);
	m->work_fd = fcntl(work_fd, F_DUPFD_CLOEXEC, 3);
	if (m->lower_fd < 0 || m->upper_fd < 0 || m->work_fd < 0 ||
	    pthread_mutex_init(&m->lock, &attr)) {
		cleanup_close(&m->lower_fd);
		cleanup_close(&m->upper_fd);
		cleanup_close(&m->work_fd);
		free(m);
		m = NULL;
	}
	(void)pthread_mutexattr_destroy(&attr);
	return m;
}

void merged_free(struct merged *m)
{
	if (!m)
		return;
	(void)close(m->lower_fd);
	(void)close(m->upper_fd);
	(void)close(m->work_fd);
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
	cleanup_close(&d->low);
	d->up = d->low = -1;
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

int dir_lookup(const struct merged *m, const struct merged_dir *d,
	       const char *name, struct merged_entry *ret)
{
	struct merged_entry e = { .is_whiteout = false };
	char value[2];
	int r = object_stat(d->up, name, &e.up);

	if (r == 0)
		r = object_stat(d->low, name, &e.low);
	if (r < 0)
		return r;
	e.is_whiteout = e.up.mode && object_is_whiteout(&e.up);
	e.is_opaque = S_ISDIR(e.up.mode) &&
		      xattr_get(d->up, name, m->opaque_key, value,
				sizeof(value)) == 1 &&
		      value[0] == 'y';
	*ret = e;
	return 0;
}

int dir_enter(const struct merged *m, struct merged_dir *d, const char *name,
	      const struct merged_entry *e)
{
	auto_(merged_dir) struct merged_dir next = MERGED_DIR_INIT;
	const struct object *o = entry_seen(e);
	bool is_up = entry_in_upper(e);

	(void)m;
	if (!o)
		return -ENOENT;
	if (!S_ISDIR(o->mode))
		return S_ISLNK(o->mode) ? -ELOOP : -ENOTDIR;
	if (is_up) {
		next.up = fd_open_beneath(d->up, name, DIR_PATH, 0);
		if (next.up < 0)
			return next.up;
	}
	if (S_ISDIR(e->low.mode) && !(is_up && e->is_opaque)) {
		next.low = fd_open_beneath(d->low, name, DIR_PATH, 0);
		if (next.low < 0)
			return next.low;
	}
	merged_dir_done(d);
	*d = next;
	next = (struct merged_dir)MERGED_DIR_INIT;
	return 0;
}

static int open_root(const struct merged *m, struct merged_dir *ret)
{
	ret->up = fcntl(m->upper_fd, F_DUPFD_CLOEXEC, 3);
	ret->low = fcntl(m->lower_fd, F_DUPFD_CLOEXEC, 3);
	if (ret->up >= 0 && ret->low >= 0)
		return 0;
	merged_dir_done(ret);
	return -EMFILE;
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
	int r = open_root(m, &d), bad = 0;

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
	char todo[PATH_MAX]; /* behind it */
	const char *at;	     /* in todo */
	bool is_as_lower, is_as_upper;
	unsigned int links;
};

static void way_done(struct way *w)
{
	merged_dir_done(&w->dir);
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
	ret->is_as_lower = w->is_as_lower;
	ret->is_as_upper = w->is_as_upper;
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

/* 1: the way goes on outside. */
static int follow(struct way *w, const char *name, bool is_up,
		  struct merged_place *ret)
{
	auto_free char *target = malloc(PATH_MAX);
	auto_free char *rest = strdup(w->at);
	int r = !target || !rest ? -ENOMEM
				 : fd_read_link(is_up ? w->dir.up : w->dir.low,
						name, target);
	int n;

	if (r < 0)
		return r;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (!*target)
		return -ENOENT;
	if (*target == '/') {
		r = leave(w, target, ret);
		return r < 0 ? r : 1;
	}
	n = snprintf(w->todo, sizeof(w->todo), "%s%s", target, rest);
	w->at = w->todo;
	return n < 0 || (size_t)n >= sizeof(w->todo) ? -ENAMETOOLONG : 0;
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
	ret->is_as_lower = w->is_as_lower && !e->up.mode;
	ret->is_as_upper = w->is_as_upper && entry_in_upper(e);
	ret->is_lower_way = w->is_as_lower;
	ret->has_lower_dir =
		o && S_ISDIR(o->mode) && S_ISDIR(e->low.mode) && !e->is_opaque;
	ret->ino = e->low.ino;
	ret->dev = e->low.dev;
	if (o && ret->wants_dir && !S_ISDIR(o->mode))
		return -ENOTDIR;
	return append(ret->path, name);
}

/* The directory that we are in is the end. */
static int end_here(struct way *w, struct merged_place *ret)
{
	struct object o;
	int r = object_stat(w->dir.low, "", &o);

	if (r < 0)
		return r;
	memcpy(ret->path, w->path, sizeof(ret->path));
	ret->exists = true;
	ret->mode = S_IFDIR;
	ret->wants_dir = true;
	ret->in_upper = w->dir.up >= 0;
	ret->is_as_lower = w->is_as_lower && w->dir.up < 0;
	ret->is_as_upper = w->is_as_upper && w->dir.up >= 0;
	ret->is_lower_way = w->is_as_lower;
	ret->has_lower_dir = w->dir.low >= 0;
	ret->ino = o.ino;
	ret->dev = o.dev;
	return 0;
}

static int step(struct way *w, const char *name, unsigned int flags,
		struct merged_place *ret)
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
	    (!is_last || (flags & MERGED_FOLLOW) || *w->at == '/')) {
		w->is_as_lower = w->is_as_lower && !e.up.mode;
		w->is_as_upper = w->is_as_upper && e.up.mode;
		return follow(w, name, entry_in_upper(&e), ret);
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
	w->is_as_lower = w->is_as_lower && w->dir.low >= 0;
	w->is_as_upper = w->is_as_upper && w->dir.up >= 0;
	return r;
}

static int walk_way(struct way *w, unsigned int flags, struct merged_place *ret)
{
	char name[NAME_MAX + 1];
	int r = 0;

	while (r == 0 && next_name(&w->at, name, &r)) {
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") != 0)
			r = step(w, name, flags, ret);
		else if (*w->path)
			r = go_up(w);
		else
			return leave(w, "..", ret);
	}
	if (r == 0)
		r = end_here(w, ret);
	return r < 0 ? r : 0;
}

int merged_resolve(struct merged *m, const char *dir, const char *text,
		   unsigned int flags, struct merged_place *ret)
{
	struct way *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	*ret = (struct merged_place){ .exists = false };
	w->m = m;
	w->dir = (struct merged_dir)MERGED_DIR_INIT;
	w->at = w->todo;
	if (strlen(dir) >= PATH_MAX || strlen(text) >= PATH_MAX) {
		free(w);
		return -ENAMETOOLONG;
	}
	path_copy(w->path, dir);
	path_copy(w->todo, text);
	(void)pthread_mutex_lock(&m->lock);
	r = dir_open(m, dir, &w->dir);
	w->is_as_lower = w->dir.low >= 0;
	w->is_as_upper = w->dir.up >= 0;
	if (r == 0)
		r = walk_way(w, flags, ret);
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
	fd = openat(entry_in_upper(&e) ? d.up : d.low, name,
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

/* --------------------------------------------------------------- listing -- */

void merged_list_done(struct merged_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
	*l = (struct merged_list)MERGED_LIST_INIT;
}

static int compare_names(const void *a, const void *b)
{
	const struct merged_name *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int add_name(struct merged_list *l, size_t *cap, const struct dirent *d)
{
	char *name;

	if (l->n == *cap) {
		size_t n = *cap ? 2 * *cap : 64;
		struct merged_name *v = realloc(l->v, n * sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		*cap = n;
	}
	name = strdup(d->d_name);
	if (!name)
		return -ENOMEM;
	l->v[l->n++] = (struct merged_name){ .name = name,
					     .ino = d->d_ino,
					     .type = d->d_type };
	return 0;
}

static struct merged_name *find_name(const struct merged_list *l, size_t n,
				     const char *name)
{
	const struct merged_name key = { .name = (char *)(uintptr_t)name };

	return n ? bsearch(&key, l->v, n, sizeof(*l->v), compare_names) : NULL;
}

/* Only a character device can be a whiteout. */
static bool is_whiteout(int fd, const struct dirent *d)
{
	struct object o;

	return (d->d_type == DT_CHR || d->d_type == DT_UNKNOWN) &&
	       object_stat(fd, d->d_name, &o) == 0 && object_is_whiteout(&o);
}

enum { TYPE_WHITEOUT = 255 };

/* Adds what one layer has and those before it, of which there are @n, do not.
 */
static int list_layer(int dir_fd, struct merged_list *l, size_t *cap)
{
	int fd = openat(dir_fd, ".", DIR_READ);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = l->n;
	int r = 0;

	if (!dir) {
		r = -errno;
		cleanup_close(&fd);
		return r;
	}
	for (;;) {
		struct merged_name *known;
		struct dirent *d;

		errno = 0;
		d = readdir(dir);
		if (!d || r < 0)
			return r < 0 ? r : -errno;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		known = find_name(l, n, d->d_name);
		if (known && known->type == DT_DIR && d->d_type == DT_DIR)
			known->ino = d->d_ino;
		if (known)
			continue;
		r = add_name(l, cap, d);
		if (r == 0 && is_whiteout(dir_fd, d))
			l->v[l->n - 1].type = TYPE_WHITEOUT;
	}
}

static void drop_whiteouts(struct merged_list *l)
{
	size_t k = 0;

	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].type == TYPE_WHITEOUT)
			free(l->v[i].name);
		else
			l->v[k++] = l->v[i];
	l->n = k;
}

int dir_list(const struct merged *m, const struct merged_dir *d,
	     struct merged_list *ret)
{
	struct merged_list l = MERGED_LIST_INIT;
	size_t cap = 0;
	int r = d->up < 0 ? 0 : list_layer(d->up, &l, &cap);

	(void)m;
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_names);
	if (r == 0 && d->low >= 0)
		r = list_layer(d->low, &l, &cap);
	if (r < 0) {
		merged_list_done(&l);
		return r;
	}
	drop_whiteouts(&l);
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_names);
	*ret = l;
	return 0;
}

int dir_is_empty(const struct merged *m, const struct merged_dir *d)
{
	struct merged_list l = MERGED_LIST_INIT;
	int r = dir_list(m, d, &l);

	if (r == 0)
		r = l.n == 0;
	merged_list_done(&l);
	return r;
}

int merged_readdir(struct merged *m, const char *path, struct merged_list *ret)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = dir_open(m, path, &d);
	if (r == 0)
		r = dir_list(m, &d, ret);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

int merged_is_mixed(struct merged *m, const char *path)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	int r;

	(void)pthread_mutex_lock(&m->lock);
	r = dir_open(m, path, &d);
	(void)pthread_mutex_unlock(&m->lock);
	return r < 0 ? r : d.up >= 0 && d.low >= 0;
}
