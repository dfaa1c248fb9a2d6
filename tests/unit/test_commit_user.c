/* The table of cases as an ordinary user, without and with subordinate ids. */
#include "branch_fixture.h"
#include "branch_rows.h"

#include "unit_user.h"

#include "base/subid.h"

static void commit(struct fixture *f)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result result = { .gone = false };

	if (!f->branch)
		return;
	if (branch_commit(f->branch, &o, &result, &err) < 0)
		fail_msg("%s (%s)", err.msg, err.hint);
	assert_true(result.gone);
}

static void check_row(void **state)
{
	const struct row *row = *state;
	struct fixture f;
	char *got;

	fixture_open(&f, row->lower);
	fixture_run(&f, row->inside, NULL);
	assert_diff(&f, CHANGE_WANT_CONFLICTS, row->diff);
	commit(&f);
	got = snapshot(f.lower);
	if (!row->differs && !row->user_sees_no_link)
		assert_string_equal(got, f.seen);
	free(got);
	fixture_close(&f);
}

/* Row 64: the lower is in memory, the branch on disk. */
static void on_another_file_system(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;
		char *got;

		if (rows[i].root_only)
			continue;
		fixture_open_empty(&f);
		f.storage = f.store_dir;
		strcpy(f.lower, "/dev/shm/sandlock-unit.XXXXXX");
		assert_non_null(mkdtemp(f.lower));
		fixture_fill(&f, rows[i].lower);
		fixture_run(&f, rows[i].inside, NULL);
		commit(&f);
		got = snapshot(f.lower);
		shell(f.lower, "find . -mindepth 1 -delete");
		assert_int_equal(rmdir(f.lower), 0);
		if (!rows[i].differs && !rows[i].user_sees_no_link)
			assert_string_equal(got, f.seen);
		free(got);
		fixture_close(&f);
	}
}

/* What only root of the namespace can read can be told, too. */
static void contents_of_others(void **state)
{
	struct fixture f;
	char digest[65];

	(void)state;
	fixture_open(&f, "echo x > f; chown 7:7 f; chmod 0 f");
	fixture_run(&f, "echo y > f", NULL);
	assert_int_equal(
		branch_digest(f.branch, "f", CONTENT_AFTER, digest, &err), 0);
	assert_int_equal(branch_abort(f.branch, NULL, 0, &err), 0);
	fixture_close(&f);
}

static int last_uid(void *data, const struct change *c)
{
	*(uid_t *)data = c->after.uid;
	return 0;
}

static void ids_are_told_as_the_host_knows_them(void **state)
{
	struct fixture f;
	uid_t uid = 0;

	(void)state;
	fixture_open(&f, NULL);
	fixture_run(&f, "echo y > f; chown 7:7 f", NULL);
	assert_int_equal(
		branch_changes(f.branch, 0, NULL, 0, last_uid, &uid, &err), 0);
	assert_int_equal(uid, SUB_FIRST + 6);
	assert_int_equal(branch_abort(f.branch, NULL, 0, &err), 0);
	fixture_close(&f);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_LEN(rows) + 3] = {
		cmocka_unit_test(on_another_file_system),
		cmocka_unit_test(contents_of_others),
		cmocka_unit_test(ids_are_told_as_the_host_knows_them),
	};
	size_t n = 3;

	if (geteuid() != 0)
		return unit_needs_root();
	if (become_user(true) != 0 ||
	    subid_default_maps(&fixture_map, &err) < 0)
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].root_only)
			continue;
		tests[n++] = (struct CMUnitTest){
			.name = rows[i].name,
			.test_func = check_row,
			.initial_state = (void *)&rows[i],
		};
	}
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
