/*
 * libsandlock: run a bundle in a sandbox on a copy-on-write branch, see what
 * it changed, commit or abort.
 *
 * Functions return 0 or a negative errno and fill a struct sandlock_error (may
 * be NULL) that says what and what to do next. The library never prints, never
 * exits, installs no signal handlers and keeps no global state; functions on
 * different sandboxes or branches may run in different threads. The calling
 * process may be multi-threaded, except for sandlock_run (see there).
 *
 * Strings returned through ret_ arguments are the caller's, by free(3).
 */
#ifndef SANDLOCK_H
#define SANDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is declared here is what the library exports. */
#pragma GCC visibility push(default)

#define SANDLOCK_VERSION "0.1.0"
const char *sandlock_version(void);
/* "2.5.4": the libseccomp this library was built with. */
const char *sandlock_libseccomp_version(void);

enum sandlock_error_kind {
	SANDLOCK_ERR_NONE,
	SANDLOCK_ERR_USAGE,
	SANDLOCK_ERR_SYSTEM,
	SANDLOCK_ERR_BUNDLE,
	SANDLOCK_ERR_NAME,
	SANDLOCK_ERR_EXISTS,
	SANDLOCK_ERR_NOT_FOUND,
	SANDLOCK_ERR_STATE,
	SANDLOCK_ERR_UNSUPPORTED,
	SANDLOCK_ERR_CONFLICT,
	SANDLOCK_ERR_LOCKED,
	SANDLOCK_ERR_TORN,
	SANDLOCK_ERR_EXEC_MISSING,
	SANDLOCK_ERR_EXEC_DENIED,
	SANDLOCK_ERR_HOOK,
	SANDLOCK_ERR_TIMEOUT,
};

struct sandlock_error {
	enum sandlock_error_kind kind;
	int sys;	/* errno value or 0 */
	char msg[768];	/* lower case, one line, no full stop */
	char hint[256]; /* the next step, or "" */
};

enum sandlock_log_level {
	SANDLOCK_LOG_ERROR,
	SANDLOCK_LOG_WARNING,
	SANDLOCK_LOG_INFO,
	SANDLOCK_LOG_DEBUG,
};

/*
 * Where things are, and who is told of warnings. Zero-initialise it; NULL
 * means the default. Borrowed by every call for as long as it runs.
 */
struct sandlock_env {
	/* Runtime directory; default /dev/shm/sandlock-<uid>, or
	 * $SANDLOCK_ROOT. */
	const char *root;
	/* Default branch store; default /var/lib/sandlock (root),
	 * $XDG_STATE_HOME/sandlock, or $SANDLOCK_STORE. */
	const char *store;
	/* The sandlock program, for the waiter; default: the running program
	 * if it is sandlock, else the installed one. */
	const char *program;
	void (*log)(void *data, enum sandlock_log_level level, const char *msg);
	void *log_data;
	/* A watch (sandlock_watch_...) ends, with -ECANCELED, once this one
	 * can be read or its other end is closed; NULL: nothing ends it. */
	const int *stop_fd;
	/* Sandboxes that a process of their own serves say what only helps to
	 * find a fault, too (SANDLOCK_LOG_DEBUG): each line wakes the caller.
	 */
	bool log_debug;
};

/* What this build can do: the features object of the specification, pretty. */
int sandlock_features(char **ret_json, struct sandlock_error *err);

/*
 * What this kernel, container and user can do. Everything is tried in children
 * that are gone afterwards; nothing is made that lasts.
 */
enum sandlock_check_state {
	SANDLOCK_CHECK_OK,
	SANDLOCK_CHECK_LIMITED, /* a default run works, something else not */
	SANDLOCK_CHECK_MISSING, /* a default run needs it */
};

struct sandlock_check_row {
	const char *name; /* "landlock" */
	enum sandlock_check_state state;
	char *found;
	char *means; /* what follows, or NULL */
	char *fix;   /* what to do about it, or NULL */
};

struct sandlock_check {
	struct sandlock_check_row *rows;
	size_t n_rows;
	/* "A": namespaces, "C": Landlock and a supervisor, commands of the host
	 * alone; NULL: nothing can be run. */
	const char *tier;
	int landlock_abi; /* 0: none */
	bool usable;	  /* no row is missing */
};
int sandlock_check(const struct sandlock_env *env, struct sandlock_check *ret,
		   struct sandlock_error *err);
void sandlock_check_done(struct sandlock_check *c);

/* The system calls that a command of the host is denied: a JSON array. */
int sandlock_syscalls(char **ret_json, struct sandlock_error *err);

enum sandlock_disposition {
	SANDLOCK_UNSAID = -1,
	SANDLOCK_COMMIT,
	SANDLOCK_ABORT,
	SANDLOCK_KEEP,
	SANDLOCK_DEFER,
};

enum sandlock_branch_choice {
	SANDLOCK_BRANCH_DEFAULT, /* a branch, unless the root is read-only */
	SANDLOCK_BRANCH_NONE,	 /* writes go to the root file system */
	SANDLOCK_BRANCH_ASKED,	 /* only if the bundle's annotations ask */
};

/* How a bundle is to be run. Zero-initialise, then set. */
struct sandlock_bundle {
	const char *name;   /* NULL: a name is made up */
	const char *bundle; /* directory; NULL: "." */
	const char *config; /* NULL: <bundle>/config.json */
	const char *console_socket;
	const char *pidfd_socket;
	const char *pid_file;
	bool no_pivot;
	bool no_new_keyring;
	unsigned int preserve_fds; /* 3 .. 2+n are kept open */
	bool disable_cgroups;	   /* --cgroup-manager=disabled */
	enum sandlock_branch_choice branch;
	enum sandlock_disposition on_exit, on_error; /* start as UNSAID! */
	const char *storage;
	bool durable;
	/* run only */
	bool detach;
	bool keep; /* do not delete the container when it ends */
	/* Also of create. Nobody can ask what runs in it. */
	bool no_control_socket;
	/*
	 * Nobody is told of system calls, and nobody can ask either: renames
	 * of directories of the root file system are EXDEV in the branch.
	 */
	bool no_supervisor;
};
#define SANDLOCK_BUNDLE_INIT                                            \
	{                                                               \
		.on_exit = SANDLOCK_UNSAID, .on_error = SANDLOCK_UNSAID \
	}

enum sandlock_exit_kind {
	SANDLOCK_EXIT_UNKNOWN,
	SANDLOCK_EXIT_CODE,
	SANDLOCK_EXIT_SIGNAL,
	SANDLOCK_EXIT_TIMEOUT,
};

enum sandlock_outcome {
	SANDLOCK_OUTCOME_NONE, /* there was no branch */
	SANDLOCK_OUTCOME_PENDING,
	SANDLOCK_OUTCOME_COMMITTED,
	SANDLOCK_OUTCOME_ABORTED,
	SANDLOCK_OUTCOME_EMPTY, /* nothing was changed, nothing is kept */
};

struct sandlock_result {
	enum sandlock_exit_kind exit_kind;
	int exit_value; /* exit code or signal number */
	enum sandlock_outcome outcome;
	size_t n_changes;
	/* Why an automatic disposition was not carried out, kind NONE if it
	 * was. */
	struct sandlock_error outcome_error;
	char name[256];
};

/* create: everything but the start of the user's program. */
int sandlock_create(const struct sandlock_env *env,
		    const struct sandlock_bundle *b,
		    struct sandlock_error *err);
/* Lets a created sandbox's program run; returns when it has been executed. */
int sandlock_start(const struct sandlock_env *env, const char *name,
		   struct sandlock_error *err);
/*
 * create, start, wait, settle, delete. With detach it returns after the start.
 * Forwards signals to the program while it waits; must be called from a process
 * with one thread.
 */
int sandlock_run(const struct sandlock_env *env,
		 const struct sandlock_bundle *b, struct sandlock_result *ret,
		 struct sandlock_error *err);

/*
 * A command of the host in a sandbox, with the directory that it works in on a
 * branch. What it may do is said by keys and values as in a profile,
 * sandlock.toml(5): "filesystem.read", "limits.memory" and so on; lists grow
 * with each call. The words of the command are the values of "program.args",
 * one call each, or of "program.exec" and then "program.args". "name" and
 * "dry_run" are not keys of profiles but set here too. @where goes into
 * messages about a bad value.
 */
struct sandlock_request;
struct sandlock_request *sandlock_request_new(void);
void sandlock_request_free(struct sandlock_request *q);
int sandlock_request_set(struct sandlock_request *q, const char *key,
			 const char *value, const char *where,
			 struct sandlock_error *err);
/* Forgets what was set for @key. */
void sandlock_request_clear(struct sandlock_request *q, const char *key);
/*
 * Adds what a profile says, found by name, or by path. Values replace what was
 * set before, lists grow. Messages name the line and the column.
 */
int sandlock_request_load(struct sandlock_request *q, const char *name_or_path,
			  bool is_path, struct sandlock_error *err);
/*
 * The same with the file at @path, of which it is stage @i: what stands outside
 * of its [[stage]] tables, and then what the table @i says. *@ret_n: how many
 * there are. A file without any is a profile, and one stage.
 */
int sandlock_request_load_stage(struct sandlock_request *q, const char *path,
				size_t i, size_t *ret_n,
				struct sandlock_error *err);
/* Names of the profiles that can be loaded, sorted; each one and the array
 * malloc'ed. */
int sandlock_profiles(char ***ret, size_t *ret_n, struct sandlock_error *err);
/* The file that is the profile @name. */
int sandlock_profile_path(const char *name, char **ret,
			  struct sandlock_error *err);
/* What was set, as one JSON object of sections with their keys. */
int sandlock_request_json(const struct sandlock_request *q, char **ret_json,
			  struct sandlock_error *err);
/* Called for each change before the branch is disposed of. */
struct sandlock_change;
void sandlock_request_on_changes(struct sandlock_request *q,
				 int (*fn)(void *data,
					   const struct sandlock_change *c),
				 void *data);
/*
 * Runs it in the foreground. @terminal: with a terminal of its own, relayed to
 * ours, which fds 0 to 2 must be; else they are passed as they are. From a
 * process with one thread, as sandlock_run.
 */
int sandlock_run_command(const struct sandlock_env *env,
			 struct sandlock_request *q, bool terminal,
			 struct sandlock_result *ret,
			 struct sandlock_error *err);

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
	const char *status; /* creating created running paused stopped */
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
 * Every sandbox below the runtime directory, sorted by name, stale ones pruned
 * (DESIGN section 6). @with_ended adds branches without a live sandbox.
 */
int sandlock_list(const struct sandlock_env *env, bool with_ended,
		  struct sandlock_info **ret, size_t *ret_n,
		  struct sandlock_error *err);
void sandlock_list_free(struct sandlock_info *v, size_t n);

/* ------------------------------------------------------------- denials -- */

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

/* ------------------------------------------------------------ approvals -- */

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

/* ------------------------------------------------------------- branches -- */

struct sandlock_branch_info {
	/* lower and upper are those of the first root; of a branch that is
	 * damaged all but name and state are empty. */
	char *name, *state, *lower, *dir, *upper, *command;
	struct sandlock_root {
		char *lower, *upper;
	} * roots; /* all of them; empty for one that is damaged */
	size_t n_roots;
	enum sandlock_disposition on_exit, on_error;
	enum sandlock_exit_kind exit_kind;
	int exit_value;
	struct timespec created;
};
int sandlock_branches(const struct sandlock_env *env,
		      struct sandlock_branch_info **ret, size_t *ret_n,
		      struct sandlock_error *err);
void sandlock_branches_free(struct sandlock_branch_info *v, size_t n);

struct sandlock_side {
	mode_t mode; /* 0: does not exist on this side */
	uid_t uid;
	gid_t gid;
	uint64_t size;
	dev_t rdev;
	struct timespec mtime;
	const char *link_target;
};

enum sandlock_change_flag {
	SANDLOCK_CHANGE_CONTENT_SAME = 1 << 0,
	SANDLOCK_CHANGE_MTIME_ONLY = 1 << 1,
	SANDLOCK_CHANGE_CONFLICT = 1 << 2,
	SANDLOCK_CHANGE_OPAQUE = 1 << 3,
	SANDLOCK_CHANGE_LINK = 1 << 4,
	SANDLOCK_CHANGE_LINK_BROKEN = 1 << 5,
	SANDLOCK_CHANGE_SETID = 1 << 6,
	SANDLOCK_CHANGE_SPECIAL = 1 << 7,
	SANDLOCK_CHANGE_ABSENT = 1 << 8,
	SANDLOCK_CHANGE_IMPLIED = 1 << 9,
	SANDLOCK_CHANGE_STALE_LOCK = 1 << 10, /* of a git that is dead: left out
						 of a commit */
};

struct sandlock_change {
	char letter; /* A M m D T */
	unsigned int flags;
	const char *path;
	struct sandlock_side before, after;
	const char *link_to;
	const char *xattrs;
	const char *conflict;
	/* The workdir that path is relative to, if the branch has several; or
	 * NULL. */
	const char *root;
};
typedef int sandlock_change_fn(void *data, const struct sandlock_change *c);

enum sandlock_change_want {
	SANDLOCK_WANT_UNCHANGED = 1 << 0,
	SANDLOCK_WANT_CHILDREN = 1 << 1,
	SANDLOCK_WANT_CONFLICTS = 1 << 2,
	SANDLOCK_WANT_META = 1 << 3,
};

int sandlock_diff(const struct sandlock_env *env, const char *name,
		  unsigned int want, const char *const *paths, size_t n_paths,
		  sandlock_change_fn *fn, void *data,
		  struct sandlock_error *err);
/* Mounts that the branch does not cover, one call each (path only). */
int sandlock_uncovered(const struct sandlock_env *env, const char *name,
		       sandlock_change_fn *fn, void *data,
		       struct sandlock_error *err);
/* Opens one side (false: before) of a regular file, read-only. */
int sandlock_open_content(const struct sandlock_env *env, const char *name,
			  const char *path, bool after, int *ret_fd,
			  struct sandlock_error *err);
int sandlock_digest(const struct sandlock_env *env, const char *name,
		    const char *path, bool after, char ret[65],
		    struct sandlock_error *err);

enum sandlock_conflicts {
	SANDLOCK_CONFLICT_REFUSE,
	SANDLOCK_CONFLICT_SKIP,
	SANDLOCK_CONFLICT_FORCE,
};

struct sandlock_commit {
	enum sandlock_conflicts conflicts;
	bool force_torn;
	bool allow_special;
	int lock_timeout_ms; /* 0: 5000 */
	const char *const *paths;
	size_t n_paths;
	sandlock_change_fn *on_conflict;
	void *data;
	size_t n_published, n_skipped; /* results */
	bool gone;
};

int sandlock_commit(const struct sandlock_env *env, const char *name,
		    struct sandlock_commit *c, struct sandlock_error *err);
int sandlock_abort(const struct sandlock_env *env, const char *name,
		   const char *const *paths, size_t n_paths,
		   struct sandlock_error *err);

enum sandlock_recovered {
	SANDLOCK_RECOVERED_NOTHING,
	SANDLOCK_RECOVERED_SETTLED,
	SANDLOCK_RECOVERED_FORWARD,
	SANDLOCK_RECOVERED_BACK,
};
int sandlock_recover(const struct sandlock_env *env, const char *name,
		     bool rollback, enum sandlock_recovered *ret,
		     struct sandlock_error *err);

/* ------------------------------------------------------------ sandboxes -- */

/*
 * A command of the host in a sandbox, as an object.
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

/* --------------------------------------------------------------- policy -- */

/*
 * A system call that a callback decides about. Strings may be NULL and hold any
 * bytes; all of it lives as long as the call of the callback.
 *
 * Held are execve, execveat, the open family, and where the sandbox shares the
 * network connect, sendto, sendmsg, sendmmsg and bind, if rules let them. A
 * verdict grants nothing that rules, mounts or the kernel refuse.
 */
struct sandlock_event {
	const char *syscall;  /* "execve" */
	const char *category; /* "file", "network", "process", "memory" */
	pid_t pid, parent_pid;
	const char *program; /* of the caller */
	const char *path;    /* what is opened or executed */
	bool writes;	     /* it is opened for more than reading */
	const char *host;    /* numeric */
	uint16_t port;
	const char *protocol; /* "tcp", "udp" */
	const char *const *argv;
	size_t n_argv;
	bool is_cut; /* argv, or a path, was too long to be passed whole */
	bool denied; /* a rule denies it: nothing to decide */
};

/* What a callback may do besides; not to be used after it has returned. */
struct sandlock_context;

/* Verdicts; a positive one is the errno that the caller gets. */
enum {
	SANDLOCK_VERDICT_ALLOW = 0,
	SANDLOCK_VERDICT_DENY = -1, /* EPERM */
	SANDLOCK_VERDICT_AUDIT = -2 /* allow; all verdicts are on record */
};

/*
 * Called on a thread of the library's own, one call at a time, and never again
 * once the run is over; a run is not over while it is in a call. What is not
 * decided within 5 s ("ask.timeout") is denied.
 */
typedef int sandlock_policy_fn(void *data, const struct sandlock_event *e,
			       struct sandlock_context *ctx);

/*
 * The same, but the answer may come later, from any thread (within 120 s, 20 s
 * for the network): @a is the callback's, to be freed once. NULL where there is
 * nothing to decide.
 */
struct sandlock_approval;
typedef void sandlock_deferred_fn(void *data, const struct sandlock_event *e,
				  struct sandlock_context *ctx,
				  struct sandlock_approval *a);

/*
 * From now on, the call that is decided about included, process @pid and what
 * descends from it (0: all that have no rules of their own) reaches only what
 * @rules allow: as network.allow, without host names; none: nothing. Never more
 * than the request's own rules, and only where the network is shared. Of a
 * process this takes the place of what was said of it before, and it alone
 * counts; what is taken from all is taken for good, and adds up. ERR_USAGE,
 * ERR_STATE.
 */
int sandlock_context_restrict_network(struct sandlock_context *ctx, pid_t pid,
				      const char *const *rules, size_t n,
				      struct sandlock_error *err);

/*
 * Adds @rules to what process @pid, and what descends from it, may reach by
 * rules of its own, still within the request's; it changes nothing where there
 * are none. 0 stands for all: what was taken from all is not given back
 * (EPERM), and without that nothing is missing. ERR_USAGE, ERR_STATE.
 */
int sandlock_context_grant_network(struct sandlock_context *ctx, pid_t pid,
				   const char *const *rules, size_t n,
				   struct sandlock_error *err);

/*
 * From now on the processes of the sandbox together use at most @bytes of
 * memory, and are at most @n; both at least 1. For good: only less can be asked
 * for later, and what is no less than what is in force changes nothing. As with
 * limits.memory and limits.processes; what runs goes on, but who uses too much
 * memory already is killed. What cannot be set ends the sandbox. ERR_USAGE,
 * ERR_STATE.
 */
int sandlock_context_restrict_max_memory(struct sandlock_context *ctx,
					 uint64_t bytes,
					 struct sandlock_error *err);
int sandlock_context_restrict_max_processes(struct sandlock_context *ctx,
					    uint32_t n,
					    struct sandlock_error *err);

/*
 * From now on, the call that is decided about included, nothing at or below the
 * absolute path @path is opened or executed (EACCES); what is open stays open,
 * and what the sandbox may write it may rename or link, to open it there.
 * allow_path takes that back, and nothing else. ERR_USAGE, ERR_STATE.
 */
int sandlock_context_deny_path(struct sandlock_context *ctx, const char *path,
			       struct sandlock_error *err);
int sandlock_context_allow_path(struct sandlock_context *ctx, const char *path,
				struct sandlock_error *err);

/*
 * Before the first run; @free_fn (or NULL) is called on @data once, after the
 * last callback, by sandlock_sandbox_free, or here on failure. One of the two
 * may be set, once. ERR_STATE.
 */
int sandlock_sandbox_set_policy(struct sandlock_sandbox *s,
				sandlock_policy_fn *fn, void *data,
				void (*free_fn)(void *data),
				struct sandlock_error *err);
int sandlock_sandbox_set_deferred_policy(struct sandlock_sandbox *s,
					 sandlock_deferred_fn *fn, void *data,
					 void (*free_fn)(void *data),
					 struct sandlock_error *err);

/*
 * Answers, once: 0, or -EALREADY where it was answered before, -ECANCELED where
 * nobody waits any more, -ETIMEDOUT where it comes too late. Does not free. One
 * thread at a time for each approval.
 */
int sandlock_approval_resolve(struct sandlock_approval *a, int verdict);
/* True once an answer would be -ECANCELED or -ETIMEDOUT. */
bool sandlock_approval_is_cancelled(const struct sandlock_approval *a);
/* Denies, if it was not answered. NULL is fine. */
void sandlock_approval_free(struct sandlock_approval *a);

/* ------------------------------------------------------------- handlers -- */

/*
 * A trapped system call, owned by whoever has to answer it; its caller waits.
 * One thread at a time for each. Everything that is done to the caller goes
 * through the supervisor, and is -ESRCH once the caller does not wait any more:
 * it was killed or interrupted, time or the run is over, or it was answered.
 */
struct sandlock_call;

struct sandlock_call_info {
	uint64_t id;	/* of the notification, as the kernel numbers it */
	pid_t pid;	/* the thread that calls */
	uint32_t flags; /* of the notification */
	int nr;		/* sandlock_syscall_number */
	uint32_t arch;	/* AUDIT_ARCH_* */
	uint64_t instruction_pointer;
	uint64_t args[6];
};

enum sandlock_action_kind {
	SANDLOCK_ACTION_NONE, /* none: as if the handler had failed */
	/* The next handler of the call decides; after the last one the kernel
	 * carries it out. It reads memory again then, which may have changed.
	 */
	SANDLOCK_ACTION_CONTINUE,
	SANDLOCK_ACTION_ERRNO,	/* it fails with @error, 1 to 511 */
	SANDLOCK_ACTION_RETURN, /* it returns @value */
	SANDLOCK_ACTION_FD,	/* it returns @fd, which it gets a copy of */
	/* It is not answered, until a signal, or EIO when time is over. */
	SANDLOCK_ACTION_HOLD,
	/* @signal to every process of the sandbox; what is left of the caller
	 * gets EPERM. */
	SANDLOCK_ACTION_KILL,
};

struct sandlock_action {
	enum sandlock_action_kind kind;
	int error;
	int64_t value;
	int fd; /* the library's once it was answered with, whatever comes of
		   it: it closes it */
	bool close_on_exec; /* of the copy */
	int signal;
};

/* What a call gets whose handler fails. */
enum sandlock_exception {
	SANDLOCK_EXCEPTION_KILL, /* SIGKILL to all of the sandbox */
	SANDLOCK_EXCEPTION_EPERM,
	SANDLOCK_EXCEPTION_CONTINUE,
	SANDLOCK_EXCEPTION_EIO
};

/*
 * Handles a call: 0 with the answer in @ret, or SANDLOCK_HANDLER_LATER: @c is
 * the handler's then, to be answered and freed, also from another thread, also
 * before this returns. Anything else means that it has failed. Called on
 * threads of the library's own, for several calls at once.
 */
typedef int sandlock_handler_fn(void *data, struct sandlock_call *c,
				struct sandlock_action *ret);
enum { SANDLOCK_HANDLER_LATER = 1 };

struct sandlock_handler {
	const char *syscall; /* its name; NULL: number @nr */
	int nr;
	sandlock_handler_fn *fn;
	void *data;
	void (*free_fn)(void *data); /* or NULL */
	enum sandlock_exception on_exception;
};

/*
 * Before the first run: every such call of the sandbox goes to the handler,
 * before network rules judge it and carry it out, on what the handler saw, but
 * after all else that the sandbox does about it, and after the handlers of the
 * call that were added before; of what those refuse or answer it does not
 * hear. @free_fn is called on @data once, after the last call of any handler,
 * by sandlock_sandbox_free, or here on failure. ERR_USAGE for a call that
 * cannot be handled (close, exit, wait4 and a few more), that is
 * refused anyway, or for more than 256 handlers; ERR_STATE.
 *
 * A run is not over while a handler runs; one that has not begun by then never
 * will. Calls that are answered later end with the run.
 */
int sandlock_sandbox_add_handler(struct sandlock_sandbox *s,
				 const struct sandlock_handler *h,
				 struct sandlock_error *err);
/*
 * Before the first run: at most @threads handlers run at once, others wait (0:
 * 64); and all handlers of a call together have @timeout_ms from when it was
 * made (0: 30 s), then it is EIO. ERR_STATE.
 */
int sandlock_sandbox_limit_handlers(struct sandlock_sandbox *s,
				    unsigned int threads, uint64_t timeout_ms,
				    struct sandlock_error *err);

/* Valid until the call is freed. */
const struct sandlock_call_info *
sandlock_call_get_info(const struct sandlock_call *c);
/*
 * The caller's memory: 0, or -ESRCH; -EFAULT where not all of it is there;
 * -ENAMETOOLONG where a string has no NUL within @max bytes, or 32 KiB. Of more
 * than that each such piece is read or written by itself.
 */
int sandlock_call_read(struct sandlock_call *c, uint64_t addr, void *data,
		       size_t n);
int sandlock_call_read_string(struct sandlock_call *c, uint64_t addr,
			      char *data, size_t max);
int sandlock_call_write(struct sandlock_call *c, uint64_t addr,
			const void *data, size_t n);
/* Gives the caller a copy of @fd, which stays ours: its number there, or
 * -ESRCH; -EMFILE, -EBADF. */
int sandlock_call_install_fd(struct sandlock_call *c, int fd,
			     bool close_on_exec);
/* A copy of the caller's @fd, close-on-exec, to be closed; or -ESRCH; -EBADF.
 */
int sandlock_call_get_fd(struct sandlock_call *c, int fd);
/* True once nobody waits for an answer. */
bool sandlock_call_is_cancelled(struct sandlock_call *c);
/*
 * Answers, once: 0, or -EALREADY where it was answered before, -ECANCELED where
 * the run is over. Does not free. Whether the caller still was there to hear it
 * is not said.
 */
int sandlock_call_answer(struct sandlock_call *c,
			 const struct sandlock_action *a);
/* Unanswered, its handler has failed. NULL is fine. */
void sandlock_call_free(struct sandlock_call *c);

/*
 * Fills @ret with SANDLOCK_ACTION_FD of a file in memory that has the @n bytes
 * of @data and nothing to change them by, close-on-exec. ERR_SYSTEM.
 */
int sandlock_action_bytes(const void *data, size_t n,
			  struct sandlock_action *ret,
			  struct sandlock_error *err);

/* The number of a system call of this machine, or -1; and its name, to be
 * freed, or NULL. */
int sandlock_syscall_number(const char *name);
char *sandlock_syscall_name(int nr);

/* changes[from] is the file that changes[to] is now: deleted here, made there,
 * with equal bytes that are not none. */
struct sandlock_rename {
	size_t from, to;
};
int sandlock_renames(const struct sandlock_changed *changes, size_t n,
		     struct sandlock_rename **ret, size_t *ret_n,
		     struct sandlock_error *err);

/* ------------------------------------------------------ several at once -- */

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
 * _SANDLOCK_GATHER, "NAME:FD,..."; @names has a name for each but the last.
 */
int sandlock_gather_start(struct sandlock_sandbox *const *v,
			  struct sandlock_launch *l, const char *const *names,
			  size_t n, struct sandlock_error *err);

/* --------------------------------------------------------- transactions -- */

/*
 * Several commands, one after the other over one branch: everything that they
 * write is published when the last one has succeeded, or nothing is. A stage
 * sees what the ones before it wrote. Each is a sandbox with rules of its own,
 * but all work in the same directories. One thread at a time, but for
 * sandlock_transaction_kill.
 *
 * While it runs the branch is the caller's: if he dies it is kept.
 *
 * With savepoints each stage writes to a layer of its own, and a stage that
 * fails stops the transaction instead of ending it:
 *
 *	run -> failed -> (rollback) -> run on | end
 */
struct sandlock_transaction;

int sandlock_transaction_new(const struct sandlock_env *env,
			     struct sandlock_transaction **ret,
			     struct sandlock_error *err);
void sandlock_transaction_free(struct sandlock_transaction *t);
/*
 * Appends a stage, and runs nothing. @l as for sandlock_sandbox_create, or
 * NULL; its streams may not be pipes. ERR_USAGE for a stage that says what
 * becomes of the branch by itself (defer, abort, keep), has none, or works
 * elsewhere or as somebody else than the first one.
 */
int sandlock_transaction_add(struct sandlock_transaction *t,
			     const struct sandlock_request *q,
			     const struct sandlock_launch *l,
			     struct sandlock_error *err);

/*
 * The sandbox of stage @i, to set a policy or handlers before it runs, or to
 * look at it while it does; NULL if there is none. Only the transaction runs
 * it, and frees it.
 */
struct sandlock_sandbox *
sandlock_transaction_stage(const struct sandlock_transaction *t, size_t i);

struct sandlock_transaction_result {
	/* COMMITTED; EMPTY: nothing was changed; ABORTED: a stage has failed;
	 * PENDING: it could not be committed, see outcome_error, or, with
	 * savepoints, it has stopped at a stage that has failed. */
	enum sandlock_outcome outcome;
	struct sandlock_error outcome_error;
	size_t n_run;	/* stages that were begun */
	size_t failed;	/* the stage that failed; n_run if none has */
	char name[256]; /* of the branch */
};

/*
 * Runs them, once. @timeout_ms (0: none) is for all of them. A stage that fails
 * is no error: its report says how; an error, by which a stage could not be run
 * at all, has discarded the branch. With savepoints both leave what the stages
 * before it wrote: a further call goes back to there and runs on from it.
 */
int sandlock_transaction_run(struct sandlock_transaction *t,
			     uint64_t timeout_ms,
			     struct sandlock_transaction_result *ret,
			     struct sandlock_error *err);
/*
 * Ends the stage that runs as by sandlock_sandbox_kill, and no further one is
 * begun: nothing is published, unless the last one had ended. By any thread,
 * until the free.
 */
void sandlock_transaction_kill(struct sandlock_transaction *t);
/*
 * Before the first run: what each stage writes is kept apart until the end, so
 * that one can go back. That costs a mount of more layers, and renames where
 * several stages wrote to the same directories. Hard links between files that
 * different stages write to break, as those of the lower do. A transaction that
 * is freed where it has stopped leaves its branch waiting.
 */
int sandlock_transaction_set_savepoints(struct sandlock_transaction *t,
					struct sandlock_error *err);
/*
 * Back to the state after the first @n stages, of which each has succeeded (0:
 * to the beginning); the next run goes on from there. ERR_STATE without
 * savepoints, and when all is over.
 */
int sandlock_transaction_rollback(struct sandlock_transaction *t, size_t n,
				  struct sandlock_error *err);
/*
 * No further stage: what those that have succeeded wrote is published, aborted,
 * or kept in the store for a later decision (KEEP, DEFER). A stage that has
 * failed is undone first.
 */
int sandlock_transaction_end(struct sandlock_transaction *t,
			     enum sandlock_disposition what,
			     struct sandlock_transaction_result *ret,
			     struct sandlock_error *err);
/*
 * Of stage @i, or NULL if it has none; valid until the free, or until it is run
 * again. Its changes are those of all stages so far.
 */
const struct sandlock_report *
sandlock_transaction_report(const struct sandlock_transaction *t, size_t i);

/*
 * Confines the calling thread for good, and what it makes from now on, without
 * a sandbox: files by Landlock, system calls by a filter, no sockets but
 * AF_UNIX. Of the keys "filesystem.read" and "write", "syscalls.extra_allow"
 * and "extra_deny", "allow_degraded" and "disable" mean something here; with
 * another one it is ERR_UNSUPPORTED, and nothing was done. Nothing is hidden
 * below a directory that may be read, and files that are open stay open. After
 * any other failure the thread may be confined in part.
 */
int sandlock_confine(const struct sandlock_env *env,
		     const struct sandlock_request *q,
		     struct sandlock_error *err);

/*
 * Entry of the supervisor process; the program calls it first thing when its
 * argv[0] is "sandlock-supervisor". Returns the exit status.
 */
int sandlock_supervisor_main(int argc, char **argv);

/*
 * Entry of the waiter process; the program calls it first thing when its
 * argv[0] is "sandlock-waiter". Returns the exit status.
 */
int sandlock_waiter_main(int argc, char **argv);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
