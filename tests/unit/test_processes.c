#include "trap.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "supervise/processes.h"
#include "supervise/supervisor.h"

enum { LIMIT = 5, SHORT_FORKS = TRAP_TSAN ? 500 : 10000 };

static const int trapped_nrs[] = {
#ifdef SYS_fork
	SYS_fork,
	SYS_vfork,
#endif
	SYS_clone,
	SYS_clone3,
};

static pid_t raw_fork(void)
{
#ifdef SYS_fork
	return (pid_t)syscall(SYS_fork);
#else
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

static struct error err;
static _Atomic pid_t session;
static atomic_int parked;

/* The sandbox of the test is a session. */
static int list_session(void *data, pid_t **ret, size_t *ret_n)
{
	auto_dir DIR *d = opendir("/proc");
	pid_t *v = calloc(4096, sizeof(*v));
	struct dirent *e;
	size_t n = 0;

	while ((e = readdir(d)) && n < 4096) {
		pid_t pid = (pid_t)atoi(e->d_name);

		if (pid > 0 && getsid(pid) == session)
			v[n++] = pid;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

static struct outcome hold_marked(struct call *c, void *data)
{
	/* A flag of clone that fork(2) of libc never has. */
	if (call_nr(c) == SYS_clone && (call_arg(c, 0) & CLONE_PARENT)) {
		(void)atomic_fetch_add(&parked, 1);
		trap_sleep_ms(20);
	}
	return OUTCOME_GO;
}

static void run(int (*body)(void *), int seconds)
{
	struct processes *p = processes_new(LIMIT, list_session, NULL, NULL);
	struct handler rows[PROCESSES_ROWS + 1];
	struct supervisor_options o = { .handlers = rows };
	struct supervisor *s = NULL;
	struct trapped t;

	assert_non_null(p);
	o.n_handlers = processes_rows(p, rows);
	rows[o.n_handlers++] =
		(struct handler){ "clone",     SYS_clone, LANE_EXTERNAL,
				  hold_marked, NULL,	  NULL };
	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	t = trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), body, NULL);
	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	session = t.pid;
	trap_go(&t);
	assert_int_equal(trap_wait(t.pid, seconds), 0);
	supervisor_free(s);
	processes_free(p);
}

/* ------------------------------------------------------------ in a child -- */

static pid_t kids[64];
static int n_kids;

static void fill(void)
{
	for (n_kids = 0; n_kids < 64; n_kids++) {
		kids[n_kids] = fork();
		if (kids[n_kids] == 0) {
			for (;;)
				(void)pause();
		}
		if (kids[n_kids] < 0) {
			MUST(errno == EAGAIN);
			return;
		}
	}
}

static void empty(bool reap)
{
	while (n_kids-- > 0) {
		MUST(kill(kids[n_kids], SIGKILL) == 0);
		MUST(waitid(P_PID, (id_t)kids[n_kids], NULL,
			    WEXITED | (reap ? 0 : WNOWAIT)) == 0);
	}
}

/*
 * Exactly LIMIT, ourselves included. Others may still be on their way out:
 * their fds are closed before they are zombies.
 */
static void must_be_exact(void)
{
	uint64_t end = trap_now_ms() + 30000;

	for (fill(); n_kids < LIMIT - 1 && trap_now_ms() < end; fill()) {
		empty(true);
		trap_sleep_ms(10);
	}
	MUST(n_kids == LIMIT - 1);
	empty(true);
}

static int denied(void *arg)
{
	MUST(setsid() > 0);
	must_be_exact();
	/* A zombie takes no place, and no wait is needed to give one back. */
	fill();
	empty(false);
	must_be_exact();
	/* The kernel's own failures cost nothing: no such combination. */
	for (int i = 0; i < 20; i++)
		MUST(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0) <
		     0);
	must_be_exact();
	MUST(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
	return 0;
}

static void test_the_limit_is_exact(void **state)
{
	run(denied, 10);
}

static int short_ones(void *arg)
{
	int status;

	MUST(setsid() > 0);
	for (int i = 0; i < SHORT_FORKS; i++) {
		pid_t pid = i % 2 ? vfork() : raw_fork();

		MUST(pid >= 0);
		if (pid == 0)
			_exit(0);
		MUST(waitpid(pid, &status, 0) == pid);
	}
	must_be_exact();
	return 0;
}

static void test_short_forks_lose_no_place(void **state)
{
	run(short_ones, 30);
}

static int double_forks(void *arg)
{
	char byte;
	int p[2];

	MUST(setsid() > 0);
	MUST(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
	for (int i = 0; i < 200; i++) {
		pid_t pid;

		MUST(pipe(p) == 0);
		pid = fork();
		MUST(pid >= 0);
		if (pid == 0) {
			pid = fork();
			_exit(pid < 0);
		}
		(void)close(p[1]);
		/* The end of the pipe is the end of both. */
		MUST(read(p[0], &byte, 1) == 0);
		(void)close(p[0]);
	}
	MUST(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
	must_be_exact();
	return 0;
}

static void test_double_forks_and_no_wait(void **state)
{
	run(double_forks, 20);
}

static int killed_while_parked(void *arg)
{
	MUST(setsid() > 0);
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0) {
			(void)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0,
				      0, 0);
			_exit(0);
		}
		trap_sleep_ms((unsigned int)i % 30);
		MUST(kill(pid, SIGKILL) == 0);
		MUST(waitpid(pid, NULL, 0) == pid);
		/* It may have had its child, which then is ours. */
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
	must_be_exact();
	return 0;
}

static void test_forks_killed_while_parked(void **state)
{
	parked = 0;
	run(killed_while_parked, 20);
	assert_true(parked > 0);
}

static atomic_int made;

static void *fork_until_full(void *arg)
{
	for (;;) {
		pid_t pid = raw_fork();

		if (pid < 0)
			return NULL;
		if (pid == 0) {
			(void)signal(SIGTERM, SIG_DFL);
			for (;;)
				(void)pause();
		}
		(void)atomic_fetch_add(&made, 1);
	}
}

static int at_once(void *arg)
{
	pthread_t t[8];

	MUST(setsid() > 0);
	for (size_t j = 0; j < ARRAY_LEN(t); j++)
		MUST(pthread_create(&t[j], NULL, fork_until_full, NULL) == 0);
	for (size_t j = 0; j < ARRAY_LEN(t); j++)
		MUST(pthread_join(t[j], NULL) == 0);
	MUST(atomic_load(&made) == LIMIT - 1);
	MUST(signal(SIGTERM, SIG_IGN) != SIG_ERR && kill(0, SIGTERM) == 0);
	return 0;
}

static void test_forks_at_once(void **state)
{
	for (int i = 0; i < 5; i++)
		run(at_once, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_limit_is_exact),
		cmocka_unit_test(test_short_forks_lose_no_place),
		cmocka_unit_test(test_double_forks_and_no_wait),
		cmocka_unit_test(test_forks_killed_while_parked),
		cmocka_unit_test(test_forks_at_once),
	};

	return RUN_TESTS(tests);
}
