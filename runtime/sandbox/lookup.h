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

/*
 * pidfd of the process that serves it and settles its branch, never our own;
 * negative where none does. Its number may be another's by now: a run is older
 * than its init, and a waiter says whose it is.
 */
int found_server(const struct found *f);

/*
 * Deletes it, with its poststop hooks, and leaves a branch that waits. @f is
 * locked and of no use afterwards but for found_done. Without @force ERR_STATE
 * if it runs.
 */
int found_delete(const struct sandbox_env *env, struct found *f, bool force,
		 struct error *err);

/* True where one was named that is gone: what is trapped is answered by none.
 */
bool found_lost_server(const struct found *f);

enum { LOOKUP_LOCK_MS = 10000 };

#endif
