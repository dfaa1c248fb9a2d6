/* Sockets are found while they exist, whatever state they are in. */
#include "kernel/sockdiag.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "unit.h"

static int bound(int family, int type, uint16_t *ret_port)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a = { .any.sa_family = (sa_family_t)family };
	socklen_t n = family == AF_INET ? sizeof(a.in) : sizeof(a.in6);

	if (family == AF_INET)
		a.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		a.in6.sin6_addr = in6addr_loopback;
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &a.any, n), 0);
	assert_int_equal(getsockname(fd, &a.any, &n), 0);
	*ret_port = ntohs(a.in.sin_port);
	return fd;
}

static void one(int family, int type, int protocol)
{
	uint16_t port;
	int fd = bound(family, type, &port);
	uint64_t v[2] = { 1, sockdiag_cookie(fd) };

	assert_true(v[1] != 0);
	assert_int_equal(sockdiag_find_inet(protocol, port, v, 2), 1);
	assert_int_equal(sockdiag_find_inet(protocol, port, v, 1), 0);
	if (type == SOCK_STREAM) {
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(sockdiag_find_inet(protocol, port, v, 2), 1);
	}
	(void)close(fd);
	assert_int_equal(sockdiag_find_inet(protocol, port, v, 2), 0);
}

static void inet_sockets(void **state)
{
	one(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	one(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	one(AF_INET6, SOCK_STREAM, IPPROTO_TCP);
	one(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
}

static void unix_sockets(void **state)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = sockdiag_cookie(fd);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(sockdiag_find_unix((uint32_t)st.st_ino, cookie), 1);
	assert_int_equal(sockdiag_find_unix((uint32_t)st.st_ino, cookie + 1),
			 0);
	(void)close(fd);
	assert_int_equal(sockdiag_find_unix((uint32_t)st.st_ino, cookie), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inet_sockets),
		cmocka_unit_test(unix_sockets),
	};

	return RUN_TESTS(tests);
}
