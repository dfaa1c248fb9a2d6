#include "sandbox/calllink.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "kernel/cpu.h"

enum {
	HEADER = offsetof(struct call_msg, data),
	/* No errno of a system call is above, and the kernel's own that make
	 * it restart are. */
	ERRNO_END = 512,
	/* Each takes an fd of the embedder, too. */
	CHANNELS_MAX = 256,
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

/* ------------------------------------------------------------- channels -- */

struct channel {
	struct channel *next;
	int sock;
	bool is_free;
};

struct calllink {
	int sock;
	void (*kill_fn)(void *data, int sig);
	void *data;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t freed;
	bool is_closed;
	uint64_t last;
	struct channel *first;
	size_t n_channels;
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
	if (pthread_mutex_init(&l->lock, NULL) ||
	    pthread_cond_init(&l->freed, NULL)) {
		free(l);
		return NULL;
	}
	return l;
}

void calllink_close(struct calllink *l)
{
	(void)pthread_mutex_lock(&l->lock);
	l->is_closed = true;
	(void)shutdown(l->sock, SHUT_RDWR);
	for (struct channel *c = l->first; c; c = c->next)
		(void)shutdown(c->sock, SHUT_RDWR);
	(void)pthread_cond_broadcast(&l->freed);
	(void)pthread_mutex_unlock(&l->lock);
}

void calllink_free(struct calllink *l)
{
	struct channel *c;

	if (!l)
		return;
	calllink_close(l);
	while ((c = l->first)) {
		l->first = c->next;
		(void)close(c->sock);
		free(c);
	}
	(void)pthread_cond_destroy(&l->freed);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

/* With the lock held, as the next two. In use. */
static struct channel *make_channel(struct calllink *l)
{
	struct channel *c = calloc(1, sizeof(*c));
	int fds[2];

	if (!c || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		free(c);
		return NULL;
	}
	c->sock = fds[0];
	/* Where it cannot be received its end is closed, which we see. */
	if (fd_send(l->sock, "", 1, &fds[1], 1) < 0) {
		(void)close(fds[0]);
		(void)close(fds[1]);
		free(c);
		return NULL;
	}
	(void)close(fds[1]);
	c->next = l->first;
	l->first = c;
	l->n_channels++;
	return c;
}

static struct channel *find_free(const struct calllink *l)
{
	struct channel *c = l->first;

	while (c && !c->is_free)
		c = c->next;
	return c;
}

/* Waits for one where there are enough; NULL: the end, or no memory. */
static struct channel *take_channel(struct calllink *l, uint64_t *ret_number)
{
	struct channel *c = NULL;

	(void)pthread_mutex_lock(&l->lock);
	while (!l->is_closed && !(c = find_free(l)) &&
	       l->n_channels == CHANNELS_MAX)
		(void)pthread_cond_wait(&l->freed, &l->lock);
	if (l->is_closed)
		c = NULL;
	else if (!c)
		c = make_channel(l);
	if (c)
		c->is_free = false;
	*ret_number = ++l->last;
	(void)pthread_mutex_unlock(&l->lock);
	return c;
}

static void unlink_channel(struct calllink *l, struct channel *c)
{
	struct channel **at = &l->first;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	l->n_channels--;
}

/* One that is not @good cannot be used again. */
static void give_channel(struct calllink *l, struct channel *c, bool good)
{
	(void)pthread_mutex_lock(&l->lock);
	c->is_free = good;
	if (!good)
		unlink_channel(l, c);
	(void)pthread_cond_signal(&l->freed);
	(void)pthread_mutex_unlock(&l->lock);
	if (good)
		return;
	(void)close(c->sock);
	free(c);
}

/* ---------------------------------------------------------------- calls -- */

static int send_made(const struct channel *ch, uint64_t number,
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
		.deadline_ns = call_deadline_ns(c),
		.sent_ns = clock_now_ns(),
		.cpu = sched_getcpu(),
	};
	struct call_msg m;

	call_msg_begin(&m, CALL_MADE, (int)which, number);
	m.len = sizeof(made);
	memcpy(m.data, &made, sizeof(made));
	return call_msg_send(ch->sock, &m);
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

/* Our descriptor, or why there is none. */
static int pass_on(int fd, struct call_msg *ret)
{
	ret->fd = fd;
	return fd < 0 ? fd : 0;
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
		return pass_on(call_get_fd(c, m->value), ret);
	case CALL_GET_PROCESS:
		return pass_on(call_open_process(c), ret);
	case CALL_LOOK:
		return call_is_valid(c) ? 0 : -ESRCH;
	case CALL_MADE:
	case CALL_REPLY:
	case CALL_ANSWER:
		break;
	}
	return -EPROTO;
}

static int serve_request(const struct channel *ch, struct call *c,
			 const struct call_msg *m)
{
	struct call_msg reply;
	int r;

	call_msg_begin(&reply, CALL_REPLY, 0, m->number);
	reply.value = do_request(c, m, &reply);
	r = call_msg_send(ch->sock, &reply);
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
		/* It reaches init first: the caller does nothing until it dies,
		 * too. */
		if (a.signal == SIGKILL)
			return OUTCOME_WAIT;
		break;
	}
	return OUTCOME_FAIL(EPERM);
}

/* Until the answer is there. False: it does not come. */
static bool converse(struct calllink *l, const struct channel *ch,
		     uint64_t number, struct call *c, struct outcome *ret)
{
	struct call_msg m;
	int r;

	for (;;) {
		r = call_msg_recv(ch->sock, &m);
		if (r == -EINTR)
			continue;
		if (r <= 0)
			return false;
		if (m.number != number)
			r = -EPROTO;
		else if (m.type == CALL_ANSWER)
			*ret = take_answer(l, &m);
		else
			r = serve_request(ch, c, &m);
		cleanup_close(&m.fd);
		if (r < 0)
			return false;
		if (m.type == CALL_ANSWER)
			return true;
	}
}

struct outcome calllink_ask(struct calllink *l, struct call *c,
			    unsigned int which)
{
	struct outcome o = OUTCOME_FAIL(EIO);
	uint64_t number;
	struct channel *ch = take_channel(l, &number);
	bool good;

	if (!ch)
		return o;
	if (cpu_is_time())
		cpu_go_to(call_cpu(c));
	/* It may have been waited for. */
	if (call_is_abandoned(c)) {
		give_channel(l, ch, true);
		return o;
	}
	good = send_made(ch, number, c, which) == 0 &&
	       converse(l, ch, number, c, &o);
	give_channel(l, ch, good);
	return o;
}
