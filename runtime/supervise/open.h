/*
 * Files that somebody has to be asked about before they are opened.
 *
 * What is allowed is opened here, in the caller's place (supervise/opener.h):
 * the object that was shown, by what was read of the caller then, so that
 * nobody has to stand still. What cannot be opened so is left to the caller,
 * with its own rights: everybody else is frozen, path, flags and file are
 * looked at again, and the kernel goes on only if nothing has changed (EPERM
 * otherwise). As for exec, opens that no rule matches take that way, too.
 */
#ifndef SANDLOCK_SUPERVISE_OPEN_H
#define SANDLOCK_SUPERVISE_OPEN_H

#include <linux/openat2.h>

#include "supervise/ask.h"
#include "supervise/freeze.h"
#include "supervise/opener.h"

struct object;
struct spec_strings;

/*
 * Of a call of the open family: where the path is (the number of the argument)
 * and how it is opened. -ENOSYS for another call, -EINVAL and -E2BIG for a
 * struct open_how that is not ours.
 */
int open_call_read(struct call *c, int *ret_dirfd, struct open_how *ret_how,
		   unsigned int *ret_path);
/* True if it may write, or make a file. */
bool open_is_write(const struct open_how *how);

/* "openat" */
const char *open_call_name(const struct call *c);

enum { OPEN_ROWS = 4 };
/* A row @like for each call of the family. */
size_t open_family_rows(const struct handler *like,
			struct handler ret[OPEN_ROWS]);

/* Borrowed by the rows; outlives the supervisor. */
struct open_asker {
	const struct asker *asker;
	const struct spec_strings *rules; /* policy/ask.h */
	struct opener *opener;
	struct freezer *freezer;
};

/* What was asked about, or looked at with no rule for it, and how it is to be
 * opened: rows behind ours carry out that. NULL: the call was not looked at. */
const struct object *open_shown(const struct call *c, struct open_how *ret_how);

size_t open_rows(struct open_asker *a, struct handler ret[OPEN_ROWS]);

#endif
