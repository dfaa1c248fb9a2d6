/*
 * The control socket of a host command that runs in the foreground: config,
 * state, ports, kill. The server's thread exists only between serve_start and
 * serve_stop: nothing clones meanwhile, and what it reads does not change.
 */
#ifndef SANDLOCK_SANDBOX_SERVE_H
#define SANDLOCK_SANDBOX_SERVE_H

#include "control/server.h"

struct create;

/*
 * After the payload was executed, so that it has no descriptor of the socket.
 * Does nothing where there is no directory. ERR_SYSTEM.
 */
int serve_start(struct create *c, struct control_server **ret,
		struct error *err);

#endif
