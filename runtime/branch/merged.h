/*
 * A branch without an overlay mount: what the overlay of the kernel would show
 * and do, done here, on the same two directories and in the same format.
 *
 *	lower	read only, may change under our hands
 *	upper	ours: nobody else writes to it while this is in use
 *	work	empty directories and files on their way into upper
 *
 * Paths are relative to the root of the branch, without links, ".", ".." and
 * doubled slashes; "" is the root. merged_resolve makes them of what a program
 * says. A path that is not like that ends in an error, never outside.
 *
 * What a call would be refused for by modes and owners, it is refused here: it
 * is for a process (or thread) that has the rights of the caller. Modes are
 * taken as they are; set umask to 0.
 *
 * A function that fails has changed nothing that can be seen. All return 0 (or
 * what they say) or a negative errno. Thread-safe: one call at a time, but for
 * the copying of contents.
 */
#ifndef SANDLOCK_BRANCH_MERGED_H
#define SANDLOCK_BRANCH_MERGED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"

struct merged;

/*
 * The fds are duplicated. @prefix: of the attributes that an overlay keeps for
 * itself, "user.overlay." or "trusted.overlay."; borrowed. NULL with errno.
 */
struct merged *merged_new(int lower_fd, int upper_fd, int work_fd,
			  const char *prefix);
/*
 * Just above the lower, so the newest first: an upper that nobody writes to any
 * more. Before anything else; duplicated. -ENOMEM, -EMFILE.
 */
int merged_add_layer(struct merged *m, int layer_fd);

/* For root, who acts for others: what they make there is theirs. */
void merged_open_work(const struct merged *m);

/*
 * The directories that the view is made of: 0 is upper, then come the layers,
 * the newest first, and then the lower.
 */
size_t merged_lower(const struct merged *m); /* which one the lower is */
void merged_free(struct merged *m);
CLEANUP_PTR(struct merged, merged_free);

/*
 * What is copied up, and where, is told by origin_note_copy. What was before
 * is @known: a copy of such a copy is one, too. Both are taken over.
 */
void merged_note_copies(struct merged *m, int fd, struct buf known);

/*
 * No branch, but a directory that is shown in the place of an empty one, the
 * lower: all there is is upper, and what is written is written to that at once.
 * Others may change it. Whiteouts and opaque marks mean nothing.
 */
void merged_set_plain(struct merged *m, bool read_only);
bool merged_is_plain(const struct merged *m);
bool merged_is_read_only(const struct merged *m);

/*
 * Where threads cannot have a umask of their own: the one they have, whose bits
 * are given back by chmod.
 */
void merged_set_umask(struct merged *m, mode_t mask);

/*
 * @path, a directory of the lower, is no part of this branch: merged_resolve
 * tells who comes there. Borrowed. Before anything else. -ENOMEM.
 */
int merged_stop_at(struct merged *m, const char *path);

/* Until it is let go of, only the calling thread changes names. */
void merged_hold(struct merged *m, bool held);

enum merged_flag {
	MERGED_FOLLOW = 1 << 0, /* a link at the end, too */
	/* As openat2(2) has them, where @dir is what it begins in: */
	MERGED_NO_LINKS = 1 << 1,
	MERGED_BENEATH = 1 << 2,
	MERGED_IN_ROOT = 1 << 3,
};

struct merged_place {
	char path[PATH_MAX]; /* canonical; of what may not exist, too */
	bool exists;
	bool in_upper;
	/* The kernel finds the very same from the directory that the way began
	 * in. Where that has parts in several, what it finds is one of them. */
	bool is_real;
	/* Where it is. Of a directory with several parts the lowest one is its
	 * identity, which copying up does not change, and is what is opened. */
	size_t home;
	bool is_real_home; /* and the kernel finds that one */
	bool has_parts;	   /* then: */
	uint64_t ino;
	dev_t dev;
	bool wants_dir; /* a slash at the end */
	mode_t mode;	/* if it exists */
	/* The way goes on elsewhere: absolute, or from the root of the branch
	 * ("../x"). Nothing else is set then. */
	bool is_outside;
	/* Or from @path, where it stops. */
	bool is_stop;
	char rest[PATH_MAX];
};

/* What @text leads to, which begins in the directory @dir, as @from has it. */
int merged_resolve(struct merged *m, const char *dir, size_t from,
		   const char *text, unsigned int flags,
		   struct merged_place *ret);

/* An O_PATH fd of what is at @path. */
int merged_find(struct merged *m, const char *path, int *ret_fd);

/* Which object; ino 0: none at all. Of a directory that the lower has a part
 * in, that one, as in struct merged_place. */
struct merged_id {
	uint64_t ino;
	dev_t dev;
};

/* Of what is made: a directory with a default ACL heeds no umask. */
struct merged_mode {
	mode_t mode, umask;
};

/* Like open(2), but follows no link. A FIFO may block: no lock is held.
 * What is not @id (NULL: whatever it is) there, or is being replaced, is
 * -ESTALE. */
int merged_open_that(struct merged *m, const char *path,
		     const struct merged_id *id, int flags,
		     struct merged_mode mode, int *ret_fd);
static inline int merged_open(struct merged *m, const char *path, int flags,
			      mode_t mode, int *ret_fd)
{
	return merged_open_that(m, path, NULL, flags,
				(struct merged_mode){ .mode = mode }, ret_fd);
}

/* Makes it upper's, and returns an O_PATH fd of that to change it by. */
int merged_copy_up(struct merged *m, const char *path, int *ret_fd);

int merged_mkdir(struct merged *m, const char *path, struct merged_mode mode);
int merged_mknod(struct merged *m, const char *path, struct merged_mode mode,
		 dev_t dev);
int merged_symlink(struct merged *m, const char *target, const char *path);
int merged_link(struct merged *m, const char *from, const char *to);
/* An unnamed or unlinked file of upper gets a (new) name. */
int merged_link_fd(struct merged *m, int fd, const char *to);
int merged_unlink(struct merged *m, const char *path);
int merged_rmdir(struct merged *m, const char *path);
/* What the kernel looks at first: else EINVAL, whatever the paths are. */
bool merged_may_rename_so(unsigned int flags);
/* @flags: RENAME_NOREPLACE or RENAME_EXCHANGE. Directories, too. */
int merged_rename(struct merged *m, const char *from, const char *to,
		  unsigned int flags);

struct merged_name {
	char *name;
	uint64_t ino;
	unsigned char type; /* DT_* */
};

struct merged_list {
	struct merged_name *v;
	size_t n;
};
#define MERGED_LIST_INIT  \
	{                 \
		.v = NULL \
	}

/* The names in a directory, sorted, without "." and "..". */
int merged_readdir(struct merged *m, const char *path, struct merged_list *ret);
void merged_list_done(struct merged_list *l);

/* Does it take merged_readdir, or does one directory hold all of it? */
int merged_is_mixed(struct merged *m, const char *path);

#endif
