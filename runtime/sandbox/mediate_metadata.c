/* Tier C: what Landlock does not guard. See supervise/metadata.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/metadata.h"

static unsigned int traps(const struct host_context *h)
{
	return h->notify ? TRAP_METADATA | TRAP_TASKS : 0;
}

static bool is_writable(const void *data, const char *path)
{
	return plan_is_writable(data, path);
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct metadata_options *o = calloc(1, sizeof(*o));
	struct handler rows[METADATA_ROWS];
	size_t n;
	int r;

	r = mediation_own(m, o, free, err);
	if (r < 0)
		return r;
	*o = (struct metadata_options){
		.is_writable = is_writable,
		.data = c->plan,
		.guard = c->state->init.pid,
	};
	n = metadata_rows(o, rows);
	return mediation_add_rows(m, rows, n, err);
}

const struct mediate_feature mediate_metadata = {
	.flag = "--isolation=notify",
	.traps = traps,
	.begin = begin,
};
