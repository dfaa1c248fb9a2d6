/*
 * What create.c, spawn.c and init.c share while a sandbox is made. The child
 * has a copy of all of it: what it needs was opened before the clone.
 */
#ifndef SANDLOCK_SANDBOX_CREATE_H
#define SANDLOCK_SANDBOX_CREATE_H

#include <signal.h>
#include <stdbool.h>

#include "kernel/seccomp.h"
#include "sandbox/plan.h"
#include "sandbox/quota.h"
#include "sandbox/rootfs.h"
#include "sandbox/state.h"
#include "sandbox/watching.h"

struct clone_args;
struct interrupt;
struct request;

struct strangers {
	pid_t *v;
	size_t n;
};

struct create {
	const struct sandbox_env *env;
	const struct sandbox_bundle *bundle;
	/* NULL for a bundle that nobody is asked about. */
	const struct command_options *command;
	struct command_options asked; /* of one that is, without an embedder */
	struct plan *plan; /* made by create_begin where it is NULL */
	struct rundir *rundir;
	struct rundir_slot *slot;
	struct sandbox_state *state;
	struct store *store;
	struct branch *branch;
	bool branch_is_made;
	struct rootfs *rootfs;
	struct mediation *mediation; /* NULL: nothing is mediated */
	struct denials *denials;     /* what is refused; NULL: no record */
	struct approvals *approvals; /* NULL: nobody is asked */
	struct denied_paths *denied_paths; /* at run time; or NULL */
	struct live_limits *limits;	   /* as well */
	struct control_server *server;	   /* or NULL */
	struct seccomp_program filter;
	struct seccomp_program traps; /* of a bundle, beside its filter */
	int traps_fd;		      /* its listener, or -1 */
	int control_fd;		      /* its socket until it is served, or -1 */
	bool has_filter;
	int filter_fd; /* for the launcher, or -1 */
	int judge_fd;  /* the same of @traps, where the launcher loads them */
	int launcher_fd;
	int sync_fd; /* parent's end */
	int child_sync_fd;
	int join_fd, child_join_fd; /* of tier C: guard.h; or -1 */
	int fifo_fd;	    /* exec.fifo, for init until it is cloned; or -1 */
	int status_fd;	    /* exec.status, likewise; ours where relayed */
	int console_sock;   /* connected to --console-socket, or -1 */
	int console_master; /* of a foreground run with a terminal, or -1 */
	bool inline_start;  /* run: GO comes over sync_fd, there is no fifo */
	bool die_with_parent;
	bool time_is_set;	/* in the child: it is in its time namespace */
	int netns_fd;		/* init enters it, or -1: by clone */
	int mounts_fd;		/* its mount namespace, or -1: let_go.h */
	int notify_fd;		/* of sd_notify, or -1: sdnotify.h */
	bool hooks_begun;	/* a failure has to run poststop */
	bool executed;		/* the payload has run: its branch is kept */
	sigset_t original_mask; /* the payload's, saved before create_begin */
	int pidfd;
	struct watching watching;    /* of what a foreground run writes, */
	struct quota quota;	     /* and how much that is */
	struct strangers strangers;  /* tier C: our children before it */
	struct interrupt *interrupt; /* what ends the making; or NULL */
	struct buf made; /* NUL-separated paths that init reported */
};

/* Makes everything up to READY. On failure all is undone. */
int create_begin(struct create *c, const struct sandbox_env *env,
		 const struct sandbox_bundle *b, struct error *err);
/*
 * A created bundle that is judged: its launcher speaks to whoever serves it,
 * over the socket of create, who tells `start` by exec.status in its place.
 */
bool create_is_relayed(const struct create *c);
/*
 * create_claim.c: opens the runtime directory and the store; a host command
 * does without the former where it cannot be had.
 */
int create_open_places(struct create *c, struct error *err);
/* Takes the name, or makes one up, and the branch of that name. */
int create_claim_name(struct create *c, struct error *err);
/* Makes that branch on disk, once. */
int create_make_branch(struct create *c, struct error *err);
/* Is it a later stage, which takes the branch of those before it? */
bool create_is_later(const struct create *c);
/* Says what the branch of a host command does not keep from the host. */
void create_warn_of_branch(const struct create *c);
/* Undoes what create_begin made, running poststop hooks where due. */
void create_undo(struct create *c);
/* Closes fds and frees; what is on disk and the processes stay. */
void create_done(struct create *c);

/*
 * Starts init and returns its pid and pidfd. It runs init_main. Id maps are
 * written meanwhile. On failure no process is left.
 */
int spawn_init(struct create *c, pid_t *ret_pid, struct error *err);

/* True if no thread of the caller's process runs beside it. */
bool spawn_is_single(void);

/*
 * clone3(2); the child calls @fn. With CLONE_VM, which takes spawn_is_single
 * and CLONE_VFORK, it must not change what the parent reads. -errno.
 */
pid_t spawn_clone(const struct clone_args *args,
		  void __attribute__((noreturn)) (*fn)(void *data), void *data);

/*
 * In the detour: clones its sibling, says its pid on @sync_fd and ends. Returns
 * 0 in the sibling, once the pid is on its way: nothing that the sibling sends
 * may come before it. Returns a negative errno if there is no sibling.
 */
int spawn_sibling(int sync_fd);

/*
 * Follows a detour to the process that it clones as its sibling: writes @maps
 * when asked, reaps @helper, and replaces *@pidfd by the process's own.
 */
int spawn_follow(int sock, pid_t helper, int *pidfd, const struct idmap *maps,
		 pid_t *ret_pid, struct error *err);

/*
 * Right after a user namespace was entered. Where root is not mapped, the user
 * stays who he is, with the capabilities that entering gave.
 */
int spawn_become_root(const struct spec *s, struct error *err);

/* The child's side; never returns. Of tier C: guard.c. */
void init_main(struct create *c) __attribute__((noreturn));
/* Makes a time namespace with the offsets of @s, and enters it. */
int init_enter_time_ns(const struct spec *s, struct error *err);
void guard_main(struct create *c) __attribute__((noreturn));
/* A pty for the payload, where it wants one, and its master to the parent. */
int init_console(struct create *c, struct error *err);

/*
 * After the guard of tier C has ended, whatever ended it: waits until nothing
 * is left of what it held together, and reaps that. This process has been its
 * subreaper since guard_adopt, which notes the children that it has already:
 * a shell that executes us leaves us its own.
 */
int guard_adopt(struct strangers *ret);
void guard_disown(struct strangers *s);
int guard_wait_rest(const struct strangers *s, const char *name,
		    struct error *err);

/* An error where somebody wants the making to end. */
int create_check_interrupt(const struct create *c, struct error *err);
/* The error of a child that died and said nothing. */
int create_say_child_died(struct create *c, struct error *err);

/* Compiles linux.seccomp into a program and a memfd for the launcher. */
int create_get_filter(const struct spec *s, const struct log_sink *log,
		      struct seccomp_program *ret, int *ret_fd,
		      struct error *err);
/* That it has no descriptor yet: each is -1. */
void create_init(struct create *c);
/* A program for enum syscall_trap @traps; @ret is left alone where none is. */
int create_get_traps(unsigned int traps, struct seccomp_program *ret,
		     struct error *err);
/* The same for the launcher, of a bundle whose calls are judged; of @r what is
 * handled counts. */
int create_get_judged(const struct request *r, unsigned int traps,
		      const struct log_sink *log, struct seccomp_program *ret,
		      int *ret_fd, struct error *err);
/* --pid-file: the bare number, by rename; what is no regular file is written
 * to, a FIFO once somebody reads it, for 10 s. */
int create_write_pid_file(const char *path, pid_t pid,
			  struct interrupt *interrupt, struct error *err);
/* --pidfd-socket: the pidfd in one message. */
int create_send_pidfd(const char *path, int pidfd, struct error *err);

/*
 * run.c: the signals that go to the payload, and waiting for it meanwhile; at
 * @end_ms (CLOCK_MONOTONIC, -1: never) it is killed: EXIT_TIMEOUT. With @c (or
 * NULL) its command's hook is watched for, unless there is a terminal. A @pid
 * of 0 is somebody else's child, who is asked for its status.
 */
void run_forwarded_signals(sigset_t *set);
int run_wait(pid_t pid, int pidfd, int console_master, int signal_fd,
	     int64_t end_ms, struct create *c, struct exit_status *ret,
	     struct error *err);

/*
 * The listener of the filter of process @pid: fd @fd, which whoever is told
 * takes over, or where that is -1 its own fd @remote_fd.
 */
struct create_listener {
	pid_t pid;
	int remote_fd, fd;
};
typedef int create_listener_fn(void *data, const struct create_listener *l,
			       struct error *err);

/* The first of @data, a struct create with a mediation: a create_listener_fn.
 */
int create_take_first(void *data, const struct create_listener *l,
		      struct error *err);

/* Of whoever has a listener to do with; both get @data. */
struct create_listening {
	create_listener_fn *take;
	/* Until @fd has something to read. NULL: nothing else is to be done. */
	void (*wait)(void *data, int fd);
	void *data;
};

/*
 * Takes one message of whoever executes @path: 1 where more may come, 0 when it
 * was executed. @reset begins as false; with true it takes more than the end to
 * say so, an errno of 0. The rest as below.
 */
int create_take_message(int fd, const char *path,
			const struct create_listening *l, bool *reset,
			struct error *err);
/*
 * Waits for the end of messages: 0 when the payload was executed. With @l (or
 * NULL), @fd is a socket and was prepared by sync_want_sender.
 */
int create_wait_exec(int fd, const char *path, const struct create_listening *l,
		     struct error *err);

#endif
