#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/fd.h"
#include "sandbox/askslot.h"

struct world {
	struct askslot *ours, *theirs;
	int fd;
	uint64_t number;
	atomic_bool is_over;
	bool is_answered;
	int error;
};

static int make(void **state)
{
	static struct world w;

	w = (struct world){ .fd = -1 };
	if (askslot_make(&w.ours, &w.fd) < 0)
		return -1;
	w.theirs = askslot_map(w.fd);
	*state = &w;
	return w.theirs ? 0 : -1;
}

static int end(void **state)
{
	struct world *w = *state;

	askslot_free(w->ours);
	askslot_free(w->theirs);
	return close(w->fd);
}

static void left_before_it_is_waited_for(void **state)
{
	struct world *w = *state;
	int error = -1;

	askslot_open(w->ours, 7);
	assert_true(askslot_answer(w->theirs, 7, EACCES));
	assert_false(askslot_answer(w->theirs, 7, 0));
	assert_true(askslot_wait(w->ours, 7, &error));
	assert_int_equal(error, EACCES);
	/* Once. */
	assert_false(askslot_wait(w->ours, 7, &error));
	assert_false(askslot_answer(w->theirs, 7, 0));
}

static void only_of_the_question_that_is_asked(void **state)
{
	const uint64_t far = UINT64_C(1) << 40;
	struct world *w = *state;
	int error = -1;

	assert_false(askslot_answer(w->theirs, 1, 0));
	askslot_open(w->ours, far + 1);
	assert_false(askslot_answer(w->theirs, 1, 0));
	assert_false(askslot_answer(w->theirs, far, 0));
	assert_true(askslot_answer(w->theirs, far + 1, 0));
	assert_false(askslot_wait(w->ours, 1, &error));
	assert_int_equal(error, -1);
}

static void *wait_for_it(void *data)
{
	struct world *w = data;

	w->is_answered = askslot_wait(w->ours, w->number, &w->error);
	atomic_store(&w->is_over, true);
	return NULL;
}

static void somebody_who_sleeps_is_woken(void **state)
{
	struct world *w = *state;
	pthread_t thread;

	for (w->number = 1; w->number <= 1000; w->number++) {
		askslot_open(w->ours, w->number);
		assert_int_equal(pthread_create(&thread, NULL, wait_for_it, w),
				 0);
		if (w->number % 2)
			(void)sched_yield();
		assert_true(
			askslot_answer(w->theirs, w->number, (int)w->number));
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(w->is_answered);
		assert_int_equal(w->error, w->number);
	}
}

static void nothing(int sig)
{
	(void)sig;
}

static void a_signal_ends_it_and_answers_are_messages_then(void **state)
{
	const struct sigaction act = { .sa_handler = nothing };
	struct world *w = *state;
	struct sigaction old;
	pthread_t thread;

	assert_int_equal(sigaction(SIGURG, &act, &old), 0);
	w->number = 3;
	askslot_open(w->ours, 3);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, w), 0);
	while (!atomic_load(&w->is_over)) {
		(void)pthread_kill(thread, SIGURG);
		(void)sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(w->is_answered);
	assert_false(askslot_answer(w->theirs, 3, 0));
	assert_int_equal(sigaction(SIGURG, &old, NULL), 0);
}

static void what_was_sent_is_counted(void **state)
{
	struct world *w = *state;

	askslot_count_sent(w->theirs, 1);
	askslot_count_sent(w->theirs, 1);
	askslot_count_sent(w->theirs, -1);
	assert_int_equal(askslot_sent(w->ours), 1);
}

static void nobody_cuts_it(void **state)
{
	struct world *w = *state;
	int pair[2];

	assert_int_equal(ftruncate(w->fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_null(askslot_map(-1));
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_null(askslot_map(pair[0]));
	(void)close(pair[0]);
	(void)close(pair[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(left_before_it_is_waited_for),
		TEST(only_of_the_question_that_is_asked),
		TEST(somebody_who_sleeps_is_woken),
		TEST(a_signal_ends_it_and_answers_are_messages_then),
		TEST(what_was_sent_is_counted),
		TEST(nobody_cuts_it),
	};

	return cmocka_run_group_tests_name("askslot", tests, NULL, NULL);
}
