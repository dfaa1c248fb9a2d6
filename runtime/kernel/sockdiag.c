#include "kernel/sockdiag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { ANSWER_MAX = 32 * 1024 };

struct search {
	const uint64_t *cookies;
	size_t n;
	bool found;
};

uint64_t sockdiag_cookie(int socket_fd)
{
	socklen_t n = sizeof(uint64_t);
	uint64_t v;

	if (getsockopt(socket_fd, SOL_SOCKET, SO_COOKIE, &v, &n) < 0)
		return 0;
	return v;
}

static uint64_t join(const __u32 cookie[2])
{
	return (uint64_t)cookie[1] << 32 | cookie[0];
}

static bool has_cookie(const struct search *s, uint64_t cookie)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->cookies[i] == cookie)
			return true;
	return false;
}

/* 1: this was the last message; 0: there are more. */
static int read_message(const struct nlmsghdr *h, struct search *s)
{
	if (h->nlmsg_type == NLMSG_DONE)
		return 1;
	if (h->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(h);

		if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)))
			return -EPROTO;
		return e->error ? e->error : 1;
	}
	if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
		const struct inet_diag_msg *m = NLMSG_DATA(h);

		if (m->idiag_family != AF_UNIX &&
		    has_cookie(s, join(m->id.idiag_cookie)))
			s->found = true;
	}
	return h->nlmsg_flags & NLM_F_MULTI ? 0 : 1;
}

static int read_answers(int fd, struct search *s)
{
	auto_free char *room = malloc(ANSWER_MAX);

	if (!room)
		return -ENOMEM;
	for (;;) {
		ssize_t n = recv(fd, room, ANSWER_MAX, 0);
		const struct nlmsghdr *h = (const struct nlmsghdr *)room;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		for (size_t left = (size_t)n; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			int r = read_message(h, s);

			if (r)
				return r < 0 ? r : 0;
		}
	}
}

/* One request and all that is said to it. */
static int ask(const void *request, size_t n, uint16_t flags, struct search *s)
{
	auto_close int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct {
		struct nlmsghdr h;
		char body[128];
	} q = {
		.h = {
			.nlmsg_len = (__u32)NLMSG_LENGTH(n),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | flags,
		},
	};

	if (fd < 0)
		return -errno;
	memcpy(q.body, request, n);
	if (send(fd, &q, q.h.nlmsg_len, 0) < 0)
		return -errno;
	return read_answers(fd, s);
}

int sockdiag_find_inet(int protocol, uint16_t port, const uint64_t *cookies,
		       size_t n)
{
	static const unsigned char families[] = { AF_INET, AF_INET6 };
	struct search s = { .cookies = cookies, .n = n };

	for (size_t i = 0; !s.found && i < ARRAY_LEN(families); i++) {
		struct inet_diag_req_v2 q = {
			.sdiag_family = families[i],
			.sdiag_protocol = (__u8)protocol,
			.idiag_states = UINT32_MAX,
			.id = { .idiag_sport = htons(port) },
		};
		int r = ask(&q, sizeof(q), NLM_F_DUMP, &s);

		/* A kernel without IPv6 has no such sockets. */
		if (r < 0 && !(r == -ENOENT && families[i] == AF_INET6))
			return r;
	}
	return s.found;
}

int sockdiag_find_unix(uint32_t ino, uint64_t cookie)
{
	struct search s = { .n = 0 };
	const struct unix_diag_req q = {
		.sdiag_family = AF_UNIX,
		.udiag_states = UINT32_MAX,
		.udiag_ino = ino,
		.udiag_cookie = { (__u32)cookie, (__u32)(cookie >> 32) },
	};
	int r = ask(&q, sizeof(q), 0, &s);

	if (r == 0)
		return 1;
	return r == -ENOENT || r == -ESTALE ? 0 : r;
}
