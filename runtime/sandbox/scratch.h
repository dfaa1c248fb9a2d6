/* The TMPDIR of a command of tier C, and what it reads of its branch. */
#ifndef SANDLOCK_SANDBOX_SCRATCH_H
#define SANDLOCK_SANDBOX_SCRATCH_H

struct create;
struct error;
struct rundir_slot;
struct sandbox_state;

/* Makes it, on record in c->state, and lets the command have both. */
int scratch_make(struct create *c, struct error *err);
/* Removes it, once nobody uses it any more. */
void scratch_remove(const struct sandbox_state *s);
/* Of a create that was killed before there was a state. */
void scratch_remove_unrecorded(const struct rundir_slot *slot);

#endif
