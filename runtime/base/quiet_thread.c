#include "base/quiet_thread.h"

#include <signal.h>

enum { STACK_BYTES = 256 * 1024 };

int quiet_thread_make(pthread_t *ret, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = pthread_create(ret, &attr, fn, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	return -r;
}
