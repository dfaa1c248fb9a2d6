/*
 * Messages between the parent and init while a sandbox is made, over a
 * SOCK_SEQPACKET pair. Fixed size, so that sending works in any state of the
 * child's memory.
 */
#ifndef SANDLOCK_SANDBOX_SYNC_H
#define SANDLOCK_SANDBOX_SYNC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum sync_type {
	/* from the child */
	SYNC_ERROR = 1, /* data: struct error; the child ends */
	SYNC_MAP,	/* write my id maps; value: my pid, answered MAPPED */
	SYNC_PID,	/* the detour's child is @value; or it is me, one fd:
			   my pidfd */
	SYNC_BUILT,	/* run the runtime hooks; answered HOOKED */
	SYNC_CONSOLE,	/* one fd: the pty's master */
	SYNC_SECCOMP,	/* fetch the listener, fd @value; answered */
	SYNC_TRAPS,	/* one fd: the listener of our own filter */
	SYNC_MADE,	/* data: NUL-separated paths, may come repeatedly */
	SYNC_READY, /* waits for GO, then where it was created for the fifo */
	/* from the parent */
	SYNC_JOINED, /* you are in your cgroup */
	SYNC_MAPPED,
	SYNC_HOOKED,
	SYNC_BRANCH, /* one fd: the mount of the next root of the branch */
	SYNC_SECCOMP_SENT,
	SYNC_GO,
};

enum { SYNC_DATA_MAX = 32 * 1024 };

struct sync_msg {
	enum sync_type type;
	int value;
	int fd; /* received; -1 */
	size_t len;
	char data[SYNC_DATA_MAX + 1]; /* NUL-terminated */
};

int sync_send(int sock, enum sync_type type, int value);
int sync_send_data(int sock, enum sync_type type, const void *data, size_t n);
int sync_send_fd(int sock, enum sync_type type, int fd);
/* Our own, of both kinds: SYNC_PID. */
int sync_send_pid(int sock);
/* 1 a message, 0 the peer is gone, or a negative errno. */
int sync_recv(int sock, struct sync_msg *ret);
/*
 * The error that came as @n bytes, into @err (may be NULL); its negative errno.
 * The sender may be somebody that a payload has got hold of: the texts
 * are ended, and it is an error whatever it says.
 */
int sync_take_error(const void *data, size_t n, struct error *err);
/*
 * Who sent a message: asked for before it is sent, it comes with it. As pids
 * of ours; a negative errno.
 */
int sync_want_sender(int sock);
/* *@ret_fd: what came with it, or -1. @flags: of recvmsg(2). */
ssize_t sync_recv_from(int sock, void *data, size_t n, pid_t *ret_pid,
		       int *ret_fd, int flags);
/*
 * In a child: the terminal @master_fd goes to @console_sock, or where that is
 * -1 to the parent; @slave_fd becomes ours, and @uid's.
 */
int sync_hand_terminal(int sock, int console_sock, int master_fd, int slave_fd,
		       uid_t uid, struct error *err);
/* The same, but that it does not become ours. */
int sync_give_terminal(int sock, int console_sock, int master_fd, int slave_fd,
		       uid_t uid, struct error *err);
/* Has the parent fetch the listener @fd of ours, and closes it. */
int sync_hand_listener(int sock, int fd, struct error *err);
/* Waits for exactly @type; -EPIPE where the peer is gone. */
int sync_expect(int sock, enum sync_type type);
/* The same with the one fd that came along. */
int sync_expect_fd(int sock, enum sync_type type, int *ret_fd);

#endif
