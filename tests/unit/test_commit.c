#include "branch_fixture.h"
#include "branch_rows.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "branch/internal.h"
#include "branch/publish.h"

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

/* The lower on a file system of its own, the branch where it always is. */
static void open_on_tmpfs(struct fixture *f, const char *lower_script)
{
	fixture_open_empty(f);
	f->storage = f->store_dir;
	shell(f->lower, "mount -t tmpfs -o mode=755 none .");
	fixture_fill(f, lower_script);
}

/* The lower on another mount of the branch's file system. */
static void open_on_bind(struct fixture *f, const char *lower_script)
{
	fixture_open_empty(f);
	f->storage = f->store_dir;
	shell(f->lower, "mount --bind . .");
	fixture_fill(f, lower_script);
}

static void row_64_another_file_system(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		open_on_tmpfs(&f, rows[i].lower);
		fixture_run(&f, rows[i].inside, NULL);
		assert_diff(&f, CHANGE_WANT_CONFLICTS, rows[i].diff);
		commit(&f, CONFLICT_REFUSE);
		if (!rows[i].differs)
			assert_committed(&f);
		shell(f.lower, "test ! -e .sandlock-b");
		fixture_close(&f);
	}
}

static void row_65_another_mount(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		open_on_bind(&f, rows[i].lower);
		fixture_run(&f, rows[i].inside, NULL);
		commit(&f, CONFLICT_REFUSE);
		if (!rows[i].differs)
			assert_committed(&f);
		fixture_close(&f);
	}
}

/* Neither the host's directory of that name nor the sandbox's is ours. */
static void the_name_of_the_stage_may_be_taken(void **state)
{
	static const char *const lowers[] = {
		"mkdir .sandlock-b; echo host > .sandlock-b/x; "
		": > .sandlock-b/branch; mkdir .sandlock-b~1",
		"echo f > f",
	};
	static const char *const insides[] = {
		"echo new > f",
		"mkdir .sandlock-b; : > .sandlock-b/branch; "
		"echo mine > .sandlock-b/y; mkdir .sandlock-b~1; echo 2 >> f",
	};

	for (size_t i = 0; i < ARRAY_LEN(lowers); i++) {
		struct fixture f;

		open_on_tmpfs(&f, lowers[i]);
		fixture_run(&f, insides[i], NULL);
		commit(&f, CONFLICT_REFUSE);
		assert_committed(&f);
		fixture_close(&f);
	}
}

/* Whoever owns the lower puts a directory of his in the place of the stage. */
static void usurp(const char *step)
{
	if (strcmp(step, "stage made") == 0)
		shell(".", "mv .sandlock-b was; mkdir -m 700 .sandlock-b; "
			   "chown 65534 .sandlock-b");
}

static void a_stage_of_somebody_else_is_not_worked_in(void **state)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result result;
	struct error err = ERROR_INIT;
	struct fixture f;

	open_on_tmpfs(&f, "echo 1 > f");
	fixture_run(&f, "echo 2 > f", NULL);
	assert_int_equal(chdir(f.lower), 0);
	branch_step_hook = usurp;
	assert_int_equal(branch_commit(f.branch, &o, &result, &err), -ESTALE);
	branch_step_hook = NULL;
	assert_int_equal(chdir("/"), 0);
	shell(f.lower, "test $(cat f) = 1; test $(ls -A .sandlock-b | wc -l) "
		       "= 0; rm -rf .sandlock-b was");
	commit(&f, CONFLICT_REFUSE);
	shell(f.lower, "test $(cat f) = 2; test ! -e .sandlock-b");
	fixture_close(&f);
}

static void die_in_check(const char *step)
{
	if (strcmp(step, "stage checked") == 0)
		_exit(7);
}

/* The wait status of a process that does @body. */
static int status_of(int (*body)(struct fixture *), struct fixture *f)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body(f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int commit_and_die(struct fixture *f)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result result;
	struct error err = ERROR_INIT;

	branch_step_hook = die_in_check;
	return branch_commit(f->branch, &o, &result, &err) < 0;
}

static void a_stage_that_was_being_checked_is_removed(void **state)
{
	struct fixture f;
	int status;

	open_on_tmpfs(&f, "echo 1 > f");
	fixture_run(&f, "echo 2 > f", NULL);
	status = status_of(commit_and_die, &f);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	commit(&f, CONFLICT_REFUSE);
	shell(f.lower, "test $(cat f) = 2; test ! -e .sandlock-b");
	fixture_close(&f);
}

/* By a process that held the lock when ours came to it. */
static void what_another_process_has_committed_is_done(void **state)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result result = { .gone = false };
	struct error err = ERROR_INIT;
	struct branch *late;
	struct fixture f;

	fixture_open(&f, "echo 1 > a");
	fixture_run(&f, "echo 2 > a", NULL);
	assert_int_equal(branch_find(f.store, "b", &late, &err), 0);
	commit(&f, CONFLICT_REFUSE);
	assert_int_equal(branch_commit(late, &o, &result, &err), 0);
	assert_true(result.gone);
	assert_int_equal(result.n_published, 0);
	assert_int_equal(branch_abort(late, NULL, 0, &err), -ENOENT);
	assert_string_equal(err.msg, "branch 'b' was committed meanwhile");
	branch_close(late);
	assert_committed(&f);
	fixture_close(&f);
}

static void what_another_process_has_discarded_is_gone(void **state)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result result;
	struct error err = ERROR_INIT;
	struct branch *late;
	struct fixture f;

	fixture_open(&f, "echo 1 > a");
	fixture_run(&f, "echo 2 > a", NULL);
	assert_int_equal(branch_find(f.store, "b", &late, &err), 0);
	assert_int_equal(branch_abort(f.branch, NULL, 0, &err), 0);
	assert_int_equal(branch_commit(late, &o, &result, &err), -ENOENT);
	branch_close(late);
	fixture_close(&f);
}

/* From now on it cannot be put on disk. */
static bool break_fsync(int fd)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)fd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = ARRAY_LEN(f), .filter = f };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0;
}

static int commit_without_fsync(struct fixture *f)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result result;
	struct error err = ERROR_INIT;

	if (!break_fsync(f->branch->dir_fd))
		return 2;
	return branch_commit(f->branch, &o, &result, &err) != -EIO ||
	       !strstr(err.msg, "write down");
}

static void what_cannot_be_written_down_is_not_begun(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, "echo 1 > f");
	fixture_run(&f, "echo 2 > f", NULL);
	assert_int_equal(status_of(commit_without_fsync, &f), 0);
	shell(f.lower, "test $(cat f) = 1");
	commit(&f, CONFLICT_REFUSE);
	assert_committed(&f);
	fixture_close(&f);
}

int main(void)
{
	enum { OWN = 7 };
	struct CMUnitTest tests[ARRAY_LEN(rows) + OWN] = {
		cmocka_unit_test(what_another_process_has_committed_is_done),
		cmocka_unit_test(what_another_process_has_discarded_is_gone),
		cmocka_unit_test(the_name_of_the_stage_may_be_taken),
		cmocka_unit_test(a_stage_of_somebody_else_is_not_worked_in),
		cmocka_unit_test(a_stage_that_was_being_checked_is_removed),
		cmocka_unit_test(what_cannot_be_written_down_is_not_begun),
		cmocka_unit_test(row_64_another_file_system),
		cmocka_unit_test(row_65_another_mount),
	};

	if (geteuid() != 0)
		return unit_needs_root();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		tests[i + OWN] = (struct CMUnitTest){
			.name = rows[i].name,
			.test_func = check_row,
			.initial_state = (void *)&rows[i],
		};
	return RUN_TESTS(tests);
}
