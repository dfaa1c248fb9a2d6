/* The automatic disposition, for whoever settles a branch. */
#include <errno.h>

#include "base/error.h"
#include "branch/commit.h"
#include "branch/internal.h"
#include "branch/recover.h"

enum { LOCK_WAIT_MS = 5000 };

static int commit(struct branch *b, bool force, enum branch_outcome *ret,
		  struct error *err)
{
	const struct commit_options options = {
		.conflicts = force ? CONFLICT_FORCE : CONFLICT_REFUSE,
		.lock_timeout_ms = LOCK_WAIT_MS,
	};
	struct commit_result done = { 0 };
	int r = branch_commit(b, &options, &done, err);

	if (r == 0) {
		*ret = OUTCOME_COMMITTED;
		return 0;
	}
	if (root_has(b, "done")) {
		*ret = OUTCOME_COMMITTED;
		return r;
	}
	/* It waits for a decision now: what settling left out is due. */
	for (size_t i = 0; i < branch_n_roots(b); i++)
		(void)branch_make_durable(branch_root(b, i), NULL);
	return r;
}

int branch_dispose(struct branch *b, bool force, enum branch_outcome *ret,
		   struct error *err)
{
	int r;

	if (!branch_is_there(b)) {
		*ret = OUTCOME_GONE;
		return 0;
	}
	*ret = OUTCOME_PENDING;
	if (!b->meta.settled)
		return error_say(err, ERR_STATE, EBUSY,
				 "branch '%s' is not settled", b->meta.name);
	switch (branch_wanted(&b->meta)) {
	case DISPOSE_COMMIT:
		return commit(b, force, ret, err);
	case DISPOSE_ABORT:
		r = branch_abort(b, NULL, 0, err);
		if (r == 0)
			*ret = OUTCOME_ABORTED;
		return r;
	case DISPOSE_KEEP:
	case DISPOSE_DEFER:
	case DISPOSE_UNSAID:
		return 0;
	}
	return 0;
}
