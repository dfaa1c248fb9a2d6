/*
 * What subordinate ids own can be renamed, read and removed only by root of a
 * user namespace with the same maps. Real root needs none.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "branch/internal.h"
#include "kernel/userns.h"

/* What crosses the result pipe: one write, below PIPE_BUF. */
struct outcome {
	int ret;
	struct error err;
};

struct channel {
	int read_fd, write_fd;
};
#define CHANNEL_INIT                          \
	{                                     \
		.read_fd = -1, .write_fd = -1 \
	}

static void channel_done(struct channel *c)
{
	if (c->read_fd >= 0)
		(void)close(c->read_fd);
	if (c->write_fd >= 0)
		(void)close(c->write_fd);
	*c = (struct channel)CHANNEL_INIT;
}

static int channel_open(struct channel *c)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	c->read_fd = fds[0];
	c->write_fd = fds[1];
	return 0;
}

bool branch_needs_userns(const struct branch_meta *m)
{
	return geteuid() != 0 && !idmap_is_empty(&m->idmap);
}

/* The work ends with its caller, so that killing one kills it all. */
static int run_inside(struct branch *b, pid_t caller, enter_fn *fn, void *data,
		      int out_fd, struct error *err)
{
	if (branch_needs_userns(&b->meta)) {
		int r = userns_enter(&b->meta.idmap, false, err);

		if (r < 0)
			return r;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != caller)
		return error_say(err, ERR_SYSTEM, ESRCH,
				 "the process that asked is gone");
	return fn(data, out_fd, err);
}

static _Noreturn void child_main(struct branch *b, pid_t caller, enter_fn *fn,
				 void *data, int out_fd, int result_fd)
{
	struct outcome o = { .err = ERROR_INIT };

	(void)signal(SIGPIPE, SIG_IGN);
	o.ret = run_inside(b, caller, fn, data, out_fd, &o.err);
	(void)fd_write_full(result_fd, &o, sizeof(o));
	_exit(0);
}

static int read_outcome(struct branch *b, int fd, struct error *err)
{
	struct outcome o;
	ssize_t n = fd_read_full(fd, &o, sizeof(o));

	if (n != sizeof(o))
		return error_say(err, ERR_SYSTEM, EIO,
				 "the helper for branch '%s' has died",
				 b->meta.name);
	if (o.ret < 0 && err)
		*err = o.err;
	return o.ret;
}

static void wait_for(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int branch_enter(struct branch *b, enter_fn *fn, enter_reader *reader,
		 void *data, struct error *err)
{
	auto_(channel) struct channel out = CHANNEL_INIT;
	auto_(channel) struct channel result = CHANNEL_INIT;
	pid_t caller = getpid(), pid;
	int read_ret = 0, ret;

	if (!reader && !branch_needs_userns(&b->meta))
		return fn(data, -1, err);
	ret = channel_open(&result);
	if (ret == 0 && reader)
		ret = channel_open(&out);
	pid = ret < 0 ? -1 : fork();
	if (pid < 0)
		return error_set(err, ERR_SYSTEM, ret < 0 ? -ret : errno,
				 "cannot start a helper for branch '%s'",
				 b->meta.name);
	if (pid == 0) {
		/* The caller has the only read ends, so that writing can fail.
		 */
		(void)close(result.read_fd);
		if (reader)
			(void)close(out.read_fd);
		child_main(b, caller, fn, data, out.write_fd, result.write_fd);
	}
	(void)close(take_fd(&result.write_fd));
	if (reader) {
		(void)close(take_fd(&out.write_fd));
		read_ret = reader(data, out.read_fd, err);
		/* A reader that stops early ends the writer by EPIPE. */
		(void)close(take_fd(&out.read_fd));
	}
	ret = read_outcome(b, result.read_fd, read_ret ? NULL : err);
	wait_for(pid);
	return read_ret ? read_ret : ret;
}
