/*
 * For tests of cgroups: one cgroup of a name of its own below every hierarchy
 * of the host, children inside of it, and a tear-down that fails if it is
 * still there. need() and need_v1() skip where the host has another layout.
 */
#ifndef SANDLOCK_TESTS_CGROUP_FIXTURE_H
#define SANDLOCK_TESTS_CGROUP_FIXTURE_H

#include "unit.h"

#include <linux/limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kernel/cgroup.h"
#include "kernel/cgroup_internal.h"
#include "spec/spec.h"

#define UNIFIED "/sys/fs/cgroup/unified"

static char name[64], nested[96];
static struct error err;
static struct cgroup *cg;
static pid_t children[8];
static size_t n_children;

static inline bool exists(const char *dir)
{
	return access(dir, F_OK) == 0;
}

static inline const char *dir_in(const char *hierarchy, const char *path)
{
	static char dirs[4][PATH_MAX];
	static unsigned int i;
	char *dir = dirs[i++ % 4];

	(void)snprintf(dir, PATH_MAX, "/sys/fs/cgroup/%s%s", hierarchy, path);
	return dir;
}

static inline void need(enum cgroup_mode mode)
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

static inline void need_v1(const char *controller)
{
	need(CGROUP_HYBRID);
	if (!exists(dir_in(controller, "/cgroup.procs"))) {
		print_message("needs the v1 controller %s\n", controller);
		skip();
	}
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
	for (size_t i = 0; i < n_children; i++) {
		(void)kill(children[i], SIGKILL);
		(void)kill(children[i], SIGCONT);
		(void)waitpid(children[i], NULL, 0);
	}
	/* Who is left after a failure holds the runner's pipe for ever. */
	if (cg)
		(void)cgroup_kill(cg, 5000, NULL);
	if (cg && cgroup_remove(cg, &err) < 0)
		print_error("%s\n", err.msg);
	cgroup_free(cg);
	return exists(dir_in("unified/", name)) ||
	       exists(dir_in("memory/", name)) ||
	       exists(dir_in("pids/", name)) ||
	       exists(dir_in("devices/", name));
}

static inline int make(const char *path, const struct spec_resources *r)
{
	struct cgroup_options o = { .path = path,
				    .name = name,
				    .resources = r };

	return cgroup_make(&o, &cg, &err);
}

/* As the sandbox does it: into the unified cgroup by clone3, v1 by itself. */
static inline pid_t run_inside(int (*fn)(void *), void *arg)
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
		if (cgroup_child_join(cg, a.flags & CLONE_INTO_CGROUP, &err) <
		    0) {
			(void)fprintf(stderr, "%s\n", err.msg);
			_exit(99);
		}
		_exit(fn(arg));
	}
	children[n_children++] = pid;
	return pid;
}

static inline int wait_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	n_children--;
	return status;
}

static inline int sleep_long(void *arg)
{
	int *fds = arg;

	if (fds)
		(void)!write(fds[1], "", 1);
	for (;;)
		(void)pause();
	return 0;
}

/* Returns when the child has joined. */
static inline pid_t sleeper(void)
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

static inline void assert_file(const char *dir, const char *file,
			       const char *text)
{
	auto_(buf) struct buf b = BUF_INIT;

	assert_int_equal(cgroup_read(dir, file, &b), 0);
	if (b.len && b.data[b.len - 1] == '\n')
		b.data[b.len - 1] = '\0';
	assert_string_equal(buf_str(&b), text);
}

#define CGROUP_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
