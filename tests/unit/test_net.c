/* What rules decide. */
#include "policy/net.h"

#include <arpa/inet.h>

#include "spec/request.h"
#include "unit.h"

static struct net_ip ip_of(const char *text)
{
	bool is_v6 = strchr(text, ':');
	uint8_t bytes[16];

	assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, text, bytes), 1);
	return net_ip_make(bytes, is_v6 ? 16 : 4);
}

static struct net_rules rules_of(const char *const *pairs)
{
	auto_ptr(request_free) struct request *q = request_new();
	struct net_rules r = { .connect.n = 0 };
	struct error err = ERROR_INIT;

	for (; *pairs; pairs += 2)
		assert_int_equal(request_set(q, pairs[0], pairs[1], "t", &err),
				 0);
	assert_int_equal(net_rules_read(q, &r, &err), 0);
	return r;
}

static int asks(const struct net_rules *r, enum net_proto proto, const char *ip,
		uint16_t port)
{
	const struct net_layers l = { .fixed = r };
	const struct net_dest d = { proto, ip_of(ip), port };
	struct net_verdict v = net_decide(&l, &d);

	return v.allowed ? v.rule : -1 - v.rule - 100;
}

enum { NO = -100 }; /* denied by default; by rule N: NO - 1 - N */

static void what_is_not_allowed_is_denied(void **state)
{
	const char *const pairs[] = { "network.allow",
				      "tcp://10.0.0.0/8:80,443",
				      "network.allow",
				      "udp://*:53",
				      "network.allow",
				      "icmp://::1",
				      "network.allow",
				      "127.0.0.1:9",
				      NULL };
	auto_(net_rules) struct net_rules r = rules_of(pairs);

	assert_int_equal(asks(&r, NET_TCP, "10.1.2.3", 443), 0);
	assert_int_equal(asks(&r, NET_TCP, "10.1.2.3", 444), NO);
	assert_int_equal(asks(&r, NET_UDP, "10.1.2.3", 443), NO);
	assert_int_equal(asks(&r, NET_UDP, "2001:db8::1", 53), 1);
	assert_int_equal(asks(&r, NET_TCP, "::ffff:10.0.0.1", 80), 0);
	assert_int_equal(asks(&r, NET_ICMP, "::1", 0), 2);
	assert_int_equal(asks(&r, NET_ICMP, "::", 0), 2);
	assert_int_equal(asks(&r, NET_ICMP, "127.0.0.1", 0), NO);
	/* The unspecified address is the loopback one. */
	assert_int_equal(asks(&r, NET_TCP, "0.0.0.0", 9), 3);
	assert_int_equal(asks(&r, NET_UDP, "::ffff:0.0.0.0", 9), 3);
	assert_int_equal(asks(&r, NET_TCP, "::", 9), NO);
}

static void what_is_not_denied_is_allowed(void **state)
{
	const char *const pairs[] = { "network.deny", "127.0.0.0/8",
				      "network.deny", "tcp://*:25", NULL };
	auto_(net_rules) struct net_rules r = rules_of(pairs);

	assert_int_equal(asks(&r, NET_TCP, "192.0.2.1", 80), -1);
	assert_int_equal(asks(&r, NET_TCP, "192.0.2.1", 25), NO - 2);
	assert_int_equal(asks(&r, NET_UDP, "192.0.2.1", 25), -1);
	assert_int_equal(asks(&r, NET_TCP, "0.0.0.0", 80), NO - 1);
	assert_int_equal(asks(&r, NET_ICMP, "192.0.2.1", 0), -1);
}

static void names_are_their_pinned_addresses(void **state)
{
	const char *const pairs[] = { "network.allow", "Example.org:443",
				      NULL };
	auto_(net_rules) struct net_rules r = rules_of(pairs);
	const struct net_ip ips[] = { ip_of("192.0.2.7"),
				      ip_of("2001:db8::7") };

	assert_int_equal(asks(&r, NET_TCP, "192.0.2.7", 443), NO);
	assert_int_equal(net_rules_pin(&r, "example.org", ips, 2), 0);
	assert_int_equal(net_rules_pin(&r, "example.com", ips, 1), 0);
	assert_int_equal(asks(&r, NET_TCP, "192.0.2.7", 443), 0);
	assert_int_equal(asks(&r, NET_TCP, "2001:db8::7", 443), 0);
	assert_int_equal(asks(&r, NET_TCP, "2001:db8::7", 80), NO);
	assert_int_equal(asks(&r, NET_TCP, "192.0.2.8", 443), NO);
}

static bool binds(const struct net_rules *r, uint16_t port)
{
	const struct net_layers l = { .fixed = r };

	return net_decide_bind(&l, NET_TCP, port).allowed;
}

static void ports_are_bound_by_rule(void **state)
{
	const char *const none[] = { "network.allow", "*", NULL };
	const char *const some[] = { "network.allow_bind", "80,8000-8010",
				     NULL };
	const char *const other[] = { "network.deny_bind", "80", NULL };
	const char *const remap[] = { "network.port_remap", "true", NULL };
	auto_(net_rules) struct net_rules a = rules_of(none);
	auto_(net_rules) struct net_rules b = rules_of(some);
	auto_(net_rules) struct net_rules c = rules_of(other);
	auto_(net_rules) struct net_rules d = rules_of(remap);

	assert_false(binds(&a, 80));
	assert_true(binds(&b, 80));
	assert_true(binds(&b, 8010));
	assert_false(binds(&b, 8011));
	assert_false(binds(&c, 80));
	assert_true(binds(&c, 81));
	assert_true(binds(&d, 80));
}

static void unix_sockets(void **state)
{
	const char *const allow[] = { "network.allow", "unix:@bus",
				      "network.allow", "unix:/run/a", NULL };
	const char *const deny[] = { "network.deny", "unix:/run/a", NULL };
	auto_(net_rules) struct net_rules a = rules_of(allow);
	auto_(net_rules) struct net_rules d = rules_of(deny);
	const struct net_layers la = { .fixed = &a }, ld = { .fixed = &d };

	assert_true(net_decide_abstract(&la, "bus", 3).allowed);
	assert_false(net_decide_abstract(&la, "bus", 2).allowed);
	assert_false(net_decide_abstract(&la, "bus\0x", 5).allowed);
	assert_false(net_decide_abstract(&ld, "bus", 3).allowed);
	assert_true(net_decide_path(&la, "/run/a", false).allowed);
	assert_false(net_decide_path(&la, "/run/b", false).allowed);
	assert_true(net_decide_path(&la, "/run/b", true).allowed);
	assert_false(net_decide_path(&ld, "/run/a", true).allowed);
}

static void the_most_specific_layer_decides(void **state)
{
	const char *const none[] = { NULL };
	const char *const all[] = { "network.allow", "*", NULL };
	auto_(net_rules) struct net_rules a = rules_of(none);
	auto_(net_rules) struct net_rules b = rules_of(all);
	const struct net_dest d = { NET_TCP, ip_of("192.0.2.1"), 1 };
	struct net_layers l = { .fixed = &b };

	assert_true(net_decide(&l, &d).allowed);
	l.live = &a;
	assert_false(net_decide(&l, &d).allowed);
	l.process = &b;
	assert_true(net_decide(&l, &d).allowed);
}

static void who_shares_the_network(void **state)
{
	static const struct {
		const char *key, *value;
		bool shared;
	} rows[] = {
		{ "network.allow", "unix:/run/a", false },
		{ "network.allow", "unix:@a", true },
		{ "network.allow", "*", true },
		{ "network.deny", "unix:/run/a", true },
		{ "network.allow_bind", "80", true },
		{ "network.port_remap", "true", true },
		{ "network.port_remap", "false", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_ptr(request_free) struct request *q = request_new();

		assert_int_equal(
			request_set(q, rows[i].key, rows[i].value, "t", NULL),
			0);
		assert_int_equal(net_is_shared(q), rows[i].shared);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_allowed_is_denied),
		cmocka_unit_test(what_is_not_denied_is_allowed),
		cmocka_unit_test(names_are_their_pinned_addresses),
		cmocka_unit_test(ports_are_bound_by_rule),
		cmocka_unit_test(unix_sockets),
		cmocka_unit_test(the_most_specific_layer_decides),
		cmocka_unit_test(who_shares_the_network),
	};

	return RUN_TESTS(tests);
}
