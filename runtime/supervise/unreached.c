#include "supervise/unreached.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "policy/event.h"
#include "policy/net.h"
#include "supervise/denials.h"

enum { PORT_DOMAIN = 53 };

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* False for what is no address of a network. */
static bool read_address(struct call *c, struct net_ip *ip, uint16_t *port)
{
	union address a = { .sa.sa_family = AF_UNSPEC };
	size_t n = call_arg(c, 2);

	if (n > sizeof(a))
		n = sizeof(a);
	if (n < sizeof(a.sa.sa_family) ||
	    call_read(c, call_arg(c, 1), &a, n) < 0)
		return false;
	if (a.sa.sa_family == AF_INET && n >= sizeof(a.in)) {
		*ip = net_ip_make(&a.in.sin_addr, sizeof(a.in.sin_addr));
		*port = ntohs(a.in.sin_port);
		return true;
	}
	/* The scope's id may be left out. */
	if (a.sa.sa_family == AF_INET6 &&
	    n >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
		*ip = net_ip_make(&a.in6.sin6_addr, sizeof(a.in6.sin6_addr));
		*port = ntohs(a.in6.sin6_port);
		return true;
	}
	return false;
}

static struct outcome note(struct call *c, void *data)
{
	char text[NET_IP_TEXT], object[NET_IP_TEXT + 16], remedy[96];
	struct event e = { .syscall = "connect",
			   .category = EVENT_NETWORK,
			   .host = text };
	struct denial x = {
		.event = &e,
		.code = "net.connect",
		.call = "connect",
		.error = ENETUNREACH,
		.object = object,
		.remedy = remedy,
	};
	struct net_ip ip, reached;
	uint16_t port;

	if (!read_address(c, &ip, &port))
		return OUTCOME_GO;
	reached = net_ip_reached(&ip);
	if (net_ip_is_loopback(&reached))
		return OUTCOME_GO;
	(void)snprintf(object, sizeof(object),
		       reached.is_v6 ? "[%s]:%u" : "%s:%u",
		       net_ip_format(&reached, text), port);
	e.port = port;
	(void)snprintf(remedy, sizeof(remedy), "--net-allow %s", object);
	/* What would help is a rule for the name, which nobody told us. */
	if (port == PORT_DOMAIN) {
		x.rule = "no rule allows it: the address of a name was asked "
			 "for";
		(void)snprintf(remedy, sizeof(remedy), "--net-allow NAME:PORT");
	}
	denials_add_call(data, c, &x);
	return OUTCOME_GO;
}

struct handler unreached_row(struct denials *d)
{
	return (struct handler){
		.name = "connect",
		.nr = SYS_connect,
		.lane = LANE_INLINE,
		.fn = note,
		.data = d,
	};
}
