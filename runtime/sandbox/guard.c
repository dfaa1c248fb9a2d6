/*
 * The guard of tier C: what pid 1 is in tier A, where no pid namespace holds
 * the processes of a sandbox together.
 *
 *	run (supervisor, their subreaper)
 *	  |- guard	in a Landlock domain that restricts signals alone
 *	  |    `- payload and all that descends from it, in domains below that
 *	  `- standby	in the guard's domain
 *
 * A process can be signalled from its own domain and from those above it. So
 * nothing inside can reach guard or standby, whatever its user, and kill(-1) of
 * either reaches everything inside, setsid or not, at once, and nobody else:
 * the kernel lets no fork slip through. When the payload has ended the guard
 * kills what is left, reaps it and ends as the payload did. When the guard is
 * killed (a timeout, `kill`, the death of the run, which it is told of by the
 * kernel) the standby sees the end of a pipe and does the same.
 *
 * The guard shares its table of descriptors with the payload's process until
 * that executes: so it can pass the listener of the filter on, which the
 * payload could not any more, and for which nobody needs the right to trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "kernel/cgroup.h"
#include "kernel/landlock.h"
#include "kernel/process.h"
#include "kernel/tty.h"
#include "sandbox/create.h"
#include "sandbox/guard.h"
#include "sandbox/launcher.h"
#include "sandbox/process.h"
#include "sandbox/sync.h"

enum { GUESTS_MAX = 256 };

struct guard {
	struct create *c;
	pid_t payload;
	int signal_fd;
	int life[2]; /* its end tells the standby of ours */
	int tell[2]; /* the payload's process says the number of its listener */
	struct guest guests[GUESTS_MAX]; /* of exec; pid 0: none */
};

void guard_die(int sock, const struct error *err)
{
	(void)sync_send_data(sock, SYNC_ERROR, err, sizeof(*err));
	_exit(1);
}

/* ------------------------------------------------------------- payload -- */

/* As write and read, which may be handled: launcher/main.c. */
static ssize_t put(const struct create *c, int fd, void *data, size_t n)
{
	const struct iovec iov = { .iov_base = data, .iov_len = n };

	return c->filter.traps_io ? pwritev2(fd, &iov, 1, -1, 0)
				  : write(fd, data, n);
}

static ssize_t get(const struct create *c, int fd, void *data, size_t n)
{
	const struct iovec iov = { .iov_base = data, .iov_len = n };

	return c->filter.traps_io ? preadv2(fd, &iov, 1, -1, 0)
				  : read(fd, data, n);
}

/* As guard_die; nothing of ours may send a message any more. */
static void __attribute__((noreturn))
die_filtered(const struct create *c, int sock, const struct error *err)
{
	struct {
		uint32_t type;
		int32_t value;
		struct error error;
	} packet = { .type = SYNC_ERROR, .error = *err };

	(void)!put(c, sock, &packet, sizeof(packet));
	_exit(126);
}

/* Only calls that no policy traps, from the filter to the byte. */
void guard_execute(const struct create *c, struct process_setup *s, int sock,
		   int tell_fd)
{
	struct error err = ERROR_INIT;
	int sys, fd = seccomp_program_load(&c->filter, &err);
	char byte;

	if (fd < 0)
		guard_die(sock, &err);
	if (put(c, tell_fd, &fd, sizeof(fd)) != sizeof(fd) ||
	    get(c, sock, &byte, 1) != 1)
		_exit(126);
	if (s->looks_late && process_look(s, &err) < 0)
		die_filtered(c, sock, &err);
	(void)execve(s->program, s->process->args.v, s->env);
	sys = errno;
	(void)!put(c, sock, &sys, sizeof(sys));
	_exit(sys == ENOENT || sys == ENOTDIR ? 127 : 126);
}

void guard_prepare(const struct create *c, struct process_setup *s, int sock)
{
	struct error err = ERROR_INIT;
	char keyring[300];

	(void)snprintf(keyring, sizeof(keyring), "_ses.%s", c->plan->name);
	s->keyring = keyring;
	if (process_enter(s, &err) < 0 || process_prepare(s, &err) < 0)
		guard_die(sock, &err);
	s->keyring = NULL;
	/* After the change of identity, which takes it back. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
		(void)error_set(&err, ERR_SYSTEM, errno,
				"cannot tie the payload to its guard");
		guard_die(sock, &err);
	}
	if (sync_send(sock, SYNC_READY, 0) < 0 ||
	    sync_expect(sock, SYNC_GO) < 0 ||
	    fd_cloexec_from(3 + c->bundle->preserve_fds) < 0)
		_exit(1);
}

static void __attribute__((noreturn)) payload_main(struct guard *g)
{
	struct create *c = g->c;
	const struct plan *p = c->plan;
	struct process_setup s = {
		.process = &p->spec->process,
		.spec = p->spec,
		.filter_fd = -1,
		.launcher_fd = -1,
		.proc_fd = -1,
		.cwd_is_wish = p->cwd_is_wish,
		/* An earlier stage may have made them, in the branch. */
		.looks_late = c->command && c->command->join,
		.paths = p->paths,
		.n_paths = p->n_paths,
		.log = c->env->log,
	};

	tty_make_job();
	process_reset_signals(&c->original_mask);
	guard_prepare(c, &s, c->child_sync_fd);
	guard_execute(c, &s, c->child_sync_fd, g->tell[1]);
}

/* --------------------------------------------------------------- guard -- */

static void __attribute__((noreturn)) standby_main(struct guard *g)
{
	int keep[] = { g->life[0] };
	char byte;

	if (fd_close_others(0, keep, 1) == 0)
		while (read(g->life[0], &byte, 1) < 0 && errno == EINTR)
			;
	(void)kill(-1, SIGKILL);
	_exit(0);
}

pid_t guard_clone(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
}

/* As the payload did, so that whoever waits for us sees it. */
static void __attribute__((noreturn)) end_as(int status)
{
	const struct sigaction dflt = { .sa_handler = SIG_DFL };
	const struct rlimit none = { 0, 0 };
	sigset_t set;

	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)sigaction(WTERMSIG(status), &dflt, NULL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, WTERMSIG(status));
	(void)kill(getpid(), WTERMSIG(status));
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + WTERMSIG(status));
}

static void tell_end(struct guard *g, pid_t pid, int status)
{
	for (size_t i = 0; i < GUESTS_MAX; i++) {
		struct guest *x = &g->guests[i];

		if (x->pid != pid)
			continue;
		if (x->status_fd >= 0)
			(void)fd_send(x->status_fd, &status, sizeof(status),
				      NULL, 0);
		cleanup_close(&x->status_fd);
		*x = (struct guest){ 0, -1 };
	}
}

static void reap(struct guard *g)
{
	int status, ended = 0;
	bool has_ended = false;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == g->payload) {
			has_ended = true;
			ended = status;
		} else {
			tell_end(g, pid, status);
		}
	if (!has_ended)
		return;
	(void)kill(-1, SIGKILL);
	/* Orphans are ours, so this ends when nothing is left. */
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	end_as(ended);
}

/* As unshare(CLONE_FILES), which filters of containers do not allow. */
static int unshare_files(void)
{
	return (int)syscall(SYS_close_range, ~0U, ~0U, CLOSE_RANGE_UNSHARE);
}

/*
 * Passes the listener on. From here on we hold nothing of what the payload has:
 * readers of its output see its end.
 */
static void pass_listener(struct guard *g)
{
	struct launcher_listener said = { .fd = (int)g->payload };
	int keep[] = { g->signal_fd, g->life[1], g->c->child_join_fd };
	int fd;

	if (read(g->tell[0], &fd, sizeof(fd)) != sizeof(fd) ||
	    fd_send(g->c->child_sync_fd, &said, sizeof(said), &fd, 1) < 0 ||
	    unshare_files() < 0 ||
	    fd_close_others(0, keep, ARRAY_LEN(keep)) < 0)
		_exit(1);
	g->tell[0] = -1;
}

/* As pid 1 does it: launcher/main.c. */
static void forward(struct guard *g)
{
	struct signalfd_siginfo si;

	if (read(g->signal_fd, &si, sizeof(si)) != sizeof(si))
		return;
	reap(g);
	if (si.ssi_signo != SIGCHLD &&
	    (si.ssi_code != SI_KERNEL || si.ssi_signo == SIGHUP))
		(void)kill(g->payload, (int)si.ssi_signo);
}

/* One of exec's, once the payload has its listener. */
static void take_guest(struct guard *g)
{
	struct guest *x = g->guests;
	size_t n_fds = 1;
	char byte;
	int sock;
	ssize_t n = fd_recv(g->c->child_join_fd, &byte, 1, &sock, &n_fds);

	/* The supervisor is at its end. */
	if (n <= 0) {
		cleanup_close(&g->c->child_join_fd);
		g->c->child_join_fd = -1;
	}
	if (n <= 0 || n_fds != 1)
		return;
	while (x < g->guests + GUESTS_MAX && x->pid)
		x++;
	if (x == g->guests + GUESTS_MAX)
		(void)close(sock);
	else if (guest_begin(g->c, sock, x) < 0)
		*x = (struct guest){ 0, -1 };
}

/* Whoever waited for it is gone. */
static void end_guest(struct guest *x)
{
	(void)kill(x->pid, SIGKILL);
	cleanup_close(&x->status_fd);
	x->status_fd = -1;
}

enum { POLL_SIGNAL, POLL_TELL, POLL_JOIN, POLL_GUESTS };

/* Those that somebody waits for; poll(2) takes no more than RLIMIT_NOFILE. */
static size_t add_guests(struct guard *g, struct pollfd *p, struct guest **who)
{
	size_t n = 0;

	for (size_t i = 0; i < GUESTS_MAX; i++) {
		if (g->guests[i].status_fd < 0)
			continue;
		p[n] = (struct pollfd){ g->guests[i].status_fd, 0, 0 };
		who[n++] = &g->guests[i];
	}
	return n;
}

static void __attribute__((noreturn)) serve(struct guard *g)
{
	struct pollfd p[POLL_GUESTS + GUESTS_MAX];
	struct guest *who[GUESTS_MAX];
	size_t n;

	for (;;) {
		int join = g->tell[0] < 0 ? g->c->child_join_fd : -1;

		p[POLL_SIGNAL] = (struct pollfd){ g->signal_fd, POLLIN, 0 };
		p[POLL_TELL] = (struct pollfd){ g->tell[0], POLLIN, 0 };
		p[POLL_JOIN] = (struct pollfd){ join, POLLIN, 0 };
		n = add_guests(g, p + POLL_GUESTS, who);
		if (poll(p, POLL_GUESTS + n, -1) < 0)
			continue;
		for (size_t i = 0; i < n; i++)
			if (p[POLL_GUESTS + i].revents)
				end_guest(who[i]);
		if (p[POLL_TELL].revents & POLLIN)
			pass_listener(g);
		if (p[POLL_JOIN].revents)
			take_guest(g);
		if (p[POLL_SIGNAL].revents & POLLIN)
			forward(g);
	}
}

static bool is_hung_up(int sock)
{
	struct pollfd p = { .fd = sock };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

/* Ours and what follows: nothing of the host's stays open. */
static int set_up(struct guard *g, struct error *err)
{
	struct create *c = g->c;
	int keep[] = { c->child_sync_fd, c->child_join_fd };
	int r = 0;

	if (c->state->cgroup)
		r = cgroup_child_join(
			c->state->cgroup,
			cgroup_membership_fd(c->state->cgroup) >= 0, err);
	if (r < 0)
		return r;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot hold the processes together");
	/* No signal comes for a parent that was killed before. */
	if (is_hung_up(c->child_sync_fd))
		_exit(1);
	if (setsid() < 0 && errno != EPERM)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a session");
	r = init_console(c, err);
	if (r == 0)
		r = fd_close_others(3 + c->bundle->preserve_fds, keep,
				    ARRAY_LEN(keep));
	if (r < 0)
		return r;
	return landlock_scope_signals(err);
}

static int start(struct guard *g, struct error *err)
{
	sigset_t all;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	g->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (g->signal_fd < 0 || pipe2(g->life, O_CLOEXEC) < 0 ||
	    pipe2(g->tell, O_CLOEXEC) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot make a pipe");
	pid = guard_clone(CLONE_PARENT);
	if (pid == 0)
		standby_main(g);
	if (pid > 0)
		pid = guard_clone(CLONE_FILES | SIGCHLD);
	if (pid == 0)
		payload_main(g);
	if (pid < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot start the payload");
	g->payload = pid;
	return 0;
}

void guard_main(struct create *c)
{
	struct guard g = { .c = c };
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < GUESTS_MAX; i++)
		g.guests[i].status_fd = -1;

	process_reset_signals(&c->original_mask);
	if (set_up(&g, &err) < 0 || start(&g, &err) < 0)
		guard_die(c->child_sync_fd, &err);
	serve(&g);
}
