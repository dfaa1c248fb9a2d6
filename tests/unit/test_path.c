#include "base/path.h"

#include "unit.h"

#include "base/utf8.h"

static void names_are_checked(void **state)
{
	static const char *const good[] = { "a", "web-1", "A_b+c.d", "-x" };
	static const char *const bad[] = { "",	  ".",	 "..",	"...",
					   ".a",  "a/b", "a b", "\xc3\xa4",
					   "a\n", "a:b" };
	char name[257];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(name_check(good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = ERROR_INIT;

		assert_int_equal(name_check(bad[i], &err), -EINVAL);
		assert_int_equal(err.kind, ERR_NAME);
		assert_null(strchr(err.msg, '\n'));
	}
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	assert_int_equal(name_check(name, NULL), -EINVAL);
	name[255] = '\0';
	assert_int_equal(name_check(name, NULL), 0);
}

static void under_respects_components(void **state)
{
	assert_true(path_is_under("/a/b", "/a"));
	assert_true(path_is_under("/a", "/a"));
	assert_true(path_is_under("/a", "/"));
	assert_true(path_is_under("/", "/"));
	assert_true(path_is_under("/a/b", "/a/"));
	assert_false(path_is_under("/ab", "/a"));
	assert_false(path_is_under("/", "/a"));
}

static void check_join(const char *dir, const char *name, const char *expect)
{
	auto_free char *path = path_join(dir, name);

	assert_string_equal(path, expect);
}

static void join_puts_one_slash(void **state)
{
	check_join("/a", "b", "/a/b");
	check_join("/a/", "b", "/a/b");
	check_join("/", "/b", "/b");
	check_join("/a", "//b", "/a/b");
	check_join("", "b", "b");
}

static void normalize_is_lexical(void **state)
{
	static const char *const cases[][2] = {
		{ "/", "/" },
		{ "//", "/" },
		{ "/..", "/" },
		{ "/../../a", "/a" },
		{ "/a/./b//c/", "/a/b/c" },
		{ "/a/b/../c", "/a/c" },
		{ "/a/..", "/" },
		{ "/a/b/../..", "/" },
		{ "", "." },
		{ ".", "." },
		{ "./a", "a" },
		{ "a/..", "." },
		{ "a/b/..", "a" },
		{ "..", ".." },
		{ "../a", "../a" },
		{ "../../a/..", "../.." },
		{ "a/../..", ".." },
		{ "a/../../b", "../b" },
		{ "...", "..." },
		{ "/..a/.b", "/..a/.b" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *path = path_normalize(cases[i][0]);

		assert_string_equal(path, cases[i][1]);
	}
}

static void check_quote(const char *s, size_t n, const char *expect)
{
	auto_(buf) struct buf b = BUF_INIT;

	path_quote(&b, s, n);
	assert_string_equal(buf_str(&b), expect);
}

static void quoting_is_that_of_git(void **state)
{
	check_quote("a b", 3, "a b");
	check_quote("\xc3\xa4", 2, "\xc3\xa4");
	check_quote("a\nb\t\"\\", 6, "\"a\\nb\\t\\\"\\\\\"");
	check_quote("\x01\x07\x7f", 3, "\"\\001\\a\\177\"");
	check_quote("\xff", 1, "\"\\377\"");
	check_quote("\xc3\xa4\xc3", 3, "\"\xc3\xa4\\303\"");
	/* Right-to-left override; zero width space; a C1 control. */
	check_quote("\xe2\x80\xae", 3, "\"\\342\\200\\256\"");
	check_quote("\xe2\x80\x8b", 3, "\"\\342\\200\\213\"");
	check_quote("\xc2\x9b", 2, "\"\\302\\233\"");
	check_quote("", 0, "");
}

static void check_cut(const char *s, size_t max, const char *expect)
{
	auto_(buf) struct buf b = BUF_INIT;

	text_cut(&b, s, max);
	assert_string_equal(buf_str(&b), expect);
}

static void cutting_counts_characters(void **state)
{
	check_cut("abc", 2, "ab");
	check_cut("abc", 9, "abc");
	check_cut("\xc3\xa4\xf0\x9f\x98\x80z", 2, "\xc3\xa4\xf0\x9f\x98\x80");
	check_cut("\xff\xffz", 2, "\xff\xff");
	check_cut("abc", 0, "");
}

static void escaping_leaves_printable_text(void **state)
{
	auto_(buf) struct buf b = BUF_INIT;

	text_escape(&b, "a\x1b[0m\xc3\xa4\xed\xa0\x80\0", 11);
	assert_string_equal(buf_str(&b),
			    "a\\x1b[0m\xc3\xa4\\xed\\xa0\\x80\\x00");
}

static void utf8_is_strict(void **state)
{
	static const char *const bad[] = {
		"\x80",		    /* a continuation first */
		"\xc0\xaf",	    /* overlong */
		"\xe0\x80\xaf",	    /* overlong */
		"\xf0\x80\x80\xaf", /* overlong */
		"\xed\xa0\x80",	    /* surrogate */
		"\xf4\x90\x80\x80", /* over U+10FFFF */
		"\xf8\x88\x80\x80", /* five bytes */
		"\xe2\x82",	    /* cut */
		"\xc3(",	    /* no continuation */
	};
	uint32_t cp = 0;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(utf8_is_valid(bad[i], strlen(bad[i])));
	assert_int_equal(utf8_decode("\xf4\x8f\xbf\xbf", 4, &cp), 4);
	assert_int_equal(cp, 0x10ffff);
	assert_int_equal(utf8_decode("\xe2\x82\xac", 3, &cp), 3);
	assert_int_equal(cp, 0x20ac);
}

static void test_below(void **state)
{
	assert_string_equal(path_below("/a/b", "/a"), "/b");
	assert_string_equal(path_below("/a/b", "/"), "/a/b");
	assert_string_equal(path_below("/a", "/a"), "/");
	assert_string_equal(path_below("/", "/"), "/");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_below),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(under_respects_components),
		cmocka_unit_test(join_puts_one_slash),
		cmocka_unit_test(normalize_is_lexical),
		cmocka_unit_test(quoting_is_that_of_git),
		cmocka_unit_test(cutting_counts_characters),
		cmocka_unit_test(escaping_leaves_printable_text),
		cmocka_unit_test(utf8_is_strict),
	};

	return RUN_TESTS(tests);
}
