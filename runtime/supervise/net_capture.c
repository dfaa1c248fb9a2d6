/*
 * What a handler of the embedder's decides on: the socket, and the addresses
 * that the call names. What is sent is no part of it.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "supervise/net.h"
#include "supervise/net_internal.h"

/* What is longer is judged by its first bytes, or refused unread. */
static int capture_name(struct call *c, uint64_t addr, uint64_t len)
{
	const size_t max = sizeof(union net_sockaddr);

	if (!addr || !len)
		return 0;
	return call_capture(c, addr, len < max ? len : max);
}

/* The same bytes that were captured are read again. */
static int capture_message(struct call *c, uint64_t addr, size_t size)
{
	struct user_message u = { .name = 0 };
	int r = call_capture(c, addr, size);

	if (r == 0)
		r = call_read(c, addr, &u, sizeof(u));
	return r < 0 ? r : capture_name(c, u.name, u.name_len);
}

static int capture_messages(struct call *c)
{
	const size_t size = sizeof(struct user_mmessage);
	uint64_t n = (uint32_t)call_arg(c, 2);
	int r = 0;

	if (n > NET_CAPTURED_MESSAGES)
		n = NET_CAPTURED_MESSAGES;
	for (uint64_t i = 0; r == 0 && i < n; i++)
		r = capture_message(c, call_arg(c, 1) + i * size, size);
	return r;
}

int net_capture(struct call *c)
{
	int r;

	if (call_has_captured(c))
		return 0;
	r = call_capture_fd(c, (int)call_arg(c, 0));
	if (r < 0)
		return r;
	switch (call_nr(c)) {
	case SYS_connect:
	case SYS_bind:
		return capture_name(c, call_arg(c, 1),
				    (uint32_t)call_arg(c, 2));
	case SYS_sendto:
		return capture_name(c, call_arg(c, 4),
				    (uint32_t)call_arg(c, 5));
	case SYS_sendmsg:
		return capture_message(c, call_arg(c, 1),
				       sizeof(struct user_message));
	case SYS_sendmmsg:
		return capture_messages(c);
	default:
		return 0;
	}
}
