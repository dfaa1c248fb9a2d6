/*
 * A callback that decides about system calls: the embedder's end of
 * sandbox/asklink.h.
 *
 * A link is shared by the guest's thread and by approvals that outlive the run;
 * its lock orders answers against the end of the stream. Nobody sends with it
 * held: a supervisor that stands still holds up who tells it something, alone.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quiet_thread.h"
#include "base/utf8.h"
#include "embed/handle.h"
#include "kernel/cpu.h"
#include "sandbox/asklink.h"
#include "sandbox/askslot.h"
#include "spec/net_rule.h"
#include "spec/request.h"

enum {
	CALLBACK_TIMEOUT_MS = 5000,
	PROCESSES_MAX = 4 * 1024 * 1024, /* pid_max of the kernel */
};

CLEANUP_PTR(struct json, json_free);

struct link {
	pthread_mutex_t lock;
	pthread_cond_t sent;
	unsigned int refs, n_sending;
	int sock;
	struct askslot *slot; /* NULL: every answer is a message */
	bool is_over;	      /* the run is */
	struct sandlock_approval *open;
};

struct sandlock_approval {
	struct link *link;
	struct sandlock_approval *prev, *next; /* while it may be answered */
	uint64_t number, deadline_ns;
	bool is_open;	  /* the supervisor waits for it */
	bool is_answered; /* by us */
};

/* What was refused, and waits until no question does. */
struct seen {
	struct buf v[ASKLINK_SEEN_MAX]; /* as event_pack has written them */
	size_t n;
	unsigned int n_done; /* and not told */
};

struct policy {
	struct sandlock_sandbox *sandbox;
	sandlock_policy_fn *fn;
	sandlock_deferred_fn *deferred;
	void *data;
	void (*free_fn)(void *data);
	struct link *link;  /* of this run */
	bool is_restricted; /* what was taken from all cannot be given back */
	pthread_t thread;
	struct seen seen; /* of that thread */
};

struct sandlock_context {
	struct policy *policy;
};

/* ----------------------------------------------------------------- link -- */

static struct link *link_new(int sock)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	if (pthread_mutex_init(&l->lock, NULL)) {
		free(l);
		return NULL;
	}
	(void)pthread_cond_init(&l->sent, NULL);
	l->refs = 1;
	l->sock = sock;
	return l;
}

static void link_put(struct link *l)
{
	unsigned int left;

	(void)pthread_mutex_lock(&l->lock);
	left = --l->refs;
	(void)pthread_mutex_unlock(&l->lock);
	if (left)
		return;
	(void)pthread_cond_destroy(&l->sent);
	(void)pthread_mutex_destroy(&l->lock);
	askslot_free(l->slot);
	free(l);
}

/* With the lock held. */
static void close_approval(struct sandlock_approval *a)
{
	struct link *l = a->link;

	if (!a->is_open)
		return;
	a->is_open = false;
	if (a->prev)
		a->prev->next = a->next;
	else
		l->open = a->next;
	if (a->next)
		a->next->prev = a->prev;
}

/* The supervisor has gone, or is about to: nobody waits any more. After this
 * nobody uses the socket. */
static void link_end(struct link *l)
{
	(void)pthread_mutex_lock(&l->lock);
	l->is_over = true;
	while (l->open)
		close_approval(l->open);
	(void)shutdown(l->sock, SHUT_RDWR);
	while (l->n_sending)
		(void)pthread_cond_wait(&l->sent, &l->lock);
	(void)pthread_mutex_unlock(&l->lock);
}

/* Without the lock. -ECANCELED: the run is over. */
static int link_send(struct link *l, const void *data, size_t n)
{
	bool ok;
	ssize_t r;

	(void)pthread_mutex_lock(&l->lock);
	ok = !l->is_over;
	l->n_sending += ok;
	(void)pthread_mutex_unlock(&l->lock);
	if (!ok)
		return -ECANCELED;
	if (l->slot)
		askslot_count_sent(l->slot, 1);
	/* By any thread of the embedder, with what signals it has. */
	do
		r = send(l->sock, data, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	ok = r >= 0;
	if (!ok && l->slot)
		askslot_count_sent(l->slot, -1);
	(void)pthread_mutex_lock(&l->lock);
	if (!--l->n_sending)
		(void)pthread_cond_signal(&l->sent);
	(void)pthread_mutex_unlock(&l->lock);
	return ok ? 0 : -ECANCELED;
}

static void send_answer(struct link *l, uint64_t number, int error)
{
	struct asklink_answer a = { .kind = ASKLINK_ANSWER,
				    .error = error,
				    .number = number };

	if (!l->slot || !askslot_answer(l->slot, number, error))
		(void)link_send(l, &a, sizeof(a));
}

static int error_of(int verdict)
{
	if (verdict > 0)
		return verdict < 4096 ? verdict : EPERM;
	return verdict == SANDLOCK_VERDICT_ALLOW ||
			       verdict == SANDLOCK_VERDICT_AUDIT
		       ? 0
		       : EPERM;
}

/* ------------------------------------------------------------ approvals -- */

static struct sandlock_approval *approval_new(struct link *l, uint64_t number,
					      uint64_t deadline_ns)
{
	struct sandlock_approval *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->link = l;
	a->number = number;
	a->deadline_ns = deadline_ns;
	a->is_open = true;
	(void)pthread_mutex_lock(&l->lock);
	l->refs++;
	a->next = l->open;
	if (l->open)
		l->open->prev = a;
	l->open = a;
	(void)pthread_mutex_unlock(&l->lock);
	return a;
}

/* With the lock held: why it cannot be answered, or 0. */
static int check(const struct sandlock_approval *a)
{
	if (a->is_answered)
		return -EALREADY;
	if (clock_now_ns() >= a->deadline_ns)
		return -ETIMEDOUT;
	return a->is_open ? 0 : -ECANCELED;
}

API int sandlock_approval_resolve(struct sandlock_approval *a, int verdict)
{
	int r;

	/* Of an event with nothing to decide. */
	if (!a)
		return -EALREADY;
	(void)pthread_mutex_lock(&a->link->lock);
	r = check(a);
	if (r == 0) {
		a->is_answered = true;
		close_approval(a);
	}
	(void)pthread_mutex_unlock(&a->link->lock);
	if (r == 0)
		send_answer(a->link, a->number, error_of(verdict));
	return r;
}

API bool sandlock_approval_is_cancelled(const struct sandlock_approval *a)
{
	int r;

	if (!a)
		return true;
	(void)pthread_mutex_lock(&a->link->lock);
	r = check(a);
	(void)pthread_mutex_unlock(&a->link->lock);
	return r == -ETIMEDOUT || r == -ECANCELED;
}

API void sandlock_approval_free(struct sandlock_approval *a)
{
	if (!a)
		return;
	(void)sandlock_approval_resolve(a, SANDLOCK_VERDICT_DENY);
	(void)pthread_mutex_lock(&a->link->lock);
	close_approval(a);
	(void)pthread_mutex_unlock(&a->link->lock);
	link_put(a->link);
	free(a);
}

/* --------------------------------------------------------------- events -- */

static struct sandlock_event event_of(const struct event_view *v)
{
	return (struct sandlock_event){
		.syscall = v->syscall ? v->syscall : "",
		.category = event_category_name(v->category),
		.pid = v->pid,
		.parent_pid = v->parent_pid,
		.program = v->program,
		.path = v->path,
		.writes = v->writes,
		.host = v->host,
		.port = v->port,
		.protocol = v->protocol,
		.argv = v->argv,
		.n_argv = v->n_argv,
		.is_cut = v->is_cut,
		.denied = v->denied,
		.interpreter = v->interpreter,
	};
}

static void ask_later(struct policy *p, const struct asklink_question *q,
		      const struct sandlock_event *e)
{
	struct sandlock_context ctx = { p };
	struct sandlock_approval *a =
		approval_new(p->link, q->number, q->deadline_ns);

	if (a)
		p->deferred(p->data, e, &ctx, a);
	else
		send_answer(p->link, q->number, ENOMEM);
}

static void ask(struct policy *p, const char *text, size_t n)
{
	auto_(event_view) struct event_view v = { .syscall = NULL };
	struct sandlock_context ctx = { p };
	struct asklink_question q;
	struct sandlock_event e;

	if (n < sizeof(q))
		return;
	memcpy(&q, text, sizeof(q));
	if (cpu_is_time())
		cpu_go_to(q.cpu);
	if (event_unpack(text + sizeof(q), n - sizeof(q), &v) < 0) {
		send_answer(p->link, q.number, ENOMEM);
		return;
	}
	/* Its time may be over, while another one was decided. */
	if (clock_now_ns() >= q.deadline_ns)
		return;
	e = event_of(&v);
	if (!p->deferred) {
		send_answer(p->link, q.number,
			    error_of(p->fn(p->data, &e, &ctx)));
	} else if (v.starts) {
		/* Who could answer waits for the start, maybe. */
		p->deferred(p->data, &e, &ctx, NULL);
		send_answer(p->link, q.number, 0);
	} else {
		ask_later(p, &q, &e);
	}
}

/* There is nothing to decide. */
static void show(struct policy *p, const struct buf *event)
{
	auto_(event_view) struct event_view v = { .syscall = NULL };
	struct sandlock_context ctx = { p };
	struct sandlock_event e;

	if (event_unpack(event->data, event->len, &v) < 0)
		return;
	e = event_of(&v);
	if (p->deferred)
		p->deferred(p->data, &e, &ctx, NULL);
	else
		(void)p->fn(p->data, &e, &ctx);
}

static void send_seen(struct policy *p)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "{\"seen\":%u}", p->seen.n_done);

	(void)link_send(p->link, text, (size_t)n);
	p->seen.n_done = 0;
}

/* One of those that wait. */
static void show_next(struct policy *p)
{
	struct seen *s = &p->seen;
	auto_(buf) struct buf event = s->v[0];

	memmove(s->v, s->v + 1, --s->n * sizeof(s->v[0]));
	show(p, &event);
	if (++s->n_done == ASKLINK_SEEN_MAX / 4 || !s->n)
		send_seen(p);
}

static void withdraw(struct link *l, uint64_t number)
{
	struct sandlock_approval *a;

	(void)pthread_mutex_lock(&l->lock);
	for (a = l->open; a && a->number != number; a = a->next)
		;
	if (a)
		close_approval(a);
	(void)pthread_mutex_unlock(&l->lock);
}

static void keep_seen(struct policy *p, const char *event, size_t n)
{
	struct buf b = BUF_INIT;

	buf_add(&b, event, n);
	if (!buf_failed(&b) && p->seen.n < ASKLINK_SEEN_MAX)
		p->seen.v[p->seen.n++] = b;
	else
		buf_done(&b);
}

static void take_message(struct policy *p, const char *text, size_t n)
{
	static const struct json_limits limits = { .bytes = ASKLINK_MAX,
						   .depth = 8,
						   .values = 16 };
	auto_ptr(json_free) struct json *j = NULL;

	if (*text == ASKLINK_QUESTION)
		ask(p, text, n);
	else if (*text == ASKLINK_SAW)
		keep_seen(p, text + 1, n - 1);
	else if (json_parse(text, n, &limits, "message", &j, NULL) == 0 &&
		 json_get(j, "closed"))
		withdraw(p->link, (uint64_t)json_int_or(j, "closed", 0));
}

/* --------------------------------------------------------------- thread -- */

/* What the supervisor says first. 0 at the end. */
static ssize_t greet(struct link *l)
{
	auto_close int fd = -1;
	size_t n_fds = 1;
	char hello;
	ssize_t n = fd_recv(l->sock, &hello, 1, &fd, &n_fds);

	if (n > 0 && n_fds)
		l->slot = askslot_map(fd);
	return n;
}

static void *serve(void *data)
{
	struct policy *p = data;
	auto_free char *text = malloc(ASKLINK_MAX);
	ssize_t n = text ? greet(p->link) : 0;

	handle_calls_back(p->sandbox);
	/* Questions overtake what was refused. */
	while (n > 0) {
		n = recv(p->link->sock, text, ASKLINK_MAX,
			 p->seen.n ? MSG_DONTWAIT : 0);
		if (n > 0) {
			take_message(p, text, (size_t)n);
		} else if (n < 0 && errno == EAGAIN && p->seen.n) {
			show_next(p);
			n = 1;
		} else if (n < 0 && errno == EINTR) {
			n = 1;
		}
	}
	while (p->seen.n)
		show_next(p);
	link_end(p->link);
	flight_guest_done(p->sandbox);
	return NULL;
}

static int begin(void *data, int sock, struct error *err)
{
	struct policy *p = data;
	int r;

	p->is_restricted = false;
	p->link = link_new(sock);
	if (!p->link)
		return error_set(err, ERR_SYSTEM, ENOMEM, "callback");
	r = quiet_thread_make_deep(&p->thread, serve, p);
	if (r < 0) {
		link_put(take_ptr(&p->link));
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot make a thread for the callback");
	}
	return 0;
}

static void end(void *data)
{
	struct policy *p = data;

	(void)pthread_join(p->thread, NULL);
	link_put(take_ptr(&p->link));
}

static void free_policy(void *data)
{
	struct policy *p = data;

	if (p->free_fn)
		p->free_fn(p->data);
	free(p);
}

/* ------------------------------------------------------------- context -- */

/* In order with answers: what is said before one holds for it. */
static int send_order(struct link *l, const struct buf *b, struct error *err)
{
	/* What is cut is not understood, and would hold for nothing. */
	if (b->len > ASKLINK_MAX)
		return error_say(err, ERR_USAGE, E2BIG,
				 "the network rules are longer than %d bytes",
				 ASKLINK_MAX);
	if (link_send(l, b->data, b->len) < 0)
		return error_say(err, ERR_STATE, ECANCELED, "the run is over");
	return 0;
}

static int write_rules(const char *order, pid_t pid, const char *const *rules,
		       size_t n, struct buf *ret)
{
	struct json_out *o = json_out_new(false);
	int r;

	if (!o)
		return -ENOMEM;
	json_out_object(o);
	json_out_uint_member(o, "pid", (uint64_t)pid);
	json_out_key(o, order);
	json_out_array(o);
	for (size_t i = 0; i < n; i++)
		json_out_str(o, rules[i]);
	json_out_array_end(o);
	json_out_object_end(o);
	r = json_out_end(o, ret);
	json_out_free(o);
	return r;
}

static int check_rules(const char *const *rules, size_t n, struct error *err)
{
	int r = 0;

	if (n > ASKLINK_RULES_MAX)
		return error_say(err, ERR_USAGE, E2BIG,
				 "more than %d network rules at a time",
				 ASKLINK_RULES_MAX);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct net_rule rule;

		r = net_rule_parse(rules[i], NET_RULE_ADDRESS, &rule, err);
		if (r == 0)
			net_rule_done(&rule);
	}
	return r;
}

static int order_network(struct sandlock_context *ctx, const char *order,
			 pid_t pid, const char *const *rules, size_t n,
			 struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r = check_rules(rules, n, err);

	if (r == 0 && (pid < 0 || write_rules(order, pid, rules, n, &b) < 0))
		r = error_set(err, ERR_USAGE, EINVAL, "network rules");
	return r < 0 ? r : send_order(ctx->policy->link, &b, err);
}

API int sandlock_context_restrict_network(struct sandlock_context *ctx,
					  pid_t pid, const char *const *rules,
					  size_t n, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r = order_network(ctx, "restrict_network", pid, rules, n, &e);

	if (r == 0 && pid == 0)
		ctx->policy->is_restricted = true;
	return api_result(r, &e, err);
}

/* Without a restriction all that the request allows can be reached. */
API int sandlock_context_grant_network(struct sandlock_context *ctx, pid_t pid,
				       const char *const *rules, size_t n,
				       struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r;

	if (pid != 0)
		r = order_network(ctx, "grant_network", pid, rules, n, &e);
	else if (ctx->policy->is_restricted)
		r = error_say(&e, ERR_STATE, EPERM,
			      "the network was restricted, which is for good");
	else
		r = check_rules(rules, n, &e);
	return api_result(r, &e, err);
}

static int order_limit(struct sandlock_context *ctx, const char *order,
		       uint64_t value, uint64_t max, struct sandlock_error *err)
{
	struct json_out *o = json_out_new(false);
	auto_(buf) struct buf b = BUF_INIT;
	struct error e = ERROR_INIT;
	int r = 0;

	if (value == 0 || value > max)
		r = error_say(&e, ERR_USAGE, EINVAL,
			      "%s: %llu is not between 1 and %llu", order,
			      (unsigned long long)value,
			      (unsigned long long)max);
	json_out_object(o);
	json_out_uint_member(o, order, value);
	json_out_object_end(o);
	if (json_out_end(o, &b) < 0 && r == 0)
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "%s", order);
	json_out_free(o);
	if (r == 0)
		r = send_order(ctx->policy->link, &b, &e);
	return api_result(r, &e, err);
}

API int sandlock_context_restrict_max_memory(struct sandlock_context *ctx,
					     uint64_t bytes,
					     struct sandlock_error *err)
{
	return order_limit(ctx, "restrict_max_memory", bytes, INT64_MAX, err);
}

API int sandlock_context_restrict_max_processes(struct sandlock_context *ctx,
						uint32_t n,
						struct sandlock_error *err)
{
	return order_limit(ctx, "restrict_max_processes", n, PROCESSES_MAX,
			   err);
}

static int order_path(struct sandlock_context *ctx, const char *order,
		      const char *path, struct sandlock_error *err)
{
	struct json_out *o = json_out_new(false);
	auto_(buf) struct buf b = BUF_INIT;
	struct error e = ERROR_INIT;
	int r = 0;

	if (*path != '/' || !utf8_is_valid(path, strlen(path)) ||
	    strlen(path) >= PATH_MAX)
		r = error_say(&e, ERR_USAGE, EINVAL,
			      "'%.100s' is no absolute path in UTF-8", path);
	json_out_object(o);
	json_out_str_member(o, order, path);
	json_out_object_end(o);
	if (r == 0 && json_out_end(o, &b) < 0)
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "%s", order);
	json_out_free(o);
	if (r == 0)
		r = send_order(ctx->policy->link, &b, &e);
	return api_result(r, &e, err);
}

API int sandlock_context_deny_path(struct sandlock_context *ctx,
				   const char *path, struct sandlock_error *err)
{
	return order_path(ctx, "deny_path", path, err);
}

API int sandlock_context_allow_path(struct sandlock_context *ctx,
				    const char *path,
				    struct sandlock_error *err)
{
	return order_path(ctx, "allow_path", path, err);
}

/* ------------------------------------------------------------------ API -- */

static int set_policy(struct sandlock_sandbox *s, const struct policy *from,
		      struct error *err)
{
	struct request *q = s->request;
	struct policy *p;
	int r;

	if (s->guests[GUEST_POLICY].begin || s->state != SANDLOCK_SANDBOX_NEW)
		return error_say(err, ERR_STATE, EBUSY,
				 "a policy is set once, before the first run");
	r = request_set(q, "ask.by", "callback", "policy", err);
	if (r == 0 && from->fn && !q->ask_timeout_ms)
		r = request_set(q, "ask.timeout", "5", "policy", err);
	if (r < 0)
		return r;
	p = malloc(sizeof(*p));
	if (!p)
		return error_set(err, ERR_SYSTEM, ENOMEM, "policy");
	*p = *from;
	s->guests[GUEST_POLICY] = (struct guest){ begin, end, free_policy, p };
	return 0;
}

static int set_in_turn(struct sandlock_sandbox *s, const struct policy *from,
		       struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r;

	r = handle_enter(s, &e);
	if (r == 0) {
		r = set_policy(s, from, &e);
		handle_finish(s);
	}
	if (r < 0 && from->free_fn)
		from->free_fn(from->data);
	return api_result(r, &e, err);
}

API int sandlock_sandbox_set_policy(struct sandlock_sandbox *s,
				    sandlock_policy_fn *fn, void *data,
				    void (*free_fn)(void *data),
				    struct sandlock_error *err)
{
	const struct policy p = {
		.sandbox = s, .fn = fn, .data = data, .free_fn = free_fn
	};

	return set_in_turn(s, &p, err);
}

API int sandlock_sandbox_set_deferred_policy(struct sandlock_sandbox *s,
					     sandlock_deferred_fn *fn,
					     void *data,
					     void (*free_fn)(void *data),
					     struct sandlock_error *err)
{
	const struct policy p = {
		.sandbox = s, .deferred = fn, .data = data, .free_fn = free_fn
	};

	return set_in_turn(s, &p, err);
}
