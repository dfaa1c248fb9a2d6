#include "sandbox/asked_bundle.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "control/rundir.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"
#include "spec/request.h"

static void fill(const struct command_options *o, struct sandbox_bundle *ret)
{
	const struct request *q = o->request;

	*ret = o->bundle ? *o->bundle
			 : (struct sandbox_bundle){
				   .preserve_fds = o->preserve_fds,
			   };
	ret->name = q->name;
	ret->bundle = q->bundle;
	ret->branch = q->no_branch ? BRANCH_CHOICE_NONE : BRANCH_CHOICE_DEFAULT;
	ret->on_exit = ret->on_error = DISPOSE_UNSAID;
	ret->storage = q->storage;
	ret->quota_bytes = q->quota_bytes;
	ret->detach = false;
	ret->no_control_socket = q->no_control_socket;
	ret->no_supervisor = q->no_supervisor;
	ret->request = NULL;
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
	int r = host_check(o->request, err);

	if (r < 0)
		return r;
	fill(o, b);
	r = plan_make(env, b, o->request, &p, err);
	if (r < 0)
		return r;
	if (sandbox_is_stage(o) && !p->branch)
		return error_say(err, ERR_USAGE, EINVAL,
				 p->spec->root_readonly
					 ? "a stage needs a branch, and the "
					   "root file system of '%s' is "
					   "read-only"
					 : "a stage needs a branch, and an "
					   "annotation of '%s' asks for none",
				 p->spec->bundle);
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

static int check_detached(const struct request *q,
			  const struct sandbox_bundle *b, struct error *err)
{
	const char *by = q->ask_by;

	if (by && strcmp(by, "tty") == 0) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"--ask=tty: what is created or detached has no "
				"terminal to be asked on");
		return error_hint(err, "--ask=socket, and sandlock approve; or "
				       "the path of a program");
	}
	if (b->no_control_socket && !(by && *by == '/'))
		return error_say(err, ERR_USAGE, EINVAL,
				 "without a control socket nobody can answer "
				 "for '%s'",
				 b->name ? b->name : q->bundle);
	return 0;
}

/*
 * That @q, or NULL, can be asked for without an embedder: ERR_USAGE. What is
 * detached is answered for later.
 */
static int check_request(const struct request *q,
			 const struct sandbox_bundle *b, struct error *err)
{
	int r = q ? host_check(q, err) : 0;

	if (!q || r < 0)
		return r;
	if (request_asks_callback(q) || q->handled.n)
		return error_say(err, ERR_USAGE, EINVAL,
				 "there is nobody to be called back");
	return b->detach ? check_detached(q, b, err) : 0;
}

static int set_all(struct request *q, const char *key,
		   const struct spec_strings *v, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < v->n; i++)
		r = request_set(q, key, v->v[i], "annotations", err);
	return r;
}

int asked_bundle_annotated(const struct spec *s, struct request **ret,
			   struct error *err)
{
	auto_ptr(request_free) struct request *q = NULL;
	int r;

	if (!s->ask.exec.n && !s->ask.open.n && !s->ask.connect.n)
		return 0;
	q = request_new();
	if (!q)
		return error_set(err, ERR_SYSTEM, ENOMEM, "request");
	r = request_set(q, "program.bundle", s->bundle, "bundle", err);
	if (r == 0)
		r = request_set(q, "ask.by", "socket", "annotations", err);
	if (r == 0 && s->ask.timeout)
		r = request_set(q, "ask.timeout", s->ask.timeout,
				"io.sandlock.ask.timeout", err);
	if (r == 0)
		r = set_all(q, "ask.exec", &s->ask.exec, err);
	if (r == 0)
		r = set_all(q, "ask.open", &s->ask.open, err);
	if (r == 0)
		r = set_all(q, "ask.connect", &s->ask.connect, err);
	if (r == 0)
		*ret = take_ptr(&q);
	return r;
}

/* Of what is detached and judged the answers come from the waiter alone. */
int asked_bundle_decide(struct create *c, struct error *err)
{
	const struct sandbox_bundle *b = c->bundle;
	const struct request *q = b->request;
	int r = check_request(q, b, err);

	if (r == 0)
		r = plan_make(c->env, b, q, &c->plan, err);
	if (r == 0 && !q) {
		q = c->plan->asked;
		r = check_request(q, b, err);
	}
	if (r < 0 || !q)
		return r;
	c->asked = (struct command_options){ .request = q,
					     .events_fd = -1,
					     .calls_fd = -1 };
	c->command = &c->asked;
	if (b->detach && c->plan->judged)
		c->inline_start = false;
	return 0;
}

/* Keys and values, each with its NUL. */
static const char request_name[] = "request";

static int add_pair(void *data, const char *key, const char *value)
{
	struct buf *b = data;

	buf_add(b, key, strlen(key) + 1);
	buf_add(b, value, strlen(value) + 1);
	return buf_failed(b) ? -ENOMEM : 0;
}

int asked_bundle_write(const struct rundir_slot *slot, const struct request *q,
		       struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r = q ? request_each(q, add_pair, &b) : 0;

	if (q && r == 0)
		r = fd_write_atomic(rundir_slot_fd(slot), request_name, b.data,
				    b.len, 0600, false);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot write what '%s' is asked for",
				 rundir_slot_name(slot));
	return 0;
}

int asked_bundle_read(const struct rundir_slot *slot, struct request **ret,
		      struct error *err)
{
	auto_ptr(request_free) struct request *q = NULL;
	auto_(buf) struct buf b = BUF_INIT;
	int r = fd_read_own(rundir_slot_fd(slot), request_name,
			    LIMIT_CONFIG_BYTES, &b);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot read what '%s' was asked for",
				 rundir_slot_name(slot));
	q = request_new();
	if (!q)
		return error_set(err, ERR_SYSTEM, ENOMEM, "request");
	for (size_t i = 0; i < b.len;) {
		const char *key = b.data + i;
		const char *value = key + strlen(key) + 1;

		r = request_set(q, key, value, key, err);
		if (r < 0)
			return r;
		i = (size_t)(value - b.data) + strlen(value) + 1;
	}
	*ret = take_ptr(&q);
	return 0;
}
