#include "sandbox/lookup.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "branch/branch.h"
#include "sandbox/waiter.h"

/* What has ended may have left a branch of its name; what hides has one. */
static void advise_branch(const struct sandbox_env *env, const char *name,
			  struct error *err)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;
	struct branch_info info;

	if (!err || store_open(env->store, NULL, &st, NULL) < 0 ||
	    branch_find(st, name, &b, NULL) < 0 ||
	    branch_get_info(b, &info, NULL) < 0)
		return;
	if (info.init.pid && info.hidden)
		(void)branch_hint_running(b, err);
	else if (info.init.pid)
		(void)error_hint(err,
				 "it runs, but not below this runtime "
				 "directory; its first process is %d",
				 (int)info.init.pid);
	else
		(void)error_hint(err,
				 "it has ended, and left a branch: "
				 "sandlock diff %s",
				 name);
	branch_info_done(&info);
}

int found_open(const struct sandbox_env *env, const char *name, bool lock,
	       struct found *ret, struct error *err)
{
	int r = rundir_open_for(env->root, name, &ret->rundir, err);

	if (r == 0)
		r = rundir_find(ret->rundir, name, &ret->slot, err);
	if (r == -ENOENT)
		advise_branch(env, name, err);
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

/* -ESRCH where none is named yet, or it is we. */
static int read_server(const struct found *f, pid_t *ret)
{
	pid_t init;

	if (rundir_read_pids(f->slot, &init, ret) < 0 || *ret == init ||
	    *ret == getpid())
		return -ESRCH;
	return 0;
}

bool found_lost_server(const struct found *f)
{
	auto_close int pidfd = -1;
	pid_t server;

	if (read_server(f, &server) < 0)
		return false;
	pidfd = found_server(f);
	return pidfd == -ESRCH;
}

int found_server(const struct found *f)
{
	const struct sandbox_state *s = f->state;
	auto_close int pidfd = -1;
	char boot[BOOT_ID_LEN + 1];
	struct proc_id id;
	pid_t server;

	if (read_server(f, &server) < 0 || proc_boot_id(boot) < 0 ||
	    strcmp(boot, s->boot_id) != 0)
		return -ESRCH;
	pidfd = pidfd_open_pid(server);
	if (pidfd < 0 || proc_id_of(server, &id) < 0)
		return -ESRCH;
	if (id.start_time > s->init.start_time &&
	    !waiter_is_of(server, s->name))
		return -ESRCH;
	/* Dead, and only not waited for. */
	if (pidfd_wait(pidfd, 0) == 1)
		return -ESRCH;
	return take_fd(&pidfd);
}
