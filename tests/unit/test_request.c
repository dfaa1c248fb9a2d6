/* What request_to_toml prints parses back to an equal request. */
#include "spec/request.h"

#include "base/json.h"
#include "unit.h"

static uint64_t seed;

static unsigned int dice(unsigned int n)
{
	seed = seed * 6364136223846793005U + 1442695040888963407U;
	return (unsigned int)(seed >> 33) % n;
}

/* Text with what needs quoting in it, never empty. */
static const char *any_text(char text[64], const char *begin)
{
	static const char *const parts[] = {
		"a",  "\"",   "\\",	      "\n",
		"\t", "\x7f", "\x1b",	      "=",
		":",  "'''",  "\xc3\xa4",     "\xf0\x9f\x98\x80",
		"#",  " ",    "\xe2\x80\xae", "]",
	};
	size_t n = dice(8);

	(void)snprintf(text, 64, "%s", begin);
	for (size_t i = 0; i < n; i++)
		strcat(text, parts[dice(ARRAY_LEN(parts))]);
	return text;
}

static void any_rule(enum net_rule_use use, char text[256])
{
	static const char *const connect[] = {
		"*",
		":80,443",
		"[2001:DB8::]/32:443",
		"tcp://10.1.2.3/8:1-2",
		"icmp://*",
		"udp://::1",
		"unix:@a\"b",
		"unix:/run/x.sock",
		"Example.org:80",
	};
	static const char *const bind[] = { "80", "1,2-5,9", "65535", "*" };

	if (use == NET_RULE_ALLOW || use == NET_RULE_DENY)
		strcpy(text, connect[dice(use == NET_RULE_ALLOW ? 9 : 8)]);
	else
		strcpy(text, bind[dice(use == NET_RULE_BIND_ALLOW ? 4 : 3)]);
}

static void any_value(enum request_kind kind, char text[256])
{
	static const char *const actions[] = { "commit", "abort", "keep",
					       "defer" };
	char a[64], b[64];

	switch (kind) {
	case REQUEST_STRING:
	case REQUEST_LIST:
		(void)snprintf(text, 256, "%s", any_text(a, "/"));
		break;
	case REQUEST_BOOL:
	case REQUEST_NOT:
		strcpy(text, dice(2) ? "true" : "false");
		break;
	case REQUEST_SIZE:
		strcpy(text, dice(2) ? "18446744073709551615" : "3M");
		break;
	case REQUEST_COUNT:
		(void)snprintf(text, 256, "%u", dice(1000) + 1);
		break;
	case REQUEST_TIME:
		(void)snprintf(text, 256, "%u%s", dice(1000) + 1,
			       dice(2) ? "ms" : "m");
		break;
	case REQUEST_DISPOSE:
		strcpy(text, actions[dice(4)]);
		break;
	case REQUEST_ISOLATION:
		strcpy(text, dice(2) ? "notify" : "namespaces");
		break;
	case REQUEST_ENV:
		(void)snprintf(text, 256, "N%u.\"=%s", dice(9),
			       any_text(a, ""));
		break;
	case REQUEST_MOUNTS:
		(void)snprintf(text, 256, "/x%u:%s%s", dice(9),
			       any_text(b, "/"), dice(2) ? ":ro" : "");
		break;
	case REQUEST_USER:
		(void)snprintf(text, 256, "%u:%u", dice(9), dice(70000));
		break;
	case REQUEST_NET_ALLOW:
		any_rule(NET_RULE_ALLOW, text);
		break;
	case REQUEST_NET_DENY:
		any_rule(NET_RULE_DENY, text);
		break;
	case REQUEST_BIND_ALLOW:
		any_rule(NET_RULE_BIND_ALLOW, text);
		break;
	case REQUEST_BIND_DENY:
		any_rule(NET_RULE_BIND_DENY, text);
		break;
	}
}

static struct request *any_request(void)
{
	struct request *r = request_new();
	struct error err = ERROR_INIT;
	char text[256];

	for (unsigned int n = dice(30); n > 0; n--) {
		const struct request_key *k =
			&request_keys[dice((unsigned int)request_n_keys)];

		any_value(k->kind, text);
		if (request_set(r, k->key, text, "t", &err) < 0)
			fail_msg("%s", err.msg);
	}
	return r;
}

static char *as_json(const struct request *r)
{
	struct json_out *o = json_out_new(false);
	struct buf b = BUF_INIT;

	json_out_object(o);
	request_to_json(r, o);
	json_out_object_end(o);
	assert_int_equal(json_out_end(o, &b), 0);
	json_out_free(o);
	return buf_take(&b, NULL);
}

static void what_is_printed_parses_back(void **state)
{
	for (seed = 0; seed < 2000; seed++) {
		auto_ptr(request_free) struct request *a = NULL, *b = NULL;
		auto_(buf) struct buf first = BUF_INIT, second = BUF_INIT;
		auto_free char *json_a = NULL, *json_b = NULL;
		struct error err = ERROR_INIT;
		uint64_t saved = seed;

		a = any_request();
		b = request_new();
		assert_int_equal(request_to_toml(a, &first), 0);
		if (profile_parse(b, buf_str(&first), first.len, "t", &err) < 0)
			fail_msg("%s in\n%s", err.msg, buf_str(&first));
		assert_int_equal(request_to_toml(b, &second), 0);
		assert_string_equal(buf_str(&first), buf_str(&second));
		json_a = as_json(a);
		json_b = as_json(b);
		assert_string_equal(json_a, json_b);
		seed = saved;
	}
}

static void bytes_that_are_no_text_are_told(void **state)
{
	auto_ptr(request_free) struct request *r = request_new();
	auto_(buf) struct buf b = BUF_INIT;
	auto_free char *json = NULL;

	assert_int_equal(request_set(r, "filesystem.read", "/\xff", "t", NULL),
			 0);
	assert_int_equal(request_to_toml(r, &b), -EILSEQ);
	assert_int_equal(b.len, 0);
	json = as_json(r);
	assert_non_null(strstr(json, "\"b64\":\"L/8=\""));
}

static void later_values_replace_or_append(void **state)
{
	static const char text[] =
		"[program]\nenv = {A = \"1\", B = \"2\"}\nuid = 7\ngid = 8\n"
		"[filesystem]\nread = \"/usr\"\n[limits]\ntimeout = 3\n";
	auto_ptr(request_free) struct request *r = request_new();

	assert_int_equal(profile_parse(r, text, strlen(text), "t", NULL), 0);
	assert_int_equal(request_set(r, "program.env", "A=3", "t", NULL), 0);
	assert_int_equal(request_set(r, "filesystem.read", "/x", "t", NULL), 0);
	assert_int_equal(request_set(r, "limits.timeout", "1ms", "t", NULL), 0);
	assert_int_equal(r->env.n, 2);
	assert_string_equal(r->env.v[0], "A=3");
	assert_int_equal(r->read.n, 2);
	assert_int_equal(r->timeout_ms, 1);
	assert_true(r->has_user);
	assert_int_equal(r->uid, 7);
	assert_int_equal(r->gid, 8);
	request_clear(r, "filesystem.read");
	assert_int_equal(r->read.n, 0);
}

static void what_is_wrong_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *msg, *hint;
	} rows[] = {
		{ "[limits]\nmemroy = 1",
		  "t:2:1: there is no key "
		  "'limits.memroy'",
		  "did you mean 'limits.memory'?" },
		{ "[nothing]", "t:1:2: there is no section [nothing]", "" },
		{ "x = 1", "t:1:1: 'x' stands in no section",
		  "keys belong below a line such as [program]" },
		{ "[limits]\ncpu = 50",
		  "t:2:1: 'limits.cpu' is not supported by this version", "" },
		{ "[limits]\nprocesses = \"1\"",
		  "t:2:13: limits.processes: this is a string, not an integer",
		  "" },
		{ "[limits]\nprocesses = 0",
		  "t:2:13: limits.processes: '0' is not a number from 1 on",
		  "" },
		{ "[filesystem]\nread = [\"/a\", 1]",
		  "t:2:15: filesystem.read: an integer is no string", "" },
		{ "[program]\nenv = {\"A=\" = \"x\"}",
		  "t:2:8: program.env: 'A=' is no name of a variable", "" },
		{ "[program]\nuid = 1",
		  "t:2:7: program.uid and program.gid go together", "" },
		{ "[program]\nclean_env = \"yes\"",
		  "t:2:13: program.clean_env: this is a string, not true or "
		  "false",
		  "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_ptr(request_free) struct request *r = request_new();
		struct error err = ERROR_INIT;

		assert_true(profile_parse(r, rows[i].text, strlen(rows[i].text),
					  "t", &err) < 0);
		assert_int_equal(err.kind, ERR_USAGE);
		assert_string_equal(err.msg, rows[i].msg);
		assert_string_equal(err.hint, rows[i].hint);
	}
}

static void test_a_bundle_says_itself_what_it_may_do(void **state)
{
	auto_ptr(request_free) struct request *r = request_new();
	struct error err = ERROR_INIT;

	assert_int_equal(request_set(r, "program.bundle", "b", "x", &err), 0);
	assert_int_equal(request_set(r, "ask.exec", "env", "x", &err), 0);
	assert_int_equal(request_set(r, "limits.timeout", "3", "x", &err), 0);
	assert_int_equal(request_check(r, &err), 0);
	assert_int_equal(request_set(r, "limits.memory", "1G", "x", &err), 0);
	assert_int_equal(request_check(r, &err), -EINVAL);
	assert_string_equal(err.msg, "--max-memory is for a command of the "
				     "host, not for a bundle");
	request_clear(r, "limits.memory");
	assert_int_equal(request_set(r, "program.exec", "sh", "x", &err), 0);
	assert_int_equal(request_check(r, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_printed_parses_back),
		cmocka_unit_test(bytes_that_are_no_text_are_told),
		cmocka_unit_test(later_values_replace_or_append),
		cmocka_unit_test(what_is_wrong_is_refused_with_its_place),
		cmocka_unit_test(test_a_bundle_says_itself_what_it_may_do),
	};

	return RUN_TESTS(tests);
}
