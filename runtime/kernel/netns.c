#include "kernel/netns.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/process.h"

enum { STACK_BYTES = 64 * 1024 };

static void *make(void *data)
{
	struct netns *n = data;

	if (unshare(CLONE_NEWNET) == 0 && process_loopback_up(NULL) == 0)
		n->fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	return NULL;
}

void netns_begin(struct netns *n)
{
	pthread_attr_t attr;
	sigset_t all, old;

	if (n->begun)
		return;
	n->fd = -1;
	if (pthread_attr_init(&attr))
		return;
	/* Signals are for those who wait for them. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_attr_setstacksize(&attr, STACK_BYTES) == 0)
		n->begun = pthread_create(&n->thread, &attr, make, n) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
}

int netns_take(struct netns *n)
{
	int fd;

	if (!n->begun)
		return -1;
	(void)pthread_join(n->thread, NULL);
	n->begun = false;
	fd = n->fd;
	n->fd = -1;
	return fd;
}

void netns_done(struct netns *n)
{
	int fd = netns_take(n);

	if (fd >= 0)
		(void)close(fd);
}
