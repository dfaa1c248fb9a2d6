#include "unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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
		(void)launcher_exec(launcher_fd, pair[1], &filters, false, path,
				    argv, env, NULL);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program_gets_argv_and_env),
		cmocka_unit_test(test_missing_program_is_reported),
		cmocka_unit_test(test_directory_cannot_be_executed),
		cmocka_unit_test(test_filter_is_loaded_before_the_program),
		cmocka_unit_test(test_no_fd_of_ours_reaches_the_program),
		cmocka_unit_test(test_image_is_sealed),
	};

	return RUN_TESTS(tests);
}
