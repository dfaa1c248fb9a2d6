/*
 * The file system of a bundle: root, mounts, devices, masks, pivot.
 *
 *	rootfs_new		parent: checks, opens host-side sources by fd
 *	rootfs_build		init child: root mount, mounts, devices, links
 *	  (hooks run here)
 *	rootfs_enter		init child: masks, read-only paths, pivot_root
 *	rootfs_made		what was created below the root by us
 *
 * The child is forked from the parent after rootfs_new, so that it inherits
 * the object and its fds; everything the child does happens in its own mount
 * (and user) namespace. Destinations are opened inside the root with openat2
 * (RESOLVE_IN_ROOT) and mounted on by fd with move_mount: there is no path
 * string between the check and the use.
 *
 * Without a mount namespace of its own (none asked, or one to join) a sandbox
 * gets a chroot and nothing that has to be mounted: everything else would
 * happen on the host, and is refused by rootfs_new.
 *
 * A payload that keeps CAP_SYS_ADMIN may take away masks, read-only options
 * and covers as it may any mount; only the root itself cannot be unmounted.
 */
#ifndef SANDLOCK_SANDBOX_ROOTFS_H
#define SANDLOCK_SANDBOX_ROOTFS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct branch;
struct cgroup;
struct error;
struct log_sink;
struct spec;

struct rootfs;

struct rootfs_options {
	const struct spec *spec;
	/* NULL: writes go to the directory. It need not be made before
	 * rootfs_make_branch, or rootfs_build where that is the child's. */
	struct branch *branch;
	/*
	 * The root is an empty tmpfs instead of root.path, and the roots of the
	 * branch, if any, are mounted over their lowers, over everything else.
	 */
	bool skeleton;
	/* Where the paths of these begin with it on the host alone; or NULL. */
	const char *chroot;
	/* Bind sources below root.path are the host's, not the branch's. */
	bool host_sources;
	const struct cgroup
		*cgroup;     /* for mounts of type cgroup; may be NULL */
	bool new_userns;     /* the child gets a new user namespace */
	int userns_fd;	     /* the one that it joins, borrowed; or -1 */
	int procfs_pidns_fd; /* whose processes /proc shows; 0: its own */
	bool privileged;     /* we are root in the initial namespace */
	bool no_pivot;
	/*
	 * Host directories never visible inside: the store and the runtime
	 * directory. NULL-terminated or NULL; one that does not exist when
	 * rootfs_new is called is not hidden.
	 */
	const char *const *hidden;
	/*
	 * So many masks, the last ones, let nobody open the file that they are
	 * over: EACCES, where the others are empty.
	 */
	size_t n_refusing;
	/* The text of its /etc/hosts, or NULL: as it is. */
	const char *hosts;
	const struct log_sink *log;
};

/*
 * Checks what can be checked before anything exists (the root is a directory,
 * sources are there) and, if @privileged, takes detached clones of bind
 * sources and of the root, so that a child in a new user namespace can
 * attach them. An unprivileged child opens them itself in rootfs_build.
 */
int rootfs_new(const struct rootfs_options *o, struct rootfs **ret,
	       struct error *err);
void rootfs_free(struct rootfs *r);
CLEANUP_PTR(struct rootfs, rootfs_free);
/* In the parent, once there is a child: it has the sources, too. Or NULL. */
void rootfs_leave_sources(struct rootfs *r);
/* In the parent: the overlays that it has open go later, see fd_let_go. */
void rootfs_let_go(struct rootfs *r);

/* Hands over the detached mount of a root of the branch; takes the fd. */
typedef int rootfs_give_fn(void *data, int fd, struct error *err);
/*
 * Where rootfs_makes_branch, while the child is in rootfs_build: with a
 * skeleton it mounts the branch last, else it first makes the file systems that
 * go into it, and until then the overlay can be made beside it.
 */
int rootfs_make_branch(struct rootfs *r, rootfs_give_fn *give, void *data,
		       struct error *err);

/* Is it that which mounts the branch, and not the child? */
bool rootfs_makes_branch(const struct rootfs *r);

/* What was given, in the order in which it was. */
typedef int rootfs_take_fn(void *data, int *ret_fd, struct error *err);
/* In the child, once it is root in its namespaces. */
int rootfs_build(struct rootfs *r, rootfs_take_fn *take, void *data,
		 struct error *err);

/*
 * /dev/console for a terminal: binds the slave there. Returns master and slave
 * opened on the container's own devpts (see kernel/tty.h). After build.
 */
int rootfs_open_console(struct rootfs *r, int *ret_master_fd, int *ret_slave_fd,
			struct error *err);

/* fd of the root as it will be "/"; borrowed, valid after build. */
int rootfs_fd(const struct rootfs *r);

/* Sysctls need the namespaces, not the root; keys are checked in rootfs_new's
 * caller by sysctl_check. Writes through a procfs of our own (fsopen). */
int rootfs_write_sysctls(struct rootfs *r, struct error *err);

/* Masks, read-only paths, root read-only, propagation, pivot_root; afterwards
 * the working directory is "/" and no host mount is reachable. */
int rootfs_enter(struct rootfs *r, struct error *err);

/*
 * Paths relative to the root that were created or touched by build and enter
 * (mount targets, devices, links, cwd), for branch_set_running: NUL-separated
 * bytes to be sent to the parent. Borrowed.
 */
void rootfs_made(const struct rootfs *r, const char **ret, size_t *ret_len);
/* Records one more (the cwd that the process set-up had to make). */
int rootfs_add_made(struct rootfs *r, const char *path);

/* The procfs mount of ours (fsopen'ed, never the container's); borrowed fd, or
 * -1 with errno. For every write to /proc that must not be redirected. */
int rootfs_proc_fd(struct rootfs *r, struct error *err);

#endif
