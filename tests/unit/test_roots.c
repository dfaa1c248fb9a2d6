/* Branches over several directories. */
#include "branch_fixture.h"

#include "killed.h"

#include <sys/file.h>
#include <sys/statvfs.h>

#include "branch/internal.h"
#include "branch/usage.h"

enum { N = 3 };

struct roots {
	struct fixture f;
	char lower[N][320];
	char *before[N], *after[N];
};

static void inside(struct branch *b, const char *script)
{
	struct error err = ERROR_INIT;
	pid_t pid = fork();
	int status, fd;

	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(1);
		for (size_t i = 0; i < branch_n_roots(b); i++) {
			struct branch *root = branch_root(b, i);

			if (branch_overlay(root, &fd, &err) < 0 ||
			    move_mount(fd, "", AT_FDCWD, branch_lower(root),
				       MOVE_MOUNT_F_EMPTY_PATH) < 0)
				_exit(2);
			(void)close(fd);
		}
		_exit(system(script) ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static struct branch *find(struct roots *r)
{
	struct error err = ERROR_INIT;
	struct branch *b = NULL;
	int n = branch_find(r->f.store, "b", &b, &err);

	if (n < 0 && err.kind != ERR_NOT_FOUND)
		fail_msg("%s", err.msg);
	return b;
}

static void create(struct roots *r)
{
	const char *more[] = { r->lower[1], r->lower[2] };
	const struct branch_options o = {
		.name = "b",
		.lower = r->lower[0],
		.more_lowers = more,
		.n_more_lowers = 2,
		.on_exit = DISPOSE_DEFER,
		.on_error = DISPOSE_DEFER,
	};
	struct error err = ERROR_INIT;

	if (branch_create(r->f.store, &o, &r->f.branch, &err) < 0)
		fail_msg("%s", err.msg);
}

static void settle(struct roots *r, size_t want)
{
	const struct exit_status ok = { .kind = EXIT_CODE, .value = 0 };
	struct branch_settled s;
	struct error err = ERROR_INIT;

	if (branch_settle(r->f.branch, &ok, true, &s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(s.n_changes, want);
	branch_close(r->f.branch);
	r->f.branch = NULL;
}

static void setup(struct roots *r)
{
	if (geteuid() != 0)
		skip();
	fixture_open(&r->f, "mkdir 0 1 2; for i in 0 1 2; do "
			    "echo $i > $i/f; echo x > $i/gone; done");
	for (int i = 0; i < N; i++) {
		(void)snprintf(r->lower[i], sizeof(r->lower[i]), "%s/%d",
			       r->f.lower, i);
		r->before[i] = snapshot(r->lower[i]);
	}
	create(r);
}

static void teardown(struct roots *r)
{
	for (int i = 0; i < N; i++) {
		free(r->before[i]);
		free(r->after[i]);
	}
	fixture_close(&r->f);
}

/* Changes in the first and the last; nothing in the second. */
static void write_both(struct roots *r)
{
	auto_free char *script = NULL;

	assert_true(asprintf(&script,
			     "cd '%s' && echo new >> 0/f && rm 0/gone && "
			     "echo new >> 2/f && rm 2/gone && mkdir 2/d",
			     r->f.lower) > 0);
	inside(r->f.branch, script);
	settle(r, 5);
}

static bool is_new(struct roots *r, int i)
{
	char *now = snapshot(r->lower[i]);
	bool same = strcmp(now, r->before[i]) == 0;

	free(now);
	return !same;
}

static int add_path(void *data, const struct change *c)
{
	buf_printf(data, "%c %s:%s\n", change_letter(c->kind),
		   strrchr(c->root, '/') + 1, c->path);
	return 0;
}

static char *diff(struct branch *b, const char *const *paths, size_t n)
{
	struct error err = ERROR_INIT;
	struct buf text = BUF_INIT;

	if (branch_changes(b, 0, paths, n, add_path, &text, &err) < 0)
		fail_msg("%s", err.msg);
	return buf_take(&text, NULL);
}

static int commit(struct branch *b, const char *const *paths, size_t n,
		  struct commit_result *ret)
{
	const struct commit_options o = {
		.lock_timeout_ms = 5000,
		.paths = paths,
		.n_paths = n,
	};
	struct error err = ERROR_INIT;
	int r = branch_commit(b, &o, ret, &err);

	if (r < 0 && err.kind != ERR_CONFLICT)
		fail_msg("%s", err.msg);
	return r;
}

static void all_roots_are_told_and_committed(void **state)
{
	struct commit_result ret;
	struct roots r = { .lower = { "" } };
	struct branch *b;
	char *text;

	setup(&r);
	write_both(&r);
	b = find(&r);
	assert_int_equal(branch_n_roots(b), 2);
	text = diff(b, NULL, 0);
	assert_string_equal(text, "M 0:f\nD 0:gone\nA 2:d\nM 2:f\nD 2:gone\n");
	free(text);
	assert_int_equal(commit(b, NULL, 0, &ret), 0);
	assert_int_equal(ret.n_published, 5);
	assert_true(ret.gone);
	branch_close(b);
	assert_true(is_new(&r, 0) && !is_new(&r, 1) && is_new(&r, 2));
	assert_null(find(&r));
	teardown(&r);
}

static void parts_go_by_absolute_paths(void **state)
{
	struct commit_result ret;
	struct error err = ERROR_INIT;
	struct roots r = { .lower = { "" } };
	char path[420];
	const char *paths[] = { path };
	struct branch *b;
	char *text;

	setup(&r);
	write_both(&r);
	(void)snprintf(path, sizeof(path), "%s/gone", r.lower[2]);
	b = find(&r);
	assert_int_equal(commit(b, paths, 1, &ret), 0);
	assert_int_equal(ret.n_published, 1);
	assert_false(ret.gone);
	branch_close(b);
	b = find(&r);
	text = diff(b, NULL, 0);
	assert_string_equal(text, "M 0:f\nD 0:gone\nA 2:d\nM 2:f\n");
	free(text);
	/* All of the first root: it has to stay, for the other's sake. */
	assert_int_equal(
		branch_abort(b, (const char *[]){ "f", "gone" }, 2, &err), 0);
	branch_close(b);
	b = find(&r);
	assert_non_null(b);
	text = diff(b, NULL, 0);
	assert_string_equal(text, "A 2:d\nM 2:f\n");
	free(text);
	assert_int_equal(commit(b, NULL, 0, &ret), 0);
	assert_true(ret.gone);
	branch_close(b);
	assert_null(find(&r));
	/* What was discarded may show in the directory's time, at most. */
	(void)snprintf(path, sizeof(path), "%s/gone", r.lower[0]);
	assert_int_equal(access(path, F_OK), 0);
	assert_true(is_new(&r, 2));
	teardown(&r);
}

static void a_part_does_not_need_what_is_missing(void **state)
{
	static const struct {
		int part, missing;
	} rows[] = { { 0, 2 }, { 2, 0 } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct commit_result ret;
		struct roots r = { .lower = { "" } };
		int part = rows[i].part, missing = rows[i].missing;
		char path[420], hidden[420];
		const char *paths[] = { path };
		struct branch *b;

		setup(&r);
		write_both(&r);
		(void)snprintf(hidden, sizeof(hidden), "%s.away",
			       r.lower[missing]);
		assert_int_equal(rename(r.lower[missing], hidden), 0);
		(void)snprintf(path, sizeof(path), "%s/gone", r.lower[part]);
		b = find(&r);
		assert_int_equal(commit(b, paths, 1, &ret), 0);
		assert_int_equal(ret.n_published, 1);
		assert_false(ret.gone);
		branch_close(b);
		assert_true(access(path, F_OK) < 0);
		assert_int_equal(rename(hidden, r.lower[missing]), 0);
		b = find(&r);
		assert_int_equal(commit(b, NULL, 0, &ret), 0);
		assert_true(ret.gone && ret.n_published == 4);
		branch_close(b);
		assert_null(find(&r));
		assert_true(is_new(&r, 0) && is_new(&r, 2));
		teardown(&r);
	}
}

static void a_conflict_in_one_root_publishes_nothing(void **state)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct error err = ERROR_INIT;
	struct commit_result ret;
	struct roots r = { .lower = { "" } };
	struct branch *b;

	setup(&r);
	write_both(&r);
	shell(r.lower[0], "echo host >> f");
	free(r.before[0]);
	r.before[0] = snapshot(r.lower[0]);
	b = find(&r);
	assert_true(branch_commit(b, &o, &ret, &err) < 0);
	assert_int_equal(err.kind, ERR_CONFLICT);
	assert_non_null(strstr(err.msg, r.lower[0]));
	branch_close(b);
	assert_true(!is_new(&r, 0) && !is_new(&r, 2));
	b = find(&r);
	assert_int_equal(branch_abort(b, NULL, 0, NULL), 0);
	branch_close(b);
	assert_null(find(&r));
	assert_true(!is_new(&r, 0) && !is_new(&r, 2));
	teardown(&r);
}

static bool commit_killed(struct roots *r, int step, const char *const *paths,
			  size_t n)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct commit_result ret;
		struct branch *b = find(r);

		steps_left = step;
		branch_step_hook = count_down;
		_exit(commit(b, paths, n, &ret) < 0);
	}
	return was_killed(pid);
}

static void recovered(struct roots *r, bool rollback)
{
	struct error err = ERROR_INIT;
	enum recover_action action;
	struct commit_result ret;
	struct branch *b = find(r);
	int n;

	if (!b) {
		assert_true(is_new(r, 0) && is_new(r, 2));
		return;
	}
	n = branch_recover(b, rollback, &action, &err);
	/* Past the first that is done there is only one way. */
	if (n < 0 && rollback && err.kind == ERR_STATE) {
		rollback = false;
		n = branch_recover(b, false, &action, &err);
	}
	branch_close(b);
	if (n < 0)
		fail_msg("%s", err.msg);
	/* Nothing of ours is left in what is the user's. */
	shell(r->f.lower, "! ls -a . 0 1 2 | grep sandlock");
	assert_int_equal(is_new(r, 0), is_new(r, 2));
	if (rollback && n == 0)
		assert_false(is_new(r, 0));
	b = find(r);
	if (b) {
		assert_int_equal(commit(b, NULL, 0, &ret), 0);
		branch_close(b);
	}
	assert_true(is_new(r, 0) && is_new(r, 2));
	assert_null(find(r));
}

/* Opened before another commit was killed. */
static void a_late_commit_finishes_or_finds_it_done(void **state)
{
	bool killed = true;

	for (int step = 1; killed; step++) {
		struct roots r = { .lower = { "" } };
		struct commit_result ret;
		struct branch *late;

		setup(&r);
		write_both(&r);
		late = find(&r);
		killed = commit_killed(&r, step, NULL, 0);
		assert_int_equal(commit(late, NULL, 0, &ret), 0);
		assert_true(ret.gone);
		branch_close(late);
		assert_true(is_new(&r, 0) && is_new(&r, 2));
		assert_null(find(&r));
		teardown(&r);
	}
}

static void whatever_the_kill_it_is_all_or_nothing(void **state)
{
	bool killed[2] = { true, true };
	int n = 0;

	for (int step = 1; killed[0] || killed[1]; step++) {
		for (int back = 0; back < 2; back++) {
			struct roots r = { .lower = { "" } };

			setup(&r);
			write_both(&r);
			killed[back] = commit_killed(&r, step, NULL, 0);
			recovered(&r, back);
			teardown(&r);
			n += killed[back];
		}
	}
	assert_true(n > 20);
}

static bool is_gone(struct roots *r, int i)
{
	char path[420];

	(void)snprintf(path, sizeof(path), "%s/gone", r->lower[i]);
	return access(path, F_OK) < 0;
}

/* Of a part: both ways on are still there, or the one that is left is told. */
static void part_recovered(struct roots *r, bool rollback)
{
	struct error err = ERROR_INIT;
	enum recover_action action;
	struct commit_result ret;
	struct branch *b = find(r);
	int n = branch_recover(b, rollback, &action, &err);

	if (n < 0 && rollback && err.kind == ERR_STATE)
		n = branch_recover(b, false, &action, &err);
	branch_close(b);
	if (n < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(is_gone(r, 0), is_gone(r, 2));
	b = find(r);
	assert_int_equal(commit(b, NULL, 0, &ret), 0);
	branch_close(b);
	assert_true(is_gone(r, 0) && is_gone(r, 2));
	assert_null(find(r));
}

static void so_it_is_for_a_part(void **state)
{
	bool killed[2] = { true, true };

	for (int step = 1; killed[0] || killed[1]; step++) {
		for (int back = 0; back < 2; back++) {
			struct roots r = { .lower = { "" } };
			char first[420], last[420];
			const char *paths[] = { first, last };

			setup(&r);
			write_both(&r);
			(void)snprintf(first, sizeof(first), "%s/gone",
				       r.lower[0]);
			(void)snprintf(last, sizeof(last), "%s/gone",
				       r.lower[2]);
			killed[back] = commit_killed(&r, step, paths, 2);
			part_recovered(&r, back);
			teardown(&r);
		}
	}
}

static bool is_published(struct roots *r)
{
	char path[420];

	(void)snprintf(path, sizeof(path), "%s/branches/b/published",
		       r->f.store_dir);
	return access(path, F_OK) == 0;
}

/* A root of which nothing was asked is in nobody's way back. */
static void a_root_that_is_left_alone_can_be_gone_back_over(void **state)
{
	bool killed = true;

	for (int step = 1, n_back = 0; killed; step++) {
		struct roots r = { .lower = { "" } };
		const char *paths[] = { r.lower[0] };
		struct error err = ERROR_INIT;
		enum recover_action action;
		struct branch *b;
		bool published;

		setup(&r);
		write_both(&r);
		killed = commit_killed(&r, step, paths, 1);
		published = is_published(&r);
		b = find(&r);
		assert_non_null(b);
		if (branch_recover(b, true, &action, &err) < 0) {
			assert_true(published);
			assert_int_equal(
				branch_recover(b, false, &action, &err), 0);
		} else if (killed && action == RECOVER_BACK && !published) {
			assert_false(is_gone(&r, 0));
			n_back++;
		}
		assert_true(killed || n_back > 5);
		assert_false(is_gone(&r, 2));
		branch_close(b);
		b = find(&r);
		assert_int_equal(branch_abort(b, NULL, 0, NULL), 0);
		branch_close(b);
		teardown(&r);
	}
}

/* The host writes to the first root when another one is done. */
static char late_path[420];

static void write_late(const char *step)
{
	FILE *f;

	if (strcmp(step, "done") != 0 || !late_path[0])
		return;
	f = fopen(late_path, "a");
	assert_non_null(f);
	(void)fputs("late\n", f);
	(void)fclose(f);
	late_path[0] = '\0';
}

static void what_is_found_late_takes_all_back(void **state)
{
	struct roots r = { .lower = { "" } };
	struct commit_result ret;
	struct branch *b;

	setup(&r);
	write_both(&r);
	(void)snprintf(late_path, sizeof(late_path), "%s/f", r.lower[0]);
	b = find(&r);
	branch_step_hook = write_late;
	assert_true(commit(b, NULL, 0, &ret) < 0);
	branch_step_hook = NULL;
	branch_close(b);
	assert_string_equal(late_path, "");
	assert_false(is_gone(&r, 0) || is_new(&r, 2));
	b = find(&r);
	assert_int_equal(branch_abort(b, NULL, 0, NULL), 0);
	branch_close(b);
	teardown(&r);
}

static bool rollback_killed(struct roots *r, int step)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		enum recover_action action;
		struct branch *b = find(r);

		steps_left = step;
		branch_step_hook = count_down;
		if (b)
			(void)branch_recover(b, true, &action, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == KILLED;
}

/* Of a commit, and then of the way back. */
static void whatever_the_kills(void (*then)(struct roots *r, bool rollback))
{
	bool killed = true;

	for (int step = 5; killed; step += 4) {
		bool back_killed = true;

		for (int back = 1; back_killed; back++) {
			struct roots r = { .lower = { "" } };

			setup(&r);
			write_both(&r);
			killed = commit_killed(&r, step, NULL, 0);
			back_killed = rollback_killed(&r, back);
			then(&r, back % 2);
			teardown(&r);
		}
	}
}

static void nor_does_it_matter_while_it_goes_back(void **state)
{
	whatever_the_kills(recovered);
}

/* Whether it was done. */
static bool abort_gone_of_first(struct roots *r)
{
	char gone[420];
	const char *paths[] = { gone };
	struct error err = ERROR_INIT;
	struct branch *b = find(r);
	int n;

	if (!b)
		return false;
	(void)snprintf(gone, sizeof(gone), "%s/gone", r->lower[0]);
	n = branch_abort(b, paths, 1, &err);
	branch_close(b);
	if (n < 0 && err.kind != ERR_STATE)
		fail_msg("%s", err.msg);
	return n == 0;
}

static void expect_rest(struct roots *r)
{
	struct branch *b = find(r);
	char *now = diff(b, NULL, 0);

	assert_string_equal(now, "M 0:f\nA 2:d\nM 2:f\nD 2:gone\n");
	free(now);
	branch_close(b);
}

static void abort_or_recover(struct roots *r, bool rollback)
{
	if (abort_gone_of_first(r))
		expect_rest(r);
	else
		recovered(r, rollback);
}

static void whatever_the_kill_an_abort_of_a_part_takes_no_more(void **state)
{
	whatever_the_kills(abort_or_recover);
}

/* What a sandbox mounted may take a moment to go after its end. */
static void an_abort_of_a_part_waits_for_the_end_and_takes_no_more(void **state)
{
	struct roots r = { .lower = { "" } };
	auto_free char *script = NULL;
	const struct proc_id ended = { .pid = 1, .start_time = 1 };
	char ready[420];
	int status, fd;
	pid_t pid;

	setup(&r);
	(void)snprintf(ready, sizeof(ready), "%s/ready", r.f.store_dir);
	assert_int_equal(mkfifo(ready, 0600), 0);
	assert_true(asprintf(&script,
			     "cd '%s' && echo new >>0/f && rm 0/gone 2/gone && "
			     "echo new >>2/f && mkdir 2/d && echo >'%s' && "
			     "sleep 0.3",
			     r.f.lower, ready) > 0);
	assert_int_equal(branch_set_running(r.f.branch, NULL, 0, &ended, NULL),
			 0);
	pid = fork();
	if (pid == 0) {
		inside(r.f.branch, script);
		_exit(0);
	}
	branch_close(r.f.branch);
	r.f.branch = NULL;
	fd = open(ready, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	/* It is refused where that takes longer than anybody waits. */
	while (!abort_gone_of_first(&r))
		;
	expect_rest(&r);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(fd);
	teardown(&r);
}

static void what_is_said_names_the_branch(void **state)
{
	const struct commit_options o = { .lock_timeout_ms = 0 };
	struct error err = ERROR_INIT;
	struct roots r = { .lower = { "" } };
	struct commit_result ret;
	char path[420];
	struct branch *b;
	int fd;

	setup(&r);
	write_both(&r);
	(void)snprintf(path, sizeof(path), "%s/branches/b~3/lock",
		       r.f.store_dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	b = find(&r);
	assert_true(branch_commit(b, &o, &ret, &err) < 0);
	assert_int_equal(err.kind, ERR_LOCKED);
	assert_non_null(strstr(err.msg, "branch 'b' is in use"));
	assert_non_null(strstr(err.msg, "/b~3/lock')"));
	branch_close(b);
	(void)close(fd);
	teardown(&r);
}

static void free_space_of_one_file_system_counts_once(void **state)
{
	struct statvfs fs;
	struct roots r = { .lower = { "" } };
	uint64_t n, is_free;
	(void)state;

	setup(&r);
	n = branch_free_space(r.f.branch, branch_root(r.f.branch, 0)->upper_fd);
	assert_int_equal(fstatvfs(branch_root(r.f.branch, 1)->upper_fd, &fs),
			 0);
	is_free = (uint64_t)fs.f_bfree * fs.f_frsize;
	/* Others write there, too. */
	assert_in_range(n, is_free / 2, is_free + is_free / 2);
	teardown(&r);
}

static void an_unused_one_goes_and_the_name_is_free(void **state)
{
	struct roots r = { .lower = { "" } };

	setup(&r);
	settle(&r, 0);
	assert_null(find(&r));
	create(&r);
	branch_discard(r.f.branch);
	branch_close(r.f.branch);
	r.f.branch = NULL;
	assert_null(find(&r));
	create(&r);
	settle(&r, 0);
	teardown(&r);
}

/* The creator died before the first root. */
static void an_orphan_goes_but_not_one_with_changes(void **state)
{
	struct error err = ERROR_INIT;
	struct roots r = { .lower = { "" } };
	char script[512];
	char **names;
	size_t n;

	setup(&r);
	branch_close(r.f.branch);
	r.f.branch = NULL;
	(void)snprintf(script, sizeof(script),
		       "cd branches && rm -r b && cp -a b~2 b~9 && "
		       "sed -i 's/b~2/b~9/; s/\"init_pid\":0/\"init_pid\":1/' "
		       "b~9/meta.json && sed -i "
		       "'s/\"created\":.[0-9]*/\"created\":[1/' b~*/meta.json");
	shell(r.f.store_dir, script);
	assert_int_equal(store_list(r.f.store, &names, &n, &err), 0);
	assert_int_equal(n, 0);
	store_names_free(names, n);
	shell(r.f.store_dir, "cd branches && test \"$(echo *)\" = b~9");
	teardown(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_roots_are_told_and_committed),
		cmocka_unit_test(parts_go_by_absolute_paths),
		cmocka_unit_test(a_part_does_not_need_what_is_missing),
		cmocka_unit_test(a_conflict_in_one_root_publishes_nothing),
		cmocka_unit_test(whatever_the_kill_it_is_all_or_nothing),
		cmocka_unit_test(so_it_is_for_a_part),
		cmocka_unit_test(a_late_commit_finishes_or_finds_it_done),
		cmocka_unit_test(
			a_root_that_is_left_alone_can_be_gone_back_over),
		cmocka_unit_test(what_is_found_late_takes_all_back),
		cmocka_unit_test(nor_does_it_matter_while_it_goes_back),
		cmocka_unit_test(
			whatever_the_kill_an_abort_of_a_part_takes_no_more),
		cmocka_unit_test(
			an_abort_of_a_part_waits_for_the_end_and_takes_no_more),
		cmocka_unit_test(what_is_said_names_the_branch),
		cmocka_unit_test(free_space_of_one_file_system_counts_once),
		cmocka_unit_test(an_unused_one_goes_and_the_name_is_free),
		cmocka_unit_test(an_orphan_goes_but_not_one_with_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
