/*
 * The renames of a commit. One renameat2(2) each, where the file system knows
 * its flags; where it does not (NFS, most of FUSE) links and plain renames,
 * with steps in between: each function may be repeated after a kill at any of
 * them. A plain rename cannot tell what it replaces, so somebody else's change
 * of the same name is lost if it comes between our look and our rename.
 */
#ifndef SANDLOCK_BRANCH_MOVE_H
#define SANDLOCK_BRANCH_MOVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct place {
	int dirfd;
	const char *name;
	char number[24]; /* may hold the name */
};

/*
 * An object of ours whose mode keeps us from what its owner may do: to change
 * its attributes, or where a directory is. For a moment it does not.
 */
struct shut {
	int fd; /* O_PATH; -1: there was nothing to open */
	mode_t mode;
};
void place_open_shut(const struct place *p, struct shut *ret);
void place_shut(struct shut *d);

/* To where nothing is: -EEXIST. */
int move_new(const struct place *from, const struct place *to);

/* Exchanges the two; -EINVAL where the file system cannot. */
int move_exchange(const struct place *a, const struct place *b);

/*
 * Instead of an exchange: what is at @to, the inode @old, goes @aside, and what
 * is at @from takes its place. -ESTALE if something else is there.
 */
int move_over(const struct place *from, const struct place *to,
	      const struct place *aside, uint64_t old);

/* The way back: @new returns from @to to @from, and @aside's to @to. */
int move_back(const struct place *from, const struct place *to,
	      const struct place *aside, uint64_t new);

/* For tests: flags that no file system has. None in production. */
extern unsigned int move_without_flags;
/* For tests: directories are changed by an exchange, as on XFS. */
extern bool move_touches;

#endif
