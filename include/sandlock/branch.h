/*
 * Branches by their names: what they change, commit, abort, recover.
 */
#ifndef LIBSANDLOCK_BRANCH_H
#define LIBSANDLOCK_BRANCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base.h"

SANDLOCK_BEGIN

struct sandlock_branch_info {
	/* lower and upper are those of the first root; of a branch that is
	 * damaged all but name and state are empty. */
	char *name, *state, *lower, *dir, *upper, *command;
	struct sandlock_root {
		char *lower, *upper;
	} * roots; /* all of them; empty for one that is damaged */
	size_t n_roots;
	enum sandlock_disposition on_exit, on_error;
	enum sandlock_exit_kind exit_kind;
	int exit_value;
	struct timespec created;
};
int sandlock_branches(const struct sandlock_env *env,
		      struct sandlock_branch_info **ret, size_t *ret_n,
		      struct sandlock_error *err);
void sandlock_branches_free(struct sandlock_branch_info *v, size_t n);

struct sandlock_side {
	mode_t mode; /* 0: does not exist on this side */
	uid_t uid;
	gid_t gid;
	uint64_t size;
	dev_t rdev;
	struct timespec mtime;
	const char *link_target;
};

enum sandlock_change_flag {
	SANDLOCK_CHANGE_CONTENT_SAME = 1 << 0,
	SANDLOCK_CHANGE_MTIME_ONLY = 1 << 1,
	SANDLOCK_CHANGE_CONFLICT = 1 << 2,
	SANDLOCK_CHANGE_OPAQUE = 1 << 3,
	SANDLOCK_CHANGE_LINK = 1 << 4,
	SANDLOCK_CHANGE_LINK_BROKEN = 1 << 5,
	SANDLOCK_CHANGE_SETID = 1 << 6,
	SANDLOCK_CHANGE_SPECIAL = 1 << 7,
	SANDLOCK_CHANGE_ABSENT = 1 << 8,
	SANDLOCK_CHANGE_IMPLIED = 1 << 9,
	SANDLOCK_CHANGE_STALE_LOCK = 1 << 10, /* of a git that is dead: left out
						 of a commit */
};

struct sandlock_change {
	char letter; /* A M m D T */
	unsigned int flags;
	const char *path;
	struct sandlock_side before, after;
	const char *link_to;
	const char *xattrs;
	const char *conflict;
	/* The workdir that path is relative to, if the branch has several; or
	 * NULL. */
	const char *root;
};
typedef int sandlock_change_fn(void *data, const struct sandlock_change *c);

enum sandlock_change_want {
	SANDLOCK_WANT_UNCHANGED = 1 << 0,
	SANDLOCK_WANT_CHILDREN = 1 << 1,
	SANDLOCK_WANT_CONFLICTS = 1 << 2,
	SANDLOCK_WANT_META = 1 << 3,
};

int sandlock_diff(const struct sandlock_env *env, const char *name,
		  unsigned int want, const char *const *paths, size_t n_paths,
		  sandlock_change_fn *fn, void *data,
		  struct sandlock_error *err);
/* Mounts that the branch does not cover, one call each (path only). */
int sandlock_uncovered(const struct sandlock_env *env, const char *name,
		       sandlock_change_fn *fn, void *data,
		       struct sandlock_error *err);
/* Opens one side (false: before) of a regular file, read-only. */
int sandlock_open_content(const struct sandlock_env *env, const char *name,
			  const char *path, bool after, int *ret_fd,
			  struct sandlock_error *err);
int sandlock_digest(const struct sandlock_env *env, const char *name,
		    const char *path, bool after, char ret[65],
		    struct sandlock_error *err);

enum sandlock_conflicts {
	SANDLOCK_CONFLICT_REFUSE,
	SANDLOCK_CONFLICT_SKIP,
	SANDLOCK_CONFLICT_FORCE,
};

struct sandlock_commit {
	enum sandlock_conflicts conflicts;
	bool force_torn;
	bool allow_special;
	int lock_timeout_ms; /* 0: 5000 */
	const char *const *paths;
	size_t n_paths;
	sandlock_change_fn *on_conflict;
	void *data;
	size_t n_published, n_skipped; /* results */
	bool gone;
};

int sandlock_commit(const struct sandlock_env *env, const char *name,
		    struct sandlock_commit *c, struct sandlock_error *err);
int sandlock_abort(const struct sandlock_env *env, const char *name,
		   const char *const *paths, size_t n_paths,
		   struct sandlock_error *err);

enum sandlock_recovered {
	SANDLOCK_RECOVERED_NOTHING,
	SANDLOCK_RECOVERED_SETTLED,
	SANDLOCK_RECOVERED_FORWARD,
	SANDLOCK_RECOVERED_BACK,
};
int sandlock_recover(const struct sandlock_env *env, const char *name,
		     bool rollback, enum sandlock_recovered *ret,
		     struct sandlock_error *err);

SANDLOCK_END

#endif
