/*
 * Carrying a plan out, and taking it back. Every function may be repeated, in
 * any order and after a kill at any point: what is done is recognised by its
 * inode number.
 *
 *	publish_heed_times (after a kill) ->
 *	publish_open_dirs, publish_modes -> publish_prepare -> publish_ops ->
 *	publish_modes -> publish_dirs	(and sync, done)
 *	publish_undo_ops -> publish_undo_dirs -> publish_undo_prepare
 */
#ifndef SANDLOCK_BRANCH_PUBLISH_H
#define SANDLOCK_BRANCH_PUBLISH_H

#include <stdbool.h>

struct branch;
struct error;
struct plan;
struct site;

/*
 * Before an interrupted commit goes on, or back: a time that the host has given
 * to a directory since it was killed is the one to be set at the end.
 */
void publish_heed_times(const struct site *s, struct plan *p);

/* Directories of the lower whose modes keep their owner, us, out of them. */
int publish_open_dirs(const struct site *s, const struct plan *p,
		      struct error *err);
/* modes.h: opens what was published of the noted objects, or gives it its mode.
 */
int publish_modes(const struct site *s, const struct plan *p, bool open);

/* Private objects only: leaves behind what must not move, strips marks. */
int publish_prepare(const struct site *s, const struct plan *p,
		    struct error *err);

/*
 * @strict: nothing was done before, so the lower must still be what the plan
 * saw, mtime included. ERR_CONFLICT if somebody else was there.
 */
int publish_ops(const struct site *s, const struct plan *p, bool strict,
		struct error *err);

/* Metadata of the directories that exist on both sides, post-order. */
int publish_dirs(const struct site *s, const struct plan *p, struct error *err);

int publish_undo_ops(const struct site *s, const struct plan *p,
		     struct error *err);
int publish_undo_dirs(const struct site *s, const struct plan *p,
		      struct error *err);
int publish_undo_prepare(const struct site *s, const struct plan *p,
			 struct error *err);

/*
 * After a commit of a part: takes what was published (by now, what was
 * displaced) out of upper, so that upper holds what is still pending.
 */
int publish_prune(const struct site *s, const struct plan *p,
		  struct error *err);

/*
 * Records the lower's objects that were touched, as they are now, as what the
 * branch is based on. @undone: the ops were taken back. Changes b->meta only.
 */
int publish_rebase(struct branch *b, const struct site *s, const struct plan *p,
		   bool undone, struct error *err);

/*
 * For crash tests: called before every step that changes something on disk.
 * NULL in production.
 */
extern void (*branch_step_hook)(const char *step);

static inline void branch_step(const char *step)
{
	if (branch_step_hook)
		branch_step_hook(step);
}

#endif
