/* Ports and names that are bound, and what sockets are called. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervise/act.h"
#include "supervise/net_internal.h"
#include "supervise/ports.h"

/* The rule's own decision, told where it refuses. */
static int judge_port(struct net *n, struct call *c, const struct net_socket *s,
		      const struct net_address *a, uint16_t port)
{
	struct net_verdict v = net_decide_bind(&n->layers, s->proto, port);
	char text[8];

	if (v.allowed)
		return 0;
	(void)snprintf(text, sizeof(text), "%u", port);
	net_refused(n, c, s, a, true, text, v.rule, EACCES);
	return -EACCES;
}

/*
 * Port 0 is one that the kernel chooses, which every socket gets that sends or
 * connects. That a TCP socket listens on it is judged by listen.
 */
static int bind_inet(struct net *n, struct call *c, const struct net_socket *s,
		     struct net_address *a)
{
	struct net_ip ip;
	uint16_t port;
	int r;

	/* In IPv4 no family may stand for its own. */
	if (s->family == AF_INET && a->at.any.sa_family == AF_UNSPEC)
		a->at.any.sa_family = AF_INET;
	r = net_address_inet(a, &ip, &port);
	if (r < 0)
		return r;
	if (a->at.any.sa_family != s->family)
		return -EAFNOSUPPORT;
	if (s->proto == NET_ICMP)
		return bind(s->fd, &a->at.any, a->len) < 0 ? -errno : 0;
	if (!s->proto)
		return -EACCES;
	if (port) {
		r = judge_port(n, c, s, a, port);
		if (r == 0 && n->ports)
			return ports_bind(n->ports, s->fd, s->proto, &a->at.any,
					  a->len);
	}
	if (r == 0 && bind(s->fd, &a->at.any, a->len) < 0)
		r = -errno;
	return r;
}

static int bind_netlink(const struct net_socket *s, const struct net_address *a)
{
	return bind(s->fd, &a->at.any, a->len) < 0 ? -errno : 0;
}

static bool is_path(const struct net_address *a)
{
	return a->len > offsetof(struct sockaddr_un, sun_path) &&
	       a->at.un.sun_path[0];
}

/* A port that rules allow, where every call is asked about. */
static bool must_ask(const struct net *n, const struct net_work *w)
{
	struct net_ip ip;
	uint16_t port;

	if (!n->asker || !n->asker->asks_all || w->is_approved)
		return false;
	return (w->s.proto == NET_TCP || w->s.proto == NET_UDP) &&
	       net_address_inet(&w->a, &ip, &port) == 0 && port &&
	       net_decide_bind(&n->layers, w->s.proto, port).allowed;
}

static struct outcome bind_work(struct net *n, struct call *c,
				struct net_work *w, struct net_work **own)
{
	int r = net_work_open_at(c, w);

	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (must_ask(n, w) && !net_ask(n, c, w, own))
		return w->outcome;
	if (!call_is_valid(c))
		return OUTCOME_FAIL(ESRCH);
	if (n->is_own_network) {
		r = net_bind_as_caller(n, c, w->s.fd, &w->a);
		return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(0);
	}
	switch (w->s.family) {
	case AF_INET:
	case AF_INET6:
		r = bind_inet(n, c, &w->s, &w->a);
		break;
	case AF_UNIX:
		r = is_path(&w->a)
			    ? net_bind_path(n, c, w->s.fd, &w->a)
			    : net_names_bind(n->names, c, w->s.fd, &w->a);
		break;
	case AF_NETLINK:
		r = bind_netlink(&w->s, &w->a);
		break;
	default:
		r = -EAFNOSUPPORT;
	}
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(0);
}

struct outcome net_bind(struct call *c, void *data)
{
	struct net *n = ((const struct net_lane *)data)->net;
	auto_ptr(net_work_free) struct net_work *own = NULL;
	struct net_work *w = net_work_get(c, &own);

	if (!w)
		return OUTCOME_FAIL(ENOMEM);
	return net_work_end(w, bind_work(n, c, w, &own));
}

static int local_port(const struct net_socket *s, struct net_address *a,
		      uint16_t *ret)
{
	struct net_ip ip;

	a->len = sizeof(a->at);
	if (getsockname(s->fd, &a->at.any, &a->len) < 0)
		return -errno;
	return net_address_inet(a, &ip, ret);
}

/* What listen does to a socket that is not bound, but before it listens. */
static int bind_any(const struct net_socket *s, struct net_address *a,
		    uint16_t *ret)
{
	union net_sockaddr any = { .any.sa_family = (sa_family_t)s->family };
	socklen_t n = s->family == AF_INET ? sizeof(any.in) : sizeof(any.in6);

	if (bind(s->fd, &any.any, n) < 0)
		return -errno;
	return local_port(s, a, ret);
}

struct outcome net_listen(struct call *c, void *data)
{
	struct net *n = ((const struct net_lane *)data)->net;
	auto_(net_socket) struct net_socket s = NET_SOCKET_INIT;
	struct net_address a = NET_ADDRESS_INIT;
	struct act act = { false };
	uint16_t port = 0;
	int r;

	/* A handler's that was not answered. */
	if (n->is_own_network)
		return OUTCOME_GO;
	r = net_socket_open(c, (int)call_arg(c, 0), &s);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (s.proto == NET_TCP) {
		r = local_port(&s, &a, &port);
		if (r == 0 && !port)
			r = bind_any(&s, &a, &port);
		if (r == 0 &&
		    !(n->ports && ports_virtual(n->ports, s.proto, port)))
			r = judge_port(n, c, &s, &a, port);
	}
	/* The peers of a unix socket see who listens. */
	if (r == 0 && s.family == AF_UNIX)
		r = act_begin(&act, c);
	if (r == 0 && listen(s.fd, (int)call_arg(c, 1)) < 0)
		r = -errno;
	act_end(&act);
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(0);
}

/* --------------------------------------------------------------- names -- */

void net_show_virtual(struct net *n, const struct net_socket *s,
		      struct net_address *a, bool is_peer)
{
	struct net_ip ip;
	uint16_t port;

	if ((s->proto != NET_TCP && s->proto != NET_UDP) ||
	    net_address_inet(a, &ip, &port) < 0)
		return;
	/* A peer elsewhere may have any port. */
	if (is_peer && !net_ip_is_loopback(&ip))
		return;
	port = ports_virtual(n->ports, s->proto, port);
	if (port)
		net_address_set_port(a, port);
}

int net_write_name(struct call *c, const struct net_address *a, uint64_t at,
		   uint64_t len_at)
{
	int room, len = (int)a->len;
	int r = call_read(c, len_at, &room, sizeof(room));

	if (r == 0 && room < 0)
		r = -EINVAL;
	if (r == 0)
		r = call_write(c, at, &a->at,
			       (size_t)(room < len ? room : len));
	if (r == 0)
		r = call_write(c, len_at, &len, sizeof(len));
	return r;
}

static struct outcome name(struct call *c, void *data, bool is_peer)
{
	struct net *n = ((const struct net_lane *)data)->net;
	auto_(net_socket) struct net_socket s = NET_SOCKET_INIT;
	struct net_address a = { .len = sizeof(a.at), .path_fd = -1 };
	int r = net_socket_open(c, (int)call_arg(c, 0), &s);

	if (r < 0)
		return OUTCOME_FAIL(-r);
	r = is_peer ? getpeername(s.fd, &a.at.any, &a.len)
		    : getsockname(s.fd, &a.at.any, &a.len);
	if (r < 0)
		return OUTCOME_FAIL(errno);
	net_show_virtual(n, &s, &a, is_peer);
	r = net_write_name(c, &a, call_arg(c, 1), call_arg(c, 2));
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(0);
}

struct outcome net_getsockname(struct call *c, void *data)
{
	return name(c, data, false);
}

struct outcome net_getpeername(struct call *c, void *data)
{
	return name(c, data, true);
}
