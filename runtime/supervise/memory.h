/*
 * The memory limit where no controller keeps it: counted by looking.
 *
 * What is in use is private memory that was written, what is swapped, shared
 * anonymous memory, and the files in the sandbox's file systems in memory. A
 * call that would grow an address space (mmap, brk, mremap, mprotect) by more
 * than what is left is refused with ENOMEM, once that was counted again. A
 * large piece that was granted but not used yet counts for a second, or it
 * would be granted twice; after that, and of small ones, only what is used
 * counts, as with a controller. So a program may get more than it can use: a
 * watcher counts all the time, and where more is in use than the limit it
 * kills the process that uses most.
 *
 * What cannot be counted is refused: memfd_create is ENOSYS.
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
struct log_sink;
struct memory;

int memory_new(uint64_t limit, struct denials *d, const struct log_sink *log,
	       struct memory **ret, struct error *err);
/*
 * Before the first call: starts the watcher. @proc_fd is a procfs of the
 * sandbox's pid namespace, whose pid 1 does not count, @tmpfs_fds directories
 * on its file systems in memory; takes them all, also on failure. @log is
 * called on the watcher's thread, @d may be NULL.
 */
enum { MEMORY_TMPFS_MAX = 16 };
int memory_start(struct memory *m, int proc_fd, const int *tmpfs_fds, size_t n,
		 struct error *err);
/* Ends the watcher. */
void memory_free(struct memory *m);
CLEANUP_PTR(struct memory, memory_free);

enum { MEMORY_ROWS = 8 };

/* Writes the rows, and returns how many this architecture has. */
size_t memory_rows(struct memory *m, struct handler ret[MEMORY_ROWS]);

#endif
