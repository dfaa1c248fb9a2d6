/* Without network: what a command wanted to reach goes on record. */
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/unreached.h"

static unsigned int traps(const struct host_context *h)
{
	return h->shared_network ? 0 : TRAP_CONNECT;
}

static int begin(struct mediation *m, struct error *err)
{
	struct handler row = unreached_row(mediation_create(m)->denials);

	return mediation_add_row(m, &row, err);
}

const struct mediate_feature mediate_unreached = {
	.flag = "the record of connections",
	.optional = true,
	.traps = traps,
	.begin = begin,
};
