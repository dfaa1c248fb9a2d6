/* Removing trees, for others than the store: trash.c. */
#ifndef SANDLOCK_BRANCH_TRASH_H
#define SANDLOCK_BRANCH_TRASH_H

/*
 * Removes the directory @name of @parent_fd with all that is in it, whatever
 * its depth and modes; what is there is never followed. What cannot be removed
 * stays.
 */
void trash_remove_tree(int parent_fd, const char *name);

#endif
