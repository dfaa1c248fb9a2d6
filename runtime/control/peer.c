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

/* "Name:" is the first line of a status file. */
static bool is_marked(const char *status)
{
	static const char line[] = "Name:\t" PEER_MARK "\n";

	return strncmp(status, line, strlen(line)) == 0;
}

int peer_mark(void)
{
	auto_close int fd = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, PEER_MARK, strlen(PEER_MARK)) < 0 ? -errno : 0;
}

enum look { LOOK_FREE, LOOK_CONFINED, LOOK_MARKED };

/*
 * Who may be confined by us, without namespaces: a filter more than we have,
 * and no_new_privs. Who cannot be looked at is taken for such a one.
 */
static enum look look_at(pid_t pid)
{
	auto_(buf) struct buf theirs = BUF_INIT;
	auto_(buf) struct buf ours = BUF_INIT;
	char path[40];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fd_read_file(AT_FDCWD, path, STATUS_MAX, &theirs) < 0 ||
	    fd_read_file(AT_FDCWD, "/proc/self/status", STATUS_MAX, &ours) < 0)
		return LOOK_CONFINED;
	if (is_marked(buf_str(&theirs)))
		return LOOK_MARKED;
	return field(buf_str(&theirs), "\nNoNewPrivs:") &&
			       field(buf_str(&theirs), "\nSeccomp_filters:") >
				       field(buf_str(&ours),
					     "\nSeccomp_filters:")
		       ? LOOK_CONFINED
		       : LOOK_FREE;
}

void peer_proofs_done(struct peer_proofs *p)
{
	cleanup_close(&p->read_fd);
	cleanup_close(&p->write_fd);
	p->read_fd = p->write_fd = -1;
}

static int make_pipe(struct peer_proofs *p)
{
	int fds[2];

	if (p->read_fd >= 0)
		return 0;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	p->read_fd = fds[0];
	p->write_fd = fds[1];
	return 0;
}

/* A number that is another process's by now does not count. */
static bool has_proved(struct peer_proofs *p, pid_t pid)
{
	struct proc_id id, now;

	while (p->read_fd >= 0 &&
	       read(p->read_fd, &id, sizeof(id)) == (ssize_t)sizeof(id))
		p->v[p->next++ % PEER_PROOFS_MAX] = id;
	if (proc_id_of(pid, &now) < 0)
		return false;
	for (size_t i = 0; i < PEER_PROOFS_MAX; i++)
		if (p->v[i].pid == now.pid &&
		    p->v[i].start_time == now.start_time)
			return true;
	return false;
}

/*
 * With a root of its own a bundle of root's may lack the domain, so that has to
 * be the same here down to the mounts.
 */
static int check_confined(pid_t pid, struct peer_proofs *p)
{
	if (!p || !is_same(pid, "ns/mnt"))
		return -EACCES;
	if (has_proved(p, pid))
		return 0;
	return make_pipe(p) < 0 ? -EACCES : -EAGAIN;
}

int peer_prove(pid_t pid, int fd)
{
	char path[48];
	auto_close int seen = -1, pipe_fd = -1;
	struct proc_id id;
	struct stat st;
	int r = proc_id_of(getpid(), &id);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	/* To open what is no pipe may do something: it was named by others. */
	seen = open(path, O_PATH | O_CLOEXEC);
	if (seen < 0 || fstat(seen, &st) < 0)
		return -errno;
	if (!S_ISFIFO(st.st_mode))
		return -EINVAL;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", seen);
	pipe_fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	if (pipe_fd < 0)
		return -errno;
	return write(pipe_fd, &id, sizeof(id)) == (ssize_t)sizeof(id) ? 0
								      : -EIO;
}

int peer_check(int sock, struct peer_proofs *p)
{
	auto_close int pidfd = -1;
	int r = 0;
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
	switch (look_at(c.pid)) {
	case LOOK_FREE:
		break;
	case LOOK_CONFINED:
		r = check_confined(c.pid, p);
		break;
	case LOOK_MARKED:
		r = -EACCES;
		break;
	}
	/* Still there: so it was this process that was looked at. */
	return pidfd < 0 || pidfd_signal(pidfd, 0) == 0 ? r : -EACCES;
}
