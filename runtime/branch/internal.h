/*
 * What the files of branch/ share; no other layer includes this.
 *
 * store.c	where branches are, claiming names, listing, trash
 * meta.c	meta.json: written atomically, read strictly
 * branch.c	struct branch: create, find, close, info, state, probe
 * overlay.c	the mount
 * settle.c	the one step at the end
 * enter.c	running a function in the user namespace of a branch
 * walk.c	iterative walk over upper and lower
 * change.c	change list on top of the walk
 * plan.c, intent.c, publish.c, recover.c, commit.c	the commit protocol
 */
#ifndef SANDLOCK_BRANCH_INTERNAL_H
#define SANDLOCK_BRANCH_INTERNAL_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/log.h"
#include "branch/branch.h"

enum { BRANCH_META_VERSION = 1 };

/* What an object was when the runtime (or a rollback) last touched it. */
struct branch_record {
	char *path;    /* relative to the root, "" for the root */
	uint64_t dev, ino;
	uint32_t mode, uid, gid;
	struct timespec mtime, ctime;
};

struct branch_meta {
	int version;
	char *name;
	char *lower; /* real path */
	uint64_t lower_dev, lower_ino;
	struct timespec base_time; /* ctime of a file made at the start, on the
				      clock that stamps the lower */
	struct timespec created;
	char boot_id[BOOT_ID_LEN + 1];
	struct idmap idmap;
	bool userxattr; /* user.overlay.*, else trusted.overlay.* */
	bool staged;	/* upper and lower are on different mounts or fs */
	bool durable;
	uint64_t quota_bytes;
	enum disposition on_exit, on_error;
	char **argv;
	char *bundle;
	struct proc_id init;
	bool settled;
	struct exit_status status;
	/* Objects in upper that the runtime made, as it left them. */
	struct branch_record *made;
	size_t n_made;
	/* Objects of the lower whose state, not base_time, is the base: what a
	 * rollback or a partial commit touched. */
	struct branch_record *bases;
	size_t n_bases;
};

struct branch {
	struct store *store; /* borrowed */
	const struct log_sink *log;
	char *dir;	    /* real path of …/branches/<name> */
	char *upper;	    /* dir/upper */
	int dir_fd;
	int upper_fd;	    /* O_PATH or O_RDONLY directory; -1 if gone */
	int work_fd;
	int lower_fd;	    /* -1 if the lower cannot be opened */
	int lock_fd;
	struct branch_meta meta;
};

/* meta.c */
int meta_write(int dir_fd, const struct branch_meta *m, bool durable,
	       struct error *err);
int meta_read(int dir_fd, struct branch_meta *ret, struct error *err);
void meta_done(struct branch_meta *m);

/* branch.c: takes the branch lock, waiting up to @timeout_ms. ERR_LOCKED. */
int branch_lock(struct branch *b, int timeout_ms, struct error *err);
void branch_unlock(struct branch *b);

/*
 * branch.c: neither init nor any mount of the overlay exists (probe). 1 alive,
 * 0 not, negative errno where it cannot be told.
 */
int branch_is_alive(struct branch *b, struct error *err);

/* "trusted.overlay." or "user.overlay." */
const char *branch_xattr_prefix(const struct branch *b);

/*
 * enter.c: runs @fn in a child that is in the user namespace of the branch
 * (in this process where there is none to enter), and passes its result and
 * error back. @fn may write records to @out_fd, which @reader (may be NULL)
 * consumes in the caller while @fn runs.
 */
typedef int enter_fn(void *data, int out_fd, struct error *err);
typedef int enter_reader(void *data, int in_fd, struct error *err);
int branch_enter(struct branch *b, enter_fn *fn, enter_reader *reader,
		 void *data, struct error *err);

/*
 * store.c: renames @name in @dirfd to <store>/trash/<unique> (or, where that
 * is another mount, to a trash directory beside the branch) and lets a
 * detached child remove it. Nobody waits. Later verbs resume what a dead child
 * left behind.
 */
int store_discard(struct branch *b, int dirfd, const char *name,
		  struct error *err);

/* branch.c: removes the (empty or committed) branch and its name. */
int branch_remove(struct branch *b, struct error *err);

#endif
