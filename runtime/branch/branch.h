/*
 * A branch holds what a sandbox wrote until somebody decides about it.
 *
 *	open -> (the sandbox writes) -> pending -> committing -> committed
 *	                                pending -> aborted
 *	open and nothing of it alive = interrupted, settled into pending
 *
 * On disk: <store>/branches/<name>/ with meta.json, lock, upper/, work/ and,
 * while it is committed, intent, trash/, done (DESIGN section 5). What is on
 * disk is the truth: any process may die at any instant.
 *
 * Life of one, seen from the sandbox that writes:
 *
 *	branch_begin            what will be made where; nothing is there yet
 *	branch_make             directories and meta.json; nothing is synced
 *	branch_overlay          a detached overlay mount of lower and upper
 *	branch_set_running      what the runtime made in it, who lives in it
 *	branch_settle           init is gone: durable, status, pending
 *	branch_dispose          the automatic disposition, if any
 *
 * and from a verb in another process:
 *
 *	branch_find -> branch_diff | branch_commit | branch_abort |
 *branch_recover
 *
 * A struct branch is not thread-safe. Exclusion between processes is an flock
 * on the branch's lock file, never inherited by a payload.
 */
#ifndef SANDLOCK_BRANCH_BRANCH_H
#define SANDLOCK_BRANCH_BRANCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/disposition.h"
#include "base/idmap.h"
#include "kernel/pidfd.h"

struct error;
struct log_sink;
struct stat;

enum branch_state {
	BRANCH_OPEN,	    /* its sandbox is alive */
	BRANCH_INTERRUPTED, /* open, but nothing of it is alive */
	BRANCH_TORN,	    /* never settled before a reboot */
	BRANCH_PENDING,
	BRANCH_COMMITTING, /* an intent exists, done does not */
	BRANCH_COMMITTED,  /* only cleanup is left */
};
const char *branch_state_name(enum branch_state s);

/*
 * Where branches are kept. @dir NULL: $SANDLOCK_STORE, else (root)
 * /var/lib/sandlock, else $XDG_STATE_HOME/sandlock or
 * ~/.local/state/sandlock. The directory is made 0700 when first written to.
 */
struct store;
/* What stands for NULL; malloc'ed, NULL with errno. */
char *store_default_path(void);
int store_open(const char *dir, const struct log_sink *log, struct store **ret,
	       struct error *err);
void store_close(struct store *st);
CLEANUP_PTR(struct store, store_close);
const char *store_path(const struct store *st);

struct branch;

struct branch_options {
	const char *name;
	const char *lower; /* path of the directory; made real and absolute */
	/* Further roots, each with a lower of its own; see branch_root. */
	const char *const *more_lowers;
	size_t n_more_lowers;
	const char *storage; /* --storage: a directory, or NULL for the rule */
	bool durable;	     /* mount without "volatile" */
	uint64_t quota_bytes;
	enum disposition on_exit, on_error;
	/* Maps of the user namespace that will own the overlay; empty: ours. */
	struct idmap idmap;
	/* No overlay is mounted: the supervisor writes to upper (merged.h). */
	bool notify;
	bool hidden;		 /* its sandbox has no runtime directory */
	const char *const *argv; /* for `branches`; NULL-terminated or NULL */
	const char *bundle;	 /* or NULL */
};

/*
 * Finds and checks what a branch of that name needs: its lowers are open, and
 * its paths known. ERR_EXISTS if one waits in the store ("commit or abort it
 * first").
 */
int branch_begin(struct store *st, const struct branch_options *o,
		 struct branch **ret, struct error *err);
/*
 * Claims the name, which somebody may have taken since (ERR_EXISTS), and makes
 * the directories. On failure nothing is left, and it is only to be closed.
 */
int branch_make(struct branch *b, struct error *err);
/* Both at once. */
int branch_create(struct store *st, const struct branch_options *o,
		  struct branch **ret, struct error *err);

/* Opens a stored branch by name. ERR_NOT_FOUND. */
int branch_find(struct store *st, const char *name, struct branch **ret,
		struct error *err);
void branch_close(struct branch *b); /* closes fds; disk is left alone */
CLEANUP_PTR(struct branch, branch_close);

/*
 * Removes an unused branch right after branch_make, because the rest of the
 * creation failed; nothing of it is alive. One that was not made needs nothing.
 * To be closed all the same.
 */
void branch_discard(struct branch *b);

/* Of all overlays of ours: nothing in upper is about elsewhere. */
enum { BRANCH_OVERLAY_OPTIONS = 4 };
struct branch_overlay_option {
	const char *key, *value;
};
extern const struct branch_overlay_option
	branch_overlay_options[BRANCH_OVERLAY_OPTIONS];

/*
 * A detached mount of the overlay (fsmount fd, no attributes set). Must be
 * called in the user namespace of options.idmap; with an empty idmap by root.
 * Options are DESIGN section 5's; a child forked after branch_make may call
 * it, all fds are open.
 */
int branch_overlay(const struct branch *b, int *ret_mount_fd,
		   struct error *err);

/*
 * Records who lives in it (stored with the boot id) and the objects that the
 * runtime made or touched below the root, before the payload runs: paths
 * relative to it ("dev/console", "proc", "" for the root itself). Each is
 * looked up in upper now; while it stays as it is now it is no change. Parents
 * of what is listed, and the root, are recorded by this function. Lets go of
 * the branch lock, which was held since branch_make.
 */
int branch_set_running(struct branch *b, const char *const *paths, size_t n,
		       const struct proc_id *init, struct error *err);
/* Nothing is in it, not even what the runtime has made. */
bool branch_is_untouched(struct branch *b);
/* All of it, and what it is over, is on the file system @dev. */
bool branch_lies_on(struct branch *b, dev_t dev);
/* To be called while there is time: then branch_set_running takes less. */
void branch_expect_running(struct branch *b);
/*
 * One branch for several sandboxes, one after the other. When one has ended the
 * branch is handed on, unsettled: @owner keeps it alive until the next one
 * joins. With @owner->pid 0 it is let go of. Joining takes the branch lock, as
 * branch_make does. ERR_STATE where it is not @owner's.
 */
int branch_hand_on(struct branch *b, const struct proc_id *owner,
		   struct error *err);
int branch_join(struct branch *b, const struct proc_id *owner,
		struct error *err);
/*
 * Savepoints (layers.h), by whoever has joined. Before stage @n + 1 what the @n
 * stages before it wrote is put aside, if it is not yet; what it then writes
 * lies over that. Going back to the end of stage @n (0: to the beginning) drops
 * what came after. Settling makes one of what there is.
 */
int branch_save_stage(struct branch *b, size_t n, struct error *err);
int branch_roll_back(struct branch *b, size_t n, struct error *err);
/* What becomes of it when it is settled, however it ended. */
void branch_set_disposition(struct branch *b, enum disposition d);

/*
 * A branch over several directories has as many roots. All functions above and
 * below are for the whole, except those that speak of one path: these are for
 * the first root. Each root is a struct branch by itself, borrowed, for
 * branch_overlay and for the paths; a root in which nothing was changed may be
 * missing once the branch was settled.
 */
size_t branch_n_roots(const struct branch *b);
/*
 * The view of one root of a branch that is not mounted (options.notify), while
 * its sandbox lives. NULL with errno; merged_free before branch_close.
 */
struct merged;
struct merged *branch_merged(const struct branch *b);
struct branch *branch_root(struct branch *b, size_t i);

const char *branch_name(const struct branch *b);
const char *branch_dir(const struct branch *b);	  /* …/branches/<name> */
const char *branch_upper(const struct branch *b); /* …/upper */
const char *branch_lower(const struct branch *b);
bool branch_has_idmap(const struct branch *b, const struct idmap *m);
/* The uppers of earlier stages, the newest first; malloc'ed, or NULL. */
size_t branch_n_layers(const struct branch *b);
char *branch_layer(const struct branch *b, size_t i);
/* Of the lower as it was opened; 0 or a negative errno. */
int branch_stat_lower(const struct branch *b, struct stat *ret,
		      struct error *err);
/* The directory that holds it and its like: no payload may see that. */
const char *branch_storage(const struct branch *b);

/*
 * The name is taken: ERR_EXISTS, and what to do about the branch or the sandbox
 * that has it.
 */
int branch_say_taken(struct store *st, const char *name, struct error *err);
/* Of a sandbox that lives: how to end it. Returns what error_hint does. */
int branch_hint_running(const struct branch *b, struct error *err);

struct branch_info {
	char *name, *lower, *dir, *upper, *bundle;
	char **argv;
	enum branch_state state;
	enum disposition on_exit, on_error;
	struct exit_status status;
	struct timespec created;
	bool staged;	     /* store and lower are on different mounts */
	bool hidden;	     /* no verb reaches its sandbox */
	struct proc_id init; /* the first process while it lives, else pid 0 */
	/* All roots, the first one too. */
	struct branch_root_info {
		char *lower, *upper;
	} * roots;
	size_t n_roots;
};
int branch_get_info(struct branch *b, struct branch_info *ret,
		    struct error *err);
void branch_info_done(struct branch_info *i);

/* State by disk and probe (DESIGN: alive is init, or the overlay). */
int branch_get_state(struct branch *b, enum branch_state *ret,
		     struct error *err);

/* All names in the store, sorted; malloc'ed. Also resumes old trash. */
int store_list(struct store *st, char ***ret_names, size_t *ret_n,
	       struct error *err);
void store_names_free(char **names, size_t n);

struct branch_settled {
	bool gone;	  /* the branch was empty and has disappeared */
	size_t n_changes; /* as `diff` counts them; bounded effort, see .c */
};

/*
 * The one step at the end (DESIGN "Settle"), idempotent. @status as known, or
 * EXIT_UNKNOWN. @caller_waited: init was waited for in its pid namespace, so
 * the overlay is known to be gone and no probe is needed.
 */
int branch_settle(struct branch *b, const struct exit_status *status,
		  bool caller_waited, struct branch_settled *ret,
		  struct error *err);

enum branch_outcome {
	OUTCOME_PENDING,
	OUTCOME_COMMITTED,
	OUTCOME_ABORTED,
	OUTCOME_GONE
};

/*
 * Carries out the disposition that was asked for when the branch was made,
 * given the recorded status. A commit that meets a conflict, unless by @force
 * the last writer wins, leaves the branch pending: returns the error, *ret is
 * OUTCOME_PENDING.
 */
int branch_dispose(struct branch *b, bool force, enum branch_outcome *ret,
		   struct error *err);

#endif
