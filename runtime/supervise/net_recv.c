/*
 * Datagrams that say where they come from, once a port is remapped: one from a
 * port of the sandbox's own has the virtual number. All else is the kernel's.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "supervise/net_internal.h"
#include "supervise/ports.h"

enum {
	TICK_MS = 20,
	LEN_MAX = 64 * 1024, /* of a datagram */
	CONTROL_MAX = 4096,
	IOV_MAX_COUNT = 1024, /* UIO_MAXIOV */
	MESSAGES_MAX = 1024,
};

/* One call, and the datagram that it is at. */
struct receiving {
	struct call *c;
	struct net_socket s;
	bool waits;
	uint64_t deadline_ms; /* of SO_RCVTIMEO; 0: none */
	size_t n_done;	      /* datagrams of recvmmsg that went before */
	int flags;
	struct net_address from;
	struct iovec *iov; /* in the caller */
	size_t n_iov;
	size_t room; /* of all of it */
	char *data;
	char control[CONTROL_MAX];
	size_t control_room;
	struct msghdr got;
};

static void receiving_done(struct receiving *v)
{
	net_socket_done(&v->s);
	free(v->iov);
	free(v->data);
}

/* ------------------------------------------------------------- receiving -- */

/* Bytes, which may be more than there was room for, or a negative errno. */
static ssize_t receive_now(struct receiving *v)
{
	struct iovec iov = { v->data, v->room };
	ssize_t n;

	v->got = (struct msghdr){
		.msg_name = &v->from.at,
		.msg_namelen = sizeof(v->from.at),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = v->control_room ? v->control : NULL,
		.msg_controllen = v->control_room,
	};
	n = recvmsg(v->s.fd, &v->got, v->flags | MSG_DONTWAIT);
	v->from.len = v->got.msg_namelen;
	return n < 0 ? -errno : n;
}

/* What was received before cannot be given back: that is the answer then. */
static int wait_behind_others(struct receiving *v)
{
	struct pollfd p = { .fd = v->s.fd, .events = POLLIN };

	(void)poll(&p, 1, TICK_MS);
	if (call_is_abandoned(v->c))
		return -ESRCH;
	return call_is_interrupted(v->c) ? -EINTR : 0;
}

static int wait_more(struct receiving *v)
{
	struct pollfd p = { .fd = v->s.fd, .events = POLLIN };

	if (net_is_over(v->deadline_ms))
		return -EAGAIN;
	if (v->n_done)
		return wait_behind_others(v);
	call_effect_end(v->c);
	call_block_begin(v->c, v->deadline_ms ? EINTR : OUTCOME_RESTART_ERRNO);
	(void)poll(&p, 1, TICK_MS);
	call_block_end(v->c);
	return call_effect_begin(v->c) ? 0 : -ESRCH;
}

/* What was taken from the queue must reach the caller. */
static ssize_t receive(struct receiving *v)
{
	ssize_t n;

	v->deadline_ms = v->waits ? net_deadline_ms(v->s.fd, SO_RCVTIMEO) : 0;
	if (!v->n_done && !call_effect_begin(v->c))
		return -ESRCH;
	while ((n = receive_now(v)) == -EAGAIN && v->waits) {
		int r = wait_more(v);

		if (r < 0)
			return r;
	}
	return n;
}

/* --------------------------------------------------------------- memory -- */

/* Where the bytes go, at most LEN_MAX of them. */
static int prepare(struct receiving *v, uint64_t control_room)
{
	v->room = 0;
	for (size_t i = 0; i < v->n_iov; i++) {
		if (v->iov[i].iov_len > LEN_MAX - v->room)
			v->iov[i].iov_len = LEN_MAX - v->room;
		v->room += v->iov[i].iov_len;
	}
	v->control_room =
		control_room < CONTROL_MAX ? control_room : CONTROL_MAX;
	free(v->data);
	v->data = malloc(v->room + 1);
	return v->data ? 0 : -ENOMEM;
}

static int give_data(struct receiving *v, size_t n)
{
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < v->n_iov && at < n; i++) {
		size_t len = v->iov[i].iov_len;

		if (len > n - at)
			len = n - at;
		if (len)
			r = call_write(v->c,
				       (uint64_t)(uintptr_t)v->iov[i].iov_base,
				       v->data + at, len);
		at += len;
	}
	return r;
}

/* ------------------------------------------------------------- recvfrom -- */

static struct outcome receive_from(struct net *net, struct receiving *v)
{
	ssize_t n;
	int r;

	v->iov = calloc(1, sizeof(*v->iov));
	if (!v->iov)
		return OUTCOME_FAIL(ENOMEM);
	v->iov[0].iov_base = (void *)(uintptr_t)call_arg(v->c, 1);
	v->iov[0].iov_len = call_arg(v->c, 2);
	v->n_iov = 1;
	r = prepare(v, 0);
	n = r < 0 ? r : receive(v);
	if (n < 0)
		return OUTCOME_FAIL((int)-n);
	net_show_virtual(net, &v->s, &v->from, true);
	r = give_data(v, (size_t)n < v->room ? (size_t)n : v->room);
	if (r == 0)
		r = net_write_name(v->c, &v->from, call_arg(v->c, 4),
				   call_arg(v->c, 5));
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(n);
}

/* -------------------------------------------------------------- recvmsg -- */

static int read_message(struct receiving *v, const struct user_message *u)
{
	int r;

	if (u->n_iov > IOV_MAX_COUNT)
		return -EMSGSIZE;
	free(v->iov);
	v->n_iov = u->n_iov;
	v->iov = calloc(v->n_iov + 1, sizeof(*v->iov));
	if (!v->iov)
		return -ENOMEM;
	r = v->n_iov ? call_read(v->c, u->iov, v->iov,
				 v->n_iov * sizeof(*v->iov))
		     : 0;
	return r < 0 ? r : prepare(v, u->control ? u->control_len : 0);
}

static int write_at(struct receiving *v, uint64_t at, size_t offset,
		    const void *data, size_t n)
{
	return call_write(v->c, at + offset, data, n);
}

/* The header at @at says how much of everything there is. */
static int give_message(struct receiving *v, uint64_t at,
			const struct user_message *u, size_t n)
{
	uint32_t name_len = v->from.len;
	uint64_t control_len = v->got.msg_controllen;
	uint32_t flags = (uint32_t)v->got.msg_flags;
	size_t name_room = u->name_len < name_len ? u->name_len : name_len;
	int r = give_data(v, n < v->room ? n : v->room);

	if (r == 0 && u->name && (int)u->name_len < 0)
		r = -EINVAL;
	if (r == 0 && u->name && name_room)
		r = call_write(v->c, u->name, &v->from.at, name_room);
	if (r == 0 && u->name)
		r = write_at(v, at, offsetof(struct user_message, name_len),
			     &name_len, sizeof(name_len));
	if (r == 0 && v->control_room && control_len)
		r = call_write(v->c, u->control, v->control, control_len);
	if (r == 0)
		r = write_at(v, at, offsetof(struct user_message, control_len),
			     &control_len, sizeof(control_len));
	return r < 0 ? r
		     : write_at(v, at, offsetof(struct user_message, flags),
				&flags, sizeof(flags));
}

/* One datagram for the header at @at: bytes or a negative errno. */
static ssize_t receive_message(struct net *net, struct receiving *v,
			       uint64_t at)
{
	struct user_message u;
	ssize_t n;
	int r = call_read(v->c, at, &u, sizeof(u));

	if (r == 0)
		r = read_message(v, &u);
	n = r < 0 ? r : receive(v);
	if (n < 0)
		return n;
	net_show_virtual(net, &v->s, &v->from, true);
	r = give_message(v, at, &u, (size_t)n);
	return r < 0 ? r : n;
}

/* Looks at its time after each datagram only, as the kernel does. */
static struct outcome receive_messages(struct net *net, struct receiving *v,
				       uint64_t end_ns)
{
	uint64_t n = (uint32_t)call_arg(v->c, 2);
	ssize_t r = 0;

	if (n > MESSAGES_MAX)
		n = MESSAGES_MAX;
	while (v->n_done < n) {
		uint64_t at = call_arg(v->c, 1) +
			      v->n_done * sizeof(struct user_mmessage);
		uint32_t len;

		r = receive_message(net, v, at);
		if (r < 0)
			break;
		len = (uint32_t)r;
		r = write_at(v, at, offsetof(struct user_mmessage, sent), &len,
			     sizeof(len));
		if (r < 0)
			break;
		v->n_done++;
		if (call_arg(v->c, 3) & MSG_WAITFORONE)
			v->waits = false;
		if (end_ns && clock_now_ns() >= end_ns)
			break;
	}
	return v->n_done || r >= 0 ? OUTCOME_VALUE((int64_t)v->n_done)
				   : OUTCOME_FAIL((int)-r);
}

static int read_end(struct call *c, uint64_t *ret)
{
	struct timespec t;
	int r;

	*ret = 0;
	if (!call_arg(c, 4))
		return 0;
	r = call_read(c, call_arg(c, 4), &t, sizeof(t));
	if (r == 0 && (t.tv_sec < 0 || t.tv_nsec < 0 || t.tv_nsec > 999999999))
		r = -EINVAL;
	/* In hundreds of years it does not matter. */
	if (r == 0 && t.tv_sec < INT_MAX)
		*ret = clock_now_ns() + (uint64_t)t.tv_sec * 1000000000 +
		       (uint64_t)t.tv_nsec;
	return r;
}

/* ---------------------------------------------------------------- calls -- */

static bool has_datagram(const struct receiving *v)
{
	struct pollfd p = { .fd = v->s.fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Whether the caller wants to know where it comes from. */
static bool has_name(struct call *c)
{
	struct user_message u;

	if (call_nr(c) == SYS_recvfrom)
		return call_arg(c, 4);
	return call_read(c, call_arg(c, 1), &u, sizeof(u)) == 0 && u.name;
}

static int flags_of(const struct call *c)
{
	unsigned int i = call_nr(c) == SYS_recvmsg ? 2 : 3;

	return (int)call_arg(c, i) & ~(MSG_WAITFORONE | MSG_CMSG_CLOEXEC);
}

static bool is_ours(const struct net *net, struct receiving *v)
{
	if (!ports_has(net->ports, NET_UDP) ||
	    v->flags & (MSG_ERRQUEUE | MSG_OOB) || !has_name(v->c))
		return false;
	return net_socket_open(v->c, (int)call_arg(v->c, 0), &v->s) == 0 &&
	       v->s.proto == NET_UDP;
}

static struct outcome receive_all(struct net *net, struct receiving *v)
{
	uint64_t end_ns;
	ssize_t n;
	int r;

	switch (call_nr(v->c)) {
	case SYS_recvmsg:
		n = receive_message(net, v, call_arg(v->c, 1));
		return n < 0 ? OUTCOME_FAIL((int)-n) : OUTCOME_VALUE(n);
	case SYS_recvmmsg:
		r = read_end(v->c, &end_ns);
		return r < 0 ? OUTCOME_FAIL(-r)
			     : receive_messages(net, v, end_ns);
	default:
		return receive_from(net, v);
	}
}

struct outcome net_receive(struct call *c, void *data)
{
	const struct net_lane *lane = data;
	auto_(receiving) struct receiving v = {
		.c = c,
		.s = NET_SOCKET_INIT,
		.from = NET_ADDRESS_INIT,
		.flags = flags_of(c),
	};

	if (!is_ours(lane->net, &v)) {
		if (!lane->may_wait)
			call_skip(c);
		return OUTCOME_GO;
	}
	v.waits = !v.s.nonblock && !(v.flags & MSG_DONTWAIT);
	/* Having received some, a quick row could not hand over the rest. */
	if (v.waits && !lane->may_wait &&
	    (call_nr(c) == SYS_recvmmsg || !has_datagram(&v)))
		return OUTCOME_GO;
	v.waits = v.waits && lane->may_wait;
	return receive_all(lane->net, &v);
}
