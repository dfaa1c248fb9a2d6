/*
 * The rules of a shared network, and of a bundle's, where somebody is asked:
 * supervise/net.
 */
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "control/peer.h"
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

/* A label holds for what a process does itself. */
static const char *why_not(const struct spec *s)
{
	if (s->landlock.wanted)
		return "io.sandlock.landlock";
	if (s->process.apparmor_profile)
		return "process.apparmorProfile";
	return s->process.selinux_label ? "process.selinuxLabel" : NULL;
}

bool mediate_has_network(const struct plan *p)
{
	return !why_not(p->spec);
}

static unsigned int traps_of_bundle(const struct plan *p,
				    const struct request *q)
{
	if (!q || (!q->ask_connect.n && !request_asks_callback(q)))
		return 0;
	if (!mediate_has_network(p))
		return q->ask_connect.n ? TRAP_NETWORK : 0;
	return TRAP_NETWORK | (request_asks_callback(q) ? TRAP_OWN_BIND : 0);
}

int mediate_network_of_bundle(struct plan *p, const struct request *q,
			      struct error *err)
{
	const char *why = why_not(p->spec);
	int r;

	if (why) {
		(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				"nobody can be asked about the network of this "
				"bundle: what is done for it would not be held "
				"to %s",
				why);
		return error_hint(err, "leave it, or ask.connect, out");
	}
	net_rules_done(&p->net);
	r = net_rules_read(q, &p->net, err);
	/* What it reaches is for its network namespace to say. */
	p->net.connect.is_deny = p->net.bind.is_deny = true;
	for (size_t i = 0; r == 0 && i < p->net.ask.n; i++) {
		const struct net_rule *rule = &p->net.ask.rules[i];

		if (rule->target != NET_TARGET_HOST)
			continue;
		(void)error_say(err, ERR_USAGE, ENOTSUP,
				"ask.connect: a bundle looks up '%s' by itself",
				rule->name);
		return error_hint(err, "say its addresses, or \"*\"");
	}
	return r;
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
	bool is_bundle = !c->plan->host;
	bool own = is_bundle ? c->plan->spec->ns[SPEC_NS_USER].want !=
				       SPEC_NS_INHERIT
			     : c->plan->new_flags & CLONE_NEWUSER;
	const struct request *q = c->command->request;
	const struct net_options o = {
		.rules = &c->plan->net,
		.remap = q->port_remap,
		.init = c->state->init.pid,
		.userns_of = own ? c->state->init.pid : 0,
		.is_own_network = is_bundle,
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
	r = peer_mark();
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot mark the supervisor");
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
	.is_asked_for = true,
	.traps = traps,
	.bundle_traps = traps_of_bundle,
	.begin = begin,
	.started = started,
};
