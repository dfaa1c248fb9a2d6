/*
 * Beside a sandbox that runs for more than a moment: a thread that watches what
 * it writes (branch/watch.h). It ends with the sandbox.
 */
#ifndef SANDLOCK_SANDBOX_WATCHING_H
#define SANDLOCK_SANDBOX_WATCHING_H

#include <pthread.h>
#include <stdbool.h>

struct branch;
struct branch_watch;

struct watching {
	struct branch_watch *watch;
	pthread_t thread;
	bool has_thread, begun;
	int pidfd;
};

/* Once; @b may be NULL. Best effort. */
void watching_begin(struct watching *w, struct branch *b, int pidfd);
/* When init has ended, or dies. */
void watching_end(struct watching *w);

#endif
