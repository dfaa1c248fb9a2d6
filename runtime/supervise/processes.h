/*
 * The process limit where the kernel cannot keep it: no pids controller, and
 * no RLIMIT_NPROC of the sandbox's own (it counts for each user namespace, but
 * spares the host's root).
 *
 * Rows for fork, vfork, clone and clone3. A fork takes its place once its chain
 * has settled, and gives it back if it cannot be answered. Exits are seen, not
 * heard of: nothing is kept of a process that the sandbox could fake by
 * waiting, not waiting, or ignoring SIGCHLD. As long as places taken since the
 * last count leave room nothing is looked at; then the sandbox is counted
 * again, zombies left out, and a place more for each fork that may still be
 * under way. Threads do not count.
 *
 * Thread-safe; outlives the supervisor that has its rows.
 */
#ifndef SANDLOCK_SUPERVISE_PROCESSES_H
#define SANDLOCK_SUPERVISE_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "supervise/handler.h"

struct denials;
struct processes;

/*
 * The processes that count, zombies or not, as pids of ours, malloc'ed; a
 * negative errno refuses the fork.
 */
typedef int processes_list_fn(void *data, pid_t **ret, size_t *ret_n);

/* @limit 0: none, until processes_restrict sets one. What is refused goes to
 * @d, which may be NULL. NULL on ENOMEM. */
struct processes *processes_new(unsigned int limit, processes_list_fn *list,
				void *data, struct denials *d);
void processes_free(struct processes *p);
CLEANUP_PTR(struct processes, processes_free);

/* Lowers the limit. Forks that are under way then may go over it. Thread-safe;
 * 0, or -ENOMEM. */
int processes_restrict(struct processes *p, unsigned int limit);

enum { PROCESSES_ROWS = 4 };

/* Writes the rows, and returns how many this architecture has. */
size_t processes_rows(struct processes *p, struct handler ret[PROCESSES_ROWS]);

#endif
