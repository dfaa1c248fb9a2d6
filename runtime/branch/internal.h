/*
 * What the files of branch/ share; no other layer includes this.
 *
 * store.c	where branches are: the default store, other storage, listing
 * create.c	claiming a name and making a branch
 * branch.c	struct branch: find, close, info, state, lock, removal
 * roots.c	branches over several directories; roots_commit.c
 * meta.c, meta_read.c  meta.json: written atomically, read strictly
 * record.c	what an object was: the identity in "made" and "bases"
 * overlay.c	the mount; movable.c renames its directories
 * layers.c	savepoints: an upper for each stage; collapse.c
 * probe.c	is anything of it alive
 * settle.c, scan.c  the one step at the end; modes.c
 * dispose.c	the automatic disposition
 * trash.c	removal that nobody waits for
 * cradles.c	where on the disk new ones are put
 * enter.c	running a function in the user namespace of a branch
 * walk.c	iterative walk over uppers and lower; object.c, xattr.c, links.c
 * judge.c	what an entry of the walk means; content.c compares, origin.c
 * watch.c	what the host has meanwhile, noted for origin.c
 * change.c	the change list; sink.c carries it to the caller; select.c
 * uncovered.c	mounts below the lower; mountinfo.c
 * commit.c	the protocol, abort.c, recover.c, in terms of
 *   site.c	  the trees, locked and opened; cursor.c, onemount.c
 *   plan.c	  all that is to be done; plan_data.c, group.c
 *   stage.c	  what has to be made before; tree.c copies
 *   intent.c	  the plan on disk
 *   publish.c	  the lower's side, move.c its renames; private.c the branch's
 * own
 */
#ifndef SANDLOCK_BRANCH_INTERNAL_H
#define SANDLOCK_BRANCH_INTERNAL_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "branch/branch.h"

enum { BRANCH_META_VERSION = 1 };

/* What an object was when the runtime (or a rollback) last touched it. */
struct branch_record {
	char *path; /* relative to the root, "" for the root */
	uint64_t dev, ino;
	uint32_t mode, uid, gid;
	struct timespec mtime, ctime; /* ctime 0, of a base: whatever it is */
	int64_t size; /* -1: of an older program, which did not note it */
};

struct branch_meta {
	int version;
	char *name;
	char *lower; /* real path */
	uint64_t lower_dev, lower_ino;
	struct timespec base_time; /* ctime of a file made at the start, on the
				      clock that stamps the lower */
	struct timespec created;
	char boot_id[BOOT_ID_LEN + 1];
	struct idmap idmap;
	bool userxattr; /* user.overlay.*, else trusted.overlay.* */
	bool notify;	/* no overlay is mounted */
	bool hidden;	/* no verb reaches its sandbox */
	bool staged;	/* upper and lower are on different mounts or fs */
	bool durable;
	uint64_t quota_bytes;
	enum disposition on_exit, on_error;
	char **argv;
	char *bundle;
	struct proc_id init;
	bool settled;
	struct exit_status status;
	/* Objects in upper that the runtime made, as it left them. */
	struct branch_record *made;
	size_t n_made;
	/* Objects of the lower whose state, not base_time, is the base: what a
	 * rollback or a partial commit touched. */
	struct branch_record *bases;
	size_t n_bases;
	/* Files of upper that were opened for writing and left as they were, as
	 * settling found them, before the host changed those of the lower. */
	struct branch_record *equal;
	size_t n_equal;
	/* Objects of upper that have u+rwX for us, and their modes; modes.h. */
	struct branch_record *modes;
	size_t n_modes;
	/* Of the first root: how many there are. 0 in the others. */
	unsigned int n_roots;
	/* So many directories were made for the storage, itself the last. */
	unsigned int storage_dirs;
};

/*
 * A directory that holds branches/ and trash/: the default store, or a place
 * on the lower's file system. The fds are -1 while it does not exist.
 */
struct storage {
	char *path;	/* real path */
	char *branches; /* path/branches */
	int fd;
	int branches_fd;
	unsigned int n_made; /* directories that were missing, of path */
};
#define STORAGE_INIT                        \
	{                                   \
		.fd = -1, .branches_fd = -1 \
	}

/* store.c */
void storage_done(struct storage *s);
/* The hint for something that cannot be made in a storage. */
int storage_advise(int sys, struct error *err);
/*
 * Opens @path. With @make, what is missing is made; without, -ENOENT is
 * returned and @err left alone. branches/ must be ours and is private.
 */
int storage_open(const char *path, bool make, struct storage *ret,
		 struct error *err);
/* Undoes that for the last @n directories of its path, if nothing is there. */
void storage_drop(const struct storage *s, unsigned int n);
/* A directory of ours, 0700, never a link; "@where/@name" in messages. */
int storage_open_private(int dirfd, const char *where, const char *name,
			 bool make, int *ret_fd, struct error *err);

struct store {
	struct storage home;
	char *wanted; /* the path as given or by the rule, for messages */
	const struct log_sink *log;
};
/* Makes the default store where it is missing. */
int store_make(struct store *st, struct error *err);
/* store.c: chooses the storage for a lower (DESIGN section 5, "Store"). */
int store_choose(struct store *st, const struct branch_options *o, int lower_fd,
		 const char *lower, struct storage *ret, bool *ret_staged,
		 struct error *err);
/*
 * create.c: true if @name in the default store is no branch. What a remover
 * left behind when it died is removed.
 */
bool store_is_stale(struct store *st, const char *name);
enum { TRASH_LAZY_MAX = 16 };
/*
 * trash.c: goes on with what dead children left in trash/, if there are
 * @at_least so many entries. Best effort.
 */
void trash_resume(struct storage *s, size_t at_least);
/* trash.c: removes the directories in @dir_fd that nobody is at work on. */
void trash_remove_free(int dir_fd);
enum { TRASH_NAME_MAX = 48 };
/*
 * trash.c: makes a directory of a new name in trash/ and opens both. While its
 * flock is held, or the caller lives, nobody removes it.
 */
int trash_new(struct storage *s, int *ret_trash_fd,
	      char ret_name[TRASH_NAME_MAX], int *ret_fd);
/*
 * trash.c: moves @name in @dirfd to trash/<unique>/<name>, or, if @whole, to
 * trash/<unique> itself, and starts its removal. @m tells the id maps.
 */
int trash_put(struct storage *s, int dirfd, const char *name, bool whole,
	      const struct branch_meta *m, struct error *err);
/*
 * trash.c: moves @name in @dirfd, which is next to empty, to trash/<unique>.
 * It is removed with others, once TRASH_LAZY_MAX of them are there.
 */
int trash_put_lazily(struct storage *s, int dirfd, const char *name,
		     struct error *err);

/* The id of the mount that @fd was reached through, and st_dev. */
int mount_id_of(int fd, uint64_t *ret_mnt, uint64_t *ret_dev);

/* The upper of an earlier stage; see layers.h. */
enum { LAYER_NAME_MAX = 48 };
struct saved_layer {
	size_t number;
	int fd;
	char name[LAYER_NAME_MAX];
};

struct branch {
	struct store *store; /* borrowed */
	const struct log_sink *log;
	struct storage *home; /* &store->home, or &elsewhere */
	struct storage elsewhere;
	char *dir;   /* real path of …/branches/<name> */
	char *upper; /* dir/upper */
	int dir_fd;
	int upper_fd; /* O_RDONLY directory; -1 if gone */
	int work_fd;  /* likewise */
	int lower_fd; /* O_RDONLY, else O_PATH; -1 if it cannot be
			 opened or is another directory now */
	int lock_fd;
	bool locked;
	bool joined;   /* for a later stage: what is in it is its own already */
	bool linked;   /* the default store holds a link to it */
	int layers_fd; /* -1: there were no savepoints */
	struct saved_layer *layers; /* the oldest first */
	size_t n_layers;
	/* The roots after the first one, in their order; see roots.c. */
	struct branch **others;
	size_t n_others;
	bool keep;	    /* stays, even with nothing in it */
	bool was_committed; /* by somebody else, who was faster */
	/* Of the meta.json that meta was read from or written to. */
	uint64_t meta_ino;
	struct timespec meta_ctime;
	struct branch_meta meta;
};
struct branch *branch_alloc(struct store *st);
/* Sets dir and upper from home; false on ENOMEM. */
bool branch_set_paths(struct branch *b, const char *name);
/*
 * create.c: makes @to_fd, an empty directory in the branch, look as @from_fd
 * does, a root of which @from is known.
 */
int branch_copy_root(struct branch *b, int from_fd, const struct stat *from,
		     int to_fd, struct error *err);
/*
 * Reads meta.json again if another process wrote it meanwhile. ERR_NOT_FOUND if
 * the branch is gone. The lock is held.
 */
int branch_refresh(struct branch *b, struct error *err);
/* False once it was committed or aborted, by whomever. */
bool branch_is_there(const struct branch *b);
/* Rewrites meta.json from b->meta, which the caller changed under the lock. */
int branch_save(struct branch *b, bool durable, struct error *err);

/*
 * One root of a branch: what the functions of branch.h, change.h and commit.h
 * of the same name do for all (roots.c). Names of further roots are NAME~N,
 * which is no name that anybody could give.
 */
enum { ROOTS_MAX = 64, ROOT_NAME_MAX = LIMIT_NAME + 8 };
int root_begin(struct store *st, const struct branch_options *o,
	       struct branch **ret, struct error *err);
int root_make(struct branch *b, struct error *err);
int root_find(struct store *st, const char *name, struct branch **ret,
	      struct error *err);
void root_discard(struct branch *b);
int root_set_running(struct branch *b, const char *const *paths, size_t n,
		     const struct proc_id *init, struct error *err);
int root_get_state(struct branch *b, enum branch_state *ret, struct error *err);
/*
 * The same once init is dead. Without a pid namespace of its own, what it left
 * behind may need a moment to die, and the kernel one to let go of the overlay,
 * or of what a killed supervisor had open.
 */
int root_wait_state(struct branch *b, enum branch_state *ret,
		    struct error *err);
/* Its first process lives: it is neither being made nor on its way out. */
bool root_is_running(struct branch *b);
/* Says that it is, and how to end it; returns -EBUSY. */
int root_say_running(const struct branch *b, struct error *err);
int root_settle(struct branch *b, const struct exit_status *status,
		bool caller_waited, struct branch_settled *ret,
		struct error *err);
int root_abort(struct branch *b, const char *const *paths, size_t n_paths,
	       struct error *err);
/* ERR_NOT_FOUND unless the branch, settled, has something at each path. */
int root_check_paths(struct branch *b, const char *const *paths, size_t n_paths,
		     struct error *err);
/* ERR_STATE if in @state nothing can be discarded: not yet, or no more. */
int root_check_undecided(const struct branch *b, enum branch_state state,
			 struct error *err);
/* True for NAME and for NAME~N. */
bool is_root_name(const char *name);
/* Removes NAME~N if its creator died before it made NAME. */
void clear_orphan_root(struct store *st, const char *name);

/* origin.c */
#define NOTES_FILE "notes"
#define COPIED_FILE "copied"

/* meta.c */
#define META_NEW ".meta.json.new"
/* Makes the file that the next meta_write fills, where that will be waited for:
 * a new inode takes longer than all the rest. Best effort. */
void meta_expect(int dir_fd);
int meta_write(int dir_fd, const struct branch_meta *m, bool durable,
	       struct error *err);
int meta_read(int dir_fd, struct branch_meta *ret, struct error *err);
/* The same to and from bytes. ERR_TORN if they are no meta. */
int meta_format(const struct branch_meta *m, struct buf *b);
int meta_parse(const char *data, size_t len, const char *what,
	       struct branch_meta *ret, struct error *err);
void meta_done(struct branch_meta *m);

/* record.c: records are sorted by path (strcmp), each path once. */
void record_set(struct branch_record *r, const struct stat *st);
bool record_is(const struct branch_record *r, const struct stat *st);
const struct branch_record *record_find(const struct branch_record *r, size_t n,
					const char *path);
/* Adds or replaces; keeps the order. 0 or -ENOMEM. */
int record_put(struct branch_record **r, size_t *n, const char *path,
	       const struct stat *st);
void records_free(struct branch_record *r, size_t n);

/*
 * branch.c: takes the branch lock, waiting up to @timeout_ms, and reads
 * meta.json again if another process wrote it meanwhile. ERR_LOCKED;
 * ERR_NOT_FOUND if the branch was committed or aborted meanwhile. Taking it
 * again while it is held is a no-op. Between branch_make and
 * branch_set_running it is held by the creator.
 */
int branch_lock(struct branch *b, int timeout_ms, struct error *err);
/* An exclusive flock without waiting: 0, -EWOULDBLOCK. */
int lock_now(int fd);
void unlock(int fd);
void branch_unlock(struct branch *b);

/*
 * probe.c: does init or any mount of the overlay exist? 1 alive, 0 not,
 * negative errno where it cannot be told.
 */
int branch_is_alive(struct branch *b, struct error *err);

/* overlay.c: work/work/incompat/volatile is there: not known to be on disk. */
bool branch_has_marker(const struct branch *b);
int branch_remove_marker(const struct branch *b);
/* overlay.c: branch_overlay; @by_name as kernels before 6.13 want it. */
int overlay_mount(const struct branch *b, bool by_name, int *ret_mount_fd,
		  struct error *err);
/* probe.c: 1 while a mount of upper lives anywhere, 0 not. */
int overlay_probe(const struct branch *b, struct error *err);

/*
 * settle.c: puts on disk what settling left in the page cache, because a
 * disposition was to follow that did not happen. The branch lock is held.
 */
int branch_make_durable(struct branch *b, struct error *err);

/* settle.c: what the recorded status asks for. */
enum disposition branch_wanted(const struct branch_meta *m);

/*
 * trash.c: removes the branch, which is @name in @parent_fd, in place if there
 * is nothing in it but what the runtime made; else a negative errno.
 */
int remove_small(struct branch *b, int parent_fd, const char *name);

/* "trusted.overlay." or "user.overlay." */
const char *branch_xattr_prefix(const struct branch *b);

/*
 * enter.c: runs @fn in a child that is in the user namespace of the branch
 * (in this process where there is none to enter), and passes its result and
 * error back. @fn may write records to @out_fd, which @reader (may be NULL)
 * consumes in the caller while @fn runs.
 */
typedef int enter_fn(void *data, int out_fd, struct error *err);
typedef int enter_reader(void *data, int in_fd, struct error *err);
/* True if that takes a user namespace: an ordinary user and a branch with maps.
 */
bool branch_needs_userns(const struct branch_meta *m);
int branch_enter(struct branch *b, enter_fn *fn, enter_reader *reader,
		 void *data, struct error *err);

/*
 * trash.c: renames @name in @dirfd to trash/<unique>/ of the storage that
 * holds the branch and lets a detached child remove it. Nobody waits. Later
 * verbs resume what a dead child left behind.
 */
int store_discard(struct branch *b, int dirfd, const char *name,
		  struct error *err);

/*
 * branch.c: removes the (empty, committed or aborted) branch and its name, by
 * way of the trash: one rename. The branch lock is held.
 */
int branch_remove(struct branch *b, struct error *err);
/* The same for one in which there is nothing. */
int branch_remove_empty(struct branch *b, struct error *err);
/* What was made for it to lie in, if nothing else does. */
void branch_drop_storage(const struct branch *b);

#endif
