/*
 * Messages, sent on behalf: the caller's message is copied piece by piece, its
 * descriptors become duplicates of ours, and what the kernel would have told
 * the caller by a signal (SIGPIPE) is told by one.
 *
 * A message is sent without waiting. If it must wait, we wait for room, which
 * has no effect and so can be interrupted; once a byte has been sent the call
 * is not answered but with what was sent.
 */
#include <errno.h>
#include <limits.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/uapi.h"
#include "supervise/act.h"
#include "supervise/net_internal.h"
#include "supervise/who.h"

enum {
	PIECE_MAX = 256 * 1024,		/* of a stream, at a time */
	DATAGRAM_MAX = 4 * 1024 * 1024, /* more fits into no buffer */
	FDS_MAX = 253,			/* SCM_MAX_FD */
	SHORT_MAX = 16 * 1024, /* what a socket with room surely takes */
	TICK_MS = 20,
	NAP_MS = 2,
	MESSAGES_MAX = 1024,
};

/* One message on its way. */
struct sending {
	struct net *net;
	struct call *c;
	struct net_work *w;
	const struct net_socket *s; /* of @w */
	struct net_address *to;	    /* of @w; to->len 0: none */
	struct net_work **own;
	struct iovec *iov; /* in the caller */
	size_t n_iov;
	size_t len; /* of all of it */
	char *control;
	size_t control_len;
	unsigned char *ids; /* in it: a struct ucred, or NULL */
	int fds[FDS_MAX];   /* of the control data */
	size_t n_fds;
	char *piece; /* NULL while it waits: many may */
	int flags;
};

static void sending_done(struct sending *m)
{
	for (size_t i = 0; i < m->n_fds; i++)
		(void)close(m->fds[i]);
	free(m->iov);
	free(m->control);
	free(m->piece);
}

/* ------------------------------------------------------------- copying -- */

static int read_iov(struct sending *m, const struct user_message *u)
{
	if (u->n_iov > NET_IOV_MAX)
		return -EMSGSIZE;
	m->n_iov = u->n_iov;
	m->iov = calloc(m->n_iov + 1, sizeof(*m->iov));
	if (!m->iov)
		return -ENOMEM;
	if (!m->n_iov)
		return 0;
	return call_read(m->c, u->iov, m->iov, m->n_iov * sizeof(*m->iov));
}

/* sendto has one piece, which its arguments name. */
static int make_iov(struct sending *m)
{
	m->iov = calloc(1, sizeof(*m->iov));
	if (!m->iov)
		return -ENOMEM;
	m->n_iov = 1;
	m->iov[0].iov_base = (void *)(uintptr_t)call_arg(m->c, 1);
	m->iov[0].iov_len = call_arg(m->c, 2);
	return 0;
}

static int add_up(struct sending *m)
{
	size_t max =
		call_has_captured(m->c) ? call_captured_bytes(m->c) : INT_MAX;

	for (size_t i = 0; i < m->n_iov; i++) {
		if (m->iov[i].iov_len > SSIZE_MAX)
			return -EINVAL;
		/* The kernel cuts what is longer, too. */
		if (m->iov[i].iov_len > INT_MAX - m->len)
			m->iov[i].iov_len = INT_MAX - m->len;
		m->len += m->iov[i].iov_len;
	}
	if (m->len <= max)
		return 0;
	/* Not one byte that was not seen. */
	if (m->s->type != SOCK_STREAM)
		return m->len > NET_CAPTURED_BYTES ? -EMSGSIZE : -ENOBUFS;
	m->len = max;
	return 0;
}

/* No buffer of such a socket takes it. */
static bool is_too_long(const struct sending *m)
{
	socklen_t n = sizeof(int);
	int room = 0;

	if (m->s->type == SOCK_STREAM)
		return false;
	if (m->s->family == AF_INET || m->s->family == AF_INET6)
		return m->len > UINT16_MAX;
	if (getsockopt(m->s->fd, SOL_SOCKET, SO_SNDBUF, &room, &n) < 0)
		return false;
	return room >= 0 && m->len > (size_t)room;
}

/* @n bytes of the message from @from on. */
static int read_piece(struct sending *m, size_t from, size_t n)
{
	size_t got = 0;

	if (!m->piece)
		m->piece =
			malloc(m->len < PIECE_MAX || m->s->type != SOCK_STREAM
				       ? m->len + 1
				       : PIECE_MAX);
	if (!m->piece)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_iov && got < n; i++) {
		size_t len = m->iov[i].iov_len, take;
		int r;

		if (from >= len) {
			from -= len;
			continue;
		}
		take = len - from < n - got ? len - from : n - got;
		r = call_read(m->c,
			      (uint64_t)(uintptr_t)m->iov[i].iov_base + from,
			      m->piece + got, take);
		if (r < 0)
			return r;
		got += take;
		from = 0;
	}
	return 0;
}

/*
 * What may be said beside the data: nothing that changes where it goes
 * (IP_RETOPTS, IPV6_RTHDR), and nothing that only our privileges allow.
 */
static bool is_harmless(const struct cmsghdr *h)
{
	switch (h->cmsg_level) {
	case SOL_SOCKET:
		return h->cmsg_type == SO_TIMESTAMPING ||
		       h->cmsg_type == SCM_TXTIME;
	case IPPROTO_IP:
		return h->cmsg_type == IP_PKTINFO || h->cmsg_type == IP_TTL ||
		       h->cmsg_type == IP_TOS;
	case IPPROTO_IPV6:
		return h->cmsg_type == IPV6_PKTINFO ||
		       h->cmsg_type == IPV6_HOPLIMIT ||
		       h->cmsg_type == IPV6_TCLASS ||
		       h->cmsg_type == IPV6_DONTFRAG;
	case SOL_UDP:
		return h->cmsg_type == UDP_SEGMENT;
	default:
		return false;
	}
}

/*
 * Whoever says who it is (SCM_CREDENTIALS) is believed only by the kernel: the
 * ids are ours while we act as the caller, the process is ours.
 */
static void say_who(const struct sending *m)
{
	const struct ucred who = { getpid(), geteuid(), getegid() };

	if (m->ids)
		memcpy(m->ids, &who, sizeof(who));
}

/* The caller's numbers become those of duplicates. */
static int take_fds(struct sending *m, struct cmsghdr *h)
{
	size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	unsigned char *at = CMSG_DATA(h);

	for (size_t i = 0; i < n; i++, at += sizeof(int)) {
		int fd;

		if (m->n_fds == FDS_MAX)
			return -EINVAL;
		memcpy(&fd, at, sizeof(fd));
		fd = call_get_fd(m->c, fd);
		if (fd < 0)
			return fd;
		m->fds[m->n_fds++] = fd;
		memcpy(at, &fd, sizeof(fd));
	}
	return 0;
}

static bool is_ids(const struct sending *m, const struct cmsghdr *h)
{
	return m->s->family == AF_UNIX && h->cmsg_level == SOL_SOCKET &&
	       h->cmsg_type == SCM_CREDENTIALS &&
	       h->cmsg_len == CMSG_LEN(sizeof(struct ucred));
}

static int read_control(struct sending *m, const struct user_message *u)
{
	size_t left;
	int r;

	if (!u->control || !u->control_len)
		return 0;
	if (u->control_len > NET_CONTROL_MAX)
		return -ENOBUFS;
	m->control = calloc(1, NET_CONTROL_MAX);
	if (!m->control)
		return -ENOMEM;
	r = call_read(m->c, u->control, m->control, u->control_len);
	m->control_len = u->control_len;
	left = m->control_len;
	for (char *at = m->control; r == 0 && left >= sizeof(struct cmsghdr);) {
		struct cmsghdr *h = (struct cmsghdr *)(void *)at;
		size_t step;

		if (h->cmsg_len < sizeof(*h) || h->cmsg_len > left)
			return -EINVAL;
		if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
			r = take_fds(m, h);
		else if (is_ids(m, h))
			m->ids = CMSG_DATA(h);
		else if (!is_harmless(h))
			r = -EPERM;
		step = CMSG_ALIGN(h->cmsg_len);
		left -= step < left ? step : left;
		at += step;
	}
	return r;
}

/*
 * Beside a number of bytes and a negative errno: nothing was sent, and only a
 * lane that may wait can; and: the answer is in the work.
 */
enum { MUST_WAIT = INT_MIN, ANSWERED };

/* What of a name the kernel would look at. */
static bool has_name(const struct net_socket *s, int flags)
{
	if (s->type == SOCK_STREAM && s->proto == NET_TCP)
		return flags & MSG_FASTOPEN;
	return s->type != SOCK_SEQPACKET;
}

/* ANSWERED: m->w->outcome says what. */
static int read_name(struct sending *m, const struct user_message *u)
{
	uint32_t len = u->name_len;
	int r = 0;

	if (!m->w->is_read) {
		m->to->len = 0;
		m->w->is_read = true;
		if (!u->name || !len || !has_name(m->s, m->flags))
			return 0;
		if ((int)len < 0)
			return -EINVAL;
		if (len > sizeof(m->to->at))
			len = sizeof(m->to->at);
		r = net_address_read(m->c, u->name, len, m->to);
	}
	/* A stream takes none, and the kernel says how it is wrong. */
	if (r < 0 || !m->to->len ||
	    (m->s->family == AF_UNIX && m->s->type == SOCK_STREAM))
		return r;
	return net_may(m->net, m->c, m->w, true, m->own) ? 0 : ANSWERED;
}

static int read_message(struct sending *m, const struct user_message *u)
{
	bool is_sendto = call_nr(m->c) == SYS_sendto;
	int r = is_sendto ? make_iov(m) : read_iov(m, u);

	if (r == 0)
		r = add_up(m);
	if (r == 0)
		r = read_name(m, u);
	if (r == 0)
		r = read_control(m, u);
	if (r < 0)
		return r;
	if (m->s->type != SOCK_STREAM && m->len > DATAGRAM_MAX)
		return -EMSGSIZE;
	return is_too_long(m) ? -EMSGSIZE : 0;
}

/* ------------------------------------------------------------- sending -- */

/*
 * On a connected unix socket who sends is told, and nothing of it judged: one
 * like us need not be stood in for.
 */
static bool needs_caller(const struct sending *m)
{
	auto_free struct who *w = NULL;

	if (!net_needs_caller(m->net, m->s))
		return false;
	if (m->s->family != AF_UNIX || m->to->len || m->ids)
		return true;
	w = malloc(sizeof(*w));
	return !w || who_read(call_tid(m->c), w) < 0 || !act_is_like(w) ||
	       !call_is_valid(m->c);
}

/* One attempt, without waiting: the number of bytes, or a negative errno. */
static ssize_t send_piece(struct sending *m, size_t from, size_t n)
{
	struct iovec iov = { .iov_base = m->piece, .iov_len = n };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	int flags = m->flags | MSG_DONTWAIT | MSG_NOSIGNAL;
	struct act act = { false };
	ssize_t r;

	if (m->to->len) {
		h.msg_name = &m->to->at;
		h.msg_namelen = m->to->len;
	}
	/* With the first bytes only. */
	if (!from && m->control_len) {
		h.msg_control = m->control;
		h.msg_controllen = m->control_len;
	}
	if (needs_caller(m))
		return net_send_as_caller(m->net, m->c, m->s->fd, &h, flags,
					  m->ids);
	r = m->s->family == AF_UNIX && !m->net->is_own_network
		    ? act_begin(&act, m->c)
		    : 0;
	if (r < 0)
		return r;
	if (!m->net->is_own_network)
		say_who(m);
	r = sendmsg(m->s->fd, &h, flags);
	if (r < 0)
		r = -errno;
	act_end(&act);
	return r;
}

static void tell_broken_pipe(const struct sending *m)
{
	pid_t tgid;

	if (m->s->type != SOCK_STREAM || (m->flags & MSG_NOSIGNAL))
		return;
	tgid = call_tgid(m->c);
	if (tgid && call_is_valid(m->c))
		(void)syscall(SYS_tgkill, tgid, call_tid(m->c), SIGPIPE);
}

uint64_t net_deadline_ms(int fd, int option)
{
	struct timeval t = { 0 };
	socklen_t n = sizeof(t);
	struct timespec now;

	if (getsockopt(fd, SOL_SOCKET, option, &t, &n) < 0 ||
	    (!t.tv_sec && !t.tv_usec))
		return 0;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint64_t)now.tv_sec + (uint64_t)t.tv_sec) * 1000 +
	       (uint64_t)now.tv_nsec / 1000000 + (uint64_t)t.tv_usec / 1000 + 1;
}

bool net_is_over(uint64_t deadline_ms)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return deadline_ms &&
	       (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 >=
		       deadline_ms;
}

/*
 * Waits a little for room. That an unconnected datagram socket may be written
 * to says nothing of the peer's queue: that one is tried again.
 */
static void wait_for_room(struct sending *m)
{
	struct pollfd p = { .fd = m->s->fd, .events = POLLOUT };

	free(m->piece);
	m->piece = NULL;

	if (m->s->type == SOCK_STREAM)
		(void)poll(&p, 1, TICK_MS);
	else
		(void)poll(NULL, 0, NAP_MS);
}

/*
 * Waits after @sent bytes: 0 to try again, else the negative errno that the
 * call ends with if nothing was sent. Behind other messages of the call it must
 * not be begun anew: they would go twice.
 */
static int wait_more(struct sending *m, size_t sent, uint64_t deadline_ms)
{
	int on_signal = deadline_ms ? EINTR : OUTCOME_RESTART_ERRNO;

	if (net_is_over(deadline_ms))
		return -EAGAIN;
	if (sent || m->w->sent) {
		wait_for_room(m);
		return call_is_interrupted(m->c) ? -EINTR : 0;
	}
	call_effect_end(m->c);
	call_block_begin(m->c, on_signal);
	wait_for_room(m);
	call_block_end(m->c);
	return call_effect_begin(m->c) ? 0 : -ESRCH;
}

/*
 * Bytes, a negative errno, or MUST_WAIT. A quick row that sent a part, of a
 * socket that had room, waits all the same.
 */
static ssize_t send_all(struct sending *m, bool waits, bool may_wait)
{
	uint64_t deadline_ms =
		waits ? net_deadline_ms(m->s->fd, SO_SNDTIMEO) : 0;
	bool is_stream = m->s->type == SOCK_STREAM;
	size_t sent = 0;
	ssize_t r;

	for (;;) {
		size_t n = m->len - sent;

		if (is_stream && n > PIECE_MAX)
			n = PIECE_MAX;
		r = read_piece(m, sent, n);
		if (r == 0)
			r = send_piece(m, sent, n);
		if (r >= 0) {
			sent += (size_t)r;
			if (sent >= m->len || !is_stream)
				return (ssize_t)sent;
			continue;
		}
		if (r == -EAGAIN && waits && !sent && !may_wait)
			return MUST_WAIT;
		if (r == -EAGAIN && waits)
			r = wait_more(m, sent, deadline_ms);
		if (r < 0)
			break;
		if (call_is_abandoned(m->c))
			return -ESRCH;
	}
	if (r == -EPIPE && !sent)
		tell_broken_pipe(m);
	return sent ? (ssize_t)sent : r;
}

/* False if a quick row should not even try. */
static bool is_short(const struct sending *m)
{
	struct pollfd p = { .fd = m->s->fd, .events = POLLOUT };

	if (m->flags & MSG_FASTOPEN)
		return false;
	return m->len <= SHORT_MAX && poll(&p, 1, 0) == 1;
}

/* The kernel's own waiting connect: it sends what fits into the first packet.
 */
static ssize_t send_fast_open(struct sending *m)
{
	struct iovec iov;
	struct msghdr h = {
		.msg_name = &m->to->at,
		.msg_namelen = m->to->len,
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	ssize_t r;

	iov.iov_len = m->len < PIECE_MAX ? m->len : PIECE_MAX;
	r = read_piece(m, 0, iov.iov_len);
	if (r < 0)
		return r;
	iov.iov_base = m->piece;
	call_block_begin(m->c, EINTR);
	r = sendmsg(m->s->fd, &h, m->flags | MSG_NOSIGNAL);
	if (r < 0)
		r = -errno;
	call_block_end(m->c);
	/* Where the caller has been told EINTR by now that is what it gets. */
	if (r >= 0)
		(void)call_effect_begin(m->c);
	return r;
}

/* One message: bytes, a negative errno, MUST_WAIT or ANSWERED. */
static ssize_t send_message(const struct net_lane *lane, struct call *c,
			    struct net_work *w, struct net_work **own,
			    const struct user_message *u, int flags)
{
	auto_(sending) struct sending m = {
		.net = lane->net,
		.c = c,
		.w = w,
		.s = &w->s,
		.to = &w->a,
		.own = own,
		.flags = flags,
	};
	bool waits = !w->s.nonblock && !(flags & MSG_DONTWAIT);
	ssize_t r;

	/* The caller's pages cannot be pinned from here: "copy instead". */
	if (flags & MSG_ZEROCOPY)
		return -ENOBUFS;
	r = read_message(&m, u);
	if (r < 0)
		return r;
	if (waits && !lane->may_wait && !is_short(&m))
		return MUST_WAIT;
	if (!call_is_valid(c))
		return -ESRCH;
	if (waits && m.to->len && w->s.proto == NET_TCP)
		return send_fast_open(&m);
	if (!call_effect_begin(c))
		return -ESRCH;
	r = send_all(&m, waits, lane->may_wait);
	/* What was sent must not be sent again: that is the answer now. */
	if (r < 0 && !w->sent)
		call_effect_end(c);
	return r;
}

static struct outcome outcome_of(const struct net_work *w, ssize_t r)
{
	if (r == MUST_WAIT)
		return OUTCOME_GO;
	if (r == ANSWERED)
		return w->outcome;
	return r < 0 ? OUTCOME_FAIL((int)-r) : OUTCOME_VALUE(r);
}

/* What the kernel takes for itself, and no caller can say. */
static int flags_of(uint64_t arg)
{
	static const int known = MSG_OOB | MSG_DONTROUTE | MSG_DONTWAIT |
				 MSG_EOR | MSG_NOSIGNAL | MSG_MORE |
				 MSG_CONFIRM | MSG_FASTOPEN | MSG_ZEROCOPY;

	return (int)arg & known;
}

static struct outcome send_one(const struct net_lane *lane, struct call *c,
			       struct net_work *w, struct net_work **own)
{
	bool is_sendto = call_nr(c) == SYS_sendto;
	int flags = flags_of(call_arg(c, is_sendto ? 3 : 2));
	struct user_message u = {
		.name = call_arg(c, 4),
		.name_len = (uint32_t)call_arg(c, 5),
	};
	int r = net_work_open(c, w);

	if (r == 0 && !is_sendto)
		r = call_read(c, call_arg(c, 1), &u, sizeof(u));
	if (r < 0)
		return OUTCOME_FAIL(-r);
	return outcome_of(w, send_message(lane, c, w, own, &u, flags));
}

struct outcome net_sendto(struct call *c, void *data)
{
	auto_ptr(net_work_free) struct net_work *own = NULL;
	struct net_work *w = net_work_get(c, &own);

	if (!w)
		return OUTCOME_FAIL(ENOMEM);
	return net_work_end(w, send_one(data, c, w, &own));
}

/* Ends with the first message that cannot be sent, as the kernel does. */
static struct outcome send_messages(const struct net_lane *lane, struct call *c,
				    struct net_work *w, struct net_work **own)
{
	uint64_t n = (uint32_t)call_arg(c, 2);
	int flags = flags_of(call_arg(c, 3));
	ssize_t r = 0;

	if (n > MESSAGES_MAX)
		n = MESSAGES_MAX;
	/* The caller comes again with the rest. */
	if (call_has_captured(c) && n > call_captured_count(c))
		n = call_captured_count(c);
	while (w->sent < n) {
		uint64_t at =
			call_arg(c, 1) + w->sent * sizeof(struct user_mmessage);
		struct user_mmessage u;
		uint32_t len;

		r = call_read(c, at, &u, sizeof(u));
		if (r == 0)
			r = send_message(lane, c, w, own, &u.m, flags);
		if (r < 0)
			break;
		len = (uint32_t)r;
		r = call_write(c, at + offsetof(struct user_mmessage, sent),
			       &len, sizeof(len));
		if (r < 0)
			break;
		net_work_next(w);
	}
	return w->sent ? OUTCOME_VALUE((int64_t)w->sent) : outcome_of(w, r);
}

static struct outcome send_many(const struct net_lane *lane, struct call *c,
				struct net_work *w, struct net_work **own)
{
	int r = net_work_open(c, w);

	if (r < 0)
		return OUTCOME_FAIL(-r);
	/* Having sent some, a quick row could not hand over the rest. */
	if (!lane->may_wait && !w->s.nonblock &&
	    !(call_arg(c, 3) & MSG_DONTWAIT))
		return OUTCOME_GO;
	return send_messages(lane, c, w, own);
}

struct outcome net_sendmmsg(struct call *c, void *data)
{
	auto_ptr(net_work_free) struct net_work *own = NULL;
	struct net_work *w = net_work_get(c, &own);

	if (!w)
		return OUTCOME_FAIL(ENOMEM);
	return net_work_end(w, send_many(data, c, w, &own));
}
