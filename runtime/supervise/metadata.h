/*
 * Owners, modes, times and attributes of files, which Landlock does not guard:
 * where no mount namespace makes the rest read-only, the calls that change them
 * are carried out here, on what may be written, and refused with EROFS
 * elsewhere. The object is opened once, as the caller's kernel would find it;
 * what is judged and what is changed is that one.
 *
 * Also how other processes of the user are scheduled: a process may be named by
 * its number only if it is inside.
 */
#ifndef SANDLOCK_SUPERVISE_METADATA_H
#define SANDLOCK_SUPERVISE_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "supervise/handler.h"

struct metadata_options {
	/* May what lies at @path, a real one, be changed? */
	bool (*is_writable)(const void *data, const char *path);
	const void *data;
	pid_t guard; /* what is inside descends from it */
};

enum { METADATA_ROWS = 24 };

/* Writes the rows, which borrow @o, and returns how many there are. */
size_t metadata_rows(const struct metadata_options *o,
		     struct handler ret[METADATA_ROWS]);

#endif
