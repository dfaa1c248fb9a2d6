#include "supervise/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "kernel/sockdiag.h"
#include "spec/request.h"
#include "supervise/act.h"
#include "supervise/denials.h"
#include "supervise/net_internal.h"
#include "supervise/ports.h"

struct net *net_new(const struct net_options *o)
{
	auto_ptr(net_free) struct net *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	if (pthread_mutex_init(&n->lock, NULL)) {
		free(take_ptr(&n));
		return NULL;
	}
	n->layers.fixed = o->rules;
	n->denials = o->denials;
	n->request = o->request;
	n->asker = o->asker;
	n->is_own_path = o->is_own_path;
	n->path_data = o->path_data;
	n->init = o->init;
	n->userns_of = o->userns_of;
	n->confine = o->confine;
	n->confine_data = o->confine_data;
	n->is_own_network = o->is_own_network;
	n->quick = (struct net_lane){ n, false };
	n->slow = (struct net_lane){ n, true };
	n->names = net_names_new();
	n->live = net_live_new();
	if (o->remap)
		n->ports = ports_new();
	if (!n->names || !n->live || (o->remap && !n->ports))
		return NULL;
	return take_ptr(&n);
}

void net_set_first(struct net *n, pid_t first)
{
	n->first = first;
}

void net_free(struct net *n)
{
	if (!n)
		return;
	net_names_free(n->names);
	net_live_free(n->live);
	ports_free(n->ports);
	(void)pthread_mutex_destroy(&n->lock);
	free(n);
}

int net_ports_json(struct net *n, struct buf *ret)
{
	if (n->ports)
		return ports_json(n->ports, ret);
	buf_add_str(ret, "{}");
	return buf_failed(ret) ? -ENOMEM : 0;
}

/* ------------------------------------------------------------- sockets -- */

static int get_option(int fd, int option, int *ret)
{
	socklen_t n = sizeof(*ret);

	return getsockopt(fd, SOL_SOCKET, option, ret, &n) < 0 ? -errno : 0;
}

/* What a rule calls it; raw sockets and whatever else there is are none. */
static enum net_proto proto_of(int family, int type, int protocol)
{
	if (family == AF_UNIX)
		return NET_UNIX;
	if (family != AF_INET && family != AF_INET6)
		return 0;
	if (type == SOCK_STREAM && protocol == IPPROTO_TCP)
		return NET_TCP;
	if (type == SOCK_DGRAM && protocol == IPPROTO_UDP)
		return NET_UDP;
	if (type == SOCK_DGRAM &&
	    (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6))
		return NET_ICMP;
	return 0;
}

int net_socket_open(struct call *c, int fd, struct net_socket *ret)
{
	auto_close int dup_fd = call_get_fd(c, fd);
	int protocol, flags, r;

	if (dup_fd < 0)
		return take_fd(&dup_fd);
	r = get_option(dup_fd, SO_DOMAIN, &ret->family);
	if (r == 0)
		r = get_option(dup_fd, SO_TYPE, &ret->type);
	if (r == 0)
		r = get_option(dup_fd, SO_PROTOCOL, &protocol);
	if (r < 0)
		return r;
	flags = fcntl(dup_fd, F_GETFL);
	if (flags < 0)
		return -errno;
	ret->nonblock = flags & O_NONBLOCK;
	ret->proto = proto_of(ret->family, ret->type, protocol);
	ret->fd = take_fd(&dup_fd);
	return 0;
}

void net_socket_done(struct net_socket *s)
{
	cleanup_close(&s->fd);
}

/* ----------------------------------------------------------- addresses -- */

int net_address_read(struct call *c, uint64_t addr, uint64_t len,
		     struct net_address *ret)
{
	int n = (int)len;

	if (n < 0 || (size_t)n > sizeof(ret->at))
		return -EINVAL;
	memset(&ret->at, 0, sizeof(ret->at));
	ret->len = (socklen_t)n;
	return n ? call_read(c, addr, &ret->at, (size_t)n) : 0;
}

void net_address_done(struct net_address *a)
{
	cleanup_close(&a->path_fd);
}

int net_address_inet(const struct net_address *a, struct net_ip *ret_ip,
		     uint16_t *ret_port)
{
	/* As far as the scope id: the older form of sockaddr_in6. */
	const socklen_t least6 = offsetof(struct sockaddr_in6, sin6_scope_id);

	switch (a->at.any.sa_family) {
	case AF_INET:
		if (a->len < sizeof(a->at.in))
			return -EINVAL;
		*ret_ip = net_ip_make(&a->at.in.sin_addr, 4);
		*ret_port = ntohs(a->at.in.sin_port);
		return 0;
	case AF_INET6:
		if (a->len < least6)
			return -EINVAL;
		*ret_ip = net_ip_make(&a->at.in6.sin6_addr, 16);
		*ret_port = ntohs(a->at.in6.sin6_port);
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

void net_address_set_port(struct net_address *a, uint16_t port)
{
	/* At the same place in both. */
	a->at.in.sin_port = htons(port);
}

static const char *format_dest(const struct net_ip *ip, uint16_t port,
			       char ret[NET_DEST_TEXT])
{
	char text[NET_IP_TEXT];

	(void)snprintf(ret, NET_DEST_TEXT, ip->is_v6 ? "[%s]:%u" : "%s:%u",
		       net_ip_format(ip, text), port);
	return ret;
}

/* ------------------------------------------------------------ refusals -- */

static const char *code_of(const struct net_socket *s, bool is_bind)
{
	switch (s->proto) {
	case NET_TCP:
		return is_bind ? "net.bind_tcp" : "net.connect_tcp";
	case NET_UDP:
		return is_bind ? "net.bind_udp" : "net.connect_udp";
	case NET_ICMP:
		return "net.connect_icmp";
	case NET_UNIX:
		return "net.connect_unix";
	}
	return "net.connect";
}

static const char *call_name(const struct call *c)
{
	switch (call_nr(c)) {
	case SYS_connect:
		return "connect";
	case SYS_sendto:
		return "sendto";
	case SYS_sendmsg:
		return "sendmsg";
	case SYS_sendmmsg:
		return "sendmmsg";
	case SYS_listen:
		return "listen";
	default:
		return "bind";
	}
}

/* The rule in words, with its key: "network.deny 192.0.2.0/24". */
static void rule_text(const struct net *n, bool is_bind, int rule,
		      struct buf *ret, const char **ret_where)
{
	const struct net_list *l =
		is_bind ? &n->layers.fixed->bind : &n->layers.fixed->connect;
	const char *key = is_bind ? "network.deny_bind" : "network.deny";
	auto_(buf) struct buf b = BUF_INIT;

	net_rule_format(&l->rules[rule],
			is_bind ? NET_RULE_BIND_DENY : NET_RULE_DENY, &b);
	buf_printf(ret, "%s %s", key, buf_str(&b));
	if (n->request)
		*ret_where = request_origin(n->request, key, buf_str(&b));
}

static void remedy_text(const struct net_socket *s, bool is_bind,
			const char *object, struct buf *ret)
{
	const char *scheme = "";

	if (is_bind) {
		buf_printf(ret, "--net-allow-bind %s", object);
		return;
	}
	if (s->proto == NET_TCP)
		scheme = "tcp://";
	else if (s->proto == NET_UDP)
		scheme = "udp://";
	else if (s->proto == NET_ICMP)
		scheme = "icmp://";
	else if (s->proto == NET_UNIX)
		scheme = "unix:";
	buf_printf(ret, "--net-allow %s%s", scheme, object);
}

static const char *protocol_of(const struct net_socket *s)
{
	switch (s->proto) {
	case NET_TCP:
		return "tcp";
	case NET_UDP:
		return "udp";
	case NET_ICMP:
		return "icmp";
	case NET_UNIX:
		return "unix";
	}
	return NULL;
}

/* @host has room for NET_IP_TEXT bytes. */
static struct event event_of(const struct call *c, const struct net_socket *s,
			     const struct net_address *a, char *host)
{
	struct event e = { .syscall = call_name(c),
			   .category = EVENT_NETWORK,
			   .protocol = protocol_of(s) };
	struct net_ip ip;

	if (a && net_address_inet(a, &ip, &e.port) == 0)
		e.host = (char *)(uintptr_t)net_ip_format(&ip, host);
	return e;
}

void net_refused(struct net *n, struct call *c, const struct net_socket *s,
		 const struct net_address *a, bool is_bind, const char *object,
		 int rule, int error)
{
	auto_(buf) struct buf rule_b = BUF_INIT, remedy = BUF_INIT;
	char host[NET_IP_TEXT];
	struct event e = event_of(c, s, a, host);
	struct denial d = {
		.code = code_of(s, is_bind),
		.call = call_name(c),
		.error = error,
		.object = object,
		.event = &e,
	};

	if (!n->denials)
		return;
	if (!e.host)
		e.path = (char *)(uintptr_t)object;
	if (rule >= 0) {
		rule_text(n, is_bind, rule, &rule_b, &d.where);
		d.rule = buf_str(&rule_b);
	} else if (rule == NET_RULE_LIVE) {
		d.rule = "restricted while it runs";
	} else if (s->proto) {
		remedy_text(s, is_bind, object, &remedy);
		d.remedy = buf_str(&remedy);
	}
	denials_add_call(n->denials, c, &d);
}

/* ------------------------------------------------------------- judging -- */

/* A port of our own is reached by its virtual number, whatever rules say. */
static bool is_own_port(struct net *n, const struct net_socket *s,
			struct net_address *a, const struct net_dest *d)
{
	struct net_ip ip = net_ip_reached(&d->ip);
	uint16_t real;

	if (!n->ports || s->proto == NET_ICMP || !net_ip_is_loopback(&ip))
		return false;
	real = ports_real(n->ports, s->proto, d->port);
	if (!real)
		return false;
	net_address_set_port(a, real);
	return true;
}

/*
 * getaddrinfo connects a datagram socket to what it has found, to see which
 * address it would come from: no news where TCP may go there.
 */
static bool is_probe(const struct net *n, const struct call *c,
		     const struct net_dest *d)
{
	struct net_dest tcp = *d;

	tcp.proto = NET_TCP;
	return d->proto == NET_UDP && call_nr(c) == SYS_connect &&
	       (!d->port || net_decide(&n->layers, &tcp).allowed);
}

/* Somebody has to be asked. */
enum { MUST_ASK = 1 };

static int judge_inet(struct net *n, struct call *c, struct net_work *w)
{
	const struct net_socket *s = &w->s;
	struct net_address *a = &w->a;
	struct net_dest d = { .proto = s->proto };
	struct net_verdict v = { false, -1, -1 };
	char text[NET_DEST_TEXT];
	int r = net_address_inet(a, &d.ip, &d.port);

	if (r < 0)
		return r;
	if (s->proto && is_own_port(n, s, a, &d))
		return 0;
	if (s->proto)
		v = net_live_decide(n, c, &d);
	if ((v.ask >= 0 || (v.allowed && n->asker && n->asker->asks_all)) &&
	    !w->is_approved)
		return MUST_ASK;
	if (v.allowed || v.ask >= 0)
		return 0;
	if (is_probe(n, c, &d))
		return -ECONNREFUSED;
	if (s->proto == NET_ICMP)
		(void)net_ip_format(&d.ip, text);
	else
		(void)format_dest(&d.ip, d.port, text);
	net_refused(n, c, s, a, false, text, v.rule, ECONNREFUSED);
	return -ECONNREFUSED;
}

/*
 * Without a family connect dissolves an association, and a message goes: in
 * IPv4 to the address that stands there, in IPv6 nowhere else.
 */
static int judge_unspecified(struct net *n, struct call *c, struct net_work *w,
			     bool is_send)
{
	if (!is_send)
		return 0;
	if (w->s.family == AF_INET) {
		w->a.at.any.sa_family = AF_INET;
		return judge_inet(n, c, w);
	}
	w->a.len = 0;
	return 0;
}

/*
 * The kernel only. A message that names it would be judged by our privileges
 * alone, one without a name by those of who opened the socket, too.
 */
static int judge_netlink(struct net_address *a, bool is_send)
{
	if (a->len < sizeof(a->at.nl))
		return -EINVAL;
	if (a->at.nl.nl_pid || a->at.nl.nl_groups)
		return -EPERM;
	if (is_send)
		a->len = 0;
	return 0;
}

/* 0, MUST_ASK, or the negative errno that the caller gets; makes w->a the
 * address to use. */
static int judge(struct net *n, struct call *c, struct net_work *w,
		 bool is_send)
{
	struct net_address *a = &w->a;

	if (a->len < sizeof(a->at.any.sa_family))
		return -EINVAL;
	switch (w->s.family) {
	case AF_INET:
	case AF_INET6:
		if (a->at.any.sa_family == AF_UNSPEC)
			return judge_unspecified(n, c, w, is_send);
		return judge_inet(n, c, w);
	case AF_UNIX:
		if (n->is_own_network ||
		    (a->at.any.sa_family == AF_UNSPEC && !is_send))
			return 0;
		return net_judge_unix(n, c, a);
	case AF_NETLINK:
		return n->is_own_network ? 0 : judge_netlink(a, is_send);
	default:
		return -EAFNOSUPPORT;
	}
}

/* ------------------------------------------------------------------ work -- */

struct net_work *net_work_get(struct call *c, struct net_work **ret_own)
{
	struct net_work *w = call_kept(c);

	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->s.fd = -1;
	w->a.path_fd = -1;
	*ret_own = w;
	return w;
}

void net_work_free(struct net_work *w)
{
	ask_done(&w->ask);
	net_socket_done(&w->s);
	net_address_done(&w->a);
	free(w);
}

static void free_kept(void *p)
{
	net_work_free(p);
}

void net_work_next(struct net_work *w)
{
	ask_done(&w->ask);
	memset(&w->ask, 0, sizeof(w->ask));
	net_address_done(&w->a);
	w->a.path_fd = -1;
	w->is_read = w->is_approved = false;
	w->sent++;
}

int net_work_open(struct call *c, struct net_work *w)
{
	int r = 0;

	if (!w->is_open)
		r = net_socket_open(c, (int)call_arg(c, 0), &w->s);
	w->is_open = r == 0;
	return r;
}

int net_work_open_at(struct call *c, struct net_work *w)
{
	int r = net_work_open(c, w);

	if (r == 0 && !w->is_read)
		r = net_address_read(c, call_arg(c, 1), call_arg(c, 2), &w->a);
	w->is_read = true;
	return r;
}

struct outcome net_work_end(struct net_work *w, struct outcome o)
{
	/* The next row goes on with it. */
	if (o.kind == OUTCOME_CONTINUE || o.kind == OUTCOME_HELD)
		return o;
	net_socket_done(&w->s);
	w->s.fd = -1;
	return o;
}

static enum ask_answer ask(struct net *n, struct call *c, struct net_work *w)
{
	static const struct asker nobody = { .book = NULL };
	const struct asker *asker = n->asker ? n->asker : &nobody;
	const struct net_list *asked = &n->layers.fixed->ask;
	char host[NET_IP_TEXT];
	struct net_dest d = { .proto = w->s.proto };
	struct event e = event_of(c, &w->s, &w->a, host);
	auto_(buf) struct buf rule = BUF_INIT;
	enum ask_answer answer;
	struct net_verdict v;

	/* It was judged, so it is one. */
	(void)net_address_inet(&w->a, &d.ip, &d.port);
	v = net_decide(&n->layers, &d);
	if (v.ask >= 0 && call_nr(c) != SYS_bind) {
		buf_add_str(&rule, "ask.connect ");
		net_rule_format(&asked->rules[v.ask], NET_RULE_ALLOW, &rule);
	}
	ask_fill_caller(&e, c);
	answer = ask_about(asker, &w->ask, c, &e,
			   rule.len ? buf_str(&rule) : NULL, &w->outcome);
	free(e.program);
	return answer;
}

bool net_ask(struct net *n, struct call *c, struct net_work *w,
	     struct net_work **own)
{
	switch (ask(n, c, w)) {
	case ASK_ALLOWED:
		w->is_approved = true;
		return true;
	case ASK_WAITS:
		if (*own)
			call_keep(c, take_ptr(own), free_kept);
		return false;
	case ASK_DENIED:
		return false;
	}
	return false;
}

bool net_may(struct net *n, struct call *c, struct net_work *w, bool is_send,
	     struct net_work **own)
{
	int r = judge(n, c, w, is_send);

	/* What went before cannot be undone: the caller comes again. */
	if (r == MUST_ASK && w->sent) {
		w->outcome = OUTCOME_VALUE((int64_t)w->sent);
		return false;
	}
	if (r == MUST_ASK) {
		if (!net_ask(n, c, w, own))
			return false;
		/* Once more, by the rules of now. */
		r = judge(n, c, w, is_send);
	}
	if (r < 0)
		w->outcome = OUTCOME_FAIL(-r);
	return r == 0;
}

/* ------------------------------------------------------------- connect -- */

enum { RETRY_MS = 20 };

static void remember_late(struct net *n, int fd)
{
	uint64_t cookie = sockdiag_cookie(fd);

	(void)pthread_mutex_lock(&n->lock);
	n->late[n->next_late++ % NET_LATE_MAX] = cookie;
	(void)pthread_mutex_unlock(&n->lock);
}

static bool forget_late(struct net *n, int fd)
{
	uint64_t cookie = sockdiag_cookie(fd);
	bool found = false;

	(void)pthread_mutex_lock(&n->lock);
	for (size_t i = 0; cookie && i < NET_LATE_MAX; i++) {
		if (n->late[i] != cookie)
			continue;
		n->late[i] = 0;
		found = true;
	}
	(void)pthread_mutex_unlock(&n->lock);
	return found;
}

/* What the kernel answers to a signal: it restarts what waits without limit. */
static int interrupted_errno(int fd)
{
	struct timeval t = { 0 };
	socklen_t n = sizeof(t);

	(void)getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, &n);
	return t.tv_sec || t.tv_usec ? EINTR : OUTCOME_RESTART_ERRNO;
}

/*
 * By a process that stands in for the caller, and could go on when that has
 * been told of a signal. So it only tries, while the caller is told nothing.
 */
static struct outcome connect_as_caller(struct net *n, struct call *c,
					const struct net_socket *s,
					const struct net_address *a, bool waits)
{
	uint64_t deadline_ms = waits ? net_deadline_ms(s->fd, SO_SNDTIMEO) : 0;
	int r;

	for (;;) {
		if (!call_effect_begin(c))
			return OUTCOME_FAIL(ESRCH);
		r = net_connect_as_caller(n, c, s->fd, a, waits);
		if (r == 0)
			return OUTCOME_VALUE(0);
		call_effect_end(c);
		if (r != -EINTR || !waits)
			return OUTCOME_FAIL(-r);
		if (net_is_over(deadline_ms))
			return OUTCOME_FAIL(EAGAIN);
		call_block_begin(c, interrupted_errno(s->fd));
		(void)poll(NULL, 0, RETRY_MS);
		call_block_end(c);
	}
}

static struct outcome connect_now(struct net *n, struct call *c,
				  const struct net_socket *s,
				  const struct net_address *a, bool waits)
{
	struct act act = { false };
	int r;

	if (net_needs_caller(n, s))
		return connect_as_caller(n, c, s, a, waits);
	r = s->family == AF_UNIX ? act_begin(&act, c) : 0;
	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (waits)
		call_block_begin(c, interrupted_errno(s->fd));
	do
		r = connect(s->fd, &a->at.any, a->len) < 0 ? errno : 0;
	while (r == EINTR && waits && !call_is_abandoned(c));
	if (waits)
		call_block_end(c);
	act_end(&act);
	if (r == EISCONN && forget_late(n, s->fd))
		r = 0;
	else if (r == 0 && waits && !call_effect_begin(c))
		remember_late(n, s->fd);
	return r ? OUTCOME_FAIL(r) : OUTCOME_VALUE(0);
}

static struct outcome connect_work(const struct net_lane *lane, struct call *c,
				   struct net_work *w, struct net_work **own)
{
	bool waits;
	int r = net_work_open_at(c, w);

	if (r < 0)
		return OUTCOME_FAIL(-r);
	waits = !w->s.nonblock && w->s.type != SOCK_DGRAM &&
		w->a.at.any.sa_family != AF_UNSPEC;
	if (waits && !lane->may_wait)
		return OUTCOME_GO;
	if (!net_may(lane->net, c, w, false, own))
		return w->outcome;
	if (!call_is_valid(c))
		return OUTCOME_FAIL(ESRCH);
	return connect_now(lane->net, c, &w->s, &w->a, waits);
}

static struct outcome handle_connect(struct call *c, void *data)
{
	auto_ptr(net_work_free) struct net_work *own = NULL;
	struct net_work *w = net_work_get(c, &own);

	if (!w)
		return OUTCOME_FAIL(ENOMEM);
	return net_work_end(w, connect_work(data, c, w, &own));
}

/* ---------------------------------------------------------------- rows -- */

size_t net_rows(struct net *n, struct handler ret[NET_ROWS])
{
	/* clang-format off */
	const struct handler rows[] = {
		{ "connect",  SYS_connect,  LANE_LOCAL,    handle_connect, &n->quick, NULL },
		{ "connect",  SYS_connect,  LANE_EXTERNAL, handle_connect, &n->slow,  NULL },
		{ "sendto",   SYS_sendto,   LANE_LOCAL,    net_sendto,     &n->quick, NULL },
		{ "sendto",   SYS_sendto,   LANE_EXTERNAL, net_sendto,     &n->slow,  NULL },
		{ "sendmsg",  SYS_sendmsg,  LANE_LOCAL,    net_sendto,     &n->quick, NULL },
		{ "sendmsg",  SYS_sendmsg,  LANE_EXTERNAL, net_sendto,     &n->slow,  NULL },
		{ "sendmmsg", SYS_sendmmsg, LANE_LOCAL,    net_sendmmsg,   &n->quick, NULL },
		{ "sendmmsg", SYS_sendmmsg, LANE_EXTERNAL, net_sendmmsg,   &n->slow,  NULL },
		{ "bind",     SYS_bind,     LANE_LOCAL,    net_bind,       &n->quick, NULL },
		{ "listen",   SYS_listen,   LANE_LOCAL,    net_listen,     &n->quick, NULL },
		{ "getsockname", SYS_getsockname, LANE_LOCAL, net_getsockname, &n->quick, NULL },
		{ "getpeername", SYS_getpeername, LANE_LOCAL, net_getpeername, &n->quick, NULL },
		{ "recvfrom", SYS_recvfrom, LANE_LOCAL,    net_receive,    &n->quick, NULL },
		{ "recvfrom", SYS_recvfrom, LANE_EXTERNAL, net_receive,    &n->slow,  NULL },
		{ "recvmsg",  SYS_recvmsg,  LANE_LOCAL,    net_receive,    &n->quick, NULL },
		{ "recvmsg",  SYS_recvmsg,  LANE_EXTERNAL, net_receive,    &n->slow,  NULL },
		{ "recvmmsg", SYS_recvmmsg, LANE_LOCAL,    net_receive,    &n->quick, NULL },
		{ "recvmmsg", SYS_recvmmsg, LANE_EXTERNAL, net_receive,    &n->slow,  NULL },
	};
	/* clang-format on */
	/* The last ones only say what ports are called. */
	size_t len = ARRAY_LEN(rows) - (n->ports ? 0 : 8);

	memcpy(ret, rows, len * sizeof(*rows));
	return len;
}
