/* exec's process where somebody inside may look into all of them. */
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "control/rundir.h"
#include "kernel/process.h"
#include "sandbox/exec.h"
#include "sandbox/launcher.h"
#include "sandbox/lookup.h"
#include "sandbox/process.h"
#include "sandbox/sync.h"
#include "spec/spec.h"

/* In the runtime directory: an earlier exec has added CAP_SYS_PTRACE. */
static const char tracer_file[] = "tracer";

/* What a program of root's gets when it is executed is the bounding set. */
static bool may_trace(const struct spec_process *p)
{
	return (p->caps.permitted | p->caps.bounding) &
	       UINT64_C(1) << CAP_SYS_PTRACE;
}

int exec_decide_beside(struct exec *e, struct error *err)
{
	const struct spec *s = e->spec;
	int slot_fd = rundir_slot_fd(e->found->slot);

	/* Below a user namespace nobody may look into what is from above, and
	 * who sees the host's processes may look into ours anyway. */
	if (!(e->namespaces & CLONE_NEWPID) || (e->namespaces & CLONE_NEWUSER))
		return 0;
	/* Others' payloads may be in one that was joined. */
	e->beside = may_trace(&s->process) ||
		    s->ns[SPEC_NS_PID].want != SPEC_NS_NEW ||
		    faccessat(slot_fd, tracer_file, F_OK, 0) == 0;
	if (may_trace(e->process) && !may_trace(&s->process)) {
		auto_close int fd =
			openat(slot_fd, tracer_file,
			       O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot note that '%s' has "
					 "CAP_SYS_PTRACE",
					 e->found->state->name);
	}
	return 0;
}

/*
 * What the helper says. Its clone has the same socket, and somebody inside may
 * have that say anything: the kernel tells who was it.
 */
static ssize_t hear_helper(struct exec *e, void *to, size_t n)
{
	struct pollfd p[] = { { .fd = e->sync_fd, .events = POLLIN },
			      { .fd = e->pidfd, .events = POLLIN } };
	pid_t sender;
	ssize_t got;
	int fd;

	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		got = sync_recv_from(e->sync_fd, to, n, &sender, &fd,
				     MSG_DONTWAIT);
		cleanup_close(&fd);
		if (got == 0 || (got > 0 && sender == e->pid))
			return got;
		if (got < 0 && got != -EAGAIN && got != -EINTR)
			return got == -ECONNRESET ? 0 : got;
		/* What it has said is there before its end is. */
		if (got == -EAGAIN && p[1].revents)
			return 0;
	}
}

static int take_clone(struct exec *e, pid_t pid, struct error *err)
{
	while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
		;
	cleanup_close(&e->pidfd);
	e->pid = pid;
	e->pidfd = pidfd_open_pid(pid);
	if (e->pidfd < 0)
		return error_set(err, ERR_SYSTEM, -e->pidfd,
				 "cannot open the process");
	return process_set_scheduler(pid, &e->process->scheduler, err);
}

int exec_follow_beside(struct exec *e, struct error *err)
{
	struct launcher_beside said = { 0 };
	ssize_t n;
	int r = sync_want_sender(e->sync_fd);

	if (r == 0)
		r = sync_send(e->sync_fd, SYNC_GO, 0);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot start");
	n = hear_helper(e, &said, sizeof(said));
	if (n == sizeof(said.sys))
		return process_exec_error(e->process->args.v[0], said.sys, err);
	if (n != sizeof(said))
		return error_set(err, ERR_SYSTEM, n < 0 ? (int)-n : ECHILD,
				 "the process ended while it was made");
	if (!said.sys)
		return take_clone(e, said.pid, err);
	(void)error_set(err, ERR_SYSTEM, said.sys,
			"cannot clone a process into '%s'",
			e->found->state->name);
	if (said.sys == EAGAIN)
		return error_hint(err, "it takes room for two processes for a "
				       "moment: raise RLIMIT_NPROC of "
				       "process.rlimits, or pids.limit");
	return error_hint(err, "somebody inside has CAP_SYS_PTRACE: there the "
			       "seccomp filter comes first, and has to allow "
			       "clone and setsid");
}
