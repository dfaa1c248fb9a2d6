/* Many callers at once, slow handlers, exec, and SIGKILL at any time. */
#include "trap.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "supervise/account.h"
#include "supervise/supervisor.h"

enum {
	NR_WAIT = SYS_getpgid, /* held until the flag is set */
	NR_QUICK = SYS_getsid,
	NR_SLOW_LOCAL = SYS_getpriority,
	PIPELINES = 300,
	THREADS = 64,
	BUSY_THREADS = 16,
	EXECS = 20,
	VICTIMS = 60,
};

static const int trapped_nrs[] = { SYS_openat, NR_WAIT, NR_QUICK,
				   NR_SLOW_LOCAL };

static struct error err;
static pid_t own_session; /* 0 where it began outside, as in CI */
static atomic_int released, waiting, settled, sent, undone;

static struct outcome open_for(struct call *c, void *data)
{
	char path[256];
	int fd;

	/* What is not plain the kernel opens. */
	if (call_read_string(c, call_arg(c, 1), path, sizeof(path)) < 0 ||
	    strcmp(path, "/etc/passwd") != 0)
		return OUTCOME_GO;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? OUTCOME_FAIL(errno)
		      : OUTCOME_OPEN(fd, call_arg(c, 2) & O_CLOEXEC);
}

static struct outcome hold(struct call *c, void *data)
{
	(void)atomic_fetch_add(&waiting, 1);
	while (!atomic_load(&released))
		trap_sleep_ms(2);
	return OUTCOME_VALUE(7);
}

static struct outcome quick(struct call *c, void *data)
{
	return OUTCOME_GO;
}

static struct outcome slow(struct call *c, void *data)
{
	trap_sleep_ms(1);
	return OUTCOME_VALUE(7);
}

static int settle(struct call *c, void *data)
{
	(void)atomic_fetch_add(&settled, 1);
	return 0;
}

static void note_sent(struct call *c, void *data)
{
	(void)atomic_fetch_add(&sent, 1);
}

static void undo(struct call *c, void *data)
{
	(void)atomic_fetch_add(&undone, 1);
}

static const struct account account = { settle, note_sent, undo };

static const struct handler rows[] = {
	{ "openat", SYS_openat, LANE_LOCAL, open_for, NULL, NULL },
	{ "getpgid", NR_WAIT, LANE_EXTERNAL, hold, NULL, NULL },
	{ "getsid", NR_QUICK, LANE_INLINE, quick, NULL, &account },
	{ "getpriority", NR_SLOW_LOCAL, LANE_LOCAL, slow, NULL, NULL },
};

static struct supervisor *supervise(void)
{
	const struct supervisor_options o = { .handlers = rows,
					      .n_handlers = ARRAY_LEN(rows) };
	struct supervisor *s = NULL;

	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	released = waiting = settled = sent = undone = 0;
	return s;
}

static struct trapped child(struct supervisor *s, int (*body)(void *))
{
	struct trapped t =
		trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), body, NULL);

	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	trap_go(&t);
	return t;
}

static void run(int (*body)(void *), int seconds)
{
	size_t fds = trap_count("/proc/self/fd");
	struct supervisor *s = supervise();
	struct trapped t = child(s, body);

	assert_int_equal(trap_wait(t.pid, seconds), 0);
	supervisor_free(s);
	assert_int_equal(trap_count("/proc/self/fd"), fds);
}

/* ------------------------------------------------------------ pipelines -- */

static void run_pipeline(void)
{
	char text[16] = "";
	int out[2], status;
	pid_t pid;

	MUST(pipe2(out, O_CLOEXEC) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		MUST(dup2(out[1], 1) == 1);
		(void)execl("/bin/sh", "sh", "-c", "echo a|cat|cat", NULL);
		_exit(127);
	}
	(void)close(out[1]);
	MUST(fd_read_full(out[0], text, sizeof(text) - 1) == 2);
	MUST(strcmp(text, "a\n") == 0);
	(void)close(out[0]);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static int pipelines(void *arg)
{
	for (int i = 0; i < PIPELINES / (TRAP_TSAN ? 5 : 1); i++)
		run_pipeline();
	return 0;
}

static void test_pipelines(void **state)
{
	run(pipelines, 30);
}

/* -------------------------------------------------------------- threads -- */

static void *open_often(void *arg)
{
	for (int i = 0; i < 60; i++) {
		int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

		MUST(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
		(void)close(fd);
		fd = open("/etc/group", O_RDONLY | O_CLOEXEC);
		MUST(fd >= 0);
		(void)close(fd);
		MUST(i % 20 || syscall(NR_SLOW_LOCAL, 0, 0) == 7);
	}
	return NULL;
}

static int threads(void *arg)
{
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS; i++)
		MUST(pthread_create(&t[i], NULL, open_often, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	return 0;
}

static void test_threads_that_open_files(void **state)
{
	run(threads, 20);
}

/* ------------------------------------------------------- a slow handler -- */

static int hold_some(void *arg)
{
	int status;

	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0)
			_exit(syscall(NR_WAIT, 0) == 7 ? 0 : 1);
	}
	for (int i = 0; i < 10000; i++)
		MUST(syscall(NR_QUICK, 0) == own_session);
	for (int i = 0; i < 100; i++)
		MUST(wait(&status) > 0 && status == 0);
	return 0;
}

static void test_held_calls_hold_up_nobody(void **state)
{
	struct supervisor *s = supervise();
	struct trapped t = child(s, hold_some);
	uint64_t limit = trap_now_ms() + 60000;

	while (atomic_load(&sent) < 10000 && trap_now_ms() < limit)
		trap_sleep_ms(5);
	assert_int_equal(sent, 10000);
	assert_true(waiting > 0);
	assert_int_equal(waitpid(t.pid, NULL, WNOHANG), 0);
	released = 1;
	assert_int_equal(trap_wait(t.pid, 10), 0);
	supervisor_free(s);
	assert_int_equal(settled, sent);
}

/* ----------------------------------------------------------------- exec -- */

static void *open_for_ever(void *arg)
{
	for (;;) {
		int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

		(void)syscall(NR_SLOW_LOCAL, 0, 0);
		(void)close(fd);
	}
	return NULL;
}

static void exec_among_threads(void)
{
	pthread_t t;

	for (int i = 0; i < BUSY_THREADS; i++)
		MUST(pthread_create(&t, NULL, open_for_ever, NULL) == 0);
	trap_sleep_ms(10);
	(void)execl("/bin/true", "true", NULL);
	_exit(127);
}

static int execs(void *arg)
{
	int status;

	for (int i = 0; i < EXECS; i++) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0)
			exec_among_threads();
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
	}
	return 0;
}

static void test_exec_among_busy_threads(void **state)
{
	run(execs, 20);
}

/* -------------------------------------------------------------- SIGKILL -- */

static int victim(void *arg)
{
	for (;;) {
		pid_t pid = fork();
		int fd;

		if (pid == 0) {
			(void)syscall(NR_WAIT, 0);
			_exit(0);
		}
		fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
		(void)syscall(NR_QUICK, 0);
		(void)syscall(NR_SLOW_LOCAL, 0, 0);
		(void)close(fd);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return 1;
}

static void test_tasks_killed_at_any_time(void **state)
{
	size_t fds = trap_count("/proc/self/fd");
	struct supervisor *s = supervise();
	struct trapped t[3];

	for (int i = 0; i < VICTIMS / 3; i++) {
		for (size_t j = 0; j < ARRAY_LEN(t); j++)
			t[j] = child(s, victim);
		trap_sleep_ms((unsigned int)(i * 7 % 29));
		for (size_t j = 0; j < ARRAY_LEN(t); j++) {
			assert_int_equal(kill(t[j].pid, SIGKILL), 0);
			(void)trap_wait(t[j].pid, 5);
		}
	}
	released = 1;
	assert_int_equal(supervisor_stop(s, 5000), 0);
	supervisor_free(s);
	assert_int_equal(settled, sent + undone);
	assert_int_equal(trap_count("/proc/self/fd"), fds);
}

/* ----------------------------------------------- death of the supervisor -- */

static int parked_for_ever(void *arg)
{
	(void)fork();
	(void)syscall(NR_WAIT, 0);
	/* The listener is gone a moment before we are. */
	for (;;)
		(void)pause();
	return 1;
}

/* A supervisor whose init is the first process of a pid namespace. */
static void be_supervisor(void)
{
	struct supervisor *s = supervise();
	int own_fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	struct trapped t;

	assert_int_equal(unshare(CLONE_NEWPID), 0);
	t = trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), parked_for_ever,
		      NULL);
	/* A process whose children go elsewhere can have no threads. */
	assert_int_equal(setns(own_fd, CLONE_NEWPID), 0);
	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	trap_go(&t);
	while (atomic_load(&waiting) < 2)
		trap_sleep_ms(1);
	(void)kill(getpid(), SIGKILL);
}

static void test_the_tree_dies_with_its_supervisor(void **state)
{
	struct pollfd p = { .events = POLLIN };
	int told[2];
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(told[0]);
		be_supervisor();
		_exit(1);
	}
	(void)close(told[1]);
	assert_int_equal(trap_wait(pid, 10), SIGKILL);
	/* The pipe ends when the last process of the tree is gone. */
	p.fd = told[0];
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(p.revents, POLLHUP);
	(void)close(told[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipelines),
		cmocka_unit_test(test_threads_that_open_files),
		cmocka_unit_test(test_held_calls_hold_up_nobody),
		cmocka_unit_test(test_exec_among_busy_threads),
		cmocka_unit_test(test_tasks_killed_at_any_time),
		cmocka_unit_test(test_the_tree_dies_with_its_supervisor),
	};

	own_session = getsid(0);
	return RUN_TESTS(tests);
}
