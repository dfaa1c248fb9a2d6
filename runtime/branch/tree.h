/*
 * Whole subtrees of private directories: copied to another file system, or
 * removed. Neither depth nor width meets a limit but memory.
 */
#ifndef SANDLOCK_BRANCH_TREE_H
#define SANDLOCK_BRANCH_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct link_table;
struct object;
struct walk_entry;

struct tree_copy {
	int stage_fd;	    /* where hard links are found again */
	const char *prefix; /* of attributes that are not copied */
	bool allow_special;
	bool sync_each;		  /* fsync every object */
	struct link_table *links; /* upper's inodes -> paths below stage_fd */
};

/*
 * Copies the object @name in @dirfd, with all below it, to stage_fd/@to:
 * contents with their holes, owner, mode, attributes as the sandbox saw them,
 * mtimes, hard links. Whiteouts and, unless allowed, sockets stay behind.
 */
int tree_copy(struct tree_copy *t, int dirfd, const char *name, const char *to,
	      struct error *err);

/*
 * Owner, mode, visible attributes (without those under @prefix) and mtime of
 * @o, which is @from, on an object that has none of them yet.
 */
int tree_set_metadata(const char *prefix, int from_dirfd, const char *from,
		      const struct object *o, int to_dirfd, const char *to);

/* One object, which is @o: what it holds and its metadata, nothing below. */
int tree_copy_object(const char *prefix, int from_dirfd, const char *from,
		     const struct object *o, int to_dirfd, const char *to);

/*
 * A hash of what a directory of the lower's holds, by which a later change
 * anywhere in it is told; 0: nothing. Entry by entry, or all at once. Of files
 * with several names ctime does not count: it changes with any of these.
 */
uint64_t tree_hash_entry(uint64_t hash, const struct walk_entry *e);
int tree_hash(int dirfd, const char *name, uint64_t *ret);

/*
 * Removes a directory with all below it, and never crosses a mount. 0 also if
 * it is not there; else a negative errno.
 */
int tree_remove(int dirfd, const char *name);

#endif
