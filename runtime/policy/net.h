/*
 * Decisions about the network: where connections and messages may go, and which
 * ports may be bound. Pure: no I/O, nothing is resolved here.
 *
 *	net_rules_read -> net_rules_pin, for every host name -> constant
 *
 * Rules that do not change are shared by threads without a lock. Of several
 * layers the most specific one that there is decides alone: a process's own
 * over live ones over those of the request.
 *
 * What is decided on is a copy of the caller's address, made canonical here:
 * an IPv6 address that stands for an IPv4 one is that one, and the unspecified
 * address is the loopback one, as the kernel has it.
 */
#ifndef SANDLOCK_POLICY_NET_H
#define SANDLOCK_POLICY_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/net_rule.h"

struct error;
struct request;

/* A list that allows denies the rest, and the other way round. */
struct net_list {
	struct net_rule *rules;
	size_t n;
	bool is_deny;
};

struct net_rules {
	struct net_list connect, bind;
	struct net_list ask; /* what connect says nothing of */
};

struct net_layers {
	const struct net_rules *process, *live; /* NULL: none */
	const struct net_rules *fixed;
};

struct net_dest {
	enum net_proto proto;
	struct net_ip ip;
	uint16_t port; /* of ICMP: 0 */
};

struct net_verdict {
	bool allowed;
	int rule; /* its index in the list, -1: none, that is the default */
	int ask;  /* the rule by which somebody is asked first, -1: none */
};

int net_rules_read(const struct request *q, struct net_rules *ret,
		   struct error *err);
void net_rules_done(struct net_rules *r);

/* Whether the request takes the host's network: not for named sockets alone. */
bool net_is_shared(const struct request *q);

/* The addresses of @host, for every rule that names it. -ENOMEM. */
int net_rules_pin(struct net_rules *r, const char *host,
		  const struct net_ip *ips, size_t n);

struct net_verdict net_decide(const struct net_layers *l,
			      const struct net_dest *d);

/* A port to bind, or to listen on; never 0. */
struct net_verdict net_decide_bind(const struct net_layers *l,
				   enum net_proto proto, uint16_t port);

/* An abstract socket that no process of the sandbox made. */
struct net_verdict net_decide_abstract(const struct net_layers *l,
				       const char *name, size_t n);

/*
 * A socket at @path inside. What is not on a mount that may be written to is
 * reached only by a rule: to talk to a server is no less than to write.
 */
struct net_verdict net_decide_path(const struct net_layers *l, const char *path,
				   bool is_writable);

/* Where a connection to @ip really leads. */
struct net_ip net_ip_reached(const struct net_ip *ip);
bool net_ip_is_loopback(const struct net_ip *ip);

#endif
