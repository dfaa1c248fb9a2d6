#include "unit.h"

static void set_appends_the_reason(void **state)
{
	struct error err = ERROR_INIT;

	assert_int_equal(
		error_set(&err, ERR_BUNDLE, ENOENT, "cannot open '%s'", "x"),
		-ENOENT);
	assert_string_equal(err.msg,
			    "cannot open 'x': No such file or directory");
	assert_string_equal(err.hint, "");
	assert_int_equal(err.kind, ERR_BUNDLE);
	assert_int_equal(err.sys, ENOENT);
}

static void without_a_reason_it_is_einval(void **state)
{
	struct error err = ERROR_INIT;

	assert_int_equal(error_set(&err, ERR_USAGE, 0, "no"), -EINVAL);
	assert_string_equal(err.msg, "no");
	assert_int_equal(error_say(&err, ERR_USAGE, EPERM, "never"), -EPERM);
	assert_string_equal(err.msg, "never");
}

static void null_takes_no_message_but_the_code(void **state)
{
	assert_int_equal(error_set(NULL, ERR_SYSTEM, EIO, "x"), -EIO);
	assert_int_equal(error_hint(NULL, "x"), -EINVAL);
	assert_int_equal(error_wrap(NULL, "x"), -EINVAL);
}

static void hint_and_wrap_keep_the_code(void **state)
{
	struct error err = ERROR_INIT;

	(void)error_say(&err, ERR_STATE, EBUSY, "it runs");
	assert_int_equal(error_hint(&err, "kill %s", "it"), -EBUSY);
	assert_int_equal(error_wrap(&err, "mount %d", 3), -EBUSY);
	assert_string_equal(err.msg, "mount 3: it runs");
	assert_string_equal(err.hint, "kill it");
	assert_int_equal(err.kind, ERR_STATE);
}

static void an_argument_may_be_the_old_message(void **state)
{
	struct error err = ERROR_INIT;

	(void)error_say(&err, ERR_STATE, EBUSY, "inner");
	(void)error_say(&err, ERR_HOOK, EIO, "outer: %s", err.msg);
	assert_string_equal(err.msg, "outer: inner");
}

static void a_long_message_is_cut_between_characters(void **state)
{
	char text[2 * ERROR_MSG_MAX + 1];
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < sizeof(text) - 1; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	text[sizeof(text) - 1] = '\0';
	(void)error_say(&err, ERR_SYSTEM, EIO, "%s", text);
	assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 2);
	(void)error_say(&err, ERR_SYSTEM, EIO, "-%s", text);
	assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 1);
	(void)error_wrap(&err, "w");
	assert_true((err.msg[strlen(err.msg) - 1] & 0xff) == 0xa4);
	(void)error_hint(&err, "%s", text);
	assert_int_equal(strlen(err.hint), ERROR_HINT_MAX - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_appends_the_reason),
		cmocka_unit_test(without_a_reason_it_is_einval),
		cmocka_unit_test(null_takes_no_message_but_the_code),
		cmocka_unit_test(hint_and_wrap_keep_the_code),
		cmocka_unit_test(an_argument_may_be_the_old_message),
		cmocka_unit_test(a_long_message_is_cut_between_characters),
	};

	return RUN_TESTS(tests);
}
