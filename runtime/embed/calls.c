#include "embed/calls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "base/cleanup.h"
#include "base/quiet_thread.h"
#include "sandbox/calllink.h"

#define API __attribute__((visibility("default")))

enum { IDLE_S = 1 };

struct sandlock_call {
	struct calls *link;
	struct sandlock_call_info info;
	uint64_t number;
	const struct sandlock_handler *row; /* while it has not begun */
	enum sandlock_exception on_exception;
	/* Under the lock of the link. */
	struct sandlock_call *prev, *next; /* while it is open */
	struct sandlock_call *queue_next;
	bool is_open; /* the supervisor waits for it */
	bool is_answered;
	bool has_reply;
	pthread_cond_t replied;
	/* Of the reply: what it is, and where its data go. */
	int result;
	void *room;
	size_t room_len, len;
	int fd;
};

struct calls {
	pthread_mutex_t lock;
	unsigned int refs;
	int sock; /* -1: the run is over */
	const struct sandlock_handler *rows;
	size_t n_rows;
	struct sandlock_call *open;
	/* Handlers that wait for a thread. */
	struct sandlock_call *first, *last;
	size_t n_queued;
	pthread_cond_t work, ended;
	unsigned int max_threads, n_threads, n_idle;
	bool has_last; /* of the threads that have ended, to be joined */
	pthread_t last_thread;
	struct call_msg in; /* of the thread that reads */
};

/* ----------------------------------------------------------------- link -- */

struct calls *calls_new(int sock, const struct sandlock_handler *rows,
			size_t n_rows, unsigned int max_threads)
{
	struct calls *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	if (pthread_mutex_init(&l->lock, NULL) ||
	    pthread_cond_init(&l->ended, NULL) ||
	    cond_init_monotonic(&l->work) < 0) {
		free(l);
		return NULL;
	}
	l->refs = 1;
	l->sock = sock;
	l->rows = rows;
	l->n_rows = n_rows;
	l->max_threads = max_threads;
	return l;
}

void calls_put(struct calls *l)
{
	unsigned int left;

	(void)pthread_mutex_lock(&l->lock);
	left = --l->refs;
	(void)pthread_mutex_unlock(&l->lock);
	if (left)
		return;
	(void)pthread_cond_destroy(&l->work);
	(void)pthread_cond_destroy(&l->ended);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

/* With the lock held, as all that follows up to the calls. */
static void close_call(struct sandlock_call *c)
{
	struct calls *l = c->link;

	if (!c->is_open)
		return;
	c->is_open = false;
	if (c->prev)
		c->prev->next = c->next;
	else
		l->open = c->next;
	if (c->next)
		c->next->prev = c->prev;
	(void)pthread_cond_signal(&c->replied);
}

static void open_call(struct calls *l, struct sandlock_call *c)
{
	c->link = l;
	l->refs++;
	c->is_open = true;
	c->next = l->open;
	if (l->open)
		l->open->prev = c;
	l->open = c;
}

static void enqueue(struct calls *l, struct sandlock_call *c)
{
	if (l->last)
		l->last->queue_next = c;
	else
		l->first = c;
	l->last = c;
	l->n_queued++;
}

static struct sandlock_call *dequeue(struct calls *l)
{
	struct sandlock_call *c = l->first;

	if (!c)
		return NULL;
	l->first = c->queue_next;
	if (!l->first)
		l->last = NULL;
	l->n_queued--;
	return c;
}

/* ---------------------------------------------------------------- calls -- */

static struct sandlock_call *call_of(const struct calls *l,
				     const struct call_msg *m)
{
	struct sandlock_call *c = calloc(1, sizeof(*c));
	struct call_made made;

	if (!c)
		return NULL;
	if (pthread_cond_init(&c->replied, NULL)) {
		free(c);
		return NULL;
	}
	memcpy(&made, m->data, sizeof(made));
	c->info = (struct sandlock_call_info){
		.id = made.id,
		.pid = made.pid,
		.flags = made.flags,
		.nr = made.nr,
		.arch = made.arch,
		.instruction_pointer = made.instruction_pointer,
	};
	memcpy(c->info.args, made.args, sizeof(made.args));
	c->number = m->number;
	c->row = &l->rows[m->value];
	c->on_exception = c->row->on_exception;
	c->fd = -1;
	return c;
}

static struct call_answer exception(enum sandlock_exception what)
{
	switch (what) {
	case SANDLOCK_EXCEPTION_EPERM:
		return (struct call_answer){ CALL_FAIL, .error = EPERM };
	case SANDLOCK_EXCEPTION_EIO:
		return (struct call_answer){ CALL_FAIL, .error = EIO };
	case SANDLOCK_EXCEPTION_CONTINUE:
		return (struct call_answer){ CALL_GO_ON, .error = 0 };
	case SANDLOCK_EXCEPTION_KILL:
		break;
	}
	return (struct call_answer){ CALL_KILL, .signal = SIGKILL };
}

/* What cannot be an answer is an exception. */
static struct call_answer answer_of(const struct sandlock_call *c,
				    const struct sandlock_action *a)
{
	switch (a->kind) {
	case SANDLOCK_ACTION_CONTINUE:
		return (struct call_answer){ CALL_GO_ON, .error = 0 };
	case SANDLOCK_ACTION_ERRNO:
		if (a->error > 0 && a->error < 512)
			return (struct call_answer){ CALL_FAIL,
						     .error = a->error };
		break;
	case SANDLOCK_ACTION_RETURN:
		return (struct call_answer){ CALL_RETURN, .value = a->value };
	case SANDLOCK_ACTION_FD:
		if (a->fd >= 0)
			return (struct call_answer){ CALL_FD,
						     .cloexec =
							     a->close_on_exec };
		break;
	case SANDLOCK_ACTION_HOLD:
		return (struct call_answer){ CALL_HOLD, .error = 0 };
	case SANDLOCK_ACTION_KILL:
		if (a->signal > 0 && a->signal < NSIG)
			return (struct call_answer){ CALL_KILL,
						     .signal = a->signal };
		break;
	case SANDLOCK_ACTION_NONE:
		break;
	}
	return exception(c->on_exception);
}

static int send_answer(int sock, uint64_t number, const struct call_answer *a,
		       int fd)
{
	struct call_msg m;

	call_msg_begin(&m, CALL_ANSWER, 0, number);
	m.len = sizeof(*a);
	memcpy(m.data, a, sizeof(*a));
	m.fd = fd;
	return call_msg_send(sock, &m);
}

/* An fd that cannot be sent (it is none) is an exception. */
static void say(struct sandlock_call *c, const struct sandlock_action *a)
{
	struct call_answer x = answer_of(c, a);
	int sock = c->link->sock;

	if (send_answer(sock, c->number, &x, x.kind == CALL_FD ? a->fd : -1) ==
	    -EBADF) {
		x = exception(c->on_exception);
		(void)send_answer(sock, c->number, &x, -1);
	}
}

API int sandlock_call_answer(struct sandlock_call *c,
			     const struct sandlock_action *a)
{
	int r;

	(void)pthread_mutex_lock(&c->link->lock);
	r = c->is_answered ? -EALREADY : c->is_open ? 0 : -ECANCELED;
	if (r == 0) {
		c->is_answered = true;
		say(c, a);
		close_call(c);
	}
	(void)pthread_mutex_unlock(&c->link->lock);
	if (a->kind == SANDLOCK_ACTION_FD && a->fd >= 0)
		(void)close(a->fd);
	return r;
}

API void sandlock_call_free(struct sandlock_call *c)
{
	static const struct sandlock_action none = { .fd = -1 };

	if (!c)
		return;
	(void)sandlock_call_answer(c, &none);
	(void)pthread_mutex_lock(&c->link->lock);
	close_call(c);
	(void)pthread_mutex_unlock(&c->link->lock);
	calls_put(c->link);
	(void)pthread_cond_destroy(&c->replied);
	free(c);
}

API const struct sandlock_call_info *
sandlock_call_get_info(const struct sandlock_call *c)
{
	return &c->info;
}

/*
 * Sends @m and waits for its reply, whose data go to @room. The result of the
 * reply, or -ESRCH.
 */
static int request(struct sandlock_call *c, struct call_msg *m, void *room,
		   size_t room_len)
{
	struct calls *l = c->link;
	int r = -ESRCH;

	m->number = c->number;
	(void)pthread_mutex_lock(&l->lock);
	c->has_reply = false;
	c->room = room;
	c->room_len = room_len;
	if (c->is_open)
		r = call_msg_send(l->sock, m);
	while (r == 0 && c->is_open && !c->has_reply)
		(void)pthread_cond_wait(&c->replied, &l->lock);
	if (r == 0)
		r = c->has_reply ? c->result : -ESRCH;
	c->room = NULL;
	(void)pthread_mutex_unlock(&l->lock);
	return r == -EPIPE || r == -ECONNRESET ? -ESRCH : r;
}

API int sandlock_call_read(struct sandlock_call *c, uint64_t addr, void *data,
			   size_t n)
{
	struct call_msg m;
	char *at = data;
	int r = 0;

	while (r == 0 && n) {
		size_t piece = n < CALL_DATA_MAX ? n : CALL_DATA_MAX;

		call_msg_begin(&m, CALL_READ, 0, 0);
		m.addr = addr;
		m.n = piece;
		r = request(c, &m, at, piece);
		if (r == 0 && c->len != piece)
			r = -EPROTO;
		at += piece;
		addr += piece;
		n -= piece;
	}
	return r;
}

API int sandlock_call_read_string(struct sandlock_call *c, uint64_t addr,
				  char *data, size_t max)
{
	struct call_msg m;
	int r;

	if (!max)
		return -ENAMETOOLONG;
	call_msg_begin(&m, CALL_READ_STRING, 0, 0);
	m.addr = addr;
	m.n = max < CALL_DATA_MAX ? max : CALL_DATA_MAX;
	r = request(c, &m, data, max - 1);
	if (r == 0)
		data[c->len] = '\0';
	return r;
}

API int sandlock_call_write(struct sandlock_call *c, uint64_t addr,
			    const void *data, size_t n)
{
	const char *at = data;
	struct call_msg m;
	int r = 0;

	while (r == 0 && n) {
		call_msg_begin(&m, CALL_WRITE, 0, 0);
		m.addr = addr;
		m.len = n < CALL_DATA_MAX ? n : CALL_DATA_MAX;
		memcpy(m.data, at, m.len);
		r = request(c, &m, NULL, 0);
		at += m.len;
		addr += m.len;
		n -= m.len;
	}
	return r;
}

API int sandlock_call_install_fd(struct sandlock_call *c, int fd,
				 bool close_on_exec)
{
	struct call_msg m;

	if (fd < 0)
		return -EBADF;
	call_msg_begin(&m, CALL_INSTALL_FD, close_on_exec, 0);
	m.fd = fd;
	return request(c, &m, NULL, 0);
}

API int sandlock_call_get_fd(struct sandlock_call *c, int fd)
{
	struct call_msg m;
	int r;

	call_msg_begin(&m, CALL_GET_FD, fd, 0);
	r = request(c, &m, NULL, 0);
	if (r < 0)
		return r;
	return c->fd < 0 ? -EMFILE : take_fd(&c->fd);
}

API bool sandlock_call_is_cancelled(struct sandlock_call *c)
{
	struct call_msg m;

	call_msg_begin(&m, CALL_LOOK, 0, 0);
	return request(c, &m, NULL, 0) < 0;
}

/* -------------------------------------------------------------- threads -- */

static void run_handler(struct sandlock_call *c)
{
	const struct sandlock_handler *h = c->row;
	struct sandlock_action a = { .fd = -1 };
	int r = h->fn(h->data, c, &a);

	/* It may be answered and freed by now. */
	if (r == SANDLOCK_HANDLER_LATER)
		return;
	if (r != 0) {
		if (a.kind == SANDLOCK_ACTION_FD && a.fd >= 0)
			(void)close(a.fd);
		a = (struct sandlock_action){ .fd = -1 };
	}
	(void)sandlock_call_answer(c, &a);
	sandlock_call_free(c);
}

static bool wait_for_work(struct calls *l)
{
	struct timespec until;
	bool late = false;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += IDLE_S;
	l->n_idle++;
	while (!l->first && l->sock >= 0 && !late)
		late = pthread_cond_timedwait(&l->work, &l->lock, &until) ==
		       ETIMEDOUT;
	l->n_idle--;
	return l->first;
}

/* The last thing that it does is to take the place of the one before it. */
static void *work(void *data)
{
	struct calls *l = data;
	struct sandlock_call *c;
	pthread_t before;
	bool join;

	(void)pthread_mutex_lock(&l->lock);
	do {
		while ((c = dequeue(l))) {
			(void)pthread_mutex_unlock(&l->lock);
			run_handler(c);
			(void)pthread_mutex_lock(&l->lock);
		}
	} while (wait_for_work(l));
	join = l->has_last;
	before = l->last_thread;
	l->has_last = true;
	l->last_thread = pthread_self();
	l->n_threads--;
	(void)pthread_cond_signal(&l->ended);
	(void)pthread_mutex_unlock(&l->lock);
	if (join)
		(void)pthread_join(before, NULL);
	return NULL;
}

/* A handler for which there is no thread, and never will be, has failed. */
static void find_thread(struct calls *l)
{
	struct sandlock_call *c = NULL;
	pthread_t thread;

	(void)pthread_mutex_lock(&l->lock);
	if (l->n_queued <= l->n_idle || l->n_threads >= l->max_threads)
		(void)pthread_cond_signal(&l->work);
	else if (quiet_thread_make_deep(&thread, work, l) == 0)
		l->n_threads++;
	else if (l->n_threads == 0)
		c = dequeue(l);
	(void)pthread_mutex_unlock(&l->lock);
	sandlock_call_free(c);
}

/* -------------------------------------------------------------- reading -- */

static void take_call(struct calls *l)
{
	const struct call_msg *m = &l->in;
	struct call_answer eio = { CALL_FAIL, .error = EIO };
	struct sandlock_call *c = NULL;

	if (m->len == sizeof(struct call_made) && m->value >= 0 &&
	    (size_t)m->value < l->n_rows)
		c = call_of(l, m);
	(void)pthread_mutex_lock(&l->lock);
	if (c) {
		open_call(l, c);
		enqueue(l, c);
	} else {
		(void)send_answer(l->sock, m->number, &eio, -1);
	}
	(void)pthread_mutex_unlock(&l->lock);
	if (c)
		find_thread(l);
}

static void take_reply(struct calls *l)
{
	struct call_msg *m = &l->in;
	struct sandlock_call *c;

	(void)pthread_mutex_lock(&l->lock);
	for (c = l->open; c && c->number != m->number; c = c->next)
		;
	if (c && !c->has_reply) {
		c->has_reply = true;
		c->result = m->value;
		c->len = m->len < c->room_len ? m->len : c->room_len;
		if (c->room && c->len)
			memcpy(c->room, m->data, c->len);
		c->fd = take_fd(&m->fd);
		(void)pthread_cond_signal(&c->replied);
	}
	(void)pthread_mutex_unlock(&l->lock);
}

/* What has not begun never will; what runs is waited for. */
static void end(struct calls *l)
{
	struct sandlock_call *queued, *c;

	(void)pthread_mutex_lock(&l->lock);
	l->sock = -1;
	queued = l->first;
	l->first = l->last = NULL;
	l->n_queued = 0;
	while (l->open)
		close_call(l->open);
	(void)pthread_cond_broadcast(&l->work);
	(void)pthread_mutex_unlock(&l->lock);
	while ((c = queued)) {
		queued = c->queue_next;
		sandlock_call_free(c);
	}
	(void)pthread_mutex_lock(&l->lock);
	while (l->n_threads)
		(void)pthread_cond_wait(&l->ended, &l->lock);
	(void)pthread_mutex_unlock(&l->lock);
	if (l->has_last)
		(void)pthread_join(l->last_thread, NULL);
}

void calls_serve(struct calls *l)
{
	int sock = l->sock, r;

	do {
		r = call_msg_recv(sock, &l->in);
		if (r == 1 && l->in.type == CALL_MADE)
			take_call(l);
		else if (r == 1 && l->in.type == CALL_REPLY)
			take_reply(l);
		if (r == 1)
			cleanup_close(&l->in.fd);
	} while (r == 1 || r == -EINTR);
	end(l);
}
