/*
 * What a branch changed: a walk over upper and lower, in byte order of the
 * paths, one record an object (cow.md section 3 has the table of cases).
 *
 * A directory's name sorts as if it ended in '/', so what is in it follows it
 * at once. Ids are the host's.
 *
 * Both trees are hostile: every directory is opened by fd, below its root,
 * without following links; depth is bounded by memory, not by the stack; FIFOs
 * and devices are never opened.
 */
#ifndef SANDLOCK_BRANCH_CHANGE_H
#define SANDLOCK_BRANCH_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct branch;
struct buf;
struct error;

enum change_kind {
	CHANGE_ADD,    /* A */
	CHANGE_MODIFY, /* M: contents, target or device */
	CHANGE_META,   /* m: only mode, owner, xattrs or mtime */
	CHANGE_DELETE, /* D */
	CHANGE_TYPE,   /* T: another type, or a directory replaced */
};
char change_letter(enum change_kind k);

enum change_flag {
	CHANGE_CONTENT_SAME = 1 << 0, /* opened for writing, bytes are equal */
	CHANGE_MTIME_ONLY = 1 << 1,
	CHANGE_CONFLICT = 1 << 2,    /* lower changed since the branch began */
	CHANGE_OPAQUE = 1 << 3,	     /* directory hides what was below */
	CHANGE_LINK = 1 << 4,	     /* another name of link_to */
	CHANGE_LINK_BROKEN = 1 << 5, /* lower had more names than this one */
	CHANGE_SETID = 1 << 6,	     /* set-id bits or file capabilities */
	CHANGE_SPECIAL = 1 << 7,     /* socket or device */
	CHANGE_ABSENT = 1 << 8,	     /* deletes what is already gone */
	CHANGE_STALE_LOCK = 1 << 10, /* git's, of a dead git: not committed */
	CHANGE_IMPLIED = 1 << 9, /* child of a deleted or replaced directory */
};

/* mode 0: the object does not exist on that side. */
struct change_side {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	uint64_t size;
	dev_t rdev;
	struct timespec mtime;
	const char *link_target; /* symlinks, else NULL */
};

struct change {
	enum change_kind kind;
	unsigned int flags;
	const char *path; /* relative to the lower, no trailing slash */
	const char *root; /* that lower, if the branch has several; or NULL */
	struct change_side before, after;
	const char *link_to;  /* CHANGE_LINK */
	const char *xattrs;   /* "+user.k -user.j ~user.l", or NULL */
	const char *conflict; /* why, for CHANGE_CONFLICT */
};

enum change_want {
	CHANGE_WANT_UNCHANGED = 1 << 0, /* also CONTENT_SAME ones (the APIs) */
	CHANGE_WANT_CHILDREN = 1 << 1,	/* IMPLIED deletes, from the lower */
	CHANGE_WANT_CONFLICTS = 1 << 2, /* compare the lower with the base */
	CHANGE_WANT_META = 1 << 3,	/* MTIME_ONLY ones too */
};

/* The record and what it points to are valid during the call. Non-zero ends
 * the walk and is returned. */
typedef int change_fn(void *data, const struct change *c);

/*
 * Calls @fn for every change below @paths (all if @n_paths is 0), in path
 * order. Read-only; the branch may be alive. Where that takes the user
 * namespace of the branch the work is done in a child; @fn runs in the caller.
 */
int branch_changes(struct branch *b, unsigned int want,
		   const char *const *paths, size_t n_paths, change_fn *fn,
		   void *data, struct error *err);

/* Calls @fn for every mount below the lower: these are not covered by the
 * overlay. Of the record only the path means something. */
int branch_uncovered(struct branch *b, change_fn *fn, void *data,
		     struct error *err);

enum change_content { CONTENT_BEFORE, CONTENT_AFTER };

/* Opens the contents of a regular file on one side, read-only. */
int branch_open_content(struct branch *b, const char *path,
			enum change_content side, int *ret_fd,
			struct error *err);
enum { CHANGE_DIGEST = 32 }; /* SHA-256 */
int branch_digest_bytes(struct branch *b, const char *path,
			enum change_content side,
			unsigned char ret[CHANGE_DIGEST], struct error *err);
/* The same as 64 hex digits and a NUL. */
int branch_digest(struct branch *b, const char *path, enum change_content side,
		  char ret[2 * CHANGE_DIGEST + 1], struct error *err);

#endif
