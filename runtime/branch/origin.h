/*
 * Something was copied up, and the lower has nothing at its place: did the
 * sandbox move it there, or did the host take away what was there?
 *
 * Root's overlay keeps the file handle of what was copied, an ordinary user's
 * does not. So where the handle is missing what was moved is known by its type,
 * size and mtime, which a move leaves alone; and nothing was moved into a
 * directory whose mtime is older than the branch.
 *
 * What was not copied up but put in the place of something (a new file renamed
 * over the old one) tells nothing of that at all. So what the lower has at the
 * places of upper's objects is noted, a moment after they appear there
 * (watch.h), else when the branch is settled: what is missing there later was
 * taken away by the host, and what is another one, or is there at all, was put
 * there by it, though it may be old (a directory was moved into the place of
 * another).
 */
#ifndef SANDLOCK_BRANCH_ORIGIN_H
#define SANDLOCK_BRANCH_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct branch;
struct buf;
struct error;
struct merged;
struct object;
struct walk_entry;
struct xattr;
struct xattrs;

/* Both go on from @hash; 0 to begin with, and as long as there was nothing. */
uint64_t origin_hash(uint64_t hash, const void *data, size_t len);
uint64_t origin_hash_xattrs(uint64_t hash, const struct xattrs *x);

/* The overlay's mark on what it has copied up; NULL: @e has none. */
const struct xattr *origin_find(const struct branch *b,
				const struct walk_entry *e);

/*
 * Where no overlay is mounted the supervisor tells what it copies up, and where
 * to, and knows what was told before. Best effort.
 */
void origin_note_copies(const struct branch *b, struct merged *m);
bool origin_is_known(const struct buf *known, const char *path, size_t len,
		     uint64_t ino);
/* @of: the directory of the lower that it is a copy of; may be NULL. */
void origin_note_copy(int fd, const char *path, size_t len, uint64_t ino,
		      const struct object *of);

/*
 * Notes: what the lower has at a path of upper's (mode 0: nothing), and that
 * upper's is the same: a file as long as nothing touches it, a directory as
 * long as it has its mode, owner and attributes. In any order.
 */
void origin_add_lower(struct buf *notes, const char *path, size_t len,
		      const struct object *lower);
/* Where the lower's may not be the one that was there (origin_is_doubtful):
 * then whatever is there later is another one. */
void origin_add_doubtful(struct buf *notes, const char *path, size_t len);
void origin_add_equal(struct buf *notes, const char *path, size_t len,
		      const struct object *upper, const struct xattrs *x);
/*
 * A place, when the first look at it may have come late. Another directory of
 * the lower's may have been moved there since upper has something: one that has
 * changed after that, in one that has. A handle tells for certain.
 */
struct origin_place {
	int up_dirfd, low_dirfd;
	const char *name;		       /* in both */
	const struct object *up, *low, *above; /* the lower's directory, NULL:
						  of low_dirfd */
	const struct timespec *base_time;
	const char *prefix;
};
bool origin_is_doubtful(const struct origin_place *p);

/*
 * The notes of a branch (in its directory), to be searched; whether there is
 * one of a path; and all of them again, with new ones. Best effort.
 */
void origin_read_notes(int dir_fd, struct buf *ret);
bool origin_is_noted(const struct buf *notes, const char *path, size_t len);
void origin_write_notes(const struct branch *b, const struct buf *notes,
			struct buf *more);

/*
 * What the lower has, or had a place for, under something of upper's: all that
 * can have been copied up. Made when it is first needed, kept in *@origins.
 */
struct origins;
void origins_free(struct origins *o);

/* 1 if the supervisor has copied @e up to where it is; of any object. */
int origin_was_copied(struct origins **origins, const struct branch *b,
		      const struct walk_entry *e, struct error *err);

/*
 * Whether the overlay has copied upper's directory that @e is in up from the
 * one that the lower has now; an ordinary user's does not tell from which.
 */
bool origin_is_of_dir(struct origins **origins, const struct branch *b,
		      const struct walk_entry *e);

/*
 * 1 if @e, which was copied up and has no lower, can not have been moved to its
 * place from elsewhere, 0 if it was, or a negative errno.
 */
int origin_is_lost(struct origins **origins, const struct branch *b,
		   const struct walk_entry *e, struct error *err);

/* 1 if the lower had something at @path when that was noted. */
int origin_had_lower(struct origins **origins, const struct branch *b,
		     const char *path, size_t len, struct error *err);

/* Whether it is noted what the lower had there, or that it had nothing. */
bool origin_is_known_place(struct origins **origins, const struct branch *b,
			   const char *path, size_t len);

/* Whether the supervisor has copied the directory that is there @now. */
bool origin_was_seen(struct origins **origins, const struct branch *b,
		     const char *path, size_t len, const struct object *now);

/* If that was another object than the one that it has @now, or none. */
bool origin_is_another(struct origins **origins, const struct branch *b,
		       const char *path, size_t len, const struct object *now);

/* If upper's is as it was copied up, whatever the lower has now; @x for a
 * directory. */
bool origin_is_equal(struct origins **origins, const struct branch *b,
		     const char *path, size_t len, const struct object *upper,
		     const struct xattrs *x);

#endif
