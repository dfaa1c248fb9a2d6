#include "branch/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/internal.h"

void selection_done(struct selection *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->paths[i]);
	free(s->paths);
	*s = (struct selection){ .n = 0 };
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
	*s = out;
	out = (struct selection){ .n = 0 };
	return 0;
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n == 0 || (strncmp(path, dir, n) == 0 &&
			  (path[n] == '\0' || path[n] == '/'));
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
