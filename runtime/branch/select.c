#include "branch/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/internal.h"
#include "branch/walk.h"

void selection_done(struct selection *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->paths[i]);
	free(s->paths);
	*s = (struct selection){ .n = 0 };
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n == 0 || (strncmp(path, dir, n) == 0 &&
			  (path[n] == '\0' || path[n] == '/'));
}

static char *relative_to(const char *path, const char *lower)
{
	auto_free char *absolute = path_join("/", path);
	auto_free char *whole = absolute ? path_normalize(absolute) : NULL;
	const char *rest = whole;

	if (!whole)
		return NULL;
	if (path[0] == '/' && strcmp(lower, "/") != 0 &&
	    path_is_under(whole, lower))
		rest += strlen(lower);
	return strdup(rest[0] == '/' ? rest + 1 : rest);
}

/* What lies below another of them, or is named twice, is part of that. */
static void drop_covered(struct selection *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		bool covered = false;

		for (size_t j = 0; j < s->n && !covered; j++)
			covered = j != i && s->paths[j] &&
				  is_below(s->paths[i], s->paths[j]);
		if (covered) {
			free(s->paths[i]);
			s->paths[i] = NULL;
		}
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->paths[i])
			s->paths[n++] = s->paths[i];
	s->n = n;
}

int selection_init(struct selection *s, const struct branch *b,
		   const char *const *paths, size_t n, struct error *err)
{
	auto_(selection) struct selection out = { .n = 0 };

	if (n == 0)
		return 0;
	out.paths = calloc(n, sizeof(*out.paths));
	if (!out.paths)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot select");
	for (size_t i = 0; i < n; i++) {
		if (!paths[i][0])
			return error_say(err, ERR_USAGE, EINVAL,
					 "an empty path selects nothing");
		out.paths[i] = relative_to(paths[i], b->meta.lower);
		if (!out.paths[i])
			return error_set(err, ERR_SYSTEM, ENOMEM,
					 "cannot select");
		out.n++;
	}
	drop_covered(&out);
	*s = out;
	out = (struct selection){ .n = 0 };
	return 0;
}

bool selection_has(const struct selection *s, const char *path)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_below(path, s->paths[i]))
			return true;
	return s->n == 0;
}

bool selection_leads(const struct selection *s, const char *path)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_below(s->paths[i], path))
			return true;
	return false;
}

int selection_say_unchanged(const char *branch, const char *path,
			    struct error *err)
{
	auto_(buf) struct buf quoted = BUF_INIT;

	path_quote(&quoted, path, strlen(path));
	return error_say(err, ERR_NOT_FOUND, ENOENT,
			 "branch '%s' did not change '%s'", branch,
			 buf_str(&quoted));
}

int selection_check(const struct selection *s, const char *branch, int upper_fd,
		    struct error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		auto_close int dirfd = -1;
		struct object o = { .mode = 0 };
		const char *name;
		int r = walk_lookup(upper_fd, s->paths[i], &dirfd, &name);

		if (r == 0)
			r = object_stat(dirfd, name, &o);
		if (r == 0 ? !o.mode
			   : r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
			return selection_say_unchanged(branch, s->paths[i],
						       err);
		if (r < 0)
			return error_set(err, ERR_SYSTEM, -r,
					 "cannot look up '%s' in branch '%s'",
					 s->paths[i], branch);
	}
	return 0;
}
