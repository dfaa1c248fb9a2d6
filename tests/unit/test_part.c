/* Parts of a branch, and the cases that need more than a shell script. */
#include "branch_fixture.h"

#include <sys/file.h>

static int commit_paths(struct fixture *f, const char *const *paths, size_t n,
			struct commit_result *result, struct error *err)
{
	const struct commit_options o = { .lock_timeout_ms = 300,
					  .paths = paths,
					  .n_paths = n };

	*err = (struct error)ERROR_INIT;
	*result = (struct commit_result){ .gone = false };
	return branch_commit(f->branch, &o, result, err);
}

static void commit_part(struct fixture *f, const char *path, bool gone)
{
	struct commit_result result;
	struct error err;

	if (commit_paths(f, &path, 1, &result, &err) < 0)
		fail_msg("%s (%s)", err.msg, err.hint);
	assert_int_equal(result.gone, gone);
}

static void commit_all(struct fixture *f)
{
	struct commit_result result;
	struct error err;

	if (commit_paths(f, NULL, 0, &result, &err) < 0)
		fail_msg("%s (%s)", err.msg, err.hint);
	assert_true(result.gone);
}

static void assert_committed(struct fixture *f)
{
	char *got = snapshot(f->lower);

	assert_string_equal(got, f->seen);
	free(got);
}

static const char many_lower[] =
	"mkdir -p d/e old; echo 1 > d/f; echo 2 > d/e/g; echo 3 > k; "
	"echo 4 > l; echo 5 > old/x; echo 6 > pair; ln pair pair2";
static const char many_inside[] =
	"echo b >> d/f; echo b >> d/e/g; rm k; echo n > n; "
	"mkdir -p t/sub/x; mv t new; echo 6 > new/sub/f; echo 7 > new/sub/x/y; "
	"echo 8 > new/g; ln n new/link; chmod 700 d; rm -r old; mkdir old; "
	"echo 9 > old/y; setfattr -n user.k -v 1 new; echo c >> pair; "
	"echo d >> pair2";

/* Whatever the parts and their order, together they are the whole. */
static void parts_make_the_whole(void **state)
{
	static const char *const orders[][9] = {
		{ "d/e", "k", "new/sub/x", "old", "n", "pair" },
		{ "new/sub/f", "d/f", "new/link", "pair2" },
		{ "new/g", "new/sub", "n", "d" },
		{ "old/", "./k", "/new/link", "d/e/g", "d/f", "pair" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		struct fixture f;

		fixture_open(&f, many_lower);
		fixture_run(&f, many_inside, NULL);
		for (size_t k = 0; orders[i][k]; k++) {
			struct commit_result result;
			struct error err;

			if (commit_paths(&f, &orders[i][k], 1, &result, &err) <
			    0)
				fail_msg("%s: %s", orders[i][k], err.msg);
			assert_false(result.gone);
		}
		commit_all(&f);
		assert_committed(&f);
		fixture_close(&f);
	}
}

static void the_last_part_ends_the_branch(void **state)
{
	struct commit_result result;
	const char *other = "h";
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, "echo 1 > f; echo 2 > g");
	fixture_run(&f, "echo b >> f; rm g", NULL);
	commit_part(&f, "f", false);
	assert_diff(&f, CHANGE_WANT_CONFLICTS, "D g\n");
	assert_int_equal(commit_paths(&f, &other, 1, &result, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	commit_part(&f, "g", true);
	assert_committed(&f);
	fixture_close(&f);
}

static void part_of_a_replaced_directory(void **state)
{
	const char *path = "d/n";
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, "mkdir d; echo 1 > d/f");
	fixture_run(&f, "rm -r d; mkdir d; echo n > d/n", NULL);
	assert_true(commit_paths(&f, &path, 1, &result, &err) < 0);
	assert_non_null(strstr(err.msg, "replaced as a whole"));
	commit_all(&f);
	assert_committed(&f);
	fixture_close(&f);
}

static void abort_parts(void **state)
{
	const char *paths[] = { "f", "d/n", "k" };
	const char *missing = "l";
	struct fixture f;
	struct error err = ERROR_INIT;

	(void)state;
	fixture_open(&f, "echo 1 > f; mkdir d; echo 2 > k; echo 3 > l");
	fixture_run(&f, "echo b >> f; echo n > d/n; echo m > d/m; rm k", NULL);
	assert_int_equal(branch_abort(f.branch, &missing, 1, &err), -ENOENT);
	assert_int_equal(branch_abort(f.branch, paths, 3, &err), 0);
	assert_diff(&f, CHANGE_WANT_CONFLICTS, "A d/m\n");
	commit_all(&f);
	shell(f.lower, "test -e k && test $(cat f) = 1 && test -e d/m && "
		       "test ! -e d/n");
	fixture_close(&f);
}

static void aborting_every_part_ends_the_branch(void **state)
{
	const char *paths[] = { "d/n", "f" };
	struct fixture f;
	struct error err = ERROR_INIT;

	(void)state;
	fixture_open(&f, "echo 1 > f; mkdir d");
	fixture_run(&f, "echo n > d/n; rm f", NULL);
	assert_int_equal(branch_abort(f.branch, paths, 2, &err), 0);
	shell(f.store_dir, "test ! -e branches/b");
	fixture_close(&f);
}

static void abort_all_leaves_no_trace(void **state)
{
	struct fixture f;
	struct error err = ERROR_INIT;
	char *before, *after;

	(void)state;
	fixture_open(&f, many_lower);
	before = snapshot(f.lower);
	fixture_run(&f, many_inside, NULL);
	assert_int_equal(branch_abort(f.branch, NULL, 0, &err), 0);
	after = snapshot(f.lower);
	assert_string_equal(after, before);
	free(before);
	free(after);
	shell(f.store_dir, "test ! -e branches/b");
	fixture_close(&f);
}

static void make_socket(void)
{
	assert_int_equal(mknod("s", S_IFSOCK | 0755, 0), 0);
	assert_int_equal(mkdir("d", 0755), 0);
	assert_int_equal(mknod("d/s", S_IFSOCK | 0755, 0), 0);
	assert_int_equal(mknod("d/f", S_IFREG | 0644, 0), 0);
}

static void row_33_sockets_stay_behind(void **state)
{
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, NULL);
	fixture_run(&f, NULL, make_socket);
	assert_diff(&f, 0, "A d/\nA d/f\nA d/s (special)\nA s (special)\n");
	assert_int_equal(commit_paths(&f, NULL, 0, &result, &err), 0);
	assert_true(result.gone);
	assert_int_equal(result.n_skipped, 2);
	shell(f.lower, "test -f d/f && test ! -e s && test ! -e d/s");
	fixture_close(&f);
}

static void row_34_devices_are_refused(void **state)
{
	const struct commit_options special = { .allow_special = true };
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, NULL);
	fixture_run(&f, "mkdir d; mknod d/n c 1 3; echo x > f", NULL);
	assert_int_equal(commit_paths(&f, NULL, 0, &result, &err), -EPERM);
	assert_int_equal(err.kind, ERR_STATE);
	shell(f.lower, "test ! -e f && test ! -e d");
	assert_int_equal(branch_commit(f.branch, &special, &result, &err), 0);
	assert_committed(&f);
	fixture_close(&f);
}

static void go_deep(void)
{
	char name[101];

	memset(name, 'n', 100);
	name[100] = '\0';
	for (int i = 0; i < 300; i++) {
		assert_int_equal(mkdir(name, 0755), 0);
		assert_int_equal(chdir(name), 0);
	}
	assert_int_equal(mknod("leaf", S_IFREG | 0644, 0), 0);
}

static int count(void *data, const struct change *c)
{
	size_t *n = data;

	(*n)++;
	if (strlen(c->path) > 30300)
		assert_non_null(strstr(c->path, "/leaf"));
	return 0;
}

/* No snapshot: it goes by paths, and these are longer than any may be. */
static void run_without_snapshot(struct fixture *f, inside_fn *fn)
{
	const struct branch_options o = { .name = "b", .lower = f->lower };
	const struct exit_status ok = { .kind = EXIT_CODE };
	struct branch_settled settled;
	struct error err = ERROR_INIT;
	int status, mount_fd;
	pid_t pid;

	assert_int_equal(branch_create(f->store, &o, &f->branch, &err), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    branch_overlay(f->branch, &mount_fd, &err) < 0 ||
		    fchdir(mount_fd) < 0)
			_exit(1);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(branch_settle(f->branch, &ok, true, &settled, &err),
			 0);
}

static void row_41_deep_trees(void **state)
{
	struct fixture f;
	struct error err = ERROR_INIT;
	size_t n = 0;

	(void)state;
	fixture_open(&f, NULL);
	run_without_snapshot(&f, go_deep);
	assert_int_equal(branch_changes(f.branch, 0, NULL, 0, count, &n, &err),
			 0);
	assert_int_equal(n, 301);
	commit_all(&f);
	/* And the other way: the whole of it is deleted again. */
	branch_close(f.branch);
	f.branch = NULL;
	free(f.seen);
	fixture_run(&f, "rm -r nn*", NULL);
	n = 0;
	assert_int_equal(branch_changes(f.branch, CHANGE_WANT_CHILDREN, NULL, 0,
					count, &n, &err),
			 0);
	assert_int_equal(n, 301);
	commit_all(&f);
	assert_committed(&f);
	fixture_close(&f);
}

static void go_wide(void)
{
	char name[32];

	for (int i = 0; i < 30000; i++) {
		(void)snprintf(name, sizeof(name), "file-%d", i);
		assert_int_equal(mknod(name, S_IFREG | 0644, 0), 0);
	}
}

static void row_44_wide_directories(void **state)
{
	struct fixture f;
	struct error err = ERROR_INIT;
	size_t n = 0;

	(void)state;
	fixture_open(&f, NULL);
	run_without_snapshot(&f, go_wide);
	assert_int_equal(branch_changes(f.branch, 0, NULL, 0, count, &n, &err),
			 0);
	assert_int_equal(n, 30000);
	commit_all(&f);
	shell(f.lower, "test $(ls -f | wc -l) = 30002");
	fixture_close(&f);
}

static void row_54_the_root_was_replaced(void **state)
{
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, "echo 1 > f");
	fixture_run(&f, "echo b >> f", NULL);
	branch_close(f.branch);
	shell(f.top, "mv lower moved; mkdir lower; echo 1 > lower/f");
	assert_int_equal(branch_find(f.store, "b", &f.branch, &err), 0);
	assert_int_equal(commit_paths(&f, NULL, 0, &result, &err), -ESTALE);
	assert_int_equal(err.kind, ERR_STATE);
	shell(f.top, "! grep -q b lower/f moved/f");
	fixture_close(&f);
}

static void row_56_mounts_are_never_crossed(void **state)
{
	struct commit_result result;
	struct fixture f;
	struct error err;
	char *before;

	(void)state;
	fixture_open(&f, "mkdir d m; echo 1 > m/f");
	fixture_run(&f, "echo b >> m/f; echo n > n; mkdir m/s; rm -r d", NULL);
	shell(f.lower, "mount -t tmpfs none m; mkdir d/x; "
		       "mount -t tmpfs none d/x; echo 1 > d/x/y");
	before = snapshot(f.lower);
	assert_true(commit_paths(&f, NULL, 0, &result, &err) < 0);
	shell(f.lower, "test ! -e n && test -f d/x/y && umount d/x m");
	assert_int_equal(err.kind, ERR_CONFLICT);
	free(before);
	fixture_close(&f);
}

static int add_path(void *data, const struct change *c)
{
	buf_printf(data, "%s\n", c->path);
	return 0;
}

static void mounts_below_are_told(void **state)
{
	struct buf b = BUF_INIT;
	struct fixture f;
	struct error err;
	int r;

	(void)state;
	fixture_open(&f, "mkdir -p 'a b/m' n");
	fixture_run(&f, "echo x > f", NULL);
	shell(f.lower, "mount -t tmpfs none 'a b/m'");
	r = branch_uncovered(f.branch, add_path, &b, &err);
	shell(f.lower, "umount 'a b/m'");
	assert_int_equal(r, 0);
	assert_string_equal(buf_str(&b), "a b/m\n");
	buf_done(&b);
	fixture_close(&f);
}

static void a_locked_lower_defers(void **state)
{
	struct commit_result result;
	struct fixture f;
	struct error err;
	int fd;

	(void)state;
	fixture_open(&f, "echo 1 > f");
	fixture_run(&f, "echo b >> f", NULL);
	fd = open(f.lower, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(commit_paths(&f, NULL, 0, &result, &err),
			 -EWOULDBLOCK);
	assert_int_equal(err.kind, ERR_LOCKED);
	assert_non_null(strstr(err.msg, branch_dir(f.branch)));
	shell(f.lower, "! grep -q b f");
	(void)close(fd);
	commit_all(&f);
	assert_committed(&f);
	fixture_close(&f);
}

static void row_57_locks_of_a_dead_git_stay_behind(void **state)
{
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, "mkdir -p r/.git; echo 1 > r/.git/HEAD");
	fixture_run(&f,
		    "echo 2 > r/.git/index; : > r/.git/index.lock; "
		    "mkdir -p s/.git; : > s/.git/HEAD.lock; echo 3 > s/x.lock",
		    NULL);
	assert_int_equal(commit_paths(&f, NULL, 0, &result, &err), 0);
	assert_true(result.gone);
	assert_int_equal(result.n_skipped, 2);
	shell(f.lower, "test -f r/.git/index && test -f s/x.lock && "
		       "test -z \"$(find . -name '*.lock' -path '*.git*')\"");
	fixture_close(&f);
}

static void row_59_a_repository_is_one(void **state)
{
	const struct commit_options skip = { .conflicts = CONFLICT_SKIP };
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, "mkdir -p r/.git/refs r/.git/objects; "
			 "echo 1 > r/.git/index; echo 1 > r/f; echo 1 > db; "
			 "echo 1 > db-wal");
	fixture_run(&f,
		    "echo 2 > r/.git/index; echo 2 > r/.git/refs/m; "
		    "mkdir r/.git/objects/ab; echo o > r/.git/objects/ab/c; "
		    "echo 2 > r/f; echo 2 > db; echo 2 > db-wal; "
		    "chmod 700 r/.git/refs",
		    NULL);
	usleep(5000);
	shell(f.lower, "echo h > r/.git/index; echo h > db-wal");
	assert_int_equal(branch_commit(f.branch, &skip, &result, &err), 0);
	assert_false(result.gone);
	shell(f.lower, "test $(cat r/f) = 2 && test ! -e r/.git/refs/m && "
		       "test ! -e r/.git/objects/ab && test $(cat db) = 1 && "
		       "test $(stat -c %a r/.git/refs) = 755");
	assert_diff(&f, 0,
		    "M db\nM db-wal\nM r/.git/index\nA r/.git/objects/ab/\n"
		    "A r/.git/objects/ab/c\nm r/.git/refs/\n"
		    "A r/.git/refs/m\n");
	fixture_close(&f);
}

static void row_66_foreign_uppers_are_refused(void **state)
{
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, "echo 1 > f");
	fixture_run(&f, "echo b >> f", NULL);
	shell(branch_upper(f.branch),
	      "setfattr -n trusted.overlay.metacopy -v '' f");
	assert_int_equal(commit_paths(&f, NULL, 0, &result, &err), -EOPNOTSUPP);
	shell(f.lower, "! grep -q b f");
	fixture_close(&f);
}

static void row_70_commit_twice(void **state)
{
	struct commit_result result;
	struct fixture f;
	struct error err;

	(void)state;
	fixture_open(&f, "echo 1 > f");
	fixture_run(&f, "echo b >> f", NULL);
	commit_all(&f);
	assert_int_equal(commit_paths(&f, NULL, 0, &result, &err), 0);
	assert_true(result.gone);
	assert_int_equal(result.n_published, 0);
	assert_int_equal(branch_abort(f.branch, NULL, 0, &err), -ENOENT);
	assert_committed(&f);
	fixture_close(&f);
}

/*
 * In one mount, as the runtime does it: it makes its objects, records them,
 * and only then lets the payload run.
 */
static void run_after_runtime(struct fixture *f, const char *runtime,
			      const char *const *made, size_t n_made,
			      const char *payload)
{
	const struct branch_options o = { .name = "b", .lower = f->lower };
	const struct exit_status ok = { .kind = EXIT_CODE };
	const struct proc_id ended = { .pid = 1, .start_time = 1 };
	struct branch_settled settled;
	struct error err = ERROR_INIT;
	int status, mount_fd, ready[2], go[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(branch_create(f->store, &o, &f->branch, &err), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC) | pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    branch_overlay(f->branch, &mount_fd, &err) < 0 ||
		    move_mount(mount_fd, "", AT_FDCWD, f->merged,
			       MOVE_MOUNT_F_EMPTY_PATH) < 0)
			_exit(1);
		(void)close(mount_fd);
		shell(f->merged, runtime);
		if (write(ready[1], &byte, 1) != 1 ||
		    read(go[0], &byte, 1) != 1)
			_exit(2);
		if (payload)
			shell(f->merged, payload);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(
		branch_set_running(f->branch, made, n_made, &ended, &err), 0);
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	if (branch_settle(f->branch, &ok, true, &settled, &err) < 0)
		fail_msg("%s", err.msg);
	if (settled.gone) {
		branch_close(f->branch);
		f->branch = NULL;
	}
	for (size_t i = 0; i < 2; i++) {
		(void)close(ready[i]);
		(void)close(go[i]);
	}
}

static const char *const runtimes[] = { "dev/console", "proc", "etc/hosts",
					"d/target" };
static const char runtime_script[] = "mkdir dev proc d/target; "
				     ": > dev/console; : > etc/hosts";

static void what_the_runtime_made_is_no_change(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, "mkdir d etc");
	run_after_runtime(&f, runtime_script, runtimes, ARRAY_LEN(runtimes),
			  NULL);
	assert_null(f.branch);
	fixture_close(&f);
}

static void the_payload_among_what_the_runtime_made(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, "mkdir d etc; echo 1 > d/f; echo 1 > g");
	run_after_runtime(&f, runtime_script, runtimes, ARRAY_LEN(runtimes),
			  "echo n > dev/new; echo b >> d/f; echo m >> "
			  "etc/hosts; chmod 700 proc; echo b >> g");
	assert_diff(&f, CHANGE_WANT_CONFLICTS,
		    "M d/f\nA dev/\nA dev/new\nA etc/hosts\nM g\nA proc/\n");
	commit_all(&f);
	shell(f.lower, "test -f dev/new && test ! -e dev/console && "
		       "test ! -e d/target && grep -q b d/f && "
		       "grep -q m etc/hosts && test $(stat -c %a proc) = 700");
	/* It put something into d, the payload did not. */
	shell(f.lower, "test $(stat -c %Y d) = $(date -d "
		       "'2001-02-03 04:05:06' +%s)");
	fixture_close(&f);
}

static void contents_and_digests(void **state)
{
	struct fixture f;
	struct error err;
	char digest[65], *expected;
	int fd;

	(void)state;
	fixture_open(&f, "printf abc > f; mkfifo p");
	fixture_run(&f, "printf abcd > f; rm p; mkfifo p", NULL);
	expected = SHA256Data((const uint8_t *)"abc", 3, NULL);
	assert_int_equal(
		branch_digest(f.branch, "f", CONTENT_BEFORE, digest, &err), 0);
	assert_string_equal(digest, expected);
	free(expected);
	expected = SHA256Data((const uint8_t *)"abcd", 4, NULL);
	assert_int_equal(
		branch_digest(f.branch, "f", CONTENT_AFTER, digest, &err), 0);
	assert_string_equal(digest, expected);
	free(expected);
	assert_true(branch_open_content(f.branch, "p", CONTENT_AFTER, &fd,
					&err) < 0);
	assert_true(branch_open_content(f.branch, "../x", CONTENT_BEFORE, &fd,
					&err) < 0);
	fixture_close(&f);
}

static void opened_files_are_told_on_request(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, "echo 1 > f; echo 2 > g; mkdir d; echo 3 > d/h");
	fixture_run(&f, ": <> f; echo 2 > g; rm -r d", NULL);
	assert_diff(&f, CHANGE_WANT_UNCHANGED,
		    "D d/\nM f (same)\nM g (same) (mtime)\n");
	assert_diff(&f, CHANGE_WANT_META, "D d/\nm g (same) (mtime)\n");
	assert_diff(&f, CHANGE_WANT_CHILDREN, "D d/\nD d/h (implied)\n");
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_make_the_whole),
		cmocka_unit_test(the_last_part_ends_the_branch),
		cmocka_unit_test(part_of_a_replaced_directory),
		cmocka_unit_test(abort_parts),
		cmocka_unit_test(aborting_every_part_ends_the_branch),
		cmocka_unit_test(abort_all_leaves_no_trace),
		cmocka_unit_test(row_33_sockets_stay_behind),
		cmocka_unit_test(row_34_devices_are_refused),
		cmocka_unit_test(row_41_deep_trees),
		cmocka_unit_test(row_44_wide_directories),
		cmocka_unit_test(row_54_the_root_was_replaced),
		cmocka_unit_test(row_56_mounts_are_never_crossed),
		cmocka_unit_test(mounts_below_are_told),
		cmocka_unit_test(a_locked_lower_defers),
		cmocka_unit_test(row_57_locks_of_a_dead_git_stay_behind),
		cmocka_unit_test(row_59_a_repository_is_one),
		cmocka_unit_test(row_66_foreign_uppers_are_refused),
		cmocka_unit_test(row_70_commit_twice),
		cmocka_unit_test(what_the_runtime_made_is_no_change),
		cmocka_unit_test(the_payload_among_what_the_runtime_made),
		cmocka_unit_test(contents_and_digests),
		cmocka_unit_test(opened_files_are_told_on_request),
	};

	if (geteuid() != 0)
		return unit_needs_root();
	return RUN_TESTS(tests);
}
