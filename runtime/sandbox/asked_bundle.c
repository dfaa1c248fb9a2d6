#include "sandbox/asked_bundle.h"

#include <errno.h>

#include "base/error.h"
#include "control/rundir.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"
#include "spec/request.h"

static int check(const struct command_options *o, struct error *err)
{
	if (o->join || o->hand_on || o->hold || o->savepoints)
		return error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				 "a bundle is no stage of a transaction");
	return request_check(o->request, err);
}

static void fill(const struct command_options *o, struct sandbox_bundle *ret)
{
	const struct request *q = o->request;

	*ret = (struct sandbox_bundle){
		.name = q->name,
		.bundle = q->bundle,
		.preserve_fds = o->preserve_fds,
		.branch = q->no_branch ? BRANCH_CHOICE_NONE
				       : BRANCH_CHOICE_DEFAULT,
		.on_exit = DISPOSE_UNSAID,
		.on_error = DISPOSE_UNSAID,
		.storage = q->storage,
		.no_control_socket = q->no_control_socket,
		.no_supervisor = q->no_supervisor,
	};
}

/* An embedder says so of all that it runs, also without a branch. */
static void set_dispositions(const struct request *q, struct plan *p)
{
	if (q->dry_run)
		p->on_exit = p->on_error = DISPOSE_ABORT;
	if (q->on_exit != DISPOSE_UNSAID)
		p->on_exit = q->on_exit;
	if (q->on_error != DISPOSE_UNSAID)
		p->on_error = q->on_error;
}

/* Its words take the place of those of config.json. */
static int set_words(const struct request *q, struct plan *p)
{
	if (!q->args.n || !p->spec->has_process)
		return 0;
	spec_strings_done(&p->spec->process.args);
	return spec_strings_add_all(&p->spec->process.args, &q->args);
}

int asked_bundle_plan(const struct sandbox_env *env,
		      const struct command_options *o, struct sandbox_bundle *b,
		      struct plan **ret, struct error *err)
{
	auto_ptr(plan_free) struct plan *p = NULL;
	int r = check(o, err);

	if (r < 0)
		return r;
	fill(o, b);
	r = plan_make(env, b, o->request, &p, err);
	if (r < 0)
		return r;
	if (set_words(o->request, p) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "arguments");
	set_dispositions(o->request, p);
	p->timeout_ms = o->request->timeout_ms;
	/* An embedder gives streams, and has no terminal to relay. */
	if (o->hooks)
		p->spec->process.terminal = false;
	*ret = take_ptr(&p);
	return 0;
}
