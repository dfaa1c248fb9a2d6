#include "control/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/pidfd.h"

enum { STATUS_MAX = 16 * 1024 };

/* True if the link of both processes leads to the same object. */
static bool is_same(pid_t pid, const char *what)
{
	struct stat ours, theirs;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	if (stat(path, &theirs) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/self/%s", what);
	return stat(path, &ours) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

/* The number behind "\nName:" of a status file; 0 if there is none. */
static unsigned long field(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/*
 * What runs without namespaces of its own has a filter more than we have, and
 * no_new_privs. Who cannot be looked at is taken for such a one.
 */
static bool is_confined(pid_t pid)
{
	auto_(buf) struct buf theirs = BUF_INIT;
	auto_(buf) struct buf ours = BUF_INIT;
	char path[40];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fd_read_file(AT_FDCWD, path, STATUS_MAX, &theirs) < 0 ||
	    fd_read_file(AT_FDCWD, "/proc/self/status", STATUS_MAX, &ours) < 0)
		return true;
	return field(buf_str(&theirs), "\nNoNewPrivs:") &&
	       field(buf_str(&theirs), "\nSeccomp_filters:") >
		       field(buf_str(&ours), "\nSeccomp_filters:");
}

int peer_check(int sock)
{
	auto_close int pidfd = -1;
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &len) < 0 ||
	    c.uid != geteuid() || c.pid <= 0)
		return -EACCES;
	len = sizeof(pidfd);
	/* Before 6.5 the pid could be another one's by now. */
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
		pidfd = -1;
		if (errno != ENOPROTOOPT)
			return -EACCES;
	}
	/*
	 * The root of a sandbox is never ours, not even where it shares every
	 * namespace that is looked at.
	 */
	if (!is_same(c.pid, "ns/user") || !is_same(c.pid, "ns/pid") ||
	    !is_same(c.pid, "root") || is_confined(c.pid))
		return -EACCES;
	/* Still there: so it was this process that was looked at. */
	return pidfd < 0 || pidfd_signal(pidfd, 0) == 0 ? 0 : -EACCES;
}
