/* The life of a cgroup. test_cgroup_limits.c: limits, layouts. */
#include "cgroup_fixture.h"

#include <sys/mman.h>

#include "base/fd.h"
#include "base/json.h"

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

/* Deeper than PATH_MAX, as who may divide it could; the fd of the last. */
static int nest_deeply(void)
{
	int at = fcntl(cgroup_membership_fd(cg), F_DUPFD_CLOEXEC, 3);
	char part[NAME_MAX + 1] = "";

	(void)memset(part, 'd', NAME_MAX);
	for (int i = 0; i < 20; i++) {
		int below;

		assert_int_equal(mkdirat(at, "beside", 0755), 0);
		assert_int_equal(mkdirat(at, part, 0755), 0);
		below = openat(at, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(below >= 0);
		(void)close(at);
		at = below;
	}
	return at;
}

static void test_what_was_made_below_goes_too(void **state)
{
	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	(void)close(nest_deeply());
	assert_int_equal(cgroup_remove(cg, &err), 0);
	assert_false(exists(dir_in("unified/", name)));
}

static void test_members_far_below_are_met(void **state)
{
	auto_free pid_t *pids = NULL;
	pid_t top, deep;
	char text[16];
	size_t n;
	int at;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	at = nest_deeply();
	top = sleeper();
	deep = sleeper();
	(void)snprintf(text, sizeof(text), "%d", (int)deep);
	assert_int_equal(fd_write_file(at, "cgroup.procs", text), 0);
	(void)close(at);
	assert_int_equal(cgroup_pids(cg, &pids, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(cgroup_freeze(cg, &err), 0);
	assert_int_equal(cgroup_thaw(cg, &err), 0);
	assert_int_equal(cgroup_signal(cg, SIGTERM, &err), 0);
	assert_int_equal(WTERMSIG(wait_status(deep)), SIGTERM);
	assert_int_equal(WTERMSIG(wait_status(top)), SIGTERM);
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

/* Takes a while to die: the kernel gives its pages back first. */
static int hold_memory(void *arg)
{
	enum { SIZE = 128 << 20 };
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)madvise(p, SIZE, MADV_NOHUGEPAGE);
	(void)memset(p, 1, SIZE);
	return sleep_long(arg);
}

/* One by one, from outside: who was cloned into it would be killed at birth. */
static void let_sleepers_join(int fds[2])
{
	(void)signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		if (pid == 0 && cgroup_child_join(cg, false, &err) == 0)
			(void)sleep_long(fds);
		if (pid == 0)
			_exit(99);
	}
	(void)sleep_long(NULL);
}

/*
 * One write to cgroup.kill misses who comes after it, and now and then the
 * child of a fork that is under way.
 */
static void test_kill_ends_whoever_joins_meanwhile(void **state)
{
	auto_free pid_t *pids = NULL;
	pid_t helper;
	int fds[2];
	size_t n;
	char c;

	need(CGROUP_HYBRID);
	assert_int_equal(make(NULL, NULL), 0);
	assert_int_equal(pipe(fds), 0);
	(void)run_inside(hold_memory, fds);
	assert_int_equal(read(fds[0], &c, 1), 1);
	helper = fork();
	if (helper == 0)
		let_sleepers_join(fds);
	children[n_children++] = helper;
	assert_int_equal(read(fds[0], &c, 1), 1);
	assert_int_equal(cgroup_kill(cg, 5000, &err), 0);
	(void)kill(helper, SIGKILL);
	assert_int_equal(WTERMSIG(wait_status(helper)), SIGKILL);
	/* It may have been empty for a moment. */
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

static int own_limit(void)
{
	struct spec_hugepage page = { (char *)"2MB", 4194304 };
	struct spec_resources r = { .n_hugepages = 1, .hugepages = &page };
	struct cgroup_options o = { .name = "below",
				    .resources = &r,
				    .rootless = true };
	struct cgroup *c = NULL;
	auto_free char *own = NULL;
	bool is_in_leaf, has_limit;

	if (cgroup_write_raw(dir_in("unified/", name), "cgroup.procs", "0"))
		return 2;
	if (cgroup_make(&o, &c, &err) < 0) {
		print_error("%s\n", err.msg);
		return 3;
	}
	is_in_leaf =
		cgroup_path_of(0, "", &own) == 0 && strstr(own, "/.sandlock");
	has_limit =
		cgroup_has_file(c->node[CTL_UNIFIED].dir, "hugetlb.2MB.max");
	if (cgroup_remove(c, &err) < 0)
		return 4;
	cgroup_free(c);
	return !is_in_leaf || !has_limit;
}

/* Who was given a cgroup is in it: then it cannot have controllers. */
static void test_make_below_the_own_one(void **state)
{
	char own[PATH_MAX], leaf[PATH_MAX + 16];
	int status = -1;
	pid_t pid;

	need(CGROUP_HYBRID);
	if (!cgroup_has_file(UNIFIED, "hugetlb.2MB.current") &&
	    cgroup_write_raw(UNIFIED, "cgroup.subtree_control", "+hugetlb")) {
		print_message("needs a controller on the unified hierarchy\n");
		skip();
	}
	(void)snprintf(own, sizeof(own), "%s", dir_in("unified/", name));
	(void)snprintf(leaf, sizeof(leaf), "%s/.sandlock", own);
	assert_int_equal(mkdir(own, 0755), 0);
	pid = fork();
	if (pid == 0)
		_exit(own_limit());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)rmdir(leaf);
	assert_int_equal(rmdir(own), 0);
	assert_int_equal(status, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		CGROUP_TEST(test_nothing_asked_makes_one_cgroup),
		CGROUP_TEST(test_parents_that_we_made_go_too),
		CGROUP_TEST(test_what_was_made_below_goes_too),
		CGROUP_TEST(test_members_far_below_are_met),
		CGROUP_TEST(test_parents_of_others_stay),
		CGROUP_TEST(test_relative_paths_lie_below_the_root),
		CGROUP_TEST(test_bad_paths_are_refused),
		CGROUP_TEST(test_members_are_listed_and_signalled),
		CGROUP_TEST(test_kill_ends_whoever_forks),
		CGROUP_TEST(test_kill_ends_whoever_joins_meanwhile),
		CGROUP_TEST(test_freeze_and_thaw),
		CGROUP_TEST(test_occupied_cgroup_is_refused),
		CGROUP_TEST(test_json_brings_it_back),
		CGROUP_TEST(test_json_of_others_is_refused),
		CGROUP_TEST(test_sub_cgroups_go_with_it),
		CGROUP_TEST(test_removal_waits_for_the_dying),
		CGROUP_TEST(test_attach_a_running_process),
		CGROUP_TEST(test_join_without_clone_into_cgroup),
		CGROUP_TEST(test_join_where_only_a_child_takes_processes),
		CGROUP_TEST(test_make_below_the_own_one),
		CGROUP_TEST(test_views),
		CGROUP_TEST(test_stats_have_runcs_shape),
	};

	return RUN_TESTS(tests);
}
