/*
 * Network rules as they are written in flags and profiles:
 *
 *	rule    = [proto "://"] target [":" ports] | "unix:" name
 *	proto   = "tcp" | "udp" | "icmp"	none: tcp and udp
 *	target  = host name | address | address "/" bits | "*" | nothing
 *	ports   = "*" | port ["-" port] {"," port ["-" port]}
 *	name    = "/path" | "@abstract"
 *
 * An IPv6 address with ports stands in brackets: "[2001:db8::]/32:443". No
 * target, only with ports, is any target; no ports is any port. icmp has none.
 * Ports that may be bound are ports alone. Pure and thread-safe; what
 * net_rule_format prints parses back to an equal rule.
 */
#ifndef SANDLOCK_SPEC_NET_RULE_H
#define SANDLOCK_SPEC_NET_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct buf;
struct error;

enum net_proto {
	NET_TCP = 1 << 0,
	NET_UDP = 1 << 1,
	NET_ICMP = 1 << 2,
	NET_UNIX = 1 << 3,
};

/* IPv4 in the first four bytes; an IPv6 address that stands for one is one. */
struct net_ip {
	bool is_v6;
	uint8_t bytes[16];
};

struct net_prefix {
	struct net_ip ip; /* no bit below the prefix is set */
	unsigned int bits;
};

struct net_ports {
	uint16_t first, last;
};

enum net_target {
	NET_TARGET_ANY,
	NET_TARGET_PREFIX,
	NET_TARGET_HOST,     /* @name; @prefixes once it was resolved */
	NET_TARGET_PATH,     /* of a unix socket: @name */
	NET_TARGET_ABSTRACT, /* @name, without the "@" */
};

struct net_rule {
	unsigned int protos; /* enum net_proto */
	enum net_target target;
	char *name;
	struct net_prefix *prefixes;
	size_t n_prefixes;
	struct net_ports *ports; /* none: any */
	size_t n_ports;
};

/* What a rule may be. */
enum net_rule_use {
	NET_RULE_ALLOW,
	NET_RULE_ADDRESS, /* neither host names nor unix sockets */
	NET_RULE_DENY,	  /* no host names: other addresses would be open */
	NET_RULE_BIND_ALLOW,
	NET_RULE_BIND_DENY, /* not "*" */
};

/*
 * ERR_USAGE names the token that is wrong, and the nearest right one. @ret is
 * freed by net_rule_done.
 */
int net_rule_parse(const char *text, enum net_rule_use use,
		   struct net_rule *ret, struct error *err);
void net_rule_done(struct net_rule *r);

/* As it would be written; an address of a host name is not. */
void net_rule_format(const struct net_rule *r, enum net_rule_use use,
		     struct buf *ret);

/* "192.0.2.1" and "2001:db8::1", in @ret of NET_IP_TEXT. */
enum { NET_IP_TEXT = 48 };
const char *net_ip_format(const struct net_ip *ip, char ret[NET_IP_TEXT]);

/* From sin_addr (4 bytes) or sin6_addr (16), ::ffff:a.b.c.d as IPv4. */
struct net_ip net_ip_make(const void *bytes, size_t n);
bool net_prefix_has(const struct net_prefix *p, const struct net_ip *ip);

#endif
