#include "base/idmap.h"

#include "unit.h"

static void ids_are_mapped_by_extent(void **state)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;
	uint32_t id = 9;

	assert_true(idmap_is_empty(&m));
	assert_int_equal(idmap_to_outside(&m.uids, 0, &id), -ERANGE);
	assert_int_equal(idmap_add(&m.uids, 0, 1000, 1), 0);
	assert_int_equal(idmap_add(&m.uids, 1, 100000, 65536), 0);
	assert_false(idmap_is_empty(&m));
	assert_int_equal(idmap_to_outside(&m.uids, 0, &id), 0);
	assert_int_equal(id, 1000);
	assert_int_equal(idmap_to_outside(&m.uids, 65536, &id), 0);
	assert_int_equal(id, 165535);
	assert_int_equal(idmap_to_outside(&m.uids, 65537, &id), -ERANGE);
	assert_int_equal(id, 165535);
	assert_true(idmap_has_outside(&m.uids, 1000));
	assert_false(idmap_has_outside(&m.uids, 1001));
	assert_true(idmap_has_outside(&m.uids, 165535));
	assert_false(idmap_has_outside(&m.uids, 165536));
}

static void the_ends_of_the_range_do_not_wrap(void **state)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;
	uint32_t id;

	assert_int_equal(idmap_add(&m.gids, 4294967290u, 0, 5), 0);
	assert_int_equal(idmap_to_outside(&m.gids, 4294967294u, &id), 0);
	assert_int_equal(id, 4);
	assert_int_equal(idmap_to_outside(&m.gids, 4294967295u, &id), -ERANGE);
	assert_int_equal(idmap_to_outside(&m.gids, 0, &id), -ERANGE);
	assert_int_equal(idmap_add(&m.uids, 0, 4294967295u, 2), 0);
	assert_int_equal(idmap_to_outside(&m.uids, 1, &id), -ERANGE);
	assert_false(idmap_has_outside(&m.uids, 0));
}

static void a_copy_is_independent(void **state)
{
	auto_(idmap) struct idmap copy = IDMAP_INIT;
	struct idmap m = IDMAP_INIT;

	assert_int_equal(idmap_add(&m.uids, 0, 1000, 1), 0);
	assert_int_equal(idmap_add(&m.gids, 0, 2000, 1), 0);
	assert_int_equal(idmap_copy(&m, &copy), 0);
	idmap_done(&m);
	assert_true(idmap_is_empty(&m));
	assert_int_equal(copy.uids.n, 1);
	assert_int_equal(copy.uids.extents[0].outside, 1000);
	assert_int_equal(copy.gids.extents[0].outside, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_mapped_by_extent),
		cmocka_unit_test(the_ends_of_the_range_do_not_wrap),
		cmocka_unit_test(a_copy_is_independent),
	};

	return RUN_TESTS(tests);
}
