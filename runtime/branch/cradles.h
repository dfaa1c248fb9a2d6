/* Where new branches are put on the disk: cradles.c. */
#ifndef SANDLOCK_BRANCH_CRADLES_H
#define SANDLOCK_BRANCH_CRADLES_H

enum { CRADLES = 128 };

/* Makes those that are missing, where the file system asks for it. Slow. */
void cradles_make(int storage_fd);

/* Removes them, for a storage that is to go. */
void cradles_remove(int storage_fd);

/*
 * Makes the directory @name of @trash_fd, in cradle @which (any number) where
 * there are some. Returns 0 or -errno.
 */
int cradles_mkdir(int storage_fd, unsigned int which, int trash_fd,
		  const char *name);

#endif
