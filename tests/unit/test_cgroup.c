#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "kernel/cgroup.h"
#include "kernel/cgroup_internal.h"
#include "spec/spec.h"

#define UNIFIED "/sys/fs/cgroup/unified"

static char name[64], nested[96];
static struct error err;
static struct cgroup *cg;
static pid_t children[8];
static size_t n_children;

static bool exists(const char *dir)
{
	return access(dir, F_OK) == 0;
}

static const char *dir_in(const char *hierarchy, const char *path)
{
	static char dirs[4][PATH_MAX];
	static unsigned int i;
	char *dir = dirs[i++ % 4];

	(void)snprintf(dir, PATH_MAX, "/sys/fs/cgroup/%s%s", hierarchy, path);
	return dir;
}

static void need(enum cgroup_mode mode)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
	if (cgroup_host_mode() != mode) {
		print_message("needs another cgroup layout\n");
		skip();
	}
}

static void need_v1(const char *controller)
{
	need(CGROUP_HYBRID);
	if (!exists(dir_in(controller, "/cgroup.procs"))) {
		print_message("needs the v1 controller %s\n", controller);
		skip();
	}
}

static int setup(void **state)
{
	static unsigned int counter;

	(void)snprintf(name, sizeof(name), "sltest-%d-%u", (int)getpid(),
		       counter++);
	(void)snprintf(nested, sizeof(nested), "/%s/a/b", name);
	err = (struct error)ERROR_INIT;
	cg = NULL;
	n_children = 0;
	return 0;
}

static int teardown(void **state)
{
	for (size_t i = 0; i < n_children; i++) {
		(void)kill(children[i], SIGKILL);
		(void)kill(children[i], SIGCONT);
		(void)waitpid(children[i], NULL, 0);
	}
	if (cg && cgroup_remove(cg, &err) < 0)
		print_error("%s\n", err.msg);
	cgroup_free(cg);
	return exists(dir_in("unified/", name)) ||
	       exists(dir_in("memory/", name)) ||
	       exists(dir_in("pids/", name)) ||
	       exists(dir_in("devices/", name));
}

static int make(const char *path, const struct spec_resources *r)
{
	struct cgroup_options o = { .path = path,
				    .name = name,
				    .resources = r };

	return cgroup_make(&o, &cg, &err);
}

/* As the sandbox does it: into the unified cgroup by clone3, v1 by itself. */
static pid_t run_inside(int (*fn)(void *), void *arg)
{
	struct clone_args a = { .exit_signal = SIGCHLD };
	pid_t pid;

	if (cgroup_membership_fd(cg) >= 0) {
		a.flags = CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup_membership_fd(cg);
	}
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	assert_true(pid >= 0);
	if (pid == 0) {
		if (cgroup_child_join(cg, &err) < 0) {
			(void)fprintf(stderr, "%s\n", err.msg);
			_exit(99);
		}
		_exit(fn(arg));
	}
	children[n_children++] = pid;
	return pid;
}

static int wait_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	n_children--;
	return status;
}

static int sleep_long(void *arg)
{
	int *fds = arg;

	if (fds)
		(void)!write(fds[1], "", 1);
	for (;;)
		(void)pause();
	return 0;
}

/* Returns when the child has joined. */
static pid_t sleeper(void)
{
	int fds[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = run_inside(sleep_long, fds);
	assert_int_equal(read(fds[0], &c, 1), 1);
	(void)close(fds[0]);
	(void)close(fds[1]);
	return pid;
}

static void assert_file(const char *dir, const char *file, const char *text)
{
	auto_(buf) struct buf b = BUF_INIT;

	assert_int_equal(cgroup_read(dir, file, &b), 0);
	if (b.len && b.data[b.len - 1] == '\n')
		b.data[b.len - 1] = '\0';
	assert_string_equal(buf_str(&b), text);
}

static void test_nothing_asked_makes_one_cgroup(void **state)
{
	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	assert_true(exists(dir_in("unified/", name)));
	assert_false(exists(dir_in("memory/", name)));
	assert_false(exists(dir_in("devices/", name)));
	assert_true(cgroup_has_membership(cg));
	assert_true(cgroup_can_freeze(cg));
	assert_true(cgroup_membership_fd(cg) >= 0);
	assert_int_equal(cgroup_remove(cg, &err), 0);
	assert_false(exists(dir_in("unified/", name)));
	/* A second time is fine. */
	assert_int_equal(cgroup_remove(cg, &err), 0);
}

static void test_parents_that_we_made_go_too(void **state)
{
	need(CGROUP_HYBRID);
	assert_int_equal(make(nested, NULL), 0);
	assert_true(exists(dir_in("unified", nested)));
	assert_int_equal(cgroup_remove(cg, &err), 0);
	assert_false(exists(dir_in("unified/", name)));
}

static void test_parents_of_others_stay(void **state)
{
	const char *top;

	need(CGROUP_HYBRID);
	top = dir_in("unified/", name);
	assert_int_equal(mkdir(top, 0755), 0);
	assert_int_equal(make(nested, NULL), 0);
	assert_int_equal(cgroup_remove(cg, &err), 0);
	assert_true(exists(dir_in("unified/", name)));
	assert_int_equal(rmdir(dir_in("unified/", name)), 0);
}

static void test_relative_paths_lie_below_the_root(void **state)
{
	need(CGROUP_HYBRID);
	assert_int_equal(make(nested + 1, NULL), 0);
	assert_true(exists(dir_in("unified", nested)));
}

static void test_bad_paths_are_refused(void **state)
{
	static const char *const bad[] = { "..",   "/..", "/a/../b", "/a/..",
					   "../x", "/",	  "//",	     "/." };

	need(CGROUP_HYBRID);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(make(bad[i], NULL), -EINVAL);
		assert_int_equal(err.kind, ERR_BUNDLE);
	}
	assert_int_equal(make("machine.slice:libpod:x", NULL), -EOPNOTSUPP);
	assert_int_equal(err.kind, ERR_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "systemd"));
	assert_int_equal(make("..a", NULL), 0);
	assert_int_equal(cgroup_remove(cg, &err), 0);
}

static void test_members_are_listed_and_signalled(void **state)
{
	auto_free pid_t *pids = NULL;
	pid_t a, b;
	size_t n;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	assert_int_equal(cgroup_pids(cg, &pids, &n, &err), 0);
	assert_int_equal(n, 0);
	a = sleeper();
	b = sleeper();
	assert_int_equal(cgroup_pids(cg, &pids, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_true((pids[0] == a && pids[1] == b) ||
		    (pids[0] == b && pids[1] == a));
	assert_int_equal(cgroup_signal(cg, SIGTERM, &err), 0);
	assert_int_equal(WTERMSIG(wait_status(b)), SIGTERM);
	assert_int_equal(WTERMSIG(wait_status(a)), SIGTERM);
}

static int fork_for_ever(void *arg)
{
	int *fds = arg;

	(void)!write(fds[1], "", 1);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGCHLD, SIG_IGN);
	for (;;) {
		(void)setsid();
		if (fork() > 0)
			_exit(0);
	}
}

static void test_kill_ends_whoever_forks(void **state)
{
	auto_free pid_t *pids = NULL;
	int fds[2];
	size_t n;
	char c;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	assert_int_equal(pipe(fds), 0);
	(void)run_inside(fork_for_ever, fds);
	assert_int_equal(read(fds[0], &c, 1), 1);
	(void)usleep(20000);
	assert_int_equal(cgroup_kill(cg, 5000, &err), 0);
	assert_int_equal(cgroup_pids(cg, &pids, &n, &err), 0);
	assert_int_equal(n, 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static char task_state(pid_t pid)
{
	char path[64], text[512], *p;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	p = strrchr(text, ')');
	return p ? p[2] : '?';
}

static int spin(void *arg)
{
	int *fds = arg;

	(void)!write(fds[1], "", 1);
	for (;;)
		;
	return 0;
}

static void test_freeze_and_thaw(void **state)
{
	int fds[2];
	pid_t pid;
	char c;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	assert_int_equal(pipe(fds), 0);
	pid = run_inside(spin, fds);
	assert_int_equal(read(fds[0], &c, 1), 1);
	assert_false(cgroup_is_frozen(cg));
	assert_int_equal(cgroup_freeze(cg, &err), 0);
	assert_true(cgroup_is_frozen(cg));
	assert_int_equal(task_state(pid), 'S');
	assert_int_equal(cgroup_thaw(cg, &err), 0);
	assert_false(cgroup_is_frozen(cg));
	assert_int_equal(task_state(pid), 'R');
	/* Frozen ones can be killed, and the cgroup is thawed then. */
	assert_int_equal(cgroup_freeze(cg, &err), 0);
	assert_int_equal(cgroup_kill(cg, 5000, &err), 0);
	assert_false(cgroup_is_frozen(cg));
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void test_occupied_cgroup_is_refused(void **state)
{
	struct cgroup *first;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	(void)sleeper();
	first = cg;
	assert_int_equal(make(NULL, NULL), -EBUSY);
	assert_int_equal(err.kind, ERR_STATE);
	assert_string_equal(err.msg, "container's cgroup is not empty: 1 "
				     "process(es) found");
	assert_ptr_equal(cg, first);
	assert_int_equal(cgroup_kill(cg, 5000, &err), 0);
	assert_int_equal(cgroup_freeze(cg, &err), 0);
	assert_int_equal(make(NULL, NULL), -EBUSY);
	assert_string_equal(err.msg, "container's cgroup unexpectedly frozen");
}

static void test_limits_are_written(void **state)
{
	struct spec_resources r = {
		.has_mem_limit = true,
		.mem_limit = 64 << 20,
		.has_mem_reservation = true,
		.mem_reservation = 32 << 20,
		.has_mem_swap = true,
		.mem_swap = 128 << 20,
		.has_mem_swappiness = true,
		.mem_swappiness = 10,
		.has_cpu_shares = true,
		.cpu_shares = 512,
		.has_cpu_quota = true,
		.cpu_quota = 50000,
		.has_cpu_period = true,
		.cpu_period = 200000,
		.cpu_cpus = (char *)"0",
		.cpu_mems = (char *)"0",
	};

	need_v1("memory");
	assert_int_equal(make(nested, &r), 0);
	assert_file(dir_in("memory", nested), "memory.limit_in_bytes",
		    "67108864");
	assert_file(dir_in("memory", nested), "memory.soft_limit_in_bytes",
		    "33554432");
	assert_file(dir_in("memory", nested), "memory.memsw.limit_in_bytes",
		    "134217728");
	assert_file(dir_in("memory", nested), "memory.swappiness", "10");
	assert_file(dir_in("cpu", nested), "cpu.shares", "512");
	assert_file(dir_in("cpu", nested), "cpu.cfs_quota_us", "50000");
	assert_file(dir_in("cpu", nested), "cpu.cfs_period_us", "200000");
	assert_file(dir_in("cpuset", nested), "cpuset.cpus", "0");
	assert_false(exists(dir_in("pids", nested)));
}

static int try_fork(void *arg)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 ? errno : 0;
}

static void test_pids_limit_holds(void **state)
{
	struct spec_resources r = { .has_pids_limit = true };
	pid_t pid;

	need_v1("pids");
	assert_int_equal(make(NULL, &r), 0);
	/* 0 means the init alone. */
	assert_file(dir_in("pids/", name), "pids.max", "1");
	pid = run_inside(try_fork, NULL);
	assert_int_equal(WEXITSTATUS(wait_status(pid)), EAGAIN);
	r.pids_limit = -1;
	assert_int_equal(cgroup_update(cg, &r, &err), 0);
	assert_file(dir_in("pids/", name), "pids.max", "max");
	pid = run_inside(try_fork, NULL);
	assert_int_equal(WEXITSTATUS(wait_status(pid)), 0);
}

static void test_memory_limit_shrinks_and_grows(void **state)
{
	struct spec_resources r = { .has_mem_limit = true,
				    .mem_limit = 64 << 20,
				    .has_mem_swap = true,
				    .mem_swap = 64 << 20 };

	need_v1("memory");
	assert_int_equal(make(NULL, &r), 0);
	for (int i = 0; i < 2; i++) {
		r.mem_limit = r.mem_swap = i ? 32 << 20 : 256 << 20;
		assert_int_equal(cgroup_update(cg, &r, &err), 0);
		assert_file(dir_in("memory/", name),
			    "memory.memsw.limit_in_bytes",
			    i ? "33554432" : "268435456");
	}
	r = (struct spec_resources){ .has_mem_limit = true, .mem_limit = -1 };
	assert_int_equal(cgroup_update(cg, &r, &err), 0);
	assert_file(dir_in("memory/", name), "memory.limit_in_bytes",
		    "9223372036854771712");
}

static void test_update_moves_who_is_there(void **state)
{
	struct spec_resources r = { .has_pids_limit = true, .pids_limit = 5 };
	char text[32];
	pid_t pid;

	need_v1("pids");
	assert_int_equal(make(NULL, NULL), 0);
	pid = sleeper();
	assert_int_equal(cgroup_update(cg, &r, &err), 0);
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	assert_file(dir_in("pids/", name), "cgroup.procs", text);
	assert_file(dir_in("pids/", name), "pids.max", "5");
	assert_int_equal(cgroup_kill(cg, 5000, &err), 0);
}

static void test_failed_update_leaves_nothing(void **state)
{
	struct spec_resources r = { .has_pids_limit = true,
				    .pids_limit = 5,
				    .cpu_cpus = (char *)"999" };

	need_v1("cpuset");
	assert_int_equal(make(NULL, NULL), 0);
	assert_true(cgroup_update(cg, &r, &err) < 0);
	assert_false(exists(dir_in("pids/", name)));
	assert_false(exists(dir_in("cpuset/", name)));
	assert_true(exists(dir_in("unified/", name)));
	r.cpu_cpus = NULL;
	assert_int_equal(cgroup_update(cg, &r, &err), 0);
	assert_true(exists(dir_in("pids/", name)));
}

static void test_failed_limits_leave_nothing(void **state)
{
	struct spec_resources cases[] = {
		{ .cpu_cpus = (char *)"999" },
		{ .has_cpu_shares = true, .cpu_shares = 1 },
		{ .has_net_class_id = true },
		{ .n_hugepages = 1,
		  .hugepages = &(struct spec_hugepage){ (char *)"3MB", 1 } },
		{ .n_unified = 1,
		  .unified = &(struct spec_unified){ (char *)"memory.max",
						     (char *)"1" } },
		{ .n_unified = 1,
		  .unified = &(struct spec_unified){ (char *)"../x.y",
						     (char *)"1" } },
		{ .n_rdma = 1,
		  .rdma = &(struct spec_rdma){ .device = (char *)"x" } },
	};

	need_v1("cpuset");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cases[i].has_pids_limit = true;
		cases[i].pids_limit = 10;
		err = (struct error)ERROR_INIT;
		assert_true(make(nested, &cases[i]) < 0);
		print_message("%s (%s)\n", err.msg, err.hint);
		assert_int_not_equal(err.kind, ERR_NONE);
		assert_false(exists(dir_in("unified/", name)));
		assert_false(exists(dir_in("pids/", name)));
		assert_false(exists(dir_in("cpuset/", name)));
	}
}

static void test_what_was_there_survives_a_failure(void **state)
{
	struct spec_resources r = { .cpu_cpus = (char *)"999" };

	need_v1("cpuset");
	assert_int_equal(mkdir(dir_in("unified/", name), 0755), 0);
	assert_true(make(NULL, &r) < 0);
	assert_int_equal(rmdir(dir_in("unified/", name)), 0);
}

static void test_hugetlb_on_the_unified_hierarchy(void **state)
{
	struct spec_resources r = {
		.n_hugepages = 1,
		.hugepages = &(struct spec_hugepage){ (char *)"2MB", 4 << 20 },
		.n_unified = 1,
		.unified = &(struct spec_unified){ (char *)"hugetlb.1GB.max",
						   (char *)"0" },
	};
	auto_(buf) struct buf b = BUF_INIT;

	need(CGROUP_HYBRID);
	assert_int_equal(cgroup_read(UNIFIED, "cgroup.controllers", &b), 0);
	if (!cgroup_has_word(buf_str(&b), "hugetlb")) {
		print_message("needs hugetlb on the unified hierarchy\n");
		skip();
	}
	assert_int_equal(make(NULL, &r), 0);
	assert_file(dir_in("unified/", name), "hugetlb.2MB.max", "4194304");
	assert_file(dir_in("unified/", name), "hugetlb.2MB.rsvd.max",
		    "4194304");
	assert_file(dir_in("unified/", name), "hugetlb.1GB.max", "0");
}

/* Access to a device node made for the purpose: 0 or the errno. */
struct node_test {
	char path[128];
	int flags;
};

static int open_node(void *arg)
{
	struct node_test *t = arg;
	int fd = open(t->path, t->flags | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? errno : 0;
}

static int try_node(mode_t type, int major, int minor, int flags)
{
	struct node_test t = { .flags = flags };
	int status;
	pid_t pid;

	(void)snprintf(t.path, sizeof(t.path), "/tmp/%s-node", name);
	assert_int_equal(mknod(t.path, type | 0600,
			       makedev((unsigned)major, (unsigned)minor)),
			 0);
	pid = run_inside(open_node, &t);
	status = wait_status(pid);
	(void)unlink(t.path);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int make_node(void *arg)
{
	struct node_test *t = arg;
	int r = mknod(t->path, S_IFCHR | 0600, makedev(10, 200));

	return r < 0 ? errno : 0;
}

/* The same rules must mean the same on both. */
static void check_device_rules(void)
{
	struct node_test t;
	pid_t pid;

	/* kmsg: nobody allowed it */
	assert_int_equal(try_node(S_IFCHR, 1, 11, O_RDONLY), EPERM);
	/* null, by default */
	assert_int_equal(try_node(S_IFCHR, 1, 3, O_RDWR), 0);
	/* mem: read allowed by itself, write not */
	assert_int_not_equal(try_node(S_IFCHR, 1, 1, O_RDONLY), EPERM);
	assert_int_equal(try_node(S_IFCHR, 1, 1, O_WRONLY), EPERM);
	assert_int_equal(try_node(S_IFCHR, 1, 1, O_RDWR), EPERM);
	/* loop0: read and write by two rules are both */
	assert_int_not_equal(try_node(S_IFBLK, 7, 0, O_RDWR), EPERM);
	/* loop1: allowed, then denied */
	assert_int_equal(try_node(S_IFBLK, 7, 1, O_RDONLY), EPERM);
	/* mknod of anything */
	(void)snprintf(t.path, sizeof(t.path), "/tmp/%s-made", name);
	pid = run_inside(make_node, &t);
	assert_int_equal(WEXITSTATUS(wait_status(pid)), 0);
	(void)unlink(t.path);
}

static struct spec_device_rule device_rules[] = {
	{ false, 'a', -1, -1, true, true, true },
	{ true, 'c', 1, 1, true, false, false },
	{ true, 'b', 7, 0, true, false, false },
	{ true, 'b', 7, 0, false, true, false },
	{ true, 'b', 7, 1, true, true, false },
	{ false, 'b', 7, 1, true, true, false },
};

static void test_device_rules_v1(void **state)
{
	struct spec_resources r = { .devices = device_rules,
				    .n_devices = ARRAY_LEN(device_rules) };

	need_v1("devices");
	assert_int_equal(make(NULL, &r), 0);
	assert_true(exists(dir_in("devices/", name)));
	check_device_rules();
}

static void test_device_rules_v2(void **state)
{
	struct spec_resources r = { .devices = device_rules,
				    .n_devices = ARRAY_LEN(device_rules) };
	struct spec_resources open = {
		.devices = &(struct spec_device_rule){ true, 'a', -1, -1, true,
						       true, true },
		.n_devices = 1
	};
	const char *dir;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	dir = dir_in("unified/", name);
	assert_int_equal(cgroup_v2_devices(dir, &r, &err), 0);
	check_device_rules();
	/* An update takes the place of what was there. */
	dir = dir_in("unified/", name);
	assert_int_equal(cgroup_v2_devices(dir, &open, &err), 0);
	assert_int_equal(try_node(S_IFCHR, 1, 11, O_RDONLY), 0);
	dir = dir_in("unified/", name);
	assert_int_equal(cgroup_v2_devices(dir, &r, &err), 0);
	assert_int_equal(try_node(S_IFCHR, 1, 11, O_RDONLY), EPERM);
}

static void test_partial_any_is_not_everything(void **state)
{
	struct spec_device_rule rules[] = {
		{ false, 'a', -1, -1, true, true, true },
		{ true, 'a', 1, 11, true, false, false },
	};
	struct spec_resources r = { .devices = rules, .n_devices = 2 };

	need_v1("devices");
	assert_int_equal(make(NULL, &r), 0);
	assert_int_equal(try_node(S_IFCHR, 1, 11, O_RDONLY), 0);
	assert_int_equal(try_node(S_IFCHR, 1, 11, O_WRONLY), EPERM);
	assert_int_equal(try_node(S_IFCHR, 1, 1, O_RDONLY), EPERM);
}

static void test_rootless_ignores_device_rules(void **state)
{
	struct spec_resources r = { .devices = device_rules,
				    .n_devices = ARRAY_LEN(device_rules) };

	assert_int_equal(cgroup_needs(&r, true), 0);
	assert_int_not_equal(cgroup_needs(&r, false), 0);
}

static int as_user(struct cgroup_options *o)
{
	if (setresgid(54321, 54321, 54321) < 0 ||
	    setresuid(54321, 54321, 54321) < 0)
		return 100;
	if (cgroup_make(o, &cg, &err) == 0) {
		if (cgroup_has_membership(cg) || cgroup_membership_fd(cg) >= 0)
			return 1;
		if (cgroup_child_join(cg, &err) < 0 ||
		    cgroup_remove(cg, &err) < 0)
			return 2;
		if (cgroup_freeze(cg, &err) != -EOPNOTSUPP || !*err.hint)
			return 3;
		return 0;
	}
	return err.kind == ERR_UNSUPPORTED && *err.hint &&
			       strstr(err.msg, "cannot limit pids")
		       ? 10
		       : 4;
}

static int status_as_user(struct cgroup_options *o)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(as_user(o));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void test_ordinary_user_without_delegation(void **state)
{
	struct spec_resources r = { .has_pids_limit = true, .pids_limit = 9 };
	struct cgroup_options o = { .name = name, .rootless = true };

	need(CGROUP_HYBRID);
	assert_int_equal(status_as_user(&o), 0);
	o.path = "/user/own";
	assert_int_equal(status_as_user(&o), 0);
	o.resources = &r;
	assert_int_equal(status_as_user(&o), 10);
	o.path = NULL;
	assert_int_equal(status_as_user(&o), 10);
}

static void test_json_brings_it_back(void **state)
{
	struct spec_resources r = { .has_pids_limit = true, .pids_limit = 9 };
	struct json_limits limits = { .bytes = 65536,
				      .depth = 8,
				      .values = 1000 };
	auto_(buf) struct buf b = BUF_INIT, again = BUF_INIT;
	struct json_out *o = json_out_new(false);
	struct json *j = NULL;
	struct cgroup *copy = NULL;

	need_v1("pids");
	assert_int_equal(make(nested, &r), 0);
	(void)sleeper();
	cgroup_to_json(cg, o);
	assert_int_equal(json_out_end(o, &b), 0);
	json_out_free(o);
	assert_int_equal(json_parse(b.data, b.len, &limits, "t", &j, &err), 0);
	assert_int_equal(cgroup_from_json(j, &copy, &err), 0);
	json_free(j);
	o = json_out_new(false);
	cgroup_to_json(copy, o);
	assert_int_equal(json_out_end(o, &again), 0);
	json_out_free(o);
	assert_string_equal(b.data, again.data);
	assert_true(cgroup_membership_fd(copy) >= 0);
	assert_int_equal(cgroup_kill(copy, 5000, &err), 0);
	assert_int_equal(cgroup_remove(copy, &err), 0);
	cgroup_free(copy);
	assert_false(exists(dir_in("unified/", name)));
	assert_false(exists(dir_in("pids/", name)));
}

static void test_json_of_others_is_refused(void **state)
{
	static const char *const bad[] = {
		"{\"mode\":\"v2\",\"path\":\"/x\",\"nodes\":[{\"hierarchy\":"
		"\"unified\",\"dir\":\"/etc\",\"made\":0}]}",
		"{\"mode\":\"v2\",\"path\":\"/x\",\"nodes\":[{\"hierarchy\":"
		"\"unified\",\"dir\":\"/sys/fs/cgroup/x\",\"made\":99}]}",
		"{\"mode\":\"v2\",\"path\":\"/x\",\"nodes\":[{\"hierarchy\":"
		"\"unified\",\"dir\":\"/sys/fs/cgroup/../../"
		"etc\",\"made\":0}]}",
		"{\"mode\":\"v2\",\"path\":\"/x\",\"nodes\":[{\"hierarchy\":"
		"\"bogus\",\"dir\":\"/sys/fs/cgroup/x\",\"made\":0}]}",
	};
	struct json_limits limits = { .bytes = 65536,
				      .depth = 8,
				      .values = 1000 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct json *j = NULL;

		assert_int_equal(json_parse(bad[i], strlen(bad[i]), &limits,
					    "t", &j, &err),
				 0);
		assert_int_equal(cgroup_from_json(j, &cg, &err), -EINVAL);
		assert_int_equal(err.kind, ERR_TORN);
		json_free(j);
	}
}

static void test_sub_cgroups_go_with_it(void **state)
{
	char sub[PATH_MAX];

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	(void)snprintf(sub, sizeof(sub), "%s/x", dir_in("unified/", name));
	assert_int_equal(mkdir(sub, 0755), 0);
	(void)snprintf(sub, sizeof(sub), "%s/x/y", dir_in("unified/", name));
	assert_int_equal(mkdir(sub, 0755), 0);
	assert_int_equal(cgroup_remove(cg, &err), 0);
	assert_false(exists(dir_in("unified/", name)));
}

static void test_removal_waits_for_the_dying(void **state)
{
	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	(void)kill(sleeper(), SIGKILL);
	assert_int_equal(cgroup_remove(cg, &err), 0);
	assert_false(exists(dir_in("unified/", name)));
}

static void test_attach_a_running_process(void **state)
{
	auto_free pid_t *pids = NULL;
	size_t n;
	pid_t pid;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		(void)sleep_long(NULL);
	children[n_children++] = pid;
	assert_int_equal(cgroup_attach(cg, pid, &err), 0);
	assert_int_equal(cgroup_pids(cg, &pids, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(pids[0], pid);
}

static int is_member(void *arg)
{
	char *own = NULL;

	if (cgroup_path_of(0, "", &own) < 0)
		return 1;
	return strcmp(own + 1, name) == 0 ? 0 : 2;
}

static void test_join_without_clone_into_cgroup(void **state)
{
	int fd;
	pid_t pid;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	fd = cg->membership_fd;
	cg->membership_fd = -1;
	pid = run_inside(is_member, NULL);
	cg->membership_fd = fd;
	assert_int_equal(WEXITSTATUS(wait_status(pid)), 0);
}

/* The init inside gave its controllers on and moved below. */
static void test_join_where_only_a_child_takes_processes(void **state)
{
	auto_free pid_t *pids = NULL;
	char sub[PATH_MAX], text[32];
	size_t n;
	pid_t pid;
	int fd;

	need(CGROUP_HYBRID);
	if (!cgroup_has_file(UNIFIED, "hugetlb.2MB.current") &&
	    cgroup_write_raw(UNIFIED, "cgroup.subtree_control", "+hugetlb")) {
		print_message("needs a controller on the unified hierarchy\n");
		skip();
	}
	assert_int_equal(make(NULL, NULL), 0);
	pid = sleeper();
	(void)snprintf(sub, sizeof(sub), "%s/init", dir_in("unified/", name));
	assert_int_equal(mkdir(sub, 0755), 0);
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	assert_int_equal(cgroup_write_raw(sub, "cgroup.procs", text), 0);
	assert_int_equal(cgroup_write_raw(dir_in("unified/", name),
					  "cgroup.subtree_control", "+hugetlb"),
			 0);
	fd = cg->membership_fd;
	cg->membership_fd = -1;
	pid = sleeper();
	cg->membership_fd = fd;
	assert_int_equal(cgroup_attach(cg, pid, &err), 0);
	assert_int_equal(cgroup_pids(cg, &pids, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(cgroup_kill(cg, 5000, &err), 0);
}

static void test_views(void **state)
{
	struct spec_resources r = { .has_pids_limit = true, .pids_limit = 9 };
	struct cgroup_view *v = NULL;
	bool unified = false, pids = false;
	size_t n = 0;

	need_v1("pids");
	assert_int_equal(make(NULL, &r), 0);
	assert_int_equal(cgroup_views(cg, &v, &n, &err), 0);
	for (size_t i = 0; i < n; i++) {
		bool ours = strcmp(v[i].path + 1, name) == 0;

		assert_true(exists(v[i].mountpoint));
		if (strcmp(v[i].hierarchy, "unified") == 0)
			unified = ours;
		else if (strcmp(v[i].hierarchy, "pids") == 0)
			pids = ours;
		else
			assert_false(ours);
	}
	assert_true(unified && pids);
	cgroup_views_free(v, n);
}

static void test_stats_have_runcs_shape(void **state)
{
	struct spec_resources r = { .has_pids_limit = true,
				    .pids_limit = 9,
				    .has_mem_limit = true,
				    .mem_limit = 64 << 20 };
	struct json_limits limits = { .bytes = 1 << 20,
				      .depth = 16,
				      .values = 10000 };
	auto_(buf) struct buf b = BUF_INIT;
	struct json_out *o = json_out_new(false);
	const struct json *m;
	struct json *j = NULL;

	need_v1("memory");
	assert_int_equal(make(NULL, &r), 0);
	(void)sleeper();
	json_out_object(o);
	assert_int_equal(cgroup_stats(cg, o, &err), 0);
	json_out_object_end(o);
	assert_int_equal(json_out_end(o, &b), 0);
	json_out_free(o);
	assert_int_equal(json_parse(b.data, b.len, &limits, "t", &j, &err), 0);
	m = json_get(json_get(j, "memory"), "usage");
	assert_int_equal(json_int_or(m, "limit", 0), 64 << 20);
	m = json_get(j, "pids");
	assert_int_equal(json_int_or(m, "current", 0), 1);
	assert_int_equal(json_int_or(m, "limit", 0), 9);
	assert_non_null(
		json_get(json_get(json_get(j, "cpu"), "usage"), "kernel"));
	assert_non_null(json_get(j, "hugetlb"));
	json_free(j);
}

/*
 * Other layouts than the machine's, in a mount namespace of a child. The
 * checks of the child say where they failed by its exit status.
 */
#define CHECK(cond)                                                         \
	do {                                                                \
		if (!(cond)) {                                              \
			(void)fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, \
				      __LINE__, #cond, err.msg);            \
			return 1;                                           \
		}                                                           \
	} while (0)

static int private_mounts(void)
{
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	return 0;
}

/* Everything that a sandbox does with its cgroup. */
static int whole_life(void)
{
	auto_free pid_t *pids = NULL;
	pid_t pid;
	size_t n;

	CHECK(cgroup_has_membership(cg));
	CHECK(cgroup_can_freeze(cg));
	pid = sleeper();
	CHECK(cgroup_pids(cg, &pids, &n, &err) == 0);
	CHECK(n == 1 && pids[0] == pid);
	CHECK(cgroup_freeze(cg, &err) == 0);
	CHECK(cgroup_is_frozen(cg));
	CHECK(make(nested, NULL) == -EBUSY);
	CHECK(cgroup_thaw(cg, &err) == 0);
	CHECK(!cgroup_is_frozen(cg));
	CHECK(cgroup_freeze(cg, &err) == 0);
	CHECK(cgroup_kill(cg, 5000, &err) == 0);
	CHECK(!cgroup_is_frozen(cg));
	CHECK(WTERMSIG(wait_status(pid)) == SIGKILL);
	CHECK(cgroup_remove(cg, &err) == 0);
	return 0;
}

static int life_on_v1(void)
{
	CHECK(private_mounts() == 0);
	CHECK(umount2(UNIFIED, MNT_DETACH) == 0);
	CHECK(cgroup_host_mode() == CGROUP_V1);
	CHECK(make(nested, NULL) == 0);
	CHECK(cgroup_membership_fd(cg) == -1);
	CHECK(exists(dir_in("freezer", nested)));
	CHECK(whole_life() == 0);
	CHECK(!exists(dir_in("freezer/", name)));
	CHECK(make(nested, &(struct spec_resources){
				   .n_unified = 1,
				   .unified = &(struct spec_unified){
					   (char *)"pids.max",
					   (char *)"1" } }) == -EOPNOTSUPP);
	CHECK(strstr(err.msg, "cannot use unified on cgroup v1"));
	CHECK(!exists(dir_in("freezer/", name)));
	return 0;
}

static int life_on_v2(void)
{
	struct spec_resources r = { .devices = device_rules,
				    .n_devices = ARRAY_LEN(device_rules) };
	struct spec_resources pids = { .has_pids_limit = true };
	struct cgroup_view *v;
	struct stat st;
	size_t n;

	CHECK(private_mounts() == 0);
	CHECK(mount(UNIFIED, "/sys/fs/cgroup", NULL, MS_BIND, NULL) == 0);
	CHECK(cgroup_host_mode() == CGROUP_V2);
	CHECK(make(nested, &pids) == -EOPNOTSUPP);
	CHECK(strstr(err.msg, "'pids'"));
	CHECK(!exists(dir_in("", name)));
	CHECK(make(nested, &r) == 0);
	CHECK(try_node(S_IFCHR, 1, 11, O_RDONLY) == EPERM);
	CHECK(try_node(S_IFCHR, 1, 3, O_RDWR) == 0);
	CHECK(cgroup_views(cg, &v, &n, &err) == 0);
	CHECK(n == 1 && strcmp(v[0].path, nested) == 0);
	CHECK(strcmp(v[0].mountpoint, "/sys/fs/cgroup") == 0);
	cgroup_views_free(v, n);
	CHECK(cgroup_delegate(cg, 1234, 5678, &err) == 0);
	CHECK(fstatat(cgroup_membership_fd(cg), "cgroup.procs", &st, 0) == 0);
	CHECK(st.st_uid == 1234 && st.st_gid == 5678);
	CHECK(fstatat(cgroup_membership_fd(cg), "cgroup.freeze", &st, 0) == 0);
	CHECK(st.st_uid == 0);
	CHECK(whole_life() == 0);
	CHECK(!exists(dir_in("", name)));
	return 0;
}

static int life_without_cgroups(void)
{
	struct spec_resources pids = { .has_pids_limit = true };

	CHECK(private_mounts() == 0);
	CHECK(mount("none", "/sys/fs/cgroup", "proc", 0, NULL) == 0);
	CHECK(cgroup_host_mode() == CGROUP_NONE);
	CHECK(make(NULL, NULL) == 0);
	CHECK(!cgroup_has_membership(cg));
	cgroup_free(cg);
	cg = NULL;
	CHECK(make(NULL, &pids) < 0);
	CHECK(err.kind == ERR_UNSUPPORTED);
	return 0;
}

static void in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_pure_v1(void **state)
{
	need_v1("freezer");
	in_child(life_on_v1);
}

static void test_pure_v2(void **state)
{
	need(CGROUP_HYBRID);
	in_child(life_on_v2);
}

static void test_no_cgroups_at_all(void **state)
{
	need(CGROUP_HYBRID);
	in_child(life_without_cgroups);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_nothing_asked_makes_one_cgroup),
		T(test_parents_that_we_made_go_too),
		T(test_parents_of_others_stay),
		T(test_relative_paths_lie_below_the_root),
		T(test_bad_paths_are_refused),
		T(test_members_are_listed_and_signalled),
		T(test_kill_ends_whoever_forks),
		T(test_freeze_and_thaw),
		T(test_occupied_cgroup_is_refused),
		T(test_limits_are_written),
		T(test_pids_limit_holds),
		T(test_memory_limit_shrinks_and_grows),
		T(test_update_moves_who_is_there),
		T(test_failed_update_leaves_nothing),
		T(test_failed_limits_leave_nothing),
		T(test_what_was_there_survives_a_failure),
		T(test_hugetlb_on_the_unified_hierarchy),
		T(test_device_rules_v1),
		T(test_device_rules_v2),
		T(test_partial_any_is_not_everything),
		T(test_rootless_ignores_device_rules),
		T(test_ordinary_user_without_delegation),
		T(test_json_brings_it_back),
		T(test_json_of_others_is_refused),
		T(test_sub_cgroups_go_with_it),
		T(test_removal_waits_for_the_dying),
		T(test_attach_a_running_process),
		T(test_join_without_clone_into_cgroup),
		T(test_join_where_only_a_child_takes_processes),
		T(test_views),
		T(test_stats_have_runcs_shape),
		T(test_pure_v1),
		T(test_pure_v2),
		T(test_no_cgroups_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
