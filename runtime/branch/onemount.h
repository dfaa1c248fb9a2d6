/*
 * rename(2) refuses to cross mounts, even of one file system. Root can look at
 * both directories through one detached clone of a mount that holds both.
 */
#ifndef SANDLOCK_BRANCH_ONEMOUNT_H
#define SANDLOCK_BRANCH_ONEMOUNT_H

/*
 * Opens the directories @a and @b again, through one mount. 0, or a negative
 * errno where there is no such mount or we may not clone it.
 */
int onemount_open(int a, int b, int *ret_a, int *ret_b);

#endif
