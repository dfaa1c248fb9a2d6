#include "sandbox/rootfs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/uapi.h"
#include "kernel/userns.h"

/*
 * A child that is born in the new user namespace and stays until the other
 * end of @pipe_fds is closed. No signal when it ends: the caller may be a
 * library in somebody's program.
 */
static pid_t keep_userns(const int pipe_fds[2], int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
	};
	char c;
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)close(pipe_fds[1]);
		while (read(pipe_fds[0], &c, 1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	*ret_pidfd = pidfd;
	return pid;
}

static int open_userns(pid_t pid, const struct idmap *m, int *ret_fd,
		       struct error *err)
{
	char path[48];
	int fd, n = userns_write_maps(pid, m, err);

	if (n < 0)
		return n;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 path);
	*ret_fd = fd;
	return 0;
}

int rootfs_idmap_fd(const struct idmap *m, int *ret_fd, struct error *err)
{
	auto_close int pidfd = -1;
	int pipe_fds[2];
	siginfo_t info;
	pid_t pid;
	int n;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return error_set(err, ERR_SYSTEM, errno, "idmapped mount");
	pid = keep_userns(pipe_fds, &pidfd);
	if (pid < 0)
		n = error_set(
			err, ERR_SYSTEM, -pid,
			"cannot make a user namespace for an idmapped mount");
	else
		n = open_userns(pid, m, ret_fd, err);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
	while (pid > 0 &&
	       waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) < 0 &&
	       errno == EINTR)
		;
	return n;
}
