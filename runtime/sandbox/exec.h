/* What exec.c and exec_spec.c share. */
#ifndef SANDLOCK_SANDBOX_EXEC_H
#define SANDLOCK_SANDBOX_EXEC_H

#include <signal.h>

#include "control/client.h"
#include "kernel/seccomp.h"
#include "sandbox/sandbox.h"

struct found;
struct rundir;
struct spec;
struct spec_process;

struct exec {
	const struct sandbox_exec *request;
	struct found *found;
	const struct log_sink *log;
	struct spec *spec;
	struct spec_process *process;
	int namespaces; /* CLONE_NEW* that are joined */
	int init_pidfd;
	int sync_fd, child_sync_fd;
	int status_fd; /* of tier C: its guard writes the wait status; or -1 */
	int traps_fd; /* the listener that is handed over, until it is; or -1 */
	bool in_cgroup; /* by its clone */
	/* The process is cloned by the launcher: before that @pid is the
	 * helper's. */
	bool beside;
	pid_t pid;
	int pidfd;
	int console_sock, console_master;
	int launcher_fd, filter_fd, judge_fd;
	struct seccomp_program filter;
	struct seccomp_program traps; /* of a bundle, beside it */
	struct control_call listen;   /* that hands over what traps it */
	bool has_filter;
	sigset_t original_mask;
};

/*
 * The process to be executed: a process.json, or that of the container with
 * what the request says instead; with @host nothing that loosens.
 */
int exec_process_spec(const struct sandbox_exec *x, const struct spec *spec,
		      bool host, struct spec_process **ret, struct error *err);
void exec_done(struct exec *e);

/* Asks the supervisor, with an fd or NULL; exec_ask_end waits for its answer.
 */
int exec_ask(struct exec *e, const char *verb, const char *args, const int *fd,
	     struct error *err);
int exec_ask_end(struct exec *e, struct error *err);

/*
 * exec_beside.c: whether it is as exec->beside has it; once namespaces and
 * process are known. Its helper, which is ready, is told to go on, and followed
 * to its clone, which waits for a byte.
 */
int exec_decide_beside(struct exec *e, struct error *err);
/*
 * The same of those in whose pid namespace there is @init now, of a bundle that
 * is created and has not executed anything yet.
 */
int exec_note_created(struct rundir *d, const struct spec *s, pid_t init,
		      struct error *err);
/* Somebody with CAP_SYS_PTRACE was let into its pid namespace. */
bool exec_has_tracer(const struct exec *e);
int exec_follow_beside(struct exec *e, struct error *err);

/* exec_guard.c: of tier C. The process is the guard's child, not ours. */
int exec_guard_check(const struct sandbox_exec *x, struct error *err);
/* Afterwards e->sync_fd says what the process does. */
int exec_guard_begin(struct exec *e, struct error *err);
/* How it has ended. */
void exec_guard_status(struct exec *e, struct exit_status *ret);

#endif
