/* Limits and device rules of cgroups, on every layout of the host. */
#include "cgroup_fixture.h"

#include <glob.h>
#include <inttypes.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "base/path.h"

static const struct spec_resources usual = {
	.has_mem_limit = true,
	.mem_limit = 64 << 20,
	.has_mem_swap = true,
	.mem_swap = 128 << 20,
	.has_cpu_shares = true,
	.cpu_shares = 512,
	.has_cpu_quota = true,
	.cpu_quota = 50000,
	.has_cpu_period = true,
	.cpu_period = 200000,
	.cpu_cpus = (char *)"0",
};

static void assert_usual(void)
{
	assert_file(dir_in("memory", nested), "memory.limit_in_bytes",
		    "67108864");
	assert_file(dir_in("memory", nested), "memory.memsw.limit_in_bytes",
		    "134217728");
	assert_file(dir_in("cpu", nested), "cpu.shares", "512");
	assert_file(dir_in("cpu", nested), "cpu.cfs_quota_us", "50000");
	assert_file(dir_in("cpu", nested), "cpu.cfs_period_us", "200000");
	assert_file(dir_in("cpuset", nested), "cpuset.cpus", "0");
}

static void test_limits_are_written(void **state)
{
	struct spec_resources r = usual;

	r.has_mem_reservation = true;
	r.mem_reservation = 32 << 20;
	r.has_mem_swappiness = true;
	r.mem_swappiness = 10;
	r.cpu_mems = (char *)"0";
	need_v1("memory");
	assert_int_equal(make(nested, &r), 0);
	assert_usual();
	assert_file(dir_in("memory", nested), "memory.soft_limit_in_bytes",
		    "33554432");
	assert_file(dir_in("memory", nested), "memory.swappiness", "10");
	/* Who says the path looks for it in every hierarchy. */
	assert_true(exists(dir_in("pids", nested)));
}

static void test_what_is_not_limited_has_no_cgroup(void **state)
{
	struct spec_resources r = { .has_mem_limit = true,
				    .mem_limit = 64 << 20 };

	need_v1("memory");
	assert_int_equal(make(NULL, &r), 0);
	assert_true(exists(dir_in("memory/", name)));
	assert_false(exists(dir_in("pids/", name)));
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

/* No systemd is asked: it would set the limit, and that kills. */
static void test_usage_is_looked_at_before_systemd(void **state)
{
	char dir[] = "/tmp/slt.XXXXXX";
	struct spec_resources r = { .has_mem_limit = true,
				    .mem_limit = 999,
				    .mem_check_before_update = true };
	struct cgroup c = { .mode = CGROUP_V2,
			    .membership_fd = -1,
			    .path = (char *)"/slt",
			    .unit = (char *)"slt-nothing.scope" };
	char file[64];
	FILE *f;

	assert_non_null(mkdtemp(dir));
	c.node[CTL_UNIFIED].dir = dir;
	(void)snprintf(file, sizeof(file), "%s/memory.current", dir);
	f = fopen(file, "we");
	assert_non_null(f);
	assert_true(fputs("1000\n", f) >= 0);
	assert_int_equal(fclose(f), 0);
	err = (struct error)ERROR_INIT;
	assert_int_equal(cgroup_update(&c, &r, &err), -EBUSY);
	assert_string_equal(err.msg, "rejecting memory limit 999: the current "
				     "usage is 1000");
	r.mem_limit = 1000;
	err = (struct error)ERROR_INIT;
	assert_int_equal(cgroup_v2_check_usage(&c, &r, &err), 0);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void put(const char *dir, const char *file, const char *text)
{
	auto_free char *path = path_join(dir, file);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* What is not given stays. Files of a directory stand for those of v2. */
static void test_update_of_one_leaves_the_others_on_v2(void **state)
{
	/* clang-format off */
	static const struct {
		struct spec_resources r;
		const char *file, *before, *after;
	} rows[] = {
		{ { .has_cpu_period = true, .cpu_period = 900000 },
		  "cpu.max", "500000 1000000", "500000 900000" },
		{ { .has_cpu_period = true, .cpu_period = 50000 },
		  "cpu.max", "max 100000", "max 50000" },
		{ { .has_cpu_quota = true, .cpu_quota = 600000 },
		  "cpu.max", "500000 900000", "600000 900000" },
		{ { .has_cpu_quota = true, .cpu_quota = -1 },
		  "cpu.max", "500000 900000", "max 900000" },
		{ { .has_cpu_quota = true, .cpu_quota = 7000,
		    .has_cpu_period = true, .cpu_period = 70000 },
		  "cpu.max", "500000 900000", "7000 70000" },
		{ { .has_cpu_shares = true, .cpu_shares = 1024 },
		  "cpu.weight", "59", "100" },
		{ { .has_cpu_burst = true, .cpu_burst = 10 },
		  "cpu.max.burst", "0", "10" },
		{ { .has_cpu_idle = true, .cpu_idle = 1,
		    .has_cpu_shares = true, .cpu_shares = 1024 },
		  "cpu.idle", "0", "1" },
	};
	static const char *const all[] = { "cpu.max", "cpu.weight",
					   "cpu.max.burst", "cpu.idle" };
	/* clang-format on */
	char dir[] = "/tmp/slt.XXXXXX";
	struct cgroup c = { .mode = CGROUP_V2, .membership_fd = -1 };

	assert_non_null(mkdtemp(dir));
	c.node[CTL_UNIFIED].dir = dir;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct spec_resources r = rows[i].r;

		for (size_t j = 0; j < ARRAY_LEN(all); j++)
			put(dir, all[j], "was");
		put(dir, rows[i].file, rows[i].before);
		err = (struct error)ERROR_INIT;
		assert_int_equal(cgroup_complete_bandwidth(&c, &r, &err), 0);
		/* A file of the kernel's has what was written, no more. */
		put(dir, rows[i].file, "");
		assert_int_equal(
			cgroup_v2_apply(&c, CTL_BIT(CTL_CPU), &r, &err), 0);
		for (size_t j = 0; j < ARRAY_LEN(all); j++)
			assert_file(dir, all[j],
				    strcmp(all[j], rows[i].file)
					    ? "was"
					    : rows[i].after);
	}
	for (size_t j = 0; j < ARRAY_LEN(all); j++) {
		auto_free char *path = path_join(dir, all[j]);

		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(dir), 0);
}

static void test_update_of_one_leaves_the_others_on_v1(void **state)
{
	static const struct spec_resources rows[] = {
		{ .has_cpu_period = true, .cpu_period = 90000 },
		{ .has_cpu_quota = true, .cpu_quota = 20000 },
		{ .has_cpu_burst = true, .cpu_burst = 0 },
		{ .has_cpu_shares = true, .cpu_shares = 300 },
	};
	struct spec_resources r = { .has_cpu_shares = true,
				    .cpu_shares = 512,
				    .has_cpu_quota = true,
				    .cpu_quota = 30000,
				    .has_cpu_period = true,
				    .cpu_period = 50000,
				    .has_cpu_burst = true,
				    .cpu_burst = 20000 };
	struct spec_resources less = { .has_cpu_quota = true,
				       .cpu_quota = 10000,
				       .has_cpu_burst = true,
				       .cpu_burst = 5000 };
	/* clang-format off */
	static const char *const after[][4] = {
		/* quota, period, burst, shares */
		{ "30000", "90000", "20000", "512" },
		{ "20000", "90000", "20000", "512" },
		{ "20000", "90000", "0", "512" },
		{ "20000", "90000", "0", "300" },
	};
	/* clang-format on */

	need_v1("cpu");
	assert_int_equal(make(NULL, &r), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *dir = dir_in("cpu/", name);

		assert_int_equal(cgroup_update(cg, &rows[i], &err), 0);
		assert_file(dir, "cpu.cfs_quota_us", after[i][0]);
		assert_file(dir, "cpu.cfs_period_us", after[i][1]);
		assert_file(dir, "cpu.cfs_burst_us", after[i][2]);
		assert_file(dir, "cpu.shares", after[i][3]);
	}
	/* Both grow and both shrink at once. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cgroup_update(cg, i ? &less : &r, &err), 0);
		assert_file(dir_in("cpu/", name), "cpu.cfs_burst_us",
			    i ? "5000" : "20000");
	}
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

/* The first of the host, "8:0 ", at @ret; skips where there is none. */
static void first_disk(char *ret, size_t room, struct spec_throttle *rate)
{
	glob_t g;
	FILE *f;

	if (glob("/sys/block/[!lr]*/dev", 0, NULL, &g) != 0)
		skip();
	f = fopen(g.gl_pathv[0], "re");
	globfree(&g);
	assert_non_null(f);
	assert_int_equal(
		fscanf(f, "%" SCNd64 ":%" SCNd64, &rate->major, &rate->minor),
		2);
	(void)fclose(f);
	(void)snprintf(ret, room, "%d:%d ", (int)rate->major, (int)rate->minor);
}

/* What hugetlb refuses comes after all that is limited here. */
static void test_failed_update_puts_back_what_was(void **state)
{
	struct spec_throttle before = { .rate = 5000000 }, after, other;
	struct spec_resources r = usual;
	struct spec_resources more = {
		.has_mem_limit = true,
		.mem_limit = 256 << 20,
		.has_mem_swap = true,
		.mem_swap = 512 << 20,
		.has_mem_disable_oom = true,
		.mem_disable_oom = true,
		.has_cpu_shares = true,
		.cpu_shares = 2,
		.has_cpu_quota = true,
		.cpu_quota = 5000,
		.has_cpu_period = true,
		.cpu_period = 10000,
		.cpu_cpus = (char *)"0-1",
		.has_pids_limit = true,
		.pids_limit = -1,
		.read_bps = &after,
		.n_read_bps = 1,
		.write_bps = &other,
		.n_write_bps = 1,
		.n_hugepages = 1,
		.hugepages = &(struct spec_hugepage){ (char *)"3MB", 1 },
	};
	char disk[64], line[96];

	r.has_pids_limit = true;
	r.pids_limit = 9;
	r.read_bps = &before;
	r.n_read_bps = 1;
	need_v1("memory");
	need_v1("blkio");
	first_disk(disk, sizeof(disk), &before);
	after = other = before;
	after.rate = 7000;
	assert_int_equal(make(nested, &r), 0);
	assert_true(cgroup_update(cg, &more, &err) < 0);
	assert_usual();
	assert_file(dir_in("memory", nested), "memory.oom_control",
		    "oom_kill_disable 0\nunder_oom 0\noom_kill 0");
	assert_file(dir_in("pids", nested), "pids.max", "9");
	(void)snprintf(line, sizeof(line), "%s5000000", disk);
	assert_file(dir_in("blkio", nested), "blkio.throttle.read_bps_device",
		    line);
	assert_file(dir_in("blkio", nested), "blkio.throttle.write_bps_device",
		    "");
	assert_string_equal(err.hint, "see /sys/kernel/mm/hugepages, and write "
				      "sizes as 2MB and 1GB");
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
		if (cgroup_child_join(cg, false, &err) < 0 ||
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
	CHECK(cgroup_delegate(cg, 1234, &err) == 0);
	CHECK(fstatat(cgroup_membership_fd(cg), "cgroup.procs", &st, 0) == 0);
	CHECK(st.st_uid == 1234 && st.st_gid == 0);
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
	const struct CMUnitTest tests[] = {
		CGROUP_TEST(test_limits_are_written),
		CGROUP_TEST(test_what_is_not_limited_has_no_cgroup),
		CGROUP_TEST(test_pids_limit_holds),
		CGROUP_TEST(test_memory_limit_shrinks_and_grows),
		CGROUP_TEST(test_usage_is_looked_at_before_systemd),
		CGROUP_TEST(test_update_of_one_leaves_the_others_on_v2),
		CGROUP_TEST(test_update_of_one_leaves_the_others_on_v1),
		CGROUP_TEST(test_update_moves_who_is_there),
		CGROUP_TEST(test_failed_update_leaves_nothing),
		CGROUP_TEST(test_failed_update_puts_back_what_was),
		CGROUP_TEST(test_failed_limits_leave_nothing),
		CGROUP_TEST(test_what_was_there_survives_a_failure),
		CGROUP_TEST(test_hugetlb_on_the_unified_hierarchy),
		CGROUP_TEST(test_device_rules_v1),
		CGROUP_TEST(test_device_rules_v2),
		CGROUP_TEST(test_partial_any_is_not_everything),
		CGROUP_TEST(test_rootless_ignores_device_rules),
		CGROUP_TEST(test_ordinary_user_without_delegation),
		CGROUP_TEST(test_pure_v1),
		CGROUP_TEST(test_pure_v2),
		CGROUP_TEST(test_no_cgroups_at_all),
	};

	return RUN_TESTS(tests);
}
