/*
 * What a sandbox that nobody serves any more left in the runtime directory
 * (DESIGN section 6): a create or a foreground run that was killed.
 */
#ifndef SANDLOCK_SANDBOX_STALE_H
#define SANDLOCK_SANDBOX_STALE_H

#include <stdbool.h>

struct rundir;
struct rundir_slot;
struct sandbox_env;
struct sandbox_state;

enum { STALE_AGE_MS = 2000 };

/*
 * Removes the directory of @name with its cgroups if it is older than two
 * seconds, its lock is free, nothing of it is alive, and it is no container
 * that waits for `delete`; nor, without @hooks, a run whose poststop hooks
 * would have to be run. 1 removed, 0 not, never an error.
 */
int stale_prune(const struct sandbox_env *env, struct rundir *d,
		const char *name, bool hooks);
/* The run of @s, which has ended, has such hooks. */
bool stale_waits(const struct rundir_slot *slot, const struct sandbox_state *s);

#endif
