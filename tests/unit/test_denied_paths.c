/* What a callback has denied while the sandbox runs. */
#include <stdio.h>

#include "supervise/denied_paths.h"
#include "unit.h"

static void below_and_no_more(void **state)
{
	auto_ptr(denied_paths_free) struct denied_paths *d = denied_paths_new();

	assert_int_equal(denied_paths_add(d, "/a/b"), 0);
	assert_int_equal(denied_paths_add(d, "a"), -EINVAL);
	assert_true(denied_paths_has(d, "/a/b/c", NULL));
	assert_true(denied_paths_has(d, "/link", "/a/b"));
	assert_false(denied_paths_has(d, "/a/bc", NULL));
	denied_paths_remove(d, "/a/b");
	assert_false(denied_paths_has(d, "/a/b", NULL));
	assert_false(denied_paths_has(NULL, "/a/b", NULL));
}

/* Better everything than one that is forgotten. */
static void what_does_not_fit_denies_all(void **state)
{
	auto_ptr(denied_paths_free) struct denied_paths *d = denied_paths_new();
	char path[32];

	for (int i = 0; i < DENIED_PATHS_MAX; i++) {
		(void)snprintf(path, sizeof(path), "/p/%d", i);
		assert_int_equal(denied_paths_add(d, path), 0);
	}
	assert_false(denied_paths_has(d, "/q", NULL));
	assert_int_equal(denied_paths_add(d, "/p/0"), 0);
	assert_int_equal(denied_paths_add(d, "/q"), -ENOSPC);
	assert_true(denied_paths_has(d, "/q", NULL));
	assert_true(denied_paths_has(d, "/anything", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_and_no_more),
		cmocka_unit_test(what_does_not_fit_denies_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
