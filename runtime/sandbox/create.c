/*
 * The parent's side of making a sandbox. Everything that is made is in struct
 * create, so that one function undoes it, whatever the step that failed.
 */
#include "sandbox/create.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "hooks/hooks.h"
#include "kernel/cgroup.h"
#include "kernel/interrupt.h"
#include "kernel/netdev.h"
#include "kernel/process.h"
#include "kernel/tty.h"
#include "kernel/userns.h"
#include "sandbox/asked_bundle.h"
#include "sandbox/beside.h"
#include "sandbox/exec.h"
#include "sandbox/host.h"
#include "sandbox/launcher.h"
#include "sandbox/listener.h"
#include "sandbox/mediate.h"
#include "sandbox/process.h"
#include "sandbox/scratch.h"
#include "sandbox/sdnotify.h"
#include "sandbox/sync.h"
#include "sandbox/waiter.h"
#include "spec/request.h"
#include "supervise/approvals.h"
#include "supervise/denials.h"

bool create_is_relayed(const struct create *c)
{
	return c->plan->judged && !c->inline_start;
}

static int fill_new_state(struct create *c, struct error *err)
{
	struct sandbox_state *s = calloc(1, sizeof(*s));
	const struct spec *spec = c->plan->spec;

	if (!s)
		return error_set(err, ERR_SYSTEM, ENOMEM, "state");
	c->state = s;
	s->name = strdup(c->plan->name);
	s->bundle = strdup(spec->bundle);
	if (spec_strings_add_all(&s->workdirs, &c->plan->workdirs) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "state");
	s->rootfs = strdup(c->plan->lowers.n ? c->plan->lowers.v[0]
					     : spec->root_path);
	if (spec->has_process)
		s->command = buf_join_words(spec->process.args.v);
	s->owner = userns_initial_uid();
	s->pid_ns = c->plan->own_pid_ns;
	s->host = c->plan->host;
	s->notify = c->plan->notify;
	s->trapped = c->traps.n_insns && !c->plan->judged &&
		     !c->bundle->no_control_socket;
	s->judged = c->plan->judged ? c->plan->traps : 0;
	if (s->judged &&
	    spec_strings_add_all(&s->handled, &c->command->request->handled) <
		    0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "state");
	s->remaps = c->command && c->command->request->port_remap;
	s->ephemeral = c->die_with_parent && !c->bundle->keep;
	if (c->branch)
		s->store = strdup(store_path(c->store));
	if (!s->name || !s->bundle || !s->rootfs || (c->branch && !s->store))
		return error_set(err, ERR_SYSTEM, ENOMEM, "state");
	if (state_now(&s->created) < 0 || proc_boot_id(s->boot_id) < 0)
		return error_set(err, ERR_SYSTEM, errno, "state");
	return 0;
}

/*
 * Before anything is made that a killed create would leave: clearing up after
 * it reads here which cgroups those are.
 */
static int write_config(struct create *c, struct error *err)
{
	int dir_fd, r;

	if (!c->slot)
		return 0;
	dir_fd = rundir_slot_fd(c->slot);
	r = fd_write_atomic(dir_fd, "config.json", c->plan->config.data,
			    c->plan->config.len, 0600, false);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot write '%s'",
				 rundir_slot_path(c->slot));
	return create_is_relayed(c)
		       ? asked_bundle_write(c->slot, c->command->request, err)
		       : 0;
}

/* Nobody reads it before state.json is there. */
static int write_filter(struct create *c, struct error *err)
{
	int r;

	if (!c->slot || !c->plan->host)
		return 0;
	r = host_config_add_filter(&c->plan->config, c->plan->spec->seccomp,
				   err);
	return r == 0 ? write_config(c, err) : r;
}

/*
 * The fifos of `start`: it opens exec.status for reading, then writes a byte
 * to exec.fifo. Init gets them open: in a user namespace it could not reach
 * them. Read-write first, which never blocks; the status end is write-only, so
 * that start sees its end.
 */
static int make_fifos(struct create *c, struct error *err)
{
	auto_close int both = -1;
	int dir_fd;

	if (c->inline_start)
		return 0;
	dir_fd = rundir_slot_fd(c->slot);
	if (mkfifoat(dir_fd, "exec.fifo", 0600) < 0 ||
	    mkfifoat(dir_fd, "exec.status", 0600) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make the start fifo of '%s'",
				 c->plan->name);
	c->fifo_fd = openat(dir_fd, "exec.fifo", O_RDWR | O_CLOEXEC);
	both = openat(dir_fd, "exec.status", O_RDWR | O_CLOEXEC);
	if (both >= 0)
		c->status_fd =
			openat(dir_fd, "exec.status", O_WRONLY | O_CLOEXEC);
	if (c->fifo_fd < 0 || c->status_fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot open the start fifo of '%s'",
				 c->plan->name);
	return 0;
}

/* Only who sees no cgroup but its own, and may write there. */
static bool may_divide_cgroup(const struct spec *s)
{
	if (s->ns[SPEC_NS_CGROUP].want != SPEC_NS_NEW)
		return false;
	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].kind == SPEC_MOUNT_CGROUP)
			return !(s->mounts[i].set & MS_RDONLY);
	return false;
}

/* config-linux.md, "Cgroup ownership". A sandbox can do without. */
static void delegate_cgroup(const struct create *c)
{
	const struct spec *s = c->plan->spec;
	struct error err = ERROR_INIT;
	uint32_t uid = s->process.uid;

	if (!c->state->cgroup || !may_divide_cgroup(s))
		return;
	if (s->ns[SPEC_NS_USER].want != SPEC_NS_INHERIT &&
	    idmap_to_outside(&s->idmap.uids, uid, &uid) < 0)
		return;
	if (cgroup_delegate(c->state->cgroup, uid, &err) < 0)
		log_warn(c->env->log, "%s", err.msg);
}

static int make_cgroup(struct create *c, struct error *err)
{
	const struct spec *s = c->plan->spec;
	struct cgroup_options o = {
		.path = s->cgroups_path,
		.name = c->plan->name,
		.resources = s->has_resources ? &s->resources : NULL,
		.rootless = !c->plan->privileged || !c->plan->initial,
		.systemd = c->bundle->systemd_cgroup,
		.annotations = s->annotations,
		.n_annotations = s->n_annotations,
		.log = c->env->log,
	};
	int r;

	if (c->bundle->disable_cgroups)
		return 0;
	r = cgroup_make(&o, &c->state->cgroup, err);
	/* Names are unique below a runtime directory, cgroups on a machine: a
	 * name that was made up is made up again. */
	if (r == -EBUSY && c->plan->host)
		return error_say(err, ERR_EXISTS, EEXIST,
				 "the cgroup of a sandbox '%s' is in use",
				 c->plan->name);
	if (r == 0)
		delegate_cgroup(c);
	return r;
}

static int get_filter(struct create *c, struct error *err)
{
	const struct spec *s = c->plan->spec;
	int r;

	if (!s->seccomp)
		return 0;
	r = create_get_filter(s, c->env->log, &c->filter, &c->filter_fd, err);
	c->has_filter = r == 0 && c->filter.n_insns > 0;
	return r;
}

/* Those of a host command are in its filter. */
static int get_traps(struct create *c, struct error *err)
{
	const struct plan *p = c->plan;

	if (p->host)
		return 0;
	if (p->judged)
		return create_get_judged(c->command->request, p->traps,
					 c->env->log, &c->traps, &c->judge_fd,
					 err);
	return create_get_traps(p->traps, &c->traps, err);
}

static int make_rootfs(struct create *c, struct error *err)
{
	const struct plan *p = c->plan;
	size_t n_roots = c->branch ? branch_n_roots(c->branch) : 0, n = 0;
	auto_free const char **hidden = calloc(n_roots + 3, sizeof(*hidden));
	struct rootfs_options o = {
		.spec = p->spec,
		.branch = c->branch,
		.cgroup = c->state->cgroup,
		.new_userns = p->spec->ns[SPEC_NS_USER].want != SPEC_NS_INHERIT,
		.userns_fd = p->join_fds[SPEC_NS_USER],
		.procfs_pidns_fd = p->beside ? p->join_fds[SPEC_NS_PID] : 0,
		.privileged = p->privileged,
		.no_pivot = c->bundle->no_pivot,
		.skeleton = p->skeleton,
		.chroot = p->chroot,
		.n_refusing = p->n_refusing,
		.host_sources = p->host,
		.hidden = hidden,
		.hosts = p->hosts,
		.log = c->env->log,
	};

	if (!hidden)
		return error_set(err, ERR_SYSTEM, ENOMEM, "root file system");
	if (c->rundir)
		hidden[n++] = rundir_path(c->rundir);
	if (c->store)
		hidden[n++] = store_path(c->store);
	for (size_t i = 0; i < n_roots; i++) {
		const char *s = branch_storage(branch_root(c->branch, i));

		if (!path_is_under(s, store_path(c->store)))
			hidden[n++] = s;
	}
	return rootfs_new(&o, &c->rootfs, err);
}

/* What can fail for the caller's mistakes comes first: nothing is made yet. */
static int open_endpoints(struct create *c, struct error *err)
{
	int r;

	if (c->bundle->console_socket) {
		r = tty_console_connect(c->bundle->console_socket, err);
		if (r < 0)
			return r;
		c->console_sock = r;
	}
	return c->plan->notify ? 0 : launcher_open(&c->launcher_fd, err);
}

/*
 * One that belongs to a user namespace of the sandbox's own can only be made
 * there.
 */
static void begin_netns(struct create *c)
{
	int flags = c->plan->new_flags;

	if ((flags & CLONE_NEWNET) && !(flags & CLONE_NEWUSER) &&
	    !c->plan->detour)
		netns_begin(&c->plan->netns);
}

static bool gives_branch(const struct create *c)
{
	return c->rootfs && rootfs_makes_branch(c->rootfs);
}

/* While init mounts what comes before the branch, or while we would wait. */
static bool makes_branch_beside(const struct create *c)
{
	return gives_branch(c) && !netns_is_pending(&c->plan->netns);
}

static int make_all(struct create *c, struct error *err)
{
	int r;

	begin_netns(c);
	r = open_endpoints(c, err);
	if (r == 0)
		r = create_open_places(c, err);
	if (r == 0)
		r = get_filter(c, err);
	if (r == 0)
		r = get_traps(c, err);
	if (r == 0)
		r = create_claim_name(c, err);
	if (r == 0)
		r = fill_new_state(c, err);
	if (r == 0)
		r = write_config(c, err);
	if (r == 0)
		r = make_fifos(c, err);
	if (r == 0 && !c->plan->host)
		r = sdnotify_mount(c->slot, c->plan->spec, err);
	if (r == 0)
		r = make_cgroup(c, err);
	if (r == 0 && c->plan->notify)
		r = scratch_make(c, err);
	else if (r == 0)
		r = make_rootfs(c, err);
	if (r == 0 && !makes_branch_beside(c))
		r = create_make_branch(c, err);
	return r;
}

static int run_runtime_hooks(struct create *c, struct error *err)
{
	const struct spec *s = c->plan->spec;
	auto_(buf) struct buf state = BUF_INIT;
	struct hook_context ctx = { .cwd = s->bundle,
				    .interrupt = c->interrupt,
				    .log = c->env->log };
	int r = state_to_json(c->state, s, "creating", c->state->init.pid,
			      false, &state, err);

	if (r < 0)
		return r;
	ctx.state = state.data;
	ctx.state_len = state.len;
	c->hooks_begun = true;
	r = hooks_run(&s->hooks, SPEC_HOOK_PRESTART, &ctx, err);
	if (r == 0)
		r = hooks_run(&s->hooks, SPEC_HOOK_CREATE_RUNTIME, &ctx, err);
	return r;
}

int create_check_interrupt(const struct create *c, struct error *err)
{
	int sig = interrupt_came(c->interrupt);

	return sig ? error_say(err, ERR_SYSTEM, EINTR,
			       "SIG%s interrupted the making of '%s'",
			       spec_signal_name(sig), c->plan->name)
		   : 0;
}

/* The kernel, for want of memory, or somebody. */
static int hint_killed(const struct create *c, struct error *err)
{
	const struct spec *s = c->plan->spec;

	if (s->has_resources && s->resources.has_mem_limit &&
	    s->resources.mem_limit >= 0)
		return error_hint(err,
				  "is the memory limit of %lld bytes too low?",
				  (long long)s->resources.mem_limit);
	return error_hint(err, "somebody has killed it, or memory is short: "
			       "dmesg knows of the latter");
}

int create_say_child_died(struct create *c, struct error *err)
{
	struct exit_status st = { EXIT_UNKNOWN, 0 };

	if (c->pidfd >= 0 && pidfd_wait(c->pidfd, 1000) == 1)
		pidfd_exit_status(c->pidfd, c->state->init.pid, &st);
	if (st.kind == EXIT_SIGNAL) {
		(void)error_say(err, ERR_SYSTEM, ECHILD,
				"init was killed by signal %d while '%s' was "
				"made",
				st.value, c->plan->name);
		return st.value == SIGKILL ? hint_killed(c, err) : -ECHILD;
	}
	return error_say(err, ERR_SYSTEM, ECHILD,
			 "init ended while '%s' was made", c->plan->name);
}

static int answer(struct create *c, enum sync_type type, struct error *err)
{
	int r = sync_send(c->sync_fd, type, 0);

	if (r == -EPIPE || r == -ECONNRESET)
		return create_say_child_died(c, err);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot answer init") : 0;
}

static int handle_message(struct create *c, struct sync_msg *m,
			  struct error *err)
{
	int r;

	switch (m->type) {
	case SYNC_ERROR:
		return sync_take_error(m->data, m->len, err);
	case SYNC_BUILT:
		r = netdev_move(c->plan->spec->net_devices,
				c->plan->spec->n_net_devices,
				c->state->init.pid, err);
		if (r == 0)
			r = run_runtime_hooks(c, err);
		return r == 0 ? answer(c, SYNC_HOOKED, err) : r;
	case SYNC_CONSOLE:
		cleanup_close(&c->console_master);
		c->console_master = m->fd;
		m->fd = -1;
		return 0;
	case SYNC_SECCOMP:
		r = listener_hand_over(c->pidfd, c->state->init.pid, m->value,
				       c->state, c->plan->spec, err);
		return r == 0 ? answer(c, SYNC_SECCOMP_SENT, err) : r;
	case SYNC_TRAPS:
		cleanup_close(&c->traps_fd);
		cleanup_close(&c->notify_fd);
		c->traps_fd = m->fd;
		m->fd = -1;
		return 0;
	case SYNC_MADE:
		if (c->made.len > LIMIT_STATE_BYTES)
			return error_say(err, ERR_SYSTEM, E2BIG,
					 "init made more than can be "
					 "remembered");
		buf_add(&c->made, m->data, m->len);
		return buf_failed(&c->made)
			       ? error_set(err, ERR_SYSTEM, ENOMEM, "branch")
			       : 0;
	case SYNC_READY:
		return 0;
	case SYNC_MAP:
	case SYNC_PID:
	case SYNC_JOINED:
	case SYNC_MAPPED:
	case SYNC_HOOKED:
	case SYNC_BRANCH:
	case SYNC_SECCOMP_SENT:
	case SYNC_GO:
		break;
	}
	return error_say(err, ERR_SYSTEM, EPROTO,
			 "init sent an unexpected message");
}

/*
 * Handles messages of the child until @until arrives. The child's error
 * becomes ours; a child that dies silently is an error too.
 */
static int pump(struct create *c, int until, struct error *err)
{
	struct sync_msg *m = malloc(sizeof(*m));
	int r = 0;

	if (!m)
		return error_set(err, ERR_SYSTEM, ENOMEM, "messages");
	do {
		(void)interrupt_wait(c->interrupt, c->sync_fd);
		r = create_check_interrupt(c, err);
		if (r < 0)
			break;
		m->fd = -1;
		r = sync_recv(c->sync_fd, m);
		if (r < 0)
			(void)error_set(err, ERR_SYSTEM, -r,
					"cannot read from init");
		else if (r == 0)
			r = create_say_child_died(c, err);
		else
			r = handle_message(c, m, err);
		cleanup_close(&m->fd);
	} while (r == 0 && (int)m->type != until);
	free(m);
	return r;
}

static int record_branch(struct create *c, struct error *err)
{
	size_t n = 0, i = 0;
	auto_free const char **paths = NULL;
	int r;

	if (!c->branch)
		return 0;
	for (size_t at = 0; at < c->made.len;
	     at += strlen(c->made.data + at) + 1)
		n++;
	paths = calloc(n + 1, sizeof(*paths));
	if (!paths)
		return error_set(err, ERR_SYSTEM, ENOMEM, "branch");
	for (size_t at = 0; at < c->made.len;
	     at += strlen(c->made.data + at) + 1)
		paths[i++] = c->made.data + at;
	r = branch_set_running(c->branch, paths, n, &c->state->init, err);
	return r;
}

static int write_pids(struct create *c, struct error *err)
{
	const struct sandbox_state *s = c->state;

	return rundir_write_pids(c->slot, s->init.pid,
				 c->die_with_parent ? getpid() : s->init.pid,
				 err);
}

static int give_branch(void *data, int fd, struct error *err)
{
	struct create *c = data;
	int r = sync_send_fd(c->sync_fd, SYNC_BRANCH, fd);

	/* It died: what it has said of that is read later. */
	return r < 0 && r != -EPIPE && r != -ECONNRESET
		       ? error_set(err, ERR_SYSTEM, -r,
				   "cannot hand over the branch")
		       : 0;
}

static int mount_branch(struct create *c, struct error *err)
{
	int r;

	if (!gives_branch(c))
		return 0;
	r = create_make_branch(c, err);
	return r == 0 ? rootfs_make_branch(c->rootfs, give_branch, c, err) : r;
}

/* Until now init was who makes it. */
static int follow_beside(struct create *c, struct error *err)
{
	struct sandbox_state *s = c->state;
	struct beside b = {
		.sync_fd = c->sync_fd,
		.name = s->name,
		.process = &c->plan->spec->process,
		.pid = s->init.pid,
		.pidfd = c->pidfd,
	};
	int r = beside_follow(&b, err);

	c->pidfd = b.pidfd;
	if (r == 0 && proc_id_of(b.pid, &s->init) < 0)
		r = create_say_child_died(c, err);
	if (r == 0 && c->slot)
		r = write_pids(c, err);
	return r;
}

static int drive_init(struct create *c, struct error *err)
{
	struct sandbox_state *s = c->state;
	int r = spawn_init(c, &s->init.pid, err);

	if (r == 0)
		r = mount_branch(c, err);
	if (r == 0)
		r = write_filter(c, err);
	if (r < 0)
		return r;
	r = proc_id_of(s->init.pid, &s->init);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot identify init of '%s'", s->name);
	log_debug(c->env->log, "'%s': init is process %d%s%s", s->name,
		  (int)s->init.pid, c->branch ? ", its branch " : "",
		  c->branch ? branch_dir(c->branch) : "");
	if (c->plan->privileged && c->plan->spec->process.has_oom_score_adj) {
		r = process_set_oom_score_adj(
			s->init.pid, c->plan->spec->process.oom_score_adj, err);
		if (r < 0)
			return r;
	}
	/* Recorded before it can do anything but mount, for which it waits for
	 * us: a killed create can be undone by delete --force. */
	r = c->slot ? state_write(c->slot, s, err) : 0;
	if (r == 0 && c->slot)
		r = write_pids(c, err);
	if (r == 0 && c->branch)
		branch_expect_running(c->branch);
	if (r == 0 && c->plan->host)
		r = mediation_begin(c, err);
	rootfs_leave_sources(c->rootfs);
	if (r == 0)
		r = pump(c, SYNC_READY, err);
	if (r == 0 && c->plan->beside)
		r = follow_beside(c, err);
	if (r == 0)
		r = record_branch(c, err);
	if (r == 0 && c->slot)
		r = exec_note_created(c->rundir, c->plan->spec, s->init.pid,
				      err);
	if (r < 0)
		return r;
	s->ready = true;
	log_debug(c->env->log, "'%s': ready", s->name);
	r = create_check_interrupt(c, err);
	if (r < 0)
		return r;
	/* In a foreground run start_inline does it, beside the exec. */
	if (!c->die_with_parent)
		r = state_write(c->slot, s, err);
	if (r == 0 && c->bundle->pid_file)
		r = create_write_pid_file(c->bundle->pid_file, s->init.pid,
					  c->interrupt, err);
	if (r == 0 && c->bundle->pidfd_socket)
		r = create_send_pidfd(c->bundle->pidfd_socket, c->pidfd, err);
	if (r == 0 && !c->inline_start)
		r = answer(c, SYNC_GO, err);
	return r;
}

int create_begin(struct create *c, const struct sandbox_env *env,
		 const struct sandbox_bundle *b, struct error *err)
{
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;
	int r;

	c->env = env;
	c->bundle = b;
	create_init(c);
	r = fd_ensure_std();
	if (r < 0)
		return error_set(e, ERR_SYSTEM, -r, "cannot open /dev/null");
	r = c->plan ? 0 : asked_bundle_decide(c, e);
	if (r == 0)
		r = make_all(c, e);
	if (r == 0)
		r = drive_init(c, e);
	if (r < 0) {
		create_undo(c);
		return error_code(e);
	}
	/* Explicitly: the child's copy of the fd would keep it. */
	if (!c->die_with_parent)
		rundir_unlock(c->slot);
	return 0;
}

static int create_detached(struct create *c, const struct sandbox_env *env,
			   const struct sandbox_bundle *b, struct error *err)
{
	int r = create_begin(c, env, b, err);

	if (r == 0 && waiter_is_due(c)) {
		r = waiter_spawn(c, err);
		if (r < 0)
			create_undo(c);
	}
	create_done(c);
	return r;
}

int sandbox_create(const struct sandbox_env *env,
		   const struct sandbox_bundle *b, struct error *err)
{
	struct interrupt interrupt = INTERRUPT_INIT;
	struct create c = { .interrupt = &interrupt };
	struct sandbox_bundle detached = *b;
	sigset_t set;
	int r;

	detached.detach = true;
	r = plan_check_preserved(b->preserve_fds + process_listen_fds(), err);
	if (r < 0)
		return r;
	run_forwarded_signals(&set);
	(void)sigprocmask(SIG_BLOCK, &set, &c.original_mask);
	r = interrupt_open(&interrupt);
	r = r < 0 ? error_set(err, ERR_SYSTEM, -r, "signalfd")
		  : create_detached(&c, env, &detached, err);
	interrupt_close(&interrupt);
	(void)sigprocmask(SIG_SETMASK, &c.original_mask, NULL);
	return r;
}
