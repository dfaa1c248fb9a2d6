/*
 * Is anything of a branch alive?
 *
 * The kernel marks the upper directory of every overlay in use until its super
 * block goes: after umount -l too, while a file is open, and whatever mount or
 * user namespace it is in. With index=on a second mount of it is refused with
 * EBUSY; else it fails with EINVAL just after, since the work directory given
 * is the upper itself ("must be separate subtrees"). So nothing is ever
 * mounted or written. This order holds with and without userxattr, in the
 * initial user namespace and in a new one without any id mapped (Linux 6.18).
 *
 * EINVAL also means that the mount behind the fd cannot be cloned: upper is
 * opened again in the mount namespace of the probe, and cloned as a check.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/uapi.h"
#include "branch/internal.h"

static int set_param(int fs_fd, unsigned int cmd, const char *key,
		     const char *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fs_fd, cmd, key, value, aux);
}

static int set_layers(int fs_fd, int fd)
{
	char path[32];

	if (set_param(fs_fd, FSCONFIG_SET_FD, "lowerdir+", NULL, fd) == 0)
		return set_param(fs_fd, FSCONFIG_SET_FD, "upperdir", NULL, fd) <
					       0 ||
				       set_param(fs_fd, FSCONFIG_SET_FD,
						 "workdir", NULL, fd) < 0
			       ? -errno
			       : 0;
	/* Before 6.13; such a name needs no escapes. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (set_param(fs_fd, FSCONFIG_SET_STRING, "lowerdir", path, 0) < 0 ||
	    set_param(fs_fd, FSCONFIG_SET_STRING, "upperdir", path, 0) < 0 ||
	    set_param(fs_fd, FSCONFIG_SET_STRING, "workdir", path, 0) < 0)
		return -errno;
	return 0;
}

static int check_clone(int fd)
{
	auto_close int tree =
		(int)syscall(SYS_open_tree, fd, "",
			     OPEN_TREE_CLONE | AT_EMPTY_PATH | O_CLOEXEC);

	return tree < 0 ? -errno : 0;
}

/* 1 in use, 0 not, negative errno where it cannot be told. */
static int try_mount(const struct branch *b)
{
	auto_close int upper_fd =
		open(b->upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_close int fs_fd = -1;
	struct stat now, held;
	int r;

	if (upper_fd < 0 && errno == EACCES)
		upper_fd = open(b->upper,
				O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper_fd < 0 || fstat(upper_fd, &now) < 0 ||
	    fstat(b->upper_fd, &held) < 0)
		return -errno;
	if (now.st_ino != held.st_ino || now.st_dev != held.st_dev)
		return -ESTALE;
	r = check_clone(upper_fd);
	if (r < 0)
		return r;
	fs_fd = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
	if (fs_fd < 0)
		return -errno;
	r = set_layers(fs_fd, upper_fd);
	if (r == 0 &&
	    set_param(fs_fd, FSCONFIG_SET_STRING, "index", "on", 0) < 0)
		r = -errno;
	if (r < 0)
		return r;
	if (set_param(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		return -EEXIST;
	if (errno == EBUSY)
		return 1;
	return errno == EINVAL ? 0 : -errno;
}

/*
 * Mounting takes a mount namespace we have power over. No id is mapped: as
 * far as the probe gets, the kernel asks for capabilities only, and files are
 * opened as the user that we stay outside.
 */
static _Noreturn void probe_child(const struct branch *b, int out_fd)
{
	int r;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		r = -errno;
	else
		r = try_mount(b);
	(void)!write(out_fd, &r, sizeof(r));
	_exit(0);
}

static int probe_apart(const struct branch *b)
{
	int fds[2], r = -EIO;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		probe_child(b, fds[1]);
	(void)close(fds[1]);
	if (pid < 0) {
		r = -errno;
	} else {
		do
			n = read(fds[0], &r, sizeof(r));
		while (n < 0 && errno == EINTR);
		if (n != sizeof(r))
			r = -EIO;
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	(void)close(fds[0]);
	return r;
}

int overlay_probe(const struct branch *b, struct error *err)
{
	int r;

	if (b->upper_fd < 0 || b->meta.notify)
		return 0;
	r = geteuid() == 0 ? try_mount(b) : -EPERM;
	if (r == -EPERM)
		r = probe_apart(b);
	/* Without overlayfs nothing can be mounted. */
	if (r == -ENODEV)
		return 0;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot tell if the overlay of branch '%s' is "
				 "still mounted",
				 b->meta.name);
	return r;
}

static bool is_this_boot(const struct branch_meta *m)
{
	char now[BOOT_ID_LEN + 1];

	return proc_boot_id(now) == 0 && strcmp(now, m->boot_id) == 0;
}

/*
 * While the lock is held by somebody else and no init is recorded the branch
 * is being made or settled. The lock also keeps the probe from claiming upper
 * in the instant in which it is mounted, which would go unnoticed.
 */
int branch_is_alive(struct branch *b, struct error *err)
{
	bool held = b->locked;
	int r;

	if (!is_this_boot(&b->meta) || b->meta.settled)
		return 0;
	if (proc_is_alive(&b->meta.init))
		return 1;
	r = branch_lock(b, 0, NULL);
	if (r == -EWOULDBLOCK)
		return 1;
	if (r < 0)
		return r == -ENOENT ? 0
				    : error_set(err, ERR_SYSTEM, -r,
						"cannot lock branch '%s'",
						b->meta.name);
	if (b->meta.settled)
		r = 0;
	else
		r = proc_is_alive(&b->meta.init) ? 1 : overlay_probe(b, err);
	if (!held)
		branch_unlock(b);
	return r;
}
