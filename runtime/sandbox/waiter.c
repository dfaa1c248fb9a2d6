#include "sandbox/waiter.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "control/protocol.h"
#include "sandbox/asked_bundle.h"
#include "sandbox/create.h"
#include "sandbox/denied.h"
#include "sandbox/finish.h"
#include "sandbox/lobby.h"
#include "sandbox/lookup.h"
#include "sandbox/mediate.h"
#include "sandbox/serve.h"
#include "sandbox/sync.h"
#include "spec/request.h"

/* What it is given: these, where they are, and nothing else. */
enum {
	WAITER_PIDFD = 3,
	WAITER_DIR,
	WAITER_SOCKET,
	WAITER_TRAPS,
	/* Of what is judged. */
	WAITER_SYNC,
	WAITER_STATUS,
	WAITER_LAUNCHER,
	WAITER_FDS_END,
	OUT_OF_THE_WAY = 16,
};

enum { OWN_POLLS = 6 };

static const char *waiter_program(const struct sandbox_env *env)
{
	return env->program ? env->program : "/proc/self/exe";
}

/* By way of numbers that nobody is given: they may be given in any order. */
static int give_fds(const int fds[WAITER_FDS_END])
{
	int moved[WAITER_FDS_END];

	for (int i = WAITER_PIDFD; i < WAITER_FDS_END; i++) {
		moved[i] = fds[i] < 0 ? -1
				      : fcntl(fds[i], F_DUPFD_CLOEXEC,
					      OUT_OF_THE_WAY);
		if (fds[i] >= 0 && moved[i] < 0)
			return -errno;
	}
	for (int i = WAITER_PIDFD; i < WAITER_FDS_END; i++) {
		if (moved[i] < 0)
			(void)close(i);
		else if (dup2(moved[i], i) < 0)
			return -errno;
	}
	return fd_cloexec_from(WAITER_FDS_END);
}

/* In a child that shares our memory: nothing of ours is changed here. */
static int exec_waiter(const struct create *c, int socket_fd)
{
	bool relayed = create_is_relayed(c);
	const int fds[WAITER_FDS_END] = {
		[WAITER_PIDFD] = c->pidfd,
		[WAITER_DIR] = rundir_slot_fd(c->slot),
		[WAITER_SOCKET] = socket_fd,
		[WAITER_TRAPS] = c->traps_fd,
		[WAITER_SYNC] = relayed ? c->sync_fd : -1,
		[WAITER_STATUS] = relayed ? c->status_fd : -1,
		[WAITER_LAUNCHER] = relayed ? c->launcher_fd : -1,
	};
	char pid[16], quota[24];
	char *const argv[] = {
		(char *)WAITER_NAME,
		c->state->name,
		(char *)(uintptr_t)(c->store ? store_path(c->store) : ""),
		pid,
		(char *)(uintptr_t)rundir_path(c->rundir),
		c->branch && c->plan->quota_bytes ? quota : NULL,
		NULL,
	};
	char *const envp[] = { NULL };
	/* It may be one of 0 to 2, which the waiter keeps. */
	/* NOLINTNEXTLINE(android-cloexec-open) */
	int null_fd = open("/dev/null", O_RDWR);
	int r;

	(void)snprintf(pid, sizeof(pid), "%d", (int)c->state->init.pid);
	(void)snprintf(quota, sizeof(quota), "%" PRIu64, c->plan->quota_bytes);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
	    dup2(null_fd, 2) < 0 || chdir("/") < 0)
		return -errno;
	r = give_fds(fds);
	if (r == 0)
		(void)execve(waiter_program(c->env), argv, envp);
	return r < 0 ? r : -errno;
}

/*
 * Twice, so that the waiter is nobody's child but the reaper's. By vfork(2):
 * nothing is copied, we go on when the waiter is executed, and its pid or its
 * error is in our memory then.
 */
static int spawn_detached(const struct create *c, int socket_fd, pid_t *ret)
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
			failed = exec_waiter(c, socket_fd);
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

bool waiter_is_of(pid_t pid, const char *name)
{
	auto_(buf) struct buf said = BUF_INIT, is = BUF_INIT;
	char path[32];

	buf_printf(&is, "%s%c%s", WAITER_NAME, '\0', name);
	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	/* With the NUL behind the name. */
	return fd_read_file(AT_FDCWD, path, LIMIT_STATE_BYTES, &said) == 0 &&
	       said.len > is.len && !buf_failed(&is) &&
	       memcmp(said.data, is.data, is.len + 1) == 0;
}

bool waiter_is_due(const struct create *c)
{
	return c->branch || c->plan->judged;
}

int waiter_spawn(struct create *c, struct error *err)
{
	auto_close int socket_fd = -1;
	pid_t pid = 0;
	int r = serve_bind(c, &socket_fd, err);

	if (r < 0)
		return r;
	/* Who sends comes with what is sent from now on. */
	r = create_is_relayed(c) ? sync_want_sender(c->sync_fd) : 0;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot ask who sends");
	r = spawn_detached(c, socket_fd, &pid);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot execute '%s' as the waiter of '%s'",
				 waiter_program(c->env), c->state->name);
	cleanup_close(&c->traps_fd);
	c->traps_fd = -1;
	return rundir_write_pids(c->slot, c->state->init.pid, pid, err);
}

/* -------------------------------------------------------- in the waiter -- */

struct waiter {
	const char *name, *store;
	pid_t init;
	int socket_fd, traps_fd; /* -1 once they are the create's */
	pid_t guard;		 /* or 0 */
	int guard_fd;		 /* its pidfd, or -1 */
	struct sandbox_env env;
	struct sandbox_bundle bundle;
	struct command_options command;
	struct create *create;	/* NULL: nobody has asked for anything */
	struct lobby lobby;	/* empty once there is a create */
	int sync_fd, status_fd; /* until it was executed; -1 */
	bool is_reset, is_ending;
	struct watching watching;
	/* With a quota, which outlives nobody's create. */
	uint64_t quota_bytes;
	struct quota quota;
	struct found found;
	struct store *quota_store;
	struct branch *quota_branch;
};

static int given(int fd)
{
	return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : fd;
}

/* Init is alive, so what has its number and its name is this sandbox. */
static int find_it(struct waiter *w, struct found *f)
{
	int r = found_open(&w->env, w->name, false, f, NULL);

	return r == 0 && f->state->init.pid != w->init ? -ESRCH : r;
}

/* Whatever happens, init dies. */
static void end_sandbox(struct waiter *w)
{
	struct found f = { 0 };

	if (find_it(w, &f) < 0 ||
	    finish_processes(f.state, WAITER_PIDFD, 10000, NULL) < 0)
		(void)pidfd_signal(WAITER_PIDFD, SIGKILL);
	found_done(&f);
}

static void end_over_quota(void *data)
{
	end_sandbox(data);
}

static int begin_quota(struct waiter *w)
{
	struct quota_options o = { .bytes = w->quota_bytes,
				   .pidfd = WAITER_PIDFD,
				   .end = end_over_quota,
				   .data = w };
	int r = w->quota_bytes ? find_it(w, &w->found) : -ENOENT;

	if (!w->quota_bytes)
		return 0;
	if (r == 0)
		r = store_open(w->store, NULL, &w->quota_store, NULL);
	if (r == 0)
		r = branch_find(w->quota_store, w->name, &w->quota_branch,
				NULL);
	o.branch = w->quota_branch;
	o.state = w->found.state;
	return r == 0 ? quota_begin(&w->quota, &o, NULL) : r;
}

static void end_quota(struct waiter *w, struct exit_status *status)
{
	quota_end(&w->quota, status);
	branch_close(w->quota_branch);
	store_close(w->quota_store);
	found_done(&w->found);
	if (w->create)
		w->create->quota = w->quota;
}

/*
 * It keeps the listener open as well: nobody's call fails in the moment
 * before the end.
 */
static void __attribute__((noreturn))
watch_over(struct waiter *w, int waiter_pidfd)
{
	struct pollfd p[] = {
		{ .fd = WAITER_PIDFD, .events = POLLIN },
		{ .fd = waiter_pidfd, .events = POLLIN },
	};

	cleanup_close(&w->socket_fd);
	cleanup_close(&w->sync_fd);
	cleanup_close(&w->status_fd);
	lobby_done(&w->lobby);
	/* What is sent to all of a group or session is not for both of us. */
	(void)setsid();
	while (poll(p, ARRAY_LEN(p), -1) < 0 && errno == EINTR)
		;
	if (!(p[0].revents & POLLIN))
		end_sandbox(w);
	_exit(0);
}

/* What ends all processes of a service, or of a login, must not end both. */
static int make_guard(struct waiter *w)
{
	auto_close int own = pidfd_open_pid(getpid());
	sigset_t all, old;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	pid = own < 0 ? -1 : fork();
	if (pid == 0)
		watch_over(w, own);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return -EAGAIN;
	w->guard = pid;
	w->guard_fd = pidfd_open_pid(pid);
	return 0;
}

static void reap_guard(pid_t pid, int pidfd)
{
	if (!pid)
		return;
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	cleanup_close(&pidfd);
}

static void end_guard(struct waiter *w)
{
	reap_guard(w->guard, w->guard_fd);
	w->guard_fd = -1;
	w->guard = 0;
}

/* Who is asked, where somebody is. */
static int read_request(struct waiter *w, struct create *c)
{
	struct request *q = NULL;
	int r = asked_bundle_read(c->slot, &q, NULL);

	if (q)
		c->command = &w->command;
	w->command.request = q;
	return r;
}

static int fill_create(struct waiter *w, struct create *c)
{
	struct found f = { 0 };
	int r = find_it(w, &f);

	c->rundir = f.rundir;
	c->slot = f.slot;
	c->state = f.state;
	if (r == 0)
		r = read_request(w, c);
	if (r == 0)
		r = plan_again(c->slot, c->state, w->command.request, &c->plan,
			       NULL);
	if (r == 0 && *w->store)
		r = store_open(w->store, NULL, &c->store, NULL);
	return r == 0 && c->state->store
		       ? branch_find(c->store, w->name, &c->branch, NULL)
		       : r;
}

/* What the process that made the sandbox had in its memory. */
static int become_supervisor(struct waiter *w)
{
	struct create *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	w->create = c;
	c->env = &w->env;
	c->bundle = &w->bundle;
	create_init(c);
	c->pidfd = WAITER_PIDFD;
	c->traps_fd = take_fd(&w->traps_fd);
	if (w->sync_fd >= 0)
		c->launcher_fd = WAITER_LAUNCHER;
	r = fill_create(w, c);
	if (r == 0 && c->plan->judged)
		r = mediation_begin(c, NULL);
	return r == 0 ? serve_adopt(c, take_fd(&w->socket_fd), NULL) : r;
}

static void drop_fd(int *fd)
{
	cleanup_close(fd);
	*fd = -1;
}

/* Without an answer to what is trapped nothing may go on. */
static void attend(struct waiter *w, bool asked)
{
	bool trapped = w->guard;
	int r = w->create ? 0 : become_supervisor(w);

	asked |= lobby_has_clients(&w->lobby);
	if (r == 0)
		r = serve_calls(w->create, NULL);
	if (r == 0)
		r = lobby_leave(&w->lobby, w->create, NULL);
	if (r == 0 && asked)
		r = serve_begin(w->create, NULL);
	if (r == 0)
		return;
	if (trapped)
		end_sandbox(w);
	drop_fd(&w->socket_fd);
	drop_fd(w->create ? &w->create->traps_fd : &w->traps_fd);
}

/* What has been taken since must not be lost with us either. */
static int renew_guard(struct waiter *w)
{
	pid_t old = w->guard;
	int old_fd = w->guard_fd, r = make_guard(w);

	if (r < 0)
		return r;
	reap_guard(old, old_fd);
	return 0;
}

/* NULL: it was executed. */
static void tell_start(int status_fd, const struct error *err)
{
	static const int none = 0;

	/* It may be gone. */
	(void)signal(SIGPIPE, SIG_IGN);
	if (err)
		(void)fd_write_full(status_fd, err, sizeof(*err));
	else
		(void)fd_write_full(status_fd, &none, sizeof(none));
	(void)signal(SIGPIPE, SIG_DFL);
}

/* Of what is judged: its listener, and whether it was executed, which `start`
 * waits for. */
static void relay(struct waiter *w)
{
	const struct create_listening l = { create_take_first, NULL,
					    w->create };
	const struct spec *s = w->create->plan->spec;
	struct error err = ERROR_INIT;
	int r = create_take_message(w->sync_fd, s->process.args.v[0], &l,
				    &w->is_reset, &err);

	if (r > 0 && renew_guard(w) == 0)
		return;
	if (r > 0)
		end_sandbox(w);
	if (r <= 0)
		tell_start(w->status_fd, r < 0 ? &err : NULL);
	/* The launcher, if it waits, ends with this. */
	drop_fd(&w->sync_fd);
	drop_fd(&w->status_fd);
}

/* Before that nothing may be accepted, for nobody would hear the listener. */
static bool has_lobby(const struct waiter *w)
{
	return !w->create && w->guard;
}

static void begin_watching(struct waiter *w)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;

	if (store_open(w->store, NULL, &st, NULL) == 0)
		(void)branch_find(st, w->name, &b, NULL);
	watching_begin(&w->watching, b);
}

static int quiet_listener(const struct waiter *w)
{
	const struct create *c = w->create;

	if (w->is_ending || !c)
		return w->is_ending ? -1 : w->traps_fd;
	return c->mediation ? mediation_idle_fd(c->mediation) : c->traps_fd;
}

static void wait_for_init(struct waiter *w)
{
	watching_plan(&w->watching);
	for (;;) {
		const struct create *c = w->create;
		struct pollfd p[OWN_POLLS + LOBBY_MAX] = {
			{ .fd = WAITER_PIDFD, .events = POLLIN },
			{ .fd = w->guard_fd, .events = POLLIN },
			{ .fd = c ? serve_fd(c) : w->socket_fd,
			  .events = POLLIN },
			{ .fd = quiet_listener(w), .events = POLLIN },
			{ .fd = watching_fd(&w->watching), .events = POLLIN },
			{ .fd = w->sync_fd, .events = POLLIN },
		};
		bool asked, needed;

		lobby_poll(&w->lobby, p + OWN_POLLS);
		if (poll(p, OWN_POLLS + w->lobby.n, watching_ms(&w->watching)) <
		    0)
			continue;
		watching_read(&w->watching, p[4].revents);
		if (p[0].revents)
			return;
		if (watching_is_due(&w->watching))
			begin_watching(w);
		if (p[1].revents) {
			end_guard(w);
			if (make_guard(w) < 0)
				end_sandbox(w);
		}
		if (p[5].revents)
			relay(w);
		needed = lobby_look(&w->lobby, p + OWN_POLLS);
		asked = p[2].revents &&
			!(has_lobby(w) &&
			  lobby_accept(&w->lobby, w->socket_fd));
		if (needed || asked || (p[3].revents & POLLIN))
			attend(w, asked);
		else if (p[3].revents)
			/* Nobody is left to be heard of: the end, which comes
			 * here first. */
			w->is_ending = true;
		if (w->is_ending)
			drop_fd(c ? &w->create->traps_fd : &w->traps_fd);
	}
}

/* From here on there are clones again, so one thread. */
static void stop_serving(struct waiter *w)
{
	lobby_done(&w->lobby);
	if (w->create) {
		serve_stop(w->create);
		mediation_end(w->create->mediation);
	}
	watching_end(&w->watching);
	drop_fd(&w->socket_fd);
	(void)unlinkat(WAITER_DIR, control_socket_name, 0);
	end_guard(w);
}

static int settle(struct waiter *w, const struct exit_status *status)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;
	enum branch_outcome outcome = OUTCOME_PENDING;
	struct branch_settled settled;

	if (store_open(w->store, NULL, &st, NULL) < 0 ||
	    branch_find(st, w->name, &b, NULL) < 0 ||
	    branch_settle(b, status, false, &settled, NULL) < 0)
		return 1;
	if (settled.gone)
		return 0;
	(void)branch_dispose(b, false, &outcome, NULL);
	if (w->create && w->create->plan)
		denied_finish(w->create, outcome == OUTCOME_PENDING);
	else if (w->quota.is_exceeded && outcome == OUTCOME_PENDING)
		denied_keep_quota(b, &w->quota);
	return 0;
}

/* NAME STORE PID ROOT [QUOTA] */
int sandbox_waiter_main(int argc, char **argv)
{
	struct waiter w = { .guard_fd = -1 };
	struct exit_status status;
	sigset_t none;

	if (argc != 5 && argc != 6)
		return 2;
	/* Only here: no handler of the creator's may run in its child. */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	w.name = argv[1];
	w.store = argv[2];
	w.init = (pid_t)strtol(argv[3], NULL, 10);
	w.env.root = argv[4];
	w.env.store = w.store;
	w.quota_bytes = argc == 6 ? strtoull(argv[5], NULL, 10) : 0;
	w.socket_fd = given(WAITER_SOCKET);
	w.traps_fd = given(WAITER_TRAPS);
	w.sync_fd = given(WAITER_SYNC);
	w.status_fd = given(WAITER_STATUS);
	(void)given(WAITER_LAUNCHER);
	if (w.init <= 0 || given(WAITER_PIDFD) < 0 || given(WAITER_DIR) < 0)
		return 1;
	w.bundle.detach = true;
	if ((w.traps_fd >= 0 || w.sync_fd >= 0 || w.quota_bytes) &&
	    make_guard(&w) < 0)
		end_sandbox(&w);
	if (begin_quota(&w) < 0)
		end_sandbox(&w);
	if (w.sync_fd >= 0 && become_supervisor(&w) < 0) {
		end_sandbox(&w);
		drop_fd(&w.sync_fd);
	}
	wait_for_init(&w);
	pidfd_exit_status(WAITER_PIDFD, w.init, &status);
	end_quota(&w, &status);
	stop_serving(&w);
	return settle(&w, &status);
}
