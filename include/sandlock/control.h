/*
 * Sandboxes by their names, bundles and commands alike: exec, signals, limits,
 * what runs, what was refused, what is asked.
 */
#ifndef LIBSANDLOCK_CONTROL_H
#define LIBSANDLOCK_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base.h"
#include "request.h"

SANDLOCK_BEGIN

struct sandlock_exec {
	const char *process_file; /* process.json; else the fields below */
	const char *const *args;
	const char *cwd;
	const char *user;	 /* "uid[:gid]" */
	const char *const *env;	 /* "K=V", added; NULL-terminated or NULL */
	const char *const *caps; /* names, added */
	const gid_t *additional_gids;
	size_t n_additional_gids;
	int terminal;	  /* 1 yes, 0 no, -1 as the process file says */
	int no_new_privs; /* 1, 0, -1 unsaid */
	const char *apparmor, *process_label;
	const char *console_socket, *pidfd_socket, *pid_file;
	const char *const *cgroups; /* "PATH" or "CONTROLLER:PATH" */
	unsigned int preserve_fds;
	bool ignore_paused;
	bool detach;
};

int sandlock_exec(const struct sandlock_env *env, const char *name,
		  const struct sandlock_exec *x, struct sandlock_result *ret,
		  struct sandlock_error *err);

/* The init process gets @sig. ERR_STATE "container not running". */
int sandlock_kill(const struct sandlock_env *env, const char *name, int sig,
		  bool all, struct sandlock_error *err);
/*
 * Ends the whole sandbox: SIGKILL to every process; returns when it is dead,
 * settled and (what `run` started) gone.
 */
int sandlock_kill_tree(const struct sandlock_env *env, const char *name,
		       struct sandlock_error *err);
int sandlock_delete(const struct sandlock_env *env, const char *name,
		    bool force, struct sandlock_error *err);
int sandlock_pause(const struct sandlock_env *env, const char *name,
		   struct sandlock_error *err);
int sandlock_resume(const struct sandlock_env *env, const char *name,
		    struct sandlock_error *err);
/* @resources: a file with a resources object, "-" for standard input. */
int sandlock_update(const struct sandlock_env *env, const char *name,
		    const char *resources, struct sandlock_error *err);
/* One JSON line as `events --stats` prints it. */
int sandlock_stats(const struct sandlock_env *env, const char *name,
		   char **ret_json, struct sandlock_error *err);
/*
 * How many processes of it the kernel killed for want of memory; also of one
 * that has ended and is not deleted. 0 where that is not counted.
 */
int sandlock_oom_kills(const struct sandlock_env *env, const char *name,
		       uint64_t *ret, struct sandlock_error *err);
/* The state JSON of the specification, pretty, as runc prints it. */
int sandlock_state(const struct sandlock_env *env, const char *name,
		   char **ret_json, struct sandlock_error *err);
/*
 * What a host command was asked for, from its supervisor at this moment: JSON,
 * or with @toml a profile that asks for the same. Of a sandbox without a
 * supervisor it is the state, as JSON only.
 */
int sandlock_inspect(const struct sandlock_env *env, const char *name,
		     bool toml, char **ret, struct sandlock_error *err);
/*
 * The ports of a host command that are remapped, while something is bound to
 * them: {"8080":41234,"53/udp":41300}, the port inside and that of the host.
 */
int sandlock_ports(const struct sandlock_env *env, const char *name,
		   char **ret_json, struct sandlock_error *err);
/* The pids inside, as seen from here; malloc'ed. */
int sandlock_pids(const struct sandlock_env *env, const char *name, pid_t **ret,
		  size_t *ret_n, struct sandlock_error *err);

struct sandlock_info {
	char *name;
	pid_t pid;	    /* 0 when stopped */
	const char *status; /* creating created running paused stopped ended */
	char *bundle;	    /* NULL for an ended sandbox with a branch only */
	char *rootfs;
	char *created; /* RFC 3339 */
	uid_t owner;
	char *command;	  /* whole, blanks between the words */
	int64_t uptime_s; /* -1 when not running */
	char *branch;	  /* state of its branch, or NULL */
	char *ports;	  /* "8080->41234, ..." on the host, or NULL */
};
/*
 * Every sandbox below the runtime directory, sorted by name, stale ones pruned.
 * @with_ended adds branches without such a sandbox: "ended", or "running" where
 * it has no control socket.
 */
int sandlock_list(const struct sandlock_env *env, bool with_ended,
		  struct sandlock_info **ret, size_t *ret_n,
		  struct sandlock_error *err);
void sandlock_list_free(struct sandlock_info *v, size_t n);

/* What was refused to a sandbox, how often, and why. Strings may be NULL but
 * for code, call and program, and hold any bytes. */
struct sandlock_denial {
	const char *code;	  /* "syscall.mount", "net.connect_tcp" */
	const char *call;	  /* "mount" */
	int error;		  /* the errno it got */
	const char *object;	  /* a path, an address */
	const char *rule, *where; /* which rule, and its file and line */
	const char *remedy;	  /* the narrowest option that would allow it */
	const char *program;
	pid_t pid; /* of the last time */
	uint64_t count;
	struct timespec first, last;
};
/* Not 0 ends it and is returned. */
typedef int sandlock_denial_fn(void *data, const struct sandlock_denial *d);

/*
 * Calls @fn for each, oldest first: of a sandbox that runs, or of one that has
 * ended and whose branch is pending. At most 1,000 are kept of a sandbox.
 */
int sandlock_denials(const struct sandlock_env *env, const char *name,
		     sandlock_denial_fn *fn, void *data,
		     struct sandlock_error *err);
/*
 * The same of one that runs, and then each that happens, until it ends. What
 * happens again is told again with its new count.
 */
int sandlock_watch_denials(const struct sandlock_env *env, const char *name,
			   sandlock_denial_fn *fn, void *data,
			   struct sandlock_error *err);
/* Called for each once the command has ended, before sandlock_run_command
 * returns. */
void sandlock_request_on_denials(struct sandlock_request *q,
				 sandlock_denial_fn *fn, void *data);

/* What somebody is asked about. Strings live as long as the call. */
struct sandlock_question {
	const char *id;	     /* "12-0a1b2c3d": names this very question */
	const char *state;   /* waiting allowed denied expired withdrawn */
	const char *what;    /* in words, escaped: "run '/bin/x' as 'x -v'" */
	bool is_cut;	     /* @what does not say all */
	const char *rule;    /* why it is asked; or NULL */
	const char *program; /* who wants it; or NULL */
	pid_t pid;
	unsigned int count;	   /* how often it was asked */
	unsigned int seconds_left; /* while it waits */
	const char *by, *reason;   /* of an answer; or NULL */
	const char *json;	   /* all of it, docs/protocol.md */
};
/* Not 0 ends it and is returned. */
typedef int sandlock_question_fn(void *data, const struct sandlock_question *q);

/* Calls @fn for each question of a running sandbox that is open, in order. */
int sandlock_questions(const struct sandlock_env *env, const char *name,
		       sandlock_question_fn *fn, void *data,
		       struct sandlock_error *err);
/* And then for each that is asked, or closed, until the sandbox ends. */
int sandlock_watch_questions(const struct sandlock_env *env, const char *name,
			     sandlock_question_fn *fn, void *data,
			     struct sandlock_error *err);
/*
 * Answers one: @error 0 allows, else it is the errno that the caller gets. @by
 * says who answers, @reason (or NULL) why. ERR_NOT_FOUND, ERR_STATE where it is
 * closed already, ERR_CONFLICT where the id means another question.
 */
int sandlock_decide(const struct sandlock_env *env, const char *name,
		    const char *id, int error, const char *by,
		    const char *reason, struct sandlock_error *err);

enum sandlock_verdict {
	SANDLOCK_ALLOWED,
	SANDLOCK_DENIED,
	SANDLOCK_CANNOT_TELL,
};
struct sandlock_why {
	const char *what; /* "read", "write", "call" */
	enum sandlock_verdict verdict;
	const char *because;
	const char *remedy; /* an option of `sandlock run`, or NULL */
};
/*
 * Whether a sandbox that runs can do something, and why: @word is an absolute
 * path, or the name of a system call. Calls @fn for each answer; not 0 ends it
 * and is returned.
 */
int sandlock_explain(const struct sandlock_env *env, const char *name,
		     const char *word,
		     int (*fn)(void *data, const struct sandlock_why *w),
		     void *data, struct sandlock_error *err);

SANDLOCK_END

#endif
