/* Threads of ours in a process whose signals belong to somebody else, and what
 * they wait with. */
#ifndef SANDLOCK_BASE_QUIET_THREAD_H
#define SANDLOCK_BASE_QUIET_THREAD_H

#include <pthread.h>

/*
 * Makes a thread with every signal blocked and a stack of 256 KiB; to be
 * joined. 0 or a negative errno.
 */
int quiet_thread_make(pthread_t *ret, void *(*fn)(void *), void *arg);
/* The same with a stack as the host's threads have, for code of the host. */
int quiet_thread_make_deep(pthread_t *ret, void *(*fn)(void *), void *arg);

/* pthread_cond_timedwait on CLOCK_MONOTONIC. 0 or a negative errno. */
int cond_init_monotonic(pthread_cond_t *c);

#endif
