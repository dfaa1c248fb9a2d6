/*
 * Mounts by fd: fsopen(2), fsmount(2), open_tree(2), move_mount(2),
 * mount_setattr(2). Linux 5.12 is needed.
 *
 *	mount_new | mount_clone -> (mount_change) -> mount_attach
 *
 * The first two return a detached mount: it is nowhere in a tree, disappears
 * with its last fd, and the same fd stands for its root once it is attached. It
 * may be handed to a child in another mount namespace, which attaches it.
 * Thread-safe, no state. Every fd has O_CLOEXEC.
 */
#ifndef SANDLOCK_KERNEL_MOUNT_H
#define SANDLOCK_KERNEL_MOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>

#ifndef MOUNT_ATTR_RDONLY /* musl */
#include <linux/mount.h>
#endif

struct error;

/* Bytes of a string that fsconfig(2) takes. */
enum { MOUNT_VALUE_MAX = 255 };

struct mount_fs {
	const char *type;
	const char *source; /* NULL: none */
	const char *data;   /* options of the file system, by commas, or NULL */
	unsigned long
		flags; /* MS_*: those of the mount and of the super block */
	/* Of a procfs: a pid namespace, whose processes it shows. Not 0, or
	 * those of ours. */
	int pidns_fd;
};

/* Can that be @pidns_fd? Linux 6.18. */
bool mount_takes_pidns(int pidns_fd);

/*
 * A detached mount of a file system. The kernel's own explanation, where it
 * gives one, becomes part of the message; -ENODEV for an unknown type.
 */
int mount_new(const struct mount_fs *fs, int *ret_fd, struct error *err);

/*
 * Whether an option or the source is longer than MOUNT_VALUE_MAX, as the
 * lowerdir of an overlay soon is. mount_new fails with EINVAL then.
 */
bool mount_is_long(const struct mount_fs *fs);

/*
 * The same by mount(2), which takes a page of options: -E2BIG if they are more.
 * It needs a place: the directory @at_fd of our mount namespace, which is
 * covered meanwhile, and /proc.
 */
int mount_new_long(const struct mount_fs *fs, int at_fd, int *ret_fd,
		   struct error *err);

/*
 * A detached clone of what is at @path below @dirfd ("" for @dirfd itself).
 * @at_flags: AT_RECURSIVE (submounts too), AT_SYMLINK_NOFOLLOW. Returns the fd
 * or a negative errno: -EINVAL means that @dirfd is not in our mount namespace
 * or that, without AT_RECURSIVE, the clone would uncover what a more privileged
 * user namespace has covered.
 */
int mount_clone(int dirfd, const char *path, unsigned int at_flags);

/* Attaches @mount_fd on top of what @target_fd stands for. 0 or -errno. */
int mount_attach(int mount_fd, int target_fd);

/* What mount_change changes; all zero: nothing. */
struct mount_change {
	uint64_t set, clear;	   /* MOUNT_ATTR_* */
	unsigned long propagation; /* one of MS_PRIVATE, …, without MS_REC */
	bool recursive;
	int userns_fd; /* with MOUNT_ATTR_IDMAP in @set */
};

/* mount_setattr(2) on the mount whose root is @fd. 0 or -errno. */
int mount_change(int fd, const struct mount_change *c);

/* Changes the options of the file system itself (remount). */
int mount_reconfigure(int fd, const char *data, unsigned long flags,
		      struct error *err);

/* The MOUNT_ATTR_* of @flags, which are MS_*; an atime mode included. */
uint64_t mount_attrs(unsigned long flags);

/* The id of the mount that @fd lies on; 0 or -errno. */
int mount_id(int fd, uint64_t *ret);

/*
 * Leaves whatever chroot we are in for the root of this mount namespace: 1 if
 * that is the mount of @root_fd, 0 if not, or a negative errno.
 */
int mount_enter_top(int root_fd);

/*
 * Makes @root_fd, the root of an attached mount, the root of this mount
 * namespace and detaches everything else. The working directory is "/" then.
 */
int mount_pivot(int root_fd, struct error *err);

#endif
