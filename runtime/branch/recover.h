/* Both ways on from an intent. Either may be repeated after a kill. */
#ifndef SANDLOCK_BRANCH_RECOVER_H
#define SANDLOCK_BRANCH_RECOVER_H

#include <stdbool.h>

#include "branch/commit.h"

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
/* Forward for the first time: what has changed since the plan is refused. */
int publish_intent(struct branch *b, int timeout_ms, struct error *err);

/* One root's part of branch_commit, branch_recover; see roots.c. */
int root_commit(struct branch *b, const struct commit_options *o,
		struct commit_result *ret, struct error *err);
int root_recover(struct branch *b, bool rollback, enum recover_action *ret,
		 struct error *err);

int root_changes(struct branch *b, unsigned int want, const char *const *paths,
		 size_t n_paths, change_fn *fn, void *data, struct error *err);
int root_uncovered(struct branch *b, change_fn *fn, void *data,
		   struct error *err);
int root_open_content(struct branch *b, const char *path,
		      enum change_content side, int *ret_fd, struct error *err);
int root_digest(struct branch *b, const char *path, enum change_content side,
		unsigned char ret[CHANGE_DIGEST], struct error *err);

/*
 * A commit of several roots in two steps. The first is all of root_commit up
 * to its intent, which is named "prepared" and means nothing yet, and is
 * written also if there is nothing to do. *@ret: as it will be; with b->keep
 * never gone.
 */
int root_prepare(struct branch *b, const struct commit_options *o,
		 struct commit_result *ret, struct error *err);
/* The same where nothing of the root was asked for, and it may be missing. */
int root_prepare_nothing(struct branch *b, struct error *err);
/* Makes the intent of it: from then on recovery goes forward. */
int root_promise(struct branch *b, struct error *err);
bool root_has(const struct branch *b, const char *name);
/* Forgets what was prepared. */
int root_unprepare(struct branch *b, struct error *err);

/* Says why nothing can be done in this state, or settles. 0: pending. */
int branch_make_ready(struct branch *b, bool force_torn, int timeout_ms,
		      bool *ret_gone, struct error *err);

/*
 * Removes a branch that is committed or aborted, and what it may have left
 * beside the lower.
 */
int branch_remove_all(struct branch *b, struct error *err);
/* The error says that it is published. */
int branch_remove_committed(struct branch *b, struct error *err);

/*
 * A part was committed or aborted: if nothing is pending any more the branch
 * goes. @dir_times: a directory of which only the mtime differs counts.
 */
int branch_remove_if_empty(struct branch *b, bool dir_times, bool *ret_gone,
			   struct error *err);

#endif
