#include "unit.h"

#include <signal.h>

#include "kernel/interrupt.h"

static volatile sig_atomic_t handled;

static void handle(int sig)
{
	handled = sig;
}

/* As its users do: with what they wait for blocked. */
static int set_up(void **state)
{
	sigset_t all;

	(void)state;
	handled = 0;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	(void)signal(SIGTERM, handle);
	(void)signal(SIGHUP, SIG_IGN);
	/* A shell ignores these for what it starts in the background. */
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGQUIT, SIG_DFL);
	return 0;
}

static void unblock(void)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_UNBLOCK, &all, NULL);
}

static void test_the_first_is_kept_and_raised_again(void **state)
{
	struct interrupt i;

	(void)state;
	assert_int_equal(interrupt_open(&i), 0);
	assert_int_equal(interrupt_came(&i), 0);
	(void)raise(SIGTERM);
	assert_int_equal(interrupt_take(&i), SIGTERM);
	assert_int_equal(interrupt_take(&i), 0);
	(void)raise(SIGINT);
	assert_int_equal(interrupt_take(&i), SIGINT);
	assert_int_equal(interrupt_came(&i), SIGTERM);
	interrupt_close(&i);
	assert_int_equal(handled, 0);
	unblock();
	assert_int_equal(handled, SIGTERM);
}

static void test_what_is_ignored_or_no_end_is_left(void **state)
{
	struct interrupt i;

	(void)state;
	assert_int_equal(interrupt_open(&i), 0);
	(void)raise(SIGHUP);
	(void)raise(SIGWINCH);
	assert_int_equal(interrupt_came(&i), 0);
	interrupt_close(&i);
	unblock();
}

static void test_waiting_ends_with_either(void **state)
{
	struct interrupt i;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(interrupt_wait(NULL, fds[0]), 0);
	assert_int_equal(interrupt_open(&i), 0);
	(void)raise(SIGTERM);
	assert_int_equal(interrupt_wait(&i, fds[0]), SIGTERM);
	interrupt_close(&i);
	unblock();
	assert_int_equal(set_up(NULL), 0);
	assert_int_equal(interrupt_open(&i), 0);
	assert_int_equal(write(fds[1], "", 1), 1);
	assert_int_equal(interrupt_wait(&i, fds[0]), 0);
	(void)close(fds[1]);
	interrupt_close(&i);
	(void)close(fds[0]);
	unblock();
	assert_int_equal(handled, 0);
}

static void test_none_is_none(void **state)
{
	struct interrupt none = INTERRUPT_INIT;

	(void)state;
	assert_int_equal(interrupt_fd(NULL), -1);
	assert_int_equal(interrupt_came(NULL), 0);
	assert_int_equal(interrupt_take(&none), 0);
	interrupt_close(NULL);
	interrupt_close(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_the_first_is_kept_and_raised_again,
				       set_up),
		cmocka_unit_test_setup(test_what_is_ignored_or_no_end_is_left,
				       set_up),
		cmocka_unit_test_setup(test_waiting_ends_with_either, set_up),
		cmocka_unit_test(test_none_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
