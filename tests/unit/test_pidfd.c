#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/pidfd.h"

static pid_t spawn_sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return pid;
}

static pid_t spawn_exiting(int code)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(code);
	return pid;
}

static void test_boot_id_is_a_uuid(void **state)
{
	char id[BOOT_ID_LEN + 1];

	assert_int_equal(proc_boot_id(id), 0);
	assert_int_equal(strlen(id), BOOT_ID_LEN);
	assert_int_equal(id[8], '-');
}

static void test_stat_survives_a_hostile_name(void **state)
{
	struct proc_stat st;

	assert_int_equal(prctl(PR_SET_NAME, "x) R 1 (", 0, 0, 0), 0);
	assert_int_equal(proc_read_stat(getpid(), &st), 0);
	assert_int_equal(st.ppid, getppid());
	assert_true(st.start_time > 1);
	assert_int_equal(st.state, 'R');
}

static void test_no_such_process(void **state)
{
	struct proc_id id = { .pid = 0x3ffffff, .start_time = 1 };
	struct proc_stat st;

	assert_int_equal(proc_read_stat(id.pid, &st), -ESRCH);
	assert_int_equal(proc_read_stat(0, &st), -ESRCH);
	assert_false(proc_is_alive(&id));
	assert_int_equal(pidfd_open_id(&id), -ESRCH);
}

static void test_another_start_time_is_another_process(void **state)
{
	struct proc_id id;

	assert_int_equal(proc_id_of(getpid(), &id), 0);
	assert_true(proc_is_alive(&id));
	id.start_time--;
	assert_false(proc_is_alive(&id));
	assert_int_equal(pidfd_open_id(&id), -ESRCH);
}

static void test_zombie_is_not_alive(void **state)
{
	pid_t pid = spawn_sleeper();
	struct proc_id id;
	auto_close int fd = -1;

	assert_int_equal(proc_id_of(pid, &id), 0);
	fd = pidfd_open_id(&id);
	assert_true(fd >= 0);
	assert_int_equal(pidfd_wait(fd, 0), 0);
	assert_int_equal(pidfd_wait(fd, 20), 0);
	assert_int_equal(pidfd_signal(fd, SIGKILL), 0);
	assert_int_equal(pidfd_wait(fd, 5000), 1);
	assert_false(proc_is_alive(&id));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(pidfd_wait(fd, 5000), 1);
	assert_int_equal(pidfd_signal(fd, 0), -ESRCH);
}

static void *sleep_on(void *arg)
{
	(void)pause();
	return arg;
}

static void test_exited_leader_with_a_thread_is_alive(void **state)
{
	struct proc_stat st;
	struct proc_id id;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		pthread_t t;

		(void)pthread_create(&t, NULL, sleep_on, NULL);
		pthread_exit(NULL);
	}
	assert_int_equal(proc_id_of(pid, &id), 0);
	do {
		(void)usleep(1000);
		assert_int_equal(proc_read_stat(pid, &st), 0);
	} while (st.state != 'Z');
	assert_true(proc_is_alive(&id));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(proc_is_alive(&id));
}

static void test_status_of_a_child(void **state)
{
	pid_t pid = spawn_exiting(7);
	auto_close int fd = pidfd_open_pid(pid);
	struct exit_status s;

	assert_int_equal(pidfd_wait(fd, 5000), 1);
	pidfd_exit_status(fd, pid, &s);
	assert_int_equal(s.kind, EXIT_CODE);
	assert_int_equal(s.value, 7);
	assert_int_equal(waitpid(pid, NULL, 0), -1);
}

static void test_status_of_a_running_child_is_unknown(void **state)
{
	pid_t pid = spawn_sleeper();
	auto_close int fd = pidfd_open_pid(pid);
	struct exit_status s;

	pidfd_exit_status(fd, pid, &s);
	assert_int_equal(s.kind, EXIT_UNKNOWN);
	(void)kill(pid, SIGTERM);
	assert_int_equal(pidfd_wait(fd, 5000), 1);
	pidfd_exit_status(fd, pid, &s);
	assert_int_equal(s.kind, EXIT_SIGNAL);
	assert_int_equal(s.value, SIGTERM);
}

/* The middle process is the parent; it reaps only when told to. */
static void run_grandchild(int sig, bool reap, struct exit_status *ret)
{
	auto_close int fd = -1;
	int up[2], down[2];
	pid_t middle, pid;
	char c;

	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	middle = fork();
	assert_true(middle >= 0);
	if (middle == 0) {
		pid = sig ? spawn_sleeper() : spawn_exiting(42);
		(void)!write(up[1], &pid, sizeof(pid));
		(void)!read(down[0], &c, 1);
		if (reap)
			(void)waitpid(pid, NULL, 0);
		(void)!write(up[1], "", 1);
		(void)!read(down[0], &c, 1);
		_exit(0);
	}
	assert_int_equal(read(up[0], &pid, sizeof(pid)), sizeof(pid));
	fd = pidfd_open_pid(pid);
	assert_true(fd >= 0);
	if (sig)
		assert_int_equal(pidfd_signal(fd, sig), 0);
	assert_int_equal(pidfd_wait(fd, 5000), 1);
	assert_int_equal(write(down[1], "", 1), 1);
	assert_int_equal(read(up[0], &c, 1), 1);
	pidfd_exit_status(fd, pid, ret);
	assert_int_equal(write(down[1], "", 1), 1);
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	for (int i = 0; i < 2; i++) {
		(void)close(up[i]);
		(void)close(down[i]);
	}
}

static void test_status_of_another_ones_zombie(void **state)
{
	struct exit_status s;

	run_grandchild(0, false, &s);
	assert_int_equal(s.kind, EXIT_CODE);
	assert_int_equal(s.value, 42);
	run_grandchild(SIGKILL, false, &s);
	assert_int_equal(s.kind, EXIT_SIGNAL);
	assert_int_equal(s.value, SIGKILL);
}

static void test_status_after_another_one_reaped(void **state)
{
	struct exit_status s;

	run_grandchild(0, true, &s);
	if (s.kind == EXIT_UNKNOWN)
		skip(); /* kernel older than 6.15 */
	assert_int_equal(s.kind, EXIT_CODE);
	assert_int_equal(s.value, 42);
}

/* Whichever of the ways was tried before it was reaped. */
static void test_status_while_another_one_reaps(void **state)
{
	enum { ROUNDS = 500 };
	int unknown = 0, pids[2];
	struct exit_status s;
	pid_t middle, pid;

	run_grandchild(0, true, &s);
	if (s.kind == EXIT_UNKNOWN)
		skip(); /* kernel older than 6.15 */
	assert_int_equal(pipe(pids), 0);
	middle = fork();
	assert_true(middle >= 0);
	for (int i = 0; middle == 0 && i < ROUNDS; i++) {
		pid = spawn_sleeper();
		(void)!write(pids[1], &pid, sizeof(pid));
		(void)waitpid(pid, NULL, 0);
	}
	if (middle == 0)
		_exit(0);
	for (int i = 0; i < ROUNDS; i++) {
		auto_close int fd = -1;

		assert_int_equal(read(pids[0], &pid, sizeof(pid)), sizeof(pid));
		fd = pidfd_open_pid(pid);
		assert_true(fd >= 0);
		assert_int_equal(pidfd_signal(fd, SIGKILL), 0);
		assert_int_equal(pidfd_wait(fd, 5000), 1);
		pidfd_exit_status(fd, pid, &s);
		unknown += s.kind != EXIT_SIGNAL || s.value != SIGKILL;
	}
	assert_int_equal(unknown, 0);
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	(void)close(pids[0]);
	(void)close(pids[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_boot_id_is_a_uuid),
		cmocka_unit_test(test_stat_survives_a_hostile_name),
		cmocka_unit_test(test_no_such_process),
		cmocka_unit_test(test_another_start_time_is_another_process),
		cmocka_unit_test(test_zombie_is_not_alive),
		cmocka_unit_test(test_exited_leader_with_a_thread_is_alive),
		cmocka_unit_test(test_status_of_a_child),
		cmocka_unit_test(test_status_of_a_running_child_is_unknown),
		cmocka_unit_test(test_status_of_another_ones_zombie),
		cmocka_unit_test(test_status_after_another_one_reaped),
		cmocka_unit_test(test_status_while_another_one_reaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
