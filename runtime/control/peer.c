#include "control/peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/uapi.h"
#include "kernel/pidfd.h"

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
	    !is_same(c.pid, "root"))
		return -EACCES;
	/* Still there: so it was this process that was looked at. */
	return pidfd < 0 || pidfd_signal(pidfd, 0) == 0 ? 0 : -EACCES;
}
