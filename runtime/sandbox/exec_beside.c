/* exec's process where somebody inside may look into all of them. */
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "control/rundir.h"
#include "sandbox/beside.h"
#include "sandbox/exec.h"
#include "sandbox/lookup.h"
#include "spec/spec.h"

/* In the runtime directory: who has CAP_SYS_PTRACE was let into its pid
 * namespace. */
static const char tracer_file[] = "tracer";

/* What a program of root's gets when it is executed is the bounding set. */
static bool may_trace(const struct spec_process *p)
{
	return (p->caps.permitted | p->caps.bounding) &
	       UINT64_C(1) << CAP_SYS_PTRACE;
}

/* 0: it has ended. */
static ino_t pid_namespace_of(pid_t pid)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat(path, &st) < 0 ? 0 : st.st_ino;
}

static int note_tracer_in(struct rundir *d, const char *name, ino_t ns,
			  struct error *err)
{
	auto_ptr(rundir_slot_close) struct rundir_slot *slot = NULL;
	auto_close int fd = -1;
	pid_t init, server;

	if (rundir_find(d, name, &slot, NULL) < 0 ||
	    rundir_read_pids(slot, &init, &server) < 0 ||
	    pid_namespace_of(init) != ns)
		return 0;
	fd = openat(rundir_slot_fd(slot), tracer_file,
		    O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	/* ENOENT: it has just been deleted. */
	if (fd < 0 && errno != ENOENT)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot note that CAP_SYS_PTRACE comes to "
				 "'%s'",
				 name);
	return 0;
}

/* Of all sandboxes in the pid namespace of @pid. */
static int note_tracer(struct rundir *d, pid_t pid, struct error *err)
{
	ino_t ns = pid_namespace_of(pid);
	char **names = NULL;
	size_t n = 0;
	int r = ns ? rundir_names(d, &names, &n, err) : 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = note_tracer_in(d, names[i], ns, err);
	rundir_names_free(names, n);
	return r;
}

int exec_note_created(struct rundir *d, const struct spec *s, pid_t init,
		      struct error *err)
{
	if (s->ns[SPEC_NS_PID].want != SPEC_NS_JOIN ||
	    s->ns[SPEC_NS_USER].want != SPEC_NS_INHERIT ||
	    !may_trace(&s->process))
		return 0;
	return note_tracer(d, init, err);
}

bool exec_has_tracer(const struct exec *e)
{
	return faccessat(rundir_slot_fd(e->found->slot), tracer_file, F_OK,
			 0) == 0;
}

int exec_decide_beside(struct exec *e, struct error *err)
{
	const struct spec *s = e->spec;

	/* Below a user namespace nobody may look into what is from above, and
	 * who sees the host's processes may look into ours anyway. */
	if (!(e->namespaces & CLONE_NEWPID) || (e->namespaces & CLONE_NEWUSER))
		return 0;
	/* Others' payloads may be in one that was joined. */
	e->beside = may_trace(&s->process) ||
		    s->ns[SPEC_NS_PID].want != SPEC_NS_NEW ||
		    exec_has_tracer(e);
	if (!may_trace(e->process) || may_trace(&s->process))
		return 0;
	return note_tracer(e->found->rundir, e->found->state->init.pid, err);
}

int exec_follow_beside(struct exec *e, struct error *err)
{
	struct beside b = {
		.sync_fd = e->sync_fd,
		.name = e->found->state->name,
		.process = e->process,
		.pid = e->pid,
		.pidfd = e->pidfd,
	};
	int r = beside_follow(&b, err);

	e->pid = b.pid;
	e->pidfd = b.pidfd;
	return r;
}
