/* The functions of include/sandlock.h about what somebody is asked. */
#include "api.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "sandbox/asked.h"

CLEANUP_PTR(struct json_out, json_out_free);

struct forward {
	sandlock_question_fn *fn;
	void *data;
};

static int forward_question(void *data, const struct json *a)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	auto_(buf) struct buf text = BUF_INIT;
	const struct json *event = json_get(a, "event");
	const struct forward *to = data;
	struct sandlock_question q = {
		.id = json_str_or(a, "id", ""),
		.state = json_str_or(a, "state", ""),
		.what = json_str_or(a, "what", ""),
		.is_cut = json_bool_or(a, "what_cut", false),
		.rule = json_str_or(a, "rule", NULL),
		.program = json_str_or(event, "program", NULL),
		.pid = (pid_t)json_int_or(event, "pid", 0),
		.count = (unsigned int)json_int_or(a, "count", 1),
		.seconds_left = (unsigned int)json_int_or(a, "seconds_left", 0),
		.by = json_str_or(a, "by", NULL),
		.reason = json_str_or(a, "reason", NULL),
	};

	json_out_value(o, a);
	if (json_out_end(o, &text) < 0)
		return -ENOMEM;
	q.json = buf_str(&text);
	return to->fn(to->data, &q);
}

static int tell_questions(const struct sandlock_env *env, const char *name,
			  int (*ask)(const struct sandbox_env *env,
				     const char *name, asked_fn *fn, void *data,
				     struct error *err),
			  struct forward to, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = ask(&a.env, name, forward_question, &to, &e);
	return api_result(r, &e, err);
}

API int sandlock_questions(const struct sandlock_env *env, const char *name,
			   sandlock_question_fn *fn, void *data,
			   struct sandlock_error *err)
{
	struct forward to = { fn, data };

	return tell_questions(env, name, sandbox_questions, to, err);
}

API int sandlock_watch_questions(const struct sandlock_env *env,
				 const char *name, sandlock_question_fn *fn,
				 void *data, struct sandlock_error *err)
{
	struct forward to = { fn, data };

	return tell_questions(env, name, sandbox_watch_questions, to, err);
}

API int sandlock_decide(const struct sandlock_env *env, const char *name,
			const char *id, int error, const char *by,
			const char *reason, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = sandbox_decide(&a.env, name, id, error, by, reason, &e);
	return api_result(r, &e, err);
}
