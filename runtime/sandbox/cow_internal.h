/* What the files cow*.c share; no other includes this. */
#ifndef SANDLOCK_SANDBOX_COW_INTERNAL_H
#define SANDLOCK_SANDBOX_COW_INTERNAL_H

#include <limits.h>

#include "branch/merged.h"
#include "sandbox/cow.h"
#include "supervise/act.h"
#include "supervise/object.h"
#include "supervise/redirect.h"

struct cow_fifos;
struct cow_listing;

struct cow {
	struct cow_root *roots;
	size_t n;
	struct cow_bound *bound;
	bool has_umasks;     /* threads can have one of their own */
	const char **denied; /* cow_denied.c */
	size_t n_denied;
	/* All that is denied anywhere; borrowed. */
	const char *const *hidden;
	size_t n_hidden;
	cow_denied_fn *tell;
	const void *tell_data;
	struct cow_fifos *fifos;
	struct cow_listing *_Atomic listing; /* cow_dir.c */
	struct object_finder finder;
};

/* What a path of the caller leads to. */
struct cow_place {
	const struct cow_root *root; /* NULL: not in a branch */
	struct merged_place at;	     /* if it is in one */
	/* The kernel finds the same; of a directory with several parts, the
	 * one that stands for it. */
	bool is_as_it_is, is_home_dir;
	bool is_hidden; /* what is denied, but not what is in it */
	bool is_unsure; /* the kernel's resolve flags may say another place */
	/* The way ended at a link of procfs to this descriptor of the caller,
	 * whose file has no name any more, outside; else -1. */
	int unnamed_fd;
	char outside[PATH_MAX]; /* else: where the way ended, absolute */
	/* As it was said, and a copy to take apart. */
	char text[PATH_MAX];
};

enum cow_flag {
	COW_FOLLOW = 1 << 0,
	COW_EMPTY = 1 << 1, /* AT_EMPTY_PATH: "" is the fd itself, which the
			       caller of these functions looks at */
	COW_LOOK = 1 << 2,  /* also at what is denied */
	/* As openat2(2) has them. All but the first take a way that begins in
	 * a branch, and stays in it (EOPNOTSUPP). */
	COW_NO_LINKS = 1 << 3,
	COW_BENEATH = 1 << 4,
	COW_IN_ROOT = 1 << 5,
	COW_STAY = 1 << 6, /* another one */
};

/*
 * Reads the path at @addr of the caller and looks where it leads. 0, or a
 * negative errno; outside of every branch only what came before it can have
 * failed. Where the way there is not the kernel's, the caller makes the call
 * again, with where it ended: -OUTCOME_ALWAYS_RESTART_ERRNO. An empty path,
 * with COW_EMPTY, is outside.
 */
int cow_find(struct cow *w, struct call *c, int dirfd, uint64_t addr,
	     unsigned int flags, struct cow_place *ret);
/* The same of a path that is in @ret->text; @addr 0: -ESTALE where the call
 * would have to be made again. */
int cow_find_said(struct cow *w, struct call *c, int dirfd, uint64_t addr,
		  unsigned int flags, struct cow_place *ret);
/* What an fd of the caller stands for; -EBADF. */
int cow_find_fd(struct cow *w, struct call *c, int fd, struct cow_place *ret);
/* A path as somebody wrote it, from @base, absolute. */
int cow_find_text(struct cow *w, struct call *c, const char *base,
		  const char *text, unsigned int flags, struct cow_place *ret);
/* 1: a path as the kernel calls it is of an upper, or was; -EROFS. */
int cow_is_uppers(const struct cow *w, const char *real);
/*
 * Opens what p->unnamed_fd is, if it is a file of upper: -EAGAIN, if not.
 */
int cow_open_unnamed(const struct cow *w, struct call *c,
		     const struct cow_place *p, int flags);
/* The length of the prefix of an attribute of the overlay's own kind, or 0. */
size_t cow_private_prefix(const char *key);
/*
 * An attribute of the overlay's own kind is stored with its prefix doubled, as
 * the overlay itself does. -ERANGE.
 */
int cow_stored_key(const char *key, char ret[XATTR_NAME_MAX + 1]);
/* Of a descriptor of the caller: what /proc/TID/fdinfo says. */
struct cow_fd_info {
	off_t at;
	unsigned int flags; /* O_* */
};
int cow_read_fd_info(struct call *c, int number, struct cow_fd_info *ret);
/* "/proc/TID/cwd" and the like. */
int cow_base(struct call *c, int dirfd, char ret[PATH_MAX]);
/* The real path of what is there, or of the directory that stands for it. */
int cow_real_path(const struct cow_place *p, char ret[PATH_MAX]);
/* How the caller gets to what is there, for redirect_call. */
struct cow_reach {
	char path[PATH_MAX];
	bool is_lent; /* the path is below this: */
	int fd;
};
#define COW_REACH_INIT   \
	{                \
		.fd = -1 \
	}
/*
 * Of a process that has other ids than root, whose store nobody else enters,
 * the way begins with a directory that it may read.
 */
int cow_reach(const struct cow_place *p, struct cow_reach *ret);
void cow_reach_done(struct cow_reach *r);
/*
 * May the caller read (R_OK) or enter (X_OK) it? For what has several parts:
 * the one that is opened is not the one whose mode counts.
 */
int cow_may(const struct cow_place *p, int how);
/* The path that it has inside. */
int cow_inside_path(const struct cow_place *p, char ret[PATH_MAX]);
/* Of one of the directories that a branch is made of, as struct merged counts
 * them; NULL behind the last one. */
const char *cow_part(const struct cow_root *root, size_t which);
/* The path in a branch that stands for one below an upper; false: none. */
bool cow_shown_path(const struct cow *w, const char *real, char ret[PATH_MAX]);

/*
 * The calls. Each answers for what is in a branch, and lets all else go on;
 * they run with the rights of the caller, and with umask 0.
 */
typedef struct outcome cow_fn(struct cow *w, struct call *c);

cow_fn cow_open, cow_stat, cow_statx, cow_access, cow_readlink, cow_statfs,
	cow_getxattr, cow_watch, cow_refuse;
cow_fn cow_make, cow_remove, cow_rename, cow_link, cow_truncate;
cow_fn cow_chmod, cow_chown, cow_utimes, cow_setxattr;
cow_fn cow_chdir, cow_getcwd, cow_getdents, cow_exec;

/* cow_denied.c: -EACCES, and on record, where @p is denied. */
int cow_check(const struct cow *w, struct call *c, const struct cow_place *p);
/*
 * Outside of every branch: -ENOENT for what lies in something denied. Landlock
 * refuses what is there, and would tell by that that it is.
 */
int cow_check_outside(const struct cow *w, struct call *c,
		      const struct cow_place *p);
/* As cow_check where something in @p is denied, so that it has to stay. */
int cow_check_within(const struct cow *w, struct call *c,
		     const struct cow_place *p);
/* What there is to be seen of @p, here or outside of every branch. */
enum cow_sight {
	COW_SEEN,
	COW_HIDDEN,  /* it is denied: that it is there, and what */
	COW_NOTHING, /* it lies in something denied */
};
enum cow_sight cow_sight(const struct cow *w, const struct cow_place *p);
/* Landlock may have no rule for it, though it is not denied. */
bool cow_is_beside_denied(const struct cow *w, const struct cow_place *p);

/* The name and function of a call; NULL for one that is not in the table. */
const char *cow_name(int nr, cow_fn **ret);

/* -EPERM if somebody was shown another path than this one. */
int cow_is_shown(const struct cow_place *p, const struct object *shown);

/* A negative errno, or what the call returns. */
struct outcome cow_outcome(int r);

/* For a lease: it is tried again until its holder has let go. */
struct outcome cow_wait(struct call *c);

int cow_umask(struct call *c, mode_t *ret);

void cow_listing_free(struct cow_listing *l);

/* cow_fifo.c. NULL with errno. */
struct cow_fifos *cow_fifos_new(void);
/* After the supervisor. NULL is allowed. */
void cow_fifos_free(struct cow_fifos *f);
/*
 * Opens a FIFO, of which @path_fd is an O_PATH fd. Where that waits for the
 * other end the call is held, and its handler, run again, goes on with
 * cow_fifo_again. ESTALE: it is none.
 */
struct outcome cow_fifo_open(struct cow *w, struct call *c, int path_fd,
			     int flags);
bool cow_fifo_is_waiting(struct call *c);
struct outcome cow_fifo_again(struct cow *w, struct call *c);

#endif
