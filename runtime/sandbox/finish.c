#include "sandbox/finish.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "hooks/hooks.h"
#include "kernel/cgroup.h"
#include "sandbox/plan.h"
#include "sandbox/scratch.h"
#include "spec/spec.h"

enum { ORPHAN_TRIES = 100 };
static const struct timespec orphan_pause = { .tv_nsec = 10 * 1000 * 1000 };

int finish_processes(const struct sandbox_state *s, int pidfd, int timeout_ms,
		     struct error *err)
{
	bool members = s->cgroup && cgroup_has_membership(s->cgroup);
	int r = 0;

	/* Init was waited for: its pid namespace is empty. */
	if (pidfd < 0 && s->pid_ns)
		return 0;
	if (pidfd >= 0) {
		r = pidfd_signal(pidfd, SIGKILL);
		if (r < 0 && r != -ESRCH)
			return error_set(err, ERR_SYSTEM, -r,
					 "cannot kill init of '%s'", s->name);
	}
	/* A frozen v1 cgroup keeps SIGKILL pending. */
	if (members && cgroup_is_frozen(s->cgroup))
		(void)cgroup_thaw(s->cgroup, NULL);
	if (members && !s->pid_ns) {
		r = cgroup_kill(s->cgroup, timeout_ms, err);
		if (r < 0)
			return r;
	}
	if (pidfd < 0)
		return 0;
	r = pidfd_wait(pidfd, timeout_ms);
	if (r == 1)
		return 0;
	return error_say(err, ERR_TIMEOUT, ETIMEDOUT,
			 "init of '%s' did not die within %d ms", s->name,
			 timeout_ms);
}

void finish_branch(struct branch *b, const struct exit_status *status,
		   bool waited, const struct command_options *command,
		   struct sandbox_result *ret)
{
	enum branch_outcome outcome = OUTCOME_PENDING;
	struct branch_settled settled = { 0 };
	struct error *err = &ret->outcome_error;

	ret->outcome = SANDBOX_PENDING;
	if (branch_settle(b, status, waited, &settled, err) < 0)
		return;
	ret->n_changes = settled.n_changes;
	if (settled.gone) {
		ret->outcome = SANDBOX_EMPTY;
		return;
	}
	if (command && command->on_change &&
	    branch_changes(b, 0, NULL, 0, command->on_change, command->data,
			   err) < 0)
		return;
	(void)branch_dispose(b, command && command->force, &outcome, err);
	switch (outcome) {
	case OUTCOME_PENDING:
		break;
	case OUTCOME_COMMITTED:
		ret->outcome = SANDBOX_COMMITTED;
		break;
	case OUTCOME_ABORTED:
		ret->outcome = SANDBOX_ABORTED;
		break;
	case OUTCOME_GONE:
		ret->outcome = SANDBOX_EMPTY;
		break;
	}
}

void finish_left_branch(const struct sandbox_env *env, const char *store,
			const char *name)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;
	const struct exit_status unknown = { EXIT_UNKNOWN, 0 };
	struct branch_settled settled;

	if (store_open(store, env->log, &st, NULL) < 0 ||
	    branch_find(st, name, &b, NULL) < 0)
		return;
	/* An init that lost its parent ends by itself, soon. */
	for (int i = 0; i < ORPHAN_TRIES; i++) {
		if (branch_settle(b, &unknown, false, &settled, NULL) == 0)
			break;
		(void)nanosleep(&orphan_pause, NULL);
	}
}

/*
 * What was made of a create that was killed before it could write it down is
 * found by making it again: an existing empty cgroup is taken over, one that
 * somebody else is in stays.
 */
static void remove_unrecorded_cgroup(const struct sandbox_env *env,
				     const struct rundir_slot *slot)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct cgroup_options o = { .name = rundir_slot_name(slot),
				    .rootless = !caller_is_privileged(),
				    .log = env->log };
	struct cgroup *cg = NULL;
	struct spec *spec = NULL;

	if (fd_read_own(rundir_slot_fd(slot), "config.json", LIMIT_CONFIG_BYTES,
			&b) < 0 ||
	    spec_parse(b.data, b.len, "/", NULL, &spec, NULL) < 0)
		return;
	o.path = spec->cgroups_path;
	o.resources = spec->has_resources ? &spec->resources : NULL;
	for (int i = 0; i < ORPHAN_TRIES; i++) {
		if (cgroup_make(&o, &cg, NULL) == 0)
			break;
		(void)nanosleep(&orphan_pause, NULL);
	}
	if (cg)
		(void)cgroup_remove(cg, NULL);
	cgroup_free(cg);
	spec_free(spec);
}

int finish_unrecorded(const struct sandbox_env *env, struct rundir_slot *slot,
		      struct error *err)
{
	remove_unrecorded_cgroup(env, slot);
	scratch_remove_unrecorded(slot);
	finish_left_branch(env, env->store, rundir_slot_name(slot));
	return rundir_remove(slot, err);
}

int finish_hooks(const struct sandbox_state *s, const struct spec *spec,
		 int point, const char *status, struct interrupt *interrupt,
		 const struct log_sink *log, struct error *err)
{
	auto_(buf) struct buf state = BUF_INIT;
	struct hook_context ctx = { .cwd = spec->bundle,
				    .interrupt = interrupt,
				    .log = log };
	bool stopped = point == SPEC_HOOK_POSTSTOP;
	int r;

	if (!spec->hooks.n[point])
		return 0;
	r = state_to_json(s, spec, status, stopped ? 0 : s->init.pid, false,
			  &state, err);
	if (r < 0)
		return r;
	ctx.state = state.data;
	ctx.state_len = state.len;
	return hooks_run(&spec->hooks, (enum spec_hook_point)point, &ctx, err);
}

int finish_remove(const struct sandbox_env *env, struct rundir_slot *slot,
		  const struct sandbox_state *s, const struct spec *spec,
		  struct interrupt *interrupt, struct error *err)
{
	int r = s->cgroup ? cgroup_remove(s->cgroup, err) : 0;
	bool ours = false;

	scratch_remove(s);
	if (r < 0)
		return r;
	r = slot ? rundir_take(slot, &ours, err) : 0;
	if (r < 0)
		return r;
	/* After the deletion, as the specification orders, and by one of those
	 * who delete it, a run and a delete --force; only warned about. */
	if (spec && ours)
		(void)finish_hooks(s, spec, SPEC_HOOK_POSTSTOP, "stopped",
				   interrupt, env->log, NULL);
	return 0;
}
