/*
 * Accounting that follows a decision, as the process limit does. A handler row
 * with an account takes part once the chain of its call has settled on
 * CONTINUE, whoever decided and however long it was parked:
 *
 *	settle -> (the response is sent) -> sent
 *	                                 -> undo, if it could not be sent
 *
 * @settle may still refuse with an errno (positive), which becomes the outcome;
 * then @undo is called for the rows before it. Between a successful @settle
 * and its @sent or @undo nothing else is called for the same call. The task
 * may die after @sent: watch it (call_tgid is resolved already) to give back
 * what was taken.
 *
 * Called on the thread that finishes the call; @data is the row's. None of the
 * three may block or answer the call.
 *
 * @instead comes first, once no row is left, in the lane of the last one: it
 * carries the call out itself and returns what came of it, or OUTCOME_GO, and
 * the kernel carries on. With OUTCOME_WAIT it is called again where it may
 * wait, in LANE_EXTERNAL. Nothing is settled of a call that it carries out.
 */
#ifndef SANDLOCK_SUPERVISE_ACCOUNT_H
#define SANDLOCK_SUPERVISE_ACCOUNT_H

#include "supervise/handler.h"

struct account {
	int (*settle)(struct call *c, void *data); /* 0, or a positive errno */
	void (*sent)(struct call *c, void *data);  /* NULL: nothing to do */
	void (*undo)(struct call *c, void *data);
	/* NULL: the kernel carries on. */
	struct outcome (*instead)(struct call *c, void *data, bool may_wait);
};

#endif
