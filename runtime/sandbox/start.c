/* start: lets a created sandbox's program run. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/create.h"
#include "sandbox/finish.h"
#include "sandbox/lookup.h"
#include "sandbox/sdnotify.h"
#include "spec/spec.h"

static int check_created(const struct found *f, struct error *err)
{
	switch (f->status) {
	case STATUS_CREATED:
		return 0;
	case STATUS_CREATING:
		return error_say(err, ERR_STATE, EAGAIN,
				 "cannot start '%s': its create has not "
				 "finished",
				 f->state->name);
	case STATUS_RUNNING:
	case STATUS_PAUSED:
		return error_say(err, ERR_STATE, EINVAL,
				 "cannot start an already running container: "
				 "'%s'",
				 f->state->name);
	case STATUS_STOPPED:
		break;
	}
	return error_say(err, ERR_STATE, EINVAL,
			 "cannot start a container that has stopped: '%s'",
			 f->state->name);
}

/*
 * The reading end of the status fifo is opened first: whatever init writes
 * after the byte, and its end, is seen.
 */
static int release_init(const struct found *f, int *ret_status_fd,
			struct error *err)
{
	int dir_fd = rundir_slot_fd(f->slot);
	auto_close int status_fd = openat(dir_fd, "exec.status",
					  O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	auto_close int fifo_fd =
		openat(dir_fd, "exec.fifo", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fifo_fd < 0 && errno == ENXIO)
		return error_say(err, ERR_STATE, ESRCH,
				 "cannot start a container that has stopped: "
				 "'%s'",
				 f->state->name);
	if (status_fd < 0 || fifo_fd < 0 || fcntl(status_fd, F_SETFL, 0) < 0 ||
	    fd_write_full(fifo_fd, "s", 1) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot start '%s'",
				 f->state->name);
	if (unlinkat(dir_fd, "exec.fifo", 0) < 0 && errno != ENOENT)
		return error_set(err, ERR_SYSTEM, errno, "cannot start '%s'",
				 f->state->name);
	*ret_status_fd = take_fd(&status_fd);
	return 0;
}

/* Others may do what they want with it meanwhile, to kill it for instance. */
static void wait_ready(struct found *f, int notify_fd)
{
	auto_close int pidfd = pidfd_open_id(&f->state->init);

	rundir_unlock(f->slot);
	if (pidfd >= 0)
		sdnotify_forward(notify_fd, pidfd, f->state->init.pid);
}

static int follow(const struct sandbox_env *env, struct found *f, int status_fd,
		  struct error *err)
{
	/* Of what is relayed the end alone says that the waiter has died. */
	bool is_said = f->state->judged;
	struct spec *spec = NULL;
	/* While init executes the program. */
	int loaded = state_load_spec(f->slot, f->state, env->log, &spec, err);
	int r;

	do
		r = create_take_message(
			status_fd, spec ? spec->process.args.v[0] : "", NULL,
			&is_said, loaded < 0 ? NULL : err);
	while (r > 0);
	if (r == 0 && loaded == 0)
		loaded = finish_hooks(f->state, spec, SPEC_HOOK_POSTSTART,
				      "running", NULL, env->log, err);
	spec_free(spec);
	return r < 0 ? r : loaded;
}

static int start_found(const struct sandbox_env *env, struct found *f,
		       struct error *err)
{
	auto_close int notify_fd = -1;
	auto_close int status_fd = -1;
	int r = check_created(f, err);

	if (r < 0)
		return r;
	if (!f->state->command) {
		(void)error_say(err, ERR_STATE, EINVAL,
				"cannot start '%s': config.json has no "
				"process",
				f->state->name);
		return error_hint(err, "delete it and create it again with "
				       "one");
	}
	r = sdnotify_bind(f->slot, &notify_fd, err);
	if (r == 0)
		r = release_init(f, &status_fd, err);
	if (r == 0)
		r = follow(env, f, status_fd, err);
	if (r == 0 && notify_fd >= 0)
		wait_ready(f, notify_fd);
	return r;
}

int sandbox_start(const struct sandbox_env *env, const char *name,
		  struct error *err)
{
	struct found f = { 0 };
	struct error local = ERROR_INIT;
	int r = found_open(env, name, true, &f, &local);

	if (r == 0)
		r = start_found(env, &f, &local);
	/* "Lifecycle" of the specification, 7 and 9: stop it, then destroy it
	 * and run what comes after that. */
	if (r < 0 && local.kind == ERR_HOOK &&
	    found_delete(env, &f, true, NULL) == 0)
		(void)error_hint(&local,
				 "the container was deleted, as after a hook "
				 "that fails during create");
	found_done(&f);
	if (r < 0 && err)
		*err = local;
	return r;
}
