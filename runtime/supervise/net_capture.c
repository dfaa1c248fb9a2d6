/*
 * What a handler of the embedder's decides on: the socket, the addresses that
 * the call names, and the bytes that it sends, as far as there is room.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
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

/* What a call may still hold; each piece is looked through at each read. */
struct room {
	size_t bytes, pieces;
	size_t least; /* what it may hold whatever others do */
	size_t taken; /* of what is sent */
};

/* 0, -ENOBUFS where not all of it fits, or another negative errno. */
static int capture_bytes(struct call *c, uint64_t addr, uint64_t len,
			 struct room *room)
{
	size_t n = len < room->bytes ? len : room->bytes, got = 0;
	int r;

	if (!len)
		return 0;
	if (!room->pieces)
		return -ENOBUFS;
	r = n ? call_capture_part(c, addr, n, room->least, &got) : 0;
	if (r < 0)
		return r;
	room->pieces--;
	room->bytes -= got;
	room->taken += got;
	room->least -= got < room->least ? got : room->least;
	return got == len ? 0 : -ENOBUFS;
}

/* What says where they are: the first message has room for that. */
static int capture_words(struct call *c, uint64_t addr, size_t n,
			 struct room *room, bool is_first)
{
	size_t got = 0;
	int r;

	if (is_first)
		return call_capture(c, addr, n);
	if (n > room->bytes)
		return -ENOBUFS;
	r = call_capture_part(c, addr, n, 0, &got);
	room->bytes -= got;
	return r == 0 && got < n ? -ENOBUFS : r;
}

static int capture_pieces(struct call *c, const struct user_message *u,
			  struct room *room, bool is_first)
{
	auto_free struct iovec *iov = NULL;
	size_t size = u->n_iov * sizeof(*iov);
	int r;

	/* More are refused. */
	if (!u->n_iov || u->n_iov > NET_IOV_MAX)
		return 0;
	iov = malloc(size);
	r = iov ? capture_words(c, u->iov, size, room, is_first) : -ENOMEM;
	/* The same bytes that were captured are read again. */
	if (r == 0)
		r = call_read(c, u->iov, iov, size);
	for (size_t i = 0; r == 0 && i < u->n_iov; i++)
		r = capture_bytes(c, (uint64_t)(uintptr_t)iov[i].iov_base,
				  iov[i].iov_len, room);
	return r;
}

static int capture_message(struct call *c, uint64_t addr, size_t size,
			   struct room *room, bool is_first)
{
	struct user_message u = { .name = 0 };
	int r = call_capture(c, addr, size);

	if (r == 0)
		r = call_read(c, addr, &u, sizeof(u));
	if (r == 0)
		r = capture_name(c, u.name, u.name_len);
	/* What is longer is refused. */
	if (r == 0 && u.control && u.control_len &&
	    u.control_len <= NET_CONTROL_MAX)
		r = capture_words(c, u.control, u.control_len, room, is_first);
	return r < 0 ? r : capture_pieces(c, &u, room, is_first);
}

/* The first that are whole, or the first. */
static int capture_messages(struct call *c, struct room *room)
{
	const size_t size = sizeof(struct user_mmessage);
	uint64_t n = (uint32_t)call_arg(c, 2), i;
	int r = 0;

	if (n > NET_CAPTURED_MESSAGES)
		n = NET_CAPTURED_MESSAGES;
	for (i = 0; r == 0 && i < n; i++)
		r = capture_message(c, call_arg(c, 1) + i * size, size, room,
				    i == 0);
	/* The last is not for this call, but the next. */
	if (r < 0 && i > 1) {
		i--;
		r = 0;
	}
	call_capture_limit(c, i, room->taken);
	return r;
}

static int capture_sent(struct call *c)
{
	struct room room = { .bytes = NET_CAPTURED_BYTES,
			     .pieces = NET_IOV_MAX,
			     .least = NET_CAPTURED_LEAST };
	int r;

	if (call_nr(c) == SYS_sendmmsg)
		return capture_messages(c, &room);
	if (call_nr(c) == SYS_sendmsg) {
		r = capture_message(c, call_arg(c, 1),
				    sizeof(struct user_message), &room, true);
	} else {
		r = capture_name(c, call_arg(c, 4), (uint32_t)call_arg(c, 5));
		if (r == 0)
			r = capture_bytes(c, call_arg(c, 1), call_arg(c, 2),
					  &room);
	}
	call_capture_limit(c, 0, room.taken);
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
	case SYS_sendmsg:
	case SYS_sendmmsg:
		r = capture_sent(c);
		/* A stream takes a part; what else is cut is refused. */
		return r == -ENOBUFS ? 0 : r;
	default:
		return 0;
	}
}
