/* The end of a sandbox: what is common to run, delete and kill. */
#ifndef SANDLOCK_SANDBOX_FINISH_H
#define SANDLOCK_SANDBOX_FINISH_H

#include "sandbox/sandbox.h"
#include "sandbox/state.h"

struct interrupt;
struct spec;

/*
 * Ends every process: by init's pid namespace where it has its own, else by
 * cgroup. Returns when init is gone (@pidfd may be -1), or ERR_TIMEOUT.
 */
int finish_processes(const struct sandbox_state *s, int pidfd, int timeout_ms,
		     struct error *err);

/*
 * Settles the branch and carries out its disposition; the outcome goes into
 * @ret. @waited: see branch_settle. What cannot be done is in
 * ret->outcome_error, the branch stays. @command (may be NULL) is told of the
 * changes in between.
 */
void finish_branch(struct branch *b, const struct exit_status *status,
		   bool waited, const struct command_options *command,
		   struct sandbox_result *ret);

/*
 * A branch whose server, or whose create, was killed: settled, so that it
 * waits, or disappears if nothing was written. @store NULL: the default one.
 */
void finish_left_branch(const struct sandbox_env *env, const char *store,
			const char *name);

/* Removes what a create left that was killed before its first state.json. */
int finish_unrecorded(const struct sandbox_env *env, struct rundir_slot *slot,
		      struct error *err);

/* Hooks of a point where a state document goes along. @interrupt (or NULL)
 * ends one that hangs. */
int finish_hooks(const struct sandbox_state *s, const struct spec *spec,
		 int point, const char *status, struct interrupt *interrupt,
		 const struct log_sink *log, struct error *err);

/* cgroups, poststop hooks, the runtime directory. */
int finish_remove(const struct sandbox_env *env, struct rundir_slot *slot,
		  const struct sandbox_state *s, const struct spec *spec,
		  struct interrupt *interrupt, struct error *err);

#endif
