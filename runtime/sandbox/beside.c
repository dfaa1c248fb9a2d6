#include "sandbox/beside.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/pidfd.h"
#include "kernel/process.h"
#include "sandbox/launcher.h"
#include "sandbox/process.h"
#include "sandbox/sync.h"
#include "spec/spec.h"

union word {
	int sys; /* the launcher did not come to its clone */
	struct launcher_beside clone;
	struct {
		char header[8];
		struct error error; /* nor to the launcher */
	} message;
};

/*
 * What the maker says. Its clone has the same socket, and somebody inside may
 * have that say anything: the kernel tells who was it.
 */
static ssize_t hear_maker(const struct beside *b, union word *to)
{
	struct pollfd p[] = { { .fd = b->sync_fd, .events = POLLIN },
			      { .fd = b->pidfd, .events = POLLIN } };
	pid_t sender;
	ssize_t got;
	int fd;

	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		got = sync_recv_from(b->sync_fd, to, sizeof(*to), &sender, &fd,
				     MSG_DONTWAIT);
		cleanup_close(&fd);
		if (got == 0 || (got > 0 && sender == b->pid))
			return got;
		if (got < 0 && got != -EAGAIN && got != -EINTR)
			return got == -ECONNRESET ? 0 : got;
		/* What it has said is there before its end is. */
		if (got == -EAGAIN && p[1].revents)
			return 0;
	}
}

static int take_clone(struct beside *b, pid_t pid, struct error *err)
{
	while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
		;
	cleanup_close(&b->pidfd);
	b->pid = pid;
	b->pidfd = pidfd_open_pid(pid);
	if (b->pidfd < 0)
		return error_set(err, ERR_SYSTEM, -b->pidfd,
				 "cannot open the process");
	return process_set_scheduler(pid, &b->process->scheduler, err);
}

int beside_follow(struct beside *b, struct error *err)
{
	union word said = { .sys = 0 };
	ssize_t n;
	int r = sync_want_sender(b->sync_fd);

	if (r == 0)
		r = sync_send(b->sync_fd, SYNC_GO, 0);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot start");
	n = hear_maker(b, &said);
	if (n == sizeof(said.message))
		return sync_take_error(&said.message.error,
				       sizeof(said.message.error), err);
	if (n == sizeof(said.sys))
		return process_exec_error(b->process->args.v[0], said.sys, err);
	if (n != sizeof(said.clone))
		return error_set(err, ERR_SYSTEM, n < 0 ? (int)-n : ECHILD,
				 "the process ended while it was made");
	if (!said.clone.sys)
		return take_clone(b, said.clone.pid, err);
	(void)error_set(err, ERR_SYSTEM, said.clone.sys,
			"cannot clone a process into '%s'", b->name);
	if (said.clone.sys == EAGAIN)
		return error_hint(err, "it takes room for two processes for a "
				       "moment: raise RLIMIT_NPROC of "
				       "process.rlimits, or pids.limit");
	if (said.clone.sys == ENOMEM)
		return error_hint(err, "has its pid namespace ended? Nobody "
				       "enters one whose first process has");
	return error_hint(err, "somebody inside may have CAP_SYS_PTRACE: there "
			       "the seccomp filter comes first, and has to "
			       "allow clone and setsid");
}
