#include "sandbox/sync.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "kernel/pidfd.h"
#include "kernel/tty.h"

struct header {
	uint32_t type;
	int32_t value;
};

struct packet {
	struct header header;
	char data[SYNC_DATA_MAX];
};

int sync_send(int sock, enum sync_type type, int value)
{
	struct header h = { .type = type, .value = value };

	return fd_send(sock, &h, sizeof(h), NULL, 0);
}

int sync_send_fd(int sock, enum sync_type type, int fd)
{
	struct header h = { .type = type };

	return fd_send(sock, &h, sizeof(h), &fd, 1);
}

int sync_send_pid(int sock)
{
	struct header h = { .type = SYNC_PID, .value = (int32_t)getpid() };
	auto_close int pidfd = pidfd_open_pid((pid_t)h.value);

	return pidfd < 0 ? pidfd : fd_send(sock, &h, sizeof(h), &pidfd, 1);
}

int sync_send_data(int sock, enum sync_type type, const void *data, size_t n)
{
	struct header h = { .type = type };
	struct iovec iov[] = {
		{ .iov_base = &h, .iov_len = sizeof(h) },
		{ .iov_base = (void *)data, .iov_len = n },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = ARRAY_LEN(iov) };

	if (n > SYNC_DATA_MAX)
		return -EMSGSIZE;
	while (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int sync_recv(int sock, struct sync_msg *ret)
{
	struct packet p;
	size_t n_fds = 1;
	int fd = -1;
	ssize_t n = fd_recv(sock, &p, sizeof(p), &fd, &n_fds);

	/* The peer died with a message of ours unread. That is told once, and
	 * before what it has said. */
	if (n == -ECONNRESET)
		n = fd_recv(sock, &p, sizeof(p), &fd, &n_fds);
	if (n == 0 || n == -ECONNRESET)
		return 0;
	if (n < 0)
		return (int)n;
	if ((size_t)n < sizeof(p.header))
		return -EPROTO;
	ret->type = (enum sync_type)p.header.type;
	ret->value = p.header.value;
	ret->fd = n_fds ? fd : -1;
	ret->len = (size_t)n - sizeof(p.header);
	memcpy(ret->data, p.data, ret->len);
	ret->data[ret->len] = '\0';
	return 1;
}

int sync_want_sender(int sock)
{
	int yes = 1;

	return setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0
		       ? -errno
		       : 0;
}

ssize_t sync_recv_from(int sock, void *data, size_t n, pid_t *ret_pid,
		       int *ret_fd, int flags)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct ucred)) +
			  CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = data, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
	struct ucred sender = { .pid = 0 };

	*ret_fd = -1;
	if (got < 0)
		return -errno;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h;
	     h = CMSG_NXTHDR(&msg, h)) {
		if (h->cmsg_level != SOL_SOCKET)
			continue;
		if (h->cmsg_type == SCM_CREDENTIALS)
			memcpy(&sender, CMSG_DATA(h), sizeof(sender));
		else if (h->cmsg_type == SCM_RIGHTS)
			memcpy(ret_fd, CMSG_DATA(h), sizeof(*ret_fd));
	}
	*ret_pid = sender.pid;
	return got;
}

int sync_expect_fd(int sock, enum sync_type type, int *ret_fd)
{
	auto_close int fd = -1;
	struct header h;
	size_t n_fds = ret_fd ? 1 : 0;
	ssize_t n = fd_recv(sock, &h, sizeof(h), &fd, &n_fds);

	if (n <= 0)
		return n < 0 && n != -ECONNRESET ? (int)n : -EPIPE;
	if (n != sizeof(h) || h.type != (uint32_t)type ||
	    n_fds != (ret_fd ? 1 : 0))
		return -EPROTO;
	if (ret_fd)
		*ret_fd = take_fd(&fd);
	return 0;
}

int sync_expect(int sock, enum sync_type type)
{
	return sync_expect_fd(sock, type, NULL);
}

int sync_take_error(const void *data, size_t n, struct error *err)
{
	struct error e = ERROR_INIT;

	if (n != sizeof(e))
		return error_say(err, ERR_SYSTEM, EPROTO,
				 "init sent half an error");
	memcpy(&e, data, sizeof(e));
	e.msg[sizeof(e.msg) - 1] = '\0';
	e.hint[sizeof(e.hint) - 1] = '\0';
	if (e.kind <= ERR_NONE || e.kind > ERR_TIMEOUT)
		e.kind = ERR_SYSTEM;
	if (e.sys < 0 || e.sys > 4095)
		e.sys = EPROTO;
	if (err)
		*err = e;
	return error_code(&e);
}

int sync_give_terminal(int sock, int console_sock, int master_fd, int slave_fd,
		       uid_t uid, struct error *err)
{
	int r;

	if (console_sock >= 0) {
		r = tty_console_send(console_sock, master_fd, err);
	} else {
		r = tty_suit_output(master_fd, err);
		if (r < 0)
			return r;
		r = sync_send_fd(sock, SYNC_CONSOLE, master_fd);
		if (r < 0)
			r = error_set(err, ERR_SYSTEM, -r,
				      "cannot hand over the terminal");
	}
	if (r == 0 && fchown(slave_fd, uid, (gid_t)-1) < 0)
		r = error_set(err, ERR_SYSTEM, errno,
			      "cannot give the terminal to uid %u",
			      (unsigned int)uid);
	return r;
}

int sync_hand_terminal(int sock, int console_sock, int master_fd, int slave_fd,
		       uid_t uid, struct error *err)
{
	int r = sync_give_terminal(sock, console_sock, master_fd, slave_fd, uid,
				   err);

	return r == 0 ? tty_make_controlling(slave_fd, err) : r;
}

int sync_hand_listener(int sock, int fd, struct error *err)
{
	int r = sync_send(sock, SYNC_SECCOMP, fd);

	if (r == 0)
		r = sync_expect(sock, SYNC_SECCOMP_SENT);
	(void)close(fd);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "the seccomp listener was not handed over");
	return 0;
}
