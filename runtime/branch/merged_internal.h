/* What the files merged*.c share; no other includes this. */
#ifndef SANDLOCK_BRANCH_MERGED_INTERNAL_H
#define SANDLOCK_BRANCH_MERGED_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "branch/merged.h"
#include "branch/walk.h"

struct link_table;

struct merged {
	int upper_fd, work_fd;
	int copied_fd; /* or -1 */
	struct buf copied_before;
	int *below; /* of upper: the layers, the newest first, and the lower */
	size_t n_below;
	bool is_plain, is_read_only;
	const char *prefix;
	char opaque_key[64];
	mode_t umask;	      /* of whoever makes something */
	pthread_mutex_t lock; /* of all that is on disk; recursive */
	atomic_ulong temps;
	const char **stops;
	size_t n_stops;
};

/* A directory of the merged view; -1: it has no part there. O_PATH. */
struct merged_dir {
	int up;
	int *below; /* as in struct merged; NULL: no part in any */
	size_t n;
};
#define MERGED_DIR_INIT  \
	{                \
		.up = -1 \
	}
void merged_dir_done(struct merged_dir *d);
bool dir_has_below(const struct merged_dir *d);
/* Its part in upper, else the newest. */
int dir_newest(const struct merged_dir *d);

/* A name in a directory. */
struct merged_entry {
	struct object up, low; /* low: the newest that is not upper's */
	bool is_whiteout;      /* in upper */
	bool is_opaque;	       /* upper's directory */
	size_t low_at;	       /* in merged_dir.below */
	/* Of a directory, its lowest part. */
	size_t home_at;
	uint64_t home_ino;
	dev_t home_dev;
};

/* A directory of upper in which more shows through. */
bool entry_has_both(const struct merged_entry *e);
/* The directory in which @e is opened: its identity. */
int entry_home(const struct merged_dir *d, const struct merged_entry *e);

/* Of the two, the one that is seen: NULL if there is none. */
const struct object *entry_seen(const struct merged_entry *e);
bool entry_in_upper(const struct merged_entry *e);
/* The lower has something of that name, so taking it away needs a whiteout. */
bool entry_has_lower(const struct merged_entry *e);

int dir_open_root(const struct merged *m, struct merged_dir *ret);
int dir_lookup(const struct merged *m, const struct merged_dir *d,
	       const char *name, struct merged_entry *ret);
/* Goes down in place; *@d stays as it was on failure. */
int dir_enter(const struct merged *m, struct merged_dir *d, const char *name,
	      const struct merged_entry *e);
int dir_open(const struct merged *m, const char *path, struct merged_dir *ret);
/* The directory that holds @path, which is not the root: -EBUSY. @ret_name
 * points into @path. */
int dir_open_parent(const struct merged *m, const char *path,
		    struct merged_dir *ret, const char **ret_name);
/* Names of one directory, merged. */
int dir_list(const struct merged *m, const struct merged_dir *d,
	     struct merged_list *ret);
/* 1 if nothing is seen in it. */
int dir_is_empty(const struct merged *m, const struct merged_dir *d);

/* merged_make.c */
/* A name that is to be made, removed or moved, and where. */
struct spot {
	struct merged_dir dir;
	const char *path, *name;
	struct merged_entry e;
};
#define SPOT_INIT                       \
	{                               \
		.dir = MERGED_DIR_INIT, \
	}
void spot_done(struct spot *s);
int spot_find(const struct merged *m, const char *path, struct spot *ret);
/* May the caller change what is in its directory? */
int spot_may_write(const struct merged *m, const struct spot *s);
/* Upper gets a part of that directory. */
int spot_go_up(struct merged *m, struct spot *s);

struct make {
	mode_t mask; /* the caller's umask */
	mode_t mode; /* with its type */
	dev_t dev;
	const char *target; /* of a symlink */
	int from_fd;	    /* of a hard link: -1, or what gets a name */
	int flags;	    /* of open(2) */
	bool has_acl;	    /* of the directory, by default: no umask counts */
	int fd;		    /* the file that was made and opened */
};
int merged_make(struct merged *m, const char *path, struct make *k);
/* Then what is made in it inherits that, and the umask does not count. */
bool has_default_acl(int dirfd);

/* merged_up.c; the lock is held, and may be let go of meanwhile. */
struct up_options {
	bool without_data;
	bool is_exact; /* -ESTALE where somebody else was faster */
	/*
	 * The lower's inodes -> what was copied of them (its inode, the
	 * nanoseconds of its birth, its path in upper); one table for each of
	 * struct merged.below.
	 */
	struct link_table **links;
};
int up_object(struct merged *m, const char *path, const struct up_options *o);
/* Opens upper's part of the directory @path, which is copied up for it. */
int up_dir(struct merged *m, const char *path, int *ret_fd);
/* Makes a directory upper's alone, with all that is in it. */
int up_tree(struct merged *m, const char *path);
int up_set_opaque(const struct merged *m, int dirfd, const char *name);

enum { MERGED_TEMP_MAX = 32 };
void merged_temp(struct merged *m, char ret[MERGED_TEMP_MAX]);
/* Removes a temporary object of any kind from work. */
void merged_drop(const struct merged *m, const char *temp);

#endif
