#include "unit.h"

#include <sys/resource.h>

#include "base/fd.h"
#include "control/rundir.h"

struct fixture {
	char tmp[256];
	char root[300];
	struct rundir *dir;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd = unit_tmpdir(f->tmp);

	(void)close(fd);
	(void)snprintf(f->root, sizeof(f->root), "%s/a/b", f->tmp);
	assert_int_equal(rundir_open(f->root, true, &f->dir, NULL), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char path[300];

	rundir_close(f->dir);
	assert_int_equal(rmdir(f->root), 0);
	(void)snprintf(path, sizeof(path), "%s/a", f->tmp);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(f->tmp), 0);
	free(f);
	return 0;
}

static void test_claim_is_exclusive(void **state)
{
	struct fixture *f = *state;
	struct rundir_slot *a = NULL, *b = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(rundir_claim(f->dir, "web", &a, NULL), 0);
	assert_int_equal(rundir_claim(f->dir, "web", &b, &err), -EEXIST);
	assert_int_equal(err.kind, ERR_EXISTS);
	assert_non_null(strstr(err.msg, "already exists"));
	assert_null(b);
	assert_int_equal(rundir_remove(a, NULL), 0);
	rundir_slot_close(a);
}

/* With room for fewer descriptors than it takes. */
static void test_a_failed_claim_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct rundir_slot *s = NULL;
	struct rlimit was, less;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (rlim_t room = 0; room < 2; room++) {
		int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

		assert_true(next >= 0);
		(void)close(next);
		less = (struct rlimit){ (rlim_t)next + room, was.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
		assert_int_equal(rundir_claim(f->dir, "web", &s, NULL),
				 -EMFILE);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_null(s);
		/* Or it would be in the way of the next one, and of rmdir. */
		assert_int_equal(rundir_find(f->dir, "web", &s, NULL), -ENOENT);
	}
}

/* Of a start that failed for want of descriptors. */
static void test_removal_needs_no_descriptor(void **state)
{
	struct fixture *f = *state;
	struct rundir_slot *s = NULL;
	struct rlimit was;
	int next, r;

	assert_int_equal(rundir_claim(f->dir, "web", &s, NULL), 0);
	next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(next >= 0);
	(void)close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(
		setrlimit(RLIMIT_NOFILE,
			  &(struct rlimit){ (rlim_t)next, was.rlim_max }),
		0);
	r = rundir_remove(s, NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(r, 0);
	rundir_slot_close(s);
	assert_int_equal(rundir_find(f->dir, "web", &s, NULL), -ENOENT);
}

static void test_bad_names_make_nothing(void **state)
{
	static const char *const bad[] = { "",	      ".",    "..",  "a/b",
					   ".hidden", "../x", "a b", "a\n" };
	struct fixture *f = *state;
	struct rundir_slot *s = NULL;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(rundir_claim(f->dir, bad[i], &s, &err) < 0);
		assert_int_equal(err.kind, ERR_NAME);
		assert_true(rundir_find(f->dir, bad[i], &s, &err) < 0);
	}
}

static void test_late_removal_spares_a_successor(void **state)
{
	struct fixture *f = *state;
	struct rundir_slot *old = NULL, *new = NULL, *found = NULL;

	assert_int_equal(rundir_claim(f->dir, "web", &old, NULL), 0);
	assert_int_equal(rundir_remove(old, NULL), 0);
	assert_int_equal(rundir_claim(f->dir, "web", &new, NULL), 0);
	assert_int_equal(rundir_remove(old, NULL), 0);
	assert_int_equal(rundir_find(f->dir, "web", &found, NULL), 0);
	rundir_slot_close(found);
	assert_int_equal(rundir_remove(new, NULL), 0);
	rundir_slot_close(old);
	rundir_slot_close(new);
}

static void test_pid_file_has_two_lines(void **state)
{
	struct fixture *f = *state;
	struct rundir_slot *s = NULL;
	auto_(buf) struct buf b = BUF_INIT;
	pid_t init = 0, server = 0;

	assert_int_equal(rundir_claim(f->dir, "web", &s, NULL), 0);
	assert_true(rundir_read_pids(s, &init, &server) < 0);
	assert_int_equal(rundir_write_pids(s, 12, 34, NULL), 0);
	assert_int_equal(fd_read_file(rundir_slot_fd(s), "pid", 64, &b), 0);
	assert_string_equal(buf_str(&b), "12\n34\n");
	assert_int_equal(rundir_read_pids(s, &init, &server), 0);
	assert_int_equal(init, 12);
	assert_int_equal(server, 34);
	/* Older programs write one line: the payload. */
	assert_int_equal(fd_write_atomic(rundir_slot_fd(s), "pid", "56\n", 3,
					 0600, false),
			 0);
	assert_int_equal(rundir_read_pids(s, &init, &server), 0);
	assert_int_equal(server, 56);
	assert_int_equal(
		fd_write_atomic(rundir_slot_fd(s), "pid", "x", 1, 0600, false),
		0);
	assert_int_equal(rundir_read_pids(s, &init, &server), -EINVAL);
	assert_int_equal(rundir_remove(s, NULL), 0);
	rundir_slot_close(s);
}

/* By a payload that may unmount and mount. */
static void test_what_others_put_there_goes_too(void **state)
{
	enum { DEPTH = 3000 };
	struct fixture *f = *state;
	struct rundir_slot *s = NULL;
	int fd, next;

	assert_int_equal(rundir_claim(f->dir, "web", &s, NULL), 0);
	assert_int_equal(mkdirat(rundir_slot_fd(s), "gone.0", 0700), 0);
	assert_int_equal(mkdirat(rundir_slot_fd(s), "notify", 0700), 0);
	fd = openat(rundir_slot_fd(s), "notify", O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(mkdirat(fd, "a", 0700), 0);
		assert_int_equal(mkdirat(fd, "b", 0700), 0);
		assert_int_equal(symlinkat("/", fd, "link"), 0);
		next = openat(fd, "a", O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	assert_int_equal(rundir_remove(s, NULL), 0);
	rundir_slot_close(s);
	assert_int_equal(rundir_find(f->dir, "web", &s, NULL), -ENOENT);
}

static void test_lock_excludes_others(void **state)
{
	struct fixture *f = *state;
	struct rundir_slot *a = NULL, *b = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(rundir_claim(f->dir, "web", &a, NULL), 0);
	assert_int_equal(rundir_find(f->dir, "web", &b, NULL), 0);
	assert_int_equal(rundir_lock(b, 10, &err), -ETIMEDOUT);
	assert_int_equal(err.kind, ERR_LOCKED);
	rundir_unlock(a);
	assert_int_equal(rundir_lock(b, 10, &err), 0);
	assert_int_equal(rundir_remove(b, NULL), 0);
	rundir_slot_close(a);
	rundir_slot_close(b);
}

static void test_mode_of_given_root_stays(void **state)
{
	static const mode_t written[] = { 0720, 0702, 01777, 0775 };
	struct fixture *f = *state;
	struct rundir *again = NULL;
	struct error err = ERROR_INIT;
	struct stat st;

	assert_int_equal(chmod(f->root, 0755), 0);
	assert_int_equal(rundir_open(f->root, false, &again, NULL), 0);
	rundir_close(take_ptr(&again));
	assert_int_equal(stat(f->root, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	for (size_t i = 0; i < ARRAY_LEN(written); i++) {
		assert_int_equal(chmod(f->root, written[i]), 0);
		assert_int_equal(rundir_open(f->root, true, &again, &err),
				 -EPERM);
		assert_null(again);
		assert_non_null(strstr(err.hint, "--root"));
		assert_int_equal(stat(f->root, &st), 0);
		assert_int_equal(st.st_mode & 07777, written[i]);
	}
	assert_int_equal(chmod(f->root, 0700), 0);
}

static void test_foreign_root_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rundir *again = NULL;
	struct error err = ERROR_INIT;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(f->root, 12345, 0), 0);
	assert_int_equal(rundir_open(f->root, true, &again, &err), -EPERM);
	assert_non_null(strstr(err.msg, "12345"));
	assert_non_null(strstr(err.hint, "--root"));
	assert_int_equal(chown(f->root, 0, 0), 0);
}

static void test_link_is_no_root(void **state)
{
	struct fixture *f = *state;
	struct rundir *d = NULL;
	char link[300];

	(void)snprintf(link, sizeof(link), "%s/link", f->tmp);
	assert_int_equal(symlink(f->root, link), 0);
	assert_true(rundir_open(link, true, &d, NULL) < 0);
	assert_int_equal(unlink(link), 0);
}

static void test_names_are_sorted(void **state)
{
	struct fixture *f = *state;
	struct rundir_slot *a = NULL, *b = NULL;
	char **names = NULL;
	size_t n = 0;

	assert_int_equal(rundir_claim(f->dir, "zoo", &a, NULL), 0);
	assert_int_equal(rundir_claim(f->dir, "ant", &b, NULL), 0);
	assert_int_equal(rundir_names(f->dir, &names, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(names[0], "ant");
	assert_string_equal(names[1], "zoo");
	rundir_names_free(names, n);
	assert_int_equal(rundir_remove(a, NULL), 0);
	assert_int_equal(rundir_remove(b, NULL), 0);
	rundir_slot_close(a);
	rundir_slot_close(b);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_claim_is_exclusive),
		T(test_a_failed_claim_leaves_nothing),
		T(test_removal_needs_no_descriptor),
		T(test_bad_names_make_nothing),
		T(test_late_removal_spares_a_successor),
		T(test_pid_file_has_two_lines),
		T(test_what_others_put_there_goes_too),
		T(test_lock_excludes_others),
		T(test_mode_of_given_root_stays),
		T(test_foreign_root_is_refused),
		T(test_link_is_no_root),
		T(test_names_are_sorted),
	};

	return RUN_TESTS(tests);
}
