/*
 * A child that dies before its @steps_left-th step of a commit:
 *
 *	steps_left = n; branch_step_hook = count_down; …; was_killed(pid)
 */
#ifndef SANDLOCK_TESTS_KILLED_H
#define SANDLOCK_TESTS_KILLED_H

#include "unit.h"

#include <sys/wait.h>

#include "branch/publish.h"

enum { KILLED = 99 };

static int steps_left;

static inline void count_down(const char *step)
{
	(void)step;
	if (--steps_left == 0)
		_exit(KILLED);
}

/* Waits for the child, which else must have succeeded. */
static inline bool was_killed(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED);
	return WEXITSTATUS(status) == KILLED;
}

#endif
