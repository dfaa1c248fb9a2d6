#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "supervise/approvals.h"

static struct error err;

static uint64_t in_ms(uint64_t ms)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec +
	       ms * 1000000;
}

static char host_1[] = "192.0.2.1", host_2[] = "192.0.2.2";

static struct event connect_to(char *host)
{
	return (struct event){ .syscall = "connect",
			       .category = EVENT_NETWORK,
			       .host = host,
			       .port = 443,
			       .protocol = "tcp" };
}

static void count_wake(void *data)
{
	(void)atomic_fetch_add((atomic_int *)data, 1);
}

/* The digests of the open ones, by number. */
struct seen {
	uint64_t ids[128];
	char digests[128][EVENT_DIGEST_LEN + 1];
	unsigned int counts[128];
	size_t n;
};

static bool note(void *data, const struct approval_info *i)
{
	struct seen *s = data;

	s->ids[s->n] = i->id;
	s->counts[s->n] = i->count;
	(void)snprintf(s->digests[s->n++], sizeof(s->digests[0]), "%s",
		       i->digest);
	return s->n < 128;
}

static struct seen look(struct approvals *b)
{
	struct seen s = { .n = 0 };

	approvals_each(b, 0, false, note, &s);
	return s;
}

static int answer(struct approvals *b, uint64_t id, const char *digest,
		  int error)
{
	return approvals_resolve(b, id, digest, error, "test", NULL, &err);
}

static void test_one_answer_counts(void **state)
{
	struct approvals *b = approvals_new(0);
	struct event e = connect_to(host_1);
	atomic_int woken = 0;
	struct approval_wait w = { .wake = count_wake, .data = &woken };
	struct seen s;
	int error;

	assert_int_equal(approval_join(b, &e, "ask", in_ms(30000), &w), 0);
	assert_int_equal(approval_look(&w, &error), APPROVAL_WAITING);
	assert_int_equal(error, EPERM);
	s = look(b);
	assert_int_equal(s.n, 1);
	/* Foreign, mismatching, too short to mean anything. */
	assert_int_equal(answer(b, 77, s.digests[0], 0), -ENOENT);
	assert_int_equal(answer(b, 1, "00000000", 0), -EBADMSG);
	assert_int_equal(answer(b, 1, "", 0), -EBADMSG);
	assert_int_equal(answer(b, 1, NULL, 0), -EBADMSG);
	assert_int_equal(approval_look(&w, &error), APPROVAL_WAITING);
	assert_int_equal(woken, 0);
	assert_int_equal(answer(b, 1, s.digests[0], 0), 0);
	assert_int_equal(woken, 1);
	assert_int_equal(approval_look(&w, &error), APPROVAL_ANSWERED);
	assert_int_equal(error, 0);
	/* Repeated; the first one stands. */
	assert_int_equal(answer(b, 1, s.digests[0], EACCES), -EALREADY);
	assert_non_null(strstr(err.msg, "by test"));
	assert_int_equal(approval_look(&w, &error), APPROVAL_ANSWERED);
	assert_int_equal(error, 0);
	assert_int_equal(look(b).n, 0);
	approval_leave(&w);
	approval_leave(&w);
	assert_int_equal(answer(b, 1, s.digests[0], 0), -EALREADY);
	approvals_free(b);
}

static void test_the_deadline_denies(void **state)
{
	struct approvals *b = approvals_new(0);
	struct event e = connect_to(host_1);
	struct approval_wait w = { .wake = NULL }, late = { .wake = NULL };
	char digest[EVENT_DIGEST_LEN + 1];
	int error;

	event_digest(&e, digest);
	/* Over when it is made. */
	assert_int_equal(approval_join(b, &e, NULL, in_ms(0) - 1, &w), 0);
	assert_int_equal(approval_look(&w, &error), APPROVAL_EXPIRED);
	assert_int_equal(error, EPERM);
	assert_int_equal(answer(b, 1, digest, 0), -ETIMEDOUT);
	assert_int_equal(approval_join(b, &e, NULL, in_ms(50), &late), 0);
	while (look(b).n)
		;
	assert_int_equal(answer(b, 2, digest, 0), -ETIMEDOUT);
	assert_int_equal(approval_look(&late, &error), APPROVAL_EXPIRED);
	approval_leave(&w);
	approval_leave(&late);
	approvals_free(b);
}

static void test_nobody_waits(void **state)
{
	struct approvals *b = approvals_new(0);
	struct event e = connect_to(host_1);
	struct approval_wait w = { .wake = NULL };
	char digest[EVENT_DIGEST_LEN + 1];

	event_digest(&e, digest);
	assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &w), 0);
	approval_leave(&w);
	assert_int_equal(look(b).n, 0);
	assert_int_equal(answer(b, 1, digest, 0), -ECANCELED);
	approvals_free(b);
}

static void test_closing_denies(void **state)
{
	struct approvals *b = approvals_new(0);
	struct event e = connect_to(host_1);
	atomic_int woken = 0;
	struct approval_wait w = { .wake = count_wake, .data = &woken };
	struct approval_wait next = { .wake = count_wake, .data = &woken };
	int error;

	assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &w), 0);
	approvals_close(b);
	assert_int_equal(woken, 1);
	assert_int_equal(approval_look(&w, &error), APPROVAL_CANCELLED);
	assert_int_equal(error, EPERM);
	assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &next), 0);
	assert_int_equal(approval_look(&next, &error), APPROVAL_CANCELLED);
	approval_leave(&w);
	approval_leave(&next);
	approvals_free(b);
}

static void test_equal_requests_share_one(void **state)
{
	struct approvals *b = approvals_new(0);
	struct event e = connect_to(host_1), f = connect_to(host_2);
	atomic_int woken = 0;
	struct approval_wait w[50], other = { .wake = NULL };
	struct seen s;
	int error;

	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		w[i] = (struct approval_wait){ .wake = count_wake,
					       .data = &woken };
		e.pid = (pid_t)i;
		assert_int_equal(
			approval_join(b, &e, NULL, in_ms(30000), &w[i]), 0);
	}
	assert_int_equal(approval_join(b, &f, NULL, in_ms(30000), &other), 0);
	s = look(b);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.counts[0], 50);
	approval_leave(&w[7]);
	assert_int_equal(answer(b, s.ids[0], s.digests[0], 0), 0);
	assert_int_equal(woken, 49);
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		if (i != 7) {
			assert_int_equal(approval_look(&w[i], &error),
					 APPROVAL_ANSWERED);
			assert_int_equal(error, 0);
		}
	assert_int_equal(approval_look(&other, &error), APPROVAL_WAITING);
	/* Asked again, it is another one. */
	assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &w[7]), 0);
	assert_int_equal(approval_look(&w[7], &error), APPROVAL_WAITING);
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		approval_leave(&w[i]);
	approval_leave(&other);
	approvals_free(b);
}

static void count_expired(void *data, const struct approval_info *i)
{
	if (i->state == APPROVAL_EXPIRED)
		(void)atomic_fetch_add((atomic_int *)data, 1);
}

/* Who asked, and was never shown to anybody, is on record, too. */
static void test_what_expires_is_told(void **state)
{
	struct approvals *b = approvals_new(1);
	struct event e1 = connect_to(host_1), e2 = connect_to(host_2);
	struct approval_wait w[2] = { { .wake = NULL }, { .wake = NULL } };
	uint64_t soon = in_ms(20);
	atomic_int told = 0;
	int error;

	assert_int_equal(approvals_tell(b, count_expired, &told), 0);
	assert_int_equal(approval_join(b, &e1, "a rule", soon, &w[0]), 0);
	assert_int_equal(approval_join(b, &e2, NULL, soon, &w[1]), 0);
	while (in_ms(0) < soon)
		(void)usleep(1000);
	assert_string_equal(approval_expired(&w[0])->host, host_1);
	assert_string_equal(approval_rule(&w[0]), "a rule");
	assert_int_equal(approval_look(&w[1], &error), APPROVAL_EXPIRED);
	approval_leave(&w[0]);
	approval_leave(&w[1]);
	assert_int_equal(told, 2);
	approvals_free(b);
}

static void count_told(void *data, const struct approval_info *i)
{
	if (i->state == APPROVAL_WAITING)
		(void)atomic_fetch_add((atomic_int *)data, 1);
}

static void test_more_than_may_be_open_wait_in_order(void **state)
{
	atomic_int told = 0;
	struct approvals *b = approvals_new(2);
	struct approval_wait w[5];
	char hosts[5][16];
	struct seen s;

	assert_int_equal(approvals_tell(b, count_told, &told), 0);
	for (int i = 0; i < 5; i++) {
		struct event e;

		(void)snprintf(hosts[i], sizeof(hosts[i]), "192.0.2.%d", i);
		e = connect_to(hosts[i]);
		w[i] = (struct approval_wait){ .wake = NULL };
		assert_int_equal(
			approval_join(b, &e, NULL, in_ms(30000), &w[i]), 0);
	}
	s = look(b);
	assert_int_equal(s.n, 2);
	assert_int_equal(told, 2);
	/* What is not shown cannot be answered. */
	assert_int_equal(answer(b, 3, s.digests[0], 0), -ENOENT);
	assert_int_equal(answer(b, 2, s.digests[1], EPERM), 0);
	s = look(b);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.ids[1], 3);
	approval_leave(&w[0]);
	s = look(b);
	assert_int_equal(s.ids[0], 3);
	assert_int_equal(s.ids[1], 4);
	for (int i = 1; i < 5; i++)
		approval_leave(&w[i]);
	approvals_free(b);
}

static void test_old_ones_are_forgotten(void **state)
{
	struct approvals *b = approvals_new(0);
	struct event e = connect_to(host_1);
	char digest[EVENT_DIGEST_LEN + 1];

	event_digest(&e, digest);
	for (int i = 0; i < APPROVALS_KEPT + 10; i++) {
		struct approval_wait w = { .wake = NULL };

		assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &w),
				 0);
		approval_leave(&w);
	}
	assert_int_equal(answer(b, 1, digest, 0), -ENOENT);
	assert_int_equal(answer(b, APPROVALS_KEPT, digest, 0), -ECANCELED);
	approvals_free(b);
}

static void remember_late(void *data, const struct approval_info *i)
{
	struct seen *s = data;
	const uint64_t last = s->n ? s->ids[0] : 0;

	/* In the order they were closed in, each once. */
	assert_int_equal(i->id, last + 1);
	assert_int_equal(i->state, APPROVAL_ANSWERED);
	assert_string_equal(i->event->host, host_1);
	s->ids[0] = i->id;
	s->n++;
}

static void ask_and_answer(struct approvals *b, unsigned int n)
{
	struct event e = connect_to(host_1);

	while (n--) {
		struct approval_wait w = { .wake = NULL };
		struct seen s;

		assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &w),
				 0);
		s = look(b);
		assert_int_equal(answer(b, s.ids[0], NULL, 0), 0);
		approval_leave(&w);
	}
}

static void test_who_is_told_later_misses_none(void **state)
{
	const unsigned int n = APPROVALS_KEPT + 10;
	struct approvals *b = approvals_new(0);
	struct seen s = { .n = 0 };

	approvals_set_separate(b);
	approvals_tell_later(b, remember_late, &s);
	ask_and_answer(b, n);
	assert_int_equal(s.n, 0);
	approvals_catch_up(b);
	assert_int_equal(s.n, n);
	/* Who closes too many tells of them. */
	ask_and_answer(b, APPROVALS_LATE_MAX + 3);
	assert_int_equal(s.n, n + 3);
	approvals_tell_later(b, NULL, NULL);
	assert_int_equal(s.n, n + APPROVALS_LATE_MAX + 3);
	ask_and_answer(b, 1);
	assert_int_equal(s.n, n + APPROVALS_LATE_MAX + 3);
	approvals_free(b);
}

static void test_a_separate_book_has_digests_for_people(void **state)
{
	struct approvals *b = approvals_new(0);
	struct event e = connect_to(host_1), other = connect_to(host_2);
	struct approval_wait w = { .wake = NULL };
	char digest[EVENT_DIGEST_LEN + 1];
	int error;

	approvals_set_separate(b);
	assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &w), 0);
	event_digest(&other, digest);
	assert_int_equal(answer(b, 1, digest, 0), -EBADMSG);
	assert_int_equal(answer(b, 1, "", 0), -EBADMSG);
	event_digest(&e, digest);
	assert_int_equal(answer(b, 1, digest, 0), 0);
	assert_int_equal(approval_look(&w, &error), APPROVAL_ANSWERED);
	assert_int_equal(error, 0);
	approval_leave(&w);
	approvals_free(b);

	/* Any other book has to be told what was seen. */
	b = approvals_new(0);
	assert_int_equal(approval_join(b, &e, NULL, in_ms(30000), &w), 0);
	assert_int_equal(answer(b, 1, NULL, 0), -EBADMSG);
	approval_leave(&w);
	approvals_free(b);
}

/* ---------------------------------------------------------------- races -- */

struct race {
	struct approvals *b;
	char digest[EVENT_DIGEST_LEN + 1];
	uint64_t id;
	atomic_int won;
};

static void *answer_once(void *arg)
{
	struct race *r = arg;

	if (approvals_resolve(r->b, r->id, r->digest, 0, "racer", NULL, NULL) ==
	    0)
		(void)atomic_fetch_add(&r->won, 1);
	return NULL;
}

static void test_alike_are_allowed_from_then_on(void **state)
{
	struct approvals *b = approvals_new(0);
	struct approval_wait first = { .wake = NULL }, same = { .wake = NULL },
			     other = { .wake = NULL };
	struct event e = connect_to(host_1), o = connect_to(host_2);
	struct seen s;
	int error = -1;

	assert_int_equal(approval_join(b, &e, "r", in_ms(60000), &first), 0);
	s = look(b);
	assert_int_equal(approvals_allow_alike(b, s.ids[0], "0000000000000000",
					       "test", &err),
			 -EBADMSG);
	assert_int_equal(
		approvals_allow_alike(b, s.ids[0], s.digests[0], "test", &err),
		0);
	assert_int_equal(approval_join(b, &e, "r", in_ms(60000), &same), 0);
	assert_int_equal(approval_look(&same, &error), APPROVAL_ANSWERED);
	assert_int_equal(error, 0);
	assert_int_equal(approval_join(b, &o, "r", in_ms(60000), &other), 0);
	assert_int_equal(approval_look(&other, &error), APPROVAL_WAITING);
	approval_leave(&first);
	approval_leave(&same);
	approval_leave(&other);
	approvals_free(b);
}

static void test_racing_answers_have_one_winner(void **state)
{
	struct race r = { .b = approvals_new(0) };
	struct event e = connect_to(host_1);

	event_digest(&e, r.digest);
	for (int i = 0; i < 100; i++) {
		struct approval_wait w = { .wake = NULL };
		pthread_t threads[3];
		int error;

		r.won = 0;
		r.id = (uint64_t)i + 1;
		assert_int_equal(approval_join(r.b, &e, NULL, in_ms(30000), &w),
				 0);
		for (int t = 0; t < 3; t++)
			assert_int_equal(pthread_create(&threads[t], NULL,
							answer_once, &r),
					 0);
		for (int t = 0; t < 3; t++)
			assert_int_equal(pthread_join(threads[t], NULL), 0);
		assert_int_equal(r.won, 1);
		assert_int_equal(approval_look(&w, &error), APPROVAL_ANSWERED);
		approval_leave(&w);
	}
	approvals_free(r.b);
}

static void test_json_escapes(void **state)
{
	static char path[] = "/bin/\x1b[2Jsh", argv[] = "sh\0-c\0x";
	struct event e = { .syscall = "execve",
			   .category = EVENT_PROCESS,
			   .path = path,
			   .argv = argv,
			   .argv_len = sizeof(argv) };
	auto_(buf) struct buf b = BUF_INIT;
	bool cut = true;

	event_describe(&e, 200, &b, &cut);
	assert_string_equal(buf_str(&b), "run '/bin/\\x1b[2Jsh' as 'sh -c x'");
	assert_false(cut);
	buf_clear(&b);
	event_describe(&e, 4, &b, &cut);
	assert_true(cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_answer_counts),
		cmocka_unit_test(test_the_deadline_denies),
		cmocka_unit_test(test_nobody_waits),
		cmocka_unit_test(test_closing_denies),
		cmocka_unit_test(test_equal_requests_share_one),
		cmocka_unit_test(test_what_expires_is_told),
		cmocka_unit_test(test_more_than_may_be_open_wait_in_order),
		cmocka_unit_test(test_old_ones_are_forgotten),
		cmocka_unit_test(test_who_is_told_later_misses_none),
		cmocka_unit_test(test_a_separate_book_has_digests_for_people),
		cmocka_unit_test(test_alike_are_allowed_from_then_on),
		cmocka_unit_test(test_racing_answers_have_one_winner),
		cmocka_unit_test(test_json_escapes),
	};

	return RUN_TESTS(tests);
}
