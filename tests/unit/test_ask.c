#include "unit.h"

#include "policy/ask.h"
#include "spec/spec.h"

static const char *match_open(const char *rule, const char *path)
{
	char *v[] = { (char *)rule };
	const struct spec_strings rules = { .v = v, .n = 1 };

	return ask_match_open(&rules, path, NULL);
}

static const char *match_exec(const char *rule, const char *path)
{
	char *v[] = { (char *)rule };
	const struct spec_strings rules = { .v = v, .n = 1 };

	return ask_match_exec(&rules, path, NULL);
}

static void a_directory_is_all_below_it(void **state)
{
	static const char *const rules[] = { "/home/u", "/home/u/" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		assert_non_null(match_open(rules[i], "/home/u"));
		assert_non_null(match_open(rules[i], "/home/u/.ssh/id"));
		assert_null(match_open(rules[i], "/home/user"));
		assert_null(match_open(rules[i], "/home"));
	}
	assert_non_null(match_open("/", "/"));
	assert_non_null(match_open("/", "/etc/passwd"));
	assert_non_null(match_exec("/opt/tools", "/opt/tools/bin/x"));
	assert_null(match_open("/etc", NULL));
}

static void patterns_are_those_of_glob(void **state)
{
	(void)state;
	assert_non_null(match_open("*", "/any/.thing"));
	assert_non_null(match_open("/etc/*.conf", "/etc/a.conf"));
	assert_null(match_open("/etc/*.conf", "/etc/d/a.conf"));
	assert_null(match_open("/etc/*", "/etc/.hidden"));
	assert_non_null(match_exec("python3*", "/usr/bin/python3.11"));
	assert_null(match_open("passwd", "/etc/passwd"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_is_all_below_it),
		cmocka_unit_test(patterns_are_those_of_glob),
	};

	return RUN_TESTS(tests);
}
