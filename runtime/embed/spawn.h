/* Starting the supervisor process of a sandbox, from any thread. */
#ifndef SANDLOCK_EMBED_SPAWN_H
#define SANDLOCK_EMBED_SPAWN_H

#include "base/error.h"
#include "embed/channel.h"

struct spawned {
	pid_t pid;
	int sock;
	int stdio[3]; /* our ends, where there is a pipe; else -1 */
};

/* ERR_USAGE for what cannot be a stream; ERR_SYSTEM. */
int spawn_supervisor(const char *program, const struct sandlock_launch *l,
		     struct spawned *ret, struct error *err);
void spawned_done(struct spawned *s);

#endif
