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

/* In a child that shares our memory: nothing of ours is changed here. */
static int exec_waiter(const struct create *c)
{
	char pid[16];
	char *const argv[] = {
		(char *)WAITER_NAME, c->state->name, c->state->store, pid, NULL,
	};
	char *const envp[] = { NULL };
	/* It may be one of 0 to 2, which the waiter keeps. */
	/* NOLINTNEXTLINE(android-cloexec-open) */
	int null_fd = open("/dev/null", O_RDWR);

	(void)snprintf(pid, sizeof(pid), "%d", (int)c->state->init.pid);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
	    dup2(null_fd, 2) < 0 || chdir("/") < 0)
		return -errno;
	/* dup2 onto itself would keep close-on-exec. */
	if (c->pidfd == WAITER_PIDFD) {
		if (fcntl(WAITER_PIDFD, F_SETFD, 0) < 0)
			return -errno;
	} else if (dup2(c->pidfd, WAITER_PIDFD) < 0) {
		return -errno;
	}
	if (fd_cloexec_from(WAITER_PIDFD + 1) == 0)
		(void)execve(waiter_program(c->env), argv, envp);
	return -errno;
}

/*
 * Twice, so that the waiter is nobody's child but the reaper's. By vfork(2):
 * nothing is copied, we go on when the waiter is executed, and its pid or its
 * error is in our memory then.
 */
static int spawn_detached(const struct create *c, pid_t *ret)
{
	volatile pid_t waiter = 0;
	volatile int failed = 0;
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork) */
	pid_t middle = vfork();

	if (middle < 0)
		return -errno;
	if (middle == 0) {
		pid_t pid;

		(void)setsid();
		/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork) */
		pid = vfork();
		if (pid == 0)
			failed = exec_waiter(c);
		else
			waiter = pid;
		if (pid < 0)
			failed = -errno;
		_exit(0);
	}
	while (waitpid(middle, NULL, 0) < 0 && errno == EINTR)
		;
	*ret = waiter;
	return failed;
}

int waiter_spawn(struct create *c, struct error *err)
{
	pid_t pid = 0;
	int r = spawn_detached(c, &pid);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot execute '%s' as the waiter of '%s'",
				 waiter_program(c->env), c->state->name);
	return rundir_write_pids(c->slot, c->state->init.pid, pid, err);
}

int sandbox_waiter_main(int argc, char **argv)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;
	struct branch_settled settled;
	enum branch_outcome outcome;
	struct exit_status status;
	sigset_t none;
	pid_t pid;

	if (argc != 4)
		return 2;
	/* Only here: no handler of the creator's may run in its child. */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
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
		(void)branch_dispose(b, false, &outcome, NULL);
	return 0;
}
