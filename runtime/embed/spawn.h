/* Starting the supervisor process of a sandbox, from any thread. */
#ifndef SANDLOCK_EMBED_SPAWN_H
#define SANDLOCK_EMBED_SPAWN_H

#include "base/error.h"
#include "embed/channel.h"

struct spawned {
	pid_t pid;
	int sock;
	int events;   /* -1: none */
	int stdio[3]; /* our ends, where there is a pipe; else -1 */
};

#define SPAWNED_INIT                                              \
	{                                                         \
		.sock = -1, .events = -1, .stdio = { -1, -1, -1 } \
	}

/*
 * @events: with a second SOCK_SEQPACKET pair, for calls back. ERR_USAGE for
 * what cannot be a stream; ERR_SYSTEM.
 */
int spawn_supervisor(const char *program, const struct sandlock_launch *l,
		     bool events, struct spawned *ret, struct error *err);
void spawned_done(struct spawned *s);

#endif
