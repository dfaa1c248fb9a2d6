/*
 * Several commands over one branch, all or nothing; savepoints.
 */
#ifndef LIBSANDLOCK_TRANSACTION_H
#define LIBSANDLOCK_TRANSACTION_H

#include <stddef.h>
#include <stdint.h>

#include "base.h"
#include "request.h"
#include "sandbox.h"

SANDLOCK_BEGIN

/*
 * Several commands, one after the other over one branch: everything that they
 * write is published when the last one has succeeded, or nothing is. A stage
 * sees what the ones before it wrote. Each is a sandbox with rules of its own,
 * but all work in the same directories. One thread at a time, but for
 * sandlock_transaction_kill.
 *
 * While it runs the branch is the caller's: if he dies it is kept.
 *
 * With savepoints each stage writes to a layer of its own, and a stage that
 * fails stops the transaction instead of ending it:
 *
 *	run -> failed -> (rollback) -> run on | end
 */
struct sandlock_transaction;

int sandlock_transaction_new(const struct sandlock_env *env,
			     struct sandlock_transaction **ret,
			     struct sandlock_error *err);
void sandlock_transaction_free(struct sandlock_transaction *t);
/*
 * Appends a stage, and runs nothing. @l as for sandlock_sandbox_create, or
 * NULL; its streams may not be pipes. ERR_USAGE for a stage that says what
 * becomes of the branch by itself (defer, abort, keep), has none, or works
 * elsewhere or as somebody else than the first one.
 */
int sandlock_transaction_add(struct sandlock_transaction *t,
			     const struct sandlock_request *q,
			     const struct sandlock_launch *l,
			     struct sandlock_error *err);

/*
 * The sandbox of stage @i, to set a policy or handlers before it runs, or to
 * look at it while it does; NULL if there is none. Only the transaction runs
 * it, and frees it.
 */
struct sandlock_sandbox *
sandlock_transaction_stage(const struct sandlock_transaction *t, size_t i);

struct sandlock_transaction_result {
	/* COMMITTED; EMPTY: nothing was changed; ABORTED: a stage has failed;
	 * PENDING: it could not be committed, see outcome_error, or, with
	 * savepoints, it has stopped at a stage that has failed. */
	enum sandlock_outcome outcome;
	struct sandlock_error outcome_error;
	size_t n_run;	/* stages that were begun */
	size_t failed;	/* the stage that failed; n_run if none has */
	char name[256]; /* of the branch */
};

/*
 * Runs them, once. @timeout_ms (0: none) is for all of them. A stage that fails
 * is no error: its report says how; an error, by which a stage could not be run
 * at all, has discarded the branch. With savepoints both leave what the stages
 * before it wrote: a further call goes back to there and runs on from it.
 */
int sandlock_transaction_run(struct sandlock_transaction *t,
			     uint64_t timeout_ms,
			     struct sandlock_transaction_result *ret,
			     struct sandlock_error *err);
/*
 * Ends the stage that runs as by sandlock_sandbox_kill, and no further one is
 * begun: nothing is published, unless the last one had ended. By any thread,
 * until the free.
 */
void sandlock_transaction_kill(struct sandlock_transaction *t);
/*
 * Before the first run: what each stage writes is kept apart until the end, so
 * that one can go back. That costs a mount of more layers, and renames where
 * several stages wrote to the same directories. Hard links between files that
 * different stages write to break, as those of the lower do. A transaction that
 * is freed where it has stopped leaves its branch waiting.
 */
int sandlock_transaction_set_savepoints(struct sandlock_transaction *t,
					struct sandlock_error *err);
/*
 * Back to the state after the first @n stages, of which each has succeeded (0:
 * to the beginning); the next run goes on from there. ERR_STATE without
 * savepoints, and when all is over.
 */
int sandlock_transaction_rollback(struct sandlock_transaction *t, size_t n,
				  struct sandlock_error *err);
/*
 * No further stage: what those that have succeeded wrote is published, aborted,
 * or kept in the store for a later decision (KEEP, DEFER). A stage that has
 * failed is undone first.
 */
int sandlock_transaction_end(struct sandlock_transaction *t,
			     enum sandlock_disposition what,
			     struct sandlock_transaction_result *ret,
			     struct sandlock_error *err);
/*
 * Of stage @i, or NULL if it has none; valid until the free, or until it is run
 * again. Its changes are those of all stages so far.
 */
const struct sandlock_report *
sandlock_transaction_report(const struct sandlock_transaction *t, size_t i);

SANDLOCK_END

#endif
