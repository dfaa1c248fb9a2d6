#include "control/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/quiet_thread.h"
#include "control/peer.h"

enum {
	MAX_CONNECTIONS = 64,
	MAX_SUBSCRIBERS = 16,
	BACKLOG = 128,
	/* Events that wait, for the thread and for each subscriber. */
	EVENTS_BYTES_MAX = 256 * 1024
};

/* What epoll says is ready: a connection, or one of these. */
enum { EVENT_WAKE = MAX_CONNECTIONS, EVENT_LISTEN };

struct connection {
	int fd; /* -1: a free slot */
	int64_t end_ms;
	unsigned char header[CONTROL_HEADER];
	size_t got; /* of the header and the body together */
	size_t len; /* of the body */
	char *body;
	struct buf out;
	size_t sent;
	int passed_fd;	 /* that came with the request, or -1 */
	bool subscribed; /* no end, no more requests, events go to @out */
};

struct control_server {
	int listen_fd, epoll_fd, wake_fd;
	pthread_t thread;
	bool has_thread;
	atomic_bool stop;
	atomic_uint subscribers;
	pthread_mutex_t lock; /* of the next two */
	struct buf events;    /* whole frames */
	bool lost;	      /* an event did not fit: all subscribers go */
	control_answer_fn *answer;
	void *data;
	struct peer_proofs proofs;
	struct connection c[MAX_CONNECTIONS];
};

/* Closing takes it out of the epoll set, too. */
static void drop(struct control_server *s, struct connection *c)
{
	if (c->subscribed)
		atomic_fetch_sub(&s->subscribers, 1);
	cleanup_close(&c->fd);
	cleanup_close(&c->passed_fd);
	free(c->body);
	buf_done(&c->out);
	*c = (struct connection){ .fd = -1, .passed_fd = -1 };
}

static int watch(struct control_server *s, int fd, uint32_t id, int op,
		 uint32_t events)
{
	struct epoll_event e = { .events = events, .data.u32 = id };

	return epoll_ctl(s->epoll_fd, op, fd, &e) < 0 ? -errno : 0;
}

/* What a subscriber was sent makes room; others have their answer. */
static void end_sending(struct control_server *s, struct connection *c)
{
	if (!c->subscribed) {
		drop(s, c);
		return;
	}
	buf_clear(&c->out);
	c->sent = 0;
	if (watch(s, c->fd, (uint32_t)(c - s->c), EPOLL_CTL_MOD, EPOLLIN) < 0)
		drop(s, c);
}

static void send_answer(struct control_server *s, struct connection *c)
{
	while (c->sent < c->out.len) {
		ssize_t n =
			send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
			     MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			drop(s, c);
			return;
		}
		c->sent += (size_t)n;
	}
	end_sending(s, c);
}

/* @r: what came of making it. */
static void answer_frame(struct control_server *s, struct connection *c, int r)
{
	if (r < 0 || watch(s, c->fd, (uint32_t)(c - s->c), EPOLL_CTL_MOD,
			   EPOLLOUT) < 0) {
		drop(s, c);
		return;
	}
	send_answer(s, c);
}

static void answer_with(struct control_server *s, struct connection *c,
			const char *data, const char *why)
{
	answer_frame(s, c, control_answer(&c->out, data, why));
}

static int subscribe(struct control_server *s, struct connection *c,
		     struct buf *ret, struct error *err)
{
	if (atomic_load(&s->subscribers) >= MAX_SUBSCRIBERS)
		return error_say(err, ERR_STATE, EUSERS,
				 "too many subscribers (max %d)",
				 MAX_SUBSCRIBERS);
	c->subscribed = true;
	c->end_ms = INT64_MAX;
	atomic_fetch_add(&s->subscribers, 1);
	buf_add_str(ret, "{}");
	return 0;
}

static void answer_request(struct control_server *s, struct connection *c)
{
	struct control_request q = { .fd = -1 };
	auto_(buf) struct buf data = BUF_INIT;
	struct error err = ERROR_INIT;
	int r = control_parse(c->body, c->len, &q, &err);

	q.fd = take_fd(&c->passed_fd);
	if (r == 0)
		r = strcmp(q.verb, "subscribe") == 0
			    ? subscribe(s, c, &data, &err)
			    : s->answer(s->data, &q, &data, &err);
	control_request_done(&q);
	if (r == 0 && buf_failed(&data))
		r = error_set(&err, ERR_SYSTEM, ENOMEM, "answer");
	answer_with(s, c, r < 0 ? NULL : buf_str(&data), err.msg);
}

/* The header is complete: room for the body, no more than is allowed. */
static bool begin_body(struct control_server *s, struct connection *c)
{
	char why[80];

	c->len = control_get_length(c->header);
	if (c->len > CONTROL_BODY_MAX) {
		(void)snprintf(why, sizeof(why),
			       "request too large (%zu bytes, max %d)", c->len,
			       CONTROL_BODY_MAX);
		answer_with(s, c, NULL, why);
		return false;
	}
	c->body = malloc(c->len + 1);
	if (!c->body)
		drop(s, c);
	return c->body;
}

/* One fd may come along; what else does is closed. */
static ssize_t receive_some(struct connection *c, void *at, size_t want)
{
	auto_close int fd = -1;
	size_t n_fds = 1;
	ssize_t n = fd_recv(c->fd, at, want, &fd, &n_fds);

	if (n >= 0 && n_fds && c->passed_fd < 0)
		c->passed_fd = take_fd(&fd);
	return n;
}

static void receive(struct control_server *s, struct connection *c)
{
	while (!c->body || c->got < CONTROL_HEADER + c->len) {
		bool head = !c->body;
		char *at = head ? (char *)c->header + c->got
				: c->body + (c->got - CONTROL_HEADER);
		size_t want =
			(head ? CONTROL_HEADER : CONTROL_HEADER + c->len) -
			c->got;
		ssize_t n = receive_some(c, at, want);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			drop(s, c);
			return;
		}
		c->got += (size_t)n;
		if (head && c->got == CONTROL_HEADER && !begin_body(s, c))
			return;
	}
	answer_request(s, c);
}

/* A free slot, if need be that of the connection that is open longest. */
static struct connection *take_slot(struct control_server *s)
{
	struct connection *oldest = &s->c[0];

	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		if (s->c[i].fd < 0)
			return &s->c[i];
		if (s->c[i].end_ms < oldest->end_ms)
			oldest = &s->c[i];
	}
	drop(s, oldest);
	return oldest;
}

static struct connection *add_client(struct control_server *s, int fd)
{
	struct connection *c = take_slot(s);
	int r;

	c->fd = fd;
	c->end_ms = clock_now_ms() + CONTROL_TIMEOUT_MS;
	if (watch(s, fd, (uint32_t)(c - s->c), EPOLL_CTL_ADD, EPOLLIN) < 0) {
		drop(s, c);
		return NULL;
	}
	r = peer_check(fd, &s->proofs);
	if (r == 0)
		return c;
	if (r == -EAGAIN)
		answer_frame(
			s, c,
			control_demand(&c->out, getpid(), s->proofs.write_fd));
	else
		answer_with(s, c, NULL, "permission denied");
	return NULL;
}

static void accept_one(struct control_server *s, int fd)
{
	struct connection *c = add_client(s, fd);

	if (c)
		receive(s, c);
}

static void accept_all(struct control_server *s)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

	/* Not for ever: who is connected gets a turn, too. */
	for (int i = 0; i < MAX_CONNECTIONS; i++) {
		int fd = accept4(s->listen_fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
			drop(s, take_slot(s));
			(void)nanosleep(&pause, NULL);
		}
		if (fd < 0)
			return;
		accept_one(s, fd);
	}
}

/* Drops what is overdue; the time until the next one is, or -1. */
static int expire(struct control_server *s)
{
	int64_t now = clock_now_ms(), next = -1;

	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &s->c[i];

		if (c->fd < 0 || c->subscribed)
			continue;
		if (c->end_ms <= now)
			drop(s, c);
		else if (next < 0 || c->end_ms - now < next)
			next = c->end_ms - now;
	}
	return (int)next;
}

static void handle(struct control_server *s, const struct epoll_event *e)
{
	struct connection *c;

	if (e->data.u32 == EVENT_LISTEN) {
		accept_all(s);
		return;
	}
	c = &s->c[e->data.u32];
	/* Of a connection that was dropped in this very round. */
	if (c->fd < 0)
		return;
	if (c->out.len)
		send_answer(s, c);
	else if (c->subscribed)
		drop(s, c); /* it has gone, or says what nobody asked for */
	else
		receive(s, c);
}

/* A subscriber that does not keep up is dropped: nobody waits for it. */
static void deliver(struct control_server *s, struct connection *c,
		    const struct buf *events)
{
	bool idle = !c->out.len;

	if (c->out.len - c->sent + events->len > EVENTS_BYTES_MAX) {
		drop(s, c);
		return;
	}
	buf_add(&c->out, events->data, events->len);
	if (buf_failed(&c->out) ||
	    (idle && watch(s, c->fd, (uint32_t)(c - s->c), EPOLL_CTL_MOD,
			   EPOLLOUT) < 0))
		drop(s, c);
	else if (idle)
		send_answer(s, c);
}

static void deliver_all(struct control_server *s)
{
	auto_(buf) struct buf events = BUF_INIT;
	uint64_t n;
	bool lost;

	(void)fd_read_full(s->wake_fd, &n, sizeof(n));
	(void)pthread_mutex_lock(&s->lock);
	events = s->events;
	s->events = (struct buf)BUF_INIT;
	lost = s->lost;
	s->lost = false;
	(void)pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		if (!s->c[i].subscribed)
			continue;
		if (lost)
			drop(s, &s->c[i]);
		else if (events.len)
			deliver(s, &s->c[i], &events);
	}
}

static void wake(struct control_server *s)
{
	const uint64_t one = 1;

	(void)fd_write_full(s->wake_fd, &one, sizeof(one));
}

bool control_server_is_heard(struct control_server *s)
{
	return s && atomic_load(&s->subscribers);
}

void control_server_publish(struct control_server *s, const char *event,
			    const char *json)
{
	auto_(buf) struct buf frame = BUF_INIT;

	if (!control_server_is_heard(s))
		return;
	if (control_event(&frame, event, json) < 0)
		return;
	(void)pthread_mutex_lock(&s->lock);
	if (s->events.len + frame.len > EVENTS_BYTES_MAX)
		s->lost = true;
	else
		buf_add(&s->events, frame.data, frame.len);
	s->lost |= buf_failed(&s->events);
	(void)pthread_mutex_unlock(&s->lock);
	wake(s);
}

static void *serve(void *data)
{
	struct control_server *s = data;
	struct epoll_event events[16];

	for (;;) {
		int n = epoll_wait(s->epoll_fd, events, ARRAY_LEN(events),
				   expire(s));

		if (n < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (events[i].data.u32 != EVENT_WAKE)
				handle(s, &events[i]);
			else if (atomic_load(&s->stop))
				return NULL;
			else
				deliver_all(s);
		}
	}
}

/* Under its name once it listens: who connects before would be refused. */
static int listen_in(int dir_fd, int *ret)
{
	static const char early[] = "control.new";
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char dir[FD_PATH_MAX];
	auto_close int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* The directory's path could be too long for an address. */
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s",
		       fd_proc_path(dir_fd, dir), early);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	if (fchmodat(dir_fd, early, 0600, 0) < 0 || listen(fd, BACKLOG) < 0 ||
	    renameat(dir_fd, early, dir_fd, control_socket_name) < 0) {
		int sys = errno;

		(void)unlinkat(dir_fd, early, 0);
		return -sys;
	}
	*ret = take_fd(&fd);
	return 0;
}

/* All signals are the main thread's. */
static int start_thread(struct control_server *s)
{
	int r = quiet_thread_make(&s->thread, serve, s);

	s->has_thread = r == 0;
	return r;
}

CLEANUP_PTR(struct control_server, control_server_stop);

int control_server_bind(int dir_fd, int *ret_fd, struct error *err)
{
	int r = listen_in(dir_fd, ret_fd);

	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot make the control socket")
		     : 0;
}

int control_server_adopt(int listen_fd, control_answer_fn *answer, void *data,
			 struct control_server **ret, struct error *err)
{
	auto_close int fd = listen_fd;
	auto_ptr(control_server_stop) struct control_server *s =
		calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, ERR_SYSTEM, ENOMEM, "control socket");
	s->answer = answer;
	s->data = data;
	s->proofs = (struct peer_proofs)PEER_PROOFS_INIT;
	s->listen_fd = take_fd(&fd);
	(void)pthread_mutex_init(&s->lock, NULL);
	for (size_t i = 0; i < MAX_CONNECTIONS; i++)
		s->c[i].fd = s->c[i].passed_fd = -1;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = s->epoll_fd < 0 || s->wake_fd < 0 ? -errno : 0;
	if (r == 0)
		r = watch(s, s->wake_fd, EVENT_WAKE, EPOLL_CTL_ADD, EPOLLIN);
	if (r == 0)
		r = watch(s, s->listen_fd, EVENT_LISTEN, EPOLL_CTL_ADD,
			  EPOLLIN);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot make the control socket");
	*ret = take_ptr(&s);
	return 0;
}

int control_server_fd(const struct control_server *s)
{
	return s->has_thread ? -1 : s->listen_fd;
}

void control_server_take(struct control_server *s, int fd)
{
	(void)add_client(s, fd);
}

int control_server_begin(struct control_server *s, struct error *err)
{
	int r = s->has_thread ? 0 : start_thread(s);

	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot serve the control socket")
		     : 0;
}

void control_server_stop(struct control_server *s)
{
	if (!s)
		return;
	if (s->has_thread) {
		atomic_store(&s->stop, true);
		wake(s);
		(void)pthread_join(s->thread, NULL);
	}
	for (size_t i = 0; i < MAX_CONNECTIONS; i++)
		drop(s, &s->c[i]);
	buf_done(&s->events);
	peer_proofs_done(&s->proofs);
	(void)pthread_mutex_destroy(&s->lock);
	cleanup_close(&s->listen_fd);
	cleanup_close(&s->wake_fd);
	cleanup_close(&s->epoll_fd);
	free(s);
}
