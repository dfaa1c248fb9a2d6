/* What a branch takes on disk: branch/usage.h, kernel/held.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "branch/usage.h"
#include "kernel/held.h"

enum { KB = 1024, SLACK = 256 * KB /* directories */ };

static char dir[] = "/var/tmp/sandlock-usage.XXXXXX";

static void shell(const char *script)
{
	char command[4096];

	(void)snprintf(command, sizeof(command), "cd '%s' && { %s; }", dir,
		       script);
	/* NOLINTNEXTLINE(cert-env33-c) */
	assert_int_equal(system(command), 0);
}

static uint64_t used(uint64_t limit)
{
	struct usage u = { .bytes = 0 };
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(usage_add(fd, limit, &u), 0);
	assert_false(u.is_shut);
	(void)close(fd);
	return u.bytes;
}

static void assert_used(uint64_t want)
{
	uint64_t n = used(UINT64_MAX);

	if (n < want || n > want + SLACK)
		fail_msg("%llu bytes, not %llu", (unsigned long long)n,
			 (unsigned long long)want);
}

static void test_what_counts(void **state)
{
	static const struct {
		const char *script;
		unsigned int kb;
	} rows[] = {
		{ "true", 0 },
		{ "head -c 1M /dev/zero >f", 1024 },
		{ "truncate -s 10G f", 0 },
		{ "head -c 1M /dev/zero >f; ln f g; mkdir d; ln f d/h", 1024 },
		{ "head -c 1M /dev/zero >f; ln -s f l; ln -s . a; ln -s .. b",
		  1024 },
		{ "ln -s /usr usr; mkfifo p; ln -s nothing n", 0 },
		{ "mkdir d e; head -c 1M /dev/zero >d/f; cp d/f e", 2048 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		shell(rows[i].script);
		assert_used((uint64_t)rows[i].kb * KB);
		shell("find . -mindepth 1 -delete");
	}
}

/* Deeper than directories are kept open, and than a path may be long. */
static void test_deep(void **state)
{
	static const char name[] =
		"0123456789012345678901234567890123456789012345678901234567890"
		"12345678901234567890123456789";
	struct usage u = { .bytes = 0 };
	int root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 3 * PATH_MAX / (int)sizeof(name); i++) {
		int next, fd = openat(at, "f", O_WRONLY | O_CREAT | O_CLOEXEC,
				      0600);
		char data[16 * KB];

		memset(data, 'x', sizeof(data));
		assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
		(void)close(fd);
		assert_int_equal(mkdirat(at, name, 0700), 0);
		assert_int_equal(mkdirat(at, "e", 0700), 0);
		next = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	assert_int_equal(usage_add(root, UINT64_MAX, &u), 0);
	(void)close(root);
	assert_true(u.bytes >= 3 * PATH_MAX / sizeof(name) * 16 * KB);
	shell("rm -r *");
}

static void test_it_stops_at_the_limit(void **state)
{
	uint64_t n;

	shell("for i in $(seq 200); do head -c 16K /dev/zero >$i; done");
	n = used(100 * KB);
	assert_true(n > 100 * KB && n <= 120 * KB);
	assert_true(used(UINT64_MAX) >= 3200 * KB);
	shell("rm *");
}

static void test_what_is_shut_is_said(void **state)
{
	struct usage u = { .bytes = 0 };
	int fd;

	if (geteuid() == 0)
		skip();
	shell("mkdir d; head -c 1M /dev/zero >d/f; chmod 0 d");
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(usage_add(fd, UINT64_MAX, &u), 0);
	(void)close(fd);
	assert_true(u.is_shut && u.bytes < 1024 * KB);
	shell("chmod 700 d; rm -r d");
}

/* Those of the number are ours, by which nothing else is known of them. */
static void test_deleted_files_that_are_open(void **state)
{
	const pid_t us[] = { getpid(), getpid(), INT_MAX };
	char path[sizeof(dir) + 8], data[64 * KB];
	const char *const here[] = { "/missing", dir, NULL };
	const char *const elsewhere[] = { "/missing", path, NULL };
	uint64_t before;
	int fd, again;

	memset(data, 'x', sizeof(data));
	(void)snprintf(path, sizeof(path), "%s/f", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	before = held_bytes(us, 3, here);
	assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
	assert_int_equal(held_bytes(us, 3, here), before);
	assert_int_equal(unlink(path), 0);
	again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	assert_true(held_bytes(us, 3, here) - before >= sizeof(data));
	assert_true(held_bytes(us, 3, here) - before < 2 * sizeof(data));
	assert_int_equal(held_bytes(us, 3, elsewhere), 0);
	(void)close(fd);
	(void)close(again);
	assert_int_equal(held_bytes(us, 3, here), before);
}

static int begin(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_counts),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_it_stops_at_the_limit),
		cmocka_unit_test(test_what_is_shut_is_said),
		cmocka_unit_test(test_deleted_files_that_are_open),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
