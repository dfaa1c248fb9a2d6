/* Properties of units: annotations, and limits of either kind of cgroups. */
#include "unit.h"

#include "kernel/cgroup_internal.h"
#include "kernel/systemd.h"
#include "spec/spec.h"
#include "spec/unit_property.h"

static struct error err;

/* The words with blanks between them. */
static const char *text_of(struct buf *words)
{
	for (size_t i = 0; i + 1 < words->len; i++)
		if (words->data[i] == '\0')
			words->data[i] = ' ';
	return buf_str(words);
}

static void test_values_become_words(void **state)
{
	/* clang-format off */
	static const struct {
		const char *name, *text, *words;
	} rows[] = {
		{ "A", "true", "A b true" },
		{ "A", " false ", "A b false" },
		{ "A", "7", "A i 7" },
		{ "A", "-7", "A i -7" },
		{ "A", "0.5", "A d 0.5" },
		{ "A", "byte 255", "A y 255" },
		{ "A", "uint64 18446744073709551615",
		  "A t 18446744073709551615" },
		{ "A", "int64 -9223372036854775808",
		  "A x -9223372036854775808" },
		{ "A", "'it\\'s'", "A s it's" },
		{ "A", "\"\"", "A s " },
		{ "A", "['a', \"b\"]", "A as 2 a b" },
		{ "A", "[uint32 1, 2]", "A au 2 1 2" },
		{ "A", "@as []", "A as 0" },
		{ "A", "@ay [1, 2]", "A ay 2 1 2" },
		{ "A", "@t 7", "A t 7" },
		{ "RuntimeMaxUSec", "uint64 7", "RuntimeMaxUSec t 7" },
		{ "RuntimeMaxSec", "uint64 7", "RuntimeMaxUSec t 7000000" },
		{ "RuntimeMaxSec", "0.25", "RuntimeMaxUSec t 250000" },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_(buf) struct buf words = BUF_INIT;

		assert_int_equal(unit_property_parse(rows[i].name, rows[i].text,
						     &words, &err),
				 0);
		assert_string_equal(text_of(&words), rows[i].words);
	}
}

static void test_what_is_no_value_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"maybe",
		"truely",
		"uint64",
		"uint64 -1",
		"byte 256",
		"2147483648",
		"7 7",
		"'a",
		"\"a'",
		"'\\n'",
		"[]",
		"[1",
		"[1,]",
		"[1, 'a']",
		"[['a']]",
		"@a []",
		"@s 7",
		"@as 'a'",
		"@s ['a']",
		"(1, 2)",
		"{'a': 1}",
		"<7>",
		"1.2.3",
		"0x7",
		"- 7",
		"just 7",
		"objectpath '/'",
	};
	static const char *const bad_names[] = { "", "A B", "A-B", "PIDs" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_(buf) struct buf words = BUF_INIT;

		assert_int_equal(unit_property_parse("A", bad[i], &words, &err),
				 -EINVAL);
		assert_int_equal(err.kind, ERR_BUNDLE);
		assert_int_equal(words.len, 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad_names); i++) {
		auto_(buf) struct buf words = BUF_INIT;

		assert_int_equal(
			unit_property_parse(bad_names[i], "7", &words, &err),
			-EINVAL);
	}
}

static struct spec_resources *resources(const char *json)
{
	struct spec_resources *r = NULL;

	assert_int_equal(
		spec_resources_parse(json, strlen(json), NULL, &r, &err), 0);
	return r;
}

static void check_limits(enum cgroup_mode mode, const char *json,
			 const char *words)
{
	auto_(systemd_props) struct systemd_props p = SYSTEMD_PROPS_INIT;
	const struct cgroup c = { .mode = mode };
	struct spec_resources *r = resources(json);

	assert_int_equal(cgroup_unit_limits(&c, r, &p, &err), 0);
	assert_string_equal(text_of(&p.words), words);
	spec_resources_free(r);
}

static void test_limits_of_v2(void **state)
{
	(void)state;
	check_limits(CGROUP_V2, "{}", "");
	check_limits(CGROUP_V2,
		     "{\"memory\":{\"limit\":100,\"reservation\":50,"
		     "\"swap\":130}}",
		     "MemorySwapMax t 30 MemoryMax t 100 MemoryLow t 50");
	check_limits(CGROUP_V2, "{\"memory\":{\"limit\":-1}}",
		     "MemorySwapMax t 18446744073709551615 "
		     "MemoryMax t 18446744073709551615");
	check_limits(CGROUP_V2,
		     "{\"cpu\":{\"shares\":1024,\"quota\":12345,"
		     "\"cpus\":\"0-2,9\",\"mems\":\"0\"}}",
		     "CPUWeight t 100 CPUQuotaPerSecUSec t 130000 "
		     "AllowedCPUs ay 2 7 2 AllowedMemoryNodes ay 1 1");
	check_limits(CGROUP_V2, "{\"cpu\":{\"quota\":-1,\"period\":50000}}",
		     "CPUQuotaPeriodUSec t 50000 "
		     "CPUQuotaPerSecUSec t 18446744073709551615");
	check_limits(CGROUP_V2, "{\"pids\":{\"limit\":0}}", "TasksMax t 1");
	check_limits(CGROUP_V2, "{\"blockIO\":{\"weight\":1000}}",
		     "IOWeight t 10000");
	check_limits(CGROUP_V2,
		     "{\"unified\":{\"memory.high\":\"70\","
		     "\"pids.max\":\"max\",\"cpu.max\":\"20000 50000\","
		     "\"cpuset.cpus\":\"1\",\"hugetlb.2MB.max\":\"0\"}}",
		     "MemoryHigh t 70 TasksMax t 18446744073709551615 "
		     "CPUQuotaPeriodUSec t 50000 CPUQuotaPerSecUSec t 400000 "
		     "AllowedCPUs ay 1 2");
}

static void test_weights_are_those_of_others(void **state)
{
	static const unsigned int rows[][2] = {
		{ 2, 1 },	   { 3, 2 },	  { 512, 59 },
		{ 1024, 100 },	   { 2048, 174 }, { 100000, 4340 },
		{ 262144, 10000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(cgroup_weight_of(rows[i][0]), rows[i][1]);
}

static void test_limits_of_v1(void **state)
{
	(void)state;
	check_limits(CGROUP_HYBRID,
		     "{\"memory\":{\"limit\":100,\"reservation\":50},"
		     "\"cpu\":{\"shares\":512,\"cpus\":\"0\"},"
		     "\"pids\":{\"limit\":-1},\"blockIO\":{\"weight\":500}}",
		     "MemoryLimit t 100 CPUShares t 512 "
		     "TasksMax t 18446744073709551615 BlockIOWeight t 500");
}

static void test_devices_of_v1(void **state)
{
	/* What every container gets, but for the driver of pts. */
	static const char rest[] =
		"char-* m block-* m /dev/char/1:3 rwm /dev/char/1:5 rwm "
		"/dev/char/1:7 rwm /dev/char/1:8 rwm /dev/char/1:9 rwm "
		"/dev/char/5:0 rwm /dev/char/5:2 rwm";
	auto_(buf) struct buf words = BUF_INIT;

	(void)state;
	/* The order of b and c in "a", a deny that takes from an allow. */
	buf_printf(&words,
		   "DevicePolicy s strict DeviceAllow a(ss) 13 "
		   "/dev/block/8:1 r /dev/char/8:1 r /dev/block/7:0 w %s "
		   "char-pts rwm",
		   rest);
	check_limits(CGROUP_HYBRID,
		     "{\"devices\":[{\"allow\":true,\"type\":\"c\","
		     "\"major\":9,\"minor\":9},"
		     "{\"allow\":false,\"access\":\"rwm\"},"
		     "{\"allow\":true,\"major\":8,\"minor\":1,"
		     "\"access\":\"rw\"},"
		     "{\"allow\":false,\"major\":8,\"access\":\"w\"},"
		     "{\"allow\":true,\"type\":\"b\",\"major\":7,"
		     "\"minor\":0,\"access\":\"w\"},"
		     "{\"allow\":true,\"type\":\"b\",\"minor\":3,"
		     "\"access\":\"w\"}]}",
		     buf_str(&words));
	/* All is allowed but this: no list says that. */
	check_limits(CGROUP_HYBRID,
		     "{\"devices\":[{\"allow\":false,\"type\":\"c\","
		     "\"major\":9,\"minor\":9,\"access\":\"r\"}]}",
		     "");
	check_limits(CGROUP_V2,
		     "{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]}",
		     "");
}

static void test_sets_that_are_none_are_refused(void **state)
{
	static const char *const bad[] = { "a",	  "0-",	  "3-1", "0,,1",
					   "0 1", "8192", "-1",	 "1," };
	const struct cgroup c = { .mode = CGROUP_V2 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_(systemd_props) struct systemd_props p =
			SYSTEMD_PROPS_INIT;
		struct spec_resources r = { .cpu_cpus = (char *)bad[i] };

		assert_int_equal(cgroup_unit_limits(&c, &r, &p, &err), -EINVAL);
		assert_int_equal(err.kind, ERR_BUNDLE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_become_words),
		cmocka_unit_test(test_what_is_no_value_is_refused),
		cmocka_unit_test(test_limits_of_v2),
		cmocka_unit_test(test_weights_are_those_of_others),
		cmocka_unit_test(test_limits_of_v1),
		cmocka_unit_test(test_devices_of_v1),
		cmocka_unit_test(test_sets_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
