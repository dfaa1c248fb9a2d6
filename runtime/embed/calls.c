#include "embed/calls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/quiet_thread.h"
#include "embed/handle.h"
#include "kernel/cpu.h"
#include "sandbox/calllink.h"

enum {
	IDLE_MS = 1000,
	/* So long after it was sent a call may well be over. */
	STALE_NS = 20 * 1000 * 1000,
};

/* Our end of a channel. In the set of @poll_fd while no call is under way. */
struct line {
	struct line *prev, *next; /* of the link */
	int sock;
};

struct sandlock_call {
	struct calls *link;
	struct sandlock_call_info info;
	uint64_t number;
	const struct sandlock_handler *row; /* until it has begun */
	enum sandlock_exception on_exception;
	uint64_t deadline_ns, sent_ns;
	struct line *line; /* NULL: it was answered, or nobody listens */
	bool is_answered;
};

struct calls {
	int sock;    /* where lines come from; borrowed */
	int poll_fd; /* epoll: @sock, free lines, @end_fd */
	int end_fd;  /* eventfd: the run is over */
	const struct sandlock_handler *rows;
	size_t n_rows;
	const struct sandlock_sandbox *sandbox;
	pthread_mutex_t lock; /* of what follows */
	unsigned int refs;
	bool is_over;
	struct line *lines; /* that no call has */
	unsigned int max_threads, n_threads, n_idle;
	pthread_cond_t ended;
	bool has_last; /* of the threads that have ended, to be joined */
	pthread_t last_thread;
};

/* ----------------------------------------------------------------- link -- */

static int add_fd(const struct calls *l, int fd, uint32_t events, void *data)
{
	struct epoll_event e = { .events = events, .data.ptr = data };

	return epoll_ctl(l->poll_fd, EPOLL_CTL_ADD, fd, &e);
}

static void free_link(struct calls *l)
{
	cleanup_close(&l->poll_fd);
	cleanup_close(&l->end_fd);
	(void)pthread_cond_destroy(&l->ended);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

struct calls *calls_new(int sock, const struct sandlock_handler *rows,
			size_t n_rows, unsigned int max_threads)
{
	struct calls *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct calls){
		.sock = sock,
		.rows = rows,
		.n_rows = n_rows,
		.refs = 1,
		.max_threads = max_threads,
	};
	l->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pthread_mutex_init(&l->lock, NULL) ||
	    pthread_cond_init(&l->ended, NULL) || l->poll_fd < 0 ||
	    l->end_fd < 0 || add_fd(l, l->end_fd, EPOLLIN, &l->end_fd) < 0 ||
	    add_fd(l, sock, EPOLLIN | EPOLLONESHOT, l) < 0) {
		free_link(l);
		return NULL;
	}
	return l;
}

void calls_put(struct calls *l)
{
	unsigned int left;

	(void)pthread_mutex_lock(&l->lock);
	left = --l->refs;
	(void)pthread_mutex_unlock(&l->lock);
	if (left == 0)
		free_link(l);
}

/* One thread gets the next event of it. */
static void arm(const struct calls *l, int fd, void *data)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT,
				 .data.ptr = data };

	(void)epoll_ctl(l->poll_fd, EPOLL_CTL_MOD, fd, &e);
}

/* With the lock held, as the next one. */
static void link_line(struct calls *l, struct line *line)
{
	line->prev = NULL;
	line->next = l->lines;
	if (l->lines)
		l->lines->prev = line;
	l->lines = line;
}

static void unlink_line(struct calls *l, struct line *line)
{
	if (line->prev)
		line->prev->next = line->next;
	else
		l->lines = line->next;
	if (line->next)
		line->next->prev = line->prev;
}

static void close_line(struct line *line)
{
	(void)close(line->sock);
	free(line);
}

/* The call that had it is over. */
static void give_back(struct calls *l, struct line *line)
{
	bool over;

	(void)pthread_mutex_lock(&l->lock);
	over = l->is_over;
	if (!over) {
		link_line(l, line);
		arm(l, line->sock, line);
	}
	(void)pthread_mutex_unlock(&l->lock);
	if (over)
		close_line(line);
}

/* ---------------------------------------------------------------- calls -- */

static struct sandlock_call *call_of(struct calls *l, struct line *line,
				     const struct call_msg *m)
{
	struct sandlock_call *c = calloc(1, sizeof(*c));
	struct call_made made;

	if (!c)
		return NULL;
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
	c->deadline_ns = made.deadline_ns;
	c->sent_ns = made.sent_ns;
	if (cpu_is_time())
		cpu_go_to(made.cpu);
	c->number = m->number;
	c->line = line;
	c->row = &l->rows[m->value];
	c->on_exception = c->row->on_exception;
	c->link = l;
	(void)pthread_mutex_lock(&l->lock);
	l->refs++;
	(void)pthread_mutex_unlock(&l->lock);
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

static int send_answer(const struct sandlock_call *c,
		       const struct call_answer *a, int fd)
{
	struct call_msg m;

	call_msg_begin(&m, CALL_ANSWER, 0, c->number);
	m.len = sizeof(*a);
	memcpy(m.data, a, sizeof(*a));
	m.fd = fd;
	return call_msg_send(c->line->sock, &m);
}

/* An fd that cannot be sent (it is none) is an exception. */
static int say(const struct sandlock_call *c, const struct sandlock_action *a)
{
	struct call_answer x = answer_of(c, a);
	int r = send_answer(c, &x, x.kind == CALL_FD ? a->fd : -1);

	if (r == -EBADF) {
		x = exception(c->on_exception);
		r = send_answer(c, &x, -1);
	}
	return r;
}

API int sandlock_call_answer(struct sandlock_call *c,
			     const struct sandlock_action *a)
{
	int r = c->is_answered ? -EALREADY : 0;

	if (r == 0 && (!c->line || say(c, a) < 0))
		r = -ECANCELED;
	if (r == 0)
		c->is_answered = true;
	if (r == 0)
		give_back(c->link, take_ptr(&c->line));
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
	if (c->line)
		close_line(c->line);
	calls_put(c->link);
	free(c);
}

API const struct sandlock_call_info *
sandlock_call_get_info(const struct sandlock_call *c)
{
	return &c->info;
}

/*
 * Sends @m, and has what comes back instead; its data are at most as long as
 * the request wants them. The result of the reply, or -ESRCH.
 */
static int request(struct sandlock_call *c, struct call_msg *m)
{
	int r = c->line ? 0 : -ESRCH;

	m->number = c->number;
	if (r == 0)
		r = call_msg_send(c->line->sock, m);
	if (r == 0)
		do
			r = call_msg_recv(c->line->sock, m);
		while (r == -EINTR);
	else if (r != -EPIPE && r != -ECONNRESET)
		return r;
	if (r == 1 && m->type == CALL_REPLY && m->number == c->number)
		return m->value;
	if (r == 1)
		cleanup_close(&m->fd);
	return -ESRCH;
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
		r = request(c, &m);
		if (r == 0 && m.len != piece)
			r = -EPROTO;
		if (r == 0)
			memcpy(at, m.data, piece);
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
	r = request(c, &m);
	if (r == 0 && m.len >= max)
		r = -EPROTO;
	if (r < 0)
		return r;
	memcpy(data, m.data, m.len);
	data[m.len] = '\0';
	return 0;
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
		at += m.len;
		addr += m.len;
		n -= m.len;
		r = request(c, &m);
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
	return request(c, &m);
}

static int request_fd(struct sandlock_call *c, enum call_msg_type type,
		      int value)
{
	struct call_msg m;
	int r;

	call_msg_begin(&m, type, value, 0);
	r = request(c, &m);
	if (r < 0)
		return r;
	return m.fd < 0 ? -EMFILE : m.fd;
}

API int sandlock_call_get_fd(struct sandlock_call *c, int fd)
{
	return request_fd(c, CALL_GET_FD, fd);
}

API int sandlock_call_open_process(struct sandlock_call *c)
{
	return request_fd(c, CALL_GET_PROCESS, 0);
}

API bool sandlock_call_is_cancelled(struct sandlock_call *c)
{
	struct call_msg m;

	call_msg_begin(&m, CALL_LOOK, 0, 0);
	return request(c, &m) < 0;
}

/* -------------------------------------------------------------- threads -- */

static void run_handler(const struct sandlock_handler *h,
			struct sandlock_call *c)
{
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

static void *work(void *data);

/* Somebody has to be there for the next call while this one is handled. */
static void find_successor(struct calls *l)
{
	pthread_t thread;

	(void)pthread_mutex_lock(&l->lock);
	if (l->n_idle == 0 && l->n_threads < l->max_threads && !l->is_over &&
	    quiet_thread_make_deep(&thread, work, l) == 0) {
		l->n_threads++;
		l->n_idle++;
	}
	(void)pthread_mutex_unlock(&l->lock);
}

/* NULL for what makes no sense. A message is large: off the stack before
 * somebody else's code runs. */
static __attribute__((noinline)) struct sandlock_call *
receive_call(struct calls *l, struct line *line)
{
	struct call_msg m;
	int r;

	do
		r = call_msg_recv(line->sock, &m);
	while (r == -EINTR);
	if (r == 1)
		cleanup_close(&m.fd);
	if (r != 1 || m.type != CALL_MADE || m.value < 0 ||
	    (size_t)m.value >= l->n_rows || m.len != sizeof(struct call_made))
		return NULL;
	return call_of(l, line, &m);
}

/* While it was queued here its time was over, or nobody waits any more. */
static bool is_late(struct sandlock_call *c)
{
	uint64_t now = clock_now_ns();

	return now >= c->deadline_ns ||
	       (now - c->sent_ns >= STALE_NS && sandlock_call_is_cancelled(c));
}

/* What the supervisor has said by then, or is about to. */
static void give_up(struct sandlock_call *c)
{
	const struct sandlock_action late = { .kind = SANDLOCK_ACTION_ERRNO,
					      .error = EIO,
					      .fd = -1 };

	(void)sandlock_call_answer(c, &late);
	sandlock_call_free(c);
}

static void take_call(struct calls *l, struct line *line)
{
	struct sandlock_call *c;

	(void)pthread_mutex_lock(&l->lock);
	unlink_line(l, line);
	(void)pthread_mutex_unlock(&l->lock);
	c = receive_call(l, line);
	if (!c) {
		close_line(line);
		return;
	}
	find_successor(l);
	if (is_late(c))
		give_up(c);
	else
		run_handler(c->row, c);
}

static void end_link(struct calls *l)
{
	const uint64_t one = 1;

	(void)pthread_mutex_lock(&l->lock);
	l->is_over = true;
	(void)pthread_mutex_unlock(&l->lock);
	(void)!write(l->end_fd, &one, sizeof(one));
}

/* Without room for the fd there is none: its calls are EIO. */
static void take_line(struct calls *l)
{
	struct line *line = calloc(1, sizeof(*line));
	size_t n_fds = 1;
	int fd = -1;
	char byte;
	ssize_t n = fd_recv(l->sock, &byte, 1, &fd, &n_fds);

	arm(l, l->sock, l);
	if (n <= 0 || n_fds == 0 || !line) {
		cleanup_close(&fd);
		free(line);
		return;
	}
	line->sock = fd;
	(void)pthread_mutex_lock(&l->lock);
	link_line(l, line);
	if (add_fd(l, fd, EPOLLIN | EPOLLONESHOT, line) < 0) {
		unlink_line(l, line);
		close_line(line);
	}
	(void)pthread_mutex_unlock(&l->lock);
}

/*
 * The next event that is no end, as what it is of; NULL: none for long. What
 * the peer has sent before it has hung up is not looked at any more.
 */
static void *await_event(struct calls *l, int timeout_ms)
{
	struct epoll_event e;
	int n;

	for (;;) {
		n = epoll_wait(l->poll_fd, &e, 1, timeout_ms);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return NULL;
		if (!(e.events & EPOLLHUP))
			return e.data.ptr;
		/* A line alone stays as it is, until the end. */
		if (e.data.ptr == l) {
			end_link(l);
			return &l->end_fd;
		}
	}
}

/*
 * Counted as idle to begin with. Until the end, or where others wait, too,
 * until nothing has come for long.
 */
static void serve(struct calls *l, bool is_first)
{
	handle_calls_back(l->sandbox);
	for (;;) {
		void *what = await_event(l, is_first ? -1 : IDLE_MS);
		bool leave;

		(void)pthread_mutex_lock(&l->lock);
		leave = l->is_over || (!what && l->n_idle > 1);
		if (what || leave)
			l->n_idle--;
		(void)pthread_mutex_unlock(&l->lock);
		if (leave)
			return;
		if (!what)
			continue;
		if (what == l)
			take_line(l);
		else
			take_call(l, what);
		(void)pthread_mutex_lock(&l->lock);
		l->n_idle++;
		(void)pthread_mutex_unlock(&l->lock);
	}
}

/* The last thing that it does is to take the place of the one before it. */
static void *work(void *data)
{
	struct calls *l = data;
	pthread_t before;
	bool join;

	serve(l, false);
	(void)pthread_mutex_lock(&l->lock);
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

/* What has not begun never will; what runs is waited for. */
void calls_serve(struct calls *l, const struct sandlock_sandbox *s)
{
	struct line *line;

	l->sandbox = s;
	(void)pthread_mutex_lock(&l->lock);
	l->n_threads = l->n_idle = 1;
	(void)pthread_mutex_unlock(&l->lock);
	serve(l, true);
	(void)pthread_mutex_lock(&l->lock);
	l->n_threads--;
	while (l->n_threads)
		(void)pthread_cond_wait(&l->ended, &l->lock);
	(void)pthread_mutex_unlock(&l->lock);
	if (l->has_last)
		(void)pthread_join(l->last_thread, NULL);
	while ((line = l->lines)) {
		l->lines = line->next;
		close_line(line);
	}
}
