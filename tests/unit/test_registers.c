#include "unit.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kernel/registers.h"

#ifdef HAVE_REGISTERS

enum { ERESTARTNOHAND = 514, OPEN_FD = 77 };

static void wait_until_stopped(pid_t pid, int event)
{
	int status;

	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
	if (event)
		assert_int_equal(status >> 16, event);
	else
		assert_int_equal(WSTOPSIG(status), SIGTRAP | 0x80);
}

static bool is_waiting(pid_t pid)
{
	char path[40], text[64] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)!read(fd, text, sizeof(text) - 1);
		(void)close(fd);
	}
	return atoi(text) == SYS_ppoll;
}

/* A child that waits for ever, stopped on its way out of that; its exit status
 * is the error that it gets, or 99 where OPEN_FD is closed by then. */
static pid_t start_waiting(struct registers *ret)
{
	const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		long r;

		if (dup2(0, OPEN_FD) < 0)
			_exit(98);
		r = syscall(SYS_ppoll, NULL, 0, NULL, NULL, 8);
		if (fcntl(OPEN_FD, F_GETFD) < 0)
			_exit(99);
		_exit(r < 0 ? errno : 97);
	}
	while (!is_waiting(pid))
		(void)usleep(1000);
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, options), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	wait_until_stopped(pid, PTRACE_EVENT_STOP);
	assert_int_equal(registers_read(pid, ret), 0);
	return pid;
}

static void go_on(pid_t pid, const struct registers *r, int expect)
{
	int status;

	assert_int_equal(registers_write(pid, r), 0);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), expect);
}

static void another_call_is_made(void **state)
{
	struct registers r;
	pid_t pid = start_waiting(&r);

	assert_true(registers_will_restart(pid, &r, SYS_ppoll, ERESTARTNOHAND));
	assert_false(
		registers_will_restart(pid, &r, SYS_getpid, ERESTARTNOHAND));
	assert_int_equal(registers_argument(&r, 3), 0);
	registers_set_call(&r, SYS_exit_group);
	registers_set_argument(&r, 0, 42);
	go_on(pid, &r, 42);
}

static void no_call_is_made(void **state)
{
	struct registers r;
	pid_t pid = start_waiting(&r);

	registers_fail(&r, ENOTTY);
	go_on(pid, &r, ENOTTY);
}

static void step(pid_t pid)
{
	assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
	wait_until_stopped(pid, 0);
}

/* Behind a call that was turned into another one, and has failed. */
static void a_call_of_ours_is_made_behind_it(void **state)
{
	struct registers was, r;
	pid_t pid = start_waiting(&was);

	r = was;
	registers_set_call(&r, SYS_chdir);
	registers_set_argument(&r, 0, 0);
	registers_set_argument(&r, 3, 5);
	assert_int_equal(registers_write(pid, &r), 0);
	step(pid);
	step(pid);
	assert_int_equal(registers_read(pid, &r), 0);
	registers_put_back(&r, &was);
	assert_int_equal(registers_argument(&r, 3), 0);
	assert_int_equal(registers_stack(&r), registers_stack(&was));
	assert_int_equal(registers_write(pid, &r), 0);
	was = r;
	registers_make_call(&r, SYS_close, OPEN_FD);
	assert_int_equal(registers_write(pid, &r), 0);
	step(pid);
	step(pid);
	go_on(pid, &was, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_call_is_made),
		cmocka_unit_test(no_call_is_made),
		cmocka_unit_test(a_call_of_ours_is_made_behind_it),
	};

	return RUN_TESTS(tests);
}

#else

int main(void)
{
	(void)puts("1..0 # SKIP this machine's registers are not known");
	return 0;
}

#endif
