/*
 * Turning the calling process into the process of a spec: identity, limits,
 * confinement, and at last the program. Used by init and by exec, inside the
 * container's namespaces and root.
 *
 *	process_enter -> process_prepare -> (report ready, wait, hooks)
 *	  -> process_execute
 */
#ifndef SANDLOCK_SANDBOX_PROCESS_H
#define SANDLOCK_SANDBOX_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/seccomp.h"
#include "spec/spec.h"

struct error;
struct log_sink;
struct plan_path;

struct process_setup {
	const struct spec_process *process;
	const struct spec *spec; /* personality, memory policy; may be NULL */
	const struct seccomp_program *filter; /* or NULL */
	int filter_fd; /* for the launcher; -1 without a filter */
	int launcher_fd;
	int proc_fd; /* a procfs nobody else mounted on, or -1 */
	/* Where the branch is mounted, for Landlock; or NULL. */
	const struct spec_strings *workdirs;
	/* Tier C; else there are none. */
	const struct plan_path *paths;
	size_t n_paths;
	const char *keyring; /* name of a new session keyring, or NULL */
	unsigned int preserve_fds;
	bool pass_listen_fds; /* LISTEN_FDS of our environment */
	bool die_with_parent;
	bool init; /* the program runs under a pid 1 of ours */
	/* The launcher clones who becomes the program (launcher.h), and what a
	 * clone does not inherit is left to whoever waits for that. */
	bool beside;
	int go_fd, fail_fd; /* of launcher.h */
	bool makes_cwd;	    /* where it is missing; as runc, not for exec */
	bool cwd_is_wish;   /* the root will do where the cwd is not seen */
	/* Cwd and program are looked for by process_look, when the filter is
	 * loaded and answered: what a branch that is not mounted has. */
	bool looks_late;
	/*
	 * Hands over the listener of a filter with SCMP_ACT_NOTIFY, which is
	 * fd @fd here; called right after the filter was loaded. NULL: the
	 * launcher loads it and says so on its status fd, see launcher.h.
	 */
	int (*send_listener)(void *data, int fd, struct error *err);
	/*
	 * A bundle's calls that its supervisor is told of, or NULL: a filter
	 * of ours before the bundle's own, whose listener @send_traps gives
	 * away.
	 */
	const struct seccomp_program *traps;
	int (*send_traps)(void *data, int fd, struct error *err);
	/* What of a bundle is judged: the same, but for the launcher to load,
	 * as a filter of its own, whose listener it hands over. Or NULL. */
	const struct seccomp_program *judge;
	int judge_fd;
	void *data;
	const struct log_sink *log;
	/* Results of process_enter. */
	char **env;	 /* environment of the payload */
	char *made_cwd;	 /* the cwd had to be made: its path, or NULL */
	bool cwd_is_due; /* only the payload's user may go there */
	/* Result of process_prepare. */
	char *program; /* path of the executable */
};

/* The environment and the working directory; the last that writes files. */
int process_enter(struct process_setup *s, struct error *err);
/* Limits, identity, privileges, and which program it will be. */
int process_prepare(struct process_setup *s, struct error *err);
/* Of @looks_late. */
int process_look(struct process_setup *s, struct error *err);

/*
 * Executes the program. What goes wrong is written to @status_fd: an errno of
 * the exec as an int. Returns only if the launcher failed.
 */
int process_execute(struct process_setup *s, int status_fd, struct error *err);
void process_setup_done(struct process_setup *s);

/* How many fds socket activation gave us (LISTEN_FDS), 0 if none. */
unsigned int process_listen_fds(void);

/* The message for an errno that came from the launcher. */
int process_exec_error(const char *program, int sys, struct error *err);

#endif
