#include "unit.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kernel/caps.h"
#include "kernel/seccomp.h"
#include "sandbox/launcher.h"

/* Executes in a child; returns its wait status, and what came by the pipe. */
static int launch(const char *path, char *const *argv,
		  const struct seccomp_program *filter, int *ret_sys)
{
	int pair[2], status = 0, launcher_fd = -1, filter_fd = -1;
	char *const env[] = { (char *)"A=b", NULL };
	struct launcher_filters filters = { .filter = filter };
	pid_t pid;

	assert_int_equal(launcher_open(&launcher_fd, NULL), 0);
	if (filter)
		assert_int_equal(launcher_filter(filter, &filter_fd, NULL), 0);
	filters.filter_fd = filter_fd;
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		(void)launcher_exec(launcher_fd, pair[1], &filters,
				    (struct launcher_way){ 0 }, path, argv, env,
				    NULL);
		_exit(99);
	}
	(void)close(pair[1]);
	*ret_sys = 0;
	(void)!read(pair[0], ret_sys, sizeof(*ret_sys));
	(void)close(pair[0]);
	(void)close(launcher_fd);
	if (filter_fd >= 0)
		(void)close(filter_fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_program_gets_argv_and_env(void **state)
{
	char *const argv[] = { (char *)"sh", (char *)"-c",
			       (char *)"test \"$A\" = b && exit 7", NULL };
	int sys, status = launch("/bin/sh", argv, NULL, &sys);

	assert_int_equal(sys, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void test_missing_program_is_reported(void **state)
{
	char *const argv[] = { (char *)"x", NULL };
	int sys, status = launch("/nonexistent", argv, NULL, &sys);

	assert_int_equal(sys, ENOENT);
	assert_int_equal(WEXITSTATUS(status), 127);
}

static void test_directory_cannot_be_executed(void **state)
{
	char *const argv[] = { (char *)"x", NULL };
	int sys, status = launch("/etc", argv, NULL, &sys);

	assert_int_equal(sys, EACCES);
	assert_int_equal(WEXITSTATUS(status), 126);
}

static void test_filter_is_loaded_before_the_program(void **state)
{
	/* uname(2) is answered with errno 42; all else is allowed. */
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 42),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct seccomp_program p = { .insns = insns, .n_insns = 4 };
	char *const argv[] = { (char *)"sh", (char *)"-c",
			       (char *)"! uname 2>/dev/null", NULL };
	int sys, status = launch("/bin/sh", argv, &p, &sys);

	assert_int_equal(sys, 0);
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_no_fd_of_ours_reaches_the_program(void **state)
{
	char *const argv[] = {
		(char *)"sh", (char *)"-c",
		(char *)"for f in /proc/$$/fd/*; do "
			"case $(readlink $f) in *memfd*) exit 1;; esac; done",
		NULL
	};
	int sys, status = launch("/bin/sh", argv, NULL, &sys);

	assert_int_equal(sys, 0);
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_image_is_sealed(void **state)
{
	int fd = -1, again;
	char path[64];

	assert_int_equal(launcher_open(&fd, NULL), 0);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(errno, EPERM);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0) {
		assert_int_equal(write(again, "x", 1), -1);
		(void)close(again);
	}
	assert_int_equal(ftruncate(fd, 0), -1);
	(void)close(fd);
}

/* An ordinary user that reads every file stops where the launcher begins. */
static void become_launcher(int fd)
{
	char *const argv[] = { (char *)"true", NULL };
	char *const env[] = { NULL };
	struct launcher_filters none = { .filter = NULL };

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 &&
	    setresuid(65534, 65534, 65534) == 0 &&
	    caps_set_effective(UINT64_C(1) << CAP_DAC_OVERRIDE |
			       UINT64_C(1) << CAP_DAC_READ_SEARCH) == 0 &&
	    ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
		(void)launcher_exec(fd, STDERR_FILENO, &none,
				    (struct launcher_way){ 0 }, "/bin/true",
				    argv, env, NULL);
	_exit(99);
}

static void test_cannot_be_traced_by_who_reads_all(void **state)
{
	int fd = -1, status = 0;
	char path[32];
	struct stat st;
	pid_t pid;

	if (geteuid() != 0 || is_under_valgrind())
		skip();
	assert_int_equal(launcher_open(&fd, NULL), 0);
	pid = fork();
	if (pid == 0)
		become_launcher(fd);
	(void)close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	/* What cannot be dumped belongs to root there. */
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program_gets_argv_and_env),
		cmocka_unit_test(test_missing_program_is_reported),
		cmocka_unit_test(test_directory_cannot_be_executed),
		cmocka_unit_test(test_filter_is_loaded_before_the_program),
		cmocka_unit_test(test_no_fd_of_ours_reaches_the_program),
		cmocka_unit_test(test_image_is_sealed),
		cmocka_unit_test(test_cannot_be_traced_by_who_reads_all),
	};

	return RUN_TESTS(tests);
}
