/*
 * A network namespace that is made beside other work. It takes about as long
 * as all the rest of a clone, and the kernel makes it in the calling thread:
 * so a thread of its own does, which is gone again when the fd is taken. Nobody
 * clones before that: setresuid(3) and its like would wait in the child for a
 * lock that the thread had.
 *
 *	zeroed -> netns_begin -> (anything) -> netns_take | netns_done
 *
 * The namespace belongs to the caller's user namespace, and its loopback device
 * is up. Where no thread can be had, or it fails, there is no fd, and the
 * caller makes the namespace the ordinary way.
 */
#ifndef SANDLOCK_KERNEL_NETNS_H
#define SANDLOCK_KERNEL_NETNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct netns {
	pthread_t thread;
	bool begun;
	atomic_bool is_made; /* by the thread, which is about to end */
	int fd;		     /* of the thread, until it is joined */
};

/* @n must stay where it is until netns_take or netns_done; once is enough. */
void netns_begin(struct netns *n);
/* Would netns_take wait? */
bool netns_is_pending(const struct netns *n);
/* Waits for the thread. The fd is the caller's; -1: there is none. */
int netns_take(struct netns *n);
/* Whether or not anything was begun. */
void netns_done(struct netns *n);

#endif
