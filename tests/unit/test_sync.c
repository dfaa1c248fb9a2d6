#include "unit.h"

#include <sys/socket.h>

#include "base/error.h"
#include "sandbox/sync.h"

/* What a child says last is heard, though it has not read what we sent. */
static void last_words(void **state)
{
	static struct sync_msg m;
	struct error said = ERROR_INIT, heard = ERROR_INIT;
	int s[2];

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(sync_send(s[0], SYNC_GO, 0), 0);
	(void)error_say(&said, ERR_BUNDLE, ENOENT, "it is not there");
	assert_int_equal(sync_send_data(s[1], SYNC_ERROR, &said, sizeof(said)),
			 0);
	assert_int_equal(close(s[1]), 0);
	assert_int_equal(sync_recv(s[0], &m), 1);
	assert_int_equal(m.type, SYNC_ERROR);
	assert_int_equal(sync_take_error(m.data, m.len, &heard), -ENOENT);
	assert_string_equal(heard.msg, said.msg);
	assert_int_equal(sync_recv(s[0], &m), 0);
	(void)close(s[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(last_words),
	};

	return RUN_TESTS(tests);
}
