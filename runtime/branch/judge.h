/*
 * What one entry of a walk means: changed or not, how, and whether the host
 * changed it too. The rows of cow.md section 3 live here; diff and commit ask
 * the same questions and so never disagree.
 */
#ifndef SANDLOCK_BRANCH_JUDGE_H
#define SANDLOCK_BRANCH_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "branch/change.h"
#include "branch/walk.h"

struct branch;
struct branch_record;
struct error;
struct link_table;
struct origins;

struct judge {
	const struct branch *branch;
	const char *prefix;
	bool details;	/* tell every difference, not only that there is one */
	bool conflicts; /* compare the lower with the base */
	bool inside;	/* we are in the branch's user namespace */
	struct link_table *links;
	struct origins *origins;
	const struct branch_record **by_inode; /* meta.bases, sorted */
	char *chunk;	/* two buffers to compare contents with */
	struct buf dir; /* the last one that was looked at, with a slash */
	bool dir_is_anothers;
	struct buf text, xattrs, before_target, after_target;
};

struct verdict {
	bool changed;
	bool was_made; /* by the runtime, whatever became of it */
	bool made;     /* and it is as the runtime left it */
	/* Opened, perhaps written, and equal: nothing for a commit to do. */
	bool opened_only;
	enum change_kind kind;
	unsigned int flags;   /* enum change_flag */
	const char *conflict; /* in judge's memory, until the next call */
	bool hard;	      /* a conflict that cannot be forced */
	bool locked;	      /* because of a flag that chattr(1) takes away */
	const char *link_to;
	const char *xattrs;
	uint64_t below; /* tree_hash of the lower's directory that goes */
};

int judge_init(struct judge *j, const struct branch *b, struct error *err);
void judge_done(struct judge *j);

/*
 * An owner that the runtime could not give the copy of a directory (its id is
 * not mapped in the branch's user namespace) is none that the payload took
 * away: such an entry is returned as @copy, with the lower's ids.
 */
const struct walk_entry *judge_adopt(const struct judge *j,
				     const struct walk_entry *e,
				     struct walk_entry *copy);

/* Not for entries that the walk is leaving. */
int judge_entry(struct judge *j, const struct walk_entry *e, struct verdict *v,
		struct error *err);

/* As a record for the caller's eyes; it points into @j and @e. */
int judge_describe(struct judge *j, const struct walk_entry *e,
		   const struct verdict *v, struct change *ret);

/* Has the lower's object changed since the branch began? */
bool judge_base_changed(const struct judge *j, const char *path,
			const struct object *lower);

/* content.c: 1 if the regular files hold the same bytes, 0 if not. */
int content_compare(int a_dirfd, const char *a_name, const struct object *a,
		    int b_dirfd, const char *b_name, const struct object *b,
		    char *chunk);
enum { CONTENT_CHUNK = 128 * 1024 }; /* chunk holds two of these */

/* content.c: opens a regular file to read it, whatever is there by now. */
int content_open(int dirfd, const char *name, int *ret_fd);

/*
 * content.c: a SQLite database in which some process holds a lock: what it has
 * in memory would be written into the old file, or mixed with the new one.
 */
bool content_is_open_database(int dirfd, const char *name,
			      const struct object *o);

/* content.c: a symlink's target, appended to @b. 0 or a negative errno. */
int content_readlink(int dirfd, const char *name, struct buf *b);

/* content.c: 1 if both symlinks have the same target, 0 if not. */
int content_same_target(const struct walk_entry *e);

#endif
