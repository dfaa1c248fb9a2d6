/* System calls that an embedder handles: sandbox/calllink.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "policy/syscalls.h"
#include "sandbox/calllink.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/net.h"
#include "supervise/redirect.h"

/* What a row points to. */
struct handled {
	struct calllink *link;
	unsigned int which;
	bool is_captured; /* what goes on is held to what was seen */
};

struct handlers_state {
	struct calllink *link;
	struct handled *v;
};

static unsigned int traps(const struct host_context *h)
{
	return h->request->handled.n ? TRAP_HANDLED : 0;
}

static unsigned int traps_of_bundle(const struct plan *p,
				    const struct request *q)
{
	return q && q->handled.n ? TRAP_HANDLED : 0;
}

static struct outcome handle(struct call *c, void *data)
{
	const struct handled *h = data;
	struct outcome o;
	int r;

	/* One that it was asked about, as the branch has it made. */
	if (redirect_is_made(c))
		return OUTCOME_GO;
	r = h->is_captured ? net_capture(c) : 0;
	o = calllink_ask(h->link, c, h->which);
	/* A handler may know what to do with it all the same. */
	return o.kind == OUTCOME_CONTINUE && r < 0 ? OUTCOME_FAIL(-r) : o;
}

static void kill_all(void *data, int sig)
{
	mediation_signal(data, sig);
}

static void free_state(void *p)
{
	struct handlers_state *s = p;

	calllink_free(s->link);
	free(s->v);
	free(s);
}

static int check(const struct create *c, struct error *err)
{
	const struct spec_strings *names = &c->command->request->handled;
	int r = 0;

	if (!c->command->hooks || c->command->calls_fd < 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "there is nobody to handle '%s'", names->v[0]);
	for (size_t i = 0; r == 0 && i < names->n; i++)
		r = policy_check_handled(c->command->request,
					 mediate_shared(c->plan), names->v[i],
					 err);
	return r;
}

/* By the rows of the network, which carry it out. */
static bool is_judged(int nr, unsigned int traps)
{
	if (nr == SYS_listen)
		return traps & TRAP_BIND;
	return (traps & TRAP_NETWORK) &&
	       (nr == SYS_connect || nr == SYS_bind || nr == SYS_sendto ||
		nr == SYS_sendmsg || nr == SYS_sendmmsg);
}

static int add_rows(struct mediation *m, struct handlers_state *s,
		    const struct spec_strings *names, struct error *err)
{
	unsigned int traps = mediation_create(m)->plan->traps;
	int r = 0;

	for (size_t i = 0; r == 0 && i < names->n; i++) {
		const struct handler row = {
			.name = names->v[i],
			.nr = policy_syscall_number(names->v[i]),
			.lane = LANE_EXTERNAL,
			.fn = handle,
			.data = &s->v[i],
		};

		s->v[i] = (struct handled){
			.link = s->link,
			.which = (unsigned int)i,
			.is_captured = is_judged(row.nr, traps),
		};
		r = mediation_add_row(m, &row, err);
	}
	return r;
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	const struct spec_strings *names = &c->command->request->handled;
	struct handlers_state *s;
	int r = check(c, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	r = mediation_own(m, s, free_state, err);
	if (r < 0)
		return r;
	s->v = calloc(names->n, sizeof(*s->v));
	s->link = calllink_new(c->command->calls_fd, kill_all, m);
	if (!s->v || !s->link)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	mediation_set_state(m, s);
	return add_rows(m, s, names, err);
}

static void stop(void *state)
{
	calllink_close(((struct handlers_state *)state)->link);
}

const struct mediate_feature mediate_handlers = {
	.flag = "a handler of system calls",
	.is_asked_for = true,
	.traps = traps,
	.bundle_traps = traps_of_bundle,
	.begin = begin,
	.stop = stop,
};
