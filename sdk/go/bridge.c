#include "bridge.h"

#include "_cgo_export.h"

static void log_line(void *data, enum sandlock_log_level level, const char *msg)
{
	goLog((uintptr_t)data, (int)level, (char *)msg);
}

void bridge_log(struct sandlock_env *env, uintptr_t handle)
{
	env->log = log_line;
	env->log_data = (void *)handle;
}

static int change(void *data, const struct sandlock_change *c)
{
	return goChange((uintptr_t)data, (struct sandlock_change *)c);
}

int bridge_diff(const struct sandlock_env *env, const char *name,
		unsigned int want, const char *const *paths, size_t n_paths,
		uintptr_t handle, struct sandlock_error *err)
{
	return sandlock_diff(env, name, want, paths, n_paths, change,
			     (void *)handle, err);
}

int bridge_uncovered(const struct sandlock_env *env, const char *name,
		     uintptr_t handle, struct sandlock_error *err)
{
	return sandlock_uncovered(env, name, change, (void *)handle, err);
}

static int denial(void *data, const struct sandlock_denial *d)
{
	return goDenial((uintptr_t)data, (struct sandlock_denial *)d);
}

int bridge_denials(const struct sandlock_env *env, const char *name,
		   uintptr_t handle, struct sandlock_error *err)
{
	return sandlock_denials(env, name, denial, (void *)handle, err);
}

static int why(void *data, const struct sandlock_why *w)
{
	return goWhy((uintptr_t)data, (struct sandlock_why *)w);
}

int bridge_explain(const struct sandlock_env *env, const char *name,
		   const char *word, uintptr_t handle,
		   struct sandlock_error *err)
{
	return sandlock_explain(env, name, word, why, (void *)handle, err);
}

static int question(void *data, const struct sandlock_question *q)
{
	return goQuestion((uintptr_t)data, (struct sandlock_question *)q);
}

int bridge_questions(const struct sandlock_env *env, const char *name,
		     uintptr_t handle, struct sandlock_error *err)
{
	return sandlock_questions(env, name, question, (void *)handle, err);
}

int bridge_watch_questions(const struct sandlock_env *env, const char *name,
			   uintptr_t handle, struct sandlock_error *err)
{
	return sandlock_watch_questions(env, name, question, (void *)handle,
					err);
}

int bridge_commit(const struct sandlock_env *env, const char *name,
		  struct sandlock_commit *c, uintptr_t handle,
		  struct sandlock_error *err)
{
	c->on_conflict = change;
	c->data = (void *)handle;
	return sandlock_commit(env, name, c, err);
}

int bridge_sandbox_commit(struct sandlock_sandbox *s, struct sandlock_commit *c,
			  uintptr_t handle, struct sandlock_error *err)
{
	c->on_conflict = change;
	c->data = (void *)handle;
	return sandlock_sandbox_commit(s, c, err);
}

static int decide(void *data, const struct sandlock_event *e,
		  struct sandlock_context *ctx)
{
	return goPolicy((uintptr_t)data, (struct sandlock_event *)e, ctx);
}

static void decide_later(void *data, const struct sandlock_event *e,
			 struct sandlock_context *ctx,
			 struct sandlock_approval *a)
{
	goDeferred((uintptr_t)data, (struct sandlock_event *)e, ctx, a);
}

static void forget(void *data)
{
	goForget((uintptr_t)data);
}

int bridge_set_policy(struct sandlock_sandbox *s, bool deferred,
		      uintptr_t handle, struct sandlock_error *err)
{
	if (deferred)
		return sandlock_sandbox_set_deferred_policy(
			s, decide_later, (void *)handle, forget, err);
	return sandlock_sandbox_set_policy(s, decide, (void *)handle, forget,
					   err);
}

static int handle_call(void *data, struct sandlock_call *c,
		       struct sandlock_action *ret)
{
	return goHandler((uintptr_t)data, c, ret);
}

int bridge_add_handler(struct sandlock_sandbox *s, const char *name, int nr,
		       enum sandlock_exception on_exception, uintptr_t handle,
		       struct sandlock_error *err)
{
	const struct sandlock_handler h = {
		.syscall = name,
		.nr = nr,
		.fn = handle_call,
		.data = (void *)handle,
		.free_fn = forget,
		.on_exception = on_exception,
	};

	return sandlock_sandbox_add_handler(s, &h, err);
}
