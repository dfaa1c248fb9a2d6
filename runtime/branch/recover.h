/* Both ways on from an intent. Either may be repeated after a kill. */
#ifndef SANDLOCK_BRANCH_RECOVER_H
#define SANDLOCK_BRANCH_RECOVER_H

#include <stdbool.h>

struct branch;
struct error;
struct plan;
struct site;

/*
 * Publishes, makes it durable, and says so: with "done", where everything was
 * published; else upper holds only what is pending when it returns.
 * @strict as for publish_ops.
 */
int commit_forward(struct branch *b, struct site *s, const struct plan *p,
		   bool strict, struct error *err);

/* Puts everything back, so that the branch is pending again. */
int commit_back(struct branch *b, struct site *s, const struct plan *p,
		struct error *err);

/* Has the commit of this intent already begun to forget how to go back? */
bool commit_is_past_return(const struct branch *b);

/*
 * What an interrupted commit of this branch left: finishes it (or takes it
 * back), with the branch lock held. *@ret_gone: nothing is left pending.
 */
int recover_intent(struct branch *b, bool rollback, int timeout_ms,
		   bool *ret_gone, struct error *err);

/* Says why nothing can be done in this state, or settles. 0: pending. */
int branch_make_ready(struct branch *b, bool force_torn, int timeout_ms,
		      bool *ret_gone, struct error *err);

/*
 * Removes a branch that is committed or aborted, and what it may have left
 * beside the lower.
 */
int branch_remove_all(struct branch *b, struct error *err);

/*
 * A part was committed or aborted: if nothing is pending any more the branch
 * goes. @dir_times: a directory of which only the mtime differs counts.
 */
int branch_remove_if_empty(struct branch *b, bool dir_times, bool *ret_gone,
			   struct error *err);

#endif
