#include "policy/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "spec/request.h"

static int read_list(const struct spec_strings *from, enum net_rule_use use,
		     struct net_list *ret, struct error *err)
{
	struct net_rule *v = calloc(from->n ? from->n : 1, sizeof(*v));

	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "network rules");
	ret->rules = v;
	for (; ret->n < from->n; ret->n++) {
		int r = net_rule_parse(from->v[ret->n], use, &v[ret->n], err);

		if (r < 0)
			return r;
	}
	return 0;
}

int net_rules_read(const struct request *q, struct net_rules *ret,
		   struct error *err)
{
	struct net_rules r = { .connect.is_deny = q->net_deny.n > 0 };
	int n;

	/* Ports that are remapped are nobody else's: without a rule any. */
	r.bind.is_deny = q->bind_deny.n || (q->port_remap && !q->bind_allow.n);
	if (r.connect.is_deny)
		n = read_list(&q->net_deny, NET_RULE_DENY, &r.connect, err);
	else
		n = read_list(&q->net_allow, NET_RULE_ALLOW, &r.connect, err);
	if (n == 0 && r.bind.is_deny)
		n = read_list(&q->bind_deny, NET_RULE_BIND_DENY, &r.bind, err);
	else if (n == 0)
		n = read_list(&q->bind_allow, NET_RULE_BIND_ALLOW, &r.bind,
			      err);
	if (n == 0)
		n = read_list(&q->ask_connect, NET_RULE_ALLOW, &r.ask, err);
	for (size_t i = 0; n == 0 && i < r.ask.n; i++)
		if (r.ask.rules[i].protos == NET_UNIX)
			n = error_say(err, ERR_USAGE, ENOTSUP,
				      "ask.connect: nobody can be asked about "
				      "a unix socket");
	if (n < 0) {
		net_rules_done(&r);
		return n;
	}
	*ret = r;
	return 0;
}

static void free_list(struct net_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		net_rule_done(&l->rules[i]);
	free(l->rules);
	*l = (struct net_list){ .n = 0 };
}

void net_rules_done(struct net_rules *r)
{
	free_list(&r->connect);
	free_list(&r->bind);
	free_list(&r->ask);
}

bool net_is_shared(const struct request *q)
{
	if (q->net_deny.n || q->bind_allow.n || q->bind_deny.n ||
	    q->port_remap || q->ask_connect.n)
		return true;
	for (size_t i = 0; i < q->net_allow.n; i++)
		if (strncmp(q->net_allow.v[i], "unix:/", 6) != 0)
			return true;
	return false;
}

static int pin_rule(struct net_rule *rule, const struct net_ip *ips, size_t n)
{
	struct net_prefix *v =
		reallocarray(rule->prefixes, rule->n_prefixes + n, sizeof(*v));

	if (!v)
		return -ENOMEM;
	rule->prefixes = v;
	for (size_t i = 0; i < n; i++)
		v[rule->n_prefixes++] =
			(struct net_prefix){ ips[i], ips[i].is_v6 ? 128 : 32 };
	return 0;
}

static int pin_list(struct net_list *l, const char *host,
		    const struct net_ip *ips, size_t n)
{
	int e = 0;

	for (size_t i = 0; n && e == 0 && i < l->n; i++)
		if (l->rules[i].target == NET_TARGET_HOST &&
		    strcmp(l->rules[i].name, host) == 0)
			e = pin_rule(&l->rules[i], ips, n);
	return e;
}

int net_rules_pin(struct net_rules *r, const char *host,
		  const struct net_ip *ips, size_t n)
{
	int e = pin_list(&r->connect, host, ips, n);

	return e < 0 ? e : pin_list(&r->ask, host, ips, n);
}

bool net_ip_is_loopback(const struct net_ip *ip)
{
	static const uint8_t one[16] = { [15] = 1 };

	return ip->is_v6 ? memcmp(ip->bytes, one, 16) == 0
			 : ip->bytes[0] == 127;
}

struct net_ip net_ip_reached(const struct net_ip *ip)
{
	static const uint8_t none[16];
	struct net_ip to = *ip;

	if (memcmp(ip->bytes, none, ip->is_v6 ? 16 : 4) != 0)
		return to;
	if (ip->is_v6) {
		to.bytes[15] = 1;
	} else {
		to.bytes[0] = 127;
		to.bytes[3] = 1;
	}
	return to;
}

static const struct net_rules *layer(const struct net_layers *l)
{
	if (l->process)
		return l->process;
	return l->live ? l->live : l->fixed;
}

static bool has_port(const struct net_rule *r, uint16_t port)
{
	for (size_t i = 0; i < r->n_ports; i++)
		if (r->ports[i].first <= port && port <= r->ports[i].last)
			return true;
	return r->n_ports == 0;
}

static bool has_address(const struct net_rule *r, const struct net_ip *ip)
{
	if (r->target == NET_TARGET_ANY)
		return true;
	for (size_t i = 0; i < r->n_prefixes; i++)
		if (net_prefix_has(&r->prefixes[i], ip))
			return true;
	return false;
}

static struct net_verdict verdict(const struct net_list *l, int rule)
{
	return (struct net_verdict){ (rule >= 0) != l->is_deny, rule, -1 };
}

static int find_rule(const struct net_list *l, const struct net_dest *d)
{
	struct net_ip ip = net_ip_reached(&d->ip);

	for (size_t i = 0; i < l->n; i++) {
		const struct net_rule *r = &l->rules[i];

		if ((r->protos & d->proto) && has_address(r, &ip) &&
		    (d->proto == NET_ICMP || has_port(r, d->port)))
			return (int)i;
	}
	return -1;
}

struct net_verdict net_decide(const struct net_layers *l,
			      const struct net_dest *d)
{
	const struct net_rules *r = layer(l);
	struct net_verdict v = verdict(&r->connect, find_rule(&r->connect, d));

	if (v.rule < 0)
		v.ask = find_rule(&r->ask, d);
	return v;
}

struct net_verdict net_decide_bind(const struct net_layers *l,
				   enum net_proto proto, uint16_t port)
{
	const struct net_list *list = &layer(l)->bind;

	for (size_t i = 0; i < list->n; i++)
		if ((list->rules[i].protos & proto) &&
		    has_port(&list->rules[i], port))
			return verdict(list, (int)i);
	return verdict(list, -1);
}

/* The rule for a unix socket of this name, -1 if there is none. */
static int find_unix(const struct net_list *l, enum net_target target,
		     const char *name, size_t n)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct net_rule *r = &l->rules[i];

		if (r->target == target && strlen(r->name) == n &&
		    memcmp(r->name, name, n) == 0)
			return (int)i;
	}
	return -1;
}

struct net_verdict net_decide_abstract(const struct net_layers *l,
				       const char *name, size_t n)
{
	const struct net_list *list = &layer(l)->connect;
	int rule = find_unix(list, NET_TARGET_ABSTRACT, name, n);

	return (struct net_verdict){ rule >= 0 && !list->is_deny, rule, -1 };
}

struct net_verdict net_decide_path(const struct net_layers *l, const char *path,
				   bool is_writable)
{
	const struct net_list *list = &layer(l)->connect;
	int rule = find_unix(list, NET_TARGET_PATH, path, strlen(path));

	if (rule >= 0)
		return verdict(list, rule);
	return (struct net_verdict){ is_writable, -1, -1 };
}
