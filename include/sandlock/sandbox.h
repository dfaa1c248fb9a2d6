/*
 * Sandboxes as objects: run a command, wait, see what it changed, decide;
 * several at once.
 */
#ifndef LIBSANDLOCK_SANDBOX_H
#define LIBSANDLOCK_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base.h"
#include "request.h"

struct sandlock_commit;

SANDLOCK_BEGIN

/*
 * A command of the host in a sandbox, or a bundle ("program.bundle"), as an
 * object.
 *
 *	new -> create -> start -> wait -> (pending -> commit | abort) -> free
 *
 * What serves the sandbox is a process of its own, spawned by exec from
 * env->program with argv[0] "sandlock-supervisor": the caller may have any
 * number of threads, and none of its memory is in it. It is the caller's child,
 * without a signal that is tied to the thread that made it, and is reaped by
 * wait and free. Its working directory, umask and environment are the caller's
 * at create.
 *
 * Every function may be called by any thread. While one is in wait, the others
 * (kill, pause, ports, pid, pending) do not wait for it; two in wait take
 * turns. free comes after all others have returned.
 *
 * If the caller dies, a sandbox that runs is killed and its branch is kept; a
 * branch that is pending stays pending, and is found by name.
 */
struct sandlock_sandbox;

/*
 * Copies @env and what was set in @q. Without "filesystem.on_exit" success is
 * committed, without "filesystem.on_error" anything else is aborted; as in
 * sandlock_sandbox_commit the last writer wins. ERR_USAGE.
 */
int sandlock_sandbox_new(const struct sandlock_env *env,
			 const struct sandlock_request *q,
			 struct sandlock_sandbox **ret,
			 struct sandlock_error *err);
/*
 * Kills what runs and waits for its end, "on_error" included. A pending branch
 * is kept for later and nothing is published. NULL is fine. In a child that the
 * caller has forked it only frees the copy, and no other function may be
 * called.
 */
void sandlock_sandbox_free(struct sandlock_sandbox *s);

enum sandlock_stdio_kind {
	SANDLOCK_STDIO_INHERIT, /* the caller's own */
	SANDLOCK_STDIO_PIPE,	/* create sets fd to our end: the caller's */
	SANDLOCK_STDIO_NULL,	/* /dev/null */
	SANDLOCK_STDIO_CAPTURE, /* out and err: into the report, by wait */
	SANDLOCK_STDIO_FD,	/* a copy of fd, which stays the caller's */
};

struct sandlock_stdio {
	enum sandlock_stdio_kind kind;
	int fd;
};

/* How it is run this time. Zero-initialise, then set. */
struct sandlock_launch {
	/* The command and its words, NULL-terminated, instead of the
	 * request's; NULL: the request's. */
	const char *const *argv;
	struct sandlock_stdio in, out, err;
	uint64_t timeout_ms; /* killed then; 0: as the request says */
	size_t capture_max;  /* bytes kept of each stream; 0: 16 MiB */
	/* An automatic commit that meets a conflict leaves the branch pending,
	 * as on the command line; else the last writer wins. */
	bool refuse_conflicts;
	/* The command gets copies of these as its fds 3, 4, ... */
	const int *fds;
	size_t n_fds;
};

/*
 * Makes everything but executes nothing yet: pid and name are known then.
 * ERR_STATE while a branch is pending or a command runs; once it has ended, and
 * has been decided about, another one may be run. On failure nothing is left.
 */
int sandlock_sandbox_create(struct sandlock_sandbox *s,
			    struct sandlock_launch *l,
			    struct sandlock_error *err);
/* Returns when the command has been executed, or says why it cannot be. */
int sandlock_sandbox_start(struct sandlock_sandbox *s,
			   struct sandlock_error *err);
/* create and start, in less time. On failure nothing is left. */
int sandlock_sandbox_spawn(struct sandlock_sandbox *s,
			   struct sandlock_launch *l,
			   struct sandlock_error *err);

enum sandlock_entry_kind {
	SANDLOCK_ENTRY_NONE, /* not there on this side */
	SANDLOCK_ENTRY_FILE,
	SANDLOCK_ENTRY_DIRECTORY,
	SANDLOCK_ENTRY_SYMLINK,
	SANDLOCK_ENTRY_FIFO,
	SANDLOCK_ENTRY_SOCKET,
	SANDLOCK_ENTRY_CHAR_DEVICE,
	SANDLOCK_ENTRY_BLOCK_DEVICE,
};

struct sandlock_entry {
	enum sandlock_entry_kind kind;
	mode_t mode; /* permission and set-id bits */
	uint64_t size;
	bool has_digest;	  /* of a file that could be read */
	unsigned char digest[32]; /* SHA-256 */
	char *target;		  /* of a symlink, else NULL */
};

/*
 * A path that was made, removed, or opened for writing: in the last case also
 * where its bytes are what they were (SANDLOCK_CHANGE_CONTENT_SAME in flags).
 */
struct sandlock_changed {
	char letter;	    /* A M m D T */
	unsigned int flags; /* enum sandlock_change_flag */
	char *path;	    /* relative to root */
	const char *root;   /* the workdir that it is in */
	struct sandlock_entry before, after;
};

/* What came of one run. Constant, and valid until the next create or free. */
struct sandlock_report {
	struct sandlock_result result; /* n_changes as `diff` counts them */
	/* Captured; followed by a NUL that does not count, NULL if not. */
	char *out_data, *err_data;
	size_t out_len, err_len;
	bool out_cut, err_cut; /* there was more than capture_max */
	/* Collected before anything was published or discarded, in the order
	 * of the paths. */
	struct sandlock_changed *changes;
	size_t n_changes;
	/* Why they are not all there, kind NONE if they are. */
	struct sandlock_error changes_error;
};

/*
 * Waits for the end, at most @timeout_ms (-1: forever): -ETIMEDOUT with
 * ERR_TIMEOUT then, and it runs on. Once it has returned 0 an automatic
 * disposition is done, and result.outcome_error says if it could not be; again
 * it gives the same report. Reads what is captured meanwhile.
 */
int sandlock_sandbox_wait(struct sandlock_sandbox *s, int timeout_ms,
			  const struct sandlock_report **ret,
			  struct sandlock_error *err);
/* spawn, wait. */
int sandlock_sandbox_run(struct sandlock_sandbox *s, struct sandlock_launch *l,
			 const struct sandlock_report **ret,
			 struct sandlock_error *err);

/* SIGKILL to all of it; returns at once. ERR_STATE if nothing runs. */
int sandlock_sandbox_kill(struct sandlock_sandbox *s,
			  struct sandlock_error *err);
/* @sig to the command. */
int sandlock_sandbox_signal(struct sandlock_sandbox *s, int sig,
			    struct sandlock_error *err);
/* By the cgroup: ERR_UNSUPPORTED where there is none. */
int sandlock_sandbox_pause(struct sandlock_sandbox *s,
			   struct sandlock_error *err);
int sandlock_sandbox_resume(struct sandlock_sandbox *s,
			    struct sandlock_error *err);
/* JSON: {"8080":41234,"53/udp":41300}, what is bound and where it is. */
int sandlock_sandbox_ports(struct sandlock_sandbox *s, char **ret_json,
			   struct sandlock_error *err);

enum sandlock_sandbox_state {
	SANDLOCK_SANDBOX_NEW,
	SANDLOCK_SANDBOX_CREATED,
	SANDLOCK_SANDBOX_RUNNING, /* until wait has seen the end */
	SANDLOCK_SANDBOX_ENDED,
};
enum sandlock_sandbox_state
sandlock_sandbox_get_state(const struct sandlock_sandbox *s);
/* Of the first process, from create to the end as seen by wait; else 0. */
pid_t sandlock_sandbox_pid(const struct sandlock_sandbox *s);
/* Of what was created last; ERR_STATE before. */
int sandlock_sandbox_name(const struct sandlock_sandbox *s, char **ret,
			  struct sandlock_error *err);

/*
 * A run has ended whose branch nobody has decided about. One that was to be
 * kept is in the store, for the functions that take a name, and not pending.
 */
bool sandlock_sandbox_pending(const struct sandlock_sandbox *s);
/*
 * Where the changed files are while it is pending, laid out as the workdir;
 * what was deleted is a character device 0:0. Of a run that changed nothing the
 * directory does not exist. ERR_STATE if nothing is pending.
 */
int sandlock_sandbox_upper_dir(const struct sandlock_sandbox *s, char **ret,
			       struct sandlock_error *err);
/* The same of one directory, where several are worked in: the root of a
 * change. sandlock_sandbox_upper_dir is ERR_USAGE then. */
int sandlock_sandbox_upper_dir_of(const struct sandlock_sandbox *s,
				  const char *root, char **ret,
				  struct sandlock_error *err);
/*
 * Publish or discard; ERR_STATE without effect before the end, or when nothing
 * is pending. @c NULL: everything, the last writer wins. ERR_LOCKED, with the
 * branch's path, where the workdir stays locked by somebody else for 5 s: the
 * branch is pending still.
 */
int sandlock_sandbox_commit(struct sandlock_sandbox *s,
			    struct sandlock_commit *c,
			    struct sandlock_error *err);
int sandlock_sandbox_abort(struct sandlock_sandbox *s,
			   struct sandlock_error *err);

/* changes[from] is the file that changes[to] is now: deleted here, made there,
 * with equal bytes that are not none. */
struct sandlock_rename {
	size_t from, to;
};
int sandlock_renames(const struct sandlock_changed *changes, size_t n,
		     struct sandlock_rename **ret, size_t *ret_n,
		     struct sandlock_error *err);

/*
 * Waits until all of them have ended, at most @timeout_ms (-1: forever):
 * ERR_TIMEOUT then. Reads what they say meanwhile, so that none is held up by
 * another one's captured stream. The reports come from sandlock_sandbox_wait.
 */
int sandlock_wait_all(struct sandlock_sandbox *const *v, size_t n,
		      int timeout_ms, struct sandlock_error *err);
/*
 * Creates and starts them as a shell starts `a | b | c`: the output of each is
 * the input of the next one, whatever @l says of these two streams. On failure
 * those that run are killed, and have ended.
 */
int sandlock_pipeline_start(struct sandlock_sandbox *const *v,
			    struct sandlock_launch *l, size_t n,
			    struct sandlock_error *err);
/*
 * The same with the output of all others as inputs of the last one: of the
 * one before it as standard input, of the rest as fds from 3 on (after none of
 * its own: l->fds must be empty). It is told which is which by the variable
 * _SANDLOCK_GATHER, "NAME:FD,..."; @names has a name for each but the last, all
 * different and without ',' or ':': ERR_USAGE.
 */
int sandlock_gather_start(struct sandlock_sandbox *const *v,
			  struct sandlock_launch *l, const char *const *names,
			  size_t n, struct sandlock_error *err);

SANDLOCK_END

#endif
