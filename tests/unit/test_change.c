#include "branch_fixture.h"
#include "branch_rows.h"

static void check_diff(void **state)
{
	const struct row *row = *state;
	struct fixture f;

	fixture_open(&f, row->lower);
	fixture_run(&f, row->inside, NULL);
	assert_diff(&f, 0, row->diff);
	assert_diff(&f, CHANGE_WANT_CONFLICTS, row->diff);
	fixture_close(&f);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_LEN(rows)];

	if (geteuid() != 0)
		return unit_needs_root();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = rows[i].name,
			.test_func = check_diff,
			.initial_state = (void *)&rows[i],
		};
	return RUN_TESTS(tests);
}
