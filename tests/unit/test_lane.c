#include "trap.h"

#include <stdatomic.h>

#include "supervise/supervisor.h"

enum { NR = SYS_getpgid, NR_QUICK = SYS_getsid };

static const int trapped_nrs[] = { NR, NR_QUICK };

static struct error err;

static struct supervisor *supervise(const struct handler *h, size_t n,
				    unsigned int local, unsigned int external)
{
	const struct supervisor_options o = { .handlers = h,
					      .n_handlers = n,
					      .local_workers = local,
					      .external_workers = external };
	struct supervisor *s = NULL;

	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	return s;
}

static struct trapped child(struct supervisor *s, int (*body)(void *),
			    void *arg)
{
	struct trapped t =
		trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), body, arg);

	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	trap_go(&t);
	return t;
}

/* ------------------------------------------------------------ full lanes -- */

enum { TASKS = 500 };

static atomic_int inside, most, runs;

static struct outcome count_inside(struct call *c, void *data)
{
	int now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);

	while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
		;
	trap_sleep_ms(2);
	(void)atomic_fetch_add(&runs, 1);
	(void)atomic_fetch_sub(&inside, 1);
	return OUTCOME_VALUE(7);
}

static int many_child(void *arg)
{
	int status;

	for (int i = 0; i < TASKS; i++) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0)
			_exit(syscall(NR, 0) == 7 ? 0 : 1);
	}
	for (int i = 0; i < TASKS; i++)
		MUST(wait(&status) > 0 && status == 0);
	return 0;
}

static void check_full_lane(enum lane lane)
{
	const struct handler h[] = {
		{ "getpgid", NR, lane, count_inside, NULL, NULL },
	};
	struct supervisor *s = supervise(h, 1, 8, 8);
	struct trapped t;

	inside = most = runs = 0;
	t = child(s, many_child, NULL);
	assert_int_equal(trap_wait(t.pid, 15), 0);
	supervisor_free(s);
	assert_int_equal(runs, TASKS);
	assert_true(most > 1);
	/* In LANE_LOCAL the receiver runs one beside the slots. */
	assert_true(most <= (lane == LANE_LOCAL ? 9 : 8));
}

static void test_a_full_lane_queues(void **state)
{
	check_full_lane(LANE_EXTERNAL);
	check_full_lane(LANE_LOCAL);
}

/* ----------------------------------------------------------------- order -- */

enum { IN_LINE = 12 };

static atomic_int gate_is_open, served, order[IN_LINE + 4];

static struct outcome note_order(struct call *c, void *data)
{
	int at = atomic_fetch_add(&served, 1);

	atomic_store(&order[at], (int)call_arg(c, 1));
	while (!atomic_load(&gate_is_open))
		trap_sleep_ms(1);
	return OUTCOME_VALUE(7);
}

static int call_with(void *arg)
{
	MUST(syscall(NR, 0, (long)(intptr_t)arg) == 7);
	return 0;
}

static const struct handler order_rows[] = {
	{ "getpgid", NR, LANE_EXTERNAL, note_order, NULL, NULL },
};

/* The one worker is taken. */
static struct supervisor *busy_lane(struct trapped *ret)
{
	struct supervisor *s = supervise(order_rows, 1, 0, 1);

	gate_is_open = served = 0;
	*ret = child(s, call_with, NULL);
	while (!atomic_load(&served))
		trap_sleep_ms(1);
	return s;
}

static void test_first_come_first_served(void **state)
{
	struct trapped first, t[IN_LINE];
	struct supervisor *s = busy_lane(&first);

	for (int i = 0; i < IN_LINE; i++) {
		t[i] = child(s, call_with, (void *)(intptr_t)(i + 1));
		trap_sleep_ms(TRAP_TSAN ? 100 : 30);
	}
	gate_is_open = 1;
	assert_int_equal(trap_wait(first.pid, 5), 0);
	for (int i = 0; i < IN_LINE; i++)
		assert_int_equal(trap_wait(t[i].pid, 5), 0);
	for (int i = 0; i <= IN_LINE; i++)
		assert_int_equal(order[i], i);
	supervisor_free(s);
}

static void on_alarm(int sig)
{
}

static int interrupted_in_line(void *arg)
{
	const struct sigaction sa = { .sa_handler = on_alarm };

	MUST(sigaction(SIGALRM, &sa, NULL) == 0);
	MUST(ualarm(30000, 0) == 0);
	MUST(syscall(NR, 0, 1) == -1 && errno == EINTR);
	return 0;
}

static void test_who_left_the_line_is_not_served(void **state)
{
	struct trapped first, killed, last;
	struct supervisor *s = busy_lane(&first);
	struct trapped t = child(s, interrupted_in_line, NULL);

	killed = child(s, call_with, (void *)2);
	assert_int_equal(trap_wait(t.pid, 5), 0);
	trap_sleep_ms(50);
	assert_int_equal(kill(killed.pid, SIGKILL), 0);
	(void)trap_wait(killed.pid, 5);
	trap_sleep_ms(60);
	last = child(s, call_with, (void *)3);
	trap_sleep_ms(60);
	gate_is_open = 1;
	assert_int_equal(trap_wait(first.pid, 5), 0);
	assert_int_equal(trap_wait(last.pid, 5), 0);
	supervisor_free(s);
	assert_int_equal(served, 2);
	assert_int_equal(order[1], 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_full_lane_queues),
		cmocka_unit_test(test_first_come_first_served),
		cmocka_unit_test(test_who_left_the_line_is_not_served),
	};

	return RUN_TESTS(tests);
}
