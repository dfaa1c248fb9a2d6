#include "control/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "control/peer.h"

CLEANUP_PTR(struct json, json_free);

enum {
	AT_ONCE = 256,	    /* sockets that are open at a time */
	CONNECT_NAP_MS = 20 /* a full backlog wakes nobody */
};

static void end_call(struct control_call *c)
{
	cleanup_close(&c->fd);
	c->fd = -1;
	buf_done(&c->out);
	buf_done(&c->in);
}

static void fail_call(struct control_call *c, int sys)
{
	end_call(c);
	if (c->err.kind != ERR_NONE)
		return;
	switch (sys) {
	case ENOENT:
		(void)error_say(&c->err, ERR_STATE, ENOENT,
				"'%s' has no control socket", c->name);
		break;
	case ECONNREFUSED:
	case ECONNRESET: /* it was just dying */
		(void)error_say(&c->err, ERR_STATE, ECONNREFUSED,
				"supervisor of '%s' is not running", c->name);
		break;
	case ETIMEDOUT:
		if (c->is_starting) {
			(void)error_say(&c->err, ERR_STATE, ENOENT,
					"'%s' is starting, and has no control "
					"socket yet",
					c->name);
			(void)error_hint(&c->err, "try again");
			break;
		}
		(void)error_say(&c->err, ERR_STATE, ETIMEDOUT,
				"supervisor of '%s' did not answer within %d s",
				c->name, CONTROL_TIMEOUT_MS / 1000);
		break;
	default:
		(void)error_set(&c->err, ERR_STATE, sys,
				"cannot ask the supervisor of '%s'", c->name);
		break;
	}
}

static void begin_call(struct control_call *c)
{
	int r = control_request(&c->out, c->verb, c->args);

	c->end_ms = clock_now_ms() + CONTROL_TIMEOUT_MS;
	c->fd = r < 0 ? -1
		      : socket(AF_UNIX,
			       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		fail_call(c, r < 0 ? -r : errno);
}

/* 1 connected, 0 later (no socket yet, or a full backlog), or a negative
 * errno. */
static int try_connect(struct rundir *d, struct control_call *c)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	auto_ptr(rundir_slot_close) struct rundir_slot *slot = NULL;
	char dir[FD_PATH_MAX];
	int sys;

	if (rundir_find(d, c->name, &slot, &c->err) < 0)
		return -ENOENT;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s",
		       fd_proc_path(rundir_slot_fd(slot), dir),
		       control_socket_name);
	if (connect(c->fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return 1;
	sys = errno;
	c->is_starting = sys == ENOENT && rundir_is_locked(slot);
	return c->is_starting || sys == EAGAIN || sys == EINTR ? 0 : -sys;
}

/* 1 the whole frame is there, 0 not yet, or a negative errno. */
static int exchange(struct control_call *c)
{
	char part[4096];
	ssize_t n;

	/* A small frame, which goes as a whole. */
	if (c->pass_fd && !c->sent) {
		int r = fd_send(c->fd, c->out.data, c->out.len, c->pass_fd, 1);

		/* As below. */
		if (r < 0 && r != -EPIPE)
			return r == -EAGAIN ? 0 : r;
		c->sent = c->out.len;
	}
	while (c->sent < c->out.len) {
		n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
			 MSG_NOSIGNAL);
		/* Its answer may already say why it does not listen. */
		if (n < 0 && errno == EPIPE)
			break;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		c->sent += (size_t)n;
	}
	for (;;) {
		size_t len = 0;

		if (c->in.len >= CONTROL_HEADER)
			len = control_get_length(
				(const unsigned char *)c->in.data);
		if (len > CONTROL_BODY_MAX)
			return -EMSGSIZE;
		if (c->in.len >= CONTROL_HEADER + (len ? len : 1))
			return c->in.len == CONTROL_HEADER + len ? 1 : -EPROTO;
		n = recv(c->fd, part, sizeof(part), 0);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n == 0)
			return -ECONNREFUSED;
		buf_add(&c->in, part, (size_t)n);
		if (buf_failed(&c->in))
			return -ENOMEM;
	}
}

/* It is to come again, once, having shown that it is in no sandbox. */
static bool prove(struct control_call *c, const char *body, size_t len)
{
	pid_t pid;
	int fd;

	if (c->is_proved || c->err.kind == ERR_NONE ||
	    !control_read_demand(body, len, &pid, &fd) ||
	    peer_prove(pid, fd) < 0)
		return false;
	c->is_proved = true;
	c->err = (struct error)ERROR_INIT;
	c->connected = false;
	c->sent = 0;
	return true;
}

static void read_answer(struct control_call *c)
{
	const char *body = c->in.data + CONTROL_HEADER;
	size_t len = c->in.len - CONTROL_HEADER;
	bool again;

	(void)control_read_answer(body, len, &c->answer, &c->err);
	again = prove(c, body, len);
	end_call(c);
	if (again)
		begin_call(c);
}

static void go_on(struct rundir *d, struct control_call *c)
{
	int r = 1;

	if (!c->connected) {
		r = try_connect(d, c);
		c->connected = r == 1;
	}
	if (r == 1)
		r = exchange(c);
	if (r < 0) {
		fail_call(c, -r);
		return;
	}
	if (r == 0) {
		if (clock_now_ms() >= c->end_ms)
			fail_call(c, ETIMEDOUT);
		return;
	}
	read_answer(c);
}

static bool is_done(const struct control_call *c)
{
	return c->answer || c->err.kind != ERR_NONE;
}

/* Waits until one of @calls can go on, at most until the first deadline. */
static void wait_for(struct control_call *const *calls, size_t n)
{
	struct pollfd p[AT_ONCE];
	int64_t left = CONTROL_TIMEOUT_MS;

	for (size_t i = 0; i < n; i++) {
		const struct control_call *c = calls[i];
		int64_t until = c->end_ms - clock_now_ms();

		p[i].fd = c->connected ? c->fd : -1;
		p[i].events = c->sent < c->out.len ? POLLOUT : POLLIN;
		if (!c->connected && until > CONNECT_NAP_MS)
			until = CONNECT_NAP_MS;
		if (until < left)
			left = until;
	}
	if (left > 0)
		(void)poll(p, n, (int)left);
}

void control_ask_all(struct rundir *d, struct control_call *calls, size_t n)
{
	struct control_call *open[AT_ONCE];
	size_t next = 0, n_open = 0;

	while (next < n || n_open) {
		size_t kept = 0;

		for (; next < n && n_open < AT_ONCE; next++) {
			struct control_call *c = &calls[next];

			begin_call(c);
			if (!is_done(c))
				open[n_open++] = c;
		}
		for (size_t i = 0; i < n_open; i++) {
			go_on(d, open[i]);
			if (!is_done(open[i]))
				open[kept++] = open[i];
		}
		n_open = kept;
		if (n_open && (next == n || n_open == AT_ONCE))
			wait_for(open, n_open);
	}
}

/* Goes on until there is an answer or error, or, with @sent, all was sent. */
static void drive(struct rundir *d, struct control_call *c, bool sent)
{
	struct control_call *const one[] = { c };

	for (;;) {
		go_on(d, c);
		if (is_done(c) ||
		    (sent && c->connected && c->sent == c->out.len))
			return;
		wait_for(one, 1);
	}
}

static int result_of(const struct control_call *c, struct error *err)
{
	if (c->err.kind == ERR_NONE)
		return 0;
	if (err)
		*err = c->err;
	return error_code(&c->err);
}

int control_begin(struct rundir *d, struct control_call *c, struct error *err)
{
	begin_call(c);
	if (!is_done(c))
		drive(d, c, true);
	return result_of(c, err);
}

int control_finish(struct rundir *d, struct control_call *c, struct error *err)
{
	if (!is_done(c))
		drive(d, c, false);
	return result_of(c, err);
}

void control_drop(struct control_call *c)
{
	if (c->name && !is_done(c))
		end_call(c);
	json_free(c->answer);
	c->answer = NULL;
}

int control_ask(struct rundir *d, const char *name, const char *verb,
		const char *args, struct json **ret, struct error *err)
{
	struct control_call c = { .name = name, .verb = verb, .args = args };
	int r = control_begin(d, &c, err);

	if (r == 0)
		r = control_finish(d, &c, err);
	if (r == 0)
		*ret = take_ptr(&c.answer);
	control_drop(&c);
	return r;
}

/* *@after: of the next page, 0 after the last one. */
static int list_page(struct rundir *d, const char *name, const char *verb,
		     uint64_t *after,
		     int (*fn)(void *data, const struct json *item), void *data,
		     struct error *err)
{
	auto_ptr(json_free) struct json *page = NULL;
	const struct json *v;
	char args[48];
	int r;

	(void)snprintf(args, sizeof(args), "{\"after\":%llu}",
		       (unsigned long long)*after);
	r = control_ask(d, name, verb, args, &page, err);
	if (r < 0)
		return r;
	v = json_get(page, verb);
	if (!v || v->type != JSON_ARRAY)
		return error_say(err, ERR_STATE, EPROTO,
				 "the answer is malformed");
	for (size_t i = 0; r == 0 && i < v->n; i++)
		r = fn(data, &v->items[i]);
	v = json_get(page, "next");
	if (!v || json_uint64(v, after) < 0)
		*after = 0;
	return r;
}

int control_list(struct rundir *d, const char *name, const char *verb,
		 int (*fn)(void *data, const struct json *item), void *data,
		 struct error *err)
{
	uint64_t after = 0;
	int r;

	do
		r = list_page(d, name, verb, &after, fn, data, err);
	while (r == 0 && after);
	return r;
}

static bool set_receive_timeout(int fd, int ms)
{
	const struct timeval t = { ms / 1000, ms % 1000 * 1000 };

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) == 0;
}

/* Connects and sends, within the time of a call. Blocking from then on. */
static int open_subscription(struct rundir *d, struct control_call *c)
{
	int flags, r;

	begin_call(c);
	while (!is_done(c) && !c->connected) {
		struct control_call *const one[] = { c };

		r = try_connect(d, c);
		c->connected = r == 1;
		if (r < 0)
			fail_call(c, -r);
		else if (r == 0 && clock_now_ms() >= c->end_ms)
			fail_call(c, ETIMEDOUT);
		else if (r == 0)
			wait_for(one, 1);
	}
	if (is_done(c))
		return error_code(&c->err);
	flags = fcntl(c->fd, F_GETFL);
	if (flags < 0 || fcntl(c->fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
	    !set_receive_timeout(c->fd, CONTROL_TIMEOUT_MS) ||
	    send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL) !=
		    (ssize_t)c->out.len)
		fail_call(c, errno);
	return is_done(c) ? error_code(&c->err) : 0;
}

/* The next frame's body; 0 at the end, or a negative errno. */
static int read_frame(int fd, struct buf *ret)
{
	unsigned char header[CONTROL_HEADER];
	char body[CONTROL_BODY_MAX];
	ssize_t n = fd_read_full(fd, header, sizeof(header));
	size_t len;

	if (n <= 0)
		return (int)n;
	if (n != sizeof(header))
		return -ECONNRESET;
	len = control_get_length(header);
	if (!len || len > sizeof(body))
		return -EPROTO;
	n = fd_read_full(fd, body, len);
	if (n != (ssize_t)len)
		return n < 0 ? (int)n : -ECONNRESET;
	buf_clear(ret);
	buf_add(ret, body, len);
	return buf_failed(ret) ? -ENOMEM : 1;
}

/* Until there is something to read, or @stop_fd says that nobody wants it. */
static int await_event(struct control_call *c, const int *stop_fd)
{
	struct pollfd p[] = {
		{ .fd = c->fd, .events = POLLIN },
		{ .fd = stop_fd ? *stop_fd : -1, .events = POLLIN },
	};

	while (poll(p, ARRAY_LEN(p), -1) < 0)
		if (errno != EINTR)
			return error_set(&c->err, ERR_SYSTEM, errno, "poll");
	if (!p[1].revents)
		return 0;
	return error_say(&c->err, ERR_STATE, ECANCELED,
			 "'%s' is watched no more", c->name);
}

static int read_events(struct control_call *c, const int *stop_fd,
		       control_event_fn *fn, void *data)
{
	auto_(buf) struct buf body = BUF_INIT;
	int r;

	for (;;) {
		struct json *e = NULL;

		r = await_event(c, stop_fd);
		if (r < 0)
			return r;
		r = read_frame(c->fd, &body);
		if (r != 1)
			break;

		r = control_read_event(body.data, body.len, &e, &c->err);
		if (r < 0)
			return r;
		r = fn(data, e);
		json_free(e);
		if (r != 0)
			return r;
	}
	/* A server that was killed resets, or ends within a frame. */
	if (r == -ECONNRESET)
		r = 0;
	if (r < 0)
		(void)error_set(&c->err, ERR_STATE, -r,
				"cannot read from the supervisor of '%s'",
				c->name);
	return r;
}

static int ask_for_events(struct rundir *d, struct control_call *c,
			  struct buf *body)
{
	int r;

	end_call(c);
	r = open_subscription(d, c);
	if (r < 0)
		return r;
	r = read_frame(c->fd, body);
	if (r > 0)
		return control_read_answer(body->data, body->len, &c->answer,
					   &c->err);
	if (r == 0)
		r = -ECONNREFUSED;
	fail_call(c, r == -EAGAIN ? ETIMEDOUT : -r);
	return r;
}

int control_subscribe(struct rundir *d, const char *name, const int *stop_fd,
		      int (*subscribed)(void *data), control_event_fn *fn,
		      void *data, struct error *err)
{
	struct control_call c = { .name = name, .verb = "subscribe", .fd = -1 };
	auto_(buf) struct buf body = BUF_INIT;
	int r;

	do
		r = ask_for_events(d, &c, &body);
	while (r < 0 && body.len && prove(&c, body.data, body.len));
	if (r == 0 && !set_receive_timeout(c.fd, 0))
		r = -errno;
	if (r == 0 && subscribed)
		r = subscribed(data);
	if (r == 0)
		r = read_events(&c, stop_fd, fn, data);
	json_free(c.answer);
	end_call(&c);
	if (c.err.kind != ERR_NONE && err)
		*err = c.err;
	return r;
}
