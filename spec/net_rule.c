#include "spec/net_rule.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/nearest.h"

enum {
	TEXT_MAX = 1024, /* of a whole rule */
	HOST_MAX = 253,
	LABEL_MAX = 63,
	UNIX_MAX = 107, /* what fits into sun_path */
	PORTS_MAX = 256,
};

/* clang-format off */
static const struct {
	const char *name;
	unsigned int protos;
} protos[] = {
	{ "tcp",  NET_TCP  },
	{ "udp",  NET_UDP  },
	{ "icmp", NET_ICMP },
};
/* clang-format on */

/* -------------------------------------------------------------- addresses --
 */

struct net_ip net_ip_make(const void *bytes, size_t n)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct net_ip ip = { .is_v6 = n == 16 };

	if (n == 16 && memcmp(bytes, mapped, sizeof(mapped)) == 0) {
		ip.is_v6 = false;
		memcpy(ip.bytes, (const uint8_t *)bytes + 12, 4);
	} else {
		memcpy(ip.bytes, bytes, n);
	}
	return ip;
}

const char *net_ip_format(const struct net_ip *ip, char ret[NET_IP_TEXT])
{
	return inet_ntop(ip->is_v6 ? AF_INET6 : AF_INET, ip->bytes, ret,
			 NET_IP_TEXT);
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;

	return memcmp(a, b, whole) == 0 &&
	       (!rest || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool net_prefix_has(const struct net_prefix *p, const struct net_ip *ip)
{
	return p->ip.is_v6 == ip->is_v6 &&
	       same_bits(p->ip.bytes, ip->bytes, p->bits);
}

static void clear_below(struct net_prefix *p)
{
	for (unsigned int i = p->bits; i < 128; i++)
		p->ip.bytes[i / 8] &= (uint8_t) ~(0x80U >> i % 8);
}

/* ---------------------------------------------------------------- parsing --
 */

/* @n bytes of @text, for a message. */
#define PIECE(text, n) (int)((n) < 64 ? (n) : 64), (text)

/* Digits only, at most @max. */
static int parse_number(const char *text, size_t n, unsigned long max,
			unsigned long *ret)
{
	unsigned long v = 0;

	if (!n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)text[i]))
			return -EINVAL;
		v = v * 10 + (unsigned long)(text[i] - '0');
		if (v > max)
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

static int parse_port(const char *text, size_t n, uint16_t *ret,
		      struct error *err)
{
	unsigned long v;
	int r = parse_number(text, n, UINT16_MAX, &v);

	if (r == 0 && v == 0)
		r = -ERANGE;
	if (r == -ERANGE)
		return error_say(err, ERR_USAGE, ERANGE,
				 "port '%.*s' is not from 1 to 65535",
				 PIECE(text, n));
	if (r < 0) {
		(void)error_say(err, ERR_USAGE, EINVAL, "'%.*s' is no port",
				PIECE(text, n));
		return error_hint(err, "ports are numbers, such as 443, "
				       "80,443 or 8000-8010");
	}
	*ret = (uint16_t)v;
	return 0;
}

/* "80" or "80-90". */
static int parse_range(const char *text, size_t n, struct net_ports *ret,
		       struct error *err)
{
	const char *dash = memchr(text, '-', n);
	size_t first = dash ? (size_t)(dash - text) : n;
	int r = parse_port(text, first, &ret->first, err);

	ret->last = ret->first;
	if (r == 0 && dash)
		r = parse_port(dash + 1, n - first - 1, &ret->last, err);
	if (r == 0 && ret->last < ret->first)
		return error_say(err, ERR_USAGE, EINVAL,
				 "the range of ports '%.*s' ends before it "
				 "begins",
				 PIECE(text, n));
	return r;
}

static int add_range(struct net_rule *rule, const char *text, size_t n,
		     struct error *err)
{
	struct net_ports *v, range;
	int r = parse_range(text, n, &range, err);

	if (r < 0)
		return r;
	if (rule->n_ports == PORTS_MAX)
		return error_say(err, ERR_USAGE, E2BIG,
				 "more than %d ranges of ports in one rule",
				 PORTS_MAX);
	v = reallocarray(rule->ports, rule->n_ports + 1, sizeof(*v));
	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "rule");
	rule->ports = v;
	v[rule->n_ports++] = range;
	return 0;
}

static int parse_ports(struct net_rule *rule, const char *text,
		       struct error *err)
{
	int r = 0;

	if (strcmp(text, "*") == 0)
		return 0;
	for (const char *p = text; r == 0; p += strcspn(p, ",") + 1) {
		size_t n = strcspn(p, ",");

		if (memchr(p, '*', n))
			return error_say(err, ERR_USAGE, EINVAL,
					 "'*' stands for all ports, alone");
		r = add_range(rule, p, n, err);
		if (!p[n])
			break;
	}
	return r;
}

static const char *nth_proto(const void *v, size_t i)
{
	return protos[i].name;
}

/* Takes the protocol off @text. */
static int parse_proto(struct net_rule *rule, const char **text,
		       struct error *err)
{
	const char *end = strstr(*text, "://");
	char word[32];
	const char *near;

	rule->protos = NET_TCP | NET_UDP;
	if (!end)
		return 0;
	(void)snprintf(word, sizeof(word), "%.*s",
		       PIECE(*text, (size_t)(end - *text)));
	for (size_t i = 0; i < ARRAY_LEN(protos); i++) {
		if (strcmp(word, protos[i].name) == 0) {
			rule->protos = protos[i].protos;
			*text = end + 3;
			return 0;
		}
	}
	near = nearest_word(word, nth_proto, NULL, ARRAY_LEN(protos));
	(void)error_say(err, ERR_USAGE, EINVAL, "'%s' is no protocol", word);
	if (near)
		return error_hint(err, "did you mean '%s://'?", near);
	return error_hint(err, "there are tcp://, udp:// and icmp://");
}

static bool is_label(const char *text, size_t n)
{
	if (!n || n > LABEL_MAX || text[0] == '-' || text[n - 1] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '-' &&
		    text[i] != '_')
			return false;
	return true;
}

/* Numbers alone are a misspelled address. */
static bool is_host(const char *text)
{
	if (!*text || strlen(text) > HOST_MAX ||
	    !text[strspn(text, "0123456789.")])
		return false;
	for (const char *p = text;; p += strcspn(p, ".") + 1) {
		size_t n = strcspn(p, ".");

		if (!is_label(p, n))
			return false;
		if (!p[n])
			return true;
	}
}

static int set_prefix(struct net_rule *rule, const struct net_ip *ip,
		      unsigned int bits)
{
	rule->prefixes = calloc(1, sizeof(*rule->prefixes));
	if (!rule->prefixes)
		return -ENOMEM;
	rule->n_prefixes = 1;
	rule->prefixes[0].ip = *ip;
	rule->prefixes[0].bits = bits;
	clear_below(&rule->prefixes[0]);
	rule->target = NET_TARGET_PREFIX;
	return 0;
}

/* -ENOENT: @text is no address. */
static int parse_address(struct net_rule *rule, const char *text,
			 const char *bits_text, struct error *err)
{
	uint8_t bytes[16];
	struct net_ip ip;
	unsigned long bits, mapped = 0;
	unsigned long max;

	if (inet_pton(AF_INET, text, bytes) == 1) {
		ip = net_ip_make(bytes, 4);
	} else if (inet_pton(AF_INET6, text, bytes) == 1) {
		ip = net_ip_make(bytes, 16);
		mapped = ip.is_v6 ? 0 : 96;
	} else {
		return -ENOENT;
	}
	max = ip.is_v6 ? 128 : 32;
	bits = max;
	if (bits_text && (parse_number(bits_text, strlen(bits_text),
				       max + mapped, &bits) < 0 ||
			  bits < mapped))
		return error_say(err, ERR_USAGE, EINVAL,
				 "'/%.32s' is no length of a prefix of '%s': "
				 "it is from %lu to %lu",
				 bits_text, text, mapped, max + mapped);
	if (bits_text)
		bits -= mapped;
	return set_prefix(rule, &ip, (unsigned int)bits) < 0
		       ? error_set(err, ERR_SYSTEM, ENOMEM, "rule")
		       : 0;
}

static int set_host(struct net_rule *rule, const char *text,
		    enum net_rule_use use, struct error *err)
{
	if (strchr(text, '*')) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'%.64s': '*' is no part of a host name", text);
		return error_hint(err, "'*' alone stands for every address");
	}
	if (!is_host(text)) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'%.64s' is neither an address nor a host name",
				text);
		return error_hint(err, "HOST:PORT, ADDRESS/BITS:PORT, "
				       "[IPV6]:PORT, *:PORT or unix:/PATH");
	}
	if (use == NET_RULE_ADDRESS)
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%.64s' is no address: names are resolved "
				 "when a sandbox begins, and no more",
				 text);
	if (use == NET_RULE_DENY) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'%.64s': a host name cannot be denied, its "
				"addresses change",
				text);
		return error_hint(err, "deny addresses, or allow what is "
				       "needed with --net-allow");
	}
	rule->target = NET_TARGET_HOST;
	rule->name = strdup(text);
	if (!rule->name)
		return error_set(err, ERR_SYSTEM, ENOMEM, "rule");
	/* Names are the same in any case. */
	for (char *p = rule->name; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return 0;
}

static int parse_target(struct net_rule *rule, char *text,
			enum net_rule_use use, struct error *err)
{
	char *slash = strchr(text, '/');
	int r;

	if (strcmp(text, "*") == 0 || !*text) {
		rule->target = NET_TARGET_ANY;
		return 0;
	}
	if (slash)
		*slash = '\0';
	r = parse_address(rule, text, slash ? slash + 1 : NULL, err);
	if (r != -ENOENT)
		return r;
	if (slash)
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%.64s' is no address, so it has no prefix "
				 "'/%.32s'",
				 text, slash + 1);
	return set_host(rule, text, use, err);
}

/* Takes the brackets off; "[::1]:80", "[::]/0:80" and "[::/0]:80". */
static int parse_brackets(char *text, char **ret_ports, struct error *err)
{
	char *close = strchr(text, ']');
	char *rest;

	if (!close)
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%.64s' lacks its ']'", text);
	if (!memchr(text, ':', (size_t)(close - text)))
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%.*s' is no IPv6 address",
				 PIECE(text, (size_t)(close - text) + 1));
	rest = strchr(close, ':');
	if (rest)
		*rest++ = '\0';
	*ret_ports = rest;
	if (close[1] && close[1] != '/')
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%.64s' behind ']' is no ':PORT'", close + 1);
	memmove(close, close + 1, strlen(close));
	memmove(text, text + 1, strlen(text));
	return 0;
}

/* Cuts the ports off: NULL where there are none. */
static int split_ports(char *text, char **ret_ports, struct error *err)
{
	char *colon = strchr(text, ':');

	*ret_ports = NULL;
	if (*text == '[')
		return parse_brackets(text, ret_ports, err);
	/* More than one colon: an IPv6 address by itself. */
	if (!colon || strchr(colon + 1, ':'))
		return 0;
	*colon = '\0';
	*ret_ports = colon + 1;
	return 0;
}

static int parse_unix(struct net_rule *rule, const char *text,
		      struct error *err)
{
	rule->protos = NET_UNIX;
	rule->target = *text == '@' ? NET_TARGET_ABSTRACT : NET_TARGET_PATH;
	if ((*text != '@' && *text != '/') || !text[1]) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'%.64s' is no name of a unix socket", text);
		return error_hint(err, "unix:/PATH, or unix:@NAME for an "
				       "abstract one");
	}
	if (*text == '@')
		text++;
	if (strlen(text) > UNIX_MAX)
		return error_say(err, ERR_USAGE, ENAMETOOLONG,
				 "the name of a unix socket has at most %d "
				 "bytes",
				 UNIX_MAX);
	rule->name = strdup(text);
	return rule->name ? 0 : error_set(err, ERR_SYSTEM, ENOMEM, "rule");
}

static int parse_connect(struct net_rule *rule, const char *text,
			 enum net_rule_use use, struct error *err)
{
	auto_free char *copy = NULL;
	/* A host of that name would read back as a socket. */
	bool is_unix = strncasecmp(text, "unix:", 5) == 0;
	char *ports;
	int r;

	if (is_unix && use == NET_RULE_ADDRESS)
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%.64s' is no address", text);
	if (is_unix)
		return parse_unix(rule, text + 5, err);
	r = parse_proto(rule, &text, err);
	if (r < 0)
		return r;
	copy = strdup(text);
	if (!copy)
		return error_set(err, ERR_SYSTEM, ENOMEM, "rule");
	r = split_ports(copy, &ports, err);
	if (r == 0 && !*copy && (!ports || !*ports))
		r = error_say(err, ERR_USAGE, EINVAL,
			      "an empty rule; '*' stands for everything");
	if (r == 0 && ports && rule->protos == NET_ICMP)
		r = error_say(err, ERR_USAGE, EINVAL,
			      "icmp has no ports: drop ':%.32s'", ports);
	if (r == 0 && ports)
		r = parse_ports(rule, ports, err);
	if (r == 0)
		r = parse_target(rule, copy, use, err);
	return r;
}

static int parse_bind(struct net_rule *rule, const char *text,
		      enum net_rule_use use, struct error *err)
{
	rule->protos = NET_TCP | NET_UDP;
	if (use == NET_RULE_BIND_DENY && strcmp(text, "*") == 0) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'*' cannot be denied: nothing would be left");
		return error_hint(err, "without a rule no port can be bound");
	}
	return parse_ports(rule, text, err);
}

int net_rule_parse(const char *text, enum net_rule_use use,
		   struct net_rule *ret, struct error *err)
{
	struct net_rule rule = { .protos = 0 };
	bool is_bind = use == NET_RULE_BIND_ALLOW || use == NET_RULE_BIND_DENY;
	int r;

	if (strlen(text) > TEXT_MAX)
		return error_say(err, ERR_USAGE, ENAMETOOLONG,
				 "a rule has at most %d bytes", TEXT_MAX);
	if (is_bind)
		r = parse_bind(&rule, text, use, err);
	else
		r = parse_connect(&rule, text, use, err);
	if (r < 0) {
		net_rule_done(&rule);
		return r;
	}
	*ret = rule;
	return 0;
}

void net_rule_done(struct net_rule *r)
{
	free(r->name);
	free(r->prefixes);
	free(r->ports);
	*r = (struct net_rule){ .protos = 0 };
}

/* --------------------------------------------------------------- printing --
 */

static void format_ports(const struct net_rule *r, struct buf *ret)
{
	if (!r->n_ports)
		buf_add_char(ret, '*');
	for (size_t i = 0; i < r->n_ports; i++) {
		const struct net_ports *p = &r->ports[i];

		buf_printf(ret, "%s%u", i ? "," : "", p->first);
		if (p->last != p->first)
			buf_printf(ret, "-%u", p->last);
	}
}

static void format_prefix(const struct net_rule *r, struct buf *ret)
{
	const struct net_prefix *p = &r->prefixes[0];
	bool brackets = p->ip.is_v6 && r->n_ports;
	char text[NET_IP_TEXT];

	buf_printf(ret, "%s%s%s", brackets ? "[" : "",
		   net_ip_format(&p->ip, text), brackets ? "]" : "");
	if (p->bits != (p->ip.is_v6 ? 128U : 32U))
		buf_printf(ret, "/%u", p->bits);
}

void net_rule_format(const struct net_rule *r, enum net_rule_use use,
		     struct buf *ret)
{
	if (use == NET_RULE_BIND_ALLOW || use == NET_RULE_BIND_DENY) {
		format_ports(r, ret);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(protos); i++)
		if (protos[i].protos == r->protos)
			buf_printf(ret, "%s://", protos[i].name);
	switch (r->target) {
	case NET_TARGET_ANY:
		buf_add_char(ret, '*');
		break;
	case NET_TARGET_PREFIX:
		format_prefix(r, ret);
		break;
	case NET_TARGET_HOST:
		buf_add_str(ret, r->name);
		break;
	case NET_TARGET_PATH:
		buf_printf(ret, "unix:%s", r->name);
		break;
	case NET_TARGET_ABSTRACT:
		buf_printf(ret, "unix:@%s", r->name);
		break;
	}
	if (r->n_ports) {
		buf_add_char(ret, ':');
		format_ports(r, ret);
	}
}
