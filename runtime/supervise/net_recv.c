/*
 * Datagrams that say where they come from, once a port is remapped: one from a
 * port of the sandbox's own has the virtual number. Only recvfrom with an
 * address is seen; of a recvmsg registers do not tell whether it has one.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "supervise/net_internal.h"
#include "supervise/ports.h"

enum { TICK_MS = 20, LEN_MAX = 64 * 1024 }; /* of a datagram */

struct receiving {
	struct call *c;
	struct net_socket s;
	struct net_address from;
	int flags;
	size_t room;
	char *data;
};

static void receiving_done(struct receiving *v)
{
	net_socket_done(&v->s);
	free(v->data);
}

/* Bytes, which may be more than there was room for, or a negative errno. */
static ssize_t receive_now(struct receiving *v)
{
	ssize_t n;

	v->from.len = sizeof(v->from.at);
	n = recvfrom(v->s.fd, v->data, v->room, v->flags | MSG_DONTWAIT,
		     &v->from.at.any, &v->from.len);
	return n < 0 ? -errno : n;
}

static int wait_more(struct receiving *v, uint64_t deadline_ms)
{
	struct pollfd p = { .fd = v->s.fd, .events = POLLIN };

	if (net_is_over(deadline_ms))
		return -EAGAIN;
	call_effect_end(v->c);
	call_block_begin(v->c, deadline_ms ? EINTR : OUTCOME_RESTART_ERRNO);
	(void)poll(&p, 1, TICK_MS);
	call_block_end(v->c);
	return call_effect_begin(v->c) ? 0 : -ESRCH;
}

/* What was taken from the queue must reach the caller. */
static ssize_t receive(struct receiving *v, bool waits)
{
	uint64_t deadline_ms =
		waits ? net_deadline_ms(v->s.fd, SO_RCVTIMEO) : 0;
	ssize_t n;

	if (!call_effect_begin(v->c))
		return -ESRCH;
	while ((n = receive_now(v)) == -EAGAIN && waits) {
		int r = wait_more(v, deadline_ms);

		if (r < 0)
			return r;
	}
	return n;
}

static int give(struct receiving *v, size_t n)
{
	int r = n ? call_write(v->c, call_arg(v->c, 1), v->data, n) : 0;

	return r < 0 ? r
		     : net_write_name(v->c, &v->from, call_arg(v->c, 4),
				      call_arg(v->c, 5));
}

static bool has_datagram(const struct receiving *v)
{
	struct pollfd p = { .fd = v->s.fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

struct outcome net_recvfrom(struct call *c, void *data)
{
	const struct net_lane *lane = data;
	auto_(receiving) struct receiving v = {
		.c = c,
		.s = NET_SOCKET_INIT,
		.from = NET_ADDRESS_INIT,
		.flags = (int)call_arg(c, 3),
		.room = call_arg(c, 2),
	};
	bool waits;
	ssize_t n;
	int r;

	if (!call_arg(c, 4) || !ports_has(lane->net->ports, NET_UDP) ||
	    v.flags & (MSG_ERRQUEUE | MSG_OOB))
		return OUTCOME_GO;
	r = net_socket_open(c, (int)call_arg(c, 0), &v.s);
	if (r < 0 || v.s.proto != NET_UDP)
		return OUTCOME_GO;
	waits = !v.s.nonblock && !(v.flags & MSG_DONTWAIT);
	if (waits && !lane->may_wait && !has_datagram(&v))
		return OUTCOME_GO;
	if (v.room > LEN_MAX)
		v.room = LEN_MAX;
	v.data = malloc(v.room + 1);
	if (!v.data)
		return OUTCOME_FAIL(ENOMEM);
	n = receive(&v, waits && lane->may_wait);
	if (n < 0)
		return OUTCOME_FAIL((int)-n);
	net_show_virtual(lane->net, &v.s, &v.from, true);
	r = give(&v, (size_t)n < v.room ? (size_t)n : v.room);
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(n);
}
