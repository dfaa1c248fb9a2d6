#include "hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/uapi.h"
#include "kernel/interrupt.h"
#include "kernel/pidfd.h"
#include "kernel/process.h"

enum {
	TAIL_MAX = 400,	       /* bytes of standard error in a message */
	DRAIN_MAX = 64 * 1024, /* what is read of it after the end: a pipe */
	KILL_WAIT_MS = 5000,   /* how long a killed hook may take to be gone */
};

/* What the child uses; nothing is allocated between fork and exec. */
struct plan {
	const struct spec_hook *hook;
	const char *cwd;
	char *const *argv;
	char *const *envp;
	int in_fd, out_fd, err_fd, status_fd;
};

/* The last bytes of standard error. */
struct tail {
	char data[TAIL_MAX];
	size_t len;
};

/* Why the child could not execute the hook. */
struct failure {
	int sys;
	bool in_chdir;
};

struct run {
	pid_t pid;
	int pid_fd;
	int err_fd; /* -1 after its end */
	int status_fd;
	bool timed_out;
	int interrupted; /* by this signal, or 0 */
	struct tail tail;
	struct failure failure;
	struct exit_status status;
};

#define RUN_INIT                                             \
	{                                                    \
		.pid_fd = -1, .err_fd = -1, .status_fd = -1, \
	}

static void run_done(struct run *r)
{
	cleanup_close(&r->pid_fd);
	cleanup_close(&r->err_fd);
	cleanup_close(&r->status_fd);
}

static const char *point_name(enum spec_hook_point point)
{
	return spec_hook_name(point);
}

/*
 * The state as a file of its own for each hook: one that does not read it
 * blocks nobody and breaks no pipe, and none can change it for the next.
 */
static int open_state(const struct hook_context *ctx, int *ret_fd)
{
	auto_close int fd =
		memfd_create("hook-state", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	int r;

	if (fd < 0 && errno == EINVAL) /* before 6.3 */
		fd = memfd_create("hook-state", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, ctx->state, ctx->state_len);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* In a container /dev/null is what the image made of it. */
static int open_null(void)
{
	auto_close int fd =
		open("/dev/null", O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd >= 0 && fd_is_null_device(fd) ? take_fd(&fd) : -1;
}

/* Moves an fd out of the way of 0, 1 and 2. */
static int move_up(int *fd)
{
	int up;

	if (*fd > STDERR_FILENO)
		return 0;
	up = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (up < 0)
		return -errno;
	(void)close(*fd);
	*fd = up;
	return 0;
}

__attribute__((noreturn)) static void child_fail(int status_fd, bool in_chdir)
{
	struct failure f = { .sys = errno, .in_chdir = in_chdir };

	(void)!write(status_fd, &f, sizeof(f));
	_exit(127);
}

/* Only what is async-signal-safe: other threads may have held any lock. */
__attribute__((noreturn)) static void run_child(const struct plan *p)
{
	sigset_t none;

	(void)setpgid(0, 0);
	(void)sigemptyset(&none);
	process_reset_signals(&none);
	if (dup2(p->in_fd, STDIN_FILENO) < 0 ||
	    dup2(p->out_fd, STDOUT_FILENO) < 0 ||
	    dup2(p->err_fd, STDERR_FILENO) < 0)
		child_fail(p->status_fd, false);
	if (p->cwd && chdir(p->cwd) < 0)
		child_fail(p->status_fd, true);
	(void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0U,
		      CLOSE_RANGE_CLOEXEC);
	(void)execve(p->hook->path, p->argv, p->envp);
	child_fail(p->status_fd, false);
}

/*
 * clone(2) for its pidfd: with SIGCHLD ignored, or a thread that waits for any
 * child, the pid could be somebody else's before pidfd_open(2). Not clone3,
 * which the filter of a container may refuse.
 */
static pid_t fork_with_pidfd(int *ret_fd)
{
	unsigned long flags = CLONE_PIDFD | SIGCHLD;

#if defined(__s390x__) || defined(__s390__)
	return (pid_t)syscall(SYS_clone, 0, flags, ret_fd, NULL, 0);
#else
	return (pid_t)syscall(SYS_clone, flags, 0, ret_fd, NULL, 0);
#endif
}

static int start_child(struct run *r, const struct plan *p)
{
	sigset_t all, old;
	pid_t pid;
	int e;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork_with_pidfd(&r->pid_fd);
	if (pid == 0)
		run_child(p);
	e = errno;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return -e;
	/* Here too: the timeout must not come before the child's own call. */
	(void)setpgid(pid, pid);
	r->pid = pid;
	return 0;
}

static int start(struct run *r, const struct spec_hook *hook,
		 const struct hook_context *ctx)
{
	auto_close int in_fd = -1, null_fd = open_null();
	int err[2] = { -1, -1 }, status[2] = { -1, -1 };
	char *argv[] = { hook->path, NULL };
	char *nothing[] = { NULL };
	char *const *given = hook->env.n ? hook->env.v : nothing;
	char *const *inherited = ctx->envp ? ctx->envp : environ;
	struct plan p = {
		.hook = hook,
		.cwd = ctx->cwd,
		.argv = hook->args.n ? hook->args.v : argv,
		.envp = hook->has_env ? given : inherited,
	};
	int e = open_state(ctx, &in_fd);

	if (e == 0 && (pipe2(err, O_CLOEXEC) < 0 ||
		       pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0 ||
		       fcntl(err[0], F_SETFL, O_NONBLOCK) < 0))
		e = -errno;
	r->err_fd = err[0];
	r->status_fd = status[0];
	if (e == 0)
		e = move_up(&in_fd);
	if (e == 0)
		e = move_up(&err[1]);
	if (e == 0)
		e = move_up(&status[1]);
	if (e == 0 && null_fd >= 0)
		e = move_up(&null_fd);
	p.in_fd = in_fd;
	p.out_fd = null_fd >= 0 ? null_fd : err[1];
	p.err_fd = err[1];
	p.status_fd = status[1];
	if (e == 0)
		e = start_child(r, &p);
	cleanup_close(&err[1]);
	cleanup_close(&status[1]);
	return e;
}

static void tail_add(struct tail *t, const char *data, size_t n)
{
	size_t drop;

	if (n > sizeof(t->data)) {
		data += n - sizeof(t->data);
		n = sizeof(t->data);
	}
	drop = t->len + n > sizeof(t->data) ? t->len + n - sizeof(t->data) : 0;
	memmove(t->data, t->data + drop, t->len - drop);
	memcpy(t->data + t->len - drop, data, n);
	t->len += n - drop;
}

/* Reads what is there, at most @max bytes. */
static void drain(struct run *r, size_t max)
{
	char chunk[4096];
	size_t got = 0;

	while (r->err_fd >= 0 && got < max) {
		ssize_t n = read(r->err_fd, chunk, sizeof(chunk));

		if (n > 0) {
			tail_add(&r->tail, chunk, (size_t)n);
			got += (size_t)n;
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else {
			if (n == 0 || errno != EAGAIN)
				cleanup_close(&r->err_fd), r->err_fd = -1;
			return;
		}
	}
}

/* The whole process group, and the hook itself in case it left that. */
static void kill_hook(struct run *r)
{
	(void)kill(-r->pid, SIGKILL);
	(void)pidfd_signal(r->pid_fd, SIGKILL);
	(void)pidfd_wait(r->pid_fd, KILL_WAIT_MS);
}

/*
 * Until the hook itself ends: what it started in the background may hold the
 * pipe for ever.
 */
static int wait_for_end(struct run *r, int timeout_s,
			struct interrupt *interrupt)
{
	int64_t deadline = clock_now_ms() + (int64_t)timeout_s * 1000;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = r->pid_fd, .events = POLLIN },
			{ .fd = r->err_fd, .events = POLLIN },
			{ .fd = interrupt_fd(interrupt), .events = POLLIN },
		};
		int64_t left = timeout_s ? deadline - clock_now_ms() : -1;

		if (timeout_s && left <= 0) {
			r->timed_out = true;
			kill_hook(r);
			return 0;
		}
		if (left > INT_MAX)
			left = INT_MAX;
		if (poll(fds, ARRAY_LEN(fds), (int)left) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (fds[0].revents)
			return 0;
		if (fds[2].revents)
			r->interrupted = interrupt_take(interrupt);
		if (r->interrupted) {
			kill_hook(r);
			return 0;
		}
		if (fds[1].revents)
			drain(r, sizeof(r->tail.data) * 16);
	}
}

static void finish(struct run *r)
{
	struct failure f;

	drain(r, DRAIN_MAX);
	if (read(r->status_fd, &f, sizeof(f)) == sizeof(f))
		r->failure = f;
	pidfd_exit_status(r->pid_fd, r->pid, &r->status);
}

/* ": " and the tail on one line, or nothing. */
static void add_tail(struct buf *b, struct tail *t)
{
	size_t n = t->len, start = 0;

	while (n > 0 && strchr(" \t\r\n", t->data[n - 1]))
		n--;
	while (start < n && strchr(" \t\r\n", t->data[start]))
		start++;
	if (start == n)
		return;
	buf_add_str(b, ": ");
	for (size_t i = start; i < n; i++)
		if (t->data[i] == '\n')
			t->data[i] = ' ';
	text_escape(b, t->data + start, n - start);
}

static void describe_signal(struct buf *b, const char *what, int sig)
{
	const char *name = spec_signal_name(sig);

	buf_printf(b, "was %s by signal %d%s%s", what, sig, name ? ", SIG" : "",
		   name ? name : "");
}

static void describe_end(struct buf *b, const struct run *r,
			 const struct spec_hook *hook)
{
	if (r->interrupted) {
		describe_signal(b, "interrupted", r->interrupted);
		return;
	}
	if (r->timed_out) {
		buf_printf(b, "did not end within its timeout of %d s",
			   hook->timeout_s);
		return;
	}
	switch (r->status.kind) {
	case EXIT_CODE:
		buf_printf(b, "exited with status %d", r->status.value);
		break;
	case EXIT_SIGNAL:
		describe_signal(b, "killed", r->status.value);
		break;
	case EXIT_UNKNOWN:
	case EXIT_TIMEOUT:
	case EXIT_QUOTA:
		buf_add_str(b, "ended with an unknown status");
		break;
	}
}

static int judge(struct run *r, const struct spec_hook *hook,
		 const struct hook_context *ctx, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;

	if (r->failure.sys && r->failure.in_chdir)
		return error_set(err, ERR_HOOK, r->failure.sys,
				 "cannot enter '%s'", ctx->cwd);
	if (r->failure.sys)
		return error_set(err, ERR_HOOK, r->failure.sys,
				 "cannot execute '%s'", hook->path);
	if (!r->timed_out && !r->interrupted && r->status.kind == EXIT_CODE &&
	    r->status.value == 0)
		return 0;
	describe_end(&b, r, hook);
	add_tail(&b, &r->tail);
	return error_say(err, ERR_HOOK, r->timed_out ? ETIMEDOUT : ECANCELED,
			 "'%s' %s", hook->path, buf_str(&b));
}

static int run_hook(const struct spec_hook *hook,
		    const struct hook_context *ctx, struct error *err)
{
	auto_(run) struct run r = RUN_INIT;
	int e = start(&r, hook, ctx);

	if (e < 0)
		return error_set(err, ERR_HOOK, -e, "cannot start '%s'",
				 hook->path);
	e = wait_for_end(&r, hook->timeout_s, ctx->interrupt);
	if (e < 0) {
		kill_hook(&r);
		finish(&r);
		return error_set(err, ERR_HOOK, -e, "cannot wait for '%s'",
				 hook->path);
	}
	finish(&r);
	return judge(&r, hook, ctx, err);
}

int hooks_run(const struct spec_hooks *hooks, enum spec_hook_point point,
	      const struct hook_context *ctx, struct error *err)
{
	struct error own = ERROR_INIT;
	struct error *e = err ? err : &own;

	for (size_t i = 0; i < hooks->n[point]; i++) {
		if (point == SPEC_HOOK_POSTSTOP)
			e = &own;
		log_debug(ctx->log, "running %s hook #%zu: '%s'",
			  point_name(point), i, hooks->v[point][i].path);
		if (run_hook(&hooks->v[point][i], ctx, e) == 0)
			continue;
		(void)error_wrap(e, "error running %s hook #%zu",
				 point_name(point), i);
		if (point != SPEC_HOOK_POSTSTOP)
			return error_code(e);
		log_warn(ctx->log, "%s", e->msg);
	}
	return 0;
}
