/* run: create, start, wait, settle, delete, in one process. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/quiet_thread.h"
#include "kernel/cgroup.h"
#include "kernel/interrupt.h"
#include "kernel/tty.h"
#include "sandbox/asked_bundle.h"
#include "sandbox/asktty.h"
#include "sandbox/create.h"
#include "sandbox/denied.h"
#include "sandbox/finish.h"
#include "sandbox/host.h"
#include "sandbox/launcher.h"
#include "sandbox/let_go.h"
#include "sandbox/mediate.h"
#include "sandbox/process.h"
#include "sandbox/sdnotify.h"
#include "sandbox/serve.h"
#include "sandbox/sync.h"
#include "sandbox/waiter.h"
#include "spec/request.h"

enum { RUN_ATTEMPTS = 16 };

union exec_packet {
	int sys; /* the launcher's errno */
	struct launcher_listener listener;
	struct error error; /* of init, through a fifo */
	struct {
		char header[8];
		struct error error; /* the same as a message */
	} message;
};

static ssize_t read_packet(int fd, bool is_socket, union exec_packet *p,
			   pid_t *ret_sender, int *ret_fd)
{
	ssize_t n;

	*ret_fd = -1;
	if (is_socket)
		return sync_recv_from(fd, p, sizeof(*p), ret_sender, ret_fd, 0);
	n = read(fd, p, sizeof(*p));
	return n < 0 ? -errno : n;
}

/* The launcher was told a program that is there. */
static int exec_error(const char *path, int sys, struct error *err)
{
	if (sys != ENOENT)
		return process_exec_error(path, sys, err);
	(void)error_say(err, ERR_EXEC_MISSING, sys,
			"exec %s: no such file or directory", path);
	return error_hint(err,
			  "it is gone, or the interpreter or loader that it "
			  "names does not exist inside");
}

/* @passed_fd is the listener itself, else it is to be fetched. */
static int take_listener(int fd, const union exec_packet *p, pid_t sender,
			 int passed_fd, const struct create_listening *to,
			 struct error *err)
{
	struct create_listener l = { sender, p->listener.fd, passed_fd };
	int r;

	if (passed_fd >= 0)
		l = (struct create_listener){ p->listener.fd, -1, passed_fd };
	r = to->take(to->data, &l, err);

	if (r == 0 && send(fd, "", 1, MSG_NOSIGNAL) < 0 && errno != EPIPE)
		r = error_set(err, ERR_SYSTEM, errno, "cannot start");
	return r;
}

int create_take_message(int fd, const char *path,
			const struct create_listening *l, bool *reset,
			struct error *err)
{
	union exec_packet p;
	pid_t sender = 0;
	int passed;
	ssize_t n = read_packet(fd, l != NULL, &p, &sender, &passed);

	/* A reset comes before what was sent: init died with GO unread. */
	if (n == -EINTR || (n == -ECONNRESET && !*reset)) {
		*reset |= n == -ECONNRESET;
		return 1;
	}
	if (n == sizeof(p.listener) && l) {
		int r = take_listener(fd, &p, sender, passed, l, err);

		return r < 0 ? r : 1;
	}
	if (n == 0 && *reset)
		return error_say(err, ERR_SYSTEM, ECHILD,
				 "init ended before '%s' was executed", path);
	if (n == 0)
		return 0;
	if (n < 0)
		return error_set(err, ERR_SYSTEM, (int)-n,
				 "cannot read from init");
	if (n == sizeof(p.sys) && p.sys == 0)
		return 0;
	if (n == sizeof(p.sys))
		return exec_error(path, p.sys, err);
	if (n == sizeof(p.message))
		return sync_take_error(&p.message.error,
				       sizeof(p.message.error), err);
	return sync_take_error(&p, (size_t)n, err);
}

int create_wait_exec(int fd, const char *path, const struct create_listening *l,
		     struct error *err)
{
	bool reset = false;
	int r;

	do {
		if (l && l->wait)
			l->wait(l->data, fd);
		r = create_take_message(fd, path, l, &reset, err);
	} while (r > 0);
	return r;
}

int create_take_first(void *data, const struct create_listener *l,
		      struct error *err)
{
	struct create *c = data;

	return l->fd >= 0
		       ? mediation_take_passed(c->mediation, l->pid, l->fd, err)
		       : mediation_take(c->mediation, l->pid, l->remote_fd,
					err);
}

/* Trapped calls wait for an answer: without one nothing may go on. */
static void begin_calls(struct create *c)
{
	struct error err = ERROR_INIT;

	if (serve_calls(c, &err) == 0)
		return;
	log_warn(c->env->log, "%s", err.msg);
	(void)pidfd_signal(c->pidfd, SIGKILL);
}

static const struct command_hooks *hooks_of(const struct create *c)
{
	static const struct command_hooks none = { .watch_fd = -1 };

	return c && c->command && c->command->hooks ? c->command->hooks : &none;
}

/*
 * Calls of the launcher may be trapped, and its execve: who is asked about that
 * may have something to ask us first.
 */
static void wait_and_answer(void *data, int fd)
{
	struct create *c = data;
	const struct command_hooks *h = hooks_of(c);
	struct pollfd p[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = mediation_idle_fd(c->mediation), .events = POLLIN },
		{ .fd = h->watch ? h->watch_fd : -1, .events = POLLIN },
		{ .fd = interrupt_fd(c->interrupt), .events = POLLIN },
	};

	while (!p[0].revents) {
		if (poll(p, ARRAY_LEN(p), -1) < 0) {
			if (errno != EINTR)
				return;
			continue;
		}
		if (p[1].revents & POLLIN)
			begin_calls(c);
		if (p[1].revents)
			p[1].fd = -1;
		if (p[2].revents && h->watch(h->data, c) != 0) {
			(void)pidfd_signal(c->pidfd, SIGKILL);
			p[2].fd = -1;
		}
		if (p[3].revents && interrupt_take(c->interrupt)) {
			(void)pidfd_signal(c->pidfd, SIGKILL);
			p[3].fd = -1;
		}
	}
}

/* Who asks before it is served waits. */
static void bind_socket(struct create *c)
{
	struct error err = ERROR_INIT;

	if (serve_bind(c, &c->control_fd, &err) < 0)
		log_warn(c->env->log, "%s", err.msg);
}

/* state.json has been there since the clone, and says "creating". */
static int write_created(struct create *c, struct error *err)
{
	int r;

	if (!c->die_with_parent || !c->slot)
		return 0;
	r = state_write(c->slot, c->state, err);
	if (r < 0)
		return r;
	if (!hooks_of(c)->created)
		bind_socket(c);
	rundir_unlock(c->slot);
	return 0;
}

/* Whoever asked may take his time, so others may know meanwhile. */
static int tell_created(struct create *c, struct error *err)
{
	const struct command_hooks *h = hooks_of(c);
	int r;

	if (!h->created)
		return 0;
	r = write_created(c, err);
	return r == 0 ? h->created(h->data, c, err) : r;
}

/* By the launcher; else init has sent it. */
static bool awaits_listener(const struct create *c)
{
	return c->plan->host || c->plan->judged;
}

/* The hooks that a bundle's init runs are trapped already. */
static int begin_mediation(struct create *c, struct error *err)
{
	int r;

	if (!awaits_listener(c))
		return c->plan->spec->hooks.n[SPEC_HOOK_START_CONTAINER]
			       ? serve_calls(c, err)
			       : 0;
	/* Of a host command it was begun while init mounted. */
	r = c->mediation ? 0 : mediation_begin(c, err);
	if (r < 0 || !c->mediation)
		return r;
	r = sync_want_sender(c->sync_fd);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot ask who sends")
		     : 0;
}

/* Until the launcher has its filter nothing of the payload runs. */
static void use_wait(struct create *c)
{
	if (c->plan->host)
		mediation_meet_init(c->mediation);
	create_warn_of_branch(c);
}

/* Its startContainer hooks may take their time. */
static int wait_executed(struct create *c, struct error *err)
{
	const struct create_listening listening = { create_take_first,
						    wait_and_answer, c };
	const struct spec *s = c->plan->spec;
	bool listens = c->mediation && awaits_listener(c);
	int r;

	if (!listens && interrupt_wait(c->interrupt, c->sync_fd))
		(void)pidfd_signal(c->pidfd, SIGKILL);
	r = create_wait_exec(c->sync_fd,
			     s->has_process ? s->process.args.v[0] : "",
			     listens ? &listening : NULL, err);
	if (create_check_interrupt(c, err) < 0)
		return -EINTR;
	return r == -ECHILD ? create_say_child_died(c, err) : r;
}

static int start_inline(struct create *c, struct error *err)
{
	const struct command_hooks *h = hooks_of(c);
	int sent, r;

	r = begin_mediation(c, err);
	if (r == 0)
		r = tell_created(c, err);
	if (r < 0)
		return r;
	if (!c->mediation)
		create_warn_of_branch(c);
	/* What fails now is undone as by delete. */
	c->hooks_begun = true;
	sent = sync_send(c->sync_fd, SYNC_GO, 0);
	/* Where init failed after READY, the reason is there to be read. */
	if (sent < 0 && sent != -EPIPE && sent != -ECONNRESET)
		return error_set(err, ERR_SYSTEM, -sent, "cannot start '%s'",
				 c->plan->name);
	r = h->created ? 0 : write_created(c, err);
	if (r < 0)
		return r;
	if (c->mediation)
		use_wait(c);
	r = wait_executed(c, err);
	if (r == 0 && sent < 0)
		r = create_say_child_died(c, err);
	if (r < 0)
		return r;
	c->executed = true;
	if (c->die_with_parent)
		let_go_hold(c);
	r = finish_hooks(c->state, c->plan->spec, SPEC_HOOK_POSTSTART,
			 "running", c->interrupt, c->env->log, err);
	/* Nobody else says the name, which may be one that we made up. */
	if (r < 0 && c->branch)
		return error_hint(err,
				  "it was stopped; if it wrote something: "
				  "'sandlock diff %s', then commit or abort",
				  c->plan->name);
	return r;
}

static void forward_signal(int signal_fd, int pidfd)
{
	struct signalfd_siginfo si;

	if (read(signal_fd, &si, sizeof(si)) != sizeof(si))
		return;
	if (si.ssi_signo != SIGCHLD && si.ssi_signo != SIGPIPE)
		(void)pidfd_signal(pidfd, (int)si.ssi_signo);
}

/*
 * Everything that makes sense for the payload; job control stays with us.
 * SIGPIPE is ours too, but must not end us while the terminal is raw.
 */
void run_forwarded_signals(sigset_t *set)
{
	static const int ours[] = {
		SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT,
		SIGTSTP, SIGTTIN, SIGTTOU, SIGTRAP, SIGSYS
	};

	(void)sigfillset(set);
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		(void)sigdelset(set, ours[i]);
}

enum wait_end { WAIT_ENDED, WAIT_TIMEOUT, WAIT_UNWANTED };

/* The first client is there; a sandbox that nobody asks needs no thread. */
static void begin_serving(struct create *c)
{
	struct error err = ERROR_INIT;

	begin_calls(c);
	if (serve_begin(c, &err) < 0)
		log_warn(c->env->log, "%s", err.msg);
}

/* Calls that nobody answers yet: most sandboxes have none trapped. */
static int quiet_listener(const struct create *c)
{
	return c->mediation ? mediation_idle_fd(c->mediation) : c->traps_fd;
}

/*
 * What ends the wait of poll(2): the time that the sandbox has, and that after
 * which it is worth watching. -1: nothing does.
 */
static int wait_ms(int64_t end_ms, int watch_ms)
{
	int64_t left = end_ms < 0 ? INT_MAX : end_ms - clock_now_ms();

	if (watch_ms >= 0 && watch_ms < left)
		return watch_ms;
	if (left < 0)
		return 0;
	if (left < INT_MAX)
		return (int)left;
	return end_ms < 0 ? -1 : INT_MAX;
}

/* Until the process has ended, or has to. A negative errno. */
static int wait_end(int pidfd, int signal_fd, int64_t end_ms, struct create *c,
		    struct error *err)
{
	const struct command_hooks *h = hooks_of(c);
	struct watching none = { 0 };
	struct watching *w = c ? &c->watching : &none;
	struct pollfd p[] = {
		{ .fd = pidfd, .events = POLLIN },
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = h->watch ? h->watch_fd : -1, .events = POLLIN },
		{ .fd = c ? serve_fd(c) : -1, .events = POLLIN },
		{ .fd = c ? quiet_listener(c) : -1, .events = POLLIN },
		{ .fd = watching_fd(w), .events = POLLIN },
	};

	while (!(p[0].revents & POLLIN)) {
		if (end_ms >= 0 && clock_now_ms() >= end_ms)
			return WAIT_TIMEOUT;
		if (poll(p, ARRAY_LEN(p), wait_ms(end_ms, watching_ms(w))) <
		    0) {
			if (errno == EINTR)
				continue;
			return error_set(err, ERR_SYSTEM, errno, "poll");
		}
		watching_read(w, p[5].revents);
		if (watching_is_due(w)) {
			watching_begin(w, c->branch);
			p[5].fd = watching_fd(w);
		}
		if (p[1].revents & POLLIN)
			forward_signal(signal_fd, pidfd);
		if (p[2].revents && h->watch(h->data, c) != 0)
			return WAIT_UNWANTED;
		if (p[3].revents) {
			begin_serving(c);
			p[3].fd = p[4].fd = -1;
		} else if (p[4].revents) {
			/* Else it is the end, which comes here first. */
			if (p[4].revents & POLLIN)
				begin_calls(c);
			p[4].fd = -1;
		}
	}
	return WAIT_ENDED;
}

/*
 * A pid 1 of ours cannot die of the payload's signal, but it says which that
 * was as long as nobody has reaped it (launcher/main.c).
 */
static int read_signal(pid_t init)
{
	auto_(buf) struct buf b = BUF_INIT;
	siginfo_t si = { .si_pid = 0 };
	char path[32];
	int sig;

	if (waitid(P_PID, (id_t)init, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    si.si_pid == init && si.si_status <= 128)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)init);
	if (fd_read_file(AT_FDCWD, path, 64, &b) < 0 ||
	    sscanf(buf_str(&b), "signal %d", &sig) != 1)
		return 0;
	return sig;
}

static void take_status(int status, int sig, struct exit_status *ret)
{
	*ret = exit_status_from_wait(status);
	if (ret->kind == EXIT_CODE && sig > 0 && ret->value == 128 + sig)
		*ret = (struct exit_status){ EXIT_SIGNAL, sig };
}

int run_wait(pid_t pid, int pidfd, int console_master, int signal_fd,
	     int64_t end_ms, struct create *c, struct exit_status *ret,
	     struct error *err)
{
	const struct tty_session session = {
		.master_fd = console_master,
		.pidfd = pidfd,
		.signal_fd = signal_fd,
		.end_ms = end_ms,
		/* Else the program is pid 1, which the kernel lets nobody
		 * inside stop. */
		.init = c && c->plan->host ? c->state->init.pid : 0,
	};
	int status = 0, sig = 0, r = 0;

	/* The relay waits for its own. */
	if (console_master >= 0 && c) {
		begin_serving(c);
		watching_begin_thread(&c->watching, c->branch, c->pidfd);
	} else if (c && c->branch) {
		watching_plan(&c->watching);
	}
	if (console_master >= 0)
		r = asktty_relay(c, session, err);
	if (r == 0)
		r = wait_end(pidfd, signal_fd, end_ms, c, err);
	if (r < 0)
		return r;
	/* Time is over: init dies, and its pid namespace with it. */
	if (r != WAIT_ENDED)
		(void)pidfd_signal(pidfd, SIGKILL);
	if (r == WAIT_ENDED && c && c->plan->host)
		sig = read_signal(pid);
	while (pid && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot wait for process %d",
					 (int)pid);
	take_status(status, sig, ret);
	if (r == WAIT_TIMEOUT)
		ret->kind = EXIT_TIMEOUT;
	return 0;
}

bool sandbox_is_stage(const struct command_options *o)
{
	return o && (o->join || o->hand_on || o->hold || o->savepoints);
}

static bool is_handed_on(const struct create *c, const struct exit_status *s)
{
	bool success = s->kind == EXIT_CODE && s->value == 0;

	/* Whoever held it is dead. */
	if (!c->command || !c->branch || s->kind == EXIT_UNKNOWN)
		return false;
	return success ? c->command->hand_on : c->command->hold;
}

static int hand_on(struct create *c, struct sandbox_result *ret,
		   struct error *err)
{
	int r = branch_hand_on(c->branch, &c->command->owner, err);

	if (r < 0)
		return r;
	ret->outcome = SANDBOX_PENDING;
	return finish_remove(c->env, c->slot, c->state, c->plan->spec,
			     c->interrupt, err);
}

/* Beside a foreground run: the manager goes on watching us. */
struct notifier {
	pthread_t thread;
	bool has_thread;
	int fd, pidfd;
};

static void *notify(void *data)
{
	const struct notifier *n = data;

	sdnotify_forward(n->fd, n->pidfd, 0);
	return NULL;
}

static void begin_notifying(struct create *c, struct notifier *n)
{
	*n = (struct notifier){ .fd = c->notify_fd, .pidfd = c->pidfd };
	n->has_thread =
		n->fd >= 0 && quiet_thread_make(&n->thread, notify, n) == 0;
}

/* It ends with init. */
static void end_notifying(struct notifier *n)
{
	if (n->has_thread)
		(void)pthread_join(n->thread, NULL);
}

static void end_by_init(void *data)
{
	const struct create *c = data;

	(void)pidfd_signal(c->pidfd, SIGKILL);
}

static int begin_quota(struct create *c, struct error *err)
{
	const struct quota_options o = {
		.bytes = c->branch ? c->plan->quota_bytes : 0,
		.branch = c->branch,
		.state = c->state,
		.pidfd = c->pidfd,
		.end = end_by_init,
		.data = c,
	};

	return quota_begin(&c->quota, &o, err);
}

static void end_quota(struct create *c, struct sandbox_result *ret)
{
	quota_end(&c->quota, &ret->status);
	if (ret->status.kind != EXIT_QUOTA)
		return;
	ret->quota_bytes = c->quota.options.bytes;
	ret->quota_used = c->quota.used;
}

static int run_foreground(struct create *c, int signal_fd,
			  struct sandbox_result *ret, struct error *err)
{
	const struct command_hooks *h = hooks_of(c);
	uint64_t timeout_ms = c->plan->timeout_ms;
	bool keep = c->bundle->keep;
	struct error local = ERROR_INIT;
	struct notifier notifier;
	int r;

	if (h->created)
		bind_socket(c);
	if (serve_adopt(c, take_fd(&c->control_fd), &local) < 0)
		log_warn(c->env->log, "%s", local.msg);
	if (h->started)
		h->started(h->data);
	begin_notifying(c, &notifier);
	r = begin_quota(c, err);
	if (r == 0)
		r = run_wait(c->state->init.pid, c->pidfd, c->console_master,
			     signal_fd,
			     timeout_ms ? clock_now_ms() + (int64_t)timeout_ms
					: -1,
			     c, &ret->status, err);

	/* From here on there are clones again, so one thread. */
	if (r < 0)
		(void)pidfd_signal(c->pidfd, SIGKILL);
	end_notifying(&notifier);
	end_quota(c, ret);
	watching_end(&c->watching);
	serve_stop(c);
	mediation_end(c->mediation);
	if (r == 0 && c->plan->notify)
		r = guard_wait_rest(&c->strangers, c->state->name, err);
	if (r < 0)
		return r;
	r = finish_processes(c->state, -1, 10000, err);
	if (r < 0)
		return r;
	let_go(c);
	if (h->ended)
		h->ended(h->data, c->branch, &ret->status);
	if (is_handed_on(c, &ret->status))
		return hand_on(c, ret, err);
	if (c->branch)
		finish_branch(c->branch, &ret->status, c->state->pid_ns,
			      c->command, ret);
	denied_finish(c, ret->outcome == SANDBOX_PENDING);
	if (keep)
		return 0;
	return finish_remove(c->env, c->slot, c->state, c->plan->spec,
			     c->interrupt, err);
}

static int begin_run(struct create *c, const struct sandbox_env *env,
		     const struct sandbox_bundle *b, struct error *err)
{
	int r = create_begin(c, env, b, err);

	if (r < 0)
		return r;
	if (b->detach && waiter_is_due(c))
		r = waiter_spawn(c, err);
	if (r == 0 && !c->plan->host && c->inline_start)
		r = sdnotify_bind(c->slot, &c->notify_fd, err);
	if (r == 0 && c->inline_start)
		r = start_inline(c, err);
	if (r < 0)
		create_undo(c);
	return r;
}

/* Its waiter is there, and answers for it from the first call on. */
static int start_relayed(const struct sandbox_env *env, const char *name,
			 struct error *err)
{
	int r = sandbox_start(env, name, err);

	if (r < 0)
		(void)sandbox_delete(env, name, true, NULL);
	return r;
}

/*
 * @c has its plan or gets one from @b. What arrives from now on is the
 * payload's, once there is one; until then what would end us ends the making,
 * so that an interrupted run still cleans up.
 */
static int run_whole(struct create *c, const struct sandbox_env *env,
		     const struct sandbox_bundle *b, struct sandbox_result *ret,
		     struct error *err)
{
	auto_close int signal_fd = -1;
	bool is_relayed = false;
	sigset_t set, old;
	int r;

	run_forwarded_signals(&set);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	c->inline_start = true;
	c->die_with_parent = !b->detach;
	c->original_mask = old;
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r = signal_fd < 0 ? -errno : interrupt_open(c->interrupt);
	if (r == 0 && c->plan && c->plan->notify)
		r = guard_adopt(&c->strangers);
	r = r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot wait for processes")
		  : begin_run(c, env, b, err);
	if (r == 0)
		(void)snprintf(ret->name, sizeof(ret->name), "%s",
			       c->plan->name);
	is_relayed = r == 0 && !c->inline_start;
	if (r == 0 && b->detach)
		sdnotify_forward(c->notify_fd, c->pidfd, c->state->init.pid);
	if (r == 0 && !b->detach)
		r = run_foreground(c, signal_fd, ret, err);
	if (c->plan && c->plan->notify)
		guard_disown(&c->strangers);
	create_done(c);
	interrupt_close(c->interrupt);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return is_relayed ? start_relayed(env, ret->name, err) : r;
}

int sandbox_run(const struct sandbox_env *env, const struct sandbox_bundle *b,
		struct sandbox_result *ret, struct error *err)
{
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;
	struct interrupt interrupt = INTERRUPT_INIT;
	struct create c = { .interrupt = &interrupt };
	int r = plan_check_preserved(b->preserve_fds + process_listen_fds(), e);

	*ret = (struct sandbox_result){ .outcome = SANDBOX_NO_BRANCH };
	return r < 0 ? r : run_whole(&c, env, b, ret, e);
}

int sandbox_run_command(const struct sandbox_env *env,
			const struct command_options *o,
			struct sandbox_result *ret, struct error *err)
{
	const struct request *q = o->request;
	struct sandbox_bundle b = { .preserve_fds = o->preserve_fds };
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;
	int r = plan_check_preserved(
		b.preserve_fds + (q->bundle ? process_listen_fds() : 0), e);

	if (r < 0)
		return r;
	r = -EEXIST;
	/* A made-up name that is taken is replaced by another one. */
	for (int i = 0; r == -EEXIST && i < (q->name ? 1 : RUN_ATTEMPTS); i++) {
		struct interrupt interrupt = INTERRUPT_INIT;
		struct create c = { .command = o, .interrupt = &interrupt };

		*ret = (struct sandbox_result){ .outcome = SANDBOX_NO_BRANCH };
		r = q->bundle ? asked_bundle_plan(env, o, &b, &c.plan, e)
			      : host_plan(env, q, o->terminal, &c.plan, e);
		if (r == 0)
			r = run_whole(&c, env, &b, ret, e);
	}
	return r;
}
