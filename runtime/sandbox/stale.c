#include "sandbox/stale.h"

#include <errno.h>

#include "base/cleanup.h"
#include "kernel/cgroup.h"
#include "kernel/pidfd.h"
#include "sandbox/finish.h"
#include "sandbox/sandbox.h"
#include "sandbox/scratch.h"
#include "sandbox/state.h"
#include "spec/spec.h"

/*
 * The pid file has no start times: another process that got the number keeps
 * the directory, which is better than the other mistake. A zombie does not.
 */
static bool is_there(pid_t pid)
{
	auto_close int pidfd = pid > 0 ? pidfd_open_pid(pid) : -ESRCH;

	return pidfd != -ESRCH && (pidfd < 0 || pidfd_wait(pidfd, 0) == 0);
}

/* By the pid file alone: the directory has no state we can read. */
static bool pids_are_gone(const struct rundir_slot *slot)
{
	pid_t init, server;

	if (rundir_read_pids(slot, &init, &server) < 0)
		return true;
	return !is_there(init) && !is_there(server);
}

static bool is_stale(const struct rundir_slot *slot,
		     const struct sandbox_state *s)
{
	if (!s)
		return pids_are_gone(slot);
	if (state_is_alive(s))
		return false;
	if (!s->ready)
		return true;
	return s->ephemeral && pids_are_gone(slot);
}

/*
 * With a pid namespace none of its processes is left: who is in it has taken
 * it over, as is done with an empty one.
 */
static void end_cgroup(const struct sandbox_state *s)
{
	auto_free pid_t *pids = NULL;
	size_t n = 0;

	if (!s->pid_ns)
		(void)cgroup_kill(s->cgroup, 1000, NULL);
	else if (cgroup_pids(s->cgroup, &pids, &n, NULL) == 0 && n > 0)
		return;
	(void)cgroup_remove(s->cgroup, NULL);
}

/* Of a run that was killed: who deletes it runs them. */
static bool has_hooks(const struct spec *spec)
{
	return spec && spec->hooks.n[SPEC_HOOK_POSTSTOP];
}

static struct spec *load_spec(const struct rundir_slot *slot,
			      const struct sandbox_state *s)
{
	struct spec *spec = NULL;

	if (s && s->ready && !s->host)
		(void)state_load_spec(slot, s, NULL, &spec, NULL);
	return spec;
}

bool stale_waits(const struct rundir_slot *slot, const struct sandbox_state *s)
{
	struct spec *spec = load_spec(slot, s);
	bool waits = has_hooks(spec);

	spec_free(spec);
	return waits;
}

int stale_prune(const struct sandbox_env *env, struct rundir *d,
		const char *name, bool hooks)
{
	auto_ptr(rundir_slot_close) struct rundir_slot *slot = NULL;
	auto_ptr(state_free) struct sandbox_state *s = NULL;
	struct spec *spec;
	bool ours;
	int r;

	if (rundir_find(d, name, &slot, NULL) < 0 ||
	    rundir_age_ms(slot) < STALE_AGE_MS)
		return 0;
	if (rundir_is_ours(slot) && rundir_lock(slot, 0, NULL) < 0)
		return 0;
	if (rundir_is_ours(slot))
		(void)state_read(slot, &s, NULL);
	if (!is_stale(slot, s))
		return 0;
	if (!s && rundir_is_ours(slot))
		return finish_unrecorded(env, slot, NULL) == 0;
	spec = load_spec(slot, s);
	if (has_hooks(spec) && !hooks) {
		spec_free(spec);
		return 0;
	}
	if (s && s->cgroup)
		end_cgroup(s);
	if (s)
		scratch_remove(s);
	log_debug(env->log, "removed what is left of '%s'", name);
	r = rundir_take(slot, &ours, NULL);
	if (spec && ours)
		(void)finish_hooks(s, spec, SPEC_HOOK_POSTSTOP, "stopped", NULL,
				   env->log, NULL);
	spec_free(spec);
	return r == 0;
}
