/* The branch of a command without a mount namespace: sandbox/cow.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "branch/merged.h"
#include "policy/syscalls.h"
#include "sandbox/cow.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "sandbox/reach.h"
#include "supervise/denials.h"

static unsigned int traps(const struct host_context *h)
{
	return h->notify && (host_has_branch(h) ||
			     host_shows_elsewhere(h->request))
		       ? TRAP_COW
		       : 0;
}

static void free_merged(void *p)
{
	merged_free(p);
}

static void free_cow(void *p)
{
	cow_free(p);
}

static void free_strings(void *p)
{
	spec_strings_done(p);
	free(p);
}

/* The paths of layers, which live as long as the handlers. */
static int add_layers(struct mediation *m, const struct branch *b,
		      struct cow_root *ret, struct error *err)
{
	struct spec_strings *l = calloc(1, sizeof(*l));
	int r = mediation_own(m, l, free_strings, err);

	for (size_t i = 0; r == 0 && i < branch_n_layers(b); i++) {
		auto_free char *path = branch_layer(b, i);

		if (!path || spec_strings_add(l, path) < 0)
			r = error_set(err, ERR_SYSTEM, ENOMEM, "branch '%s'",
				      branch_name(b));
	}
	if (r < 0)
		return r;
	ret->layers = (const char *const *)l->v;
	ret->n_layers = l->n;
	return 0;
}

static int add_root(struct mediation *m, struct branch *b, struct cow_root *ret,
		    struct error *err)
{
	struct merged *merged = branch_merged(b);

	if (!merged)
		return error_set(err, ERR_SYSTEM, errno, "branch '%s'",
				 branch_name(b));
	merged_open_work(merged);
	/* Another root may hold it. */
	if (spec_strings_add(&mediation_create(m)->plan->denied,
			     branch_storage(b)) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "branch '%s'",
				 branch_name(b));
	*ret = (struct cow_root){ .lower = branch_lower(b),
				  .upper = branch_upper(b),
				  .merged = merged };
	if (mediation_own(m, merged, free_merged, err) < 0)
		return -ENOMEM;
	return add_layers(m, b, ret, err);
}

static int open_shown(const struct plan_shown *s, struct merged **ret)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	auto_close int inside = open(s->inside, flags);
	auto_close int host = open(s->host, flags);

	/* Nothing is copied up, so nothing is on its way. */
	*ret = inside < 0 || host < 0
		       ? NULL
		       : merged_new(inside, host, host, "user.overlay.");
	if (!*ret)
		return -errno;
	merged_set_plain(*ret, s->read_only);
	return 0;
}

static int add_shown(struct mediation *m, const struct plan_shown *s,
		     struct cow_root *ret, struct error *err)
{
	struct merged *merged;
	int r = open_shown(s, &merged);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot show '%s' as '%s'", s->host,
				 s->inside);
	*ret = (struct cow_root){ .lower = s->inside,
				  .upper = s->host,
				  .merged = merged };
	return mediation_own(m, merged, free_merged, err);
}

static void tell(const void *data, struct call *c, const char *code,
		 const char *call, const char *path)
{
	const struct create *create = data;
	const struct reach r = { .plan = create->plan,
				 .request = create->command->request };
	struct reach_answer a;
	struct denial x = { .code = code,
			    .call = call,
			    .error = EACCES,
			    .object = path,
			    .rule = a.because };

	if (reach_hidden(&r, path, EACCES, &a))
		x.where = a.where;
	else
		x.rule = NULL;
	denials_add_call(create->denials, c, &x);
}

static int deny(const struct create *c, struct cow *w)
{
	const struct spec_strings *l = &c->plan->denied;

	return cow_deny(w, (const char *const *)l->v, l->n, tell, c);
}

static int add_rows(struct mediation *m, struct cow *w, struct error *err)
{
	struct handler rows[COW_ROWS];
	size_t n = cow_rows(w, rows);

	return mediation_add_rows(m, rows, n, err);
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	size_t n = c->branch ? branch_n_roots(c->branch) : 0;
	size_t n_all = n + c->plan->n_shown;
	struct cow_root *roots;
	struct cow *w;
	int r = 0;

	roots = calloc(n_all, sizeof(*roots));
	if (!roots)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_root(m, branch_root(c->branch, i), &roots[i], err);
	for (size_t i = n; r == 0 && i < n_all; i++)
		r = add_shown(m, &c->plan->shown[i - n], &roots[i], err);
	w = r == 0 ? cow_new(roots, n_all) : NULL;
	free(roots);
	if (r < 0)
		return r;
	if (!w)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	r = mediation_own(m, w, free_cow, err);
	if (r == 0 && deny(c, w) < 0)
		r = error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	mediation_set_finder(m, cow_finder(w));
	return r == 0 ? add_rows(m, w, err) : r;
}

const struct mediate_feature mediate_cow = {
	.flag = "--workdir",
	.traps = traps,
	.begin = begin,
};
