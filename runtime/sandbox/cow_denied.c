/* What of a lower is denied: sandbox/cow.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "sandbox/cow_internal.h"
#include "supervise/open.h"

int cow_deny(struct cow *w, const char *const *paths, size_t n,
	     cow_denied_fn *tell, const void *data)
{
	w->denied = calloc(n + 1, sizeof(*w->denied));
	if (!w->denied)
		return -ENOMEM;
	w->tell = tell;
	w->tell_data = data;
	w->hidden = paths;
	w->n_hidden = n;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < w->n; k++)
			if (path_is_under(paths[i], w->roots[k].lower)) {
				w->denied[w->n_denied++] = paths[i];
				break;
			}
	return 0;
}

/* 1: @ret is where it lies; 0: nothing is denied there. */
static int whole_path(const struct cow *w, const struct cow_place *p,
		      char ret[PATH_MAX])
{
	int r;

	if (!w->n_denied || !p->root)
		return 0;
	r = cow_inside_path(p, ret);
	return r < 0 ? r : 1;
}

enum cow_sight cow_sight(const struct cow *w, const struct cow_place *p)
{
	char path[PATH_MAX];
	int r = 0;

	if (w->n_hidden == 0)
		return COW_SEEN;
	if (p->root)
		r = cow_inside_path(p, path);
	else
		path_copy(path, p->outside);
	/* As it was said. */
	for (size_t n = r ? 0 : strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	for (size_t i = 0; r == 0 && i < w->n_hidden; i++)
		if (path_is_under(path, w->hidden[i]))
			return strcmp(path, w->hidden[i]) == 0 ? COW_HIDDEN
							       : COW_NOTHING;
	return COW_SEEN;
}

/* As Landlock calls what is refused. */
static const char *code_of(struct call *c, cow_fn *fn)
{
	struct open_how how = { .flags = 0 };
	unsigned int at;
	int dirfd;

	if (fn == cow_exec)
		return "fs.execute";
	if (fn == cow_rename || fn == cow_link)
		return "fs.refer";
	if (fn == cow_remove)
		return "fs.remove_file";
	if (fn == cow_access || fn == cow_chdir ||
	    (fn == cow_open && open_call_read(c, &dirfd, &how, &at) == 0 &&
	     !open_is_write(&how)))
		return "fs.read_file";
	return "fs.write_file";
}

static int refuse(const struct cow *w, struct call *c, const char *path)
{
	cow_fn *fn = NULL;
	const char *call = cow_name(call_nr(c), &fn);

	if (call && call_is_valid(c))
		w->tell(w->tell_data, c, code_of(c, fn), call, path);
	return -EACCES;
}

int cow_check(const struct cow *w, struct call *c, const struct cow_place *p)
{
	char path[PATH_MAX];
	int r = whole_path(w, p, path);

	if (r <= 0)
		return r;
	for (size_t i = 0; i < w->n_denied; i++)
		if (path_is_under(path, w->denied[i]))
			return refuse(w, c, path);
	return 0;
}

int cow_check_outside(const struct cow *w, struct call *c,
		      const struct cow_place *p)
{
	if (cow_sight(w, p) != COW_NOTHING)
		return 0;
	if (faccessat(AT_FDCWD, p->outside, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		(void)refuse(w, c, p->outside);
	return -ENOENT;
}

int cow_check_within(const struct cow *w, struct call *c,
		     const struct cow_place *p)
{
	char path[PATH_MAX];
	int r = whole_path(w, p, path);

	if (r <= 0)
		return r;
	for (size_t i = 0; i < w->n_denied; i++)
		if (path_is_under(w->denied[i], path))
			return refuse(w, c, w->denied[i]);
	return 0;
}

bool cow_is_beside_denied(const struct cow *w, const struct cow_place *p)
{
	char path[PATH_MAX], *slash;
	bool found = false;

	if (whole_path(w, p, path) <= 0)
		return false;
	/* Of a directory that holds it this is true, too. */
	for (size_t i = 0; i < w->n_denied; i++)
		found |= path_is_under(w->denied[i], path);
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < w->n_denied; i++)
		found |= path_is_under(w->denied[i], path);
	return found;
}
