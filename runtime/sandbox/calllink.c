#include "sandbox/calllink.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/quiet_thread.h"

enum {
	HEADER = offsetof(struct call_msg, data),
	/* No errno of a system call is above, and the kernel's own that make
	 * it restart are. */
	ERRNO_END = 512,
};

void call_msg_begin(struct call_msg *m, enum call_msg_type type, int value,
		    uint64_t number)
{
	m->type = type;
	m->value = value;
	m->number = number;
	m->addr = m->n = 0;
	m->len = 0;
	m->fd = -1;
}

int call_msg_send(int sock, const struct call_msg *m)
{
	return fd_send(sock, m, HEADER + m->len, &m->fd, m->fd >= 0 ? 1 : 0);
}

int call_msg_recv(int sock, struct call_msg *m)
{
	size_t n_fds = 1;
	int fd = -1;
	ssize_t n = fd_recv(sock, m, sizeof(*m), &fd, &n_fds);

	if (n <= 0)
		return (int)n;
	m->fd = n_fds ? fd : -1;
	if (n >= HEADER && (size_t)n - HEADER == m->len)
		return 1;
	cleanup_close(&m->fd);
	return -EPROTO;
}

/* ---------------------------------------------------------------- link -- */

/* A call that is under way; on the stack of its thread. */
struct pending {
	struct pending *prev, *next;
	uint64_t number;
	pthread_cond_t said;
	struct call_msg *msg; /* not taken yet, or NULL */
};

struct calllink {
	int sock;
	void (*kill_fn)(void *data, int sig);
	void *data;
	bool has_thread;
	pthread_t thread;
	struct call_msg in;   /* the thread's own */
	pthread_mutex_t lock; /* of what follows */
	bool is_closed;
	uint64_t last;
	struct pending *first;
};

struct calllink *calllink_new(int sock, void (*kill_fn)(void *data, int sig),
			      void *data)
{
	struct calllink *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->sock = sock;
	l->kill_fn = kill_fn;
	l->data = data;
	if (pthread_mutex_init(&l->lock, NULL)) {
		free(l);
		return NULL;
	}
	return l;
}

static void drop_message(struct call_msg *m)
{
	if (!m)
		return;
	cleanup_close(&m->fd);
	free(m);
}

/* A copy as long as it has to be. */
static struct call_msg *copy_message(struct call_msg *m)
{
	struct call_msg *copy = malloc(HEADER + m->len);

	if (!copy) {
		cleanup_close(&m->fd);
		return NULL;
	}
	memcpy(copy, m, HEADER + m->len);
	return copy;
}

static struct pending *find(const struct calllink *l, uint64_t number)
{
	struct pending *p = l->first;

	while (p && p->number != number)
		p = p->next;
	return p;
}

/* To the thread of its call, if there still is one; a second message before
 * the first is answered is against the rules. False: out of memory. */
static bool deliver(struct calllink *l)
{
	struct call_msg *m = copy_message(&l->in);
	struct pending *p;

	if (!m)
		return false;
	(void)pthread_mutex_lock(&l->lock);
	p = find(l, m->number);
	if (p && !p->msg) {
		p->msg = take_ptr(&m);
		(void)pthread_cond_signal(&p->said);
	}
	(void)pthread_mutex_unlock(&l->lock);
	drop_message(m);
	return true;
}

static void *serve(void *data)
{
	struct calllink *l = data;
	int r;

	do {
		r = call_msg_recv(l->sock, &l->in);
		if (r == 1 && !deliver(l))
			r = -ENOMEM;
	} while (r == 1 || r == -EINTR);
	calllink_close(l);
	return NULL;
}

int calllink_start(struct calllink *l)
{
	int r = quiet_thread_make(&l->thread, serve, l);

	l->has_thread = r == 0;
	return r;
}

void calllink_close(struct calllink *l)
{
	(void)pthread_mutex_lock(&l->lock);
	l->is_closed = true;
	(void)shutdown(l->sock, SHUT_RDWR);
	for (struct pending *p = l->first; p; p = p->next)
		(void)pthread_cond_signal(&p->said);
	(void)pthread_mutex_unlock(&l->lock);
}

void calllink_free(struct calllink *l)
{
	if (!l)
		return;
	calllink_close(l);
	if (l->has_thread)
		(void)pthread_join(l->thread, NULL);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

static void enter(struct calllink *l, struct pending *p)
{
	(void)pthread_cond_init(&p->said, NULL);
	(void)pthread_mutex_lock(&l->lock);
	p->number = ++l->last;
	p->next = l->first;
	if (l->first)
		l->first->prev = p;
	l->first = p;
	(void)pthread_mutex_unlock(&l->lock);
}

static void leave(struct calllink *l, struct pending *p)
{
	(void)pthread_mutex_lock(&l->lock);
	if (p->prev)
		p->prev->next = p->next;
	else
		l->first = p->next;
	if (p->next)
		p->next->prev = p->prev;
	(void)pthread_mutex_unlock(&l->lock);
	drop_message(p->msg);
	(void)pthread_cond_destroy(&p->said);
}

/* The next message about it; NULL: the end. */
static struct call_msg *await(struct calllink *l, struct pending *p)
{
	struct call_msg *m;

	(void)pthread_mutex_lock(&l->lock);
	while (!p->msg && !l->is_closed)
		(void)pthread_cond_wait(&p->said, &l->lock);
	m = take_ptr(&p->msg);
	(void)pthread_mutex_unlock(&l->lock);
	return m;
}

/* ---------------------------------------------------------------- calls -- */

static int send_made(struct calllink *l, const struct pending *p,
		     const struct call *c, unsigned int which)
{
	const struct seccomp_notif *n = call_notification(c);
	const struct call_made made = {
		.id = n->id,
		.pid = (pid_t)n->pid,
		.flags = n->flags,
		.nr = n->data.nr,
		.arch = n->data.arch,
		.instruction_pointer = n->data.instruction_pointer,
		.args = { n->data.args[0], n->data.args[1], n->data.args[2],
			  n->data.args[3], n->data.args[4], n->data.args[5] },
	};
	struct call_msg m;

	call_msg_begin(&m, CALL_MADE, (int)which, p->number);
	m.len = sizeof(made);
	memcpy(m.data, &made, sizeof(made));
	return call_msg_send(l->sock, &m);
}

static int read_string(struct call *c, const struct call_msg *m,
		       struct call_msg *ret)
{
	size_t max = m->n < sizeof(ret->data) ? m->n : sizeof(ret->data);
	int r = max ? call_read_string(c, m->addr, ret->data, max)
		    : -ENAMETOOLONG;

	ret->len = r == 0 ? strlen(ret->data) : 0;
	return r;
}

static int read_bytes(struct call *c, const struct call_msg *m,
		      struct call_msg *ret)
{
	int r = m->n <= sizeof(ret->data)
			? call_read(c, m->addr, ret->data, m->n)
			: -EMSGSIZE;

	ret->len = r == 0 ? m->n : 0;
	return r;
}

static int install(struct call *c, const struct call_msg *m)
{
	return m->fd < 0 ? -EBADF : call_install_fd(c, m->fd, m->value);
}

static int get_fd(struct call *c, const struct call_msg *m,
		  struct call_msg *ret)
{
	ret->fd = call_get_fd(c, m->value);
	return ret->fd < 0 ? ret->fd : 0;
}

static int do_request(struct call *c, const struct call_msg *m,
		      struct call_msg *ret)
{
	switch ((enum call_msg_type)m->type) {
	case CALL_READ:
		return read_bytes(c, m, ret);
	case CALL_READ_STRING:
		return read_string(c, m, ret);
	case CALL_WRITE:
		return call_write(c, m->addr, m->data, m->len);
	case CALL_INSTALL_FD:
		return install(c, m);
	case CALL_GET_FD:
		return get_fd(c, m, ret);
	case CALL_LOOK:
		return call_is_valid(c) ? 0 : -ESRCH;
	case CALL_MADE:
	case CALL_REPLY:
	case CALL_ANSWER:
		break;
	}
	return -EPROTO;
}

static int serve_request(struct calllink *l, struct call *c,
			 const struct call_msg *m)
{
	struct call_msg reply;
	int r;

	call_msg_begin(&reply, CALL_REPLY, 0, m->number);
	reply.value = do_request(c, m, &reply);
	r = call_msg_send(l->sock, &reply);
	cleanup_close(&reply.fd);
	return r;
}

static struct outcome fail_with(int error)
{
	return OUTCOME_FAIL(error > 0 && error < ERRNO_END ? error : EPERM);
}

/* What is no answer denies. */
static struct outcome take_answer(struct calllink *l, struct call_msg *m)
{
	struct call_answer a;

	if (m->len != sizeof(a))
		return OUTCOME_FAIL(EPERM);
	memcpy(&a, m->data, sizeof(a));
	switch (a.kind) {
	case CALL_GO_ON:
		return OUTCOME_GO;
	case CALL_FAIL:
		return fail_with(a.error);
	case CALL_RETURN:
		return OUTCOME_VALUE(a.value);
	case CALL_FD:
		return m->fd < 0 ? OUTCOME_FAIL(EPERM)
				 : OUTCOME_OPEN(take_fd(&m->fd), a.cloexec);
	case CALL_HOLD:
		return OUTCOME_WAIT;
	case CALL_KILL:
		l->kill_fn(l->data, a.signal);
		break;
	}
	return OUTCOME_FAIL(EPERM);
}

struct outcome calllink_ask(struct calllink *l, struct call *c,
			    unsigned int which)
{
	struct pending p = { .msg = NULL };
	struct outcome o = OUTCOME_FAIL(EIO);
	struct call_msg *m;
	bool is_answered = false;

	enter(l, &p);
	if (send_made(l, &p, c, which) < 0) {
		leave(l, &p);
		return o;
	}
	while (!is_answered && (m = await(l, &p))) {
		is_answered = m->type == CALL_ANSWER;
		if (is_answered)
			o = take_answer(l, m);
		else
			(void)serve_request(l, c, m);
		drop_message(m);
	}
	leave(l, &p);
	return o;
}
