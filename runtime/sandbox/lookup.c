#include "sandbox/lookup.h"

int found_open(const struct sandbox_env *env, const char *name, bool lock,
	       struct found *ret, struct error *err)
{
	struct error local = ERROR_INIT;
	int r;

	r = rundir_open(env->root, false, &ret->rundir, &local);
	if (r == -ENOENT)
		return error_say(err, ERR_NOT_FOUND, ENOENT,
				 "container \"%s\" does not exist", name);
	if (r < 0) {
		if (err)
			*err = local;
		return r;
	}
	r = rundir_find(ret->rundir, name, &ret->slot, err);
	if (r == 0 && lock)
		r = rundir_lock(ret->slot, LOOKUP_LOCK_MS, err);
	if (r == 0)
		r = state_read(ret->slot, &ret->state, err);
	if (r == 0)
		ret->status = state_status(ret->slot, ret->state);
	return r;
}

void found_done(struct found *f)
{
	state_free(f->state);
	rundir_slot_close(f->slot);
	rundir_close(f->rundir);
}

int found_pidfd(const struct found *f, struct error *err)
{
	int fd = f->status == STATUS_STOPPED ? -ESRCH
					     : pidfd_open_id(&f->state->init);

	if (fd < 0)
		return error_say(err, ERR_STATE, ESRCH,
				 "container not running: '%s'", f->state->name);
	return fd;
}
