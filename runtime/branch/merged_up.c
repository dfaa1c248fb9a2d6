/* Copying up: what is only in the lower gets a copy in upper. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "branch/links.h"
#include "branch/merged_internal.h"
#include "branch/modes.h"
#include "branch/origin.h"
#include "branch/tree.h"
#include "branch/xattr.h"
#include "kernel/caps.h"

void merged_temp(struct merged *m, char ret[MERGED_TEMP_MAX])
{
	(void)snprintf(ret, MERGED_TEMP_MAX, "#%lx",
		       atomic_fetch_add(&m->temps, 1));
}

/* What is in work, and copying up, is ours to do, whomever we act for. */
void merged_drop(const struct merged *m, const char *temp)
{
	uint64_t was = 0;

	if (caps_begin_all(&was) < 0)
		return;
	if (unlinkat(m->work_fd, temp, 0) < 0 && errno == EISDIR) {
		(void)!fchmodat(m->work_fd, temp, 0700, 0);
		(void)tree_remove(m->work_fd, temp);
	}
	caps_end_all(was);
}

int up_set_opaque(const struct merged *m, int dirfd, const char *name)
{
	int r = xattr_set(dirfd, name, m->opaque_key, "y", 1);
	struct stat st;

	/* Its mode may keep us from writing that down. */
	if (r != -EACCES ||
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !modes_keep_out(&st) ||
	    fchmodat(dirfd, name, (st.st_mode & 07777) | S_IRWXU, 0) < 0)
		return r;
	r = xattr_set(dirfd, name, m->opaque_key, "y", 1);
	if (fchmodat(dirfd, name, st.st_mode & 07777, 0) < 0 && r == 0)
		r = -errno;
	return r;
}

/*
 * A directory of upper that is read-only for its owner, and so was the lower's,
 * which it takes nothing to write in. The mode is given back by chmod.
 */
static bool open_shut(int up_fd, const struct stat *st)
{
	char link[FD_PATH_MAX];

	return (st->st_mode & 0300) != 0300 &&
	       chmod(fd_proc_path(up_fd, link), (st->st_mode & 07777) | 0300) ==
		       0;
}

/* What an earlier stage has made is not the lower's, what it has copied is. */
static void note_copy(const struct merged *m, const char *path, size_t len,
		      const struct merged_entry *e, int up_fd, const char *name)
{
	bool is_lowers = e->low_at + 1 == m->n_below;
	struct stat st;

	if (m->copied_fd >= 0 &&
	    (is_lowers ||
	     origin_is_known(&m->copied_before, path, len, e->low.ino)) &&
	    fstatat(up_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		origin_note_copy(m->copied_fd, path, len, st.st_ino,
				 is_lowers && S_ISDIR(st.st_mode) ? &e->low
								  : NULL);
}

/* Copying up changes no times of the directory that it is done in. */
static int move_in_as_we_are(const struct merged *m, const char *temp,
			     int up_fd, const char *name)
{
	char link[FD_PATH_MAX];
	struct timespec times[2];
	struct stat st;
	bool is_shut;
	int r = 0;

	if (fstat(up_fd, &st) < 0)
		return -errno;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	r = renameat2(m->work_fd, temp, up_fd, name, RENAME_NOREPLACE) < 0
		    ? -errno
		    : 0;
	is_shut = r == -EACCES && open_shut(up_fd, &st);
	if (is_shut) {
		r = renameat2(m->work_fd, temp, up_fd, name, RENAME_NOREPLACE) <
				    0
			    ? -errno
			    : 0;
		(void)chmod(fd_proc_path(up_fd, link), st.st_mode & 07777);
	}
	(void)utimensat(AT_FDCWD, fd_proc_path(up_fd, link), times, 0);
	return r;
}

static int move_in(const struct merged *m, const char *temp, int up_fd,
		   const char *name)
{
	uint64_t was = 0;
	int r = caps_begin_all(&was);

	if (r < 0)
		return r;
	r = move_in_as_we_are(m, temp, up_fd, name);
	caps_end_all(was);
	return r;
}

/* An id that the caller may not give: as the overlay of a namespace says. */
static int outward(int r)
{
	return r == -EPERM ? -EOVERFLOW : r;
}

/*
 * With all that we have, as the overlay copies up with the rights of who has
 * mounted it: the copy has attributes (trusted.*, capabilities) and owners that
 * the caller, whom the thread acts for, could not give it.
 */
static int copy(const struct merged *m, int low_fd, const char *name,
		const struct object *o, const char *temp)
{
	uint64_t was = 0;
	int r = caps_begin_all(&was);

	if (r < 0)
		return r;
	r = outward(
		tree_copy_object(m->prefix, low_fd, name, o, m->work_fd, temp));
	caps_end_all(was);
	return r;
}

static int set_mode(int dirfd, const char *name, mode_t mode)
{
	uint64_t was = 0;
	int r = caps_begin_all(&was);

	if (r < 0)
		return r;
	r = fchmodat(dirfd, name, mode & 07777, 0) < 0 ? -errno : 0;
	caps_end_all(was);
	return r;
}

/*
 * A directory that its owner may not write to can only be moved before it is
 * one.
 */
static int copy_dir(struct merged *m, const struct merged_dir *d,
		    const char *name, const struct object *o, size_t low_at)
{
	char temp[MERGED_TEMP_MAX];
	struct object open = *o;
	int r;

	merged_temp(m, temp);
	open.mode |= 0700;
	r = copy(m, d->below[low_at], name, &open, temp);
	if (r == 0)
		r = move_in(m, temp, d->up, name);
	if (r < 0)
		merged_drop(m, temp);
	else if (open.mode != o->mode)
		r = set_mode(d->up, name, o->mode);
	return r == -EEXIST ? 0 : r;
}

int up_dir(struct merged *m, const char *path, int *ret_fd)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	auto_free char *words = strdup(path);
	char *save = NULL;
	int r = words ? dir_open_root(m, &d) : -ENOMEM;

	for (char *p = words ? strtok_r(words, "/", &save) : NULL; p && r == 0;
	     p = strtok_r(NULL, "/", &save)) {
		struct merged_entry e;

		r = dir_lookup(m, &d, p, &e);
		if (r == 0 && !entry_in_upper(&e) && !e.is_whiteout &&
		    S_ISDIR(e.low.mode)) {
			r = copy_dir(m, &d, p, &e.low, e.low_at);
			if (r == 0)
				note_copy(m, path,
					  (size_t)(p - words) + strlen(p), &e,
					  d.up, p);
			if (r == 0)
				r = dir_lookup(m, &d, p, &e);
		}
		if (r == 0)
			r = dir_enter(m, &d, p, &e);
	}
	if (r < 0)
		return r;
	*ret_fd = take_fd(&d.up);
	return 0;
}

/* Numbers are given again. */
static bool is_copy(const struct link *l, const struct object *o)
{
	return S_ISREG(o->mode) && o->ino == l->lower_ino &&
	       (uint32_t)o->btime.tv_nsec == l->mark;
}

/*
 * To a file of somebody else's nobody but us may give another name
 * (protected_hardlinks), so it must be our copy: others may have moved that, or
 * put links on the way, while contents were copied. -ENOENT: it is gone.
 */
static int link_copy(const struct merged *m, const struct link *l,
		     const char *temp)
{
	const char *slash = strrchr(l->path, '/');
	const char *name = slash ? slash + 1 : l->path;
	auto_free char *dir =
		slash ? strndup(l->path, (size_t)(slash - l->path)) : NULL;
	auto_close int fd = -1;
	struct object o;

	if (slash && !dir)
		return -ENOMEM;
	fd = fd_open_beneath(m->upper_fd, dir ? dir : ".",
			     O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return -ENOENT;
	if (linkat(fd, name, m->work_fd, temp, 0) < 0)
		return -errno;
	if (object_stat(m->work_fd, temp, &o) == 0 && is_copy(l, &o))
		return 0;
	merged_drop(m, temp);
	return -ENOENT;
}

static int link_temp(const struct merged *m, const struct link *l,
		     const char *temp)
{
	uint64_t was = 0;
	int r = caps_begin_all(&was);

	if (r < 0)
		return r;
	r = link_copy(m, l, temp);
	caps_end_all(was);
	return r;
}

/* Another name of a file of which there is a copy. */
static int link_again(struct merged *m, const struct up_options *o,
		      const struct merged_dir *d, const char *name,
		      const struct merged_entry *e)
{
	const struct link *l =
		o && o->links ? links_find(o->links[e->low_at], e->low.ino)
			      : NULL;
	char temp[MERGED_TEMP_MAX];
	int r;

	if (!l)
		return -ENOENT;
	merged_temp(m, temp);
	r = link_temp(m, l, temp);
	if (r < 0)
		return r;
	r = move_in(m, temp, d->up, name);
	if (r < 0)
		merged_drop(m, temp);
	return r;
}

/*
 * The contents may be long: meanwhile others go on, and what they have done
 * to @path by then holds.
 */
static int copy_apart(struct merged *m, int low_fd, const char *name,
		      const struct object *o, const char *temp)
{
	int r;

	(void)pthread_mutex_unlock(&m->lock);
	r = copy(m, low_fd, name, o, temp);
	(void)pthread_mutex_lock(&m->lock);
	return r;
}

static int place(struct merged *m, const char *path, const char *temp,
		 uint64_t ino)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	struct merged_entry e;
	const char *name;
	int r = dir_open_parent(m, path, &d, &name);

	if (r == 0)
		r = dir_lookup(m, &d, name, &e);
	if (r < 0)
		return r;
	if (e.up.mode) /* somebody was faster, or it is gone */
		return e.is_whiteout ? -ENOENT : -EEXIST;
	if (e.low.ino != ino || d.up < 0)
		return -ESTALE;
	return move_in(m, temp, d.up, name);
}

static int note_link(struct link_table *t, uint64_t ino,
		     const struct object *copy, const char *path)
{
	struct link *l = links_find(t, ino);

	if (l) /* whose copy was gone */
		return 0;
	l = links_add(t, ino, copy->ino, path);
	if (l)
		l->mark = (uint32_t)copy->btime.tv_nsec;
	return l ? 0 : -ENOMEM;
}

static int copy_object(struct merged *m, const char *path,
		       const struct up_options *o, const struct merged_dir *d,
		       const char *name, const struct merged_entry *e)
{
	char temp[MERGED_TEMP_MAX];
	const struct object *low = &e->low;
	int low_fd = d->below[e->low_at];
	struct object small = *low, made = { .ino = 0 };
	bool is_linked = S_ISREG(low->mode) && low->nlink > 1;
	int r = is_linked ? link_again(m, o, d, name, e) : -ENOENT;

	if (r != -ENOENT)
		return r;
	if (o && o->without_data)
		small.size = 0;
	merged_temp(m, temp);
	r = S_ISREG(low->mode) && small.size
		    ? copy_apart(m, low_fd, name, &small, temp)
		    : copy(m, low_fd, name, &small, temp);
	if (r == 0 && is_linked)
		r = object_stat(m->work_fd, temp, &made);
	if (r == 0)
		r = place(m, path, temp, low->ino);
	if (r < 0)
		merged_drop(m, temp);
	if (r == 0 && is_linked && o && o->links)
		r = note_link(o->links[e->low_at], low->ino, &made, path);
	if (r == -EEXIST)
		return o && o->is_exact ? -ESTALE : 0;
	return r;
}

int up_object(struct merged *m, const char *path, const struct up_options *o)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	auto_free char *parent = strdup(path);
	struct merged_entry e;
	const char *name;
	char *slash;
	int r;

	if (!*path)
		return 0;
	if (!parent)
		return -ENOMEM;
	r = dir_open_parent(m, path, &d, &name);
	if (r == 0)
		r = dir_lookup(m, &d, name, &e);
	if (r < 0)
		return r;
	if (entry_in_upper(&e))
		return 0;
	if (!entry_seen(&e))
		return -ENOENT;
	slash = strrchr(parent, '/');
	*(slash ? slash : parent) = '\0';
	if (d.up < 0) {
		r = up_dir(m, parent, &d.up);
		if (r < 0)
			return r;
	}
	r = S_ISDIR(e.low.mode) ? copy_dir(m, &d, name, &e.low, e.low_at)
				: copy_object(m, path, o, &d, name, &e);
	if (r == 0)
		note_copy(m, path, strlen(path), &e, d.up, name);
	return r;
}

/* -------------------------------------------------------- whole subtrees -- */

/* Directories that are still to be looked into; paths from the root. */
struct stack {
	char **v;
	size_t n, cap;
};

static void stack_done(struct stack *s)
{
	while (s->n)
		free(s->v[--s->n]);
	free(s->v);
}

static int push(struct stack *s, const char *dir, const char *name)
{
	char *path = NULL;

	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 16;
		char **v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	if (asprintf(&path, "%s%s%s", dir, *dir && *name ? "/" : "", name) < 0)
		return -ENOMEM;
	s->v[s->n++] = path;
	return 0;
}

static int up_children(struct merged *m, const char *dir,
		       const struct merged_list *l, const struct up_options *o,
		       struct stack *todo)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
		struct merged_entry e;
		const struct object *seen;

		r = push(todo, dir, l->v[i].name);
		if (r == 0)
			r = up_object(m, todo->v[todo->n - 1], o);
		if (r == 0)
			r = dir_open(m, dir, &d);
		if (r == 0)
			r = dir_lookup(m, &d, l->v[i].name, &e);
		if (r < 0)
			return r;
		seen = entry_seen(&e);
		if (!seen || !S_ISDIR(seen->mode))
			free(todo->v[--todo->n]);
	}
	return r;
}

/* Everything of @path goes up; @ret gets all directories, top down. */
static int up_all(struct merged *m, const char *path,
		  const struct up_options *o, struct stack *ret)
{
	auto_(stack) struct stack todo = { .v = NULL };
	int r = push(&todo, path, "");

	while (r == 0 && todo.n) {
		auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
		struct merged_list l = MERGED_LIST_INIT;
		auto_free char *dir = todo.v[--todo.n];

		r = push(ret, dir, "");
		if (r == 0)
			r = up_object(m, dir, NULL);
		if (r == 0)
			r = dir_open(m, dir, &d);
		/* What is upper's alone may be closed to us. */
		if (r == 0 && dir_has_below(&d))
			r = dir_list(m, &d, &l);
		if (r == 0)
			r = up_children(m, dir, &l, o, &todo);
		merged_list_done(&l);
	}
	return r;
}

/* Nothing of the lower shows through any more, so no whiteouts either. */
static int close_dir(struct merged *m, const char *path)
{
	auto_(merged_dir) struct merged_dir d = MERGED_DIR_INIT;
	char link[FD_PATH_MAX];
	struct merged_list l = MERGED_LIST_INIT;
	struct timespec times[2];
	struct stat st;
	bool is_shut;
	int r = dir_open(m, path, &d);

	if (r < 0 || !dir_has_below(&d))
		return r;
	if (d.up < 0 || fstat(d.up, &st) < 0)
		return -ESTALE;
	is_shut = open_shut(d.up, &st);
	r = dir_list(m, &(struct merged_dir){ -1, d.below, d.n }, &l);
	if (r == 0)
		r = setxattr(fd_proc_path(d.up, link), m->opaque_key, "y", 1,
			     0) < 0
			    ? -errno
			    : 0;
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		struct object o;

		if (object_stat(d.up, l.v[i].name, &o) == 0 &&
		    object_is_whiteout(&o) &&
		    unlinkat(d.up, l.v[i].name, 0) < 0)
			r = -errno;
	}
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	(void)utimensat(AT_FDCWD, fd_proc_path(d.up, link), times, 0);
	if (is_shut)
		(void)chmod(link, st.st_mode & 07777);
	merged_list_done(&l);
	return r;
}

int up_tree(struct merged *m, const char *path)
{
	auto_(stack) struct stack dirs = { .v = NULL };
	struct up_options o = { .links = calloc(m->n_below, sizeof(*o.links)) };
	int r = o.links ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < m->n_below; i++) {
		o.links[i] = links_new();
		r = o.links[i] ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = up_all(m, path, &o, &dirs);
	for (size_t i = 0; o.links && i < m->n_below; i++)
		links_free(o.links[i]);
	free(o.links);
	/* From the bottom: the top, once closed, hides all of the lower. */
	for (size_t i = dirs.n; r == 0 && i-- > 0;)
		r = close_dir(m, dirs.v[i]);
	return r;
}
