#include "kernel/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

int interrupt_open(struct interrupt *i)
{
	static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	struct sigaction sa;
	sigset_t set;

	*i = (struct interrupt)INTERRUPT_INIT;
	(void)sigemptyset(&set);
	for (size_t k = 0; k < ARRAY_LEN(ending); k++)
		if (sigaction(ending[k], NULL, &sa) == 0 &&
		    sa.sa_handler != SIG_IGN)
			(void)sigaddset(&set, ending[k]);
	i->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return i->fd < 0 ? -errno : 0;
}

void interrupt_close(struct interrupt *i)
{
	if (!i)
		return;
	cleanup_close(&i->fd);
	if (i->sig)
		(void)raise(i->sig);
	*i = (struct interrupt)INTERRUPT_INIT;
}

int interrupt_fd(const struct interrupt *i)
{
	return i ? i->fd : -1;
}

int interrupt_take(struct interrupt *i)
{
	struct signalfd_siginfo si;
	int sig = 0;

	while (i && i->fd >= 0 && read(i->fd, &si, sizeof(si)) == sizeof(si))
		if (!sig)
			sig = (int)si.ssi_signo;
	if (i && !i->sig)
		i->sig = sig;
	return sig;
}

int interrupt_came(struct interrupt *i)
{
	(void)interrupt_take(i);
	return i ? i->sig : 0;
}

int interrupt_wait(struct interrupt *i, int fd)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN },
			      { .fd = interrupt_fd(i), .events = POLLIN } };

	while (i && !i->sig && !p[0].revents) {
		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents && interrupt_take(i))
			break;
	}
	return i ? i->sig : 0;
}
