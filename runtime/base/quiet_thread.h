/* Threads of ours in a process whose signals belong to somebody else. */
#ifndef SANDLOCK_BASE_QUIET_THREAD_H
#define SANDLOCK_BASE_QUIET_THREAD_H

#include <pthread.h>

/*
 * Makes a thread with every signal blocked and a stack of 256 KiB; to be
 * joined. 0 or a negative errno.
 */
int quiet_thread_make(pthread_t *ret, void *(*fn)(void *), void *arg);

#endif
