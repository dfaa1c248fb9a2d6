/*
 * Handlers of system calls, from a host with many threads, and at the ends of
 * their lives; what they can do is in handlers.bats.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "capi_world.h"

enum { BIG = 100 * 1000 };

struct state {
	int (*fn)(struct state *t, struct sandlock_call *c,
		  struct sandlock_action *ret);
	atomic_int calls, running, most, freed, failed;
	_Atomic(struct sandlock_call *) kept;
	struct sandlock_sandbox *sandbox;
	int error;
};

static int handle(void *data, struct sandlock_call *c,
		  struct sandlock_action *ret)
{
	struct state *t = data;
	int running = ++t->running, r;

	if (t->freed)
		t->failed++;
	for (int most = t->most; running > most;)
		if (atomic_compare_exchange_strong(&t->most, &most, running))
			break;
	t->calls++;
	r = t->fn(t, c, ret);
	t->running--;
	return r;
}

static void count_free(void *data)
{
	((struct state *)data)->freed++;
}

static struct sandlock_handler handler_of(struct state *t, const char *name)
{
	return (struct sandlock_handler){
		.syscall = name, .fn = handle, .data = t, .free_fn = count_free
	};
}

static struct sandlock_sandbox *make_handled(const struct world *w,
					     struct state *t, const char *name)
{
	struct sandlock_sandbox *s = make(w, w->dir, NULL);
	struct sandlock_handler h = handler_of(t, name);

	OK(sandlock_sandbox_add_handler(s, &h, &err));
	return s;
}

/* Runs a script, and returns its output. */
static const char *run(struct sandlock_sandbox *s, const char *script)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	struct sandlock_launch l = captured(argv);
	const struct sandlock_report *r;

	OK(sandlock_sandbox_run(s, &l, &r, &err));
	return r->out_data;
}

static int go_on(struct state *t, struct sandlock_call *c,
		 struct sandlock_action *ret)
{
	ret->kind = SANDLOCK_ACTION_CONTINUE;
	return 0;
}

static void nap_ms(long ms)
{
	const struct timespec ts = { .tv_nsec = ms * 1000000 };

	(void)nanosleep(&ts, NULL);
}

/* -------------------------------------------------------------- threads -- */

static int nap(struct state *t, struct sandlock_call *c,
	       struct sandlock_action *ret)
{
	nap_ms(5);
	return go_on(t, c, ret);
}

static const char many[] =
	"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do uname -s & done; wait";

static void test_no_more_threads_than_allowed(void **state)
{
	struct state t = { .fn = nap };
	struct sandlock_sandbox *s = make_handled(*state, &t, "uname");
	const char *out;

	OK(sandlock_sandbox_limit_handlers(s, 2, 0, &err));
	out = run(s, many);
	assert_int_equal(strlen(out), 12 * strlen("Linux\n"));
	assert_int_equal(t.calls, 12);
	assert_true(t.most <= 2);
	sandlock_sandbox_free(s);
	assert_int_equal(t.freed, 1);
	assert_int_equal(t.failed, 0);
}

static void *answer(void *data)
{
	const struct sandlock_action a = { .kind = SANDLOCK_ACTION_ERRNO,
					   .error = EACCES };
	struct sandlock_call *c = data;
	char text[8] = "";

	/* It is the caller's while it waits. */
	if (sandlock_call_is_cancelled(c) ||
	    sandlock_call_read(c, sandlock_call_get_info(c)->args[0], text,
			       sizeof(text)) < 0 ||
	    sandlock_call_answer(c, &a) < 0)
		return c;
	if (sandlock_call_answer(c, &a) != -EALREADY ||
	    sandlock_call_read(c, sandlock_call_get_info(c)->args[0], text,
			       sizeof(text)) != -ESRCH)
		return c;
	sandlock_call_free(c);
	return NULL;
}

/* While the handler still runs: so the call is another thread's. */
static int answer_elsewhere(struct state *t, struct sandlock_call *c,
			    struct sandlock_action *ret)
{
	pthread_t thread;
	void *wrong = NULL;

	if (pthread_create(&thread, NULL, answer, c))
		return -1;
	(void)pthread_join(thread, &wrong);
	t->failed += wrong != NULL;
	return SANDLOCK_HANDLER_LATER;
}

static void test_other_threads_answer(void **state)
{
	struct state t = { .fn = answer_elsewhere };
	struct sandlock_sandbox *s = make_handled(*state, &t, "uname");

	assert_string_equal(run(s, many), "");
	assert_int_equal(t.calls, 12);
	assert_int_equal(t.failed, 0);
	sandlock_sandbox_free(s);
}

/* ----------------------------------------------------------------- ends -- */

static int keep(struct state *t, struct sandlock_call *c,
		struct sandlock_action *ret)
{
	t->kept = c;
	return SANDLOCK_HANDLER_LATER;
}

static void test_a_kept_call_outlives_all(void **state)
{
	const struct sandlock_action a = { .kind = SANDLOCK_ACTION_CONTINUE };
	const char *const argv[] = { "uname", NULL };
	struct sandlock_launch l = captured(argv);
	const struct sandlock_report *r;
	struct state t = { .fn = keep };
	struct sandlock_sandbox *s = make_handled(*state, &t, "uname");
	char text[8] = "";

	OK(sandlock_sandbox_create(s, &l, &err));
	OK(sandlock_sandbox_start(s, &err));
	while (!t.kept)
		nap_ms(1);
	assert_false(sandlock_call_is_cancelled(t.kept));
	OK(sandlock_sandbox_kill(s, &err));
	OK(sandlock_sandbox_wait(s, -1, &r, &err));
	sandlock_sandbox_free(s);
	assert_int_equal(t.freed, 1);
	assert_true(sandlock_call_is_cancelled(t.kept));
	assert_int_equal(sandlock_call_read(t.kept, 4096, text, 8), -ESRCH);
	assert_int_equal(sandlock_call_write(t.kept, 4096, text, 8), -ESRCH);
	assert_int_equal(sandlock_call_install_fd(t.kept, 0, false), -ESRCH);
	assert_int_equal(sandlock_call_get_fd(t.kept, 0), -ESRCH);
	assert_int_equal(sandlock_call_open_process(t.kept), -ESRCH);
	assert_int_equal(sandlock_call_answer(t.kept, &a), -ECANCELED);
	sandlock_call_free(t.kept);
}

static void test_handlers_serve_all_runs(void **state)
{
	struct state t = { .fn = go_on };
	struct sandlock_sandbox *s = make_handled(*state, &t, "uname");
	struct sandlock_handler h = handler_of(&t, "uname");

	assert_string_equal(run(s, "uname -s"), "Linux\n");
	assert_string_equal(run(s, "uname -s; uname -s"), "Linux\nLinux\n");
	assert_int_equal(t.calls, 3);
	/* And nothing is added any more. */
	assert_int_equal(sandlock_sandbox_add_handler(s, &h, &err), -EBUSY);
	assert_int_equal(err.kind, SANDLOCK_ERR_STATE);
	assert_int_equal(t.freed, 1);
	assert_true(sandlock_sandbox_limit_handlers(s, 1, 0, &err) < 0);
	sandlock_sandbox_free(s);
	assert_int_equal(t.freed, 2);
}

static void test_one_that_never_ran(void **state)
{
	struct state t = { .fn = go_on };
	struct sandlock_sandbox *s = make_handled(*state, &t, "uname");
	struct sandlock_handler h = handler_of(&t, "uname");
	int fd = dup(0);

	/* No fd of the host's is taken for one of the sandbox. */
	(void)close(fd);
	for (int i = 1; i < 256; i++)
		OK(sandlock_sandbox_add_handler(s, &h, &err));
	assert_int_equal(sandlock_sandbox_add_handler(s, &h, &err), -E2BIG);
	assert_int_equal(t.freed, 1);
	sandlock_sandbox_free(s);
	assert_int_equal(t.freed, 257);
	assert_int_equal(dup(0), fd);
	(void)close(fd);
}

static void test_forked_child_frees_its_copy(void **state)
{
	struct state t = { .fn = go_on };
	struct sandlock_sandbox *s;
	const char *const argv[] = { "sleep", "1000", NULL };
	struct sandlock_launch l = captured(argv);
	const struct sandlock_report *r;
	int status;
	pid_t pid;

	/* What other threads hold looks lost in a child: its status is 9. */
	if (is_under_valgrind())
		skip();
	s = make_handled(*state, &t, "uname");
	OK(sandlock_sandbox_create(s, &l, &err));
	OK(sandlock_sandbox_start(s, &err));
	pid = fork();
	if (pid == 0) {
		sandlock_sandbox_free(s);
		_exit(t.freed);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	OK(sandlock_sandbox_kill(s, &err));
	OK(sandlock_sandbox_wait(s, -1, &r, &err));
	sandlock_sandbox_free(s);
	assert_int_equal(t.freed, 1);
}

/* -------------------------------------------------------------- memory -- */

/* write(1, zeroes, BIG): reads them, puts something else there, and reads
 * again; then as many bytes are written. */
static int exchange(struct state *t, struct sandlock_call *c,
		    struct sandlock_action *ret)
{
	const struct sandlock_call_info *i = sandlock_call_get_info(c);
	auto_free char *text = malloc(BIG), *back = malloc(BIG);

	ret->kind = SANDLOCK_ACTION_CONTINUE;
	if (i->args[2] != BIG)
		return 0;
	memset(back, 1, BIG);
	for (int at = 0; at < BIG; at++)
		text[at] = (char)('a' + at % 23);
	t->error = sandlock_call_read(c, i->args[1], back, BIG);
	for (int at = 0; at < BIG; at++)
		t->failed += back[at] != 0;
	if (t->error == 0)
		t->error = sandlock_call_write(c, i->args[1], text, BIG);
	if (t->error == 0)
		t->error = sandlock_call_read(c, i->args[1], back, BIG);
	t->failed += memcmp(text, back, BIG) != 0;
	return 0;
}

static void test_more_memory_than_a_message_has(void **state)
{
	struct state t = { .fn = exchange };
	struct sandlock_sandbox *s = make_handled(*state, &t, "write");
	const char *out = run(s, "dd if=/dev/zero bs=100000 count=1 2>&-");

	assert_int_equal(t.error, 0);
	assert_int_equal(t.failed, 0);
	assert_int_equal(strlen(out), BIG);
	assert_memory_equal(out, "abcdefghijklmnopqrstuvwabc", 26);
	sandlock_sandbox_free(s);
}

/* ------------------------------------------------------ its own sandbox -- */

#define WAITS(call)                                                \
	do {                                                       \
		struct sandlock_error e = { 0 };                   \
                                                                   \
		if ((call) == 0 || e.kind != SANDLOCK_ERR_STATE || \
		    e.sys != EDEADLK)                              \
			t->failed++;                               \
	} while (0)

static void wait_for_oneself(struct state *t)
{
	struct sandlock_sandbox *s = t->sandbox;
	const char *const argv[] = { "true", NULL };
	struct sandlock_launch l = { .argv = argv };
	const struct sandlock_report *r;

	WAITS(sandlock_sandbox_wait(s, -1, &r, &e));
	WAITS(sandlock_sandbox_run(s, &l, &r, &e));
	WAITS(sandlock_sandbox_create(s, &l, &e));
	WAITS(sandlock_sandbox_start(s, &e));
	WAITS(sandlock_sandbox_commit(s, NULL, &e));
	WAITS(sandlock_sandbox_abort(s, &e));
}

static int wait_in_handler(struct state *t, struct sandlock_call *c,
			   struct sandlock_action *ret)
{
	wait_for_oneself(t);
	return go_on(t, c, ret);
}

static int wait_in_policy(void *data, const struct sandlock_event *e,
			  struct sandlock_context *ctx)
{
	struct state *t = data;

	t->calls++;
	wait_for_oneself(t);
	return SANDLOCK_VERDICT_ALLOW;
}

static void test_who_is_called_cannot_wait_for_it(void **state)
{
	struct state t = { .fn = wait_in_handler };
	struct sandlock_sandbox *s = make_handled(*state, &t, "uname");

	t.sandbox = s;
	OK(sandlock_sandbox_set_policy(s, wait_in_policy, &t, NULL, &err));
	assert_string_equal(run(s, "uname -s"), "Linux\n");
	assert_true(t.calls >= 2);
	assert_int_equal(t.failed, 0);
	sandlock_sandbox_free(s);
}

static void test_names_and_numbers(void **state)
{
	char *name = sandlock_syscall_name(SYS_openat);

	assert_string_equal(name, "openat");
	free(name);
	assert_int_equal(sandlock_syscall_number("openat"), SYS_openat);
	assert_int_equal(sandlock_syscall_number("opnat"), -1);
	assert_int_equal(sandlock_syscall_number("socketcall"), -1);
	assert_null(sandlock_syscall_name(-1));
	assert_null(sandlock_syscall_name(100000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_no_more_threads_than_allowed, begin, end),
		cmocka_unit_test_setup_teardown(test_other_threads_answer,
						begin, end),
		cmocka_unit_test_setup_teardown(test_a_kept_call_outlives_all,
						begin, end),
		cmocka_unit_test_setup_teardown(test_handlers_serve_all_runs,
						begin, end),
		cmocka_unit_test_setup_teardown(test_one_that_never_ran, begin,
						end),
		cmocka_unit_test_setup_teardown(
			test_forked_child_frees_its_copy, begin, end),
		cmocka_unit_test_setup_teardown(
			test_more_memory_than_a_message_has, begin, end),
		cmocka_unit_test_setup_teardown(
			test_who_is_called_cannot_wait_for_it, begin, end),
		cmocka_unit_test(test_names_and_numbers),
	};

	return RUN_TESTS(tests);
}
