/* Directories of the lower that are made movable in a mounted branch. */
#include "branch_fixture.h"

#include "killed.h"

#include <fcntl.h>

#include "branch/internal.h"
#include "branch/movable.h"
#include "branch/tree.h"
#include "branch/walk.h"

static const char lower_script[] =
	"mkdir -p d/e/deep d/empty other; echo 1 > d/f; echo 2 > d/e/g; "
	"echo 3 > d/e/deep/h; ln -s f d/l; ln d/f d/e/hard; mkfifo d/p; "
	"chmod 4755 d/f; chmod 500 d/e/deep; chmod 1777 d; "
	"chown 3:4 d/e d/e/g; setfattr -n user.k -v v d/e; "
	"setfattr -n trusted.t -v v d; echo 4 > other/x";

static struct fixture *current;
static int result;

static int make_movable_in(const char *dir, const char *name, const char *path)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = branch_make_movable(current->branch, fd, name, path);

	(void)close(fd);
	return r;
}

static int make_movable(const char *path)
{
	return make_movable_in(".", path, path);
}

/* Without the inode numbers nothing tells that it has happened. */
static void move_d(void)
{
	char *before = snapshot_here("."), *after;

	assert_true(branch_has_lower_dir(current->branch, "d"));
	assert_true(branch_has_lower_dir(current->branch, "d/e/deep"));
	assert_int_equal(rename("d", "new"), -1);
	assert_int_equal(errno, EXDEV);
	result = make_movable("d");
	after = snapshot_here(".");
	assert_string_equal(before, after);
	assert_false(branch_has_lower_dir(current->branch, "d"));
	assert_false(branch_has_lower_dir(current->branch, "d/e/deep"));
	assert_int_equal(rename("d", "new"), 0);
	assert_false(branch_has_lower_dir(current->branch, "new"));
	if (result)
		_exit(1);
}

static void nothing_shows_and_the_rename_succeeds(void **state)
{
	struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result ret;
	struct error err = ERROR_INIT;
	struct fixture f;
	char *now;

	if (geteuid() != 0)
		skip();
	fixture_open(&f, lower_script);
	current = &f;
	fixture_run(&f, NULL, move_d);
	if (branch_commit(f.branch, &o, &ret, &err) < 0)
		fail_msg("%s", err.msg);
	now = snapshot(f.lower);
	assert_string_equal(now, f.seen);
	free(now);
	fixture_close(&f);
}

/* Below a directory that is moved itself, once this was cut off. */
static bool in_parent;

static void go_on(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		branch_step_hook = count_down;
		_exit((in_parent ? make_movable_in("top", "d", "top/d")
				 : make_movable("d")) < 0);
	}
	if (waitpid(pid, &status, 0) != pid)
		_exit(1);
	result = WEXITSTATUS(status);
	if (in_parent &&
	    (make_movable("top") < 0 || rename("top", "renamed") < 0))
		_exit(1);
	/* The fixture's process says so to the test. */
	if (result == KILLED && mkdir("was-killed", 0700) < 0)
		_exit(1);
}

/* Contents, modes, owners, attributes; times of directories may differ. */
static char *listing(const char *dir)
{
	struct buf b = BUF_INIT;
	char *all = snapshot(dir);

	for (char *p = all, *end; *p; p = end) {
		char *dot;

		end = strchr(p, '\n') + 1;
		if (strncmp(p, "was-killed:", 11) == 0)
			continue;
		dot = strchr(p, '.');
		if (p[0] == '.')
			dot = strchr(p + 1, '.');
		/* name: mode uid:gid TIME rest */
		while (dot > p && dot[-1] != ' ')
			dot--;
		buf_add(&b, p, (size_t)(dot - p));
		dot += strcspn(dot, " \n");
		buf_add(&b, dot, (size_t)(end - dot));
	}
	free(all);
	return buf_take(&b, NULL);
}

static void cut_off_at_each_step(const char *script, int first)
{
	struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result ret;
	struct error err = ERROR_INIT;
	struct fixture f;
	bool killed = true;
	int n = 0;

	if (geteuid() != 0)
		skip();
	current = &f;
	for (int step = first; killed; step++) {
		char *before, *after;

		fixture_open(&f, script);
		before = listing(f.lower);
		steps_left = step;
		fixture_run(&f, NULL, go_on);
		killed = strstr(f.seen, "was-killed");
		if (f.branch && branch_commit(f.branch, &o, &ret, &err) < 0)
			fail_msg("step %d: %s", step, err.msg);
		if (in_parent)
			shell(f.lower, "mv -T renamed top");
		after = listing(f.lower);
		if (strcmp(before, after) != 0)
			print_error("step %d\n", step);
		assert_string_equal(before, after);
		free(before);
		free(after);
		fixture_close(&f);
		n += killed;
	}
	assert_true(n > 10);
}

static void whatever_the_step_it_is_cut_off_at_nothing_is_lost(void **state)
{
	(void)state;
	cut_off_at_each_step(lower_script, 1);
}

static void nor_where_its_parent_is_renamed_meanwhile(void **state)
{
	char script[sizeof(lower_script) + 64];

	(void)state;
	(void)snprintf(script, sizeof(script), "mkdir top; cd top; %s",
		       lower_script);
	in_parent = true;
	/* A link that broke in step 1 is not known as one by the next. */
	cut_off_at_each_step(script, 2);
	in_parent = false;
}

static void fill_up(void)
{
	char *before, *after;

	/* Room for one of the two files. */
	assert_int_equal(system("head -c 3000000 /dev/zero > full"), 0);
	before = snapshot_here("big");
	result = make_movable("big");
	after = snapshot_here("big");
	assert_string_equal(before, after);
	if (result != -ENOSPC || access("big/a", F_OK) < 0)
		_exit(1);
}

static void a_full_store_fails_it_and_leaves_the_tree(void **state)
{
	struct fixture f;
	char *storage;

	if (geteuid() != 0)
		skip();
	fixture_open(&f, "mkdir big; head -c 400000 /dev/zero > big/a; "
			 "head -c 900000 /dev/zero > big/b");
	current = &f;
	assert_true(asprintf(&storage, "%s/small", f.top) > 0);
	assert_int_equal(mkdir(storage, 0700), 0);
	assert_int_equal(mount("t", storage, "tmpfs", 0, "size=4m"), 0);
	f.storage = storage;
	fixture_run(&f, NULL, fill_up);
	branch_close(f.branch);
	f.branch = NULL;
	(void)umount2(storage, MNT_DETACH);
	free(storage);
	fixture_close(&f);
}

static void mount_inside(void)
{
	assert_int_equal(mount("t", "d/e/deep", "tmpfs", 0, NULL), 0);
	result = make_movable("d");
	(void)umount("d/e/deep");
	if (result != -EXDEV)
		_exit(1);
}

static void a_mount_below_leaves_it_to_the_kernel(void **state)
{
	struct fixture f;

	if (geteuid() != 0)
		skip();
	fixture_open(&f, lower_script);
	current = &f;
	fixture_run(&f, NULL, mount_inside);
	fixture_close(&f);
}

/* A payload may put a link in the place of what was just made. */
static void a_link_in_the_place_of_a_directory_is_not_followed(void **state)
{
	char top[] = "/tmp/sandlock-movable-XXXXXX";
	struct object o;
	struct stat st;
	int fd;

	assert_non_null(mkdtemp(top));
	fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(fd, "from", 0757), 0);
	assert_int_equal(mkdirat(fd, "outside", 0700), 0);
	assert_int_equal(symlinkat("outside", fd, "to"), 0);
	assert_int_equal(object_stat(fd, "from", &o), 0);
	assert_true(tree_set_metadata("user.none.", fd, "from", &o, fd, "to") <
		    0);
	assert_int_equal(fstatat(fd, "outside", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(
		tree_set_metadata("user.none.", fd, "from", &o, fd, "outside"),
		0);
	assert_int_equal(unlinkat(fd, "to", 0), 0);
	assert_int_equal(unlinkat(fd, "from", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(fd, "outside", AT_REMOVEDIR), 0);
	(void)close(fd);
	assert_int_equal(rmdir(top), 0);
}

static void what_is_no_file_is_not_opened(void **state)
{
	char top[] = "/tmp/sandlock-movable-XXXXXX";
	int dir_fd, fd;

	assert_non_null(mkdtemp(top));
	dir_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkfifoat(dir_fd, "fifo", 0600), 0);
	assert_int_equal(symlinkat("/dev/null", dir_fd, "link"), 0);
	/* A FIFO would wait here. */
	assert_int_equal(object_open_file(dir_fd, "fifo", O_WRONLY), -ESTALE);
	assert_int_equal(object_open_file(dir_fd, "link", O_RDONLY), -ESTALE);
	assert_int_equal(object_open_file(dir_fd, "none", O_RDONLY), -ENOENT);
	assert_int_equal(mknodat(dir_fd, "file", S_IFREG | 0600, 0), 0);
	fd = object_open_file(dir_fd, "file", O_WRONLY);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(unlinkat(dir_fd, "file", 0), 0);
	assert_int_equal(unlinkat(dir_fd, "link", 0), 0);
	assert_int_equal(unlinkat(dir_fd, "fifo", 0), 0);
	(void)close(dir_fd);
	assert_int_equal(rmdir(top), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_shows_and_the_rename_succeeds),
		cmocka_unit_test(
			whatever_the_step_it_is_cut_off_at_nothing_is_lost),
		cmocka_unit_test(nor_where_its_parent_is_renamed_meanwhile),
		cmocka_unit_test(a_full_store_fails_it_and_leaves_the_tree),
		cmocka_unit_test(a_mount_below_leaves_it_to_the_kernel),
		cmocka_unit_test(
			a_link_in_the_place_of_a_directory_is_not_followed),
		cmocka_unit_test(what_is_no_file_is_not_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
