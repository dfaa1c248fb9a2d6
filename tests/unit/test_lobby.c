/* Who waits in a lobby when the sandbox is at its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/error.h"
#include "sandbox/create.h"
#include "sandbox/lobby.h"

/* Its filter is gone, init's, and somebody else's has a call. */
static void a_listener_without_a_supervisor_is_refused(void **state)
{
	char name[] = "ending";
	struct sandbox_state s = { .name = name };
	struct create c = { .state = &s, .traps_fd = -1 };
	struct lobby l = { .n = 1 };
	struct error err = ERROR_INIT;
	struct pollfd p;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	l.guests[0] = (struct lobby_guest){ .fd = fds[0], .is_listener = true };
	lobby_poll(&l, &p);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_true(lobby_look(&l, &p));
	assert_int_equal(lobby_leave(&l, &c, &err), -ESRCH);
	assert_int_equal(err.kind, ERR_STATE);
	assert_int_equal(fcntl(fds[0], F_GETFD), -1);
	assert_int_equal(l.n, 0);
	(void)close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listener_without_a_supervisor_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
