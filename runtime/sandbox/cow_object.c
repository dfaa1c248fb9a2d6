/*
 * What somebody is asked about in a branch: the object by its path in the
 * directory, as an overlay would show it. What was shown is what is opened and
 * executed: cow_open and cow_exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "sandbox/cow_internal.h"

/* As it was written, from the directory that the caller sees itself in. */
static int written_path(struct cow *w, struct call *c, int dirfd,
			const struct cow_place *p, char **ret)
{
	char base[PATH_MAX] = "", shown[PATH_MAX];
	auto_free char *whole = NULL;
	int r = *p->text == '/' ? 0 : cow_base(c, dirfd, base);

	if (r < 0)
		return r;
	whole = *p->text == '/' ? strdup(p->text) : path_join(base, p->text);
	*ret = whole ? path_normalize(whole) : NULL;
	if (*ret && cow_shown_path(w, *ret, shown)) {
		free(*ret);
		*ret = strdup(shown);
	}
	return *ret ? 0 : -ENOMEM;
}

static int status_of(const struct cow_place *p, struct object *ret)
{
	auto_close int fd = -1;
	int r = merged_find(p->root->merged, p->at.path, &fd);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (fstat(fd, &ret->st) < 0)
		return -errno;
	ret->exists = true;
	if (p->at.has_parts) {
		ret->st.st_ino = p->at.ino;
		ret->st.st_dev = p->at.dev;
	}
	return 0;
}

/* Without a path: by an fd, which may be upper's. */
static int show(const struct cow *w, char **path)
{
	char shown[PATH_MAX];
	char *copy;

	if (!*path || !cow_shown_path(w, *path, shown))
		return 0;
	copy = strdup(shown);
	if (!copy)
		return -ENOMEM;
	free(*path);
	*path = copy;
	return 0;
}

static int find_outside(struct cow *w, struct call *c, int dirfd,
			const char *path, bool follow, struct object *ret)
{
	int r = object_find(c, dirfd, path, follow, ret);

	if (r == 0)
		r = show(w, &ret->path);
	return r == 0 ? show(w, &ret->real) : r;
}

static int find(void *data, struct call *c, int dirfd, uint64_t addr,
		const char *path, bool follow, struct object *ret)
{
	struct cow *w = data;
	auto_free struct cow_place *p = calloc(1, sizeof(*p));
	char real[PATH_MAX];
	int r;

	*ret = (struct object){ .exists = false };
	if (!p)
		return -ENOMEM;
	path_copy(p->text, path);
	r = cow_find_said(w, c, dirfd, addr,
			  COW_EMPTY | COW_LOOK | (follow ? COW_FOLLOW : 0), p);
	if (r < 0)
		return r;
	if (!p->root)
		return find_outside(w, c, dirfd, path, follow, ret);
	r = cow_inside_path(p, real);
	if (r == 0)
		r = written_path(w, c, dirfd, p, &ret->path);
	if (r == 0)
		r = status_of(p, ret);
	if (r < 0)
		return r;
	ret->real = strdup(real);
	if (!ret->real)
		return -ENOMEM;
	return call_is_valid(c) ? 0 : -ESRCH;
}

static int open_found(void *data, struct call *c, const struct object *o)
{
	auto_free struct cow_place *p = calloc(1, sizeof(*p));
	int fd = -1;
	int r = p ? cow_find_text(data, c, "/", o->real, COW_LOOK, p) : -ENOMEM;

	if (r == 0)
		r = p->root ? merged_open(p->root->merged, p->at.path,
					  O_RDONLY | O_NONBLOCK, 0, &fd)
			    : -ESTALE;
	return r < 0 ? r : fd;
}

static char *shown(void *data, const char *real)
{
	char path[PATH_MAX];

	return cow_shown_path(data, real, path) ? strdup(path) : NULL;
}

/* In one order, whoever holds. */
static void hold(void *data, bool held)
{
	struct cow *w = data;

	for (size_t i = 0; i < w->n; i++)
		merged_hold(w->roots[held ? i : w->n - 1 - i].merged, held);
}

const struct object_finder *cow_finder(struct cow *w)
{
	w->finder = (struct object_finder){ find, open_found, hold, shown, w };
	return &w->finder;
}

int cow_is_shown(const struct cow_place *p, const struct object *shown)
{
	char real[PATH_MAX];
	int r = cow_inside_path(p, real);

	if (r < 0)
		return r;
	return shown->real && strcmp(shown->real, real) == 0 ? 0 : -EPERM;
}
