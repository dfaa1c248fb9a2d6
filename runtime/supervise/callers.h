/*
 * Who calls, for those who ask at every call: its root directory and what
 * who_read says, remembered for the tasks that called last. A pidfd tells
 * whether a number still means the same task, and what its ids are now
 * (PIDFD_GET_INFO, 6.13; without it nothing is remembered). Groups and root are
 * not told: callers_forget, before any task of the sandbox can change them,
 * ends the remembering for good. The program is remembered where every exec is
 * announced before it may happen, and again when it has: under the name that it
 * had when it was looked for.
 *
 * Thread-safe.
 */
#ifndef SANDLOCK_SUPERVISE_CALLERS_H
#define SANDLOCK_SUPERVISE_CALLERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct call;
struct who;

enum { CALLERS_MAX = 32 };

/* One of them; whoever holds it sees to it that its descriptors stay. */
struct caller {
	atomic_uint refs;
	pid_t tid;
	int fd; /* pidfd of the task, or -1 */
	int root_fd;
	/* Under the lock of the callers. */
	char *program;	  /* NULL: not looked for yet */
	uint64_t n_execs; /* then */
	size_t n_groups;
	gid_t groups[];
};

void caller_put(struct caller *k); /* NULL is fine */

struct callers {
	pthread_mutex_t lock;
	bool is_over;
	bool sees_execs;
	unsigned int n_running; /* execs that are let go on */
	uint64_t n_execs;	/* changes when one begins and when it ends */
	struct caller *v[CALLERS_MAX];
};

/* @sees_execs: every one of the sandbox is told of. */
int callers_init(struct callers *k, bool sees_execs);
void callers_done(struct callers *k);

/*
 * As who_read and call_open_root, whose root is @ret_caller's; capabilities may
 * be more than it has, and the umask is told only if @wants_umask. The caller
 * was alive when this returns 0, so all that was read of it before was its own.
 */
int callers_find(struct callers *k, struct call *c, bool wants_umask,
		 struct who *ret, struct caller **ret_caller);
void callers_forget(struct callers *k);

/* The program of @who, who calls; malloc'ed, or NULL. */
char *callers_program(struct callers *k, struct caller *who, struct call *c);
void callers_exec_begin(struct callers *k);
void callers_exec_end(struct callers *k);

#endif
