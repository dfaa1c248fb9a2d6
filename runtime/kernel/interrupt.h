/*
 * The signals that end what a sandbox is waited for with while there is no
 * payload to send them to: SIGHUP, SIGINT, SIGQUIT and SIGTERM, without those
 * that the caller ignores.
 *
 *	(signals are blocked) -> interrupt_open -> interrupt_wait ...
 *	-> interrupt_close -> (unblocked)
 *
 * interrupt_close raises again what was taken: once it is unblocked the
 * caller's disposition decides, as if it had come then. NULL stands for none in
 * all but interrupt_open. One thread.
 */
#ifndef SANDLOCK_KERNEL_INTERRUPT_H
#define SANDLOCK_KERNEL_INTERRUPT_H

#include "base/cleanup.h"

struct interrupt {
	int fd;	 /* -1: none */
	int sig; /* the first that came, or 0 */
};

#define INTERRUPT_INIT   \
	{                \
		.fd = -1 \
	}

/* 0 or a negative errno. */
int interrupt_open(struct interrupt *i);
void interrupt_close(struct interrupt *i);

/* For poll(2), or -1. */
int interrupt_fd(const struct interrupt *i);
/* Takes what has come since the last time: one of the signals, or 0. */
int interrupt_take(struct interrupt *i);
/* The first that has ever come, or 0. */
int interrupt_came(struct interrupt *i);
/* Until @fd can be read: 0; the signal where one has come. NULL: does not wait.
 */
int interrupt_wait(struct interrupt *i, int fd);

#endif
