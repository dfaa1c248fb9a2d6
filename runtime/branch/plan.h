/*
 * What a commit is going to do, complete before anything is done, and small
 * enough to be written down: the intent on disk is this plan.
 *
 *	plan_commit (reads) -> plan_stage (private copies, if any are needed)
 *	-> intent_write -> publish_* -> done
 *
 * An op is carried out by one rename, and the inode numbers in it tell whether
 * it was: where the lower shows new_ino it is done, where it shows old_ino (or
 * nothing, if that is 0) it is not, and anything else is somebody else's work.
 */
#ifndef SANDLOCK_BRANCH_PLAN_H
#define SANDLOCK_BRANCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "branch/commit.h"
#include "branch/walk.h"

struct error;
struct sink;
struct site;

enum { PLAN_NONE = UINT32_MAX };

enum op_kind {
	OP_PUT,	   /* upper's or a staged object to its place in the lower */
	OP_DELETE, /* the lower's object to the stage */
	OP_DROP, /* out of a directory that moves: stays behind, in the stage */
	OP_CLEAN, /* moves with its directory; only attributes are stripped */
};

/* Ops are carried out in this order, so that half a commit harms least. */
enum op_class {
	CLASS_PREPARE, /* DROP and CLEAN: in private directories only */
	CLASS_NEW,     /* nothing points to it yet */
	CLASS_CHANGED,
	CLASS_POINTER, /* what points to other files: .git/HEAD, lock files */
	CLASS_DELETE,
};

enum op_flag {
	OP_IS_DIR = 1 << 0,
	OP_STAGED = 1 << 1, /* comes from stage/<index>, not from upper */
	OP_LINKED = 1 << 2, /* has more names in upper */
	OP_MAYBE = 1 << 3,  /* unchanged: put only if a link to it is */
	OP_FORCED = 1 << 4, /* a conflict was overridden */
	OP_MKDIR = 1 << 5,  /* parent of a selected path: made for it */
	OP_ANYHOW = 1 << 6, /* what it displaces goes as the host leaves it */
};

struct plan_op {
	uint64_t old_ino, new_ino;
	int64_t old_mtime_s; /* how the plan found the lower's object */
	uint32_t old_mtime_ns;
	uint32_t dir;	/* index of the directory it is in */
	uint32_t name;	/* offset in text */
	uint32_t strip; /* offset of stored attributes, or PLAN_NONE */
	uint8_t kind, class, flags;
	uint8_t padding;
	uint32_t old_mode; /* of a file: a directory's we may change */
	/* Hashes, for there is one of these a change. */
	uint32_t old_owner;  /* plan_hash_owner */
	uint32_t old_xattrs; /* plan_hash_xattrs; of a directory tree_hash */
};

struct dir_state {
	uint32_t mode, uid, gid, mtime_ns;
	int64_t mtime_s;
};

enum dir_flag {
	DIR_IN_LOWER = 1 << 0, /* it exists there */
	DIR_TOUCHED = 1 << 1,  /* ops happen in it: its mtime is set again */
	DIR_META = 1 << 2,     /* its own metadata change */
	DIR_MOVED = 1 << 3,    /* goes as a whole with an op above or at it */
	DIR_LAZY = 1 << 4,     /* made in the lower if something in it goes */
	DIR_USED = 1 << 5,
	DIR_HOSTS = 1 << 6, /* the host changed it since the branch began */
};

struct plan_dir {
	uint64_t ino;		   /* the lower's; 0: made by this commit */
	uint32_t parent;	   /* index; PLAN_NONE for the root */
	uint32_t name;		   /* offset in text */
	struct dir_state old, new; /* of the lower's directory */
	int64_t upper_mtime_s;
	uint32_t upper_mtime_ns;
	uint32_t old_xattrs, new_xattrs; /* offsets in text, or PLAN_NONE */
	uint8_t flags;
	uint8_t blocked; /* enum dir_block */
	uint8_t padding[6];
};

struct plan {
	struct plan_op *ops;
	struct plan_dir *dirs; /* a parent before what is in it */
	size_t n_ops, cap_ops, n_dirs, cap_dirs;
	struct buf text;
	bool partial; /* something stays pending */
	bool staged;  /* everything comes from the stage, beside the lower */
	bool allow_special;
	size_t n_published, n_skipped; /* as diff counts changes */
	uint64_t copy_bytes; /* contents that have to be copied, if staged */
};

void plan_done(struct plan *p);

const char *plan_text(const struct plan *p, uint32_t offset);

/*
 * Whether @o, in the lower at the place of @op, is what the plan saw, and as it
 * was. mtime, not ctime: an inode that other names have too changes its ctime
 * when one of them is displaced, or removed from the trash.
 */
bool plan_is_old(const struct plan_op *op, const struct object *o);
/*
 * The same of what a directory holds, at whatever depth; not of itself. True of
 * anything else.
 */
bool plan_has_old_tree(const struct plan_op *op, int dirfd, const char *name);
/* A tree_hash for the plan, which is never 0: older programs wrote that. */
uint32_t plan_fold_tree(uint64_t hash);
/* The same of its attributes, which have to be read: where time has passed. */
bool plan_has_old_xattrs(const struct plan_op *op, int dirfd, const char *name,
			 const char *prefix);
/* Reads them: 0 for none. A negative errno. */
int plan_hash_xattrs(int dirfd, const char *name, const char *prefix,
		     uint32_t *ret);
uint32_t plan_hash_owner(uid_t uid, gid_t gid);

/* The path of @name in a directory, or of the directory itself if NULL. */
void plan_path(const struct plan *p, uint32_t dir, const char *name,
	       struct buf *ret);

/* Attributes in the plan's text. plan_get_xattrs gives none for PLAN_NONE. */
int plan_add_xattrs(struct plan *p, const struct xattrs *x, uint32_t *ret);
int plan_get_xattrs(const struct plan *p, uint32_t offset, struct xattrs *ret);

/*
 * Reads both trees. Conflicts are told to @sink; with CONFLICT_REFUSE (and
 * always, if one cannot be forced) they make it fail with ERR_CONFLICT when
 * all were told.
 */
int plan_commit(struct plan *p, struct branch *b, const struct site *s,
		const struct commit_options *o, struct sink *sink,
		struct error *err);

/* plan_sort.c: drops what proved unneeded and puts ops in their order. */
int plan_finish(struct plan *p, struct error *err);

/* intent.c */
int intent_write(const struct plan *p, int dir_fd, const char *name,
		 struct error *err);
/* ERR_TORN for one that is not whole; 0, or -ENOENT without an error. */
int intent_read(struct plan *p, int dir_fd, struct error *err);

#endif
