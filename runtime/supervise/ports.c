#include "supervise/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "kernel/sockdiag.h"

enum { PORTS_MAX = 4096, SOCKETS_MAX = 256 };

struct mapping {
	enum net_proto proto;
	uint16_t port, real;
	/*
	 * False while the kernel has never told of it: before 6.8 it does not
	 * of a TCP socket that does not listen yet, and that is no sign of
	 * death then.
	 */
	bool is_seen;
	uint64_t *sockets; /* cookies */
	size_t n_sockets;
};

struct ports {
	pthread_mutex_t lock;
	struct mapping *v;
	size_t n;
};

struct ports *ports_new(void)
{
	struct ports *p = calloc(1, sizeof(*p));

	if (p && pthread_mutex_init(&p->lock, NULL)) {
		free(p);
		return NULL;
	}
	return p;
}

void ports_free(struct ports *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].sockets);
	(void)pthread_mutex_destroy(&p->lock);
	free(p->v);
	free(p);
}

static int protocol_of(enum net_proto proto)
{
	return proto == NET_TCP ? IPPROTO_TCP : IPPROTO_UDP;
}

/* With the lock held, as all that follows. What cannot be asked is alive. */
static bool is_alive(struct mapping *m)
{
	int r = sockdiag_find_inet(protocol_of(m->proto), m->real, m->sockets,
				   m->n_sockets);

	if (r > 0)
		m->is_seen = true;
	return r || !m->is_seen;
}

static void remove_mapping(struct ports *p, struct mapping *m)
{
	free(m->sockets);
	*m = p->v[--p->n];
}

static struct mapping *find(struct ports *p, enum net_proto proto,
			    uint16_t port)
{
	for (size_t i = 0; i < p->n; i++) {
		struct mapping *m = &p->v[i];

		if (m->proto != proto || m->port != port)
			continue;
		if (is_alive(m))
			return m;
		remove_mapping(p, m);
		return NULL;
	}
	return NULL;
}

static void prune(struct ports *p)
{
	for (size_t i = p->n; i-- > 0;)
		if (!is_alive(&p->v[i]))
			remove_mapping(p, &p->v[i]);
}

static in_port_t *port_of(struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return &((struct sockaddr_in *)(void *)a)->sin_port;
	return &((struct sockaddr_in6 *)(void *)a)->sin6_port;
}

static struct mapping *add_mapping(struct ports *p, enum net_proto proto,
				   uint16_t port)
{
	struct mapping *v;

	if (p->n == PORTS_MAX)
		prune(p);
	if (p->n == PORTS_MAX)
		return NULL;
	v = reallocarray(p->v, p->n + 1, sizeof(*v));
	if (!v)
		return NULL;
	p->v = v;
	v[p->n] = (struct mapping){ .proto = proto, .port = port };
	return &v[p->n++];
}

/* Before the socket is bound: afterwards it must not fail. */
static int make_room(struct mapping *m)
{
	uint64_t *v;
	size_t kept = 0;

	for (size_t i = 0; m->n_sockets == SOCKETS_MAX && i < SOCKETS_MAX; i++)
		if (sockdiag_find_inet(protocol_of(m->proto), m->real,
				       &m->sockets[i], 1))
			m->sockets[kept++] = m->sockets[i];
	if (m->n_sockets == SOCKETS_MAX)
		m->n_sockets = kept;
	if (m->n_sockets == SOCKETS_MAX)
		return -ENOBUFS;
	v = reallocarray(m->sockets, m->n_sockets + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	m->sockets = v;
	return 0;
}

static int bind_to(struct mapping *m, int fd, struct sockaddr *a,
		   unsigned int len)
{
	union {
		struct sockaddr any;
		struct sockaddr_in6 room;
	} name;
	socklen_t n = sizeof(name);

	*port_of(a) = htons(m->real);
	if (bind(fd, a, len) < 0 || getsockname(fd, &name.any, &n) < 0)
		return -errno;
	m->real = ntohs(*port_of(&name.any));
	*port_of(a) = htons(m->real);
	m->sockets[m->n_sockets++] = sockdiag_cookie(fd);
	(void)is_alive(m);
	return 0;
}

int ports_bind(struct ports *p, int fd, enum net_proto proto,
	       struct sockaddr *address, unsigned int len)
{
	uint16_t port = ntohs(*port_of(address));
	struct mapping *m;
	int r;

	(void)pthread_mutex_lock(&p->lock);
	m = find(p, proto, port);
	if (!m)
		m = add_mapping(p, proto, port);
	r = m ? make_room(m) : -ENOBUFS;
	if (r == 0)
		r = bind_to(m, fd, address, len);
	if (r < 0 && m && !m->n_sockets)
		remove_mapping(p, m);
	(void)pthread_mutex_unlock(&p->lock);
	return r;
}

uint16_t ports_real(struct ports *p, enum net_proto proto, uint16_t port)
{
	const struct mapping *m;
	uint16_t real;

	(void)pthread_mutex_lock(&p->lock);
	m = find(p, proto, port);
	real = m ? m->real : 0;
	(void)pthread_mutex_unlock(&p->lock);
	return real;
}

/* A connection that was accepted keeps the port when its listener is gone, so
 * it is not asked whether that is alive. */
uint16_t ports_virtual(struct ports *p, enum net_proto proto, uint16_t port)
{
	uint16_t found = 0;

	(void)pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].proto == proto && p->v[i].real == port)
			found = p->v[i].port;
	(void)pthread_mutex_unlock(&p->lock);
	return found;
}

bool ports_has(struct ports *p, enum net_proto proto)
{
	bool found = false;

	(void)pthread_mutex_lock(&p->lock);
	for (size_t i = 0; !found && i < p->n; i++)
		found = p->v[i].proto == proto;
	(void)pthread_mutex_unlock(&p->lock);
	return found;
}

static int compare(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;

	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	return (x->proto > y->proto) - (x->proto < y->proto);
}

int ports_json(struct ports *p, struct buf *ret)
{
	(void)pthread_mutex_lock(&p->lock);
	prune(p);
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), compare);
	buf_add_char(ret, '{');
	for (size_t i = 0; i < p->n; i++)
		buf_printf(ret, "%s\"%u%s\":%u", i ? "," : "", p->v[i].port,
			   p->v[i].proto == NET_UDP ? "/udp" : "",
			   p->v[i].real);
	buf_add_char(ret, '}');
	(void)pthread_mutex_unlock(&p->lock);
	return buf_failed(ret) ? -ENOMEM : 0;
}
