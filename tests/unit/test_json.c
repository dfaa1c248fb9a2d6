#include "base/json.h"

#include "unit.h"

static const struct json_limits limits = {
	.bytes = 1000,
	.depth = 8,
	.values = 20,
};

static struct json *parse(const char *text)
{
	struct error err = ERROR_INIT;
	struct json *j = NULL;

	assert_int_equal(json_parse(text, strlen(text), &limits, "t", &j, &err),
			 0);
	assert_non_null(j);
	return j;
}

static void check_refused_n(const char *text, size_t n, int code,
			    const char *msg)
{
	struct json *j = (struct json *)&limits;
	struct error err = ERROR_INIT;

	assert_int_equal(json_parse(text, n, &limits, "t", &j, &err), code);
	assert_ptr_equal(j, &limits);
	assert_int_equal(err.kind, ERR_BUNDLE);
	if (!strstr(err.msg, msg))
		assert_string_equal(err.msg, msg);
	assert_int_equal(json_parse(text, n, &limits, "t", &j, NULL), code);
}

static void check_refused(const char *text, int code, const char *msg)
{
	check_refused_n(text, strlen(text), code, msg);
}

static void a_tree_is_read(void **state)
{
	struct json *j = parse("{\"a\":[1,{\"b\":null},\"x\"],\"c\":true,"
			       "\"d\":{},\"e\":\"\\u00e4\\n\"}");
	const struct json *a = json_get(j, "a");

	assert_int_equal(j->type, JSON_OBJECT);
	assert_int_equal(j->n, 4);
	assert_int_equal(a->type, JSON_ARRAY);
	assert_int_equal(a->n, 3);
	assert_string_equal(a->items[0].text, "1");
	assert_int_equal(json_get(&a->items[1], "b")->type, JSON_NULL);
	assert_string_equal(json_str_or(j, "e", "-"), "\xc3\xa4\n");
	assert_true(json_bool_or(j, "c", false));
	assert_int_equal(json_get(j, "d")->n, 0);
	assert_null(json_get(j, "z"));
	assert_null(json_get(a, "z"));
	assert_null(json_get(NULL, "z"));
	assert_string_equal(json_str_or(j, "c", "dflt"), "dflt");
	assert_int_equal(json_int_or(j, "z", -3), -3);
	json_free(j);
}

static void a_scalar_is_a_document(void **state)
{
	struct json *j = parse(" 17 ");

	assert_int_equal(j->type, JSON_NUMBER);
	json_free(j);
	json_free(NULL);
}

static void malformed_text_is_refused(void **state)
{
	static const char *const bad[] = {
		"",	      " ",	"{",	    "[1",      "[1,]",
		"{\"a\"}",    "01",	"1 2",	    "{} x",    "nul",
		"'a'",	      "[1] []", "\"a\nb\"", "+1",      "1.",
		"[/**/1]",    "// x",	"NaN",	    "\"\\x\"", "\xef\xbb\xbf{}",
		"{\"a\":1,}", "-",	"\"abc",    "{\"a\":", "]",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_refused(bad[i], -EINVAL, "'t' is no valid JSON: line ");
	check_refused("{\n\n \"a\": x }", -EINVAL, "line 3: ");
}

static void strings_are_strict(void **state)
{
	check_refused("\"a\\u0000b\"", -EINVAL,
		      "t: the string has a NUL in it");
	check_refused("{\"a\":[1,{\"b\":\"\\u0000\"}]}", -EINVAL,
		      "t: a[1].b: the string has a NUL in it");
	check_refused("{\"a\":[{\"\\u0000\":1}]}", -EINVAL,
		      "t: a[0]: a key has a NUL in it");
	check_refused("{\"\\u0000\":1}", -EINVAL, "NUL");
	check_refused_n("\"a\0b\"", 5, -EINVAL, "JSON");
	check_refused_n("1\0", 2, -EINVAL, "JSON");
	check_refused("\"\xff\"", -EINVAL, "UTF8");
	check_refused("\"\xed\xa0\x80\"", -EINVAL, "UTF-8");
	check_refused("\"\xc0\xaf\"", -EINVAL, "UTF-8");
	check_refused("\"\\ud800\"", -EINVAL, "surrogate");
	check_refused("\"\\ud800\\u0041\"", -EINVAL, "surrogate");
	check_refused("\n\"\\udc00\"", -EINVAL, "line 2: half of a surrogate");
	check_refused("\"\\ud83d\"", -EINVAL, "surrogate");
}

static void surrogate_pairs_are_joined(void **state)
{
	struct json *j = parse("\"\\\\ud800 \\uD83D\\uDE00\"");

	assert_string_equal(j->text, "\\ud800 \xf0\x9f\x98\x80");
	json_free(j);
}

static void duplicate_keys_are_refused(void **state)
{
	check_refused("{\"a\":1,\"b\":2,\"a\":3}", -EINVAL,
		      "has the key 'a' twice");
	check_refused("{\"x\":{\"\\n\":1,\"\\n\":2}}", -EINVAL,
		      "has the key '\\x0a' twice");
	json_free(parse("{\"a\":{\"a\":1},\"b\":{\"a\":1}}"));
}

static void limits_hold(void **state)
{
	char big[1002];

	json_free(parse("[[[[[[[[]]]]]]]]"));
	check_refused("[[[[[[[[[]]]]]]]]]", -E2BIG, "deeper than 8 levels");
	check_refused("[{\"a\":[{\"a\":[{\"a\":[{\"a\":[1]}]}]}]}]", -E2BIG,
		      "deeper than 8 levels");
	json_free(parse("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"));
	check_refused("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", -E2BIG,
		      "more than 20 values");
	memset(big, ' ', sizeof(big));
	big[0] = '1';
	check_refused_n(big, 1001, -EFBIG, "larger than 1000 bytes");
}

static void a_deep_tree_is_freed_without_recursion(void **state)
{
	static const struct json_limits wide = { 10000000, 2000000, 5000000 };
	size_t depth = 1000000;
	char *text = malloc(2 * depth);
	struct json *j = NULL;

	assert_non_null(text);
	memset(text, '[', depth);
	memset(text + depth, ']', depth);
	assert_int_equal(json_parse(text, 2 * depth, &wide, "t", &j, NULL), 0);
	json_free(j);
	assert_int_equal(json_parse(text, depth, &wide, "t", &j, NULL),
			 -EINVAL);
	free(text);
}

static void check_number(const char *text, int signed_code, int64_t i,
			 int unsigned_code, uint64_t u)
{
	struct json *j = parse(text);
	int64_t got_i = 0;
	uint64_t got_u = 0;

	assert_int_equal(json_int64(j, &got_i), signed_code);
	assert_true(got_i == i);
	assert_int_equal(json_uint64(j, &got_u), unsigned_code);
	assert_true(got_u == u);
	json_free(j);
}

static void numbers_are_exact(void **state)
{
	check_number("0", 0, 0, 0, 0);
	check_number("-0", 0, 0, 0, 0);
	check_number("-1", 0, -1, -ERANGE, 0);
	check_number("9223372036854775807", 0, INT64_MAX, 0, INT64_MAX);
	check_number("-9223372036854775808", 0, INT64_MIN, -ERANGE, 0);
	check_number("9223372036854775808", -ERANGE, 0, 0,
		     9223372036854775808u);
	check_number("-9223372036854775809", -ERANGE, 0, -ERANGE, 0);
	check_number("18446744073709551615", -ERANGE, 0, 0, UINT64_MAX);
	check_number("18446744073709551616", -ERANGE, 0, -ERANGE, 0);
	check_number("1.5", -EINVAL, 0, -EINVAL, 0);
	check_number("1e3", -EINVAL, 0, -EINVAL, 0);
	check_number("\"1\"", -EINVAL, 0, -EINVAL, 0);
}

/* More than a block holds, arrays that have moved, and a string of its own. */
static void a_tree_of_many_blocks(void **state)
{
	enum { MEMBERS = 3000, LONG = 300 * 1024 };
	static const struct json_limits wide = { 1 << 20, 8, 1 << 20 };
	auto_(buf) struct buf b = BUF_INIT;
	char key[16];
	struct json *j;

	buf_printf(&b, "{\"long\":\"");
	for (int i = 0; i < LONG; i++)
		buf_add_char(&b, 'x');
	buf_printf(&b, "\"");
	for (int i = 0; i < MEMBERS; i++)
		buf_printf(&b, ",\"k%d\":[%d,\"v%d\"]", i, i, i);
	buf_add_char(&b, '}');
	assert_int_equal(json_parse(b.data, b.len, &wide, "t", &j, NULL), 0);
	assert_int_equal(j->n, MEMBERS + 1);
	assert_int_equal(strlen(json_str_or(j, "long", "")), LONG);
	for (int i = 0; i < MEMBERS; i++) {
		const struct json *v;
		int64_t n = -1;

		(void)snprintf(key, sizeof(key), "k%d", i);
		v = json_get(j, key);
		assert_int_equal(v->n, 2);
		assert_int_equal(json_int64(&v->items[0], &n), 0);
		assert_int_equal(n, i);
		key[0] = 'v';
		assert_string_equal(v->items[1].text, key);
	}
	json_free(j);
}

static void a_part_becomes_the_root(void **state)
{
	struct json *j = parse("{\"a\":{\"b\":[1,2]},\"c\":true}");

	json_narrow(j, json_get(j, "a"));
	assert_int_equal(json_get(j, "b")->n, 2);
	assert_null(json_get(j, "c"));
	json_narrow(j, json_get(j, "nothing"));
	assert_int_equal(j->type, JSON_NULL);
	json_free(j);
}

static void check_written(struct json_out *o, const char *expect)
{
	auto_(buf) struct buf b = BUF_INIT;

	assert_int_equal(json_out_end(o, &b), 0);
	assert_string_equal(buf_str(&b), expect);
	json_out_free(o);
}

static void the_writer_is_compact(void **state)
{
	struct json_out *o = json_out_new(false);

	json_out_object(o);
	json_out_str_member(o, "s", "q\"\\\n\x01\x7f");
	json_out_int_member(o, "i", INT64_MIN);
	json_out_uint_member(o, "u", UINT64_MAX);
	json_out_bool_member(o, "b", true);
	json_out_str_member(o, "n", NULL);
	json_out_key(o, "a");
	json_out_array(o);
	json_out_null(o);
	json_out_object(o);
	json_out_object_end(o);
	json_out_array_end(o);
	json_out_object_end(o);
	check_written(o, "{\"s\":\"q\\\"\\\\\\n\\u0001\\u007f\","
			 "\"i\":-9223372036854775808,"
			 "\"u\":18446744073709551615,\"b\":true,"
			 "\"n\":null,\"a\":[null,{}]}\n");
}

static void the_writer_indents(void **state)
{
	struct json_out *o = json_out_new(true);

	json_out_object(o);
	json_out_key(o, "a");
	json_out_array(o);
	json_out_int(o, 1);
	json_out_int(o, 2);
	json_out_array_end(o);
	json_out_key(o, "e");
	json_out_array(o);
	json_out_array_end(o);
	json_out_object_end(o);
	check_written(o,
		      "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"e\": []\n}\n");
}

static void foreign_bytes_stay_readable(void **state)
{
	struct json_out *o = json_out_new(false);

	json_out_array(o);
	json_out_str(o, "a\xff\xe2\x80\xae\xf3\xa0\x80\x81");
	json_out_bytes(o, "ok", 2);
	json_out_bytes(o, "a\xff", 2);
	json_out_bytes(o, "\xff", 1);
	json_out_bytes(o, "a\0b", 3);
	json_out_array_end(o);
	check_written(o, "[\"a\xef\xbf\xbd\\u202e\\udb40\\udc01\",\"ok\","
			 "{\"b64\":\"Yf8=\",\"display\":\"a\\\\xff\"},"
			 "{\"b64\":\"/w==\",\"display\":\"\\\\xff\"},"
			 "{\"b64\":\"YQBi\",\"display\":\"a\\\\x00b\"}]\n");
}

static void a_tree_is_written_back(void **state)
{
	static const char text[] = "{\"a\":[1.50,{\"b\":[[],{}]},\"x\"],"
				   "\"c\":[true,null]}";
	struct json *j = parse(text);
	struct json_out *o = json_out_new(false);

	json_out_array(o);
	json_out_value(o, j);
	json_out_value(o, &json_get(j, "a")->items[2]);
	json_out_array_end(o);
	check_written(o, "[{\"a\":[1.50,{\"b\":[[],{}]},\"x\"],"
			 "\"c\":[true,null]},\"x\"]\n");
	json_free(j);
}

static void check_misuse(struct json_out *o)
{
	auto_(buf) struct buf b = BUF_INIT;

	assert_int_equal(json_out_end(o, &b), -EINVAL);
	assert_int_equal(b.len, 0);
	json_out_free(o);
}

static void misuse_is_reported(void **state)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct json_out *o = json_out_new(false);

	check_misuse(o);
	o = json_out_new(false);
	json_out_array(o);
	check_misuse(o);
	o = json_out_new(false);
	json_out_object(o);
	json_out_int(o, 1);
	json_out_object_end(o);
	check_misuse(o);
	o = json_out_new(false);
	json_out_object(o);
	json_out_key(o, "a");
	json_out_object_end(o);
	check_misuse(o);
	o = json_out_new(false);
	json_out_int(o, 1);
	json_out_int(o, 1);
	check_misuse(o);
	o = json_out_new(false);
	json_out_array(o);
	json_out_object_end(o);
	check_misuse(o);
	o = json_out_new(false);
	for (int i = 0; i < 129; i++)
		json_out_array(o);
	for (int i = 0; i < 129; i++)
		json_out_array_end(o);
	check_misuse(o);
	json_out_object(NULL);
	json_out_str_member(NULL, "a", "b");
	json_out_bytes(NULL, "x", 1);
	assert_int_equal(json_out_end(NULL, &b), -ENOMEM);
}

static void a_tree_deeper_than_the_writer_is_an_error(void **state)
{
	static const struct json_limits wide = { 1000, 500, 500 };
	struct json_out *o = json_out_new(false);
	struct json *j = NULL;
	char text[400];

	memset(text, '[', 200);
	memset(text + 200, ']', 200);
	assert_int_equal(json_parse(text, 400, &wide, "t", &j, NULL), 0);
	json_out_value(o, j);
	check_misuse(o);
	json_free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_is_read),
		cmocka_unit_test(a_scalar_is_a_document),
		cmocka_unit_test(malformed_text_is_refused),
		cmocka_unit_test(strings_are_strict),
		cmocka_unit_test(surrogate_pairs_are_joined),
		cmocka_unit_test(duplicate_keys_are_refused),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(a_deep_tree_is_freed_without_recursion),
		cmocka_unit_test(numbers_are_exact),
		cmocka_unit_test(a_tree_of_many_blocks),
		cmocka_unit_test(a_part_becomes_the_root),
		cmocka_unit_test(the_writer_is_compact),
		cmocka_unit_test(the_writer_indents),
		cmocka_unit_test(foreign_bytes_stay_readable),
		cmocka_unit_test(a_tree_is_written_back),
		cmocka_unit_test(misuse_is_reported),
		cmocka_unit_test(a_tree_deeper_than_the_writer_is_an_error),
	};

	return RUN_TESTS(tests);
}
