/* kill, pause, resume, update: verbs on running processes. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "kernel/cgroup.h"
#include "sandbox/finish.h"
#include "sandbox/lookup.h"
#include "spec/spec.h"

enum { KILL_WAIT_MS = 10000 };

/* A list of who is there is old by the time it is read: who forks outruns it.
 */
static int signal_all(const struct cgroup *c, int sig, struct error *err)
{
	return sig == SIGKILL ? cgroup_kill(c, KILL_WAIT_MS, err)
			      : cgroup_signal(c, sig, err);
}

static int signal_found(struct found *f, int sig, bool all, struct error *err)
{
	auto_close int pidfd = -1;
	int r;

	/* Without a pid namespace others may outlive init; else nobody is left,
	 * and all of them were signalled. */
	if (all && f->status == STATUS_STOPPED)
		return !f->state->pid_ns && f->state->cgroup &&
				       cgroup_has_membership(f->state->cgroup)
			       ? signal_all(f->state->cgroup, sig, err)
			       : 0;
	pidfd = found_pidfd(f, err);
	if (pidfd < 0)
		return pidfd;
	if (all && f->state->cgroup && cgroup_has_membership(f->state->cgroup))
		return signal_all(f->state->cgroup, sig, err);
	r = pidfd_signal(pidfd, sig);
	if (r == -ESRCH)
		return error_say(err, ERR_STATE, ESRCH,
				 "container not running: '%s'", f->state->name);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot signal '%s'",
				 f->state->name);
	/* A frozen process dies only when it is thawed (v1; v2 lets it die). */
	if (sig == SIGKILL && f->status == STATUS_PAUSED)
		return cgroup_thaw(f->state->cgroup, err);
	return 0;
}

int sandbox_kill(const struct sandbox_env *env, const char *name, int sig,
		 bool all, struct error *err)
{
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, err);

	if (r == 0)
		r = signal_found(&f, sig, all, err);
	found_done(&f);
	return r;
}

/* Waits for the process that serves the sandbox; kills a wedged one. */
static void end_server(const struct found *f)
{
	auto_close int pidfd = found_server(f);

	if (pidfd >= 0 && pidfd_wait(pidfd, KILL_WAIT_MS) != 1) {
		(void)pidfd_signal(pidfd, SIGKILL);
		(void)pidfd_wait(pidfd, 1000);
	}
}

static int kill_found(const struct sandbox_env *env, struct found *f,
		      struct error *err)
{
	auto_close int pidfd = found_pidfd(f, err);
	struct spec *spec = NULL;
	int r;

	if (pidfd < 0)
		return pidfd;
	r = finish_processes(f->state, pidfd, KILL_WAIT_MS, err);
	if (r < 0)
		return r;
	end_server(f);
	if (f->state->store)
		finish_left_branch(env, f->state->store, f->state->name);
	if (!f->state->ephemeral)
		return 0;
	/* Its run removed the directory; if that was wedged, we do. */
	if (rundir_lock(f->slot, 1000, NULL) < 0)
		return 0;
	(void)state_load_spec(f->slot, f->state, NULL, &spec, NULL);
	r = finish_remove(env, f->slot, f->state, spec, NULL, err);
	spec_free(spec);
	return r;
}

int sandbox_kill_tree(const struct sandbox_env *env, const char *name,
		      struct error *err)
{
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, err);

	if (r == 0)
		r = kill_found(env, &f, err);
	found_done(&f);
	return r;
}

int sandbox_pause(const struct sandbox_env *env, const char *name, bool pause,
		  struct error *err)
{
	struct found f = { 0 };
	int r = found_open(env, name, true, &f, err);

	if (r == 0)
		r = state_pause(f.state, f.status, pause, err);
	found_done(&f);
	return r;
}

static int update_found(struct found *f, const struct spec_resources *res,
			struct error *err)
{
	int r;

	if (f->status == STATUS_STOPPED)
		return error_say(err, ERR_STATE, ESRCH,
				 "container not running: '%s'", f->state->name);
	if (!f->state->cgroup)
		return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				 "'%s' has no cgroup to limit", f->state->name);
	r = cgroup_update(f->state->cgroup, res, err);
	return r == 0 ? state_write(f->slot, f->state, err) : r;
}

int sandbox_update(const struct sandbox_env *env, const char *name,
		   const char *resources, struct error *err)
{
	struct spec_resources *res = NULL;
	struct found f = { 0 };
	int r = spec_resources_load(resources, env->log, &res, err);

	if (r == 0)
		r = found_open(env, name, true, &f, err);
	if (r == 0)
		r = update_found(&f, res, err);
	found_done(&f);
	spec_resources_free(res);
	return r;
}

static int stats_found(struct found *f, struct buf *ret, struct error *err)
{
	struct json_out *o;
	int r;

	if (f->status == STATUS_STOPPED)
		return error_say(err, ERR_STATE, ESRCH,
				 "container not running: '%s'", f->state->name);
	o = json_out_new(false);
	if (!o)
		return error_set(err, ERR_SYSTEM, ENOMEM, "stats");
	json_out_object(o);
	json_out_str_member(o, "type", "stats");
	json_out_str_member(o, "id", f->state->name);
	json_out_key(o, "data");
	json_out_object(o);
	r = f->state->cgroup ? cgroup_stats(f->state->cgroup, o, err) : 0;
	json_out_object_end(o);
	json_out_object_end(o);
	if (r == 0 && json_out_end(o, ret) < 0)
		r = error_set(err, ERR_SYSTEM, ENOMEM, "stats");
	json_out_free(o);
	return r;
}

int sandbox_stats(const struct sandbox_env *env, const char *name,
		  struct buf *ret, struct error *err)
{
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, err);

	if (r == 0)
		r = stats_found(&f, ret, err);
	found_done(&f);
	return r;
}

int sandbox_oom_kills(const struct sandbox_env *env, const char *name,
		      uint64_t *ret, struct error *err)
{
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, err);

	if (r == 0)
		*ret = f.state->cgroup ? cgroup_oom_kills(f.state->cgroup) : 0;
	found_done(&f);
	return r;
}
