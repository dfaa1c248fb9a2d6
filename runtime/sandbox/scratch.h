/* The TMPDIR of a command of tier C. */
#ifndef SANDLOCK_SANDBOX_SCRATCH_H
#define SANDLOCK_SANDBOX_SCRATCH_H

struct create;
struct error;
struct sandbox_state;

/* Makes it, on record in c->state, and lets the command have it. */
int scratch_make(struct create *c, struct error *err);
/* Removes it, once nobody uses it any more. */
void scratch_remove(const struct sandbox_state *s);

#endif
