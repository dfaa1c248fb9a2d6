/* The functions of include/sandlock.h about what was refused. */
#include <errno.h>

#include "api.h"
#include "base/cleanup.h"
#include "sandbox/denied.h"
#include "sandbox/why.h"

_Static_assert((int)SANDLOCK_CANNOT_TELL == (int)WHY_UNKNOWN,
	       "verdicts differ");

int api_forward_denial(void *data, const struct denial_record *r)
{
	const struct api_denials *to = data;
	const struct sandlock_denial d = {
		.code = r->what.code,
		.call = r->what.call,
		.error = r->what.error,
		.object = r->what.object,
		.rule = r->what.rule,
		.where = r->what.where,
		.remedy = r->what.remedy,
		.program = r->program ? r->program : "",
		.pid = r->pid,
		.count = r->count,
		.first = r->first,
		.last = r->last,
	};

	return to->fn(to->data, &d);
}

/* @ask: all that there is, or also what comes. */
static int tell_denials(const struct sandlock_env *env, const char *name,
			int (*ask)(const struct sandbox_env *env,
				   const char *name, denial_fn *fn, void *data,
				   struct error *err),
			struct api_denials to, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = ask(&a.env, name, api_forward_denial, &to, &e);
	return api_result(r, &e, err);
}

API int sandlock_denials(const struct sandlock_env *env, const char *name,
			 sandlock_denial_fn *fn, void *data,
			 struct sandlock_error *err)
{
	struct api_denials to = { fn, data };

	return tell_denials(env, name, sandbox_denials, to, err);
}

API int sandlock_watch_denials(const struct sandlock_env *env, const char *name,
			       sandlock_denial_fn *fn, void *data,
			       struct sandlock_error *err)
{
	struct api_denials to = { fn, data };

	return tell_denials(env, name, sandbox_watch_denials, to, err);
}

struct explained {
	int (*fn)(void *data, const struct sandlock_why *w);
	void *data;
};

static int forward_answer(void *data, const struct why_answer *a)
{
	const struct explained *to = data;
	const struct sandlock_why w = {
		.what = a->what,
		.verdict = (enum sandlock_verdict)a->verdict,
		.because = a->because,
		.remedy = a->remedy,
	};

	return to->fn(to->data, &w);
}

API int sandlock_explain(const struct sandlock_env *env, const char *name,
			 const char *word,
			 int (*fn)(void *data, const struct sandlock_why *w),
			 void *data, struct sandlock_error *err)
{
	struct explained to = { fn, data };
	struct error e = ERROR_INIT;
	struct api_env a;
	int r;

	api_env_init(&a, env);
	r = sandbox_why(&a.env, name, word, forward_answer, &to, &e);
	return api_result(r, &e, err);
}
