/* Calls that the filter refuses are refused here, so that it is on record. */
#include <errno.h>

#include "base/error.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/refuse.h"

static unsigned int traps(const struct host_context *h)
{
	return TRAP_DENIED;
}

/* What would get past whoever decides. */
static unsigned int traps_of_bundle(const struct plan *p,
				    const struct request *q)
{
	return q && policy_is_judged(q) ? TRAP_DENIED : 0;
}

static void free_refusals(void *p)
{
	refusals_free(p);
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct refusals *f = refusals_new(c->command->request, c->plan->traps,
					  mediate_shared(c->plan), c->denials);
	const struct handler *rows;
	size_t n;
	int r;

	r = mediation_own(m, f, free_refusals, err);
	if (r < 0)
		return r;
	rows = refusals_rows(f, &n);
	return mediation_add_rows(m, rows, n, err);
}

const struct mediate_feature mediate_refusals = {
	.flag = "the record of refused system calls",
	.optional = true,
	.traps = traps,
	.bundle_traps = traps_of_bundle,
	.begin = begin,
};
