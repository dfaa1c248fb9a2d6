#include "embed/channel.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

struct packet {
	uint32_t type;
	int32_t value;
	char data[CHANNEL_DATA_MAX];
};

enum { HEADER = offsetof(struct packet, data) };

int channel_send(int sock, enum channel_type type, int value, const void *data,
		 size_t n, int fd)
{
	struct packet p;

	if (n > sizeof(p.data))
		return -EMSGSIZE;
	p.type = type;
	p.value = value;
	if (n)
		memcpy(p.data, data, n);
	return fd_send(sock, &p, HEADER + n, &fd, fd >= 0 ? 1 : 0);
}

int channel_recv(int sock, struct channel_msg *ret)
{
	struct packet p;
	size_t n_fds = 1;
	int fd = -1;
	ssize_t n = fd_recv(sock, &p, sizeof(p), &fd, &n_fds);

	/* Told once, and before what the peer said, where it died with a
	 * message of ours unread. */
	if (n == -ECONNRESET) {
		n_fds = 1;
		n = fd_recv(sock, &p, sizeof(p), &fd, &n_fds);
	}
	if (n <= 0)
		return (int)n;
	if (n < HEADER)
		return -EPROTO;
	ret->type = (enum channel_type)p.type;
	ret->value = p.value;
	ret->fd = n_fds ? fd : -1;
	ret->len = (size_t)n - HEADER;
	memcpy(ret->data, p.data, ret->len);
	ret->data[ret->len] = '\0';
	return 1;
}
