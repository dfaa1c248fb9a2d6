/* Signals and users as the command line gives them. */
#include <signal.h>

#include "spec/spec.h"
#include "unit.h"

static void names_and_numbers_are_signals(void **state)
{
	static const struct {
		const char *text;
		int sig;
	} cases[] = {
		{ "TERM", SIGTERM },	{ "SIGTERM", SIGTERM },
		{ "sigterm", SIGTERM }, { "Kill", SIGKILL },
		{ "15", SIGTERM },	{ "1", SIGHUP },
		{ "64", 64 },		{ "SIGRTMIN", 34 },
		{ "rtmin+0", 34 },	{ "RTMIN+3", 37 },
		{ "RTMAX", 64 },	{ "SIGRTMAX-1", 63 },
		{ "RTMAX-30", 34 },	{ "CHLD", SIGCHLD },
		{ "CLD", SIGCHLD },	{ "IOT", SIGABRT },
		{ "WINCH", SIGWINCH },	{ "RTMIN+30", 64 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(spec_signal_parse(cases[i].text),
				 cases[i].sig);
}

static void anything_else_is_refused(void **state)
{
	static const char *const bad[] = {
		"",	    "9abc",	  "-1",		  "65",
		"0",	    "09",	  "+9",		  " 9",
		"9 ",	    "0x9",	  "TERMX",	  "SIG",
		"SIG9",	    "SIGSIGTERM", "999999999999", "RTMIN-1",
		"RTMAX+1",  "RTMIN+31",	  "RTMIN+",	  "RTMINx",
		"RTMIN+-1", "RTMAX-31",	  "RTMIN+00",	  "RTMIN+1x",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (spec_signal_parse(bad[i]) != -EINVAL)
			fail_msg("'%s' is accepted", bad[i]);
}

static void signals_have_names(void **state)
{
	assert_string_equal(spec_signal_name(SIGTERM), "TERM");
	assert_string_equal(spec_signal_name(SIGCHLD), "CHLD");
	assert_null(spec_signal_name(0));
	assert_null(spec_signal_name(40));
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(spec_signal_parse(spec_signal_name(sig)), sig);
}

static void users_are_numbers(void **state)
{
	struct error err = ERROR_INIT;
	bool has_gid = true;
	uid_t uid = 7;
	gid_t gid = 7;

	assert_int_equal(spec_user_parse("1", &uid, &has_gid, &gid, &err), 0);
	assert_true(uid == 1 && !has_gid && gid == 7);
	assert_int_equal(
		spec_user_parse("4294967294:0", &uid, &has_gid, &gid, &err), 0);
	assert_true(uid == 4294967294U && has_gid && gid == 0);
}

static void other_users_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"-1",
		"1:",
		":1",
		"0x1",
		"1 ",
		" 1",
		"+1",
		"1:2:3",
		"root",
		"1:x",
		"1.0",
		"4294967295",
		":",
		"1:-1",
		"1: 2",
		"99999999999999999999999",
	};
	uid_t uid = 7;
	gid_t gid = 7;
	bool has_gid = false;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = ERROR_INIT;

		if (spec_user_parse(bad[i], &uid, &has_gid, &gid, &err) !=
		    -EINVAL)
			fail_msg("'%s' is accepted", bad[i]);
		assert_int_equal(err.kind, ERR_USAGE);
		assert_true(uid == 7 && gid == 7 && !has_gid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_numbers_are_signals),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(signals_have_names),
		cmocka_unit_test(users_are_numbers),
		cmocka_unit_test(other_users_are_refused),
	};

	return RUN_TESTS(tests);
}
