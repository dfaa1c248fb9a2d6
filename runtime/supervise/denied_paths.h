/*
 * Paths that were denied while the sandbox runs: nothing at or below them is
 * opened or executed any more, whoever allowed it before. Thread-safe.
 */
#ifndef SANDLOCK_SUPERVISE_DENIED_PATHS_H
#define SANDLOCK_SUPERVISE_DENIED_PATHS_H

#include <stdbool.h>

#include "base/cleanup.h"

struct denied_paths;
struct json_out;

enum { DENIED_PATHS_MAX = 4096 };

/* NULL on ENOMEM. */
struct denied_paths *denied_paths_new(void);
void denied_paths_free(struct denied_paths *d);
CLEANUP_PTR(struct denied_paths, denied_paths_free);

/*
 * An absolute path. -EINVAL, -ENOMEM, -ENOSPC for more than that many: from
 * the last two on everything is denied.
 */
int denied_paths_add(struct denied_paths *d, const char *path);
/* Takes back exactly what was said; nothing that the request denies. */
void denied_paths_remove(struct denied_paths *d, const char *path);
/* Of a path and what it leads to (or NULL). @d may be NULL. */
bool denied_paths_has(struct denied_paths *d, const char *path,
		      const char *real);
/* Whether any is. @d may be NULL. */
bool denied_paths_any(struct denied_paths *d);
/* An array of strings. */
void denied_paths_json(struct denied_paths *d, struct json_out *o);

#endif
