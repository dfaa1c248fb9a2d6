#include "branch_fixture.h"
#include "branch_rows.h"

static void commit(struct fixture *f, enum conflict_mode mode)
{
	const struct commit_options o = { .conflicts = mode,
					  .lock_timeout_ms = 5000 };
	struct commit_result result = { .gone = false };
	struct error err = ERROR_INIT;

	if (!f->branch)
		return;
	if (branch_commit(f->branch, &o, &result, &err) < 0)
		fail_msg("%s (%s)", err.msg, err.hint);
	assert_true(result.gone);
}

static void assert_committed(struct fixture *f)
{
	char *got = snapshot(f->lower);

	assert_string_equal(got, f->seen);
	free(got);
}

static void check_row(void **state)
{
	const struct row *row = *state;
	struct fixture f;

	fixture_open(&f, row->lower);
	fixture_run(&f, row->inside, NULL);
	commit(&f, CONFLICT_REFUSE);
	if (!row->differs)
		assert_committed(&f);
	fixture_close(&f);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_LEN(rows)];

	if (geteuid() != 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = rows[i].name,
			.test_func = check_row,
			.initial_state = (void *)&rows[i],
		};
	return RUN_TESTS(tests);
}
