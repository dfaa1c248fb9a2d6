/* The quick look at upper when a sandbox has ended; private to branch/. */
#ifndef SANDLOCK_BRANCH_SCAN_H
#define SANDLOCK_BRANCH_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct branch;

enum {
	SCAN_MAX = 256,
	SCAN_MAX_DEPTH = 64,	   /* directories, one in the other */
	SCAN_PATHS_MAX = 16 << 20, /* bytes: of those that lie deeper */
};

struct scan {
	bool count_only;  /* in: nothing is going to be synced */
	bool note_lowers; /* in */
	size_t n_objects; /* that are not what the runtime made */
	size_t n_changes; /* of these, without directories of the lower */
	uint64_t bytes;	  /* of the changed regular files */
	bool over;	  /* too many objects to be kept open */
	bool shut;	  /* something keeps its owner out (modes.h) */
	bool cut; /* the counts are lower bounds: too many lie too deep */
	/* With note_lowers: what was noted, and what the lower has where
	 * nothing was (origin_add_lower). */
	struct buf notes, lowers;
	/* To be synced unless @over: changed files, and all directories. */
	int files[SCAN_MAX], dirs[SCAN_MAX];
	size_t n_files, n_dirs;
};

/*
 * @inside: the caller is in the user namespace of the branch, where ids look
 * different. -EACCES where it would have to be.
 */
int scan_upper(const struct branch *b, bool inside, struct scan *s);
void scan_done(struct scan *s);

#endif
