/*
 * An ordinary user without a user namespace is kept out by the modes of what is
 * theirs (chmod 000 f, umask 777). So in the upper of a branch that is settled
 * such objects have u+rwX, and the modes that they are to have stand in
 * meta.json, which is on disk before any of them changes:
 *
 *	settle: modes_open -> walks tell the noted modes -> commit: all of it
 *	moves as it is -> modes_close, at its new place
 *
 * An object is known by path and inode, so that each step may be repeated.
 * Root, of the host or of a user namespace, is kept out of nothing and has
 * nothing to note.
 */
#ifndef SANDLOCK_BRANCH_MODES_H
#define SANDLOCK_BRANCH_MODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct branch;
struct branch_meta;
struct branch_record;
struct error;

/* True if the caller owns it and may not do with it what settling takes. */
bool modes_keep_out(const struct stat *st);

/* What is noted of the object @ino at @path of upper, or NULL. */
const struct branch_record *modes_find(const struct branch_meta *m,
				       const char *path, uint64_t ino);
/* The same, put into @st. */
void modes_tell(const struct branch_meta *m, const char *path, struct stat *st);

/* Opens @fd, O_PATH or not, if it keeps us out. The caller gives the mode back.
 */
int modes_let_in(int fd);

/*
 * Notes and opens all that keeps us out, in the uppers of earlier stages, too.
 * The lock is held, nobody writes.
 */
int modes_open(struct branch *b, struct error *err);

/*
 * Gives what is noted, and found below @root_fd, its mode, or opens it (again).
 * 0 or a negative errno.
 */
int modes_close(const struct branch *b, int root_fd);
int modes_reopen(const struct branch *b, int root_fd);

/* The same for a copy of what upper has at @path, whose inodes are new. */
int modes_close_copy(const struct branch *b, const char *path, int dirfd,
		     const char *name);
int modes_reopen_copy(const struct branch *b, const char *path, int dirfd,
		      const char *name);

#endif
