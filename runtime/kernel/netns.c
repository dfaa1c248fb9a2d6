#include "kernel/netns.h"

#include <limits.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/process.h"

enum { STACK_BYTES = 64 * 1024 };

/* By a socket: procfs would have to make a directory for the thread. */
static int open_own(void)
{
	auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : ioctl(fd, SIOCGSKNS);
}

static void *make(void *data)
{
	struct netns *n = data;

	if (unshare(CLONE_NEWNET) == 0 && process_loopback_up(NULL) == 0)
		n->fd = open_own();
	atomic_store(&n->is_made, true);
	return NULL;
}

void netns_begin(struct netns *n)
{
	pthread_attr_t attr;
	sigset_t all, old;

	if (n->begun)
		return;
	n->fd = -1;
	atomic_init(&n->is_made, false);
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

bool netns_is_pending(const struct netns *n)
{
	return n->begun && !atomic_load(&n->is_made);
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
