/*
 * Publishing and discarding (DESIGN section 5, cow.md section 4).
 *
 * Commit is: nothing of the sandbox alive -> branch lock -> flock on the lower
 * root -> read-only plan -> durable -> intent -> one renameat2 per entry ->
 * durable -> done -> cleanup by a detached child. All or nothing per entry,
 * restartable as a whole: whoever finds an intent rolls it forward (or, asked
 * to, back), comparing inode numbers with the plan.
 *
 * All functions run the work in the user namespace of the branch.
 */
#ifndef SANDLOCK_BRANCH_COMMIT_H
#define SANDLOCK_BRANCH_COMMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "branch/change.h"

struct branch;
struct error;
struct store;

enum conflict_mode {
	CONFLICT_REFUSE, /* one conflict: nothing is published, ERR_CONFLICT */
	CONFLICT_SKIP,	 /* publish the rest, keep the branch with these */
	CONFLICT_FORCE,	 /* last writer wins */
};

struct commit_options {
	enum conflict_mode conflicts;
	bool force_torn;     /* a branch that never settled before a reboot */
	bool allow_special;  /* sockets and devices too */
	int lock_timeout_ms; /* 5000 by default; ERR_LOCKED */
	const char *const *paths; /* only these (and below); n == 0: all */
	size_t n_paths;
	change_fn *on_conflict; /* told about each conflict; may be NULL */
	void *data;
};

struct commit_result {
	size_t n_published, n_skipped;
	bool gone; /* nothing is left pending: the branch no longer exists */
};

int branch_commit(struct branch *b, const struct commit_options *o,
		  struct commit_result *ret, struct error *err);

/* Discards all, or what lies below @paths. O(1) for all: rename to trash. */
int branch_abort(struct branch *b, const char *const *paths, size_t n_paths,
		 struct error *err);

enum recover_action {
	RECOVER_NOTHING,
	RECOVER_SETTLED,
	RECOVER_FORWARD,
	RECOVER_BACK
};

/* Finishes an interrupted commit or settles an interrupted sandbox. */
int branch_recover(struct branch *b, bool rollback, enum recover_action *ret,
		   struct error *err);

#endif
