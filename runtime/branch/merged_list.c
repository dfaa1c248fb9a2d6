/* What is in a directory of a merged view. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "branch/merged_internal.h"
#include "branch/modes.h"

enum { DIR_READ = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

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

/* Of a directory that has parts in several, or hides what lies below. */
static int find_ino(const struct merged *m, const struct merged_dir *d,
		    struct merged_name *name)
{
	struct merged_entry e;
	int r = dir_lookup(m, d, name->name, &e);

	if (r == 0 && (!entry_in_upper(&e) || entry_has_both(&e)))
		name->ino = e.home_ino;
	return r;
}

/* Adds what one layer has and those before it, of which there are @n, do not.
 */
static int list_layer(const struct merged *m, const struct merged_dir *in,
		      int dir_fd, struct merged_list *l, size_t *cap)
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
			r = find_ino(m, in, known);
		if (known)
			continue;
		r = add_name(l, cap, d);
		if (r == 0 && !m->is_plain && is_whiteout(dir_fd, d))
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
	int r = d->up < 0 ? 0 : list_layer(m, d, d->up, &l, &cap);

	for (size_t i = 0; r == 0 && i < d->n && !m->is_plain; i++) {
		if (d->below[i] < 0)
			continue;
		if (l.n)
			qsort(l.v, l.n, sizeof(*l.v), compare_names);
		r = list_layer(m, d, d->below[i], &l, &cap);
	}
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

/* To remove a directory takes no right to read it. */
int dir_is_empty(const struct merged *m, const struct merged_dir *d)
{
	struct merged_list l = MERGED_LIST_INIT;
	char link[FD_PATH_MAX];
	struct stat st;
	int r = dir_list(m, d, &l);

	if (r == -EACCES && d->up >= 0 && fstat(d->up, &st) == 0 &&
	    modes_keep_out(&st) && modes_let_in(d->up) == 0) {
		r = dir_list(m, d, &l);
		(void)chmod(fd_proc_path(d->up, link), st.st_mode & 07777);
	}
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
	int r, n;

	(void)pthread_mutex_lock(&m->lock);
	r = dir_open(m, path, &d);
	(void)pthread_mutex_unlock(&m->lock);
	if (r < 0)
		return r;
	n = d.up >= 0;
	for (size_t i = 0; i < d.n; i++)
		n += d.below[i] >= 0;
	return n > 1;
}
