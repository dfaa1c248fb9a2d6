#include "sandbox/asked.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "control/client.h"

CLEANUP_PTR(struct json, json_free);
CLEANUP_PTR(struct json_out, json_out_free);

int sandbox_questions(const struct sandbox_env *env, const char *name,
		      asked_fn *fn, void *data, struct error *err)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	int r = rundir_open_for(env->root, name, &d, err);

	return r < 0 ? r : control_list(d, name, "approvals", fn, data, err);
}

struct watch {
	struct rundir *rundir;
	const char *name;
	asked_fn *fn;
	void *data;
	int64_t last; /* number of the last that was listed */
	struct error err;
};

static int list_one(void *data, const struct json *a)
{
	struct watch *w = data;

	w->last = json_int_or(a, "number", w->last);
	return w->fn(w->data, a);
}

static int list_first(void *data)
{
	struct watch *w = data;

	return control_list(w->rundir, w->name, "approvals", list_one, w,
			    &w->err);
}

static int take_event(void *data, const struct json *e)
{
	const struct json *a = json_get(e, "data");
	struct watch *w = data;

	if (strcmp(json_str_or(e, "event", ""), "approval") != 0)
		return 0;
	/* It came while they were listed. */
	if (strcmp(json_str_or(a, "state", ""), "waiting") == 0 &&
	    json_int_or(a, "number", 0) <= w->last)
		return 0;
	return w->fn(w->data, a);
}

int sandbox_watch_questions(const struct sandbox_env *env, const char *name,
			    asked_fn *fn, void *data, struct error *err)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	struct watch w = {
		.name = name, .fn = fn, .data = data, .err = ERROR_INIT
	};
	int r = rundir_open_for(env->root, name, &d, err);

	if (r < 0)
		return r;
	w.rundir = d;
	r = control_subscribe(d, name, env->stop_fd, list_first, take_event, &w,
			      err);
	if (r < 0 && w.err.kind != ERR_NONE && err)
		*err = w.err;
	return r;
}

static int write_args(const char *id, int error, const char *by,
		      const char *reason, struct buf *ret)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);

	json_out_object(o);
	json_out_str_member(o, "id", id);
	json_out_str_member(o, "verdict", error ? "deny" : "allow");
	if (error)
		json_out_int_member(o, "errno", error);
	if (by)
		json_out_str_member(o, "by", by);
	if (reason)
		json_out_str_member(o, "reason", reason);
	json_out_object_end(o);
	return json_out_end(o, ret);
}

int sandbox_decide(const struct sandbox_env *env, const char *name,
		   const char *id, int error, const char *by,
		   const char *reason, struct error *err)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	auto_ptr(json_free) struct json *answer = NULL;
	auto_(buf) struct buf args = BUF_INIT;
	int r = rundir_open_for(env->root, name, &d, err);

	if (r < 0)
		return r;
	r = write_args(id, error, by, reason, &args);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "answer");
	return control_ask(d, name, "decide", buf_str(&args), &answer, err);
}
