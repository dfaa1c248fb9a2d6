/*
 * Renaming directories of a mounted branch.
 *
 * The overlay refuses to rename a directory that the lower has a part in
 * (EXDEV), since that would take a redirect, which an upper of ours never
 * holds. Here such a directory is replaced in place by one that is upper's
 * alone and has the same contents, after which the kernel renames it: nothing
 * that can be seen has changed but inode numbers.
 *
 *	copy up every file of D	slow, may fail, changes nothing that is seen
 *	move what is in D to T	a new directory beside it, renames only
 *	rename T to D		D is empty by then
 *
 * A note in the branch's directory names T while it exists. Where the work was
 * cut off, settling the branch moves everything back.
 *
 * The work is done relative to fds and never leaves the mount, whatever a
 * payload does to the tree meanwhile.
 */
#ifndef SANDLOCK_BRANCH_MOVABLE_H
#define SANDLOCK_BRANCH_MOVABLE_H

#include <stdbool.h>

struct branch;
struct error;

/*
 * Has the lower a part in the directory at @path, relative to the root? Also
 * true where that cannot be told. Thread-safe.
 */
bool branch_has_lower_dir(const struct branch *b, const char *path);

/*
 * Makes the directory @name in @parent_fd, which is @path in the mounted
 * branch, upper's alone. For a process that has every right over the mount.
 * -EXDEV if something is mounted below it, or somebody else is at work in it;
 * -ENOSPC, -EDQUOT; else -EIO: nothing has changed then. One at a time.
 */
int branch_make_movable(const struct branch *b, int parent_fd, const char *name,
			const char *path);

/* For settling: undoes what was cut off; nothing is mounted any more. */
int branch_undo_moves(struct branch *b, struct error *err);

#endif
