/*
 * What a command of the host may do, or who decides about a bundle, as keys and
 * values: made here, loaded from profiles, run by sandbox.h.
 */
#ifndef LIBSANDLOCK_REQUEST_H
#define LIBSANDLOCK_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base.h"

SANDLOCK_BEGIN

/*
 * A command of the host in a sandbox, with the directory that it works in on a
 * branch. What it may do is said by keys and values as in a profile,
 * sandlock.toml(5): "filesystem.read", "limits.memory" and so on; lists grow
 * with each call. The words of the command are the values of "program.args",
 * one call each, or of "program.exec" and then "program.args".
 * "program.bundle", a directory, has a bundle instead, with the program of its
 * config.json if there are no "program.args"; config.json says what it may do.
 * "name" and "dry_run" are not keys of profiles but set here too. @where goes
 * into messages about a bad value.
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
/*
 * Whether what was set fits together and names what there is, but for files of
 * the host, which are looked for when it is run.
 */
int sandlock_request_check(const struct sandlock_request *q,
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
 * How sandlock_run_command runs the bundle that @q asks for. Of @b, which is
 * copied and whose strings are borrowed, all counts that @q has no key for:
 * config, sockets and files, cgroups, durable, keep.
 */
struct sandlock_bundle;
void sandlock_request_set_bundle(struct sandlock_request *q,
				 const struct sandlock_bundle *b);
/*
 * Runs it in the foreground. @terminal: with a terminal of its own, relayed to
 * ours, which fds 0 to 2 must be; else they are passed as they are. From a
 * process with one thread, as sandlock_run.
 */
int sandlock_run_command(const struct sandlock_env *env,
			 struct sandlock_request *q, bool terminal,
			 struct sandlock_result *ret,
			 struct sandlock_error *err);

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

SANDLOCK_END

#endif
