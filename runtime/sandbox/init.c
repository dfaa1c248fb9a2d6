/*
 * The child's side of create: from a fresh clone to the payload.
 *
 *	namespaces -> root file system -> (hooks) -> pivot -> identity
 *	  -> READY -> wait for GO or exec.fifo -> startContainer -> execute
 *
 * (In a run READY comes before the identity, see report_ready.)
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "hooks/hooks.h"
#include "kernel/cgroup.h"
#include "kernel/process.h"
#include "kernel/tty.h"
#include "sandbox/create.h"
#include "sandbox/launcher.h"
#include "sandbox/process.h"
#include "sandbox/sync.h"

static void __attribute__((noreturn)) die(int fd, const struct error *err)
{
	(void)sync_send_data(fd, SYNC_ERROR, err, sizeof(*err));
	_exit(1);
}

int init_enter_time_ns(const struct spec *s, struct error *err)
{
	auto_close int fd = -1;

	if (unshare(CLONE_NEWTIME) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a time namespace");
	if (process_write_time_offsets(&s->time_monotonic, &s->time_boottime,
				       err) < 0)
		return error_code(err);
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWTIME) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot enter the time namespace");
	return 0;
}

static int set_names(const struct spec *s, struct error *err)
{
	if (s->hostname && sethostname(s->hostname, strlen(s->hostname)) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set hostname '%s'", s->hostname);
	if (s->domainname &&
	    setdomainname(s->domainname, strlen(s->domainname)) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set domainname '%s'", s->domainname);
	return 0;
}

static int set_up_network(struct create *c, struct error *err)
{
	if (c->netns_fd >= 0) {
		if (setns(c->netns_fd, CLONE_NEWNET) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot enter the network namespace");
		return 0;
	}
	return c->plan->new_flags & CLONE_NEWNET ? process_loopback_up(err) : 0;
}

static int set_up_namespaces(struct create *c, struct error *err)
{
	const struct spec *s = c->plan->spec;
	int r = set_up_network(c, err);

	/* Root does it from outside: in a user namespace it may not. */
	if (r == 0 && s->process.has_oom_score_adj && !c->plan->privileged)
		r = process_set_oom_score_adj(0, s->process.oom_score_adj, err);
	if (r == 0 && c->state->cgroup)
		r = cgroup_child_join(
			c->state->cgroup,
			cgroup_membership_fd(c->state->cgroup) >= 0, err);
	/* A command of the host is the caller's in that, too. */
	if (r == 0 && !c->plan->host)
		process_reset_affinity();
	if (r == 0 && c->plan->new_cgroup_ns && unshare(CLONE_NEWCGROUP) < 0)
		r = error_set(err, ERR_SYSTEM, errno,
			      "cannot make a cgroup namespace");
	if (r == 0 && c->plan->new_time_ns && !c->time_is_set)
		r = init_enter_time_ns(s, err);
	if (r < 0)
		return r;
	/* From here on nobody inside may look into us (CVE-2016-9962). */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot become undumpable");
	if (setsid() < 0 && errno != EPERM)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a session");
	return set_names(s, err);
}

/* createContainer hooks are in the new root, as with runc. */
static int run_container_hooks(struct create *c, enum spec_hook_point point,
			       const char *status, char *const *envp,
			       struct error *err)
{
	const struct spec *s = c->plan->spec;
	auto_(buf) struct buf state = BUF_INIT;
	struct hook_context ctx = { .envp = envp, .log = c->env->log };
	char root[FD_PATH_MAX];
	int r;

	if (!s->hooks.n[point])
		return 0;
	if (point == SPEC_HOOK_CREATE_CONTAINER)
		ctx.cwd = fd_proc_path(rootfs_fd(c->rootfs), root);
	r = state_to_json(c->state, s, status, getpid(), false, &state, err);
	if (r < 0)
		return r;
	ctx.state = state.data;
	ctx.state_len = state.len;
	return hooks_run(&s->hooks, point, &ctx, err);
}

/*
 * Also where only createContainer follows: the parent has to know that hooks
 * have begun, so that a failure runs poststop.
 */
static int runtime_hooks(struct create *c, struct error *err)
{
	const struct spec_hooks *h = &c->plan->spec->hooks;
	int r;

	if (!h->n[SPEC_HOOK_PRESTART] && !h->n[SPEC_HOOK_CREATE_RUNTIME] &&
	    !h->n[SPEC_HOOK_CREATE_CONTAINER] && !c->plan->spec->n_net_devices)
		return 0;
	r = sync_send(c->child_sync_fd, SYNC_BUILT, 0);
	if (r == 0)
		r = sync_expect(c->child_sync_fd, SYNC_HOOKED);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "the runtime went away during its hooks");
	return 0;
}

int init_console(struct create *c, struct error *err)
{
	const struct spec_process *p = &c->plan->spec->process;
	auto_close int master_fd = -1;
	auto_close int slave_fd = -1;
	int r;

	if (!c->plan->spec->has_process || !p->terminal)
		return 0;
	r = c->plan->notify
		    ? tty_open_host_pair(p->console_width, p->console_height,
					 &master_fd, &slave_fd, err)
		    : rootfs_open_console(c->rootfs, &master_fd, &slave_fd,
					  err);
	if (r < 0)
		return r;
	if (!c->plan->beside)
		return sync_hand_terminal(c->child_sync_fd, c->console_sock,
					  master_fd, slave_fd, p->uid, err);
	r = sync_give_terminal(c->child_sync_fd, c->console_sock, master_fd,
			       slave_fd, p->uid, err);
	return r == 0 ? tty_use(slave_fd, err) : r;
}

static int take_branch(void *data, int *ret_fd, struct error *err)
{
	const struct create *c = data;
	int r = sync_expect_fd(c->child_sync_fd, SYNC_BRANCH, ret_fd);

	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "the branch was not handed over")
		     : 0;
}

static int build_root(struct create *c, struct error *err)
{
	int r = rootfs_build(c->rootfs, take_branch, c, err);

	if (r == 0)
		r = runtime_hooks(c, err);
	if (r == 0)
		r = run_container_hooks(c, SPEC_HOOK_CREATE_CONTAINER,
					"creating", NULL, err);
	if (r == 0)
		r = rootfs_write_sysctls(c->rootfs, err);
	if (r == 0)
		r = init_console(c, err);
	return r == 0 ? rootfs_enter(c->rootfs, err) : r;
}

static int send_listener(void *data, int fd, struct error *err)
{
	const struct create *c = data;

	return sync_hand_listener(c->child_sync_fd, fd, err);
}

static int send_traps(void *data, int fd, struct error *err)
{
	const struct create *c = data;
	int r = sync_send_fd(c->child_sync_fd, SYNC_TRAPS, fd);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "the seccomp listener was not handed over");
	return 0;
}

static int report_made(struct create *c, struct error *err)
{
	const char *made;
	size_t n, part;
	int r = 0;

	if (!c->branch)
		return 0;
	for (rootfs_made(c->rootfs, &made, &n); r == 0 && n; n -= part) {
		part = n < SYNC_DATA_MAX ? n : SYNC_DATA_MAX;
		r = sync_send_data(c->child_sync_fd, SYNC_MADE, made, part);
		made += part;
	}
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot report what was made");
	return 0;
}

static void end_with(int sig)
{
	_exit(128 + sig);
}

/* For a pid 1 the kernel's default is to ignore them. */
static void mind_signals(void (*handler)(int))
{
	static const int ends[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		(void)signal(ends[i], handler);
}

/*
 * GO says that all is written down: an init whose parent was killed before it
 * could do that does not wait for a start that nobody could ask for.
 */
static void wait_for_start(struct create *c)
{
	char byte;

	if (sync_expect(c->child_sync_fd, SYNC_GO) < 0)
		_exit(1);
	if (c->inline_start || c->plan->beside)
		return;
	if (!create_is_relayed(c)) {
		cleanup_close(&c->child_sync_fd);
		c->child_sync_fd = -1;
	}
	mind_signals(end_with);
	if (fd_read_full(c->fifo_fd, &byte, 1) != 1)
		_exit(1);
	mind_signals(SIG_DFL);
	(void)close(c->fifo_fd);
}

/* After READY errors go where start waits for them. */
static void __attribute__((noreturn))
fail_start(struct create *c, int fd, const struct error *err)
{
	if (c->inline_start || c->plan->beside)
		die(fd, err);
	(void)fd_write_full(fd, err, sizeof(*err));
	_exit(1);
}

/*
 * What the host gave us (directories, locks, namespaces) does not stay open
 * in a sandbox that waits to be started.
 */
static int close_others(struct create *c, const struct process_setup *s,
			struct error *err)
{
	unsigned int listen = s->pass_listen_fds ? process_listen_fds() : 0;
	unsigned int first = 3 + s->preserve_fds + listen;
	int keep[] = { c->child_sync_fd, c->launcher_fd,
		       c->filter_fd,	 c->judge_fd,
		       c->fifo_fd,	 c->status_fd,
		       s->proc_fd,	 s->go_fd ? s->fail_fd : -1 };
	int r = fd_close_others(first, keep, ARRAY_LEN(keep));

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot close the runtime's fds");
	return 0;
}

static void enter_process(struct create *c, struct process_setup *s)
{
	struct error err = ERROR_INIT;

	if (!c->plan->spec->has_process)
		return;
	if (process_enter(s, &err) < 0)
		die(c->child_sync_fd, &err);
	if (s->made_cwd && rootfs_add_made(c->rootfs, s->made_cwd) < 0) {
		(void)error_set(&err, ERR_SYSTEM, ENOMEM, "process.cwd");
		die(c->child_sync_fd, &err);
	}
}

static void prepare_process(struct create *c, struct process_setup *s)
{
	struct error err = ERROR_INIT;

	if (c->plan->spec->has_process && process_prepare(s, &err) < 0)
		die(c->child_sync_fd, &err);
}

/*
 * What was made is known, and from here on nothing is: the parent puts it on
 * record. In a run it does so while we become the payload's user, since it
 * reads our errors until the payload is executed; not where it has to take the
 * listener of the filter first.
 */
static void report_ready(struct create *c, struct process_setup *s)
{
	bool early = c->inline_start && !c->plan->beside &&
		     !(c->filter.has_notify && s->send_listener);
	struct error err = ERROR_INIT;

	if (!early)
		prepare_process(c, s);
	if (report_made(c, &err) < 0)
		die(c->child_sync_fd, &err);
	if (sync_send(c->child_sync_fd, SYNC_READY, 0) < 0)
		_exit(1);
	if (early)
		prepare_process(c, s);
}

/*
 * Everything that is cloned from here on is in the pid namespace, where others
 * may look into it: that is the process alone.
 */
static int clone_beside(struct create *c, struct process_setup *s,
			struct error *err)
{
	if (setns(c->plan->join_fds[SPEC_NS_PID], CLONE_NEWPID) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot join pid namespace '%s'",
				 c->plan->spec->ns[SPEC_NS_PID].path);
	s->beside = true;
	if (!c->inline_start) {
		s->go_fd = c->fifo_fd;
		s->fail_fd = c->status_fd;
		c->status_fd = c->child_sync_fd;
	}
	return 0;
}

void init_main(struct create *c)
{
	const struct spec *spec = c->plan->spec;
	struct error err = ERROR_INIT;
	char keyring[300];
	bool early = c->traps.n_insns && !c->plan->judged;
	struct process_setup s = {
		.process = &spec->process,
		.spec = spec,
		.filter = c->has_filter ? &c->filter : NULL,
		.filter_fd = c->filter_fd,
		.launcher_fd = c->launcher_fd,
		.proc_fd = -1,
		.keyring = c->bundle->no_new_keyring ? NULL : keyring,
		.preserve_fds = c->bundle->preserve_fds,
		/* A host command gets no fd that nobody named. */
		.pass_listen_fds = !c->plan->host,
		.die_with_parent = c->die_with_parent,
		.init = c->plan->host,
		.makes_cwd = true,
		.cwd_is_wish = c->plan->cwd_is_wish,
		.workdirs = &c->plan->workdirs,
		.send_listener = c->plan->host ? NULL : send_listener,
		.traps = early ? &c->traps : NULL,
		.judge = c->plan->judged ? &c->traps : NULL,
		.judge_fd = c->judge_fd,
		.send_traps = send_traps,
		.data = c,
		.log = c->env->log,
	};

	(void)snprintf(keyring, sizeof(keyring), "_ses.%s", c->plan->name);
	process_reset_signals(&c->original_mask);
	/* Hooks of ours may outlive a create that is killed. */
	if (c->slot)
		rundir_forget_lock(c->slot);
	if (create_is_relayed(c))
		cleanup_close(&c->status_fd);
	if (c->inline_start || create_is_relayed(c))
		c->status_fd = c->child_sync_fd;
	if (set_up_namespaces(c, &err) < 0 || build_root(c, &err) < 0)
		die(c->child_sync_fd, &err);
	if (spec->process.apparmor_profile || spec->process.selinux_label) {
		s.proc_fd = rootfs_proc_fd(c->rootfs, &err);
		if (s.proc_fd < 0)
			die(c->child_sync_fd, &err);
	}
	if (c->plan->beside && clone_beside(c, &s, &err) < 0)
		die(c->child_sync_fd, &err);
	if (close_others(c, &s, &err) < 0)
		die(c->child_sync_fd, &err);
	enter_process(c, &s);
	report_ready(c, &s);
	wait_for_start(c);
	if (!spec->has_process) {
		(void)error_say(&err, ERR_STATE, EINVAL,
				"config.json has no process to start");
		fail_start(c, c->status_fd, &err);
	}
	if (run_container_hooks(c, SPEC_HOOK_START_CONTAINER, "created", s.env,
				&err) < 0)
		fail_start(c, c->status_fd, &err);
	(void)process_execute(&s, c->status_fd, &err);
	fail_start(c, c->status_fd, &err);
}
