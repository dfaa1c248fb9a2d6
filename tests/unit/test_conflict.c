/* What the host did meanwhile: reference/cow.md section 3, rows 48 to 68. */
#include "branch_fixture.h"

#include "branch/internal.h"
#include "branch/judge.h"
#include "branch/publish.h"

struct host_row {
	const char *name, *lower, *inside;
	const char *host; /* shell in the lower, before the commit */
	const char *diff; /* with conflicts */
	/* Shell in the lower that succeeds if it is as it must be after
	 * --skip-conflicts and after --force; NULL: --force is refused too. */
	const char *skipped, *forced;
};

/* clang-format off */
static const struct host_row host_rows[] = {
	{ "row 48: both changed a file", "echo 1 > f; echo 1 > g",
	  "echo b >> f; echo b >> g", "echo h >> f",
	  "M f CONFLICT changed on the host since the branch began\nM g\n",
	  "grep -q h f && ! grep -q b f && grep -q b g",
	  "grep -q b f && ! grep -q h f && grep -q b g" },
	{ "row 48: the host replaced a file by a rename", "echo 1 > f",
	  "echo b >> f; echo n > n", "echo h > t; mv t f",
	  "M f CONFLICT changed on the host since the branch began\nA n\n",
	  "grep -q h f && test -f n", "grep -q b f" },
	{ "row 48: the host restored the mtime", "echo 1 > f",
	  "echo b >> f", "echo h >> f; touch -d '2001-02-03 04:05:06.123456789' f",
	  "M f CONFLICT changed on the host since the branch began\n",
	  "grep -q h f", "grep -q b f" },
	{ "row 6: the host changed what was only opened for writing", "echo 1 > f; echo 1 > g; echo 1 > h; echo 1 > k; echo 1 > l",
	  ": >> f; : >> g; : >> h; : >> k; chmod 600 l; chmod 644 l; echo n > n",
	  "echo h >> f; echo h > t; mv t g; rm h; rm k; mkdir k; chmod 600 l",
	  "A n\n", "grep -q h f && grep -q h g && test ! -e h && test -d k && test -f n && test $(stat -c %a l) = 600",
	  "grep -q h f && grep -q h g && test ! -e h && test -d k && test -f n && test $(stat -c %a l) = 600" },
	{ "row 6: and with the mtime set back it is a change", "echo 1 > f; echo 1 > g",
	  "echo 2 > f; touch -d '2001-02-03 04:05:06.123456789' f; : >> g", "echo h >> f; echo h >> g",
	  "M f CONFLICT changed on the host since the branch began\n", "grep -q h f && grep -q h g", "grep -q 2 f && grep -q h g" },
	{ "row 48: both made the same of it", "echo 1 > f; echo 1 > g",
	  "echo b >> f; echo b >> g", "echo b >> f",
	  "M g\n", "grep -q b f && grep -q b g", "grep -q b f && grep -q b g" },
	{ "row 48: the host removed what the branch changed", "mkdir d; echo 1 > d/f; echo 1 > g",
	  "echo b >> d/f; echo b >> g", "rm d/f",
	  "A d/f CONFLICT removed on the host\nM g\n",
	  "test ! -e d/f && grep -q b g", "grep -q b d/f" },
	{ "row 49: the host changed what the branch left alone", "echo 1 > f; echo 1 > g; mkdir d",
	  "echo b >> f; cat g; echo n > d/n", "echo h >> g; echo h > d/h",
	  "A d/n\nM f\n", "grep -q h g && grep -q b f && test -f d/h && test -f d/n",
	  "grep -q h g && grep -q b f && test -f d/h && test -f d/n" },
	{ "row 50: the branch deletes what the host changed", "echo 1 > f; echo 1 > g",
	  "rm f g", "echo h >> f",
	  "D f CONFLICT changed on the host since the branch began\nD g\n",
	  "grep -q h f && test ! -e g", "test ! -e f && test ! -e g" },
	{ "row 9: both deleted it", "echo 1 > f; echo 1 > g",
	  "rm f g", "rm f", "D g\n", "test ! -e f && test ! -e g", "test ! -e f && test ! -e g" },
	{ "row 51: the host added to a deleted directory", "mkdir -p d/e; echo 1 > d/e/f; mkdir k",
	  "rm -r d k", "echo h > d/e/h",
	  "D d/ CONFLICT new or changed on the host: d/e/h\nD k/\n",
	  "test -f d/e/h && test -f d/e/f && test ! -e k", "test ! -e d" },
	{ "row 51: the host moved an old tree into it", "mkdir -p d x/y; echo 1 > x/y/f",
	  "rm -r d", "mv x d/",
	  "D d/ CONFLICT new or changed on the host: d/x\n",
	  "test -f d/x/y/f", "test ! -e d" },
	{ "row 51: the host moved an old tree into it, and changed that", "mkdir -p d x/y; echo 1 > x/y/f; echo 1 > x/g",
	  "rm -r d", "mv x d/; rm d/x/g",
	  "D d/ CONFLICT new or changed on the host: d/x\n",
	  "test -f d/x/y/f", "test ! -e d" },
	{ "row 51: the host only removed from it", "mkdir -p d/e; echo 1 > d/e/f; echo 1 > d/e/g",
	  "rm -r d", "rm d/e/f", "D d/\n", "test ! -e d", "test ! -e d" },
	{ "row 51: the host changed a replaced directory", "mkdir d; echo 1 > d/f",
	  "rm -r d; mkdir d; echo n > d/n", "echo h >> d/f",
	  "T d/ CONFLICT new or changed on the host: d/f\nA d/n\n",
	  "grep -q h d/f && test ! -e d/n", "test -f d/n && test ! -e d/f" },
	{ "row 52: both added a name", NULL, "echo b > f; echo same > s; mkdir d; echo b > d/b",
	  "echo h > f; echo same > s; mkdir d; echo h > d/h",
	  "A d/b\nM f CONFLICT made on the host, too\n",
	  "grep -q h f && test -f d/b && test -f d/h", "grep -q b f && grep -q same s" },
	{ "row 53: a parent became a symbolic link", "mkdir d out; echo 1 > d/f",
	  "echo b >> d/f; echo n > d/n", "mv d out/; ln -s out/d d",
	  "T d/ CONFLICT is a symbolic link on the host now\nA d/f\nA d/n\n",
	  "test -L d && ! grep -q b out/d/f && test ! -e out/d/n",
	  "test ! -L d && grep -q b d/f && ! grep -q b out/d/f && test ! -e out/d/n" },
	{ "row 53: a parent was removed", "mkdir d; echo 1 > d/f; echo 1 > k",
	  "echo b >> d/f; rm k", "rm -r d",
	  "A d/ CONFLICT removed on the host\nA d/f\nD k\n",
	  "test ! -e d && test ! -e k", "grep -q b d/f" },
	{ "row 26: both changed the mode of a directory", "mkdir d; echo 1 > k",
	  "chmod 700 d; echo n > d/n", "chmod 711 d",
	  "m d/ CONFLICT its mode, owner or attributes changed on the host\nA d/n\n",
	  "test $(stat -c %a d) = 711 && test -f d/n",
	  "test $(stat -c %a d) = 700 && test -f d/n" },
	{ "row 68: immutable", "echo 1 > f; mkdir d k; echo 1 > d/g; echo 1 > k/h",
	  "rm f; echo n > d/n; echo b >> k/h", "chattr +i f d",
	  "A d/n\nD f CONFLICT is immutable or append-only\nM k/h\n",
	  "test -f f && test ! -e d/n && grep -q b k/h && chattr -i f d", NULL },
	{ "row 68: immutable, deep in what is deleted", "mkdir -p d/e; echo 1 > d/e/f; echo 1 > k",
	  "rm -r d; rm k", "chattr +i d/e/f",
	  "D d/ CONFLICT holds what is immutable or append-only: d/e/f\nD k\n",
	  "test -f d/e/f && test ! -e k && chattr -i d/e/f", NULL },
};
/* clang-format on */

static int commit(struct fixture *f, enum conflict_mode mode,
		  struct commit_result *result, struct error *err)
{
	const struct commit_options o = { .conflicts = mode,
					  .lock_timeout_ms = 5000 };

	*err = (struct error)ERROR_INIT;
	*result = (struct commit_result){ .gone = false };
	return branch_commit(f->branch, &o, result, err);
}

static void open_row(struct fixture *f, const struct host_row *row)
{
	fixture_open(f, row->lower);
	fixture_run(f, row->inside, NULL);
	usleep(5000); /* a tick, so that ctime tells */
	if (row->host)
		shell(f->lower, row->host);
}

static bool has_conflict(const struct host_row *row)
{
	return strstr(row->diff, "CONFLICT");
}

static void check_refused(const struct host_row *row)
{
	struct fixture f;
	struct commit_result result;
	struct error err;
	char *before, *after;
	int r;

	open_row(&f, row);
	assert_diff(&f, CHANGE_WANT_CONFLICTS, row->diff);
	before = snapshot(f.lower);
	r = commit(&f, CONFLICT_REFUSE, &result, &err);
	after = snapshot(f.lower);
	if (has_conflict(row) || !row->forced) {
		assert_true(r < 0);
		assert_int_equal(err.kind, ERR_CONFLICT);
		assert_string_equal(after, before);
	} else if (r < 0) {
		fail_msg("%s", err.msg);
	}
	free(before);
	free(after);
	fixture_close(&f);
}

static void check_skipped(const struct host_row *row)
{
	struct fixture f;
	struct commit_result result;
	struct error err;
	char *diff;

	open_row(&f, row);
	if (commit(&f, CONFLICT_SKIP, &result, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(result.gone == !(has_conflict(row) || !row->forced));
	shell(f.lower, row->skipped);
	if (!result.gone) {
		/* Only what was skipped is left, and it can be forced. */
		assert_true(result.n_skipped > 0);
		diff = diff_lines(&f, CHANGE_WANT_CONFLICTS);
		if (row->forced)
			assert_non_null(strstr(diff, "CONFLICT"));
		free(diff);
		if (commit(&f, CONFLICT_FORCE, &result, &err) < 0)
			fail_msg("%s", err.msg);
		assert_true(result.gone);
		if (row->forced)
			shell(f.lower, row->forced);
	}
	fixture_close(&f);
}

static void check_forced(const struct host_row *row)
{
	struct fixture f;
	struct commit_result result;
	struct error err;
	int r;

	open_row(&f, row);
	r = commit(&f, CONFLICT_FORCE, &result, &err);
	if (row->forced) {
		if (r < 0)
			fail_msg("%s", err.msg);
		assert_true(result.gone);
		shell(f.lower, row->forced);
	} else {
		assert_int_equal(err.kind, ERR_CONFLICT);
	}
	fixture_close(&f);
}

static void check_row(void **state)
{
	const struct host_row *row = *state;

	check_refused(row);
	check_skipped(row);
	check_forced(row);
}

/* Within the tick in which the branch begins, and to a file that nobody had
 * looked at before. */
static void in_the_first_tick(void **state)
{
	const struct branch_options o = { .name = "c" };
	struct branch_options own = o;
	struct error err = ERROR_INIT;
	struct object after;
	struct fixture f;
	int fd, dir_fd;

	(void)state;
	fixture_open(&f, NULL);
	own.lower = f.lower;
	dir_fd = open(f.lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 20; i++) {
		struct judge j = { .branch = NULL };
		struct stat lock;

		fd = openat(dir_fd, "f", O_RDWR | O_CREAT | O_TRUNC, 0644);
		assert_true(fd >= 0);
		if (branch_create(f.store, &own, &f.branch, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(write(fd, "h", 1), 1);
		(void)close(fd);
		assert_int_equal(object_stat(dir_fd, "f", &after), 0);
		assert_int_equal(fstat(f.branch->lock_fd, &lock), 0);
		j.branch = f.branch;
		/* Else the kernel is too old. */
		if (time_compare(&lock.st_ctim, &f.branch->meta.base_time) != 0)
			assert_true(judge_base_changed(&j, "f", &after));
		branch_discard(f.branch);
		branch_close(f.branch);
		f.branch = NULL;
		assert_int_equal(unlinkat(dir_fd, "f", 0), 0);
	}
	(void)close(dir_fd);
	fixture_close(&f);
}

/* What the host does while a commit that is forced is under way. */
struct forced_row {
	const char *name, *inside, *host, *expect;
};
static const struct forced_row forced_rows[] = {
	{ "forced: written deep in what goes", "rm -r gone",
	  "echo h >> gone/deep/f; echo h > gone/deep/h", "test ! -e gone" },
	{ "forced: written in what goes", "rm -r gone", "echo h > gone/h",
	  "test ! -e gone" },
	{ "forced: removed from what goes", "rm -r gone", "rm gone/deep/f",
	  "test ! -e gone" },
	{ "forced: written deep in what is replaced",
	  "rm -r gone; mkdir gone; echo n > gone/n",
	  "echo h >> gone/deep/f; echo h > gone/h",
	  "test -f gone/n; test ! -e gone/deep; test ! -e gone/h" },
	{ "forced: a file is written", "echo n >> f",
	  "echo h >> f; chmod 600 f", "test $(wc -l < f) = 2 && grep -q n f" },
	{ "forced: a file that goes", "rm f", "echo h >> f", "test ! -e f" },
};
static const struct forced_row *meanwhile;
static const char *meanwhile_step;
static struct fixture *meanwhile_at;

static void host_does(const char *step)
{
	if (strcmp(step, meanwhile_step) != 0)
		return;
	branch_step_hook = NULL;
	shell(meanwhile_at->lower, meanwhile->host);
}

static void check_forced_meanwhile(void **state)
{
	static const char *const steps[] = { "intent", "rename" };
	struct commit_result result;
	struct error err;
	struct fixture f;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		meanwhile = *state;
		meanwhile_step = steps[i];
		meanwhile_at = &f;
		fixture_open(&f, "mkdir -p gone/deep; echo 1 > gone/deep/f; "
				 "echo 1 > f");
		fixture_run(&f, meanwhile->inside, NULL);
		branch_step_hook = host_does;
		if (commit(&f, CONFLICT_FORCE, &result, &err) < 0)
			fail_msg("%s: %s", steps[i], err.msg);
		assert_null(branch_step_hook);
		assert_true(result.gone);
		shell(f.lower, meanwhile->expect);
		fixture_close(&f);
	}
}

int main(void)
{
	enum { N_ROWS = ARRAY_LEN(host_rows) };
	struct CMUnitTest tests[N_ROWS + ARRAY_LEN(forced_rows) + 1] = {
		cmocka_unit_test(in_the_first_tick),
	};

	if (geteuid() != 0)
		return unit_needs_root();
	for (size_t i = 0; i < N_ROWS; i++)
		tests[i + 1] = (struct CMUnitTest){
			.name = host_rows[i].name,
			.test_func = check_row,
			.initial_state = (void *)&host_rows[i],
		};
	for (size_t i = 0; i < ARRAY_LEN(forced_rows); i++)
		tests[i + 1 + N_ROWS] = (struct CMUnitTest){
			.name = forced_rows[i].name,
			.test_func = check_forced_meanwhile,
			.initial_state = (void *)&forced_rows[i],
		};
	return RUN_TESTS(tests);
}
