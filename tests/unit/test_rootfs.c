#include "rootfs_unit.h"

#include <sys/prctl.h>

#include "base/path.h"
#include "branch/branch.h"
#include "kernel/cgroup.h"

static int compare_long(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

static const char check_default[] =
	"set -e; [ \"$(readlink /dev/fd)\" = /proc/self/fd ];"
	"[ \"$(readlink /dev/ptmx)\" = pts/ptmx ];"
	"echo x >/dev/null; [ \"$(head -c 1 /dev/zero | wc -c)\" = 1 ];"
	"for i in null zero full random urandom tty; do [ -c /dev/$i ]; done;"
	"[ -c /dev/pts/ptmx ]; [ -d /dev/mqueue ];"
	"[ \"$(stat -c %a /dev/shm)\" = 1777 ];"
	"[ \"$(stat -c %a /dev)\" = 755 ];"
	"grep -q ' /dev/shm rw,nosuid,nodev,noexec' /proc/self/mountinfo;"
	"! echo 1 2>/dev/null >/proc/sys/kernel/hostname;"
	"[ \"$(cat /proc/keys /proc/timer_list | wc -c)\" = 0 ];"
	"[ -z \"$(ls /sys/firmware)\" ]; ! touch /sys/firmware/x 2>/dev/null;"
	"! grep -q sandlock-unit /proc/self/mounts;"
	"touch /tmp/written; [ \"$(readlink /proc/1/cwd)\" = / ]";

static void default_mounts_are_there(void **state)
{
	struct bundle *b = bundle_of(state);

	b->network = true;
	bundle_ok(b, DEFAULT_MOUNTS, DEFAULT_MASKS, check_default);
	shell("test -e %s/rootfs/tmp/written", b->dir);
	shell("test -z \"$(ls %s/rootfs/dev)\"", b->dir);
}

static void default_mounts_in_a_user_namespace(void **state)
{
	struct bundle *b = bundle_of(state);

	b->network = b->userns = true;
	shell("chown -R %d:%d %s/rootfs", SUB_BASE, SUB_BASE, b->dir);
	bundle_ok(b, DEFAULT_MOUNTS, DEFAULT_MASKS, check_default);
	bundle_ok(b, DEFAULT_MOUNTS, DEFAULT_MASKS, "! umount / 2>/dev/null");
}

/* The directory above the bundle is closed to the user that 0 stands for. */
static void user_namespace_and_a_closed_directory(void **state)
{
	struct bundle *b = bundle_of(state);

	b->network = b->userns = true;
	shell("cd %s && mkdir vol && touch vol/here && "
	      "chown -R %d:%d rootfs vol && chmod 700 .",
	      b->dir, SUB_BASE, SUB_BASE);
	bundle_ok(b, PROC "," DEV "," BIND("vol", "/vol", "\"bind\""),
		  DEFAULT_MASKS, "touch /ok && ls /vol/here");
	shell("test -e %s/rootfs/ok", b->dir);
}

static void ordinary_user(void **state)
{
	enum { USER = 54321 };
	struct bundle *b = bundle_of(state);
	int status;
	pid_t pid;

	b->network = b->userns = true;
	b->user = USER;
	shell("chown -R %d:%d %s", USER, USER, b->dir);
	pid = fork();
	if (pid == 0) {
		int n = setresgid(USER, USER, USER) < 0 ||
			setresuid(USER, USER, USER) < 0 ||
			prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0;

		if (n == 0)
			n = bundle_run(b,
				       PROC "," DEV "," PTS_NO_GID "," SHM
					    "," MQUEUE "," SYS,
				       DEFAULT_MASKS, check_default);
		if (n)
			print_message("%d: %s\n", n, b->err.msg);
		if (n == 0) {
			n = bundle_run(b, PROC "," DEV "," PTS, "", "exit 0");
			n = n != -EINVAL || !strstr(b->err.msg, "gid=5") ||
			    !strstr(b->err.hint, "mapped");
			if (n)
				print_message("gid: %s\n", b->err.msg);
		}
		_exit(n != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	shell("test -e %s/rootfs/tmp/written", b->dir);
}

static void sysfs_needs_a_network_namespace(void **state)
{
	struct bundle *b = bundle_of(state);

	b->userns = true;
	shell("chown -R %d:%d %s/rootfs", SUB_BASE, SUB_BASE, b->dir);
	bundle_fails(b, PROC "," SYS, "", EPERM, "mounts[1] ('/sys')");
	assert_non_null(strstr(b->err.hint, "bind /sys"));
	bundle_ok(b, PROC "," BIND("/sys", "/sys", "\"rbind\",\"rro\""), "",
		  "[ -d /sys/kernel ] && ! touch /sys/kernel/x");
}

static void bad_roots(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("cd %s && mv rootfs real && ln -s real rootfs", b->dir);
	bundle_ok(b, PROC, "", "ls /bin/busybox");
	shell("cd %s && rm rootfs && ln -s / rootfs", b->dir);
	bundle_fails(b, PROC, "", EINVAL, "root of the host");
	shell("cd %s && rm rootfs && touch rootfs", b->dir);
	bundle_fails(b, PROC, "", ENOTDIR, "root file system");
	shell("cd %s && rm rootfs", b->dir);
	bundle_fails(b, PROC, "", ENOENT, "root file system");
	assert_non_null(strstr(b->err.hint, "root.path"));
}

static void without_a_mount_namespace(void **state)
{
	struct bundle *b = bundle_of(state);

	b->host_mounts = true;
	bundle_ok(b, "", "", "[ -e /bin/busybox ] && [ ! -e /etc ]");
	bundle_fails(b, PROC, "", EINVAL, "mount namespace");
	bundle_fails(b, "", "\"maskedPaths\":[\"/tmp\"]", EINVAL,
		     "linux.maskedPaths");
	b->readonly = true;
	bundle_fails(b, "", "", EINVAL, "root.readonly");
}

static void root_is_read_only(void **state)
{
	struct bundle *b = bundle_of(state);

	b->readonly = true;
	bundle_ok(b, PROC "," DEV "," MOUNT("/tmp", "tmpfs", ""), "",
		  "! touch /x 2>/dev/null && touch /dev/x && touch /tmp/x &&"
		  "grep -q ' / / ro' /proc/self/mountinfo || "
		  "grep ' / ro' /proc/self/mountinfo");
}

static void no_pivot(void **state)
{
	struct bundle *b = bundle_of(state);

	b->no_pivot = true;
	bundle_ok(b, DEFAULT_MOUNTS, DEFAULT_MASKS, check_default);
	/* What a process sees that breaks out of the chroot. */
	bundle_ok(b, DEFAULT_MOUNTS, "",
		  "ls /proc/1/root/bin/busybox && [ ! -e /etc/passwd ] &&"
		  "[ \"$(grep -c ' / / ' /proc/self/mountinfo)\" -le 2 ] && "
		  "! grep -q /cgroup/pids /proc/self/mountinfo");
}

static void propagation_of_the_root(void **state)
{
	struct bundle *b = bundle_of(state);

	bundle_ok(b, PROC, "\"rootfsPropagation\":\"rshared\"",
		  "grep ' / / ' /proc/self/mountinfo | grep -q shared: || "
		  "grep ' / rw' /proc/self/mountinfo | grep -q shared:");
	bundle_ok(b, PROC, "", "! grep -q shared: /proc/self/mountinfo");
}

static int write_sysctls(struct rootfs *r, struct error *err)
{
	return rootfs_write_sysctls(r, err);
}

static void sysctls_are_written(void **state)
{
	struct bundle *b = bundle_of(state);

	b->hook = write_sysctls;
	b->network = true;
	bundle_ok(b, PROC,
		  "\"sysctl\":{\"kernel.msgmax\":\"4242\","
		  "\"net/ipv4/ip_forward\":\"1\","
		  "\"net.ipv4.conf.lo.forwarding\":\"1\"}",
		  "[ $(cat /proc/sys/kernel/msgmax) = 4242 ] && "
		  "[ $(cat /proc/sys/net/ipv4/ip_forward) = 1 ]");
	/* With no procfs of the container's at all. */
	bundle_ok(b, MOUNT("/x", "tmpfs", ""),
		  "\"sysctl\":{\"kernel.msgmax\":\"4242\"}", "exit 0");
	bundle_fails(b, PROC, "\"sysctl\":{\"kernel.msgmax\":\"none\"}", EINVAL,
		     "kernel/msgmax");
	bundle_fails(b, PROC, "\"sysctl\":{\"net.no.such\":\"1\"}", ENOENT,
		     "net/no/such");
}

static int keep_proc(struct rootfs *r, struct error *err)
{
	int fd = rootfs_proc_fd(r, err);
	struct stat st;

	return fd < 0 || fstatat(fd, "1/attr", &st, 0) < 0 ? -errno : 0;
}

static void procfs_of_our_own(void **state)
{
	struct bundle *b = bundle_of(state);

	b->hook = keep_proc;
	bundle_ok(b, "", "", "exit 0");
	b->userns = true;
	shell("chown -R %d:%d %s/rootfs", SUB_BASE, SUB_BASE, b->dir);
	bundle_ok(b, PROC, "", "exit 0");
}

static size_t count_fds(void)
{
	auto_dir DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(d))
		n++;
	return n;
}

static void nothing_stays_behind(void **state)
{
	struct bundle *b = bundle_of(state);
	size_t fds = count_fds();

	/* Whoever runs beside us mounts, too. */
	if (geteuid() == 0) {
		assert_int_equal(unshare(CLONE_NEWNS), 0);
		assert_int_equal(
			mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	}
	shell("cat /proc/self/mountinfo | sort >%s/before", b->dir);
	bundle_ok(b, DEFAULT_MOUNTS "," BIND("/etc", "/etc", "\"rbind\""),
		  DEFAULT_MASKS, "exit 0");
	bundle_fails(b,
		     PROC "," BIND("/etc", "/etc",
				   "\"rbind\"") "," MOUNT("/x", "nofs", ""),
		     "", ENODEV, "mounts[2] ('/x')");
	assert_non_null(strstr(b->err.hint, "/proc/filesystems"));
	bundle_fails(b,
		     PROC "," BIND("/etc", "/etc", "\"rbind\"") "," BIND(
			     "/no/such", "/x", "\"bind\""),
		     "", ENOENT, "mounts[2] ('/x')");
	shell("cat /proc/self/mountinfo | sort | cmp - %s/before", b->dir);
	assert_int_equal(count_fds(), fds);
}

static void open_branch(struct bundle *b, struct store **st)
{
	auto_free char *dir = path_join(b->dir, "store");
	auto_free char *lower = path_join(b->dir, "rootfs");
	struct branch_options o = {
		.name = "unit",
		.lower = lower,
		.on_exit = DISPOSE_DEFER,
		.on_error = DISPOSE_DEFER,
	};

	assert_int_equal(store_open(dir, NULL, st, &b->err), 0);
	assert_int_equal(branch_create(*st, &o, &b->branch, &b->err), 0);
}

static void close_branch(struct bundle *b, struct store *st)
{
	branch_discard(b->branch);
	branch_close(b->branch);
	b->branch = NULL;
	store_close(st);
}

#define MADE_ON_BRANCH                                                      \
	"proc a a/b dev dev/null dev/zero dev/full dev/random dev/urandom " \
	"dev/tty dev/ptmx dev/fd dev/stdin dev/stdout dev/stderr "

/* What the runtime makes lands in the branch, and it says what that was. */
static void root_on_a_branch(void **state)
{
	struct bundle *b = bundle_of(state);
	struct store *st;
	bool has_core;

	shell("mkdir %s/vol %s/rootfs/sys", b->dir, b->dir);
	open_branch(b, &st);
	bundle_ok(b,
		  PROC "," SYS "," BIND("vol", "/a/b", "\"bind\"") "," BIND(
			  "vol", "/a/b/c", "\"bind\""),
		  DEFAULT_MASKS,
		  "grep ' / ' /proc/self/mounts | grep -q overlay && "
		  "touch /tmp/written && rm /bin/id && [ -c /dev/null ]");
	has_core = access("/proc/kcore", F_OK) == 0;
	assert_string_equal(b->made, has_core ? MADE_ON_BRANCH "dev/core "
					      : MADE_ON_BRANCH);
	shell("cd %s && test ! -e rootfs/tmp/written && test ! -e rootfs/a && "
	      "test ! -e rootfs/dev && test -d vol/c",
	      b->dir);
	close_branch(b, st);
}

static void root_on_a_branch_in_a_user_namespace(void **state)
{
	struct bundle *b = bundle_of(state);
	struct store *st;

	b->userns = b->network = true;
	shell("chown -R %d:%d %s/rootfs", SUB_BASE, SUB_BASE, b->dir);
	open_branch(b, &st);
	bundle_ok(b, DEFAULT_MOUNTS, DEFAULT_MASKS, check_default);
	assert_string_equal(b->made, "proc dev sys ");
	shell("test ! -e %s/rootfs/tmp/written", b->dir);
	close_branch(b, st);
}

static int open_console(struct rootfs *r, struct error *err)
{
	int master_fd, slave_fd;
	int n = rootfs_open_console(r, &master_fd, &slave_fd, err);

	/* The pair lives as long as its master. */
	if (n == 0 && (!isatty(slave_fd) || fcntl(master_fd, F_SETFD, 0) < 0))
		return error_set(err, ERR_SYSTEM, EIO, "no terminal");
	return n;
}

static void console(void **state)
{
	struct bundle *b = bundle_of(state);

	b->terminal = true;
	b->hook = open_console;
	bundle_ok(b, PROC "," DEV "," PTS, "",
		  "[ -c /dev/console ] && [ -c /dev/pts/0 ] && "
		  "[ $(stat -c %t:%T /dev/console) = "
		  "$(stat -c %t:%T /dev/pts/0) ]");
	bundle_fails(b, PROC "," DEV, "", ENOENT, "/dev/pts");
	bundle_fails(b, PROC "," DEV "," MOUNT("/dev/pts", "tmpfs", ""), "",
		     ENODEV, "no devpts");
	/* CVE-2025-52565: what an image has in these places. */
	shell("cd %s/rootfs && rm -r dev && mkdir dev fake && touch fake/ptmx "
	      "&& "
	      "ln -s ../fake dev/pts && ln -s /bin/busybox dev/console",
	      b->dir);
	bundle_fails(b, PROC, "", ENODEV, "no devpts");
	bundle_fails(b, PROC "," PTS, "", EEXIST, "device '/dev/console'");
}

static void own_cgroup_is_shown(void **state)
{
	struct bundle *b = bundle_of(state);
	struct spec_resources limits = { .has_pids_limit = true,
					 .pids_limit = 100 };
	char path[64];
	struct cgroup_options o = {
		.path = path,
		.name = "unit",
		.resources = &limits,
	};
	int n;

	(void)snprintf(path, sizeof(path), "/sandlock-unit-rootfs-%d",
		       (int)getpid());
	if (cgroup_host_mode() == CGROUP_NONE) {
		print_message("no cgroups here\n");
		skip();
	}
	assert_int_equal(cgroup_make(&o, &b->cgroup, &b->err), 0);
	b->network = true;
	n = bundle_run(b, PROC "," SYS "," CGROUP, "",
		       "f=$(ls /sys/fs/cgroup/pids.max "
		       "/sys/fs/cgroup/pids/pids.max 2>/dev/null);"
		       "[ \"$(cat $f)\" = 100 ] && ! echo 5 2>/dev/null >$f");
	if (n == 0)
		n = bundle_run(b, PROC "," SYS "," MOUNT("/cg", "cgroup", ""),
			       "",
			       "echo 50 >$(ls /cg/pids.max "
			       "/cg/pids/pids.max 2>/dev/null)");
	assert_int_equal(cgroup_remove(b->cgroup, &b->err), 0);
	cgroup_free(b->cgroup);
	if (n)
		print_message("%d: %s\n", n, b->err.msg);
	assert_int_equal(n, 0);
}

/* For information: what `sandlock run` pays for the file system. */
static void time_of_default_mounts(void **state)
{
	enum { RUNS = 101 };
	struct bundle *b = bundle_of(state);
	long took[RUNS], build[RUNS], enter[RUNS];
	int i;

	for (i = 0; i < RUNS; i++) {
		bundle_ok(b, DEFAULT_MOUNTS, DEFAULT_MASKS, NULL);
		build[i] = b->took.build_us;
		enter[i] = b->took.enter_us;
		took[i] = b->took.new_us + build[i] + enter[i];
	}
	qsort(took, RUNS, sizeof(long), compare_long);
	qsort(build, RUNS, sizeof(long), compare_long);
	qsort(enter, RUNS, sizeof(long), compare_long);
	print_message("median %ld us (build %ld, enter %ld), best %ld us\n",
		      took[RUNS / 2], build[RUNS / 2], enter[RUNS / 2],
		      took[0]);
}

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, bundle_setup, bundle_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(default_mounts_are_there),
		TEST(default_mounts_in_a_user_namespace),
		TEST(user_namespace_and_a_closed_directory),
		TEST(ordinary_user),
		TEST(sysfs_needs_a_network_namespace),
		TEST(bad_roots),
		TEST(without_a_mount_namespace),
		TEST(root_is_read_only),
		TEST(no_pivot),
		TEST(propagation_of_the_root),
		TEST(sysctls_are_written),
		TEST(procfs_of_our_own),
		TEST(nothing_stays_behind),
		TEST(root_on_a_branch),
		TEST(root_on_a_branch_in_a_user_namespace),
		TEST(console),
		TEST(own_cgroup_is_shown),
		TEST(time_of_default_mounts),
	};

	return RUN_TESTS(tests);
}
