/* Names and paths as strings. Nothing here touches the file system. */
#ifndef SANDLOCK_BASE_PATH_H
#define SANDLOCK_BASE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct error;

/*
 * Checks the name of a sandbox or branch: 1 to 255 of [A-Za-z0-9_+.-], not
 * starting with '.' (so never "." or ".."). ERR_NAME.
 */
int name_check(const char *name, struct error *err);

/* True if @path is @dir or lies below it; both absolute and normalised. */
bool path_is_under(const char *path, const char *dir);

/* What @path, which is under @dir, is called from there: "/", "/a". */
const char *path_below(const char *path, const char *dir);

/* "dir/name" without doubling the slash; malloc'ed, NULL on ENOMEM. */
char *path_join(const char *dir, const char *name);

/*
 * Removes "//", "." and ".." lexically ("..", at the root stays there). The
 * result is absolute if @path is; a relative one keeps the ".." that lead out
 * of it, and an empty one is ".". malloc'ed, NULL on ENOMEM.
 */
char *path_normalize(const char *path);

/* The last component is none, "." or "..". */
bool path_ends_in_dots(const char *path);

/*
 * Appends @n bytes of @s as git quotes them: as they are if all are plain
 * printable UTF-8, else in double quotes with C escapes. Control characters,
 * bidirectional and invisible characters never reach a terminal.
 */
void path_quote(struct buf *b, const char *s, size_t n);

/* Cuts @s to @max characters on a code point boundary and appends it. */
void text_cut(struct buf *b, const char *s, size_t max);

/* Appends @s with what path_quote escapes, broken UTF-8 too, as \xNN. */
void text_escape(struct buf *b, const char *s, size_t n);

/*
 * The value of the environment variable @name, which has to be absolute: what
 * is meant by it may not depend on where one is. ERR_USAGE; 0 with *@ret NULL
 * if it is unset or empty.
 */
int path_from_env(const char *name, const char **ret, struct error *err);

/* Copies a path whose length was checked; a longer one is cut. */
void path_copy(char ret[PATH_MAX], const char *path);

#endif
