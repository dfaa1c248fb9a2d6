#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "supervise/gate.h"

enum { READERS = 6, EXECS = 200 };

static struct gate gate = GATE_INIT;
static atomic_bool stop;
static atomic_int inside, broken;
static atomic_ulong writes;
static int contents[2]; /* equal whenever nobody holds the exclusive side */

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void *write_for_ever(void *arg)
{
	while (!atomic_load(&stop)) {
		gate_enter(&gate);
		(void)atomic_fetch_add(&inside, 1);
		if (contents[0] != contents[1])
			(void)atomic_fetch_add(&broken, 1);
		(void)atomic_fetch_add(&writes, 1);
		(void)atomic_fetch_sub(&inside, 1);
		gate_leave(&gate);
	}
	return NULL;
}

static void test_exec_is_alone_and_never_starves(void **state)
{
	pthread_t t[READERS];
	uint64_t began;

	atomic_store(&stop, false);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(
			pthread_create(&t[i], NULL, write_for_ever, NULL), 0);
	while (atomic_load(&writes) == 0)
		(void)sched_yield();
	began = now_ns();
	for (int i = 0; i < EXECS; i++) {
		assert_int_equal(gate_close(&gate, 0), 0);
		assert_int_equal(atomic_load(&inside), 0);
		contents[0] = i;
		contents[1] = i;
		gate_open(&gate);
	}
	/* On two busy CPUs a few slices of the others at the most. */
	assert_true(now_ns() - began < 5 * UINT64_C(1000000000));
	atomic_store(&stop, true);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	assert_int_equal(atomic_load(&broken), 0);
	assert_true(atomic_load(&writes) > 0);
}

static void test_the_wait_of_an_exec_ends(void **state)
{
	uint64_t began = now_ns(), took;

	gate_enter(&gate);
	assert_int_equal(gate_close(&gate, began + 50 * 1000000), -ETIMEDOUT);
	took = now_ns() - began;
	assert_true(took >= 50 * 1000000);
	/* It waits no more, so that others get in. */
	gate_enter(&gate);
	gate_leave(&gate);
	gate_leave(&gate);
	assert_int_equal(gate_close(&gate, 1), 0);
	gate_open(&gate);
}

static void *enter_once(void *arg)
{
	gate_enter(&gate);
	atomic_store((atomic_bool *)arg, true);
	gate_leave(&gate);
	return NULL;
}

static void *open_it(void *arg)
{
	gate_open(&gate);
	return NULL;
}

static void test_another_thread_may_open(void **state)
{
	struct timespec nap = { .tv_nsec = 20 * 1000000 };
	atomic_bool entered = false;
	pthread_t a, b;

	assert_int_equal(gate_close(&gate, 0), 0);
	assert_int_equal(pthread_create(&a, NULL, enter_once, &entered), 0);
	(void)nanosleep(&nap, NULL);
	assert_false(atomic_load(&entered));
	assert_int_equal(pthread_create(&b, NULL, open_it, NULL), 0);
	assert_int_equal(pthread_join(a, NULL), 0);
	assert_int_equal(pthread_join(b, NULL), 0);
	assert_true(atomic_load(&entered));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exec_is_alone_and_never_starves),
		cmocka_unit_test(test_the_wait_of_an_exec_ends),
		cmocka_unit_test(test_another_thread_may_open),
	};

	return RUN_TESTS(tests);
}
