#include "sandbox/denied.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "branch/branch.h"
#include "control/client.h"
#include "kernel/cgroup.h"
#include "sandbox/create.h"
#include "sandbox/plan.h"
#include "spec/spec.h"

CLEANUP_PTR(struct json, json_free);

static const char log_name[] = "denials.json";

/* Of DENIALS_MAX records at their longest, escaped. */
static const struct json_limits limits = { 8 * 1024 * 1024, 8, 64 * 1024 };

static int open_dir(const struct branch *b, int *ret, struct error *err)
{
	*ret = open(branch_dir(b),
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 branch_dir(b));
	return 0;
}

static int keep_log(const struct branch *b, struct denials *d,
		    struct error *err)
{
	auto_(buf) struct buf text = BUF_INIT;
	auto_close int fd = -1;
	int r;

	r = open_dir(b, &fd, err);
	if (r < 0)
		return r;
	r = denials_page(d, 0, limits.bytes, &text);
	if (r == 0)
		r = fd_write_atomic(fd, log_name, text.data, text.len, 0600,
				    false);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot write the log of '%s'",
				 branch_name(b));
	return 0;
}

static int log_one(void *data, const struct denial_record *r)
{
	const struct denial *w = &r->what;

	log_write(data, LOG_LEVEL_INFO,
		  "denied: %s[%d] %s %s%s%s [%s] x%llu: %s", r->program,
		  (int)r->pid, w->call,
		  w->error ? strerrorname_np(w->error) : "empty",
		  w->object ? " " : "", w->object ? w->object : "", w->code,
		  (unsigned long long)r->count,
		  w->rule ? w->rule : "no rule allows it");
	return 0;
}

/* Of a command each has an option, of a bundle a property at @path. */
static void add_limit(struct create *c, struct denial_of_limit *x,
		      const char *path, uint64_t times, int64_t n)
{
	if (!times)
		return;
	/* Without a supervisor there was nothing to write down until now. */
	if (!c->denials)
		c->denials = denials_new();
	x->what.times = times;
	if (!c->plan->host) {
		x->what.remedy = NULL;
		(void)snprintf(x->rule, sizeof(x->rule), "%s %" PRId64, path,
			       n);
	}
	denials_add(c->denials, 0, &x->what);
}

static void add_limits(struct create *c)
{
	const struct spec *s = c->plan->spec;
	const struct spec_resources *r = &s->resources;
	const struct cgroup *cg = c->state->cgroup;
	int64_t most = r->pids_limit - (c->plan->host ? 1 : 0); /* our pid 1 */
	struct denial_of_limit x;

	if (!cg || !s->has_resources)
		return;
	if (r->has_mem_limit && r->mem_limit > 0) {
		denial_of_memory(&x, (uint64_t)r->mem_limit);
		add_limit(c, &x, "linux.resources.memory.limit",
			  cgroup_limit_kills(cg), r->mem_limit);
	}
	if (r->has_pids_limit && most > 0) {
		denial_of_processes(&x, (uint64_t)most);
		add_limit(c, &x, "linux.resources.pids.limit",
			  cgroup_fork_failures(cg), most);
	}
}

void denied_finish(struct create *c, bool pending)
{
	const struct command_options *o = c->command;
	struct error err = ERROR_INIT;

	add_limits(c);
	if (c->quota.is_exceeded && !c->denials)
		c->denials = denials_new();
	quota_add_denial(&c->quota, c->plan->host, c->denials);
	if (!c->denials || !denials_count(c->denials))
		return;
	(void)denials_each(c->denials, log_one, (void *)c->env->log);
	if (o && o->on_denial)
		(void)denials_each(c->denials, o->on_denial, o->denial_data);
	if (pending && keep_log(c->branch, c->denials, &err) < 0)
		log_warn(c->env->log, "%s", err.msg);
}

void denied_keep_quota(const struct branch *b, const struct quota *q)
{
	auto_ptr(denials_free) struct denials *d = denials_new();

	quota_add_denial(q, false, d);
	if (d)
		(void)keep_log(b, d, NULL);
}

struct forward {
	denial_fn *fn;
	void *data;
};

static int forward_item(void *data, const struct json *item)
{
	const struct forward *to = data;
	struct denial_record record;

	denial_from_json(item, &record);
	return to->fn(to->data, &record);
}

static int each_of(const struct json *page, denial_fn *fn, void *data)
{
	const struct json *v = json_get(page, "denials");
	struct forward to = { fn, data };
	int r = 0;

	if (!v || v->type != JSON_ARRAY)
		return -EPROTO;
	for (size_t i = 0; r == 0 && i < v->n; i++)
		r = forward_item(&to, &v->items[i]);
	return r;
}

static int read_log(const struct sandbox_env *env, const char *name,
		    denial_fn *fn, void *data, struct error *err)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;
	auto_ptr(json_free) struct json *page = NULL;
	auto_(buf) struct buf text = BUF_INIT;
	auto_close int fd = -1;
	int r = store_open(env->store, env->log, &st, err);

	if (r == 0)
		r = branch_find(st, name, &b, err);
	if (r == 0)
		r = open_dir(b, &fd, err);
	if (r < 0)
		return r;
	r = fd_read_file(fd, log_name, limits.bytes, &text);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot read the log of '%s'", name);
	r = json_parse(text.data, text.len, &limits, log_name, &page, err);
	return r < 0 ? r : each_of(page, fn, data);
}

static int ask_pages(struct rundir *d, const char *name, denial_fn *fn,
		     void *data, struct error *err)
{
	struct forward to = { fn, data };

	return control_list(d, name, "denials", forward_item, &to, err);
}

int sandbox_denials(const struct sandbox_env *env, const char *name,
		    denial_fn *fn, void *data, struct error *err)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	struct error asked = ERROR_INIT, read = ERROR_INIT;
	int r = rundir_open(env->root, false, &d, NULL);

	if (r == 0)
		r = ask_pages(d, name, fn, data, &asked);
	if (r >= 0)
		return r;
	/* Nobody serves it (any more): what was written down. */
	r = read_log(env, name, fn, data, &read);
	if (r < 0 && err)
		*err = asked.kind != ERR_NONE && asked.sys != ENOENT ? asked
								     : read;
	return r;
}

struct watch {
	struct rundir *rundir;
	const char *name;
	denial_fn *fn;
	void *data;
	uint64_t last; /* number of the last that was listed */
	struct error err;
};

static int note_and_call(void *data, const struct denial_record *r)
{
	struct watch *w = data;

	w->last = r->id;
	return w->fn(w->data, r);
}

static int list_first(void *data)
{
	struct watch *w = data;

	return ask_pages(w->rundir, w->name, note_and_call, w, &w->err);
}

static int take_event(void *data, const struct json *e)
{
	struct watch *w = data;
	struct denial_record r;

	if (strcmp(json_str_or(e, "event", ""), "denial") != 0)
		return 0;
	denial_from_json(json_get(e, "data"), &r);
	/* It came while they were listed. */
	if (r.id <= w->last && r.count == 1)
		return 0;
	return w->fn(w->data, &r);
}

int sandbox_watch_denials(const struct sandbox_env *env, const char *name,
			  denial_fn *fn, void *data, struct error *err)
{
	struct watch w = {
		.name = name, .fn = fn, .data = data, .err = ERROR_INIT
	};
	int r = rundir_open_for(env->root, name, &w.rundir, err);

	if (r == 0)
		r = control_subscribe(w.rundir, name, env->stop_fd, list_first,
				      take_event, &w, err);
	if (r < 0 && w.err.kind != ERR_NONE && err)
		*err = w.err;
	rundir_close(w.rundir);
	return r;
}
