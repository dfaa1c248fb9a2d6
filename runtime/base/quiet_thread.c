#include "base/quiet_thread.h"

#include <signal.h>
#include <time.h>

enum { STACK_BYTES = 256 * 1024 };

/* @attr NULL: as threads are. */
static int make(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
		void *arg)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, attr, fn, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

int quiet_thread_make(pthread_t *ret, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = make(ret, &attr, fn, arg);
	(void)pthread_attr_destroy(&attr);
	return r;
}

int quiet_thread_make_deep(pthread_t *ret, void *(*fn)(void *), void *arg)
{
	return make(ret, NULL, fn, arg);
}

int cond_init_monotonic(pthread_cond_t *c)
{
	pthread_condattr_t attr;
	int r = pthread_condattr_init(&attr);

	if (r)
		return -r;
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	r = pthread_cond_init(c, &attr);
	(void)pthread_condattr_destroy(&attr);
	return -r;
}
