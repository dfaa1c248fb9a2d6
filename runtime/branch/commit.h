/*
 * Publishing and discarding (DESIGN section 5, cow.md section 4).
 *
 * Commit is: nothing of the sandbox alive -> branch lock -> flock on the lower
 * root -> read-only plan -> durable -> intent -> one renameat2 per entry ->
 * durable -> done -> cleanup by a detached child. All or nothing per entry,
 * restartable as a whole: whoever finds an intent rolls it forward (or, asked
 * to, back), comparing inode numbers with the plan. What fails halfway, for
 * whatever reason, is taken back at once.
 *
 * The lower ends as the sandbox saw it: type, contents and holes, mode, owner,
 * attributes and ACLs, mtimes, hard links. Sockets and git's lock files stay
 * behind; what was only opened is left alone.
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
	/* Publish the rest, keep the branch with these. A git repository, or a
	 * database with its journals, stays as a whole. */
	CONFLICT_SKIP,
	/* Last writer wins; but what cannot be done (a mount point, an
	 * immutable object) is refused all the same. */
	CONFLICT_FORCE,
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
	size_t n_published; /* as diff counts changes */
	size_t n_skipped;   /* conflicts, and what is never committed */
	bool gone; /* nothing is left pending: the branch no longer exists */
};

/*
 * An interrupted sandbox is settled first, an interrupted commit finished.
 * ERR_STATE while something of the branch is alive, ERR_NOT_FOUND if nothing
 * lies below the paths or somebody else has dealt with the branch meanwhile.
 */
int branch_commit(struct branch *b, const struct commit_options *o,
		  struct commit_result *ret, struct error *err);

/*
 * Discards all, or what lies below @paths, by renames to the trash. Not while
 * the branch is alive or a commit is unfinished (ERR_STATE).
 */
int branch_abort(struct branch *b, const char *const *paths, size_t n_paths,
		 struct error *err);

enum recover_action {
	RECOVER_NOTHING,
	RECOVER_SETTLED,
	RECOVER_FORWARD,
	RECOVER_BACK
};

/*
 * Finishes an interrupted commit or settles an interrupted sandbox. With
 * @rollback a commit is taken back and the branch is pending again, exact as
 * before; once "done" is durable that is ERR_STATE. Stops and reports
 * (ERR_CONFLICT) where the lower shows an inode that is neither the old nor
 * the new one. May itself be interrupted at any point, and repeated.
 */
int branch_recover(struct branch *b, bool rollback, enum recover_action *ret,
		   struct error *err);

#endif
