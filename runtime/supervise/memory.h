/*
 * The memory limit where no controller keeps it. A watcher counts what the
 * processes of the sandbox use together: private memory that was written or
 * swapped, shared anonymous memory, and the files in the sandbox's file
 * systems in memory. Where that is more than the limit, it kills the process
 * that uses most, as a controller would. That a single process can have no
 * more is the kernel's (RLIMIT_DATA), with ENOMEM.
 *
 * No call that asks for memory is trapped: a caller that waits to be received
 * can be interrupted by a signal, and no program expects EINTR of those.
 *
 * What cannot be counted is refused: memfd_create, shmget, msgget and semget
 * are ENOSYS, once there is a limit. It may be set, and lowered, later.
 *
 * Thread-safe; outlives the supervisor that has its rows.
 */
#ifndef SANDLOCK_SUPERVISE_MEMORY_H
#define SANDLOCK_SUPERVISE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "supervise/handler.h"

struct denials;
struct error;
struct memory;

/* @limit 0: none as yet. Whom it kills is on record in @d. */
int memory_new(uint64_t limit, struct denials *d, struct memory **ret,
	       struct error *err);
/*
 * Starts the watcher. @proc_fd is a procfs of the
 * sandbox's pid namespace, whose pid 1 does not count; where it has none of its
 * own its processes are those that descend from @below, else 0. @tmpfs_fds:
 * directories
 * on its file systems in memory; takes them all, also on failure.
 */
enum { MEMORY_TMPFS_MAX = 16 };
int memory_start(struct memory *m, int proc_fd, pid_t below,
		 const int *tmpfs_fds, size_t n, struct error *err);
/* Lowers the limit, or sets it, of all together; the limit of each process
 * (RLIMIT_DATA) is the caller's. After memory_start; 0 or a negative errno. */
int memory_restrict(struct memory *m, uint64_t limit);
/* Ends the watcher. */
void memory_free(struct memory *m);
CLEANUP_PTR(struct memory, memory_free);

enum { MEMORY_ROWS = 4 };

/* Writes the rows, and returns how many. */
size_t memory_rows(struct memory *m, struct handler ret[MEMORY_ROWS]);

#endif
