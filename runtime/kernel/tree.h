/*
 * Who descends from a process, found by looking at /proc. A snapshot: what is
 * forked meanwhile may be missing.
 */
#ifndef SANDLOCK_KERNEL_TREE_H
#define SANDLOCK_KERNEL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The processes below @root, without it, as pids of ours, zombies too;
 * malloc'ed, NULL where there are none. Orphans are found only if @root adopts
 * them (PR_SET_CHILD_SUBREAPER). A negative errno.
 */
int tree_list(pid_t root, pid_t **ret, size_t *ret_n);

/* True if @pid, a process or a thread, descends from @root. */
bool tree_has(pid_t root, pid_t pid);

#endif
