/*
 * Savepoints, as root and as an ordinary user. The oracle for a branch in
 * layers is what the last stage saw, as for any other: every row of the table
 * is cut at its semicolons, and each part is a stage.
 */
#ifndef SANDLOCK_TESTS_LAYERS_CASES_H
#define SANDLOCK_TESTS_LAYERS_CASES_H

#include "branch_fixture.h"
#include "branch_rows.h"

#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/publish.h"

enum { STAGES_MAX = 64 };

#define OK(call)                                                \
	do {                                                    \
		if ((call) < 0)                                 \
			fail_msg("%s (%s)", err.msg, err.hint); \
	} while (0)

static void run_stage(struct fixture *f, const char *script)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(sandbox_main(f, script, NULL));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(branch_remove_marker(f->branch), 0);
	free(f->seen);
	f->seen = read_text(open(f->shot, O_RDONLY | O_CLOEXEC));
}

static void make_branch(struct fixture *f)
{
	const struct branch_options o = {
		.name = "b",
		.lower = f->lower,
		.storage = f->storage,
		.on_exit = DISPOSE_DEFER,
		.on_error = DISPOSE_DEFER,
		.idmap = fixture_map,
	};

	OK(branch_create(f->store, &o, &f->branch, &err));
}

static void run_next(struct fixture *f, size_t n, const char *script)
{
	OK(branch_save_stage(f->branch, n, &err));
	assert_int_equal(f->branch->n_layers, n);
	run_stage(f, script);
}

static void settle(struct fixture *f)
{
	const struct exit_status ok = { .kind = EXIT_CODE, .value = 0 };
	struct branch_settled settled;

	OK(branch_settle(f->branch, &ok, true, &settled, &err));
	if (settled.gone) {
		branch_close(f->branch);
		f->branch = NULL;
	}
}

static void commit(struct fixture *f)
{
	const struct commit_options o = { .conflicts = CONFLICT_REFUSE,
					  .lock_timeout_ms = 5000 };
	struct commit_result result = { .gone = false };

	if (!f->branch)
		return;
	OK(branch_commit(f->branch, &o, &result, &err));
	assert_true(result.gone);
}

static void assert_lower_is(struct fixture *f, const char *want)
{
	char *got = snapshot(f->lower);

	assert_string_equal(got, want);
	free(got);
}

/* Parts that mean something by themselves. */
static bool can_be_cut(const char *script)
{
	static const char *const whole[] = { "for ",  "while ", "if ", "cd ",
					     "umask", "python", "$",   "{" };

	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		if (strstr(script, whole[i]))
			return false;
	return true;
}

static size_t cut(char *script, char *parts[STAGES_MAX])
{
	size_t n = 0;
	char *save = NULL;

	if (!can_be_cut(script)) {
		parts[0] = script;
		return 1;
	}
	for (char *p = strtok_r(script, ";", &save); p;
	     p = strtok_r(NULL, ";", &save)) {
		assert_true(n < STAGES_MAX);
		parts[n++] = p;
	}
	return n;
}

static void run_cut(struct fixture *f, const char *script)
{
	char *copy = strdup(script), *parts[STAGES_MAX];
	size_t n = cut(copy, parts);

	make_branch(f);
	for (size_t i = 0; i < n; i++)
		run_next(f, i, parts[i]);
	free(copy);
}

static void check_row(void **state)
{
	const struct row *row = *state;
	struct fixture f;

	fixture_open(&f, row->lower);
	run_cut(&f, row->inside);
	settle(&f);
	commit(&f);
	if (!row->differs &&
	    !(row->user_sees_no_link && !idmap_is_empty(&fixture_map)))
		assert_lower_is(&f, f.seen);
	fixture_close(&f);
}

/* ----------------------------------------------------------- going back -- */

static const char old_tree[] =
	"mkdir -p a/b c/d; echo 1 > a/f; echo 2 > a/b/g; ln a/f h; "
	"echo 3 > c/d/i; ln -s a l";

static const char *const stages[] = {
	"echo s1 >> a/f; rm -r c; mkdir c; echo n > c/n; ln a/f k; mkdir m; "
	"touch -d @1000000000 a/b",
	"echo s2 >> a/f; rm c/n; echo o > c/o; rm -r m; echo f > m; rm l; "
	"mkdir l; echo x > l/x; setfattr -n user.k -v v a/b",
	"rm m; mkdir m; echo y > m/y; rm -r a/b; chmod 700 c; rm k; rm -r l",
};

static void going_back_is_exact(void **state)
{
	for (size_t back = 0; back <= ARRAY_LEN(stages); back++) {
		char *seen[ARRAY_LEN(stages) + 1];
		struct fixture f;

		fixture_open(&f, old_tree);
		seen[0] = snapshot(f.lower);
		make_branch(&f);
		for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
			run_next(&f, i, stages[i]);
			seen[i + 1] = strdup(f.seen);
		}
		OK(branch_roll_back(f.branch, back, &err));
		/* What is there now is what the next stage would see. */
		run_next(&f, back, ":");
		assert_string_equal(f.seen, seen[back]);
		settle(&f);
		assert_true(back > 0 || !f.branch);
		commit(&f);
		assert_lower_is(&f, seen[back]);
		for (size_t i = 0; i <= ARRAY_LEN(stages); i++)
			free(seen[i]);
		fixture_close(&f);
	}
}

static void a_stage_is_run_again(void **state)
{
	struct fixture f;

	fixture_open(&f, old_tree);
	make_branch(&f);
	run_next(&f, 0, stages[0]);
	for (int i = 0; i < 3; i++) {
		run_next(&f, 1, "rm -r a; echo half > h");
		OK(branch_roll_back(f.branch, 1, &err));
	}
	run_next(&f, 1, stages[1]);
	run_next(&f, 2, stages[2]);
	settle(&f);
	commit(&f);
	assert_lower_is(&f, f.seen);
	fixture_close(&f);
}

static void nothing_is_told_before_it_is_one(void **state)
{
	struct fixture f;

	fixture_open(&f, old_tree);
	make_branch(&f);
	run_next(&f, 0, stages[0]);
	run_next(&f, 1, stages[1]);
	assert_int_equal(branch_changes(f.branch, 0, NULL, 0, NULL, NULL, &err),
			 -EBUSY);
	assert_non_null(strstr(err.msg, "has savepoints"));
	settle(&f);
	OK(branch_abort(f.branch, NULL, 0, &err));
	branch_close(f.branch);
	f.branch = NULL;
	fixture_close(&f);
}

/* ------------------------------------------------------- killed anywhere -- */

static int steps_left;

static void count_down(const char *step)
{
	if (--steps_left == 0)
		_exit(99);
}

typedef int child_fn(struct branch *b);

/* In a child that is killed at the n-th step: false once there is none. */
static bool is_killed_at(struct fixture *f, int n, child_fn *fn)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct branch *b;

		steps_left = n;
		branch_step_hook = count_down;
		if (branch_find(f->store, "b", &b, NULL) < 0 ||
		    branch_lock(b, 5000, NULL) < 0)
			_exit(1);
		_exit(fn(b) < 0 ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	/* As a user it is the helper in the namespace that dies. */
	assert_true(
		WEXITSTATUS(status) == 99 || status == 0 ||
		(WEXITSTATUS(status) == 2 && !idmap_is_empty(&fixture_map)));
	return status != 0;
}

static void reopen(struct fixture *f)
{
	branch_close(f->branch);
	OK(branch_find(f->store, "b", &f->branch, &err));
}

static int collapse(struct branch *b)
{
	return branch_collapse(b, NULL);
}

static void collapsing_may_be_cut_off(void **state)
{
	bool killed = true;

	for (int n = 1; killed; n++) {
		struct fixture f;

		fixture_open(&f, old_tree);
		make_branch(&f);
		for (size_t i = 0; i < ARRAY_LEN(stages); i++)
			run_next(&f, i, stages[i]);
		OK(branch_save(f.branch, false, &err));
		branch_unlock(f.branch);
		killed = is_killed_at(&f, n, collapse);
		/* And again, at the next step. */
		if (killed)
			(void)is_killed_at(&f, 2, collapse);
		reopen(&f);
		settle(&f);
		commit(&f);
		assert_lower_is(&f, f.seen);
		fixture_close(&f);
		assert_true(n < 200);
	}
}

static int push(struct branch *b)
{
	return branch_save_stage(b, 2, NULL);
}

static int go_back(struct branch *b)
{
	return branch_roll_back(b, 1, NULL);
}

/* Whatever was cut off, the state after a stage is there. */
static void savepoints_may_be_cut_off(void **state)
{
	bool killed = true;

	for (int n = 1; killed; n++) {
		struct fixture f;
		char *first;

		fixture_open(&f, old_tree);
		make_branch(&f);
		run_next(&f, 0, stages[0]);
		first = strdup(f.seen);
		run_next(&f, 1, stages[1]);
		OK(branch_save(f.branch, false, &err));
		branch_unlock(f.branch);
		killed = is_killed_at(&f, n, push);
		reopen(&f);
		OK(branch_lock(f.branch, 5000, &err));
		run_next(&f, 2, stages[2]);
		branch_unlock(f.branch);
		(void)is_killed_at(&f, n, go_back);
		reopen(&f);
		OK(branch_lock(f.branch, 5000, &err));
		OK(branch_roll_back(f.branch, 1, &err));
		run_next(&f, 1, ":");
		assert_string_equal(f.seen, first);
		free(first);
		settle(&f);
		commit(&f);
		assert_lower_is(&f, f.seen);
		fixture_close(&f);
	}
}

static int run_cases(bool root)
{
	struct CMUnitTest tests[ARRAY_LEN(rows) + 5] = {
		cmocka_unit_test(going_back_is_exact),
		cmocka_unit_test(a_stage_is_run_again),
		cmocka_unit_test(nothing_is_told_before_it_is_one),
		cmocka_unit_test(collapsing_may_be_cut_off),
		cmocka_unit_test(savepoints_may_be_cut_off),
	};
	size_t n = 5;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].root_only && !root)
			continue;
		tests[n++] = (struct CMUnitTest){
			.name = rows[i].name,
			.test_func = check_row,
			.initial_state = (void *)&rows[i],
		};
	}
	return _cmocka_run_group_tests("layers", tests, n, NULL, NULL);
}

#endif
