/*
 * exec: another process in a running sandbox. A helper joins the namespaces of
 * init by one setns on its pidfd and clones the process as its own sibling
 * (CLONE_PARENT), so that the caller, or the engine after it, can wait for it.
 *
 * Where somebody inside may look into every process there (CAP_SYS_PTRACE, and
 * no user namespace), he may do so from the first moment of it. So there the
 * helper, which nobody inside sees, does all that takes rights or our program,
 * and lays both down: it becomes the launcher, and that clones.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/capset.h"
#include "base/fd.h"
#include "base/json.h"
#include "control/client.h"
#include "kernel/cgroup.h"
#include "kernel/process.h"
#include "kernel/tty.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/exec.h"
#include "sandbox/launcher.h"
#include "sandbox/listener.h"
#include "sandbox/lookup.h"
#include "sandbox/mediate.h"
#include "sandbox/process.h"
#include "sandbox/sync.h"
#include "spec/request.h"

enum { SOCKET_NAPS = 100, SOCKET_NAP_MS = 20 };

static int check_status(const struct found *f, const struct sandbox_exec *x,
			struct error *err)
{
	if (f->state->notify && exec_guard_check(x, err) < 0)
		return error_code(err);
	switch (f->status) {
	case STATUS_CREATED:
	case STATUS_RUNNING:
		return 0;
	case STATUS_PAUSED:
		if (x->ignore_paused)
			return 0;
		(void)error_say(err, ERR_STATE, EINVAL,
				"cannot exec in a paused container (use "
				"--ignore-paused to override)");
		return error_hint(err, "resume it first");
	case STATUS_CREATING:
	case STATUS_STOPPED:
		break;
	}
	return error_say(err, ERR_STATE, ESRCH,
			 "cannot exec in a container that is %s: container not "
			 "running",
			 sandbox_status_name(f->status));
}

/* The namespaces of init that are not ours, as flags for setns(2). */
static int foreign_namespaces(pid_t pid, const struct spec *s, int *ret,
			      struct error *err)
{
	char path[64];
	struct stat theirs, ours;

	*ret = 0;
	for (int i = 0; i < SPEC_NS_COUNT; i++) {
		const char *name = spec_ns_table[i].proc_name;

		/* To join what is ours already would be an error for it. */
		if (s->ns[i].want == SPEC_NS_NEW && i != SPEC_NS_USER) {
			*ret |= spec_ns_table[i].clone_flag;
			continue;
		}
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid,
			       name);
		if (stat(path, &theirs) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot see namespace '%s' of init",
					 name);
		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
		if (stat(path, &ours) == 0 && ours.st_ino != theirs.st_ino)
			*ret |= spec_ns_table[i].clone_flag;
	}
	return 0;
}

static void __attribute__((noreturn))
die(struct exec *e, const struct error *err)
{
	(void)sync_send_data(e->child_sync_fd, SYNC_ERROR, err, sizeof(*err));
	_exit(1);
}

/* "cpu,cpuacct" of @len bytes names the hierarchies of both, mounted together
 * or not. */
static bool is_named(const char *list, size_t len, const char *hierarchy)
{
	while (len) {
		size_t n = strcspn(list, ",:");
		const char *h = hierarchy;

		while (*h) {
			size_t word = strcspn(h, ",");

			if (word == n && strncmp(list, h, n) == 0)
				return true;
			h += word + (h[word] == ',');
		}
		n += n < len;
		list += n;
		len -= n;
	}
	return false;
}

/* Joins "PATH" or "CONTROLLERS:PATH" below the sandbox's cgroups. */
static int join_sub_cgroup(struct exec *e, const char *arg, struct error *err)
{
	const char *colon = strchr(arg, ':');
	const char *path = colon ? colon + 1 : arg;
	const char *below =
		path[strspn(path, "/")] ? path + strspn(path, "/") : ".";
	struct cgroup_view *v = NULL;
	size_t n = 0, joined = 0;
	int r = cgroup_views(e->found->state->cgroup, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		auto_free char *full = NULL;
		auto_close int dir_fd = -1;
		auto_close int sub_fd = -1;
		bool v1 = *v[i].hierarchy &&
			  strcmp(v[i].hierarchy, "unified") != 0;

		if (colon &&
		    !is_named(arg, (size_t)(colon - arg), v[i].hierarchy))
			continue;
		if (asprintf(&full, "%s/%s", v[i].mountpoint, v[i].path) < 0)
			full = NULL;
		dir_fd = full ? open(full, O_PATH | O_DIRECTORY | O_CLOEXEC)
			      : -1;
		sub_fd = dir_fd < 0 ? -EINVAL
				    : fd_open_beneath(dir_fd, below,
						      O_PATH | O_DIRECTORY, 0);
		if (sub_fd == -ENOENT)
			r = error_set(err, ERR_USAGE, ENOENT,
				      "error adding pid to sub cgroup '%s'",
				      arg);
		else if (sub_fd < 0)
			r = error_say(err, ERR_USAGE, EINVAL,
				      "bad sub cgroup path '%s'", arg);
		else if (fd_write_file(sub_fd, v1 ? "tasks" : "cgroup.procs",
				       "0") < 0)
			r = error_set(err, ERR_SYSTEM, errno,
				      "cannot join sub cgroup '%s'", arg);
		joined++;
	}
	cgroup_views_free(v, n);
	if (r == 0 && !joined)
		return error_say(err, ERR_USAGE, EINVAL,
				 "bad sub cgroup path '%s': unknown controller "
				 "'%.*s'",
				 arg, (int)strcspn(arg, ":"), arg);
	return r;
}

static int join_cgroups(struct exec *e, struct error *err)
{
	const char *const *args = e->request->cgroups;
	const struct cgroup *cg = e->found->state->cgroup;
	int r = cg ? cgroup_child_join(cg, e->in_cgroup, err) : 0;

	for (size_t i = 0; r == 0 && args && args[i]; i++) {
		if (!cg)
			return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
					 "--cgroup: the sandbox has no cgroup");
		r = join_sub_cgroup(e, args[i], err);
	}
	return r;
}

static int set_up_console(struct exec *e, struct error *err)
{
	const struct spec_process *p = e->process;
	auto_close int pts_fd = -1;
	auto_close int master_fd = -1;
	auto_close int slave_fd = -1;
	int r;

	if (!p->terminal)
		return 0;
	pts_fd = open("/dev/pts",
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (pts_fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot open the container's /dev/pts");
	r = tty_open_pair(pts_fd, p->console_width, p->console_height,
			  &master_fd, &slave_fd, err);
	if (r < 0)
		return r;
	if (!e->beside)
		return sync_hand_terminal(e->child_sync_fd, e->console_sock,
					  master_fd, slave_fd, p->uid, err);
	r = sync_give_terminal(e->child_sync_fd, e->console_sock, master_fd,
			       slave_fd, p->uid, err);
	return r == 0 ? tty_use(slave_fd, err) : r;
}

static int send_listener(void *data, int fd, struct error *err)
{
	const struct exec *e = data;

	return sync_hand_listener(e->child_sync_fd, fd, err);
}

static int send_traps(void *data, int fd, struct error *err)
{
	const struct exec *e = data;
	int r = sync_send_fd(e->child_sync_fd, SYNC_TRAPS, fd);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "the seccomp listener was not handed over");
	return 0;
}

/* What came while the group was still the caller's, and would end us now. */
static void drop_signals(void)
{
	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		(void)signal(sig, SIG_IGN);
		(void)signal(sig, SIG_DFL);
	}
}

static void __attribute__((noreturn)) process_main(struct exec *e)
{
	struct error err = ERROR_INIT;
	bool judged = e->found->state->judged;
	bool early = e->traps.n_insns && !judged;
	struct process_setup s = {
		.process = e->process,
		.spec = e->spec,
		.filter = e->has_filter ? &e->filter : NULL,
		.filter_fd = e->filter_fd,
		.launcher_fd = e->launcher_fd,
		.proc_fd = -1,
		.preserve_fds = e->request->preserve_fds,
		.die_with_parent = !e->request->detach,
		.beside = e->beside,
		/* As the command itself, which without a branch may not see
		 * its own. */
		.cwd_is_wish = e->found->state->host &&
			       !e->found->state->store && !e->request->cwd &&
			       !e->request->process_file,
		/* Of a host command; a bundle's root is writable anyway. */
		.workdirs = &e->found->state->workdirs,
		.send_listener = e->found->state->host ? NULL : send_listener,
		.traps = early ? &e->traps : NULL,
		.judge = judged ? &e->traps : NULL,
		.judge_fd = e->judge_fd,
		.send_traps = send_traps,
		.data = e,
	};

	(void)setsid();
	if (e->beside)
		drop_signals();
	(void)sigprocmask(SIG_SETMASK, &e->original_mask, NULL);
	if (e->process->affinity_final &&
	    process_set_affinity(e->process->affinity_final, &err) < 0)
		die(e, &err);
	if (e->process->apparmor_profile || e->process->selinux_label) {
		s.proc_fd = process_open_proc(&err);
		if (s.proc_fd < 0)
			die(e, &err);
	}
	if (set_up_console(e, &err) < 0 || process_enter(&s, &err) < 0 ||
	    process_prepare(&s, &err) < 0)
		die(e, &err);
	if (sync_send(e->child_sync_fd, SYNC_READY, 0) < 0 ||
	    sync_expect(e->child_sync_fd, SYNC_GO) < 0)
		_exit(1);
	(void)process_execute(&s, e->child_sync_fd, &err);
	die(e, &err);
}

static int join_init(struct exec *e, struct error *err)
{
	const struct spec_process *p = e->process;
	int r = 0;

	if (p->has_oom_score_adj)
		r = process_set_oom_score_adj(0, p->oom_score_adj, err);
	if (r == 0 && p->affinity_initial)
		r = process_set_affinity(p->affinity_initial, err);
	if (r == 0)
		r = join_cgroups(e, err);
	if (r < 0)
		return r;
	if (!p->affinity_initial && !p->affinity_final &&
	    !e->found->state->host)
		process_reset_affinity();
	if (e->namespaces && setns(e->init_pidfd, e->namespaces) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot join the namespaces of '%s'",
				 e->found->state->name);
	if ((e->namespaces & CLONE_NEWUSER) &&
	    spawn_become_root(e->spec, err) < 0)
		return error_code(err);
	/* Before anybody inside can see us (CVE-2016-9962). */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot become undumpable");
	return 0;
}

/*
 * Before there is a process that the inside can see: not even one with
 * CAP_SYS_PTRACE finds anything of the host open (CVE-2016-9962).
 */
static int close_others(struct exec *e, struct error *err)
{
	int keep[] = { e->child_sync_fd, e->launcher_fd, e->filter_fd,
		       e->judge_fd, e->console_sock };
	int r = fd_close_others(3 + e->request->preserve_fds, keep,
				ARRAY_LEN(keep));

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot close the runtime's fds");
	return 0;
}

/*
 * It may be in our memory, of which it changes nothing, and then we wait for
 * it: what a terminal sends to all of us must not stop it.
 */
static void __attribute__((noreturn)) helper_main(void *data)
{
	struct exec *e = data;
	struct error err = ERROR_INIT;
	sigset_t all;
	int r;

	(void)sigfillset(&all);
	process_reset_signals(&all);
	if (join_init(e, &err) < 0 || close_others(e, &err) < 0)
		die(e, &err);
	r = e->beside ? 0 : spawn_sibling(e->child_sync_fd);
	if (r < 0) {
		(void)error_set(&err, ERR_SYSTEM, -r,
				"cannot start the process");
		die(e, &err);
	}
	process_main(e);
}

/*
 * A helper that shares our memory costs half of one that has a copy: all it
 * does is to join and to clone. Not with several threads, which would not wait
 * for it, and a time namespace takes a memory of one's own.
 */
static pid_t spawn_helper(struct exec *e, int cgroup_fd)
{
	bool share = spawn_is_single() && !e->beside &&
		     !(e->namespaces & CLONE_NEWTIME);
	struct clone_args args = {
		.flags = CLONE_PIDFD | (share ? CLONE_VM | CLONE_VFORK : 0),
		.pidfd = (uintptr_t)&e->pidfd,
		.exit_signal = SIGCHLD,
	};
	int dumpable = prctl(PR_GET_DUMPABLE);
	pid_t pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned int)cgroup_fd;
	}
	e->in_cgroup = cgroup_fd >= 0;
	pid = spawn_clone(&args, helper_main, e);
	/* It has given its controllers on: cgroup_child_join goes below. Or it
	 * is a scope: that asks systemd. */
	if (cgroup_fd >= 0 && (pid == -EBUSY || pid == -EACCES)) {
		args.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		e->in_cgroup = false;
		pid = spawn_clone(&args, helper_main, e);
	}
	/* It has become undumpable, and with it our memory. */
	if (share && dumpable == 1)
		(void)prctl(PR_SET_DUMPABLE, 1);
	return pid;
}

static int spawn_process(struct exec *e, struct error *err)
{
	const struct cgroup *cg = e->found->state->cgroup;
	int pair[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a socket pair");
	e->sync_fd = pair[0];
	e->child_sync_fd = pair[1];
	pid = spawn_helper(e, cg ? cgroup_membership_fd(cg) : -1);
	if (pid < 0)
		return error_set(err, ERR_SYSTEM, -pid,
				 "cannot start a process");
	cleanup_close(&e->child_sync_fd);
	e->child_sync_fd = -1;
	if (e->beside)
		e->pid = pid;
	r = e->beside ? 0
		      : spawn_follow(e->sync_fd, pid, &e->pidfd, NULL, &e->pid,
				     err);
	if (r == 0)
		log_debug(e->log, "'%s': exec is process %d",
			  e->found->state->name, (int)e->pid);
	return r;
}

/* The socket comes a moment after the command was executed. */
int exec_ask(struct exec *e, const char *verb, const char *args, const int *fd,
	     struct error *err)
{
	struct error local;
	int r;

	for (int i = 0;; i++) {
		local = (struct error)ERROR_INIT;
		e->listen = (struct control_call){
			.name = e->found->state->name,
			.verb = verb,
			.args = args,
			.pass_fd = fd,
		};
		r = control_begin(e->found->rundir, &e->listen, &local);
		if (r != -ENOENT || i == SOCKET_NAPS)
			break;
		(void)poll(NULL, 0, SOCKET_NAP_MS);
	}
	if (r < 0 && err)
		*err = local;
	return r;
}

int exec_ask_end(struct exec *e, struct error *err)
{
	int r = control_finish(e->found->rundir, &e->listen, err);

	e->listen = (struct control_call){ .name = NULL };
	cleanup_close(&e->traps_fd);
	e->traps_fd = -1;
	return r;
}

static int handle_message(struct exec *e, struct sync_msg *m, struct error *err)
{
	int r;

	switch (m->type) {
	case SYNC_ERROR:
		return sync_take_error(m->data, m->len, err);
	case SYNC_CONSOLE:
		cleanup_close(&e->console_master);
		e->console_master = m->fd;
		m->fd = -1;
		return 0;
	case SYNC_SECCOMP:
		r = listener_hand_over(e->pidfd, e->pid, m->value,
				       e->found->state, e->spec, err);
		return r == 0 ? sync_send(e->sync_fd, SYNC_SECCOMP_SENT, 0) : r;
	case SYNC_TRAPS:
		/* The question may have to be asked again: control/peer.h. */
		cleanup_close(&e->traps_fd);
		e->traps_fd = m->fd;
		m->fd = -1;
		return exec_ask(e, "listen", NULL, &e->traps_fd, err);
	/* Of tier C; else spawn_follow has read it. */
	case SYNC_PID:
		cleanup_close(&e->pidfd);
		e->pid = (pid_t)m->value;
		e->pidfd = m->fd;
		m->fd = -1;
		return 0;
	case SYNC_READY:
		return 0;
	default:
		break;
	}
	return error_say(err, ERR_SYSTEM, EPROTO, "unexpected message");
}

static int pump_until_ready(struct exec *e, struct error *err)
{
	struct sync_msg *m = malloc(sizeof(*m));
	int r = 0;

	if (!m)
		return error_set(err, ERR_SYSTEM, ENOMEM, "messages");
	do {
		r = sync_recv(e->sync_fd, m);
		if (r <= 0) {
			r = error_set(err, ERR_SYSTEM, r < 0 ? -r : ECHILD,
				      "the process ended while it was made");
			break;
		}
		r = handle_message(e, m, err);
		cleanup_close(&m->fd);
	} while (r == 0 && m->type != SYNC_READY);
	free(m);
	return r;
}

static bool is_supervised(const struct exec *e)
{
	const struct sandbox_state *s = e->found->state;

	return s->judged || (s->host && e->has_filter && e->filter.has_notify);
}

/* The supervisor fetches it itself, unless we have it: it runs with more rights
 * over us. */
static int bring_listener(void *data, const struct create_listener *l,
			  struct error *err)
{
	struct exec *e = data;
	char args[64];
	int r;

	(void)snprintf(args, sizeof(args), "{\"pid\":%d,\"fd\":%d}",
		       (int)l->pid, l->remote_fd);
	r = exec_ask(e, "listen", args, l->fd >= 0 ? &l->fd : NULL, err);
	if (r == 0)
		r = exec_ask_end(e, err);
	if (l->fd >= 0)
		(void)close(l->fd);
	return r;
}

static int launch(struct exec *e, struct error *err)
{
	const struct sandbox_exec *x = e->request;
	const struct create_listening listening = { bring_listener, NULL, e };
	int r = e->found->state->notify ? exec_guard_begin(e, err)
					: spawn_process(e, err);

	if (r == 0 && is_supervised(e) && sync_want_sender(e->sync_fd) < 0)
		r = error_set(err, ERR_SYSTEM, errno, "cannot ask who sends");
	if (r == 0)
		r = pump_until_ready(e, err);
	if (r == 0 && e->beside)
		r = exec_follow_beside(e, err);
	if (r == 0 && x->pid_file)
		r = create_write_pid_file(x->pid_file, e->pid, NULL, err);
	if (r == 0 && x->pidfd_socket)
		r = create_send_pidfd(x->pidfd_socket, e->pidfd, err);
	if (r == 0 && sync_send(e->sync_fd, SYNC_GO, 0) < 0)
		r = error_set(err, ERR_SYSTEM, EPIPE, "cannot start");
	if (r == 0)
		r = create_wait_exec(e->sync_fd, e->process->args.v[0],
				     is_supervised(e) ? &listening : NULL, err);
	/* It had all this time; without it what is trapped would wait. */
	if (r == 0 && e->listen.name)
		r = exec_ask_end(e, err);
	if (r < 0 && e->pid) {
		(void)pidfd_signal(e->pidfd, SIGKILL);
		while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return r;
}

/* The same calls as of what was created. */
static int get_traps(struct exec *e, struct error *err)
{
	struct plan p = { .spec = e->spec, .branch = e->found->state->store };

	mediate_want_bundle(&p);
	return create_get_traps(p.traps, &e->traps, err);
}

/* Likewise; and what keeps its filter in force keeps this. Until that is loaded
 * nobody inside may make the process its own. */
static int get_judged(struct exec *e, struct error *err)
{
	const struct sandbox_state *s = e->found->state;
	const struct request r = { .handled = s->handled };
	uint64_t caps =
		e->spec->process.caps.permitted | e->process->caps.permitted;

	if (caps & UINT64_C(1) << CAP_SYS_PTRACE || exec_has_tracer(e))
		return error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				 "nobody could decide about what exec starts: "
				 "with CAP_SYS_PTRACE others in '%s' could "
				 "change it before",
				 s->name);
	if ((s->judged & TRAP_NETWORK) &&
	    (e->process->apparmor_profile || e->process->selinux_label))
		return error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				 "what is done for the network calls of '%s' "
				 "would not be held to a security label",
				 s->name);
	e->process->no_new_privileges = true;
	return create_get_judged(&r, s->judged, NULL, &e->traps, &e->judge_fd,
				 err);
}

/* Before there is a process whose calls would wait for it in vain. */
static int check_supervisor(const struct exec *e, struct error *err)
{
	const char *name = e->found->state->name;

	if (!(is_supervised(e) || e->found->state->trapped) ||
	    !found_lost_server(e->found))
		return 0;
	(void)error_say(err, ERR_STATE, ESRCH,
			"cannot exec in '%s': its supervisor, which answers "
			"its calls, was killed",
			name);
	return error_hint(err,
			  "what is inside ends, too: sandlock delete "
			  "--force %s",
			  name);
}

static int open_all(struct exec *e, struct error *err)
{
	const struct sandbox_exec *x = e->request;
	int r = e->found->state->notify
			? 0
			: foreign_namespaces(e->found->state->init.pid, e->spec,
					     &e->namespaces, err);

	if (r == 0)
		r = exec_process_spec(x, e->spec, e->found->state->host,
				      &e->process, err);
	if (r < 0)
		return r;
	if (x->console_socket && !(e->process->terminal && x->detach))
		return error_say(err, ERR_USAGE, EINVAL,
				 "cannot use console socket if runc will not "
				 "detach or allocate tty");
	if (e->process->terminal && x->detach && !x->console_socket)
		return error_say(err, ERR_USAGE, EINVAL,
				 "cannot allocate tty if runc will detach "
				 "without setting console socket");
	if (x->console_socket) {
		e->console_sock = tty_console_connect(x->console_socket, err);
		if (e->console_sock < 0)
			return e->console_sock;
	}
	r = launcher_open(&e->launcher_fd, err);
	if (r == 0 && e->spec->seccomp) {
		r = create_get_filter(e->spec, NULL, &e->filter, &e->filter_fd,
				      err);
		e->has_filter = r == 0 && e->filter.n_insns > 0;
	}
	if (r == 0 && e->found->state->trapped)
		r = get_traps(e, err);
	if (r == 0 && e->found->state->judged)
		r = get_judged(e, err);
	if (r == 0)
		r = check_supervisor(e, err);
	return r == 0 && !is_supervised(e) ? exec_decide_beside(e, err) : r;
}

static int exec_found(struct exec *e, struct sandbox_result *ret,
		      struct error *err)
{
	auto_close int signal_fd = -1;
	sigset_t set;
	int r = check_status(e->found, e->request, err);

	if (r == 0)
		r = state_load_spec(e->found->slot, e->found->state, NULL,
				    &e->spec, err);
	if (r < 0)
		return r;
	e->init_pidfd = found_pidfd(e->found, err);
	if (e->init_pidfd < 0)
		return e->init_pidfd;
	r = open_all(e, err);
	if (r < 0)
		return r;
	run_forwarded_signals(&set);
	(void)sigprocmask(SIG_BLOCK, &set, &e->original_mask);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r = signal_fd < 0 ? error_set(err, ERR_SYSTEM, errno, "signalfd")
			  : launch(e, err);
	if (r == 0 && !e->request->detach)
		r = run_wait(e->found->state->notify ? 0 : e->pid, e->pidfd,
			     e->console_master, signal_fd, -1, NULL,
			     &ret->status, err);
	if (r == 0 && !e->request->detach && e->found->state->notify)
		exec_guard_status(e, &ret->status);
	(void)sigprocmask(SIG_SETMASK, &e->original_mask, NULL);
	return r;
}

int sandbox_exec(const struct sandbox_env *env, const char *name,
		 const struct sandbox_exec *x, struct sandbox_result *ret,
		 struct error *err)
{
	struct error local = ERROR_INIT;
	struct found f = { 0 };
	struct exec e = {
		.request = x,
		.found = &f,
		.log = env->log,
		.init_pidfd = -1,
		.sync_fd = -1,
		.child_sync_fd = -1,
		.status_fd = -1,
		.traps_fd = -1,
		.pidfd = -1,
		.console_sock = -1,
		.console_master = -1,
		.launcher_fd = -1,
		.filter_fd = -1,
		.judge_fd = -1,
	};
	int r = fd_ensure_std();

	*ret = (struct sandbox_result){ .outcome = SANDBOX_NO_BRANCH };
	if (r == 0)
		r = plan_check_preserved(x->preserve_fds, &local);
	if (r == 0)
		r = found_open(env, name, false, &f, &local);
	if (r == 0)
		r = exec_found(&e, ret, &local);
	exec_done(&e);
	found_done(&f);
	if (r < 0 && err)
		*err = local;
	return r;
}
