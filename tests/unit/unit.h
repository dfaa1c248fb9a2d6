/* What every unit test includes: cmocka with the headers that it wants. */
#ifndef SANDLOCK_TESTS_UNIT_H
#define SANDLOCK_TESTS_UNIT_H

/* cmocka.h relies on all of these. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

/* A new directory below $TMPDIR or /tmp, as an fd; @path has 256 bytes. */
static inline int unit_tmpdir(char *path)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	(void)snprintf(path, 256, "%s/sandlock-unit.XXXXXX",
		       tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* `make valgrind` says so: some system calls are not what they are. */
static inline bool is_under_valgrind(void)
{
	return getenv("SANDLOCK_UNDER_VALGRIND");
}

/* What main returns instead of running any, told to tests/run. */
static inline int unit_needs_root(void)
{
	(void)puts("1..0 # SKIP needs root");
	return 0;
}

#define RUN_TESTS(tests) cmocka_run_group_tests(tests, NULL, NULL)

#endif
