/* The end of a create: what undoes it whatever the step that failed. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hooks/hooks.h"
#include "kernel/cgroup.h"
#include "kernel/interrupt.h"
#include "kernel/pidfd.h"
#include "sandbox/create.h"
#include "sandbox/guard.h"
#include "sandbox/live_limits.h"
#include "sandbox/mediate.h"
#include "sandbox/scratch.h"
#include "supervise/approvals.h"
#include "supervise/denials.h"
#include "supervise/denied_paths.h"

static void end_init(struct create *c)
{
	pid_t pid = c->state->init.pid;

	if (c->state->cgroup && !c->state->pid_ns &&
	    cgroup_has_membership(c->state->cgroup))
		(void)cgroup_kill(c->state->cgroup, 2000, NULL);
	if (pid <= 0)
		return;
	if (c->pidfd >= 0)
		(void)pidfd_signal(c->pidfd, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void run_poststop(struct create *c)
{
	auto_(buf) struct buf state = BUF_INIT;
	struct hook_context ctx = { .cwd = c->plan->spec->bundle,
				    .interrupt = c->interrupt,
				    .log = c->env->log };

	/* It is for the hooks only what comes while one runs. */
	(void)interrupt_take(c->interrupt);
	if (state_to_json(c->state, c->plan->spec, "stopped", 0, false, &state,
			  NULL) < 0)
		return;
	ctx.state = state.data;
	ctx.state_len = state.len;
	(void)hooks_run(&c->plan->spec->hooks, SPEC_HOOK_POSTSTOP, &ctx, NULL);
}

bool create_is_later(const struct create *c)
{
	return c->command && c->command->join;
}

void create_undo(struct create *c)
{
	const struct exit_status unknown = { EXIT_UNKNOWN, 0 };
	struct branch_settled settled;
	bool ours = false;

	if (c->state) {
		end_init(c);
		/* From here on there are clones again, so one thread. */
		mediation_end(c->mediation);
		if (c->plan->notify)
			(void)guard_wait_rest(&c->strangers, c->state->name,
					      NULL);
		scratch_remove(c->state);
		if (c->state->cgroup)
			(void)cgroup_remove(c->state->cgroup, NULL);
	}
	/* It holds the overlay, which has to be gone. */
	rootfs_free(take_ptr(&c->rootfs));
	cleanup_close(&c->mounts_fd);
	c->mounts_fd = -1;
	/* What the payload has written waits for a decision all the same, and
	 * what earlier stages have for whoever it belongs to. */
	if (c->branch && create_is_later(c))
		(void)branch_hand_on(c->branch, &c->command->owner, NULL);
	else if (c->branch && c->executed)
		(void)branch_settle(c->branch, &unknown, c->state->pid_ns,
				    &settled, NULL);
	else if (c->branch)
		branch_discard(c->branch);
	if (c->slot)
		(void)rundir_take(c->slot, &ours, NULL);
	if (ours && c->hooks_begun)
		run_poststop(c);
}

void create_init(struct create *c)
{
	c->filter_fd = c->judge_fd = c->launcher_fd = -1;
	c->sync_fd = c->child_sync_fd = c->join_fd = c->child_join_fd = -1;
	c->console_sock = c->console_master = c->pidfd = -1;
	c->netns_fd = c->mounts_fd = c->fifo_fd = c->status_fd = -1;
	c->traps_fd = c->notify_fd = c->control_fd = -1;
}

void create_done(struct create *c)
{
	mediation_end(c->mediation);
	denials_free(c->denials);
	approvals_free(c->approvals);
	denied_paths_free(c->denied_paths);
	live_limits_free(c->limits);
	cleanup_close(&c->netns_fd);
	cleanup_close(&c->mounts_fd);
	rootfs_free(c->rootfs);
	branch_close(c->branch);
	store_close(c->store);
	state_free(c->state);
	rundir_slot_close(c->slot);
	rundir_close(c->rundir);
	seccomp_program_done(&c->filter);
	seccomp_program_done(&c->traps);
	cleanup_close(&c->traps_fd);
	cleanup_close(&c->control_fd);
	buf_done(&c->made);
	cleanup_close(&c->filter_fd);
	cleanup_close(&c->judge_fd);
	cleanup_close(&c->launcher_fd);
	cleanup_close(&c->sync_fd);
	cleanup_close(&c->child_sync_fd);
	cleanup_close(&c->join_fd);
	cleanup_close(&c->child_join_fd);
	cleanup_close(&c->fifo_fd);
	cleanup_close(&c->status_fd);
	cleanup_close(&c->console_sock);
	cleanup_close(&c->console_master);
	cleanup_close(&c->pidfd);
	plan_free(c->plan);
}
