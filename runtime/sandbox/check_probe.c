#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/bpf.h"
#include "sandbox/check.h"

/*
 * Runs @fn in a child, with memory that both see: what a child that dies has
 * not filled in stays as it was.
 */
static int in_child(void (*fn)(void *shared), void *shared, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r = 0;
	pid_t pid;

	if (at == MAP_FAILED)
		return -errno;
	memcpy(at, shared, size);
	pid = fork();
	if (pid == 0) {
		fn(at);
		_exit(0);
	}
	if (pid < 0)
		r = -errno;
	else
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	memcpy(shared, at, size);
	(void)munmap(at, size);
	return r;
}

struct namespaces_try {
	bool privileged;
	struct probe_namespaces found;
};

/* The ids of the caller and no others, as an ordinary user may map them. */
static int map_self(uid_t uid, gid_t gid)
{
	char text[64];
	int r = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");

	(void)snprintf(text, sizeof(text), "%u %u 1", uid, uid);
	if (r == 0)
		r = fd_write_file(AT_FDCWD, "/proc/self/uid_map", text);
	(void)snprintf(text, sizeof(text), "%u %u 1", gid, gid);
	return r < 0 ? r : fd_write_file(AT_FDCWD, "/proc/self/gid_map", text);
}

/* An overlay on a tmpfs that nobody else sees; before 6.6 a tmpfs cannot be an
 * upper layer of an ordinary user, so then two lower ones have to do. */
static int try_overlay(bool privileged)
{
	char options[64];

	if (mkdir("l", 0700) < 0 || mkdir("u", 0700) < 0 ||
	    mkdir("w", 0700) < 0 || mkdir("m", 0700) < 0)
		return errno;
	(void)snprintf(options, sizeof(options),
		       "lowerdir=l,upperdir=u,workdir=w%s",
		       privileged ? "" : ",userxattr");
	if (mount("overlay", "m", "overlay", 0, options) == 0)
		return 0;
	(void)snprintf(options, sizeof(options), "lowerdir=l:u%s",
		       privileged ? "" : ",userxattr");
	return mount("overlay", "m", "overlay", 0, options) == 0 ? 0 : errno;
}

/* In a child: only those are in the new pid namespace. */
static int try_proc(void)
{
	int status;
	pid_t pid;

	if (mkdir("p", 0700) < 0)
		return errno;
	pid = fork();
	if (pid == 0)
		_exit(mount("proc", "p", "proc", 0, NULL) < 0 ? errno : 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static void try_namespaces(void *shared)
{
	struct namespaces_try *t = shared;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r = 0;

	if (!t->privileged && unshare(CLONE_NEWUSER) < 0) {
		t->found.user = errno;
		return;
	}
	if (!t->privileged)
		r = map_self(uid, gid);
	t->found.user = -r;
	if (r < 0)
		return;
	if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
		    CLONE_NEWUTS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=700,size=64k") < 0 ||
	    chdir("/tmp") < 0) {
		t->found.mount = errno;
		return;
	}
	t->found.mount = 0;
	t->found.overlay = try_overlay(t->privileged);
	t->found.proc = try_proc();
}

int probe_namespaces(bool privileged, struct probe_namespaces *ret)
{
	struct namespaces_try t = {
		.privileged = privileged,
		.found = { EPERM, EPERM, EPERM, EPERM },
	};
	int r = in_child(try_namespaces, &t, sizeof(t));

	*ret = t.found;
	return r;
}

/* Allows everything; the listener is never asked. */
static int load_allow(unsigned int flags)
{
	struct sock_filter allow = bpf_return(SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { .len = 1, .filter = &allow };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
}

static void try_seccomp(void *shared)
{
	struct probe_seccomp *p = shared;
	struct seccomp_notif_addfd add = {
		.flags = SECCOMP_ADDFD_FLAG_SEND,
		.srcfd = STDERR_FILENO,
	};
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || load_allow(0) < 0) {
		p->filter = errno;
		return;
	}
	p->filter = 0;
	fd = load_allow(SECCOMP_FILTER_FLAG_NEW_LISTENER |
			SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
	p->killable = fd < 0 ? errno : 0;
	if (fd < 0)
		fd = load_allow(SECCOMP_FILTER_FLAG_NEW_LISTENER);
	p->listener = fd < 0 ? errno : 0;
	if (fd < 0)
		return;
	p->sync_wake = ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
			     SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) < 0
			       ? errno
			       : 0;
	/* A known flag for a call that does not exist. */
	(void)ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
	p->addfd_send = errno == ENOENT ? 0 : errno;
}

int probe_seccomp(struct probe_seccomp *ret)
{
	*ret = (struct probe_seccomp){ EPERM, EPERM, EPERM, EPERM, EPERM };
	return in_child(try_seccomp, ret, sizeof(*ret));
}

static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}

static bool file_says(const char *path, char what)
{
	auto_(buf) struct buf b = BUF_INIT;

	return fd_read_file(AT_FDCWD, path, 64, &b) == 0 &&
	       buf_str(&b)[0] == what;
}

bool probe_doubts(bool privileged, bool initial)
{
	if (is_filtered())
		return true;
	if (privileged)
		return false;
	/* In an outer one a limit of its parents may count. */
	return !initial ||
	       file_says("/proc/sys/user/max_user_namespaces", '0') ||
	       file_says("/proc/sys/kernel/unprivileged_userns_clone", '0') ||
	       file_says("/proc/sys/kernel/"
			 "apparmor_restrict_unprivileged_userns",
			 '1');
}

int probe_listener(void)
{
	struct probe_seccomp p;

	if (is_filtered()) {
		int r = probe_seccomp(&p);

		return r < 0 ? -r : p.killable;
	}
	/* The flags are looked at before the program. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_NEW_LISTENER |
			    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		    NULL) < 0 &&
	    errno == EFAULT)
		return 0;
	return errno ? errno : EINVAL;
}

int probe_getfd(void)
{
	auto_close int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	auto_close int fd =
		pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, pidfd, 0);

	return fd < 0 ? errno : 0;
}

int probe_pidfd_info(void)
{
	struct pidfd_info info = { .mask = PIDFD_INFO_EXIT };
	auto_close int fd = -1;
	int result = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(3);
	if (pid < 0)
		return errno;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (fd < 0 || ioctl(fd, PIDFD_GET_INFO, &info) < 0)
		result = errno;
	else if (!(info.mask & PIDFD_INFO_EXIT))
		result = ENOTTY;
	return result;
}
