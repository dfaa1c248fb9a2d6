/* A process of `exec` in tier C, cloned by the guard: sandbox/guard.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "kernel/pidfd.h"
#include "kernel/process.h"
#include "kernel/tty.h"
#include "sandbox/create.h"
#include "sandbox/exec.h"
#include "sandbox/guard.h"
#include "sandbox/launcher.h"
#include "sandbox/process.h"
#include "sandbox/sync.h"

/* What was asked for; borrowed from the words. */
struct wish {
	struct sandbox_exec exec;
	struct spec_strings args, env, caps;
};

static const char *const *list_of(const struct spec_strings *l)
{
	return (const char *const *)l->v;
}

static int add_word(struct wish *w, const char *key, const char *value)
{
	if (strcmp(key, "arg") == 0)
		return spec_strings_add(&w->args, value);
	if (strcmp(key, "env") == 0)
		return spec_strings_add(&w->env, value);
	if (strcmp(key, "cap") == 0)
		return spec_strings_add(&w->caps, value);
	if (strcmp(key, "cwd") == 0)
		w->exec.cwd = value;
	else if (strcmp(key, "user") == 0)
		w->exec.user = value;
	else if (strcmp(key, "terminal") == 0)
		w->exec.terminal = 1;
	else
		return -EINVAL;
	return 0;
}

static int read_words(const struct buf *b, struct wish *w)
{
	const char *at = b->data, *end = at + b->len;
	int r = 0;

	w->exec.terminal = w->exec.no_new_privs = -1;
	/* It ends in a NUL, which a buf has behind its bytes anyway. */
	while (r == 0 && at < end) {
		const char *value = at + strlen(at) + 1;

		if (value >= end)
			return -EINVAL;
		r = add_word(w, at, value);
		at = value + strlen(value) + 1;
	}
	w->exec.args = list_of(&w->args);
	w->exec.env = list_of(&w->env);
	w->exec.caps = list_of(&w->caps);
	return r;
}

static int read_wish(int fd, struct buf *b, struct wish *w, struct error *err)
{
	int r = fd_read_all(fd, LIMIT_SETTINGS_BYTES, b);

	if (r >= 0)
		r = read_words(b, w);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot read what is to be executed")
		     : 0;
}

/* It has the rights of whoever runs the sandbox, as the supervisor has. */
static int check_user(const struct create *c, const struct spec_process *p,
		      struct error *err)
{
	const struct spec_process *own = &c->plan->spec->process;

	if (p->uid == own->uid && p->gid == own->gid)
		return 0;
	return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
			 "--user cannot be had without namespaces");
}

static int open_console(const struct create *c, const struct spec_process *p,
			int sock, struct error *err)
{
	auto_close int master_fd = -1;
	auto_close int slave_fd = -1;
	int r;

	if (!p->terminal)
		return 0;
	r = tty_open_host_pair(p->console_width, p->console_height, &master_fd,
			       &slave_fd, err);
	return r < 0 ? r
		     : sync_hand_terminal(sock, -1, master_fd, slave_fd,
					  c->plan->spec->process.uid, err);
}

/*
 * Passes the listener on, whose number the process says, from the table that
 * we share; or ends with the process.
 */
static void __attribute__((noreturn))
courier_main(int sock, int tell_fd, int pidfd, pid_t pid)
{
	struct launcher_listener said = { .fd = (int)pid };
	struct pollfd p[] = {
		{ .fd = tell_fd, .events = POLLIN },
		{ .fd = pidfd, .events = POLLIN },
	};
	int fd;

	while (poll(p, ARRAY_LEN(p), -1) < 0 && errno == EINTR)
		;
	if ((p[0].revents & POLLIN) &&
	    read(tell_fd, &fd, sizeof(fd)) == sizeof(fd))
		(void)fd_send(sock, &said, sizeof(said), &fd, 1);
	_exit(0);
}

/* Not our child: it would be the program's then. */
static int start_courier(int sock, int *ret_tell_fd, struct error *err)
{
	pid_t pid = getpid(), courier = -1;
	int pidfd = pidfd_open_pid(pid);
	int tell[2];

	if (pidfd >= 0 && pipe2(tell, O_CLOEXEC) == 0)
		courier = guard_clone(CLONE_PARENT | CLONE_FILES);
	if (courier == 0)
		courier_main(sock, tell[0], pidfd, pid);
	if (courier < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot start the process");
	*ret_tell_fd = tell[1];
	return 0;
}

static int take_stdio(int fds[JOIN_FDS])
{
	/* The guard has none of its own: any of these may be in the way. */
	for (int i = 0; i < JOIN_FDS; i++)
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, JOIN_FDS);
	for (int i = 0; i < 3; i++)
		if (fds[JOIN_IN + i] < 0 || dup2(fds[JOIN_IN + i], i) < 0)
			return -errno;
	return 0;
}

static void __attribute__((noreturn))
guest_main(struct create *c, int socket_fd, int fds[JOIN_FDS])
{
	int sock = fcntl(socket_fd, F_DUPFD_CLOEXEC, JOIN_FDS);
	auto_(buf) struct buf words = BUF_INIT;
	const struct plan *p = c->plan;
	struct error err = ERROR_INIT;
	struct spec_process *process;
	struct wish w = { .exec.cwd = NULL };
	struct process_setup s = {
		.spec = p->spec,
		.filter_fd = -1,
		.launcher_fd = -1,
		.proc_fd = -1,
		.looks_late = true,
		.paths = p->paths,
		.n_paths = p->n_paths,
		.log = c->env->log,
	};
	int tell_fd = -1;

	process_reset_signals(&c->original_mask);
	if (sock < 0 || take_stdio(fds) < 0)
		_exit(1);
	if (fd_close_others(3, (int[]){ sock, fds[JOIN_WORDS] }, 2) < 0 ||
	    sync_send_pid(sock) < 0)
		_exit(1);
	if (read_wish(fds[JOIN_WORDS], &words, &w, &err) < 0 ||
	    exec_process_spec(&w.exec, p->spec, true, &process, &err) < 0 ||
	    check_user(c, process, &err) < 0)
		guard_die(sock, &err);
	(void)setsid();
	if (open_console(c, process, sock, &err) < 0 ||
	    start_courier(sock, &tell_fd, &err) < 0)
		guard_die(sock, &err);
	s.process = process;
	s.cwd_is_wish = p->cwd_is_wish && !w.exec.cwd;
	guard_prepare(c, &s, sock);
	guard_execute(c, &s, sock, tell_fd);
}

static void close_all(int fds[JOIN_FDS], size_t n)
{
	for (size_t i = 0; i < n; i++)
		cleanup_close(&fds[i]);
}

/* It was sent before the socket was. */
static int read_request(int sock, struct join_request *ret, int fds[JOIN_FDS])
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	size_t n_fds = JOIN_FDS;
	ssize_t n = poll(&p, 1, 0) == 1
			    ? fd_recv(sock, ret, sizeof(*ret), fds, &n_fds)
			    : 0;

	if (n == sizeof(*ret) && n_fds == JOIN_FDS &&
	    ret->magic == JOIN_MAGIC && ret->version == JOIN_VERSION)
		return 0;
	if (n > 0)
		close_all(fds, n_fds);
	return -EPROTO;
}

int guest_begin(struct create *c, int sock_fd, struct guest *ret)
{
	auto_close int sock = sock_fd;
	struct join_request q;
	int fds[JOIN_FDS];
	pid_t pid;
	int r = read_request(sock, &q, fds);

	if (r < 0)
		return r;
	pid = guard_clone(SIGCHLD);
	if (pid == 0)
		guest_main(c, sock, fds);
	r = pid < 0 ? -errno : 0;
	*ret = (struct guest){ pid, -1 };
	if (r == 0 && !q.is_detached)
		ret->status_fd = take_fd(&fds[JOIN_STATUS]);
	close_all(fds, JOIN_FDS);
	return r;
}
