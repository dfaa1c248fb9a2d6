/*
 * What an image or somebody with access to a shared volume may try: each test
 * names the fault of another runtime that it is about (docs: reference of
 * known faults), and looks at a canary outside of the root.
 */
#include <signal.h>
#include <sys/sysmacros.h>

#include "base/uapi.h"
#include "rootfs_unit.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

/* A directory outside that must stay as it is. */
static void make_canary(const struct bundle *b)
{
	shell("cd %s && mkdir canary && echo safe >canary/file && "
	      "ls -lAR --full-time canary >canary.before",
	      b->dir);
}

static void check_canary(const struct bundle *b)
{
	shell("cd %s && ls -lAR --full-time canary | cmp - canary.before",
	      b->dir);
	shell("! grep -q '%s/canary' /proc/self/mountinfo", b->dir);
}

/* crun CVE-2019-18837, and the same with deeper destinations. */
static void destination_leads_out(void **state)
{
	struct bundle *b = bundle_of(state);

	make_canary(b);
	shell("cd %s/rootfs && ln -s ../../../../../.. esc && "
	      "ln -s %s/canary abs && ln -s ../canary rel",
	      b->dir, b->dir);
	bundle_fails(b, MOUNT("/esc", "tmpfs", ""), "", EINVAL,
		     "the root itself");
	bundle_ok(b,
		  PROC "," MOUNT("/esc/esc/new", "tmpfs", "") "," MOUNT(
			  "/abs/x", "tmpfs", "") "," MOUNT("/rel", "tmpfs", ""),
		  "", "[ -d /new ] && [ -d /canary ] && touch /rel/f");
	check_canary(b);
	shell("cd %s && test -d rootfs/new && test ! -e new", b->dir);
}

/* CVE-2019-19921, CVE-2023-27561, CVE-2023-28642. */
static void proc_is_a_link(void **state)
{
	struct bundle *b = bundle_of(state);

	make_canary(b);
	shell("cd %s/rootfs && mkdir x && ln -s x proc && ln -s %s/canary sys",
	      b->dir, b->dir);
	bundle_fails(b, PROC, "", ENOTDIR,
		     "must be mounted on ordinary directory");
	bundle_fails(b, SYS, "", ENOTDIR,
		     "must be mounted on ordinary directory");
	shell("cd %s/rootfs && rm proc && mkdir -p real/proc && ln -s real l",
	      b->dir);
	bundle_fails(b, MOUNT("/l/proc", "proc", ""), "", ENOTDIR,
		     "must be mounted on ordinary directory");
	check_canary(b);
}

/* CVE-2019-16884: what looks like procfs is one. */
static void proc_is_replaced(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("cd %s && mkdir fake rootfs/proc && touch fake/f", b->dir);
	bundle_fails(b, MOUNT("/proc", "tmpfs", ""), "", EINVAL,
		     "only procfs can be mounted on /proc");
	bundle_fails(b, BIND("fake", "/proc", "\"bind\""), "", EINVAL,
		     "only procfs");
	bundle_fails(b, PROC "," BIND("fake", "/proc/sys", "\"bind\""), "",
		     EINVAL, "inside /proc");
	bundle_fails(b, PROC "," BIND("fake", "/proc/1/attr", "\"bind\""), "",
		     EINVAL, "inside /proc");
	bundle_fails(b, PROC "," BIND("fake/f", "/proc/self/exe", "\"bind\""),
		     "", ELOOP, "mounts[1]");
	bundle_ok(b,
		  PROC "," BIND("fake/f", "/proc/meminfo", "\"bind\"") "," BIND(
			  "/proc", "/proc", "\"rbind\""),
		  "", "[ -e /proc/self ]");
}

/* CVE-2026-41579: /dev of the image leads to the host. */
static void dev_is_a_link(void **state)
{
	struct bundle *b = bundle_of(state);

	make_canary(b);
	shell("ln -s /../../../../../../%s/canary %s/rootfs/dev", b->dir,
	      b->dir);
	bundle_ok(b, PROC, "", "[ -c /dev/null ] && [ -L /dev/ptmx ]");
	check_canary(b);
	shell("rm %s/rootfs/dev && ln -s ../canary %s/rootfs/dev", b->dir,
	      b->dir);
	bundle_ok(b, DEFAULT_MOUNTS, DEFAULT_MASKS, "[ -c /canary/null ]");
	check_canary(b);
}

/* CVE-2025-31133: the container's /dev/null is no null device. */
static void null_is_a_link(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("cd %s/rootfs && mkdir dev && "
	      "ln -s /proc/sys/kernel/core_pattern dev/null",
	      b->dir);
	bundle_fails(b, PROC, DEFAULT_MASKS, EEXIST, "device '/dev/null'");
	shell("cd %s/rootfs && rm dev/null && touch dev/null", b->dir);
	bundle_fails(b, PROC, DEFAULT_MASKS, EEXIST, "device '/dev/null'");
	shell("cd %s && touch evil", b->dir);
	bundle_fails(b, PROC "," DEV "," BIND("evil", "/dev/null", "\"bind\""),
		     DEFAULT_MASKS, EEXIST, "device '/dev/null'");
}

static void masks_stay_inside(void **state)
{
	struct bundle *b = bundle_of(state);

	make_canary(b);
	shell("cd %s/rootfs && mkdir -p m/dir && touch m/dir/f m/file && "
	      "ln -s file m/l && ln -s %s/canary out && "
	      "ln -s ../../../canary/file m/up && mkdir -p r/sub",
	      b->dir, b->dir);
	bundle_ok(b,
		  PROC "," DEV
		       "," MOUNT("/r", "tmpfs", "\"nosuid\",\"noexec\""),
		  "\"maskedPaths\":[\"/m/dir\",\"/m/l\",\"/out\",\"/m/up\","
		  "\"/none/x\",\"/m/file/x\"],\"readonlyPaths\":[\"/r\","
		  "\"/none\",\"/bin/busybox\"]",
		  "set -e; [ -z \"$(ls /m/dir)\" ]; [ -c /m/file ];"
		  "! touch /m/dir/x 2>/dev/null; ! touch /r/x 2>/dev/null;"
		  "grep ' /r ' /proc/self/mountinfo | "
		  "grep -q ' ro,nosuid,noexec,'");
	check_canary(b);
	shell("cd %s && test -e rootfs/m/dir/f", b->dir);
}

/* Exchanges a directory with a link to the canary until it is killed. */
static pid_t start_exchanging(const char *a, const char *c)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	while (pid == 0)
		(void)renameat2(AT_FDCWD, a, AT_FDCWD, c, RENAME_EXCHANGE);
	return pid;
}

/* CVE-2021-30465, CVE-2024-45310: a path component is exchanged meanwhile. */
static void exchange_races(void **state)
{
	enum { RUNS = 300 };
	struct bundle *b = bundle_of(state);
	auto_free char *dir = NULL, *link = NULL;
	int i, ok = 0;
	pid_t pid;

	make_canary(b);
	assert_true(asprintf(&dir, "%s/vol/d", b->dir) > 0);
	assert_true(asprintf(&link, "%s/vol/l", b->dir) > 0);
	shell("cd %s && mkdir -p vol/d/x && ln -s %s/canary vol/l && "
	      "ln -s ../../../../../../../%s/canary vol/d/up",
	      b->dir, b->dir, b->dir);
	pid = start_exchanging(dir, link);
	for (i = 0; i < RUNS; i++) {
		int n = bundle_run(
			b,
			BIND("vol", "/vol", "\"bind\"") "," MOUNT(
				"/vol/d/x/new", "tmpfs",
				"") "," MOUNT("/vol/d", "tmpfs",
					      "") "," BIND("vol", "/vol/l/y",
							   "\"bind\""),
			"\"maskedPaths\":[\"/vol/d/x\"],"
			"\"readonlyPaths\":[\"/vol/l\"],"
			"\"devices\":[{\"path\":\"/vol/d/dev\","
			"\"type\":\"c\",\"major\":1,\"minor\":3}]",
			NULL);

		ok += n == 0;
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	check_canary(b);
	print_message("%d of %d runs got through\n", ok, RUNS);
}

#define DEVICE(path, major, minor, more)                          \
	"{\"path\":\"" path "\",\"type\":\"c\",\"major\":" #major \
	",\"minor\":" #minor more "}"

static void devices(void **state)
{
	struct bundle *b = bundle_of(state);

	make_canary(b);
	bundle_ok(
		b, PROC "," DEV,
		"\"devices\":[" DEVICE(
			"/dev/mine", 1, 5,
			",\"fileMode\":432,\"uid\":3,"
			"\"gid\":4") "," DEVICE("/opt/a/b", 1, 3,
						"") "," DEVICE("/../../canary/"
							       "x",
							       1, 3,
							       "") "," DEVICE("/dev/null",
									      1,
									      3,
									      ",\"fileMode\":384") ","
												   "{\"path\":\"/dev/p\",\"type\":\"p\"}]",
		"set -e; [ -p /dev/p ]; [ -c /opt/a/b ];"
		"[ \"$(stat -c '%a %u %g %t:%T' /dev/mine)\" = "
		"'660 3 4 1:5' ];"
		"[ -c /canary/x ]; [ $(stat -c %a /dev/null) = 600 ]");
	check_canary(b);
	/* There already: fits or does not. */
	shell("cd %s/rootfs && mkdir -p dev && touch dev/file && "
	      "mknod dev/c c 1 5",
	      b->dir);
	bundle_ok(b, PROC, "\"devices\":[" DEVICE("/dev/c", 1, 5, "") "]",
		  "exit 0");
	bundle_fails(b, PROC, "\"devices\":[" DEVICE("/dev/c", 1, 3, "") "]",
		     EEXIST, "linux.devices[0] ('/dev/c')");
	bundle_fails(b, PROC, "\"devices\":[" DEVICE("/dev/file", 1, 3, "") "]",
		     EEXIST, "something else");
}

static void devices_in_a_user_namespace(void **state)
{
	struct bundle *b = bundle_of(state);

	b->userns = true;
	shell("chown -R %d:%d %s/rootfs", SUB_BASE, SUB_BASE, b->dir);
	bundle_ok(b, PROC "," DEV,
		  "\"devices\":[" DEVICE("/dev/full", 1, 7, "") "]",
		  "[ -c /dev/full ] && echo x >/dev/null");
	bundle_fails(b, PROC "," DEV,
		     "\"devices\":[" DEVICE("/dev/zero", 1, 3, "") "]", ENODEV,
		     "on the host it is no c 1:3");
	bundle_fails(b, PROC "," DEV,
		     "\"devices\":[" DEVICE("/dev/none", 1, 3, "") "]", ENOENT,
		     "'/dev/none'");
	/* On a root of its own an earlier run has left empty files. */
	bundle_ok(b, PROC, "", "[ -c /dev/null ]");
	bundle_ok(b, PROC, "", "[ -c /dev/null ]");
}

/* The host's /dev is not filled with what a container needs. */
static void bound_dev_is_left_alone(void **state)
{
	struct bundle *b = bundle_of(state);

	shell("mkdir %s/hostdev && mknod %s/hostdev/null c 1 3", b->dir,
	      b->dir);
	bundle_ok(b, PROC "," BIND("hostdev", "/dev", "\"bind\""), "",
		  "[ -c /dev/null ]");
	shell("test \"$(ls -A %s/hostdev)\" = null", b->dir);
}

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, bundle_setup, bundle_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(destination_leads_out),
		TEST(proc_is_a_link),
		TEST(proc_is_replaced),
		TEST(dev_is_a_link),
		TEST(null_is_a_link),
		TEST(masks_stay_inside),
		TEST(exchange_races),
		TEST(devices),
		TEST(devices_in_a_user_namespace),
		TEST(bound_dev_is_left_alone),
	};

	return RUN_TESTS(tests);
}
