/*
 * Who calls, for those who ask at every call: its root directory and what
 * who_read says, remembered for the tasks that called last. A pidfd tells
 * whether a number still means the same task, and what its ids are now
 * (PIDFD_GET_INFO, 6.13; without it nothing is remembered). Groups and root are
 * not told: callers_forget, before any task of the sandbox can change them,
 * ends the remembering for good.
 *
 * Thread-safe.
 */
#ifndef SANDLOCK_SUPERVISE_CALLERS_H
#define SANDLOCK_SUPERVISE_CALLERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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
	size_t n_groups;
	gid_t groups[];
};

void caller_put(struct caller *k); /* NULL is fine */

struct callers {
	pthread_mutex_t lock;
	bool is_over;
	struct caller *v[CALLERS_MAX];
};

int callers_init(struct callers *k);
void callers_done(struct callers *k);

/*
 * As who_read and call_open_root, whose root is @ret_caller's; capabilities may
 * be more than it has, and the umask is told only if @wants_umask. It counts if
 * the call is valid afterwards.
 */
int callers_find(struct callers *k, struct call *c, bool wants_umask,
		 struct who *ret, struct caller **ret_caller);
void callers_forget(struct callers *k);

#endif
