#include "rootfs_unit.h"

#include <sys/prctl.h>

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
		TEST(time_of_default_mounts),
	};

	return RUN_TESTS(tests);
}
