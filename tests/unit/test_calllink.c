/*
 * Both ends of the link between a supervisor and an embedder's handlers, in
 * one process; and a supervisor whose embedder does not keep to the rules.
 */
#include "trap.h"

#include <pthread.h>
#include <stdatomic.h>

#include "embed/calls.h"
#include "sandbox/calllink.h"
#include "supervise/supervisor.h"

enum { NR_A = SYS_getpgid, CALLS = 100, CHILDREN = 8 };

static const int trapped_nrs[] = { NR_A };
static struct error err;

/* ---------------------------------------------------------------- world -- */

struct world {
	int socks[2]; /* the supervisor's, and the embedder's */
	int line;     /* of a call, where the test is the embedder */
	struct calllink *link;
	struct supervisor *supervisor;
	struct calls *calls;
	pthread_t thread;
	atomic_int killed;
};

static void note_kill(void *data, int sig)
{
	((struct world *)data)->killed = sig;
}

static struct outcome ask(struct call *c, void *data)
{
	return calllink_ask(((struct world *)data)->link, c, 0);
}

static void begin(struct world *w, uint32_t timeout_ms)
{
	const struct handler h = {
		"getpgid", NR_A, LANE_EXTERNAL, ask, w, NULL
	};
	const struct supervisor_options o = { .handlers = &h,
					      .n_handlers = 1,
					      .park_timeout_ms = timeout_ms };

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, w->socks),
		0);
	w->link = calllink_new(w->socks[0], note_kill, w);
	assert_non_null(w->link);
	assert_int_equal(supervisor_new(&o, &w->supervisor, &err), 0);
	assert_int_equal(supervisor_start(w->supervisor, &err), 0);
}

static void *serve(void *data)
{
	calls_serve(data, NULL);
	return NULL;
}

static void begin_calls(struct world *w, const struct sandlock_handler *h,
			unsigned int threads)
{
	w->calls = calls_new(w->socks[1], h, 1, threads);
	assert_non_null(w->calls);
	assert_int_equal(pthread_create(&w->thread, NULL, serve, w->calls), 0);
}

/* In the order of mediation_end. */
static void end(struct world *w)
{
	calllink_close(w->link);
	supervisor_free(w->supervisor);
	calllink_free(w->link);
	if (w->calls) {
		(void)pthread_join(w->thread, NULL);
		calls_put(w->calls);
	}
	(void)close(w->socks[0]);
	(void)close(w->socks[1]);
	if (w->line)
		(void)close(w->line);
}

static struct trapped start(struct world *w, int (*body)(void *), void *arg)
{
	struct trapped t =
		trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), body, arg);

	assert_int_equal(
		supervisor_add_listener(w->supervisor, t.listener_fd, &err), 0);
	trap_go(&t);
	return t;
}

/* ------------------------------------------------------------- many calls --
 */

/* Counts the caller's number up, and returns it. */
static int count(void *data, struct sandlock_call *c,
		 struct sandlock_action *ret)
{
	uint64_t addr = sandlock_call_get_info(c)->args[1];
	int n;

	if (sandlock_call_read(c, addr, &n, sizeof(n)) < 0)
		return -1;
	n++;
	if (sandlock_call_write(c, addr, &n, sizeof(n)) < 0)
		return -1;
	++*(atomic_int *)data;
	ret->kind = SANDLOCK_ACTION_RETURN;
	ret->value = n;
	return 0;
}

static int counting_child(void *arg)
{
	int n = 0;

	for (int i = 1; i <= CALLS; i++)
		MUST(syscall(NR_A, 0, &n) == i && n == i);
	return 0;
}

static void test_many_calls_at_once(void **state)
{
	atomic_int counted = 0;
	const struct sandlock_handler h = { .fn = count, .data = &counted };
	struct world w = { .killed = 0 };
	struct trapped t[CHILDREN];

	begin(&w, 0);
	begin_calls(&w, &h, 4);
	for (int i = 0; i < CHILDREN; i++)
		t[i] = start(&w, counting_child, NULL);
	for (int i = 0; i < CHILDREN; i++)
		assert_int_equal(trap_wait(t[i].pid, 30), 0);
	end(&w);
	assert_int_equal(counted, CALLS * CHILDREN);
}

/* ------------------------------------------------------------------ ends -- */

struct slow {
	atomic_bool has_begun, go;
	atomic_int read, answer;
	atomic_bool cancelled;
};

static int wait_for_go(void *data, struct sandlock_call *c,
		       struct sandlock_action *ret)
{
	struct slow *s = data;
	char byte;

	s->has_begun = true;
	while (!s->go)
		trap_sleep_ms(1);
	s->read = sandlock_call_read(c, sandlock_call_get_info(c)->args[1],
				     &byte, 1);
	s->cancelled = sandlock_call_is_cancelled(c);
	ret->kind = SANDLOCK_ACTION_CONTINUE;
	s->answer = sandlock_call_answer(c, ret);
	return 0;
}

static int eio_child(void *arg)
{
	char byte = 1;

	MUST(syscall(NR_A, 0, &byte) == -1 && errno == EIO);
	return 0;
}

static void test_over_while_a_handler_runs(void **state)
{
	struct slow slow = { .go = false };
	const struct sandlock_handler h = { .fn = wait_for_go, .data = &slow };
	struct world w = { .killed = 0 };
	struct trapped t;

	begin(&w, 0);
	begin_calls(&w, &h, 4);
	t = start(&w, eio_child, NULL);
	while (!slow.has_begun)
		trap_sleep_ms(1);
	/* The caller is not kept waiting for it. */
	calllink_close(w.link);
	assert_int_equal(trap_wait(t.pid, 30), 0);
	slow.go = true;
	end(&w);
	assert_int_equal(slow.read, -ESRCH);
	assert_true(slow.cancelled);
	assert_int_equal(slow.answer, -ECANCELED);
}

static void test_late(void **state)
{
	struct slow slow = { .go = false };
	const struct sandlock_handler h = { .fn = wait_for_go, .data = &slow };
	struct world w = { .killed = 0 };
	struct trapped t;

	begin(&w, 200);
	begin_calls(&w, &h, 4);
	t = start(&w, eio_child, NULL);
	assert_int_equal(trap_wait(t.pid, 30), 0);
	slow.go = true;
	end(&w);
	assert_int_equal(slow.read, -ESRCH);
	assert_true(slow.cancelled);
}

/* ------------------------------------------------------------- bad peers -- */

static int eperm_child(void *arg)
{
	MUST(syscall(NR_A, 0, 0) == -1 && errno == EPERM);
	return 0;
}

static void receive_made(struct world *w, struct call_msg *m)
{
	size_t n = 1;
	char byte;

	assert_int_equal(fd_recv(w->socks[1], &byte, 1, &w->line, &n), 1);
	assert_int_equal(call_msg_recv(w->line, m), 1);
	assert_int_equal(m->type, CALL_MADE);
	assert_int_equal(m->value, 0);
	assert_int_equal(m->len, sizeof(struct call_made));
}

static void send_answer(struct world *w, uint64_t number, unsigned int kind,
			int error, size_t len)
{
	const struct call_answer a = { .kind = (enum call_answer_kind)kind,
				       .error = error };
	struct call_msg m;

	call_msg_begin(&m, CALL_ANSWER, 0, number);
	memcpy(m.data, &a, sizeof(a));
	m.len = len;
	assert_int_equal(call_msg_send(w->line, &m), 0);
}

static void test_what_is_no_answer_denies(void **state)
{
	static const struct {
		unsigned int kind;
		int error;
		size_t len;
	} bad[] = {
		{ 77, 0, sizeof(struct call_answer) },
		{ CALL_FAIL, 0, sizeof(struct call_answer) },
		{ CALL_FAIL, 513, sizeof(struct call_answer) },
		{ CALL_FD, 0, sizeof(struct call_answer) }, /* without one */
		{ CALL_GO_ON, 0, sizeof(struct call_answer) - 1 },
		{ CALL_GO_ON, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct world w = { .killed = 0 };
		struct trapped t;
		struct call_msg m;

		begin(&w, 0);
		t = start(&w, eperm_child, NULL);
		receive_made(&w, &m);
		send_answer(&w, m.number, bad[i].kind, bad[i].error,
			    bad[i].len);
		assert_int_equal(trap_wait(t.pid, 30), 0);
		end(&w);
	}
}

static int request(struct world *w, enum call_msg_type type, uint64_t number,
		   uint64_t addr, uint64_t n)
{
	struct call_msg m;

	call_msg_begin(&m, type, 0, number);
	m.addr = addr;
	m.n = n;
	assert_int_equal(call_msg_send(w->line, &m), 0);
	assert_int_equal(call_msg_recv(w->line, &m), 1);
	assert_int_equal(m.type, CALL_REPLY);
	assert_int_equal(m.number, number);
	return m.value;
}

static void test_requests_that_make_no_sense(void **state)
{
	struct world w = { .killed = 0 };
	struct call_msg m;
	struct trapped t;

	begin(&w, 0);
	t = start(&w, eperm_child, NULL);
	receive_made(&w, &m);
	assert_int_equal(request(&w, CALL_READ, m.number, 0, UINT64_MAX),
			 -EMSGSIZE);
	assert_int_equal(request(&w, CALL_READ, m.number, UINT64_MAX, 8),
			 -EFAULT);
	assert_int_equal(request(&w, CALL_READ_STRING, m.number, 0, 0),
			 -ENAMETOOLONG);
	assert_int_equal(request(&w, CALL_INSTALL_FD, m.number, 0, 0), -EBADF);
	assert_int_equal(request(&w, CALL_MADE, m.number, 0, 0), -EPROTO);
	assert_int_equal(request(&w, 1000, m.number, 0, 0), -EPROTO);
	assert_int_equal(request(&w, CALL_LOOK, m.number, 0, 0), 0);
	send_answer(&w, m.number, CALL_KILL, 0, sizeof(struct call_answer));
	assert_int_equal(trap_wait(t.pid, 30), 0);
	end(&w);
}

static void test_half_a_message_ends_its_call(void **state)
{
	struct world w = { .killed = 0 };
	struct call_msg m;
	struct trapped t;

	begin(&w, 0);
	t = start(&w, eio_child, NULL);
	receive_made(&w, &m);
	assert_int_equal(send(w.line, "x", 1, 0), 1);
	assert_int_equal(trap_wait(t.pid, 30), 0);
	(void)close(w.line);
	/* And no other call. */
	t = start(&w, eperm_child, NULL);
	receive_made(&w, &m);
	send_answer(&w, m.number, CALL_FAIL, EPERM, sizeof(struct call_answer));
	assert_int_equal(trap_wait(t.pid, 30), 0);
	/* Nor does an answer that is another one's. */
	t = start(&w, eio_child, NULL);
	assert_int_equal(call_msg_recv(w.line, &m), 1);
	send_answer(&w, m.number + 1, CALL_GO_ON, 0,
		    sizeof(struct call_answer));
	assert_int_equal(trap_wait(t.pid, 30), 0);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_calls_at_once),
		cmocka_unit_test(test_over_while_a_handler_runs),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_what_is_no_answer_denies),
		cmocka_unit_test(test_requests_that_make_no_sense),
		cmocka_unit_test(test_half_a_message_ends_its_call),
	};

	return RUN_TESTS(tests);
}
