/*
 * Opening a file in the place of a caller, so that nobody has to stand still
 * while the kernel reads the caller's memory again: it does not.
 *
 * Only what opens here is used, and only where that is what the caller itself
 * would have got: of every other case, failures included, opener_open says
 * -EAGAIN, and the kernel makes the call as the caller.
 *
 *	walked		from the caller's root, with its user and groups and
 *			without capabilities, so never further than it could
 *	pinned		the object that was found is the one that was shown,
 *			and that very one is opened (by its O_PATH fd); what is
 *			new is made by name, exclusively, in its own directory
 *	left alone	all but files, directories and FIFOs of file systems
 *			that do not look at who opened (no /proc, no devices
 *			but /dev/null and the like),
 *			O_PATH, O_TMPFILE, RESOLVE_*; callers whose groups or
 *			security label are not ours, or in a sandbox where
 *			somebody entered a Landlock domain
 *
 * The sandbox's own Landlock domain says no more of files than its mounts do,
 * but for /dev and /proc, where nothing is written here.
 */
#ifndef SANDLOCK_SUPERVISE_OPENER_H
#define SANDLOCK_SUPERVISE_OPENER_H

#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdint.h>

#include "supervise/callers.h"
#include "supervise/handler.h"

struct object;
struct object_found;
struct who;

/* Borrowed by the row; outlives the supervisor. */
struct opener {
	/* The mounts of the sandbox are its own, and say what may be opened. */
	bool has_mounts;
	bool has_labels; /* an LSM may have given the caller another label */
	atomic_bool has_domains; /* of a process of the sandbox: Landlock */
	atomic_int self_fd;	 /* /proc/self/fd; -1: not opened yet */
	_Atomic uint64_t plain;	 /* a mount of a file system like that; or 0 */
	struct callers callers;
};

/* @sees_execs: as of struct callers. */
int opener_init(struct opener *o, bool has_mounts, bool sees_execs);
void opener_done(struct opener *o);

/*
 * An fd, or -EAGAIN; -EINPROGRESS where it would have to wait and may not.
 * @who calls, and has the root @root_fd; @dirfd is where a relative path
 * begins.
 */
int opener_open(struct opener *o, struct call *c, const struct who *who,
		const struct object *shown, int root_fd, int dirfd,
		const struct open_how *how, bool follows, bool may_wait);

/*
 * Walks for a caller that only reads, before anybody has decided: nobody is
 * told of that. @path begins at the caller's root. True if it leads to a file
 * or a directory that opener_open_found may open. Where the walk has led is
 * told in any case; @ret->fd is to be closed, and @real has room for what it
 * is.
 */
bool opener_find(struct opener *o, struct call *c, const struct who *who,
		 int root_fd, const char *path, const struct open_how *how,
		 bool follows, struct object_found *ret, char real[PATH_MAX]);
/* Opens what that has found; an fd or -EAGAIN. */
int opener_open_found(struct opener *o, struct call *c, const struct who *who,
		      int found_fd, const struct open_how *how);

/* It is a FIFO, and waits for the other end. */
bool opener_waits(const struct object *x, const struct open_how *how);

/* There is nothing at @path, from @root_fd on, as far as @who may look. */
bool opener_misses(const struct who *who, int root_fd, const char *path,
		   bool follows);

/* The calls that change what may be opened here. */
enum { OPENER_ROWS = 6 };
size_t opener_rows(struct opener *o, struct handler ret[OPENER_ROWS]);

#endif
