/*
 * A walk over the two trees of a branch at once: what upper holds, and what
 * the lower holds at the same place.
 *
 *	walk_init -> walk_next … (walk_enter for a directory to go into) … ->
 *done
 *
 * Entries come in byte order of their paths, a directory's name counting as
 * if it ended in '/'; a directory is told twice if it was entered, before and
 * (leaving) after what is in it. Both trees are hostile: directories are held
 * by fd, opened by a single component without following links or crossing
 * mounts; neither depth nor width meets a limit but memory, and a few dozen
 * fds are open at a time.
 *
 * There may be several uppers, one over the other (layers.h): walk_add_upper.
 * Then what is told is what one upper of all would hold, as collapse.c makes
 * it, also while it does: an entry's upper is that of the newest which has it.
 */
#ifndef SANDLOCK_BRANCH_WALK_H
#define SANDLOCK_BRANCH_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "branch/xattr.h"

struct branch_meta;
struct error;

/* What is to be known of an object; mode 0: there is none. */
struct object {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	uint32_t nlink;
	uint64_t ino, size, blocks;
	dev_t dev, rdev;
	struct timespec mtime, ctime, btime; /* btime 0: unknown */
	bool is_mount;			     /* something is mounted on it */
	bool is_locked;			     /* immutable or append-only */
};

/* 0 also where there is nothing (mode 0), else a negative errno. */
int object_stat(int dirfd, const char *name, struct object *ret);
/* Sets that alone, of what has that name, or with "" of @dirfd; a negative
 * errno. */
int object_set_mtime(int dirfd, const char *name, struct timespec mtime);
/*
 * A regular file for reading or writing (@flags): a device or a FIFO, which
 * somebody may have put there meanwhile, is -ESTALE and not opened at all.
 */
int object_open_file(int dirfd, const char *name, int flags);
/* The mode of what has that name: of a link, which somebody may have put there
 * meanwhile, it is an error. A negative errno. */
int object_set_mode(int dirfd, const char *name, mode_t mode);
/* Replaces *@fd by an O_PATH fd of its directory @name; a negative errno. */
int object_descend(int *fd, const char *name);
bool object_is_whiteout(const struct object *o);
/* -1, 0 or 1. */
int time_compare(const struct timespec *a, const struct timespec *b);

/* How upper and lower relate in the directory that is being listed. */
enum walk_region {
	WALK_MERGED,   /* both exist, upper's entries lie over lower's */
	WALK_NEW,      /* the lower has nothing here */
	WALK_REPLACED, /* the lower's entries are all gone (opaque) */
	WALK_DELETED,  /* only the lower has the directory, and it goes */
};

struct walk_entry {
	const char *path; /* relative, "" for the root; valid until the next */
	size_t path_len;
	const char *name; /* the last component, inside path */
	bool leaving;	  /* then only names, dirfds and the tag are set */
	int upper_dirfd, lower_dirfd; /* of the parents; -1: none. With several
					 uppers: in the one that has it */
	struct object upper, lower;
	bool whiteout;
	bool opaque;		 /* directories */
	struct xattrs private;	 /* overlay's, on upper's object */
	enum walk_region region; /* of the parent */
	uint32_t tag;		 /* the parent's; leaving: its own */
};

struct walk_frame;

/* A directory in one of the trees; @layer is 0 for the newest upper. */
struct walk_side {
	int fd;
	uint64_t ino;
	size_t layer;
};

struct walk {
	int upper_fd, lower_fd;	 /* the roots, borrowed */
	struct walk_side *roots; /* of the uppers, the newest first */
	size_t n_roots;
	struct walk_side *sides; /* the uppers' of all frames, as a stack */
	size_t n_sides, cap_sides;
	size_t found;	/* of its parent's: where the entry's upper is */
	size_t *joined; /* older directories that are merged into it */
	size_t n_joined;
	const char *prefix; /* branch_xattr_prefix */
	/* Whose noted modes (modes.h) are told; may be NULL. */
	const struct branch_meta *noted;
	struct walk_frame *frames;
	size_t depth, cap;
	struct buf path;
	struct walk_entry entry;
	char *scratch; /* for getdents */
	bool started;
};

enum { WALK_NO_TAG = UINT32_MAX };

int walk_init(struct walk *w, int upper_fd, int lower_fd, const char *prefix,
	      struct error *err);
void walk_done(struct walk *w);
/* One more, below those so far; before the first walk_next. 0 or -ENOMEM. */
int walk_add_upper(struct walk *w, int fd);

/* 1 and the next entry, 0 at the end, or a negative errno. */
int walk_next(struct walk *w, struct walk_entry **ret, struct error *err);

/* Likewise of all that the lower has, which goes; mounts are told only. */
int walk_next_lower(struct walk *w, struct walk_entry **ret, struct error *err);

/*
 * Goes into the directory that walk_next just told. @region says which sides
 * to list: MERGED and NEW what upper has, REPLACED both, DELETED the lower.
 * @tag comes back with every entry in it.
 */
int walk_enter(struct walk *w, enum walk_region region, uint32_t tag,
	       struct error *err);

/* The lower's directory of an entry, by fd; 0 or a negative errno. */
int walk_open_lower(const struct walk_entry *e, int *ret_fd);

/* Like walk_next's lookup, for one path: a negative errno if a parent is
 * missing on both sides. The fds of the parents are the caller's to close. */
int walk_lookup(int root_fd, const char *path, int *ret_dirfd,
		const char **ret_name);

#endif
