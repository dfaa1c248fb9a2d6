/* Calls that wait for a decision without a thread. */
#include "trap.h"

#include <pthread.h>
#include <stdatomic.h>

#include "supervise/supervisor.h"

enum { NR_A = SYS_getpgid };

static const int trapped_nrs[] = { NR_A };

static struct error err;

/* What a held call leaves behind; @call is NULL once it is over. */
struct waiter {
	pthread_mutex_t lock;
	struct call *call;
	atomic_int decision, runs, freed;
	bool resume_at_once;
	uint64_t deadline_ms;
};

static void forget(void *data)
{
	struct waiter *w = data;

	(void)pthread_mutex_lock(&w->lock);
	w->call = NULL;
	(void)pthread_mutex_unlock(&w->lock);
	(void)atomic_fetch_add(&w->freed, 1);
}

static struct outcome wait_for_decision(struct call *c, void *data)
{
	struct waiter *w = data;

	(void)atomic_fetch_add(&w->runs, 1);
	if (atomic_load(&w->decision))
		return OUTCOME_VALUE(w->decision);
	if (!call_kept(c)) {
		call_keep(c, w, forget);
		(void)pthread_mutex_lock(&w->lock);
		w->call = c;
		(void)pthread_mutex_unlock(&w->lock);
	}
	if (w->deadline_ms)
		call_set_deadline(c, (trap_now_ms() + w->deadline_ms) * 1000000,
				  EPERM);
	if (w->resume_at_once) {
		w->decision = 7;
		call_resume(c);
	}
	return OUTCOME_WAIT;
}

static struct supervisor *supervise(struct waiter *w, enum lane lane)
{
	const struct handler h = { "getpgid",	      NR_A, lane,
				   wait_for_decision, w,    NULL };
	const struct supervisor_options o = { .handlers = &h, .n_handlers = 1 };
	struct supervisor *s = NULL;

	(void)pthread_mutex_init(&w->lock, NULL);
	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	return s;
}

static struct trapped start(struct supervisor *s, int (*body)(void *))
{
	struct trapped t =
		trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), body, NULL);

	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	trap_go(&t);
	return t;
}

static int seven_child(void *arg)
{
	MUST(syscall(NR_A, 0) == 7);
	return 0;
}

static int eperm_child(void *arg)
{
	MUST(syscall(NR_A, 0) == -1 && errno == EPERM);
	return 0;
}

static int eio_child(void *arg)
{
	MUST(syscall(NR_A, 0) == -1 && errno == EIO);
	return 0;
}

static void wait_until_held(struct waiter *w)
{
	for (int i = 0; i < 30000 && !w->runs; i++)
		trap_sleep_ms(1);
	assert_int_equal(w->runs, 1);
	trap_sleep_ms(30);
}

static void test_resumed_by_another_thread(void **state)
{
	for (enum lane lane = LANE_INLINE; lane <= LANE_EXTERNAL; lane++) {
		struct waiter w = { .runs = 0 };
		struct supervisor *s = supervise(&w, lane);
		struct trapped t = start(s, seven_child);

		wait_until_held(&w);
		w.decision = 7;
		(void)pthread_mutex_lock(&w.lock);
		call_resume(w.call);
		(void)pthread_mutex_unlock(&w.lock);
		assert_int_equal(trap_wait(t.pid, 30), 0);
		supervisor_free(s);
		assert_int_equal(w.runs, 2);
		assert_int_equal(w.freed, 1);
	}
}

static void test_resumed_before_it_is_held(void **state)
{
	for (enum lane lane = LANE_INLINE; lane <= LANE_EXTERNAL; lane++) {
		struct waiter w = { .resume_at_once = true };
		struct supervisor *s = supervise(&w, lane);
		struct trapped t = start(s, seven_child);

		assert_int_equal(trap_wait(t.pid, 30), 0);
		supervisor_free(s);
		assert_int_equal(w.runs, 2);
		assert_int_equal(w.freed, 1);
	}
}

static void test_deadline_has_its_errno(void **state)
{
	struct waiter w = { .deadline_ms = 100 };
	struct supervisor *s = supervise(&w, LANE_INLINE);
	struct trapped t = start(s, eperm_child);

	assert_int_equal(trap_wait(t.pid, 30), 0);
	supervisor_free(s);
	assert_int_equal(w.runs, 1);
	assert_int_equal(w.freed, 1);
}

static void test_stop_and_death_let_go(void **state)
{
	struct waiter w = { .runs = 0 };
	struct supervisor *s = supervise(&w, LANE_LOCAL);
	struct trapped t = start(s, eio_child);

	wait_until_held(&w);
	assert_int_equal(supervisor_stop(s, 30000), 0);
	assert_int_equal(trap_wait(t.pid, 30), 0);
	supervisor_free(s);
	assert_int_equal(w.freed, 1);

	w = (struct waiter){ .runs = 0 };
	s = supervise(&w, LANE_LOCAL);
	t = start(s, eio_child);
	wait_until_held(&w);
	assert_int_equal(kill(t.pid, SIGKILL), 0);
	(void)trap_wait(t.pid, 30);
	for (int i = 0; i < 30000 && !w.freed; i++)
		trap_sleep_ms(1);
	assert_int_equal(w.freed, 1);
	supervisor_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resumed_by_another_thread),
		cmocka_unit_test(test_resumed_before_it_is_held),
		cmocka_unit_test(test_deadline_has_its_errno),
		cmocka_unit_test(test_stop_and_death_let_go),
	};

	return RUN_TESTS(tests);
}
