/*
 * What a sandbox that nobody serves any more left in the runtime directory
 * (DESIGN section 6): a create or a foreground run that was killed.
 */
#ifndef SANDLOCK_SANDBOX_STALE_H
#define SANDLOCK_SANDBOX_STALE_H

struct rundir;
struct sandbox_env;

enum { STALE_AGE_MS = 2000 };

/*
 * Removes the directory of @name with its cgroups if it is older than two
 * seconds, its lock is free, nothing of it is alive, and it is no container
 * that waits for `delete`. 1 removed, 0 not, never an error.
 */
int stale_prune(const struct sandbox_env *env, struct rundir *d,
		const char *name);

#endif
