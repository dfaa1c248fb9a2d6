/* Finding a sandbox by name, for every verb on an existing one. */
#ifndef SANDLOCK_SANDBOX_LOOKUP_H
#define SANDLOCK_SANDBOX_LOOKUP_H

#include "sandbox/sandbox.h"
#include "sandbox/state.h"

struct found {
	struct rundir *rundir;
	struct rundir_slot *slot;
	struct sandbox_state *state;
	enum sandbox_status status;
};

/*
 * Fills @ret: ERR_NOT_FOUND where there is none, ERR_STATE where it was never
 * finished. With @lock the slot is locked (10 s). found_done in any case.
 */
int found_open(const struct sandbox_env *env, const char *name, bool lock,
	       struct found *ret, struct error *err);
void found_done(struct found *f);

/* pidfd of init if it is still that process, else ERR_STATE "container not
 * running" (engines match the text). */
int found_pidfd(const struct found *f, struct error *err);

enum { LOOKUP_LOCK_MS = 10000 };

#endif
