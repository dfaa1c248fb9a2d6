/*
 * Questions on the terminal that a run relays: --ask=tty.
 *
 *	y once   s this sandbox   n no   ? details   k kill
 *
 * By 's' every equal request of the sandbox is allowed from then on. Enter does
 * nothing; Esc and Ctrl-C mean no. What cannot be shown in full can be looked
 * at by '?', and is allowed once only. Any key stops no clock: the deadline
 *holds here, too.
 */
#ifndef SANDLOCK_SANDBOX_ASKTTY_H
#define SANDLOCK_SANDBOX_ASKTTY_H

#include "kernel/tty.h"

struct create;

/* tty_relay, with questions where @c (or NULL) has somebody to ask there. */
int asktty_relay(struct create *c, struct tty_session s, struct error *err);

#endif
