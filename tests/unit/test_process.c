#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "kernel/process.h"
#include "kernel/userns.h"
#include "spec/spec.h"

#define CHECK(cond)                                                         \
	do {                                                                \
		if (!(cond)) {                                              \
			(void)fprintf(stderr, "%s:%d: %s (%s, errno %d)\n", \
				      __FILE__, __LINE__, #cond, err.msg,   \
				      errno);                               \
			return 1;                                           \
		}                                                           \
	} while (0)

static struct error err;

static int rlimits(void)
{
	struct spec_rlimit v[] = { { RLIMIT_MSGQUEUE, 0, 4096 },
				   { RLIMIT_NOFILE, 100, 200 } };
	struct spec_rlimit bad = { RLIMIT_NOFILE, 10, 5 };
	struct rlimit l;

	/* Not the size of core files: sudo leaves none, and not every root may
	 * raise a limit. */
	CHECK(process_set_rlimits(v, 2, &err) == 0);
	CHECK(getrlimit(RLIMIT_NOFILE, &l) == 0);
	CHECK(l.rlim_cur == 100 && l.rlim_max == 200);
	CHECK(getrlimit(RLIMIT_MSGQUEUE, &l) == 0);
	CHECK(l.rlim_cur == 0 && l.rlim_max == 4096);
	CHECK(process_set_rlimits(&bad, 1, &err) == -EINVAL);
	return 0;
}

static int scheduler(void)
{
	struct spec_scheduler s = { .policy = SCHED_IDLE };

	CHECK(process_set_scheduler(0, &s, &err) == 0);
	CHECK(sched_getscheduler(0) == SCHED_OTHER);
	s = (struct spec_scheduler){ .given = true,
				     .policy = SCHED_BATCH,
				     .nice = 19 };
	CHECK(process_set_scheduler(0, &s, &err) == 0);
	CHECK(sched_getscheduler(0) == SCHED_BATCH);
	CHECK(getpriority(PRIO_PROCESS, 0) == 19);
	s.priority = 5;
	CHECK(process_set_scheduler(0, &s, &err) == -EINVAL);
	/* Last: an ordinary user does not get away from it. */
	s = (struct spec_scheduler){ .given = true, .policy = SCHED_IDLE };
	CHECK(process_set_scheduler(0, &s, &err) == 0);
	CHECK(sched_getscheduler(0) == SCHED_IDLE);
	return 0;
}

static int io_priority(void)
{
	struct spec_io_priority p = { .given = true,
				      .class = 2,
				      .priority = 6 };

	/* The group must not hold processes of somebody else. */
	CHECK(setpgid(0, 0) == 0);
	CHECK(process_set_io_priority(&p, &err) == 0);
	CHECK(syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 6));
	p.class = 5;
	CHECK(process_set_io_priority(&p, &err) == -EINVAL);
	return 0;
}

static int affinity(void)
{
	static const char *const bad[] = {
		"",    "a",	"1-",	"-1",
		"3-1", "0,",	",0",	"0 ",
		" 0",  "0-1-2", "+1",	"99999",
		"0x1", "0;1",	"0--1", "18446744073709551616"
	};
	cpu_set_t set;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(process_set_affinity(bad[i], &err) == -EINVAL);
		CHECK(err.kind == ERR_BUNDLE);
	}
	CHECK(process_set_affinity("0", &err) == 0);
	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	CHECK(CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set));
	/* What is not there is left out, as long as one is. */
	CHECK(process_set_affinity("0-3,7", &err) == 0);
	CHECK(process_set_affinity("900", &err) == -EINVAL);
	CHECK(process_set_affinity("0", &err) == 0);
	process_reset_affinity();
	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	CHECK(CPU_COUNT(&set) == sysconf(_SC_NPROCESSORS_ONLN));
	return 0;
}

static int memory_policy(void)
{
	struct spec_memory_policy p = { .mode = MPOL_BIND,
					.nodes = (char *)"0" };
	int mode = -1;

	CHECK(process_set_memory_policy(&p, &err) == 0);
	p.given = true;
	CHECK(process_set_memory_policy(&p, &err) == 0);
	CHECK(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0);
	CHECK(mode == MPOL_BIND);
	p.nodes = (char *)"0-";
	CHECK(process_set_memory_policy(&p, &err) == -EINVAL);
	CHECK(err.kind == ERR_BUNDLE);
	p.nodes = (char *)"1000";
	CHECK(process_set_memory_policy(&p, &err) == -EINVAL);
	return 0;
}

static int persona(void)
{
	CHECK(process_set_personality(PER_LINUX32, &err) == 0);
	CHECK(personality(0xffffffff) == PER_LINUX32);
	return 0;
}

static int oom_score(void)
{
	char text[16] = "";
	int fd;

	CHECK(process_set_oom_score_adj(0, 321, &err) == 0);
	fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	CHECK(read(fd, text, sizeof(text)) > 0);
	CHECK(atoi(text) == 321);
	CHECK(process_set_oom_score_adj(0, 2000, &err) == -EINVAL);
	return 0;
}

static int keyring(void)
{
	char text[128] = "";
	long id;

	CHECK(process_new_keyring("_ses.sltest", NULL, &err) == 0);
	id = syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3L, 0);
	if (id < 0)
		return 0; /* no keyrings here, which is what it warned of */
	CHECK(syscall(SYS_keyctl, 6 /* DESCRIBE */, id, text, sizeof(text)) >
	      0);
	CHECK(strstr(text, ";_ses.sltest"));
	return 0;
}

static int time_offsets(void)
{
	struct spec_time_offset none = { .given = false };
	struct spec_time_offset day = { .given = true,
					.secs = 86400,
					.nanosecs = 5 };
	struct timespec before, after;
	int fd;

	CHECK(process_write_time_offsets(&none, &none, &err) == 0);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &before) == 0);
	if (unshare(CLONE_NEWTIME) < 0)
		return 77;
	CHECK(process_write_time_offsets(&day, &none, &err) == 0);
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && setns(fd, CLONE_NEWTIME) == 0);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
	CHECK(after.tv_sec - before.tv_sec >= 86400);
	CHECK(after.tv_sec - before.tv_sec < 86460);
	return 0;
}

static int loopback(void)
{
	struct ifreq req = { .ifr_name = "lo" };
	int fd;

	CHECK(unshare(CLONE_NEWNET) == 0);
	CHECK(process_loopback_up(&err) == 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(ioctl(fd, SIOCGIFFLAGS, &req) == 0);
	CHECK(req.ifr_flags & IFF_UP);
	return 0;
}

static int labels(void)
{
	struct spec_process p = { .apparmor_profile = NULL };
	struct statfs fs;
	int proc_fd = process_open_proc(&err), tmp_fd;

	CHECK(proc_fd >= 0);
	CHECK(fstatfs(proc_fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC);
	CHECK(process_set_labels(&p, proc_fd, &err) == 0);
	if (access("/sys/kernel/security/apparmor", F_OK) < 0) {
		p.apparmor_profile = (char *)"sltest";
		CHECK(process_set_labels(&p, proc_fd, &err) < 0);
		CHECK(err.kind == ERR_UNSUPPORTED);
		CHECK(strstr(err.msg, "apparmor"));
	}
	p.apparmor_profile = NULL;
	if (access("/sys/fs/selinux/enforce", F_OK) < 0) {
		p.selinux_label = (char *)"a:b:c:s0";
		CHECK(process_set_labels(&p, proc_fd, &err) < 0);
		CHECK(err.kind == ERR_UNSUPPORTED);
		CHECK(strstr(err.msg, "selinux"));
	}
	/* A volume in place of /proc (CVE-2019-16884). */
	p.selinux_label = (char *)"a:b:c:s0";
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("none", "/mnt", "tmpfs", 0, NULL) == 0);
	CHECK(chdir("/mnt") == 0);
	{
		char self[32], cmd[128];

		(void)snprintf(self, sizeof(self), "%d", (int)getpid());
		(void)snprintf(cmd, sizeof(cmd),
			       "mkdir -p %s/attr && : > %s/attr/exec", self,
			       self);
		CHECK(system(cmd) == 0);
	}
	tmp_fd = open("/mnt", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(process_set_labels(&p, tmp_fd, &err) < 0);
	CHECK(strstr(err.msg, "procfs") || err.kind == ERR_UNSUPPORTED);
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
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("not on this kernel\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void in_root_child(int (*fn)(void))
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
	in_child(fn);
}

#define T(fn)                               \
	static void test_##fn(void **state) \
	{                                   \
		in_child(fn);               \
	}
#define ROOT(fn)                            \
	static void test_##fn(void **state) \
	{                                   \
		in_root_child(fn);          \
	}

T(rlimits)
T(scheduler)
T(io_priority)
T(affinity)
T(memory_policy)
T(persona)
T(oom_score)
T(keyring)
ROOT(time_offsets)
ROOT(loopback)
ROOT(labels)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rlimits),
		cmocka_unit_test(test_scheduler),
		cmocka_unit_test(test_io_priority),
		cmocka_unit_test(test_affinity),
		cmocka_unit_test(test_memory_policy),
		cmocka_unit_test(test_persona),
		cmocka_unit_test(test_oom_score),
		cmocka_unit_test(test_keyring),
		cmocka_unit_test(test_time_offsets),
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
