#include "sandbox/waiter.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/uapi.h"
#include "sandbox/create.h"

/* The waiter's fds: its pidfd, and nothing else but /dev/null. */
enum { WAITER_PIDFD = 3 };

static const char *waiter_program(const struct sandbox_env *env)
{
	return env->program ? env->program : "/proc/self/exe";
}

static void __attribute__((noreturn)) exec_waiter(struct create *c)
{
	char pid[16];
	char *const argv[] = {
		(char *)WAITER_NAME, c->state->name, c->state->store, pid, NULL,
	};
	char *const envp[] = { NULL };
	sigset_t none;
	/* It may be one of 0 to 2, which the waiter keeps. */
	/* NOLINTNEXTLINE(android-cloexec-open) */
	int null_fd = open("/dev/null", O_RDWR);

	(void)snprintf(pid, sizeof(pid), "%d", (int)c->state->init.pid);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
	    dup2(null_fd, 2) < 0 || chdir("/") < 0)
		_exit(1);
	/* dup2 onto itself would keep close-on-exec. */
	if (c->pidfd == WAITER_PIDFD) {
		if (fcntl(WAITER_PIDFD, F_SETFD, 0) < 0)
			_exit(1);
	} else if (dup2(c->pidfd, WAITER_PIDFD) < 0) {
		_exit(1);
	}
	if (fd_cloexec_from(WAITER_PIDFD + 1) < 0)
		_exit(1);
	(void)execve(waiter_program(c->env), argv, envp);
	_exit(1);
}

/*
 * Forks twice, so that the waiter is nobody's child but the reaper's; the pid
 * comes through a pipe, whose end also tells that the exec went well.
 */
static int spawn_detached(struct create *c, pid_t *ret)
{
	auto_close int in_fd = -1;
	auto_close int out_fd = -1;
	pid_t middle, waiter = 0;
	int pair[2], extra, r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	in_fd = pair[0];
	out_fd = pair[1];
	middle = fork();
	if (middle < 0)
		return -errno;
	if (middle == 0) {
		(void)setsid();
		waiter = fork();
		if (waiter == 0)
			exec_waiter(c);
		_exit(waiter < 0 ||
		      fd_write_full(out_fd, &waiter, sizeof(waiter)) < 0);
	}
	cleanup_close(&out_fd);
	out_fd = -1;
	while (waitpid(middle, NULL, 0) < 0 && errno == EINTR)
		;
	r = (int)fd_read_full(in_fd, &waiter, sizeof(waiter));
	if (r != sizeof(waiter))
		return r < 0 ? r : -ECHILD;
	/* Blocks until the exec closed the other end. */
	r = (int)fd_read_full(in_fd, &extra, sizeof(extra));
	if (r < 0)
		return r;
	*ret = waiter;
	return 0;
}

int waiter_spawn(struct create *c, struct error *err)
{
	pid_t pid = 0;
	int r = spawn_detached(c, &pid);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot start the waiter of '%s'",
				 c->state->name);
	if (kill(pid, 0) < 0)
		return error_say(err, ERR_SYSTEM, ECHILD,
				 "the waiter of '%s' ended: cannot execute "
				 "'%s'",
				 c->state->name, waiter_program(c->env));
	return rundir_write_pids(c->slot, c->state->init.pid, pid, err);
}

int sandbox_waiter_main(int argc, char **argv)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;
	struct branch_settled settled;
	enum branch_outcome outcome;
	struct exit_status status;
	pid_t pid;

	if (argc != 4)
		return 2;
	pid = (pid_t)strtol(argv[3], NULL, 10);
	if (pid <= 0 || pidfd_wait(WAITER_PIDFD, -1) < 0)
		return 1;
	pidfd_exit_status(WAITER_PIDFD, pid, &status);
	if (store_open(argv[2], NULL, &st, NULL) < 0 ||
	    branch_find(st, argv[1], &b, NULL) < 0)
		return 1;
	if (branch_settle(b, &status, false, &settled, NULL) < 0)
		return 1;
	if (!settled.gone)
		(void)branch_dispose(b, &outcome, NULL);
	return 0;
}
