/*
 * Questions on the terminal that a run relays: --ask=tty.
 *
 *	y once   n no   ? details   k kill
 *
 * Enter does nothing; Esc and Ctrl-C mean no. What cannot be shown in full can
 * be looked at by '?'. Any key stops no clock: the deadline holds here, too.
 */
#ifndef SANDLOCK_SANDBOX_ASKTTY_H
#define SANDLOCK_SANDBOX_ASKTTY_H

#include <stdint.h>

struct create;
struct error;

/* tty_relay, with questions where @c (or NULL) has somebody to ask there. */
int asktty_relay(struct create *c, int master_fd, int pidfd, int signal_fd,
		 int64_t end_ms, struct error *err);

#endif
