/*
 * What the kernel executes instead of a program, by itself and without a call:
 * the interpreter that a script names ("#!"), which may be a script, too, and
 * the one of an ELF program.
 */
#ifndef SANDLOCK_SUPERVISE_INTERPRETER_H
#define SANDLOCK_SUPERVISE_INTERPRETER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "supervise/object.h"

struct asker;
struct call;

enum interpreter {
	INTERPRETER_NONE, /* or the kernel will not execute it */
	INTERPRETER_OF_SCRIPT,
	INTERPRETER_OF_ELF,
};

/* An enum interpreter, with its path in @ret, or a negative errno. */
int interpreter_read(int fd, char ret[PATH_MAX]);

/* A script may name a script; the kernel follows five. */
enum { INTERPRETERS_MAX = 8 };

struct interpreters {
	struct object v[INTERPRETERS_MAX]; /* the script's own first */
	size_t n;
	bool has_loader; /* the last one is that of an ELF program */
	/* There may be more: something could not be looked into. */
	bool is_unknown;
};

/* Those of what execve or execveat @c calls @path and @o was found for; what is
 * missing is none. -ENOMEM, -ESRCH. */
int interpreters_find(const struct asker *a, struct call *c, const char *path,
		      const struct object *o, struct interpreters *ret);
void interpreters_done(struct interpreters *i);
bool interpreters_are_unchanged(const struct interpreters *a,
				const struct interpreters *b);
/*
 * How many somebody is asked about: all but the loader of an ELF program that
 * is called as loaders are, which nearly every program names.
 */
size_t interpreters_asked(const struct interpreters *i);
/* What the program is executed with in the end; NULL: itself. */
const char *interpreters_shown(const struct interpreters *i);

#endif
