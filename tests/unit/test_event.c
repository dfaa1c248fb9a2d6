#include "policy/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "unit.h"

static struct event an_event(void)
{
	return (struct event){
		.syscall = "execve",
		.category = EVENT_PROCESS,
		.pid = 7,
		.parent_pid = 6,
		.program = (char *)"/bin/sh",
		.path = (char *)"/bin/cc",
		.interpreter = "/bin/sh",
		.argv = (char *)"cc\0-c\0a.c",
		.argv_len = sizeof("cc\0-c\0a.c"),
		.writes = true,
	};
}

static void what_was_packed_is_unpacked(void **state)
{
	auto_(event_view) struct event_view v = { .syscall = NULL };
	auto_(buf) struct buf b = BUF_INIT;
	struct event e = an_event();

	event_pack(&e, &b);
	assert_int_equal(event_unpack(b.data, b.len, &v), 0);
	assert_string_equal(v.syscall, "execve");
	assert_string_equal(event_category_name(v.category), "process");
	assert_string_equal(v.program, "/bin/sh");
	assert_string_equal(v.path, "/bin/cc");
	assert_string_equal(v.interpreter, "/bin/sh");
	assert_null(v.host);
	assert_null(v.protocol);
	assert_int_equal(v.pid, 7);
	assert_int_equal(v.parent_pid, 6);
	assert_int_equal(v.n_argv, 3);
	assert_string_equal(v.argv[0], "cc");
	assert_string_equal(v.argv[2], "a.c");
	assert_null(v.argv[3]);
	assert_true(v.writes);
	assert_false(v.denied);
	assert_false(v.is_cut);
}

static void texts_are_cut_and_are_bytes(void **state)
{
	auto_(event_view) struct event_view v = { .syscall = NULL };
	auto_(buf) struct buf b = BUF_INIT;
	char path[EVENT_TEXT_MAX + 2], argv[EVENT_ARGV_MAX + 8];
	struct event e = an_event();

	memset(path, 'a', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	memset(argv, 0, sizeof(argv));
	argv[0] = '\xff';
	memset(argv + 2, 'x', sizeof(argv) - 3);
	e.path = path;
	e.argv = argv;
	e.argv_len = sizeof(argv);
	event_pack(&e, &b);
	assert_int_equal(event_unpack(b.data, b.len, &v), 0);
	assert_true(v.is_cut);
	assert_int_equal(strlen(v.path), EVENT_TEXT_MAX);
	assert_int_equal(v.n_argv, 1);
	assert_string_equal(v.argv[0], "\xff");
}

static void nothing_is_read_behind_the_end(void **state)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct event e = an_event();

	event_pack(&e, &b);
	for (size_t n = 0; n < b.len; n++) {
		char *part = malloc(n ? n : 1);
		struct event_view v;

		memcpy(part, b.data, n);
		assert_int_equal(event_unpack(part, n, &v), -EBADMSG);
		free(part);
	}
}

static void alike_is_what_has_the_same_digest(void **state)
{
	const struct event e = an_event();
	struct event v[9];
	struct event *copy = event_dup(&e);
	char of_e[EVENT_DIGEST_LEN + 1], other[EVENT_DIGEST_LEN + 1];

	for (size_t i = 0; i < 9; i++)
		v[i] = e;
	v[0].syscall = "execveat";
	v[1].category = EVENT_FILE;
	v[2].program = NULL;
	v[3].path = (char *)"/bin/c";
	v[4].host = (char *)"192.0.2.1";
	v[5].port = 1;
	v[6].argv_len--;
	v[7].writes = false;
	v[8].interpreter = "/bin/bash";
	event_digest(&e, of_e);
	for (size_t i = 0; i < 9; i++) {
		assert_false(event_is_alike(&e, &v[i]));
		event_digest(&v[i], other);
		assert_string_not_equal(of_e, other);
	}
	assert_non_null(copy);
	copy->pid++;
	assert_true(event_is_alike(&e, copy));
	event_digest(copy, other);
	assert_string_equal(of_e, other);
	assert_ptr_not_equal(e.argv, copy->argv);
	free(copy);
}

static void assert_described(const struct event *e, size_t max,
			     const char *expect)
{
	auto_(buf) struct buf b = BUF_INIT;

	event_describe(e, max, &b, NULL);
	assert_string_equal(buf_str(&b), expect);
}

/* What is named ends where its quote does. */
static void a_name_cannot_end_its_quotes(void **state)
{
	struct event file = { .category = EVENT_FILE,
			      .path = (char *)"/d/a' from 'b\n" };
	const struct event program = { .category = EVENT_PROCESS,
				       .path = (char *)"/bin/x' by 'y",
				       .interpreter = "it's",
				       .argv = (char *)"x\0it's",
				       .argv_len = 7 };
	const struct event peer = { .category = EVENT_NETWORK,
				    .path = (char *)"'/run/s'" };

	(void)state;
	assert_described(&file, 100, "read '/d/a\\x27 from \\x27b\\x0a'");
	file.writes = true;
	assert_described(&file, 4, "write '/d/a...'");
	assert_described(&file, 5, "write '/d/a\\x27...'");
	file.path = NULL;
	assert_described(&file, 5, "write ''");
	assert_described(
		&program, 100,
		"run '/bin/x\\x27 by \\x27y' by 'it\\x27s' as 'x it's'");
	assert_described(&peer, 100, "connect to '\\x27/run/s\\x27'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_cannot_end_its_quotes),
		cmocka_unit_test(what_was_packed_is_unpacked),
		cmocka_unit_test(texts_are_cut_and_are_bytes),
		cmocka_unit_test(nothing_is_read_behind_the_end),
		cmocka_unit_test(alike_is_what_has_the_same_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
