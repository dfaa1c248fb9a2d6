/*
 * Who is at the other end of a control socket. Only a process of our own uid
 * that lives in no sandbox may ask: a payload in a user namespace of its own
 * shows its owner's uid, so namespaces and root directory are compared, too.
 *
 * What has a seccomp filter and no_new_privs that we have not may be a payload
 * without namespaces (tier C, sandlock_confine), or a service of the host that
 * was hardened. A payload of ours is in a Landlock domain, which for good and
 * on every kernel keeps it from looking into processes outside (ptrace access).
 * So who looks like that has to prove that it can: it writes its name into a
 * pipe of ours, opened through /proc/PID/fd, and comes again.
 *
 * What connects sockets for a sandbox, a supervisor, is none of the host's
 * processes there, whoever it is: it has marked itself before the first call.
 */
#ifndef SANDLOCK_CONTROL_PEER_H
#define SANDLOCK_CONTROL_PEER_H

#include "kernel/pidfd.h"

enum { PEER_PROOFS_MAX = 16 };

/* Those that have proved it; one thread at a time. All zero but fds of -1. */
struct peer_proofs {
	int read_fd, write_fd; /* the pipe, made when it is asked for */
	struct proc_id v[PEER_PROOFS_MAX];
	unsigned int next;
};

#define PEER_PROOFS_INIT                      \
	{                                     \
		.read_fd = -1, .write_fd = -1 \
	}

void peer_proofs_done(struct peer_proofs *p);

/*
 * This process connects for others from now on, so that no control socket
 * answers it: its main thread, which the kernel names as a peer, is called
 * PEER_MARK. 0 or a negative errno.
 */
#define PEER_MARK "sandlock-judge"
int peer_mark(void);

/* 0, -EACCES, or -EAGAIN: it may prove it, by p->write_fd of this process; with
 * NULL that is refused. */
int peer_check(int sock, struct peer_proofs *p);

/* The other side: proves it to process @pid, by its @fd. */
int peer_prove(pid_t pid, int fd);

#endif
