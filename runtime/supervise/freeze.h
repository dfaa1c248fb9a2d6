/*
 * The freeze: nobody of a sandbox runs while one call that was decided on the
 * contents of memory is let go on.
 *
 * An account (supervise/account.h) does it, once the chain of a call has
 * settled: it closes the exec gate, so that no call is answered and no memory
 * written meanwhile; stops every other task of the sandbox with ptrace; has
 * what was decided on read again; and lets the kernel carry on. The freeze ends
 * when the caller has left the call, which is seen from its own stop: at the
 * exec event, or on its way back to user space.
 *
 * Tasks that wait for our answer cannot be stopped, but do not run before they
 * have it, and are left alone. A parent in vfork does not run either; it is
 * seized all the same, stops before its next instruction, and is let go then,
 * however late.
 * Threads that die of an exec are reaped: traced, they would hold it up for
 * ever.
 *
 * Tracing belongs to the thread that seized: it is a dedicated one, which lives
 * while it has tracees.
 */
#ifndef SANDLOCK_SUPERVISE_FREEZE_H
#define SANDLOCK_SUPERVISE_FREEZE_H

#include <sys/types.h>

#include "base/cleanup.h"
#include "supervise/account.h"
#include "supervise/processes.h"

struct call;
struct freezer;

/*
 * @list names every process that runs the sandbox's code, the caller's own
 * included: its other threads are stopped, too. NULL on ENOMEM.
 */
struct freezer *freezer_new(processes_list_fn *list, void *data);
/* After the supervisor. NULL is allowed. */
void freezer_free(struct freezer *f);
CLEANUP_PTR(struct freezer, freezer_free);

/*
 * How the end of the call is seen. A caller that was seized stops on its way
 * out of the call, but a call that waits (the open of a FIFO) would be
 * interrupted by that, again and again. One that is watched has read what it
 * was given once it sleeps interruptibly, or has used the CPU for a while.
 * Where another process shares its memory it is seized all the same: it must
 * not run before it is known that this one has not died meanwhile, and been
 * written to.
 */
enum freeze_caller {
	FREEZE_SEIZE,
	FREEZE_WATCH,
	/* Of freezer_begin's own: it is traced by supervise/redirect.h, whose
	 * work ends with the call. */
	FREEZE_TRACED,
};

/*
 * Stops all but the caller of @c. 0, or a positive errno; then everybody runs
 * again. EPERM where a task could not be stopped in time.
 */
int freezer_begin(struct freezer *f, struct call *c, enum freeze_caller how);
/* The answer is on its way: waits until the caller has left the call, then
 * lets everybody go. */
void freezer_end(struct freezer *f, struct call *c);
/* The answer is none: lets everybody go. */
void freezer_cancel(struct freezer *f, struct call *c);

/* 1: @pid, one of these, has the caller's memory; 0, or a negative errno. */
int freezer_shares(const struct freezer *f, pid_t pid);
/* Another process has it, or that cannot be known. */
bool freezer_has_sharer(const struct freezer *f);

/* The processes that are stopped, for who looks at them; borrowed until the
 * freeze ends. */
const pid_t *freezer_processes(const struct freezer *f, size_t *ret_n);

#endif
