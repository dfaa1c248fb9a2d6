#include "unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "supervise/memory_use.h"

static void test_files(void **state)
{
	auto_close int proc_fd = open("/proc", O_RDONLY | O_CLOEXEC);

	/* Only what lies in memory is counted. */
	assert_int_equal(memory_use_of_files(proc_fd), 0);
	assert_int_equal(memory_use_of_files(-1), 0);
}

/* What is there, and what is used of it, in the whole system's procfs. */
static void test_use(void **state)
{
	auto_close int proc_fd = open("/proc", O_RDONLY | O_CLOEXEC);
	enum { SIZE = 256 << 20 };
	struct memory_use before, used, counted;
	char *p;

	assert_int_equal(memory_use_guess(proc_fd, 0, &before), 0);
	assert_true(before.used > 0);
	assert_int_equal(before.largest_fd, -1);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, SIZE);
	assert_int_equal(memory_use_guess(proc_fd, 0, &used), 0);
	assert_true(used.used >= SIZE);
	assert_int_equal(memory_use_count(proc_fd, 0, &counted), 0);
	assert_true(counted.used >= SIZE);
	assert_true(counted.largest_fd >= 0);
	assert_int_equal(close(counted.largest_fd), 0);
	assert_int_equal(munmap(p, SIZE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
