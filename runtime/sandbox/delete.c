/* delete: undoes create. A pending branch is never touched. */
#include <signal.h>

#include "kernel/cgroup.h"
#include "sandbox/finish.h"
#include "sandbox/lookup.h"
#include "spec/spec.h"

enum { DELETE_WAIT_MS = 10000, SETTLE_WAIT_MS = 5000 };

static int end_processes(struct found *f, struct error *err)
{
	auto_close int pidfd = -1;

	if (f->status != STATUS_STOPPED) {
		pidfd = pidfd_open_id(&f->state->init);
		if (pidfd < 0 && pidfd != -ESRCH)
			return error_set(err, ERR_SYSTEM, -pidfd,
					 "cannot open init of '%s'",
					 f->state->name);
	}
	return finish_processes(f->state, pidfd, DELETE_WAIT_MS, err);
}

int found_delete(const struct sandbox_env *env, struct found *f, bool force,
		 struct error *err)
{
	auto_close int server = -1;
	struct spec *spec = NULL;
	int r;

	/* A created one may go without force: engines rely on it. */
	if (!force && f->status != STATUS_STOPPED &&
	    f->status != STATUS_CREATED) {
		(void)error_say(err, ERR_STATE, EBUSY,
				"cannot delete container '%s' that is not "
				"stopped: it is %s",
				f->state->name, sandbox_status_name(f->status));
		return error_hint(err, "kill it first, or delete --force");
	}
	/* Its hooks, before a run whose end this is removes the file. */
	(void)state_load_spec(f->slot, f->state, NULL, &spec, NULL);
	r = end_processes(f, err);
	if (r < 0) {
		spec_free(spec);
		return r;
	}
	server = found_server(f);
	r = finish_remove(env, f->slot, f->state, spec, NULL, err);
	spec_free(spec);
	if (r < 0 || !f->state->store)
		return r;
	/* Only then the name of an empty branch is free. */
	if (server < 0)
		finish_left_branch(env, f->state->store, f->state->name);
	else
		(void)pidfd_wait(server, SETTLE_WAIT_MS);
	return 0;
}

/* What a create that was killed before its first state left behind. */
static int delete_unfinished(const struct sandbox_env *env, struct found *f,
			     struct error *err)
{
	pid_t init, server;
	struct proc_id id;

	if (rundir_read_pids(f->slot, &init, &server) == 0 &&
	    proc_id_of(init, &id) == 0)
		return error_say(err, ERR_STATE, EBUSY,
				 "'%s' is being created by another command",
				 rundir_slot_name(f->slot));
	return finish_unrecorded(env, f->slot, err);
}

int sandbox_delete(const struct sandbox_env *env, const char *name, bool force,
		   struct error *err)
{
	struct error local = ERROR_INIT;
	struct found f = { 0 };
	int r = found_open(env, name, true, &f, &local);

	if (r == 0)
		r = found_delete(env, &f, force, &local);
	else if (force && local.kind == ERR_NOT_FOUND)
		r = 0;
	else if (force && f.slot && !f.state && local.kind != ERR_LOCKED)
		r = delete_unfinished(env, &f, &local);
	found_done(&f);
	if (r < 0 && err)
		*err = local;
	return r;
}
