/*
 * Hard links within upper: names of one inode that a sandbox made. Whiteouts
 * share one inode too and are none.
 */
#ifndef SANDLOCK_BRANCH_LINKS_H
#define SANDLOCK_BRANCH_LINKS_H

#include <stddef.h>
#include <stdint.h>

struct link {
	uint64_t ino;	    /* upper's */
	uint64_t lower_ino; /* of what lies below the first name; 0: nothing */
	char *path;	    /* the first name that was met */
	uint32_t mark;	    /* the caller's */
};

struct link_table;
struct link_table *links_new(void);
void links_free(struct link_table *t);

/* NULL if that inode was not met before. */
struct link *links_find(const struct link_table *t, uint64_t ino);
/* NULL on ENOMEM. The pointer is valid until the next links_add. */
struct link *links_add(struct link_table *t, uint64_t ino, uint64_t lower_ino,
		       const char *path);

#endif
