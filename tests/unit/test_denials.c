/* What is kept of refusals, and how it is told. */
#include <sys/prctl.h>

#include "base/json.h"
#include "supervise/denials.h"
#include "unit.h"

CLEANUP_PTR(struct json, json_free);

static const struct json_limits limits = { 8 * 1024 * 1024, 16, 1000 * 1000 };

static struct json *page(struct denials *d, uint64_t after, size_t max)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct json *j = NULL;

	assert_int_equal(denials_page(d, after, max, &b), 0);
	assert_int_equal(json_parse(b.data, b.len, &limits, "page", &j, NULL),
			 0);
	return j;
}

static void the_same_again_is_counted(void **state)
{
	auto_ptr(denials_free) struct denials *d = denials_new();
	struct denial x = {
		.code = "net.connect_tcp",
		.call = "connect",
		.error = EACCES,
		.object = "192.0.2.1:443",
		.rule = "network.deny 192.0.2.0/24",
		.where = "dev.toml:3:9",
		.remedy = "--net-allow 192.0.2.1:443",
	};
	auto_ptr(json_free) struct json *j = NULL;
	const struct json *v;

	for (int i = 0; i < 3; i++)
		denials_add(d, getpid(), &x);
	x.object = "192.0.2.2:443";
	x.rule = x.where = x.remedy = NULL;
	denials_add(d, getpid(), &x);
	assert_int_equal(denials_count(d), 2);
	j = page(d, 0, 65536);
	v = json_get(j, "denials");
	assert_int_equal(v->n, 2);
	assert_int_equal(json_int_or(&v->items[0], "count", 0), 3);
	assert_string_equal(json_str_or(&v->items[0], "errno", ""), "EACCES");
	assert_string_equal(json_str_or(&v->items[0], "where", ""),
			    "dev.toml:3:9");
	assert_int_equal(json_int_or(&v->items[0], "pid", 0), getpid());
	assert_true(*json_str_or(&v->items[0], "program", ""));
	assert_int_equal(json_int_or(&v->items[1], "count", 0), 1);
	assert_int_equal(json_get(&v->items[1], "rule")->type, JSON_NULL);
}

static void what_is_not_bounded_is_cut(void **state)
{
	auto_ptr(denials_free) struct denials *d = denials_new();
	auto_ptr(json_free) struct json *j = NULL;
	char path[5000];
	struct denial x = { .code = "fs.read_file",
			    .call = "openat",
			    .error = EACCES,
			    .object = path };
	const char *object;

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	denials_add(d, getpid(), &x);
	j = page(d, 0, 65536);
	object = json_str_or(&json_get(j, "denials")->items[0], "object", "");
	assert_int_equal(strlen(object), DENIAL_OBJECT_MAX);
	assert_string_equal(object + DENIAL_OBJECT_MAX - 3, "...");
}

static void names_are_bytes(void **state)
{
	auto_ptr(denials_free) struct denials *d = denials_new();
	auto_(buf) struct buf b = BUF_INIT;
	struct denial x = { .code = "fs.read_file",
			    .call = "openat",
			    .error = EACCES,
			    .object = "\xff\x1b[31m" };

	denials_add(d, getpid(), &x);
	assert_int_equal(denials_page(d, 0, 65536, &b), 0);
	assert_non_null(strstr(b.data, "\"b64\":"));
	assert_null(strchr(b.data, '\x1b'));
}

static void the_oldest_makes_room_and_pages_are_complete(void **state)
{
	auto_ptr(denials_free) struct denials *d = denials_new();
	uint64_t after = 0, seen = 0;
	char object[32];
	struct denial x = {
		.code = "x", .call = "y", .error = EPERM, .object = object
	};
	bool more = true;

	for (int i = 1; i <= DENIALS_MAX + 10; i++) {
		(void)snprintf(object, sizeof(object), "%d", i);
		denials_add(d, getpid(), &x);
	}
	assert_int_equal(denials_count(d), DENIALS_MAX);
	while (more) {
		auto_ptr(json_free) struct json *j = page(d, after, 4096);
		const struct json *v = json_get(j, "denials");

		assert_int_equal(json_int_or(j, "dropped", 0), 10);
		assert_true(v->n > 0);
		for (size_t i = 0; i < v->n; i++)
			assert_int_equal(json_int_or(&v->items[i], "id", 0),
					 11 + seen++);
		more = json_get(j, "next")->type == JSON_NUMBER;
		after = (uint64_t)json_int_or(j, "next", 0);
	}
	assert_int_equal(seen, DENIALS_MAX);
}

static void count_told(void *data, const char *json)
{
	assert_int_equal(json[0], '{');
	assert_int_equal(json[strlen(json) - 1], '}');
	++*(int *)data;
}

static void who_listens_is_told_of_each(void **state)
{
	auto_ptr(denials_free) struct denials *d = denials_new();
	struct denial x = { .code = "x", .call = "y", .error = EPERM };
	int n = 0;

	denials_add(NULL, getpid(), &x);
	denials_tell(d, count_told, &n);
	denials_add(d, getpid(), &x);
	denials_add(d, getpid(), &x);
	denials_tell(d, NULL, NULL);
	denials_add(d, getpid(), &x);
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_again_is_counted),
		cmocka_unit_test(what_is_not_bounded_is_cut),
		cmocka_unit_test(names_are_bytes),
		cmocka_unit_test(the_oldest_makes_room_and_pages_are_complete),
		cmocka_unit_test(who_listens_is_told_of_each),
	};

	return RUN_TESTS(tests);
}
