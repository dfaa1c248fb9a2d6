/* The rules of a shared network: supervise/net. */
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "policy/syscalls.h"
#include "sandbox/confine.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/net.h"

static unsigned int traps(const struct host_context *h)
{
	if (!h->shared_network)
		return 0;
	return TRAP_NETWORK | TRAP_BIND |
	       (h->request->port_remap ? TRAP_PORTS : 0);
}

static void free_net(void *p)
{
	net_free(p);
}

/* The deputy of a caller: nothing of it is left once it has exited. */
static int confine(void *data)
{
	const struct create *c = mediation_create(data);

	if (!c->plan->spec->landlock.wanted)
		return 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return c->plan->notify ? confine_paths(c->plan->spec, c->plan->paths,
					       c->plan->n_paths, NULL)
			       : confine_landlock(c->plan->spec,
						  &c->plan->workdirs, NULL);
}

static bool is_writable(const void *data, const char *path)
{
	return plan_is_writable(data, path);
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	bool own = c->plan->new_flags & CLONE_NEWUSER;
	const struct request *q = c->command->request;
	const struct net_options o = {
		.rules = &c->plan->net,
		.remap = q->port_remap,
		.init = c->state->init.pid,
		.userns_of = own ? c->state->init.pid : 0,
		.confine = confine,
		.confine_data = m,
		.is_own_path = c->plan->notify ? is_writable : NULL,
		.path_data = c->plan,
		.denials = c->denials,
		.asker = mediation_asker(m),
		.request = q,
	};
	struct handler rows[NET_ROWS];
	struct net *net = net_new(&o);
	size_t n;
	int r;

	r = mediation_own(m, net, free_net, err);
	if (r < 0)
		return r;
	mediation_set_net(m, net);
	mediation_set_state(m, net);
	n = net_rows(net, rows);
	return mediation_add_rows(m, rows, n, err);
}

static int started(struct mediation *m, void *state, pid_t pid,
		   struct error *err)
{
	net_set_first(state, pid);
	return 0;
}

const struct mediate_feature mediate_network = {
	.flag = "a network rule",
	.traps = traps,
	.begin = begin,
	.started = started,
};
