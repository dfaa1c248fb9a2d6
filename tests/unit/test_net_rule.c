/* Network rules: what is understood, printed and refused. */
#include "spec/net_rule.h"

#include <arpa/inet.h>

#include "unit.h"

static const struct {
	const char *text;
	enum net_rule_use use;
	const char *printed;
} good[] = {
	{ "example.org", NET_RULE_ALLOW, "example.org" },
	{ "Example.ORG:443", NET_RULE_ALLOW, "example.org:443" },
	{ "tcp://example.org:80,443", NET_RULE_ALLOW,
	  "tcp://example.org:80,443" },
	{ "localhost:*", NET_RULE_ALLOW, "localhost" },
	{ "*", NET_RULE_ALLOW, "*" },
	{ "*:*", NET_RULE_DENY, "*" },
	{ ":53", NET_RULE_ALLOW, "*:53" },
	{ "udp://:53", NET_RULE_ALLOW, "udp://*:53" },
	{ "icmp://*", NET_RULE_ALLOW, "icmp://*" },
	{ "icmp://10.0.0.1", NET_RULE_DENY, "icmp://10.0.0.1" },
	{ "10.1.2.3/8", NET_RULE_DENY, "10.0.0.0/8" },
	{ "10.1.2.3/32:8000-8010", NET_RULE_ALLOW, "10.1.2.3:8000-8010" },
	{ "0.0.0.0/0", NET_RULE_ALLOW, "0.0.0.0/0" },
	{ "::1", NET_RULE_ALLOW, "::1" },
	{ "2001:db8::1:443", NET_RULE_ALLOW, "2001:db8::1:443" },
	{ "[2001:DB8::1]:443", NET_RULE_ALLOW, "[2001:db8::1]:443" },
	{ "[::]/0:1", NET_RULE_ALLOW, "[::]/0:1" },
	{ "[2001:db8::/32]:1", NET_RULE_ALLOW, "[2001:db8::]/32:1" },
	{ "2001:db8::ffff/32", NET_RULE_ALLOW, "2001:db8::/32" },
	{ "::ffff:1.2.3.4", NET_RULE_DENY, "1.2.3.4" },
	{ "[::ffff:1.2.3.4/120]:9", NET_RULE_DENY, "1.2.3.0/24:9" },
	{ "unix:/run/a.sock", NET_RULE_ALLOW, "unix:/run/a.sock" },
	{ "unix:@a b", NET_RULE_ALLOW, "unix:@a b" },
	{ "my_host-1:1", NET_RULE_ALLOW, "my_host-1:1" },
	{ "8080,9000-9005", NET_RULE_BIND_ALLOW, "8080,9000-9005" },
	{ "*", NET_RULE_BIND_ALLOW, "*" },
	{ "1-65535", NET_RULE_BIND_DENY, "1-65535" },
};

static void what_is_right_is_printed_and_parsed_again(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		auto_(net_rule) struct net_rule a = { .protos = 0 };
		auto_(net_rule) struct net_rule b = { .protos = 0 };
		auto_(buf) struct buf once = BUF_INIT, twice = BUF_INIT;
		struct error err = ERROR_INIT;

		if (net_rule_parse(good[i].text, good[i].use, &a, &err) < 0)
			fail_msg("%s: %s", good[i].text, err.msg);
		net_rule_format(&a, good[i].use, &once);
		assert_string_equal(buf_str(&once), good[i].printed);
		assert_int_equal(
			net_rule_parse(buf_str(&once), good[i].use, &b, &err),
			0);
		net_rule_format(&b, good[i].use, &twice);
		assert_string_equal(buf_str(&twice), good[i].printed);
		assert_int_equal(a.protos, b.protos);
		assert_int_equal(a.n_ports, b.n_ports);
	}
}

static const struct {
	const char *text;
	enum net_rule_use use;
	const char *msg, *hint;
} bad[] = {
	{ "", NET_RULE_ALLOW, "an empty rule; '*' stands for everything", "" },
	{ "tcp://", NET_RULE_ALLOW, "an empty rule; '*' stands for everything",
	  "" },
	{ "tpc://a:1", NET_RULE_ALLOW, "'tpc' is no protocol",
	  "did you mean 'tcp://'?" },
	{ "https://a", NET_RULE_ALLOW, "'https' is no protocol",
	  "there are tcp://, udp:// and icmp://" },
	{ "a:0", NET_RULE_ALLOW, "port '0' is not from 1 to 65535", "" },
	{ "a:65536", NET_RULE_ALLOW, "port '65536' is not from 1 to 65535",
	  "" },
	{ "a:99999999999999999999999", NET_RULE_ALLOW,
	  "port '99999999999999999999999' is not from 1 to 65535", "" },
	{ "a:", NET_RULE_ALLOW, "'' is no port",
	  "ports are numbers, such as 443, 80,443 or 8000-8010" },
	{ "a:80,", NET_RULE_ALLOW, "'' is no port",
	  "ports are numbers, such as 443, 80,443 or 8000-8010" },
	{ "a:http", NET_RULE_ALLOW, "'http' is no port",
	  "ports are numbers, such as 443, 80,443 or 8000-8010" },
	{ "a:90-80", NET_RULE_ALLOW,
	  "the range of ports '90-80' ends before it begins", "" },
	{ "a:80,*", NET_RULE_ALLOW, "'*' stands for all ports, alone", "" },
	{ "*.example.org", NET_RULE_ALLOW,
	  "'*.example.org': '*' is no part of a host name",
	  "'*' alone stands for every address" },
	{ "1.2.3.4.5:1", NET_RULE_ALLOW,
	  "'1.2.3.4.5' is neither an address nor a host name",
	  "HOST:PORT, ADDRESS/BITS:PORT, [IPV6]:PORT, *:PORT or unix:/PATH" },
	{ "a..b", NET_RULE_ALLOW,
	  "'a..b' is neither an address nor a host name",
	  "HOST:PORT, ADDRESS/BITS:PORT, [IPV6]:PORT, *:PORT or unix:/PATH" },
	{ "10.0.0.0/33", NET_RULE_ALLOW,
	  "'/33' is no length of a prefix of '10.0.0.0': it is from 0 to 32",
	  "" },
	{ "::ffff:1.2.3.4/8", NET_RULE_ALLOW,
	  "'/8' is no length of a prefix of '::ffff:1.2.3.4': it is from 96 "
	  "to 128",
	  "" },
	{ "example.org/24", NET_RULE_ALLOW,
	  "'example.org' is no address, so it has no prefix '/24'", "" },
	{ "example.org:1", NET_RULE_DENY,
	  "'example.org': a host name cannot be denied, its addresses change",
	  "deny addresses, or allow what is needed with --net-allow" },
	{ "example.org", NET_RULE_ADDRESS,
	  "'example.org' is no address: names are resolved when a sandbox "
	  "begins, and no more",
	  "" },
	{ "unix:@a", NET_RULE_ADDRESS, "'unix:@a' is no address", "" },
	{ "[::1", NET_RULE_ALLOW, "'[::1' lacks its ']'", "" },
	{ "[a]:1", NET_RULE_ALLOW, "'[a]' is no IPv6 address", "" },
	{ "[::1]x:1", NET_RULE_ALLOW, "'x' behind ']' is no ':PORT'", "" },
	{ "icmp://a:1", NET_RULE_ALLOW, "icmp has no ports: drop ':1'", "" },
	{ "unix:a", NET_RULE_ALLOW, "'a' is no name of a unix socket",
	  "unix:/PATH, or unix:@NAME for an abstract one" },
	{ "*", NET_RULE_BIND_DENY,
	  "'*' cannot be denied: nothing would be left",
	  "without a rule no port can be bound" },
	{ "8080,x", NET_RULE_BIND_ALLOW, "'x' is no port",
	  "ports are numbers, such as 443, 80,443 or 8000-8010" },
};

static void what_is_wrong_is_named(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct net_rule r = { .protos = 77 };
		struct error err = ERROR_INIT;

		if (net_rule_parse(bad[i].text, bad[i].use, &r, &err) == 0)
			fail_msg("'%s' is taken", bad[i].text);
		assert_int_equal(r.protos, 77);
		assert_int_equal(err.kind, ERR_USAGE);
		assert_string_equal(err.msg, bad[i].msg);
		assert_string_equal(err.hint, bad[i].hint);
	}
}

static bool has(const char *rule, const char *address)
{
	auto_(net_rule) struct net_rule r = { .protos = 0 };
	uint8_t bytes[16];
	bool is_v6 = strchr(address, ':');
	struct net_ip ip;

	assert_int_equal(net_rule_parse(rule, NET_RULE_ALLOW, &r, NULL), 0);
	assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, address, bytes),
			 1);
	ip = net_ip_make(bytes, is_v6 ? 16 : 4);
	return net_prefix_has(&r.prefixes[0], &ip);
}

static void prefixes_hold_what_they_say(void **state)
{
	assert_true(has("10.0.0.0/8", "10.255.255.255"));
	assert_false(has("10.0.0.0/8", "11.0.0.0"));
	assert_true(has("10.0.0.0/7", "11.0.0.0"));
	assert_true(has("0.0.0.0/0", "255.255.255.255"));
	assert_false(has("0.0.0.0/0", "::1"));
	assert_false(has("::/0", "1.2.3.4"));
	assert_true(has("1.2.3.4", "::ffff:1.2.3.4"));
	assert_false(has("::/0", "::ffff:1.2.3.4"));
	assert_true(has("2001:db8::/33", "2001:db8:7fff::1"));
	assert_false(has("2001:db8::/33", "2001:db8:8000::1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_right_is_printed_and_parsed_again),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(prefixes_hold_what_they_say),
	};

	return RUN_TESTS(tests);
}
