#include "unit.h"

static void empty_is_a_string(void **state)
{
	struct buf b = BUF_INIT;
	size_t len = 7;
	char *s;

	assert_string_equal(buf_str(&b), "");
	s = buf_take(&b, &len);
	assert_string_equal(s, "");
	assert_int_equal(len, 0);
	free(s);
}

static void appends_keep_a_nul_behind(void **state)
{
	auto_(buf) struct buf b = BUF_INIT;

	buf_add_str(&b, "ab");
	buf_add_char(&b, 'c');
	buf_add(&b, "d\0e", 3);
	assert_int_equal(b.len, 6);
	assert_memory_equal(b.data, "abcd\0e", 7);
	buf_clear(&b);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_str(&b), "");
}

static void printf_grows(void **state)
{
	auto_(buf) struct buf b = BUF_INIT;

	buf_printf(&b, "%d", 5);
	buf_printf(&b, "%0500d|%s", 7, "x");
	assert_int_equal(b.len, 1 + 500 + 2);
	assert_string_equal(b.data + 500, "7|x");
	for (int i = 0; i < 10000; i++)
		buf_printf(&b, "%d,", i % 10);
	assert_int_equal(b.len, 503 + 20000);
	assert_false(buf_failed(&b));
}

static void a_failure_is_remembered(void **state)
{
	struct buf b = BUF_INIT;
	size_t len = 3;

	buf_add_str(&b, "kept");
	buf_add(&b, "x", SIZE_MAX - 2);
	assert_true(buf_failed(&b));
	buf_add_str(&b, "no");
	assert_string_equal(buf_str(&b), "kept");
	assert_null(buf_take(&b, &len));
	assert_null(b.data);
}

static void test_join_words(void **state)
{
	char *const words[] = { (char *)"sh", (char *)"-c", (char *)"a b",
				NULL };
	char *joined = buf_join_words(words), *none = buf_join_words(NULL);

	assert_string_equal(joined, "sh -c a b");
	assert_string_equal(none, "");
	free(joined);
	free(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join_words),
		cmocka_unit_test(empty_is_a_string),
		cmocka_unit_test(appends_keep_a_nul_behind),
		cmocka_unit_test(printf_grows),
		cmocka_unit_test(a_failure_is_remembered),
	};

	return RUN_TESTS(tests);
}
