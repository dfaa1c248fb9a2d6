/*
 * What the files of rootfs share; no other file includes this.
 *
 * rootfs.c		life cycle, the mount of the root
 * rootfs_target.c	destinations: resolved inside the root, created
 * rootfs_mounts.c	the entries of "mounts"
 * rootfs_bind.c	bind mounts and their sources
 * rootfs_scratch.c	bind mounts whose changes are lost
 * rootfs_hosts.c		a hosts file of its own
 * rootfs_hidden.c	covers over the store and the runtime directory
 * rootfs_cgroup.c	entries of type cgroup
 * rootfs_copyup.c	tmpcopyup
 * rootfs_idmap.c	user namespaces for idmapped mounts
 * rootfs_devices.c	device nodes, links in /dev, /dev/console
 * rootfs_masks.c	masked and read-only paths
 * rootfs_sysctl.c	our own procfs, sysctls
 * rootfs_enter.c	pivot_root and the ways without it
 */
#ifndef SANDLOCK_SANDBOX_ROOTFS_INTERNAL_H
#define SANDLOCK_SANDBOX_ROOTFS_INTERNAL_H

#include <linux/magic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "sandbox/rootfs.h"
#include "spec/spec.h"

struct hidden_step;
struct mount_change;

struct rootfs {
	struct rootfs_options o;
	char *path; /* real path of the root directory, on the host */
	int dir_fd; /* that directory */
	dev_t dev;
	ino_t ino;
	bool own_mounts;   /* the child gets a new mount namespace */
	bool parent_opens; /* sources are cloned by rootfs_new */
	bool on_host_root; /* attached on "/", not on the root directory */
	bool entered;
	int root_fd;	 /* the mount of the root */
	int *branch_fds; /* with a skeleton: those of the branch's roots */
	size_t n_branches;
	uint64_t root_mnt_id;
	uint64_t root_ino;
	/*
	 * One a mount, or -1: the clone of a bind source, or a file system that
	 * is made already, until it is attached; a tmpfs that becomes read-only
	 * in the end.
	 */
	int *mount_fds;
	int null_fd;  /* the host's /dev/null */
	int mask_fd;  /* the first mask that is a clone of it, or -1 */
	int cover_fd; /* empty read-only tmpfs, attached by its first use */
	bool cover_used;
	int scratch_fd; /* tmpfs of what is written to binds in vain, or -1 */
	unsigned int n_scratch;
	int proc_fd;		    /* procfs of our own */
	struct buf made;	    /* see rootfs_made */
	struct hidden_step *hidden; /* directories above hidden paths */
	size_t n_hidden;
};

/* rootfs_target.c */

struct target {
	int fd;	     /* O_PATH, what is to be mounted on */
	char *path;  /* its path below the root, free of links */
	bool is_new; /* it was made for the mount */
};
#define TARGET_INIT      \
	{                \
		.fd = -1 \
	}
void target_done(struct target *t);

enum target_flag {
	TARGET_FILE = 1 << 0,	  /* a missing one becomes a file */
	TARGET_NOFOLLOW = 1 << 1, /* the last component may be a link */
	TARGET_ROOT = 1 << 2,	  /* the root itself will do */
};

/*
 * Opens @path inside the root, links and ".." included, and makes what is
 * missing on the way, behind dangling links too. A directory, or with
 * TARGET_FILE anything else.
 */
int rootfs_open_target(struct rootfs *r, const char *path, unsigned int flags,
		       struct target *ret, struct error *err);
/* Notes that @name was made in the directory @dir_fd (@dir below the root). */
int rootfs_note_made(struct rootfs *r, int dir_fd, const char *dir,
		     const char *name);

/* rootfs_mounts.c */
int rootfs_mount_all(struct rootfs *r, struct error *err);
/*
 * Makes the file systems that can be made without the root. One that cannot is
 * tried again when its turn comes, which tells why.
 */
void rootfs_prepare_mounts(struct rootfs *r);
/* True if the skeleton will hold the contents of a tmpfs. */
bool rootfs_shares_skeleton(const struct rootfs *r);
/*
 * Opens where mount entry @m goes; its own file system may not be hidden or
 * faked by what is mounted below /proc.
 */
int rootfs_mount_target(struct rootfs *r, const struct spec_mount *m,
			bool is_proc, bool is_file, struct target *ret,
			struct error *err);
bool rootfs_is_proc(int fd);
/* The propagation that a mount gets where its entry asks for none. */
unsigned long rootfs_default_propagation(const struct rootfs *r);
/*
 * The r-options and the propagation of an entry, on a detached mount; with what
 * @also sets, and its propagation where the entry asks for none, unless NULL.
 */
int rootfs_change_recursive(const struct spec_mount *m, int mount_fd,
			    const struct mount_change *also, struct error *err);

/* rootfs_bind.c */
int rootfs_take_sources(struct rootfs *r, struct error *err);
int rootfs_mount_bind(struct rootfs *r, size_t i, struct error *err);

/*
 * rootfs_scratch.c: a detached overlay over the source @fd of @m, which will go
 * to @t; its upper layer is in memory. Where there can be none @ret_fd stays.
 */
void rootfs_mount_scratch(struct rootfs *r, const struct spec_mount *m, int fd,
			  const struct target *t, int *ret_fd);

/* rootfs_hosts.c: over /etc/hosts, if the options have one. */
int rootfs_mount_hosts(struct rootfs *r, struct error *err);

/* rootfs_hidden.c */
int rootfs_find_hidden(struct rootfs *r, struct error *err);
void rootfs_free_hidden(struct rootfs *r);
/* True if @st is a directory with a hidden one in it, or is one itself. */
bool rootfs_has_hidden(const struct rootfs *r, const struct stat *st);
/* Covers what is hidden below @tree_fd, the root of an attached mount. */
int rootfs_cover_hidden(struct rootfs *r, int tree_fd, const struct stat *st,
			struct error *err);
/* -EACCES if @source is below a hidden directory. */
int rootfs_check_source(const struct rootfs *r, const char *source,
			struct error *err);
/* Attaches an empty read-only directory on @target_fd. */
int rootfs_cover(struct rootfs *r, int target_fd, struct error *err);

/* rootfs_cgroup.c */
int rootfs_mount_cgroup(struct rootfs *r, size_t i, struct error *err);

/* rootfs_copyup.c: copies the tree at @from_fd into the directory @to_fd. */
int rootfs_copy_up(int from_fd, int to_fd, struct error *err);

/* rootfs_idmap.c: a user namespace with these maps. */
int rootfs_idmap_fd(const struct idmap *m, int *ret_fd, struct error *err);

/* rootfs_devices.c */
int rootfs_make_devices(struct rootfs *r, struct error *err);
/* O_PATH on the host's /dev/null, verified; borrowed, or a negative errno. */
int rootfs_null_fd(struct rootfs *r, struct error *err);

/* rootfs_masks.c */
int rootfs_apply_masks(struct rootfs *r, struct error *err);

/* rootfs_enter.c: a blank and its like are \ooo in mountinfo. */
void rootfs_unescape(char *s);

#endif
