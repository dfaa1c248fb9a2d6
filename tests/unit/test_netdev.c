#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "kernel/netdev.h"
#include "spec/spec.h"

#define CHECK(cond)                                                         \
	do {                                                                \
		if (!(cond)) {                                              \
			(void)fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, \
				      __LINE__, #cond, err.msg);            \
			return 1;                                           \
		}                                                           \
	} while (0)

static struct error err;
static pid_t inside;

/* A shell command, in our namespace or in the sandbox's. */
static int host(const char *cmd)
{
	int r = system(cmd);

	return WIFEXITED(r) ? WEXITSTATUS(r) : 1;
}

static int in_sandbox(const char *cmd)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "nsenter -t %d -n sh -c '%s'",
		       (int)inside, cmd);
	return host(text);
}

/* Both namespaces are the test's own: nothing of the machine is touched. */
static int start_namespaces(void)
{
	int fds[2];
	char c;

	CHECK(unshare(CLONE_NEWNET) == 0);
	CHECK(pipe(fds) == 0);
	inside = fork();
	CHECK(inside >= 0);
	if (inside == 0) {
		if (unshare(CLONE_NEWNET) < 0)
			_exit(1);
		(void)!write(fds[1], "", 1);
		for (;;)
			(void)pause();
	}
	CHECK(read(fds[0], &c, 1) == 1);
	return 0;
}

static int move(const char *from, const char *to)
{
	struct spec_net_device d = { (char *)from, (char *)to };

	err = (struct error)ERROR_INIT;
	return netdev_move(&d, 1, inside, &err);
}

static int devices_move(void)
{
	struct stat before, after;

	CHECK(start_namespaces() == 0);
	CHECK(host("ip link add d0 type veth peer name p0 && ip link add d1 "
		   "type veth peer name p1 &&"
		   "ip link add d2 type veth peer name p2 && ip link set d0 up "
		   "&& ip link set p0 up &&"
		   "ip addr add 10.1.2.3/24 brd + dev d0 &&"
		   "ip addr add 10.1.2.4/24 dev d0 &&"
		   "ip addr add fd00::5/64 nodad dev d0 &&"
		   "ip addr add 10.9.9.9/32 scope link dev d0") == 0);
	CHECK(stat("/proc/self/ns/net", &before) == 0);
	CHECK(move("d0", "eth0") == 0);
	CHECK(stat("/proc/self/ns/net", &after) == 0);
	CHECK(before.st_ino == after.st_ino);
	CHECK(host("ip link show d0 2>/dev/null") != 0);
	CHECK(in_sandbox("ip addr show eth0 | grep -q 10.1.2.3/24.*brd") == 0);
	CHECK(in_sandbox("ip addr show eth0 | grep -q 10.1.2.4/24") == 0);
	CHECK(in_sandbox("ip addr show eth0 | grep -q fd00::5/64") == 0);
	CHECK(in_sandbox("ip addr show eth0 | grep -q 10.9.9.9") != 0);
	CHECK(in_sandbox("ip link show eth0 | grep -q [\\<,]UP") == 0);

	CHECK(move("d1", "eth0") == -EEXIST);
	CHECK(strstr(err.msg, "'eth0'"));
	CHECK(host("ip link show d1 >/dev/null") == 0);
	CHECK(move("d1", "eth%d") == 0);
	CHECK(in_sandbox("ip link show eth1 >/dev/null") == 0);
	CHECK(move("d2", NULL) == 0);
	CHECK(in_sandbox("ip link show d2 >/dev/null") == 0);
	return 0;
}

static int bad_requests(void)
{
	CHECK(start_namespaces() == 0);
	CHECK(move("nothing", NULL) == -ENODEV);
	CHECK(err.kind == ERR_BUNDLE && strstr(err.msg, "'nothing'"));
	CHECK(host("ip link add d0 type veth peer name p0") == 0);
	CHECK(move("d0", "a-name-that-is-too-long") == -EINVAL);
	CHECK(move("d0", "x%s") == -EINVAL);
	CHECK(move("d0", "x%d%d") == -EINVAL);
	CHECK(move("lo", "lo1") == -EINVAL);
	CHECK(*err.hint);
	CHECK(host("ip link show d0 >/dev/null") == 0);
	(void)kill(inside, SIGKILL);
	(void)waitpid(inside, NULL, 0);
	inside = getpid();
	CHECK(move("d0", NULL) == -EINVAL);
	CHECK(strstr(err.msg, "of its own"));
	inside = 0;
	return 0;
}

static void run(int (*fn)(void))
{
	pid_t pid;
	int status;

	if (geteuid() != 0 || host("ip -V >/dev/null 2>&1") != 0) {
		print_message("needs root and ip(8)\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int r = fn();

		if (inside > 0) {
			(void)kill(inside, SIGKILL);
			(void)waitpid(inside, NULL, 0);
		}
		_exit(r);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_devices_move(void **state)
{
	run(devices_move);
}

static void test_bad_requests_touch_nothing(void **state)
{
	run(bad_requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices_move),
		cmocka_unit_test(test_bad_requests_touch_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
