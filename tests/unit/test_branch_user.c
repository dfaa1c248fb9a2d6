/* The life of a branch on disk, as an ordinary user without and with subids. */
#include "unit_user.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/subid.h"
#include "branch/branch.h"
#include "branch/internal.h"
#include "kernel/userns.h"

static char dir[256];

/* Runs @fn in a child, with an empty directory that is the user's. */
static void in_child(int (*fn)(void))
{
	char cmd[300];
	int status, fd;
	pid_t pid;

	(void)setenv("TMPDIR", "/var/tmp", 1);
	fd = unit_tmpdir(dir);
	(void)close(fd);
	if (geteuid() == 0)
		assert_int_equal(chown(dir, USER, USER), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* A remover may be at work in it. */
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s' 2>/dev/null", dir);
	for (int i = 0; i < 100 && system(cmd) != 0; i++)
		(void)usleep(20 * 1000);
	assert_true(access(dir, F_OK) < 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int open_store(struct store **st)
{
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/store", dir);
	CHECK(store_open(path, NULL, st, &err) == 0);
	return 0;
}

static int create(struct store *st, const struct idmap *m, struct branch **b)
{
	char lower[300];
	struct branch_options o = {
		.name = "web",
		.lower = lower,
		.idmap = *m,
	};

	(void)snprintf(lower, sizeof(lower), "%s/lower", dir);
	if (mkdir(lower, 0755) < 0 && errno != EEXIST)
		return -errno;
	return branch_create(st, &o, b, &err);
}

/* The payload: root of the namespace, on the overlay; ends when told. */
struct payload {
	pid_t pid;
	int ready_fd, end_fd;
};

static int payload_main(const struct branch *b, const struct idmap *m,
			int (*fn)(int mount_fd))
{
	int fd = -1;

	CHECK(userns_enter(m, true, &err) == 0);
	CHECK(branch_overlay(b, &fd, &err) == 0);
	CHECK(fn(fd) == 0);
	return 0;
}

static int start(const struct branch *b, const struct idmap *m,
		 int (*fn)(int mount_fd), struct payload *ret)
{
	int ready[2], end[2];
	char c = 0;

	CHECK(pipe2(ready, O_CLOEXEC) == 0 && pipe2(end, O_CLOEXEC) == 0);
	ret->pid = fork();
	CHECK(ret->pid >= 0);
	if (ret->pid == 0) {
		(void)close(end[1]);
		if (payload_main(b, m, fn))
			_exit(1);
		CHECK(write(ready[1], "", 1) == 1);
		CHECK(read(end[0], &c, 1) == 0);
		_exit(0);
	}
	(void)close(ready[1]);
	(void)close(end[0]);
	ret->ready_fd = ready[0];
	ret->end_fd = end[1];
	CHECK(read(ret->ready_fd, &c, 1) == 1);
	return 0;
}

static int stop(struct payload *p)
{
	int status;

	(void)close(p->end_fd);
	(void)close(p->ready_fd);
	CHECK(waitpid(p->pid, &status, 0) == p->pid);
	CHECK(status == 0);
	return 0;
}

static int write_awkward(int fd)
{
	int f;

	CHECK(mkdirat(fd, "blind", 0700) == 0);
	f = openat(fd, "blind/secret", O_CREAT | O_WRONLY, 0600);
	CHECK(f >= 0 && write(f, "x", 1) == 1);
	CHECK(fchmod(f, 0) == 0);
	CHECK(fchmodat(fd, "blind", 0300, 0) == 0);
	return 0;
}

static int write_as_others(int fd)
{
	int f;

	CHECK(write_awkward(fd) == 0);
	CHECK(mkdirat(fd, "theirs", 0700) == 0);
	f = openat(fd, "theirs/file", O_CREAT | O_WRONLY, 0600);
	CHECK(f >= 0);
	CHECK(fchown(f, 5, 5) == 0);
	CHECK(fchownat(fd, "theirs", 6, 6, 0) == 0);
	return 0;
}

static int wait_for_no_trash(void)
{
	const struct timespec nap = { .tv_nsec = 10 * 1000 * 1000 };
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/store/trash", dir);
	for (int i = 0; i < 1000; i++) {
		if (rmdir(path) == 0)
			return 0;
		(void)nanosleep(&nap, NULL);
	}
	CHECK(!"trash is empty");
	return 1;
}

static int whole_life(bool subids, int (*fn)(int), size_t n_changes)
{
	const struct exit_status unknown = { .kind = EXIT_UNKNOWN };
	const struct proc_id dead = { .pid = 1, .start_time = UINT64_MAX };
	auto_(idmap) struct idmap m = IDMAP_INIT;
	struct branch_settled s;
	struct store *st = NULL;
	struct branch *b = NULL;
	enum branch_state state;
	struct payload p;

	CHECK(become_user(subids) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(open_store(&st) == 0);
	CHECK(create(st, &m, &b) == 0);
	CHECK(b->meta.userxattr);
	CHECK(start(b, &m, fn, &p) == 0);
	CHECK(branch_set_running(b, NULL, 0, &dead, &err) == 0);
	CHECK(overlay_probe(b, &err) == 1);
	CHECK(branch_is_alive(b, &err) == 1);
	CHECK(branch_settle(b, &unknown, false, &s, &err) == -EBUSY);
	CHECK(stop(&p) == 0);
	CHECK(branch_is_alive(b, &err) == 0);
	CHECK(branch_has_marker(b));
	CHECK(branch_settle(b, &unknown, false, &s, &err) == 0);
	CHECK(!branch_has_marker(b));
	CHECK(!s.gone && s.n_changes == n_changes);
	branch_close(b);
	b = NULL;
	CHECK(branch_find(st, "web", &b, &err) == 0);
	CHECK(branch_get_state(b, &state, &err) == 0);
	CHECK(state == BRANCH_PENDING);
	CHECK(branch_lock(b, 0, &err) == 0);
	CHECK(branch_remove(b, &err) == 0);
	branch_close(b);
	store_close(st);
	return wait_for_no_trash();
}

static int single_map(void)
{
	return whole_life(false, write_awkward, 2);
}

static int with_subids(void)
{
	return whole_life(true, write_as_others, 4);
}

static int nothing(int fd)
{
	return fd < 0;
}

static int empty_one(void)
{
	const struct exit_status zero = { .kind = EXIT_CODE };
	auto_(idmap) struct idmap m = IDMAP_INIT;
	struct branch_settled s;
	struct store *st = NULL;
	struct branch *b = NULL;
	struct payload p;
	size_t n_names;
	char **names;

	CHECK(become_user(true) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(open_store(&st) == 0);
	CHECK(create(st, &m, &b) == 0);
	CHECK(start(b, &m, nothing, &p) == 0);
	CHECK(branch_set_running(b, NULL, 0, &(struct proc_id){ 0 }, &err) ==
	      0);
	CHECK(stop(&p) == 0);
	CHECK(branch_settle(b, &zero, true, &s, &err) == 0);
	CHECK(s.gone);
	CHECK(access(branch_dir(b), F_OK) < 0 && errno == ENOENT);
	/* It waits in the trash for a verb that looks at the store. */
	CHECK(store_list(st, &names, &n_names, &err) == 0 && n_names == 0);
	store_names_free(names, n_names);
	branch_close(b);
	store_close(st);
	return 0;
}

static int make_and_write(int fd)
{
	int f;

	CHECK(mkdirat(fd, "etc", 0755) == 0);
	f = openat(fd, "etc/resolv.conf", O_CREAT | O_WRONLY, 0644);
	CHECK(f >= 0);
	CHECK(fchown(f, 3, 3) == 0);
	CHECK(mkdirat(fd, "new", 0755) == 0);
	return 0;
}

/* Ids look different inside; what the runtime made is known all the same. */
static int made_is_no_change(void)
{
	static const char *const made[] = { "etc/resolv.conf" };
	const struct exit_status zero = { .kind = EXIT_CODE };
	auto_(idmap) struct idmap m = IDMAP_INIT;
	struct branch_settled s;
	struct store *st = NULL;
	struct branch *b = NULL;
	struct payload p;

	CHECK(become_user(true) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(open_store(&st) == 0);
	CHECK(create(st, &m, &b) == 0);
	CHECK(start(b, &m, make_and_write, &p) == 0);
	CHECK(branch_set_running(b, made, 1, &(struct proc_id){ 0 }, &err) ==
	      0);
	CHECK(stop(&p) == 0);
	CHECK(branch_settle(b, &zero, true, &s, &err) == 0);
	CHECK(s.n_changes == 1);
	CHECK(branch_lock(b, 0, &err) == 0);
	CHECK(branch_remove(b, &err) == 0);
	branch_close(b);
	store_close(st);
	return wait_for_no_trash();
}

static int give_lower_away(void *data, int out_fd, struct error *e)
{
	CHECK(chown(data, 7, 8) == 0);
	return 0;
}

static int foreign_root(void)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;
	struct store *st = NULL;
	struct branch *b = NULL;
	struct stat stat_upper;
	char lower[300];

	CHECK(become_user(true) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(open_store(&st) == 0);
	CHECK(create(st, &m, &b) == 0);
	(void)snprintf(lower, sizeof(lower), "%s/lower", dir);
	CHECK(branch_enter(b, give_lower_away, NULL, lower, &err) == 0);
	branch_discard(b);
	branch_close(b);
	b = NULL;
	CHECK(create(st, &m, &b) == 0);
	CHECK(lstat(branch_upper(b), &stat_upper) == 0);
	CHECK(stat_upper.st_uid == SUB_FIRST + 6);
	CHECK(stat_upper.st_gid == SUB_FIRST + 7);
	branch_discard(b);
	CHECK(access(branch_dir(b), F_OK) < 0);
	branch_close(b);
	store_close(st);
	return 0;
}

/* Mounts that root made below the lower may not be uncovered by a user. */
static int covered_lower(void)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;
	struct store *st = NULL;
	struct branch *b = NULL;
	char path[300];
	int status, fd = -1;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/lower", dir);
	CHECK(mkdir(path, 0755) == 0);
	(void)snprintf(path, sizeof(path), "%s/lower/mnt", dir);
	CHECK(mkdir(path, 0755) == 0);
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("t", path, "tmpfs", 0, NULL) == 0);
	CHECK(become_user(false) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(open_store(&st) == 0);
	CHECK(create(st, &m, &b) == 0);
	pid = fork();
	if (pid == 0) {
		if (userns_enter(&m, true, &err) < 0)
			_exit(2);
		if (branch_overlay(b, &fd, &err) != -EINVAL ||
		    err.kind != ERR_UNSUPPORTED)
			_exit(3);
		_exit(strstr(err.msg, "mounts below it") ? 0 : 4);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	branch_discard(b);
	branch_close(b);
	store_close(st);
	return 0;
}

/* A lower of a stranger's: the root of upper stays ours, which is no error. */
static int unmapped_root(void)
{
	struct branch_options o = { .name = "web", .lower = "/etc" };
	struct store *st = NULL;
	struct branch *b = NULL;
	struct stat stat_upper;

	CHECK(become_user(false) == 0);
	CHECK(subid_default_maps(&o.idmap, &err) == 0);
	CHECK(open_store(&st) == 0);
	CHECK(branch_create(st, &o, &b, &err) == 0);
	CHECK(lstat(branch_upper(b), &stat_upper) == 0);
	CHECK(stat_upper.st_uid == geteuid());
	branch_discard(b);
	branch_close(b);
	store_close(st);
	idmap_done(&o.idmap);
	return 0;
}

static int unwritable(void)
{
	struct branch_options o = { .name = "web", .lower = "/etc" };
	struct store *st = NULL;
	struct branch *b = NULL;
	size_t n = 1;
	char **names;

	CHECK(become_user(false) == 0);
	CHECK(store_open("/proc/sys/sandlock", NULL, &st, &err) == 0);
	CHECK(store_list(st, &names, &n, &err) == 0 && n == 0);
	CHECK(branch_create(st, &o, &b, &err) < 0);
	CHECK(strstr(err.msg, "/proc/sys/sandlock"));
	CHECK(strstr(err.hint, "SANDLOCK_STORE"));
	store_close(st);
	return 0;
}

static int where_the_store_is(void)
{
	struct store *st = NULL;

	CHECK(become_user(false) == 0);
	(void)unsetenv("SANDLOCK_STORE");
	(void)setenv("XDG_STATE_HOME", "/x/state", 1);
	CHECK(store_open(NULL, NULL, &st, &err) == 0);
	CHECK(strcmp(store_path(st), "/x/state/sandlock") == 0);
	store_close(st);
	(void)unsetenv("XDG_STATE_HOME");
	(void)setenv("HOME", "/home/x/", 1);
	CHECK(store_open(NULL, NULL, &st, &err) == 0);
	CHECK(strcmp(store_path(st), "/home/x/.local/state/sandlock") == 0);
	store_close(st);
	(void)setenv("SANDLOCK_STORE", "/y", 1);
	CHECK(store_open(NULL, NULL, &st, &err) == 0);
	CHECK(strcmp(store_path(st), "/y") == 0);
	store_close(st);
	(void)unsetenv("SANDLOCK_STORE");
	(void)unsetenv("HOME");
	CHECK(store_open(NULL, NULL, &st, &err) < 0);
	CHECK(strstr(err.hint, "SANDLOCK_STORE"));
	return 0;
}

static int send_records(void *data, int out_fd, struct error *e)
{
	for (int i = 0; i < 100000; i++) {
		if (write(out_fd, &i, sizeof(i)) != sizeof(i))
			return -EPIPE;
	}
	return error_say(e, ERR_CONFLICT, EBUSY, "said inside");
}

static int count_records(void *data, int in_fd, struct error *e)
{
	int *n = data, i;

	while (read(in_fd, &i, sizeof(i)) == sizeof(i) && i == *n)
		(*n)++;
	return 0;
}

static int stop_early(void *data, int in_fd, struct error *e)
{
	return 42;
}

static int records_pass(void)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;
	struct store *st = NULL;
	struct branch *b = NULL;
	int n = 0;

	CHECK(become_user(false) == 0);
	CHECK(subid_default_maps(&m, &err) == 0);
	CHECK(open_store(&st) == 0);
	CHECK(create(st, &m, &b) == 0);
	CHECK(branch_enter(b, send_records, count_records, &n, &err) == -EBUSY);
	CHECK(n == 100000);
	CHECK(err.kind == ERR_CONFLICT && !strcmp(err.msg, "said inside"));
	CHECK(branch_enter(b, send_records, stop_early, &n, &err) == 42);
	branch_discard(b);
	branch_close(b);
	store_close(st);
	return 0;
}

static bool has_helpers(void)
{
	return geteuid() == 0 && access("/usr/bin/newuidmap", X_OK) == 0;
}

static void a_user_without_subids(void **state)
{
	in_child(single_map);
}

static void a_user_with_subids(void **state)
{
	if (!has_helpers()) {
		print_message("needs root and newuidmap\n");
		skip();
	}
	in_child(with_subids);
	in_child(empty_one);
	in_child(foreign_root);
	in_child(made_is_no_change);
}

static void a_lower_of_a_stranger(void **state)
{
	in_child(unmapped_root);
}

static void a_lower_with_mounts_below(void **state)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
	in_child(covered_lower);
}

static void a_store_that_cannot_be_made(void **state)
{
	in_child(unwritable);
}

static void the_store_of_a_user(void **state)
{
	in_child(where_the_store_is);
}

static void work_inside_reports_back(void **state)
{
	in_child(records_pass);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_user_without_subids),
		cmocka_unit_test(a_user_with_subids),
		cmocka_unit_test(a_lower_of_a_stranger),
		cmocka_unit_test(a_lower_with_mounts_below),
		cmocka_unit_test(a_store_that_cannot_be_made),
		cmocka_unit_test(the_store_of_a_user),
		cmocka_unit_test(work_inside_reports_back),
	};

	return RUN_TESTS(tests);
}
