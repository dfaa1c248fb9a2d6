/*
 * What the verbs share: the context of one call, the way errors and notes are
 * told, exit statuses, tables.
 *
 * A verb is `int cmd_<verb>(ctx, args)` in <verb>.c and returns the exit
 * status; it ends with `return cmd_fail(ctx, &err)` where something failed.
 * One thread.
 */
#ifndef SANDLOCK_CMD_CMD_H
#define SANDLOCK_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "opts.h"
#include "sandlock.h"

struct error;

struct ctx {
	struct sandlock_env env;
	const char *program; /* "sandlock" or "sandlock-oci", for messages */
	bool engine;	     /* called as sandlock-oci */
	const struct verb *verb;

	const char *log_path; /* NULL: standard error */
	bool log_json;
	enum sandlock_log_level log_level;
	bool error_logged; /* engines read the log as one error object */

	bool systemd_cgroup;
	bool disable_cgroups;
};

/* clang-format off */
int cmd_create(struct ctx *ctx, struct args *args);
int cmd_start(struct ctx *ctx, struct args *args);
int cmd_run(struct ctx *ctx, struct args *args);
int cmd_exec(struct ctx *ctx, struct args *args);
int cmd_kill(struct ctx *ctx, struct args *args);
int cmd_delete(struct ctx *ctx, struct args *args);
int cmd_state(struct ctx *ctx, struct args *args);
int cmd_list(struct ctx *ctx, struct args *args);
int cmd_ps(struct ctx *ctx, struct args *args);
int cmd_pause(struct ctx *ctx, struct args *args);
int cmd_resume(struct ctx *ctx, struct args *args);
int cmd_update(struct ctx *ctx, struct args *args);
int cmd_events(struct ctx *ctx, struct args *args);
int cmd_spec(struct ctx *ctx, struct args *args);
int cmd_features(struct ctx *ctx, struct args *args);
int cmd_check(struct ctx *ctx, struct args *args);
int cmd_diff(struct ctx *ctx, struct args *args);
int cmd_commit(struct ctx *ctx, struct args *args);
int cmd_abort(struct ctx *ctx, struct args *args);
int cmd_branches(struct ctx *ctx, struct args *args);
int cmd_recover(struct ctx *ctx, struct args *args);
int cmd_inspect(struct ctx *ctx, struct args *args);
int cmd_ports(struct ctx *ctx, struct args *args);
int cmd_logs(struct ctx *ctx, struct args *args);
int cmd_why(struct ctx *ctx, struct args *args);
int cmd_approvals(struct ctx *ctx, struct args *args);
int cmd_approve(struct ctx *ctx, struct args *args);
int cmd_deny(struct ctx *ctx, struct args *args);
int cmd_profile(struct ctx *ctx, struct args *args);
int cmd_completion(struct ctx *ctx, struct args *args);
int cmd_version(struct ctx *ctx, struct args *args);
int cmd_help(struct ctx *ctx, struct args *args);
/* clang-format on */

/* Exit statuses of ours. */
enum {
	STATUS_FAILURE = 1,
	STATUS_USAGE = 2,
	STATUS_CONFLICT = 3,
	STATUS_STAGE_FAILURE = 70,  /* a stage could not be run */
	STATUS_COMMIT_FAILURE = 74, /* of a transaction */
	STATUS_LOCKED = 75,
	STATUS_STAGE_REFUSED = 78, /* before any stage was run */
	STATUS_TIMEOUT = 124,
	STATUS_RUN_FAILURE = 125,
	STATUS_EXEC_DENIED = 126,
	STATUS_EXEC_MISSING = 127,
	STATUS_ENGINE_UNKNOWN_VERB = 3,
	STATUS_ENGINE_EXEC = 255,
};

/* report.c */

/* Fill @err and return a negative errno; @sys 0: no text of errno. */
int cmd_error(struct sandlock_error *err, enum sandlock_error_kind kind,
	      int sys, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int cmd_hint(struct sandlock_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The library's inner error as one of the API. */
void cmd_error_from(struct sandlock_error *err, const struct error *e);

/* Tells the error on standard error and in the log; returns the status. */
int cmd_fail(struct ctx *ctx, const struct sandlock_error *err);
/* The same for running out of memory. */
int cmd_fail_memory(struct ctx *ctx);

/* One line for a person on standard error; nothing for an engine. */
void cmd_note(const struct ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The sink for warnings and debug lines of the library; @data is the ctx. */
void cmd_log(void *data, enum sandlock_log_level level, const char *msg);

/* Flushes standard output; 0, or the status of a failure that it told. */
int cmd_flush(struct ctx *ctx);

/* The exit status for how a sandbox or a process inside ended. */
int cmd_child_status(const struct sandlock_result *r);

/* bundle.c */

/* The bundle that the options of create and run describe. */
int cmd_bundle(const struct ctx *ctx, const struct args *args,
	       struct sandlock_bundle *ret, struct sandlock_error *err);
/* --preserve-fds, in range. */
int cmd_preserve_fds(const struct args *args, unsigned int *ret,
		     struct sandlock_error *err);

CLEANUP_PTR(struct sandlock_request, sandlock_request_free);

/* run_command.c: `run -- COMMAND`. */
int cmd_run_command(struct ctx *ctx, const struct args *args);
/* A bundle of which somebody is asked: as an option of these says. */
bool cmd_asks(const struct args *args);
/*
 * The same where it is created or detached, into b->request; the caller frees
 * *@ret, which stays NULL where nobody is asked.
 */
int cmd_asking_bundle(const struct args *args, struct sandlock_bundle *b,
		      struct sandlock_request **ret,
		      struct sandlock_error *err);
int cmd_run_asking_bundle(struct ctx *ctx, const struct args *args);
/* Sets what the options say; refuses those that are for bundles. */
int cmd_set_request(const struct args *args, struct sandlock_request *q,
		    struct sandlock_error *err);
int cmd_refuse_bundle_options(const struct args *args,
			      struct sandlock_error *err);
/* run_stages.c: `run --stage FILE...`. */
int cmd_run_stages(struct ctx *ctx, const struct args *args);
/* run.c: tells what became of a branch; the exit status. */
int cmd_run_status(struct ctx *ctx, const struct sandlock_result *r);

/* branch.c */

/* Of a branch with several workdirs the whole path, which also selects it. */
void change_path(struct buf *b, const struct sandlock_change *c);
struct cmd_paths {
	const char **v; /* owned; absolute, or relative to the lower */
	size_t n;
};
void cmd_paths_done(struct cmd_paths *p);
/* The operands after the name of a branch. */
int cmd_branch_paths(const struct args *args, struct cmd_paths *ret,
		     struct sandlock_error *err);
/* The first operand, or the only pending branch; malloc'ed. */
int cmd_branch_name(const struct ctx *ctx, const struct args *args, char **ret,
		    struct sandlock_error *err);
/* One line about @n changes that wait, and @why they do if not as usual. */
void cmd_note_pending(const struct ctx *ctx, const char *name, size_t n,
		      const char *why);
/* That it was over its quota, if it was. */
void cmd_note_quota(struct ctx *ctx, const struct args *args,
		    const struct sandlock_result *r);
/* The same for what the ended sandbox @name left, if it left something. */
void cmd_note_left(const struct ctx *ctx, const char *name);
/* True if what a change names is, or was, a directory. */
bool change_is_dir(const struct sandlock_change *c);
/* The path of a change as git quotes it, directories with a slash. */
void print_path(struct buf *b, const struct sandlock_change *c);

/* print.c */

/* A table whose columns are as wide as their cells. */
struct table {
	size_t n_columns;
	size_t min_width, padding;
	char **cells; /* row by row, the header first */
	size_t n_cells;
	bool failed;
};

void table_init(struct table *t, size_t n_columns, size_t min_width,
		size_t padding);
void table_done(struct table *t);
/* The next cell, escaped for a terminal; @max 0: not cut. */
void table_add(struct table *t, const char *text, size_t max);
int table_print(const struct table *t, FILE *f);

/* "42s", "3m12s", "4h05m", "12d3h"; "-" for a negative number. */
const char *print_uptime(int64_t seconds, char ret[24]);

void print_json_str_or_null(struct json_out *o, const char *s);
/* Writes a finished JSON text to standard output. */
int print_json(struct ctx *ctx, struct json_out *o);

CLEANUP_PTR(struct json_out, json_out_free);

/* help.c */
int help_overview(struct ctx *ctx);
int help_verb(struct ctx *ctx, const struct verb *v);
/* "*-b*, *--bundle* _DIR_" and so on, in scdoc's syntax. */
void help_man_options(FILE *f, const struct verb *v);

/* version.c */
int version_print(struct ctx *ctx, bool json);

#endif
