/*
 * What this machine, and this build, can do; names of system calls.
 */
#ifndef LIBSANDLOCK_CHECK_H
#define LIBSANDLOCK_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base.h"

SANDLOCK_BEGIN

/* What this build can do: the features object of the specification, pretty. */
int sandlock_features(char **ret_json, struct sandlock_error *err);

/*
 * What this kernel, container and user can do. Everything is tried in children
 * that are gone afterwards; nothing is made that lasts.
 */
enum sandlock_check_state {
	SANDLOCK_CHECK_OK,
	SANDLOCK_CHECK_LIMITED, /* a default run works, something else not */
	SANDLOCK_CHECK_MISSING, /* a default run needs it */
};

struct sandlock_check_row {
	const char *name; /* "landlock" */
	enum sandlock_check_state state;
	char *found;
	char *means; /* what follows, or NULL */
	char *fix;   /* what to do about it, or NULL */
};

struct sandlock_check {
	struct sandlock_check_row *rows;
	size_t n_rows;
	/* "A": namespaces, "C": Landlock and a supervisor, commands of the host
	 * alone; NULL: nothing can be run. */
	const char *tier;
	int landlock_abi; /* 0: none */
	bool usable;	  /* no row is missing */
};
int sandlock_check(const struct sandlock_env *env, struct sandlock_check *ret,
		   struct sandlock_error *err);
void sandlock_check_done(struct sandlock_check *c);

/* The system calls that a command of the host is denied: a JSON array. */
int sandlock_syscalls(char **ret_json, struct sandlock_error *err);

/* The number of a system call of this machine, or -1; and its name, to be
 * freed, or NULL. */
int sandlock_syscall_number(const char *name);
char *sandlock_syscall_name(int nr);

SANDLOCK_END

#endif
