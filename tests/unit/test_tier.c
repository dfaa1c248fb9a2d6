/* The plan of tier C: which paths it allows, and what it refuses. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "kernel/landlock.h"
#include "kernel/tree.h"
#include "sandbox/host.h"
#include "unit.h"

static char top[64];
static struct sandbox_env env;

static char *below(const char *name)
{
	static char v[8][128];
	static unsigned int next;
	char *s = v[next++ % 8];

	(void)snprintf(s, sizeof(v[0]), "%s/%s", top, name);
	return s;
}

static void make_dir(const char *name)
{
	assert_int_equal(mkdir(below(name), 0755), 0);
}

static void make_file(const char *name)
{
	FILE *f = fopen(below(name), "w");

	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	char text[] = "/var/tmp/tier.XXXXXX";

	if (!mkdtemp(text))
		return -1;
	(void)snprintf(top, sizeof(top), "%s", text);
	make_dir("run");
	make_dir("store");
	make_dir("tree");
	make_dir("tree/a");
	make_dir("tree/a/b");
	make_file("tree/a/b/denied");
	make_file("tree/a/b/seen");
	make_dir("tree/c");
	make_dir("tree/d");
	env.root = strdup(below("run"));
	env.store = strdup(below("store"));
	return 0;
}

static int tear_down(void **state)
{
	static const char *const v[] = {
		"tree/a/b/denied", "tree/a/b/seen", "tree/a/b", "tree/a",
		"tree/c",	   "tree/d",	    "tree",	"run",
		"store",
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		(void)remove(below(v[i]));
	free((char *)(uintptr_t)env.root);
	free((char *)(uintptr_t)env.store);
	return rmdir(top);
}

/* Keys and values, ended by NULL. */
static int make(const char *const *settings, struct plan **ret,
		struct error *err)
{
	struct request *r = request_new();
	int n;

	assert_int_equal(request_set(r, "program.args", "true", "t", err), 0);
	assert_int_equal(
		request_set(r, "program.isolation", "notify", "t", err), 0);
	for (; *settings; settings += 2)
		assert_int_equal(
			request_set(r, settings[0], settings[1], "t", err), 0);
	n = host_plan(&env, r, false, ret, err);
	request_free(r);
	return n;
}

/* What the rules allow for @path, as Landlock adds them up. */
static unsigned int access_of(const struct plan *p, const char *path)
{
	unsigned int all = 0;

	for (size_t i = 0; i < p->n_paths; i++)
		if (path_is_under(path, p->paths[i].path))
			all |= p->paths[i].access;
	return all;
}

static void test_denied(void **state)
{
	const char *const settings[] = { "config.branch",
					 "false",
					 "filesystem.read",
					 below("tree"),
					 "filesystem.deny",
					 below("tree/a/b/denied"),
					 "filesystem.deny",
					 below("tree/d"),
					 "filesystem.write",
					 below("tree/c"),
					 NULL };
	const unsigned int read = LANDLOCK_READ | LANDLOCK_EXEC;
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	assert_int_equal(make(settings, &p, &err), 0);
	assert_true(p->notify);
	assert_int_equal(p->new_flags, 0);
	assert_int_equal(access_of(p, below("tree/a/b/seen")),
			 read | LANDLOCK_LIST);
	assert_int_equal(access_of(p, below("tree/a/b/denied")), LANDLOCK_LIST);
	assert_int_equal(access_of(p, below("tree/a")), LANDLOCK_LIST);
	/* A directory in it is denied: it cannot even be listed. */
	assert_int_equal(access_of(p, below("tree")), 0);
	assert_int_equal(access_of(p, below("tree/d")), 0);
	assert_int_equal(access_of(p, below("tree/c")), read | LANDLOCK_ALL);
	assert_true(plan_is_writable(p, below("tree/c/x")));
	assert_false(plan_is_writable(p, below("tree/cc")));
	assert_false(plan_is_writable(p, "/dev/null"));
	assert_int_equal(access_of(p, below("run")), 0);
	assert_int_equal(access_of(p, below("store")), 0);
	assert_int_equal(access_of(p, "/usr/bin"), 0);
	plan_free(p);
}

static void test_default(void **state)
{
	static const char *const settings[] = { "config.branch", "false",
						NULL };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	assert_int_equal(make(settings, &p, &err), 0);
	assert_int_equal(access_of(p, "/usr/bin"),
			 LANDLOCK_READ | LANDLOCK_EXEC);
	assert_int_equal(access_of(p, "/proc/1"), LANDLOCK_READ);
	assert_true(access_of(p, "/dev/null") & LANDLOCK_WRITE);
	assert_int_equal(access_of(p, "/dev/sda"), 0);
	assert_int_equal(access_of(p, "/tmp"), 0);
	/* Who cannot read it needs no rule that says so. */
	if (geteuid() == 0)
		assert_int_equal(access_of(p, "/etc/shadow") & LANDLOCK_READ,
				 0);
	plan_free(p);
}

static void test_refused(void **state)
{
	const char *const v[][5] = {
		{ "filesystem.write", top, NULL },
		{ "filesystem.write", "/", NULL },
		{ "filesystem.write", below("tree"), "filesystem.deny",
		  below("tree/d"), NULL },
		{ "filesystem.mount", "/nowhere:/usr", NULL },
		{ "filesystem.chroot", top, NULL },
		{ "program.no_supervisor", "true", NULL },
		{ "program.user", "4:4", NULL },
		{ "syscalls.extra_allow", "keys", NULL },
		{ "disable", "signal-scope", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		const char *settings[8] = { "config.branch", "false" };
		struct error err = ERROR_INIT;
		struct plan *p = NULL;

		for (size_t k = 0; v[i][k]; k++)
			settings[2 + k] = v[i][k];
		assert_int_equal(make(settings, &p, &err), -ENOTSUP);
		assert_int_equal(err.kind, ERR_UNSUPPORTED);
		assert_non_null(strchr(err.msg, ' '));
		assert_null(p);
	}
}

static void test_tree(void **state)
{
	pid_t child = fork(), *pids;
	bool seen = false;
	size_t n;

	if (child == 0) {
		(void)pause();
		_exit(0);
	}
	assert_int_equal(tree_list(getpid(), &pids, &n), 0);
	for (size_t i = 0; i < n; i++)
		seen |= pids[i] == child;
	free(pids);
	assert_true(seen);
	assert_true(tree_has(getpid(), child));
	assert_true(tree_has(getppid(), child));
	assert_false(tree_has(child, getpid()));
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_false(tree_has(getpid(), child));
}

/* Signals go down into domains, and not out of them. */
static void test_scope(void **state)
{
	pid_t outside, guard;
	int status;

	if (landlock_abi() < 6)
		skip();
	outside = fork();
	if (outside == 0) {
		(void)pause();
		_exit(0);
	}
	guard = fork();
	if (guard == 0) {
		pid_t inside;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    landlock_scope_signals(NULL) < 0)
			_exit(1);
		inside = fork();
		if (inside == 0) {
			if (landlock_scope_signals(NULL) < 0 ||
			    kill(getppid(), 0) == 0 || kill(outside, 0) == 0)
				_exit(2);
			(void)pause();
			_exit(0);
		}
		if (kill(outside, 0) == 0 || kill(inside, SIGKILL) < 0 ||
		    waitpid(inside, &status, 0) != inside)
			_exit(3);
		/* Killed before it could say what is wrong. */
		_exit(WIFSIGNALED(status) ? 0 : 4);
	}
	assert_int_equal(waitpid(guard, &status, 0), guard);
	assert_int_equal(status, 0);
	assert_int_equal(kill(outside, SIGKILL), 0);
	(void)waitpid(outside, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_denied),	cmocka_unit_test(test_default),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_tree),
		cmocka_unit_test(test_scope),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
