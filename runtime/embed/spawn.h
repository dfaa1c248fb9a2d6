/* Starting the supervisor process of a sandbox, from any thread. */
#ifndef SANDLOCK_EMBED_SPAWN_H
#define SANDLOCK_EMBED_SPAWN_H

#include "base/error.h"
#include "embed/channel.h"

/* Who is called back: each has a SOCK_SEQPACKET pair of its own. */
enum guest_kind {
	GUEST_POLICY,	/* sandbox/asklink.h */
	GUEST_HANDLERS, /* sandbox/calllink.h */
	GUESTS
};

struct spawned {
	pid_t pid;
	int sock;
	int guests[GUESTS]; /* -1: none */
	int stdio[3];	    /* our ends, where there is a pipe; else -1 */
};

#define SPAWNED_INIT                                                      \
	{                                                                 \
		.sock = -1, .guests = { -1, -1 }, .stdio = { -1, -1, -1 } \
	}

/*
 * @guests: a mask of 1 << enum guest_kind. ERR_USAGE for what cannot be a
 * stream; ERR_SYSTEM.
 */
int spawn_supervisor(const char *program, const struct sandlock_launch *l,
		     unsigned int guests, struct spawned *ret,
		     struct error *err);
void spawned_done(struct spawned *s);

#endif
