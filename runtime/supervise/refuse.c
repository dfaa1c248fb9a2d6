#include "supervise/refuse.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/syscalls.h"
#include "spec/request.h"
#include "supervise/denials.h"

/* One number that may be refused. */
struct refused {
	struct refusals *all;
	const char *name;
	bool shared; /* trapped for another reason, too */
};

struct refusals {
	const struct request *request;
	unsigned int shared;
	struct denials *denials;
	struct refused *v;
	struct handler *rows;
	size_t n;
};

static void record(const struct refused *f, struct call *c,
		   const struct syscall_refusal *why)
{
	const struct refusals *all = f->all;
	char code[64], rule[DENIAL_TEXT_MAX], remedy[64];
	struct denial x = {
		.code = code,
		.call = f->name,
		.error = why->error,
		.rule = rule,
	};

	if (why->row) {
		const struct syscall_group_row *g =
			&syscall_groups[why->row->group];

		x.object = why->row->what;
		(void)snprintf(code, sizeof(code), "syscall.%s", g->name);
		(void)snprintf(rule, sizeof(rule), "builtin:%s (%s)", g->name,
			       g->why);
		(void)snprintf(remedy, sizeof(remedy),
			       "--extra-allow-syscall %s", g->name);
		x.remedy = g->optional ? remedy : NULL;
	} else {
		(void)snprintf(code, sizeof(code), "syscall.extra_deny");
		(void)snprintf(rule, sizeof(rule), "syscalls.extra_deny %s",
			       why->extra);
		x.where = request_origin(all->request, "syscalls.extra_deny",
					 why->extra);
	}
	denials_add_call(all->denials, c, &x);
}

static struct outcome refuse(struct call *c, void *data)
{
	const struct refused *f = data;
	struct syscall_refusal why;
	uint64_t args[6];

	for (unsigned int i = 0; i < 6; i++)
		args[i] = call_arg(c, i);
	if (!policy_refusal(f->all->request, f->all->shared, f->name, args,
			    &why))
		return f->shared ? OUTCOME_GO : OUTCOME_FAIL(EPERM);
	record(f, c, &why);
	return OUTCOME_FAIL(why.error);
}

static bool is_listed(const struct refusals *f, int nr)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->rows[i].nr == nr)
			return true;
	return false;
}

static void add(struct refusals *f, const char *name, unsigned int traps)
{
	struct syscall_refusal why;
	int nr = seccomp_syscall_resolve_name(name);

	/* Of another architecture, or a group's name: nothing traps those. */
	if (nr < 0 || is_listed(f, nr) ||
	    !policy_refusal(f->request, f->shared, name, NULL, &why) ||
	    why.error == ENOSYS)
		return;
	f->v[f->n] =
		(struct refused){ f, name,
				  policy_is_trapped(f->request, name, traps) };
	f->rows[f->n] = (struct handler){
		.name = name,
		.nr = nr,
		.lane = LANE_INLINE,
		.fn = refuse,
		.data = &f->v[f->n],
	};
	f->n++;
}

struct refusals *refusals_new(const struct request *r, unsigned int traps,
			      unsigned int shared, struct denials *d)
{
	auto_ptr(refusals_free) struct refusals *f = calloc(1, sizeof(*f));
	size_t max = syscall_rows_len + r->extra_deny.n;

	if (!f)
		return NULL;
	f->request = r;
	f->shared = shared;
	f->denials = d;
	f->v = calloc(max, sizeof(*f->v));
	f->rows = calloc(max, sizeof(*f->rows));
	if (!f->v || !f->rows)
		return NULL;
	for (size_t i = 0; i < syscall_rows_len; i++)
		add(f, syscall_rows[i].name, traps);
	for (size_t i = 0; i < r->extra_deny.n; i++)
		add(f, r->extra_deny.v[i], traps);
	return take_ptr(&f);
}

void refusals_free(struct refusals *f)
{
	if (!f)
		return;
	free(f->v);
	free(f->rows);
	free(f);
}

const struct handler *refusals_rows(const struct refusals *f, size_t *ret_n)
{
	*ret_n = f->n;
	return f->rows;
}
