/*
 * The life of a sandbox made from a bundle. One function a verb; what lives
 * longer than a verb is on disk: the runtime directory (control/rundir.h), the
 * branch (branch/branch.h), cgroups, and the processes themselves.
 *
 *	creating -> created -> running <-> paused -> stopped -> (deleted)
 *
 *	plan.c     what is asked and possible -> what will be done
 *	create.c   the parent's side: claims, makes, drives init, undoes
 *	spawn.c    clone, and the detour for namespaces that are joined
 *	init.c     the child's side: namespaces, root, process, wait, execute
 *	process.c  identity and limits of a process, also for exec
 *	sync.c     messages between the two
 *	run.c start.c exec.c signal.c delete.c list.c waiter.c
 *
 * The calling process must have one thread in the verbs that clone (create,
 * run, exec): the child goes on with a copy of its memory.
 */
#ifndef SANDLOCK_SANDBOX_SANDBOX_H
#define SANDLOCK_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/disposition.h"
#include "base/error.h"
#include "base/log.h"
#include "branch/branch.h"
#include "branch/change.h"
#include "kernel/pidfd.h"
#include "supervise/denials.h"

struct buf;
struct request;
struct spec_resources;

struct sandbox_env {
	const char *root;    /* runtime directory or NULL */
	const char *store;   /* branch store or NULL */
	const char *program; /* for the waiter, or NULL: /proc/self/exe */
	const struct log_sink *log;
	const int *stop_fd; /* ends a watch, or NULL */
};

enum branch_choice {
	BRANCH_CHOICE_DEFAULT,
	BRANCH_CHOICE_NONE,
	BRANCH_CHOICE_ASKED
};

struct sandbox_bundle {
	const char *name, *bundle, *config;
	const char *console_socket, *pidfd_socket, *pid_file;
	bool no_pivot, no_new_keyring, disable_cgroups, systemd_cgroup;
	unsigned int preserve_fds;
	enum branch_choice branch;
	enum disposition on_exit, on_error;
	const char *storage;
	bool durable, detach, keep;
	uint64_t quota_bytes; /* 0: what annotations say */
	bool no_control_socket, no_supervisor;
	/* Who decides about its calls: [ask] of it; or NULL. */
	const struct request *request;
};

enum sandbox_outcome {
	SANDBOX_NO_BRANCH,
	SANDBOX_PENDING,
	SANDBOX_COMMITTED,
	SANDBOX_ABORTED,
	SANDBOX_EMPTY
};

struct sandbox_result {
	struct exit_status status;
	enum sandbox_outcome outcome;
	size_t n_changes;
	struct error outcome_error;
	char name[256];
	uint64_t quota_bytes, quota_used; /* with EXIT_QUOTA */
};

struct sandbox_exec {
	const char *process_file;
	const char *const *args;
	const char *cwd, *user;
	const char *const *env;
	const char *const *caps;
	const gid_t *additional_gids;
	size_t n_additional_gids;
	int terminal, no_new_privs;
	const char *apparmor, *process_label;
	const char *console_socket, *pidfd_socket, *pid_file;
	const char *const *cgroups;
	unsigned int preserve_fds;
	bool ignore_paused, detach;
};

struct sandbox_info {
	char *name;
	pid_t pid;
	const char *status;
	char *bundle, *rootfs, *created, *command, *branch;
	uid_t owner;
	int64_t uptime_s;
	char *ports; /* "8080->41234, ...", or NULL */
	bool remaps; /* ports are remapped */
};

int sandbox_create(const struct sandbox_env *env,
		   const struct sandbox_bundle *b, struct error *err);
int sandbox_run(const struct sandbox_env *env, const struct sandbox_bundle *b,
		struct sandbox_result *ret, struct error *err);
/*
 * For a process that runs a command on behalf of another one. All are called
 * on the thread that called, and may be NULL.
 */
struct create;
struct command_hooks {
	/* All is made, and nothing executed before it returns 0. */
	int (*created)(void *data, struct create *c, struct error *err);
	/* It is executed, and whoever asks the control socket is answered. */
	void (*started)(void *data);
	/* Called while @watch_fd (or -1) can be read; not 0: end it all. */
	int (*watch)(void *data, struct create *c);
	int watch_fd;
	/* Nothing of it is alive, nothing is settled. @b may be NULL. */
	void (*ended)(void *data, struct branch *b, struct exit_status *status);
	void *data;
};

struct command_options {
	const struct request *request; /* of a command, or of a bundle */
	/* Or NULL. Of a bundle: what the request has no keys for. */
	const struct sandbox_bundle *bundle;
	const struct command_hooks *hooks; /* or NULL */
	int events_fd; /* with hooks: calls back to an embedder, or -1 */
	int calls_fd;  /* the same for request->handled: sandbox/calllink.h */
	bool terminal; /* one of its own, else our streams as they are */
	unsigned int preserve_fds;
	/*
	 * A stage: the branch is there already, and belongs to @owner; after a
	 * success it is handed on to @owner, unsettled, and with @hold after a
	 * failure. With @savepoints it is known what each stage wrote; this one
	 * is number @stage, from 0.
	 */
	bool join, hand_on, hold, savepoints;
	size_t stage;
	struct proc_id owner;
	bool force; /* an automatic commit overwrites what the host changed */
	/* Told of every change before the branch is disposed of, or NULL. */
	change_fn *on_change;
	void *data;
	/* Told of every refusal once all is dead, or NULL. */
	denial_fn *on_denial;
	void *denial_data;
};
/* Of a transaction; @o may be NULL. */
bool sandbox_is_stage(const struct command_options *o);
int sandbox_run_command(const struct sandbox_env *env,
			const struct command_options *o,
			struct sandbox_result *ret, struct error *err);
int sandbox_start(const struct sandbox_env *env, const char *name,
		  struct error *err);
int sandbox_exec(const struct sandbox_env *env, const char *name,
		 const struct sandbox_exec *x, struct sandbox_result *ret,
		 struct error *err);
int sandbox_kill(const struct sandbox_env *env, const char *name, int sig,
		 bool all, struct error *err);
int sandbox_kill_tree(const struct sandbox_env *env, const char *name,
		      struct error *err);
int sandbox_delete(const struct sandbox_env *env, const char *name, bool force,
		   struct error *err);
int sandbox_pause(const struct sandbox_env *env, const char *name, bool pause,
		  struct error *err);
int sandbox_update(const struct sandbox_env *env, const char *name,
		   const char *resources, struct error *err);
int sandbox_stats(const struct sandbox_env *env, const char *name,
		  struct buf *ret, struct error *err);
/* Processes that the kernel killed for want of memory, also of one that has
 * ended and is not deleted. */
int sandbox_oom_kills(const struct sandbox_env *env, const char *name,
		      uint64_t *ret, struct error *err);
int sandbox_state_json(const struct sandbox_env *env, const char *name,
		       struct buf *ret, struct error *err);
int sandbox_pids(const struct sandbox_env *env, const char *name, pid_t **ret,
		 size_t *ret_n, struct error *err);
int sandbox_list(const struct sandbox_env *env, bool with_ended,
		 struct sandbox_info **ret, size_t *ret_n, struct error *err);
/* What it was asked for: JSON, or a profile. */
int sandbox_inspect(const struct sandbox_env *env, const char *name, bool toml,
		    struct buf *ret, struct error *err);
/* Its remapped ports, as a JSON object: what is bound now. */
int sandbox_ports(const struct sandbox_env *env, const char *name,
		  struct buf *ret, struct error *err);
void sandbox_list_free(struct sandbox_info *v, size_t n);
int sandbox_waiter_main(int argc, char **argv);

#endif
