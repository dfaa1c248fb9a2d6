#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "kernel/caps.h"

#define BIT(cap) (UINT64_C(1) << (cap))

/* Runs in a child, since capabilities do not come back. */
static void in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static uint64_t status_mask(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t v = ~UINT64_C(0);

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtoull(line + strlen(key) + 1, NULL, 16);
	}
	if (f)
		(void)fclose(f);
	return v;
}

static void test_last_is_what_the_kernel_says(void **state)
{
	FILE *f = fopen("/proc/sys/kernel/cap_last_cap", "re");
	int last = -1;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &last), 1);
	(void)fclose(f);
	assert_int_equal(caps_last(), last);
}

#define CHECK(cond)                                  \
	do {                                         \
		if (!(cond))                         \
			return __LINE__ & 0x7f ?: 1; \
	} while (0)

static int apply_few(void)
{
	const uint64_t few = BIT(CAP_KILL) | BIT(CAP_NET_BIND_SERVICE);
	struct capset c = { .bounding = few,
			    .effective = BIT(CAP_KILL),
			    .permitted = few,
			    .inheritable = few,
			    .ambient = BIT(CAP_NET_BIND_SERVICE) };

	CHECK(caps_apply_bounding(&c, NULL) == 0);
	CHECK(caps_apply(&c, NULL) == 0);
	CHECK(status_mask("CapBnd:") == few);
	CHECK(status_mask("CapPrm:") == few);
	CHECK(status_mask("CapEff:") == BIT(CAP_KILL));
	CHECK(status_mask("CapInh:") == few);
	CHECK(status_mask("CapAmb:") == BIT(CAP_NET_BIND_SERVICE));
	return 0;
}

static int apply_missing(void)
{
	struct capset first = { .permitted = BIT(CAP_KILL) };
	struct capset c = { .permitted = BIT(CAP_KILL) | BIT(CAP_CHOWN),
			    .effective = BIT(CAP_CHOWN),
			    .inheritable = BIT(CAP_KILL) | BIT(CAP_SYS_TIME),
			    .ambient = BIT(CAP_FOWNER) };

	CHECK(caps_apply(&first, NULL) == 0);
	CHECK(caps_apply(&c, NULL) == 0);
	CHECK(status_mask("CapPrm:") == BIT(CAP_KILL));
	CHECK(status_mask("CapEff:") == 0);
	CHECK(status_mask("CapInh:") == BIT(CAP_KILL));
	CHECK(status_mask("CapAmb:") == 0);
	return 0;
}

static int apply_none(void)
{
	struct capset c = { 0 };
	struct error err = ERROR_INIT;

	CHECK(caps_apply_bounding(&c, NULL) == 0);
	CHECK(caps_apply(&c, NULL) == 0);
	CHECK(status_mask("CapBnd:") == 0);
	CHECK(status_mask("CapPrm:") == 0);
	/* Already dropped: no CAP_SETPCAP is needed to say so again. */
	CHECK(caps_apply_bounding(&c, &err) == 0);
	return 0;
}

static int bounding_needs_setpcap(void)
{
	struct capset c = { 0 };
	struct error err = ERROR_INIT;

	CHECK(caps_apply(&c, NULL) == 0);
	CHECK(caps_apply_bounding(&c, &err) == -EPERM);
	CHECK(strstr(err.msg, "'CAP_CHOWN'") != NULL);
	return 0;
}

static void need_root(void)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
}

static void test_sets_are_applied(void **state)
{
	need_root();
	in_child(apply_few);
	in_child(apply_none);
}

static void test_what_cannot_be_had_is_reported(void **state)
{
	need_root();
	in_child(apply_missing);
}

static void test_bounding_without_setpcap_is_an_error(void **state)
{
	need_root();
	in_child(bounding_needs_setpcap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_is_what_the_kernel_says),
		cmocka_unit_test(test_sets_are_applied),
		cmocka_unit_test(test_what_cannot_be_had_is_reported),
		cmocka_unit_test(test_bounding_without_setpcap_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
