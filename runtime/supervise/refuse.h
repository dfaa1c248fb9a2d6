/*
 * Answers the calls that the table of system calls refuses (TRAP_DENIED), and
 * puts them on record.
 *
 * Its rows come first in a table: what is refused is no other handler's
 * business. A call that was trapped for another reason too, and that nothing
 * refuses as it is, goes on to them; one that was trapped for the record alone
 * never continues. Only registers are judged, nothing of the caller's memory.
 *
 * Outlives the supervisor that has its rows. Thread-safe.
 */
#ifndef SANDLOCK_SUPERVISE_REFUSE_H
#define SANDLOCK_SUPERVISE_REFUSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "supervise/handler.h"

struct denials;
struct refusals;
struct request;

/*
 * The rows for what policy_filter(@r, @traps, @shared) refuses.
 * @r and @d are borrowed. NULL on ENOMEM.
 */
struct refusals *refusals_new(const struct request *r, unsigned int traps,
			      unsigned int shared, struct denials *d);
void refusals_free(struct refusals *f);
CLEANUP_PTR(struct refusals, refusals_free);

/* The rows, borrowed. */
const struct handler *refusals_rows(const struct refusals *f, size_t *ret_n);

#endif
