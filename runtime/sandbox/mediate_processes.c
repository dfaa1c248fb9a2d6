/* The process limit, where the kernel cannot keep it: supervise/processes.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/cgroup.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/live_limits.h"
#include "sandbox/mediate.h"
#include "supervise/processes.h"

/* RLIMIT_NPROC spares the host's root, and counts what a user has anywhere
 * where there is no user namespace. */
static unsigned int traps(const struct host_context *h)
{
	return (h->request->processes || live_limits_wanted(h)) &&
			       (h->privileged || h->notify) &&
			       !cgroup_can_limit("pids", !h->privileged)
		       ? TRAP_FORK
		       : 0;
}

static void free_processes(void *p)
{
	processes_free(p);
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct handler rows[PROCESSES_ROWS];
	struct processes *p =
		processes_new(c->command->request->processes, mediation_list,
			      (void *)c, c->denials);
	size_t n;
	int r;

	r = mediation_own(m, p, free_processes, err);
	if (r < 0)
		return r;
	mediation_set_processes(m, p);
	n = processes_rows(p, rows);
	return mediation_add_rows(m, rows, n, err);
}

const struct mediate_feature mediate_processes = {
	.flag = "--max-processes",
	.traps = traps,
	.begin = begin,
};
