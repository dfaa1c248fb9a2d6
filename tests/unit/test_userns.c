#include "unit_user.h"

#include <sys/wait.h>

#include "base/subid.h"
#include "kernel/userns.h"

static void in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		int r = fn();

		if (r && err.kind)
			(void)fprintf(stderr, "%s (%s)\n", err.msg, err.hint);
		_exit(r);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void need_root(void)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
}

static int mount_works(void)
{
	CHECK(mount("none", "/mnt", "tmpfs", 0, NULL) == 0);
	return 0;
}

/* The lines of a map, in any order: the kernel sorts more than five. */
static bool is_mapped(const char *file, const struct idmap_list *want)
{
	auto_file FILE *f = fopen(file, "re");
	unsigned int inside, outside, count;
	size_t n = 0;

	while (f && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3) {
		size_t i = 0;

		while (i < want->n && (want->extents[i].inside != inside ||
				       want->extents[i].outside != outside ||
				       want->extents[i].count != count))
			i++;
		if (i == want->n)
			return false;
		n++;
	}
	return n == want->n;
}

static bool are_mapped(const struct idmap *m)
{
	return is_mapped("/proc/self/uid_map", &m->uids) &&
	       is_mapped("/proc/self/gid_map", &m->gids);
}

static int root_with_maps(void)
{
	struct idmap m = IDMAP_INIT;

	CHECK(idmap_add(&m.uids, 0, 100000, 65536) == 0);
	CHECK(idmap_add(&m.gids, 0, 200000, 65536) == 0);
	CHECK(!are_mapped(&m));
	CHECK(userns_enter(&m, true, &err) == 0);
	CHECK(are_mapped(&m));
	CHECK(getuid() == 0 && geteuid() == 0 && getegid() == 0);
	CHECK(getgroups(0, NULL) == 0);
	CHECK(userns_initial_uid() == 100000);
	CHECK(mount_works() == 0);
	CHECK(chroot("/") == 0);
	return 0;
}

static int root_with_many_extents(void)
{
	struct idmap m = IDMAP_INIT;

	for (uint32_t i = 0; i < 12; i++) {
		CHECK(idmap_add(&m.uids, 11 - i, 100000 + i, 1) == 0);
		CHECK(idmap_add(&m.gids, 11 - i, 100000 + i, 1) == 0);
	}
	CHECK(userns_enter(&m, false, &err) == 0);
	CHECK(are_mapped(&m));
	return 0;
}

static int root_without_maps(void)
{
	struct idmap m = IDMAP_INIT;
	struct stat before, after;

	CHECK(stat("/proc/self/ns/user", &before) == 0);
	CHECK(userns_enter(&m, true, &err) == 0);
	CHECK(stat("/proc/self/ns/user", &after) == 0);
	CHECK(before.st_ino == after.st_ino);
	CHECK(mount_works() == 0);
	return 0;
}

static int user_with_single_map(void)
{
	struct idmap m = IDMAP_INIT;
	char text[16] = "";
	int fd;

	CHECK(become_user(false) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(m.uids.n == 1 && m.uids.extents[0].outside == USER);
	CHECK(m.gids.n == 1 && m.gids.extents[0].count == 1);
	CHECK(userns_initial_uid() == USER);
	CHECK(userns_enter(&m, true, &err) == 0);
	CHECK(are_mapped(&m));
	CHECK(getuid() == 0 && getgid() == 0);
	CHECK(userns_initial_uid() == USER);
	fd = open("/proc/self/setgroups", O_RDONLY | O_CLOEXEC);
	CHECK(read(fd, text, sizeof(text)) > 0);
	CHECK(strncmp(text, "deny", 4) == 0);
	CHECK(mount_works() == 0);
	return 0;
}

static int user_with_subids(void)
{
	struct idmap m = IDMAP_INIT;

	CHECK(become_user(true) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(m.uids.n == 2 && m.gids.n == 2);
	CHECK(m.uids.extents[1].inside == 1);
	CHECK(m.uids.extents[1].outside == SUB_FIRST);
	CHECK(m.uids.extents[1].count == SUB_COUNT);
	CHECK(userns_enter(&m, true, &err) == 0);
	CHECK(are_mapped(&m));
	CHECK(setresuid(5, 5, 5) == 0);
	return 0;
}

static int user_is_refused_foreign_ids(void)
{
	struct idmap m = IDMAP_INIT;

	CHECK(become_user(true) == 0);
	CHECK(idmap_add(&m.uids, 0, 1000, 10) == 0);
	CHECK(idmap_add(&m.gids, 0, USER, 1) == 0);
	CHECK(userns_enter(&m, false, &err) == -EPERM);
	CHECK(err.kind == ERR_UNSUPPORTED);
	CHECK(strstr(err.msg, "newuidmap"));
	CHECK(strstr(err.hint, "/etc/subuid"));
	return 0;
}

static int helpers_are_missing(void)
{
	struct idmap m = IDMAP_INIT;

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("/dev/null", "/usr/bin/newuidmap", NULL, MS_BIND, NULL) ==
	      0);
	CHECK(become_user(true) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(m.uids.n == 1 && m.gids.n == 2);
	CHECK(idmap_add(&m.uids, 1, SUB_FIRST, 10) == 0);
	CHECK(userns_enter(&m, false, &err) == -ENOENT);
	CHECK(err.kind == ERR_UNSUPPORTED);
	CHECK(strstr(err.msg, "'newuidmap' is not installed"));
	return 0;
}

static int namespaces_are_forbidden(void)
{
	struct idmap m = IDMAP_INIT, none = IDMAP_INIT;
	int fd;

	/* In a namespace of our own the limit is ours to set. */
	CHECK(idmap_add(&m.uids, 0, 0, 1) == 0);
	CHECK(idmap_add(&m.gids, 0, 0, 1) == 0);
	CHECK(userns_enter(&m, true, &err) == 0);
	fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(write(fd, "0", 1) == 1);
	CHECK(userns_enter(&m, false, &err) == -ENOSPC);
	CHECK(err.kind == ERR_UNSUPPORTED);
	CHECK(strstr(err.hint, "max_user_namespaces"));
	CHECK(userns_enter(&none, false, &err) == 0);
	return 0;
}

static int other_process(void)
{
	struct idmap m = IDMAP_INIT;
	int up[2], status;
	pid_t pid;
	char c;

	CHECK(idmap_add(&m.uids, 0, 300000, 10) == 0);
	CHECK(idmap_add(&m.gids, 0, 300000, 10) == 0);
	CHECK(pipe(up) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) < 0)
			_exit(1);
		(void)!write(up[1], "", 1);
		while (!are_mapped(&m))
			(void)usleep(1000);
		_exit(setresuid(3, 3, 3) == 0 ? 0 : 2);
	}
	(void)close(up[1]);
	CHECK(read(up[0], &c, 1) == 1);
	CHECK(userns_write_maps(pid, &m, &err) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
	return 0;
}

static int bad_maps(void)
{
	struct idmap m = IDMAP_INIT;

	CHECK(idmap_add(&m.uids, 0, 300000, 10) == 0);
	CHECK(idmap_add(&m.uids, 5, 400000, 10) == 0);
	CHECK(idmap_add(&m.gids, 0, 300000, 10) == 0);
	CHECK(userns_enter(&m, false, &err) == -EINVAL);
	CHECK(strstr(err.msg, "user id map"));
	return 0;
}

#define ROOT_TEST(fn)                       \
	static void test_##fn(void **state) \
	{                                   \
		need_root();                \
		in_child(fn);               \
	}

ROOT_TEST(root_with_maps)
ROOT_TEST(root_with_many_extents)
ROOT_TEST(root_without_maps)
ROOT_TEST(user_with_single_map)
ROOT_TEST(user_with_subids)
ROOT_TEST(user_is_refused_foreign_ids)
ROOT_TEST(helpers_are_missing)
ROOT_TEST(namespaces_are_forbidden)
ROOT_TEST(other_process)
ROOT_TEST(bad_maps)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_root_with_maps),
		cmocka_unit_test(test_root_with_many_extents),
		cmocka_unit_test(test_root_without_maps),
		cmocka_unit_test(test_user_with_single_map),
		cmocka_unit_test(test_user_with_subids),
		cmocka_unit_test(test_user_is_refused_foreign_ids),
		cmocka_unit_test(test_helpers_are_missing),
		cmocka_unit_test(test_namespaces_are_forbidden),
		cmocka_unit_test(test_other_process),
		cmocka_unit_test(test_bad_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
