/*
 * The runtime directory: one directory a sandbox, found by name.
 *
 *	<root>/			ours; default /dev/shm/sandlock-<uid>, 0700
 *	<root>/<name>/		0700, made exclusively: mkdir is the claim
 *	  lock			flock while somebody works on the sandbox
 *	  pid			two lines: init, and the process that serves it
 *	  state.json config.json exec.fifo exec.status
 *
 * A directory is removed only by whoever holds its lock and only if it is
 * still the inode that was opened: a late clean-up never takes a successor's.
 * Liveness is not decided here; the sandbox layer knows what is alive.
 */
#ifndef SANDLOCK_CONTROL_RUNDIR_H
#define SANDLOCK_CONTROL_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct error;

struct rundir;	    /* the root */
struct rundir_slot; /* one sandbox's directory */

/* The path of the root: @given, else as above; malloc'ed. 0 or -ENOMEM. */
int rundir_default(const char *given, char **ret);

/*
 * Opens the root, which is made if @create. The default that is ours but too
 * open is tightened. Somebody else's is an error that names the owner, and
 * another one that others write to is one too. Where it does not exist and is
 * not to be made: -ENOENT with an error.
 */
int rundir_open(const char *root, bool create, struct rundir **ret,
		struct error *err);
/* The same to look for @name: ERR_NOT_FOUND of it where there is no root. */
int rundir_open_for(const char *root, const char *name, struct rundir **ret,
		    struct error *err);
void rundir_close(struct rundir *d);
CLEANUP_PTR(struct rundir, rundir_close);
const char *rundir_path(const struct rundir *d);

/*
 * Claims @name: makes the directory and returns it locked. ERR_EXISTS if it is
 * there; the caller decides whether what is there is stale.
 */
int rundir_claim(struct rundir *d, const char *name, struct rundir_slot **ret,
		 struct error *err);
/* Opens the directory of @name without a lock. ERR_NOT_FOUND. */
int rundir_find(struct rundir *d, const char *name, struct rundir_slot **ret,
		struct error *err);
void rundir_slot_close(struct rundir_slot *s);
CLEANUP_PTR(struct rundir_slot, rundir_slot_close);

const char *rundir_slot_name(const struct rundir_slot *s);
const char *rundir_slot_path(const struct rundir_slot *s);
int rundir_slot_fd(const struct rundir_slot *s);

/*
 * Takes the lock, waiting up to @timeout_ms: ERR_LOCKED after that, ERR_STATE
 * where the directory has no lock file (somebody else made it).
 */
int rundir_lock(struct rundir_slot *s, int timeout_ms, struct error *err);
void rundir_unlock(struct rundir_slot *s);
/* In a clone of whoever holds it: it is his alone, and ends with him. */
void rundir_forget_lock(struct rundir_slot *s);

/* Milliseconds since the directory was made or an entry came or went. */
int rundir_age_ms(const struct rundir_slot *s);
/* True while somebody works on it: until the start is done. */
bool rundir_is_locked(const struct rundir_slot *s);
/* True if the directory has our lock file. */
bool rundir_is_ours(const struct rundir_slot *s);

int rundir_write_pids(struct rundir_slot *s, pid_t init, pid_t server,
		      struct error *err);
/* A missing second line means the first again. Negative errno. */
int rundir_read_pids(const struct rundir_slot *s, pid_t *ret_init,
		     pid_t *ret_server);

/* Removes the directory and what is in it, if it is still the same one. */
int rundir_remove(struct rundir_slot *s, struct error *err);
/* The same; of all who try to, one is told that it was he who did. */
int rundir_take(struct rundir_slot *s, bool *ret_ours, struct error *err);

/* All names, sorted; malloc'ed, as is the array. */
int rundir_names(struct rundir *d, char ***ret, size_t *ret_n,
		 struct error *err);
void rundir_names_free(char **names, size_t n);

#endif
