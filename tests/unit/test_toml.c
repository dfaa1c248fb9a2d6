#include "spec/toml.h"

#include "base/limits.h"
#include "unit.h"

static struct toml *parse(const char *text)
{
	struct error err = ERROR_INIT;
	struct toml *t = NULL;

	if (toml_parse(text, strlen(text), "t", &t, &err) < 0)
		fail_msg("%s", err.msg);
	return t;
}

static void check_refused(const char *text, const char *msg)
{
	struct error err = ERROR_INIT;
	struct toml *t = NULL;

	assert_int_equal(toml_parse(text, strlen(text), "t", &t, &err),
			 -EINVAL);
	assert_null(t);
	assert_int_equal(err.kind, ERR_USAGE);
	if (!strstr(err.msg, msg))
		assert_string_equal(err.msg, msg);
}

static void every_kind_of_value_is_read(void **state)
{
	static const struct {
		const char *text;
		enum toml_type type;
		const char *shown; /* the text, or the number */
	} rows[] = {
		{ "v = \"a\\tb\\u00e4\\U0001F600\"", TOML_STRING,
		  "a\tb\xc3\xa4\xf0\x9f\x98\x80" },
		{ "v = 'C:\\x'", TOML_STRING, "C:\\x" },
		{ "v = \"\"\"\na\\\n   b\"\"\"\"\"", TOML_STRING, "ab\"\"" },
		{ "v = '''\n'x'\r\n'''", TOML_STRING, "'x'\n" },
		{ "v = 0", TOML_INTEGER, "0" },
		{ "v = -9_223_372_036_854_775_808", TOML_INTEGER,
		  "-9223372036854775808" },
		{ "v = 0xdead_BEEF", TOML_INTEGER, "3735928559" },
		{ "v = 0o755", TOML_INTEGER, "493" },
		{ "v = 0b101", TOML_INTEGER, "5" },
		{ "v = 6.5e-3", TOML_FLOAT, "6.5e-3" },
		{ "v = -inf", TOML_FLOAT, "-inf" },
		{ "v = 2024-02-29", TOML_DATE, "2024-02-29" },
		{ "v = 2024-01-01 07:32:00.5+01:00", TOML_DATE,
		  "2024-01-01 07:32:00.5+01:00" },
		{ "v = 07:32:00", TOML_DATE, "07:32:00" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_ptr(toml_free) struct toml *t = parse(rows[i].text);
		const struct toml *v = toml_get(t, "v");
		char number[32];

		assert_int_equal(v->type, rows[i].type);
		(void)snprintf(number, sizeof(number), "%lld",
			       (long long)v->integer);
		assert_string_equal(v->text ? v->text : number, rows[i].shown);
	}
}

static void tables_are_put_together(void **state)
{
	auto_ptr(toml_free) struct toml *t = parse(
		"a.b = 1\na.'c d' = 2\n[x.y]\nz = [1, [2, 3], # c\n]\n[x]\n"
		"w = {p = {}, q.r = true}\n[[l]]\nn = 1\n[[l]]\n[l.m]\nn = "
		"2\n");
	const struct toml *l = toml_get(t, "l");
	const struct toml *x = toml_get(t, "x");

	assert_int_equal(toml_get(toml_get(t, "a"), "c d")->integer, 2);
	assert_int_equal(toml_get(toml_get(x, "y"), "z")->items[1]->n, 2);
	assert_true(toml_get(toml_get(toml_get(x, "w"), "q"), "r")->boolean);
	assert_int_equal(l->type, TOML_ARRAY);
	assert_int_equal(l->n, 2);
	assert_int_equal(toml_get(toml_get(l->items[1], "m"), "n")->integer, 2);
	assert_null(toml_get(x, "none"));
	assert_null(toml_get(l, "n"));
}

static void places_count_characters(void **state)
{
	auto_ptr(toml_free) struct toml *t =
		parse("# \xc3\xa4\r\n[s]\n\"\xc3\xa4\xc3\xa4\" = 'x'\n");
	const struct toml *v = toml_get(t, "s")->items[0];

	assert_int_equal(v->key_at.line, 3);
	assert_int_equal(v->key_at.column, 1);
	assert_int_equal(v->at.line, 3);
	assert_int_equal(v->at.column, 8);
}

static void what_is_wrong_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *msg;
	} rows[] = {
		{ "a = 1\na = 2\n", "t:2:1: 'a' is there already, in line 1" },
		{ "[a]\n[a]\n", "t:2:2: 'a' is there already, in line 1" },
		{ "a = {b = 1}\na.c = 2\n", "t:2:1: 'a' cannot be extended" },
		{ "a = {b = 1}\n[a.c]\n", "t:2:2: 'a' cannot be extended" },
		{ "a = []\n[[a]]\n", "t:2:3: 'a' is there already" },
		{ "[a.b]\n[a]\nb.c = 1\n", "t:3:1: 'b' cannot be extended" },
		{ "a.b = 1\n[a]\n", "t:2:2: 'a' is there already" },
		{ "a = {b = 1,}", "t:1:12: there should be a key here" },
		{ "a = {\nb = 1}", "t:1:6: there should be a key here" },
		{ "a = [1 2]", "t:1:8: there should be a ',' or ']' here" },
		{ "a = 1 b = 2", "t:1:7: the line should end here" },
		{ "a", "t:1:2: there should be a '=' here" },
		{ "a =", "t:1:4: there is no value" },
		{ "a = x", "t:1:5: 'x' is no value" },
		{ "a = 01", "t:1:5: '01' is no value" },
		{ "a = 1__0", "t:1:5: '1__0' is no value" },
		{ "a = 1.", "t:1:5: '1.' is no value" },
		{ "a = 9223372036854775808", "is out of range" },
		{ "a = 2023-02-29", "is no date or time" },
		{ "a = \"x", "t:1:5: the string is not closed" },
		{ "a = \"x\ny\"", "t:1:7: the string is not closed" },
		{ "a = \"\\x\"", "there is no such escape" },
		{ "a = \"\\ud800\"", "U+D800 is no character" },
		{ "a = \"\\u0000\"", "cannot have a NUL" },
		{ "a = \"\\u12g4\"", "hexadecimal" },
		{ "a = 1 # \x01", "t:1:9: a control character" },
		{ "a = 1\rb = 2", "the line should end here" },
		{ "a = '\xff'", "t:1:6: this is no valid UTF-8" },
		{ "\"\"\"a\"\"\" = 1", "a key is written in one line" },
		{ "[a\n", "t:1:3: there should be a ']' here" },
		{ "[[a]\n", "t:1:4: there should be a ']]' here" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_refused(rows[i].text, rows[i].msg);
}

/* @n times @open behind "a = ". */
static char *nested(const char *open, size_t n)
{
	auto_(buf) struct buf b = BUF_INIT;

	buf_add_str(&b, "a = ");
	for (size_t i = 0; i < n; i++)
		buf_add_str(&b, open);
	return buf_take(&b, NULL);
}

static void what_is_too_much_is_refused(void **state)
{
	auto_free char *arrays = nested("[", 100000);
	auto_free char *tables = nested("{a=", 100000);
	auto_free char *dots = nested("b.", 100000);
	auto_free char *values = nested("1,", LIMIT_TOML_VALUES + 1);
	auto_free char *large = calloc(1, LIMIT_TOML_BYTES + 2);
	struct error err = ERROR_INIT;
	struct toml *t = NULL;

	check_refused(arrays, "nested deeper than 32 levels");
	check_refused(tables, "nested deeper than 32 levels");
	check_refused(dots + 4, "nested deeper than 32 levels");
	values[3] = '[';
	check_refused(values, "more than 10000 values");
	memset(large, '\n', LIMIT_TOML_BYTES + 1);
	assert_int_equal(toml_parse(large, LIMIT_TOML_BYTES + 1, "t", &t, &err),
			 -EFBIG);
	assert_int_equal(toml_parse(large, LIMIT_TOML_BYTES, "t", &t, &err), 0);
	toml_free(t);
}

static void nothing_is_a_document(void **state)
{
	static const char *const texts[] = { "", "\xef\xbb\xbf", "# x",
					     "\r\n" };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_ptr(toml_free) struct toml *t = parse(texts[i]);

		assert_int_equal(t->n, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_value_is_read),
		cmocka_unit_test(tables_are_put_together),
		cmocka_unit_test(places_count_characters),
		cmocka_unit_test(what_is_wrong_is_refused_with_its_place),
		cmocka_unit_test(what_is_too_much_is_refused),
		cmocka_unit_test(nothing_is_a_document),
	};

	return RUN_TESTS(tests);
}
