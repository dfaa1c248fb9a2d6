/*
 * Renames of directories in a branch (rename, renameat, renameat2).
 *
 * The kernel refuses to rename a directory that the branch's lower has a part
 * in: EXDEV. For such a call the directory is made movable in place, which
 * nobody sees, and then the call goes on: what the caller may do, and how the
 * rename ends, is the kernel's to say, in every case. Everything else goes on
 * at once.
 *
 * The work is done by a process of its own in the user namespace that owns the
 * overlay, relative to fds in the branch's mount; first it tries, with the
 * caller's ids and capabilities, whether the kernel would refuse the call
 * anyway. A call whose work fails is ENOSPC, EDQUOT or else EIO, and has
 * changed nothing.
 */
#ifndef SANDLOCK_SUPERVISE_RENAME_H
#define SANDLOCK_SUPERVISE_RENAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "supervise/handler.h"

/* A branch as its callers see it. */
struct rename_branch {
	const char *path; /* where it is mounted, real */
	/* Thread-safe; @path is relative to the root of the branch. */
	bool (*is_lower)(const void *data, const char *path);
	/* Called in a process of its own, one at a time; 0, or a negative
	 * errno, -EXDEV: the kernel may say so. */
	int (*make_movable)(const void *data, int parent_fd, const char *name,
			    const char *path);
	const void *data;
};

struct denials;
struct renames;

/*
 * @branches is borrowed. @init: a process in the user namespace that owns the
 * mounts, which lives as long as a call can come; 0: that namespace is ours.
 * What could not be moved is recorded in @denials, which may be NULL. NULL on
 * ENOMEM.
 */
struct renames *renames_new(const struct rename_branch *branches, size_t n,
			    pid_t init, struct denials *denials);
void renames_free(struct renames *r);
CLEANUP_PTR(struct renames, renames_free);

enum { RENAMES_ROWS = 3 };

/* Writes the rows, and returns how many this architecture has. */
size_t renames_rows(struct renames *r, struct handler ret[RENAMES_ROWS]);

#endif
