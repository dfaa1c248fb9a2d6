/* What of a trapped rename is answered, and when a directory is made movable.
 */
#include "trap.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "supervise/rename.h"
#include "supervise/supervisor.h"

static const int trapped_nrs[] = {
#ifdef SYS_rename
	SYS_rename,
#endif
#ifdef SYS_renameat
	SYS_renameat,
#endif
	SYS_renameat2,
};

/* Written by the helper, which is a process of its own. */
struct seen {
	int calls, result;
	char path[256], name[256];
	uid_t uid;
};

static struct error err;
static struct seen *seen;
static char top[64], merged[80];

/* As a branch would: "low" and what is in it is the lower's. */
static bool is_lower(const void *data, const char *path)
{
	return strncmp(path, "low", 3) == 0;
}

static int make_movable(const void *data, int parent_fd, const char *name,
			const char *path)
{
	struct stat st;

	seen->calls++;
	seen->uid = geteuid();
	(void)snprintf(seen->path, sizeof(seen->path), "%s", path);
	(void)snprintf(seen->name, sizeof(seen->name), "%s", name);
	if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return seen->result;
}

static void run(int (*body)(void *), int result)
{
	const struct rename_branch branch = {
		.path = merged,
		.is_lower = is_lower,
		.make_movable = make_movable,
	};
	struct renames *r = renames_new(&branch, 1, 0, NULL);
	struct handler rows[RENAMES_ROWS];
	struct supervisor_options o = { .handlers = rows };
	struct supervisor *s = NULL;
	struct trapped t;

	assert_non_null(r);
	*seen = (struct seen){ .result = result };
	o.n_handlers = renames_rows(r, rows);
	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	t = trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), body, NULL);
	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	trap_go(&t);
	assert_int_equal(trap_wait(t.pid, 10), 0);
	supervisor_free(s);
	renames_free(r);
}

static int fails(const char *from, const char *to, unsigned int flags)
{
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) < 0 ? errno : 0;
}

static int ordinary(void *arg)
{
	MUST(chdir(merged) == 0);
	MUST(fails("new", "new2", 0) == 0); /* upper's alone */
	MUST(fails("new2", "new", 0) == 0);
	MUST(fails("file", "file2", 0) == 0);
	MUST(fails("file2", "file", RENAME_NOREPLACE) == 0);
	MUST(fails("none", "x", 0) == ENOENT);
	MUST(fails("/tmp", "low/x", 0) == EXDEV);
	MUST(fails("low", "/tmp/x", 0) == EXDEV);
	MUST(fails("low", "low/in/x", 0) == EINVAL);
	MUST(fails("low", "new", RENAME_NOREPLACE) == EEXIST);
	MUST(fails("low", "file", 0) == ENOTDIR);
	MUST(fails("low/.", "x", 0) == EBUSY);
	MUST(fails("low", "x", RENAME_WHITEOUT) == EINVAL);
	MUST(syscall(SYS_renameat2, AT_FDCWD, 1, AT_FDCWD, 1, 0) < 0 &&
	     errno == EFAULT);
	return 0;
}

static void what_is_not_in_the_way_is_left_to_the_kernel(void **state)
{
	run(ordinary, -EIO);
	assert_int_equal(seen->calls, 0);
}

static int move_low(void *arg)
{
	int fd = open(merged, O_RDONLY | O_DIRECTORY);

	MUST(fd >= 0 && chdir("/") == 0);
	/* Nothing was done about it, so the kernel says no once more. */
	MUST(renameat(fd, "new/../low/in", fd, "x") < 0 && errno == EXDEV);
	return 0;
}

static void a_directory_of_the_lower_is_made_movable_first(void **state)
{
	run(move_low, 0);
	assert_int_equal(seen->calls, 1);
	assert_string_equal(seen->path, "low/in");
	assert_string_equal(seen->name, "in");
	assert_int_equal(seen->uid, 0);
}

static int swap_low(void *arg)
{
	MUST(chdir(merged) == 0);
	MUST(fails("file", "low", RENAME_EXCHANGE) == EXDEV);
	return 0;
}

static void an_exchange_makes_the_other_one_movable(void **state)
{
	run(swap_low, 0);
	assert_int_equal(seen->calls, 1);
	assert_string_equal(seen->path, "low");
}

static int no_space(void *arg)
{
	MUST(chdir(merged) == 0);
	MUST(fails("low", "x", 0) == ENOSPC);
	return 0;
}

static int not_empty(void *arg)
{
	MUST(chdir(merged) == 0);
	MUST(fails("low", "full", 0) == ENOTEMPTY);
	return 0;
}

static void what_fails_fails_the_call(void **state)
{
	run(no_space, -ENOSPC);
	assert_int_equal(seen->calls, 1);
	run(not_empty, 0);
	assert_int_equal(seen->calls, 0);
}

static int as_another(void *arg)
{
	MUST(chdir(merged) == 0);
	MUST(setgroups(0, NULL) == 0 && setgid(54321) == 0 &&
	     setuid(54321) == 0);
	MUST(fails("low", "x", 0) == EACCES);
	MUST(fails("low", "open/x", 0) == EACCES);
	return 0;
}

static void who_may_not_rename_it_moves_nothing(void **state)
{
	run(as_another, 0);
	assert_int_equal(seen->calls, 0);
}

static int set_up(void **state)
{
	char options[256];

	strcpy(top, "/var/tmp/sandlock-unit.XXXXXX");
	if (geteuid() != 0 || !mkdtemp(top) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	(void)snprintf(merged, sizeof(merged), "%s/m", top);
	(void)snprintf(options, sizeof(options),
		       "lowerdir=%s/l,upperdir=%s/u,workdir=%s/w,"
		       "redirect_dir=nofollow",
		       top, top, top);
	if (chmod(top, 0755) < 0 || chdir(top) < 0 ||
	    system("mkdir -p l/low/in l/full/x l/open u w m && "
		   "chmod 777 l/open && echo x >l/file") != 0 ||
	    mount("o", merged, "overlay", 0, options) < 0 ||
	    system("mkdir m/new") != 0 || chdir("/") < 0)
		return -1;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return seen == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
	char script[128];

	(void)umount2(merged, MNT_DETACH);
	(void)snprintf(script, sizeof(script), "rm -rf '%s'", top);
	return system(script);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_in_the_way_is_left_to_the_kernel),
		cmocka_unit_test(
			a_directory_of_the_lower_is_made_movable_first),
		cmocka_unit_test(an_exchange_makes_the_other_one_movable),
		cmocka_unit_test(what_fails_fails_the_call),
		cmocka_unit_test(who_may_not_rename_it_moves_nothing),
	};

	if (geteuid() != 0)
		return unit_needs_root();
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
