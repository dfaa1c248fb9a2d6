#include "sandbox/asklink.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quiet_thread.h"
#include "kernel/pidfd.h"
#include "sandbox/askslot.h"
#include "sandbox/audit.h"
#include "sandbox/create.h"
#include "sandbox/live_limits.h"
#include "supervise/act.h"
#include "supervise/approvals.h"
#include "supervise/denials.h"
#include "supervise/denied_paths.h"
#include "supervise/net.h"

CLEANUP_PTR(struct json, json_free);

enum {
	OPEN_MAX = 4096,
	/* One that waits is given up after one to two naps; by then it is no
	 * receiver any more. */
	NAP_MS = 1,
	NAPS_MAX = 20,
	PATIENCE_MAX = 64,
	END_GRACE_MS = 1000,
};

struct asklink {
	struct approvals *book;
	struct net *net; /* NULL: the network is not shared */
	struct audit *audit;
	const struct create *create;
	int sock;
	struct askslot *slot; /* NULL: every answer is a message */
	int wake_fd;	      /* our thread has to look */
	pthread_t thread;
	/*
	 * Who asks reads the answer by itself; our thread, unless it has slept
	 * for long, only sees the end of the stream. Else it reads.
	 */
	atomic_bool is_quick;
	/* How many questions are not waited for before one is, again; doubled
	 * when that was in vain. */
	atomic_uint patience;
	pthread_mutex_t lock; /* of what follows, and of reading */
	unsigned int lost;
	uint64_t last;		 /* the newest that was sent */
	uint64_t sent[OPEN_MAX]; /* and not closed */
	size_t n_sent;
	uint64_t open[OPEN_MAX]; /* as it is now */
	size_t n_open;
	uint32_t n_received;
	struct buf out;
	char data[ASKLINK_MAX];
	/* Who waits for an answer, how often somebody did, and what our thread
	 * saw of that. */
	atomic_bool is_watched;
	pthread_mutex_t wait_lock;
	pthread_t waiter;
	bool is_waiting;
	unsigned int turns, seen, naps;
	/* What was refused: messages that wait to be sent, and how many were
	 * sent and not looked at. */
	pthread_mutex_t saw_lock;
	struct buf saw[ASKLINK_SEEN_MAX];
	size_t n_saw, n_unseen;
};

/* What the book tells comes of what this thread does, and sees to. */
static _Thread_local bool is_own;

static void wake(struct asklink *l)
{
	const uint64_t one = 1;

	(void)fd_write_full(l->wake_fd, &one, sizeof(one));
}

static void told(void *data, const struct approval_info *i)
{
	if (!is_own)
		wake(data);
}

static bool receive(struct asklink *l, int flags);

/*
 * False at the end. An embedder that gives many orders at once does not read
 * meanwhile: while there is no room we do, else both would wait for good.
 */
static bool send_text(struct asklink *l, const struct buf *b)
{
	struct pollfd p = { .fd = l->sock, .events = POLLIN | POLLOUT };

	while (send(l->sock, b->data, b->len, MSG_NOSIGNAL | MSG_DONTWAIT) <
	       0) {
		if (errno != EAGAIN && errno != EINTR)
			return false;
		if (poll(&p, 1, -1) > 0 && p.revents & POLLIN &&
		    !receive(l, MSG_DONTWAIT))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------ questions -- */

static bool note_open(void *data, const struct approval_info *i)
{
	struct asklink *l = data;

	if (l->n_open < OPEN_MAX)
		l->open[l->n_open++] = i->id;
	return true;
}

/* The next one that was not sent; sending under the book's lock could wait. */
static bool write_next(void *data, const struct approval_info *i)
{
	struct asklink_question q = { .kind = ASKLINK_QUESTION,
				      .cpu = sched_getcpu(),
				      .number = i->id,
				      .deadline_ns = i->deadline_ns };
	struct asklink *l = data;

	if (l->n_sent == OPEN_MAX)
		return false;
	buf_add(&l->out, &q, sizeof(q));
	event_pack(i->event, &l->out);
	if (buf_failed(&l->out))
		buf_clear(&l->out);
	l->last = i->id;
	l->sent[l->n_sent++] = i->id;
	return false;
}

static bool send_questions(struct asklink *l)
{
	for (;;) {
		buf_clear(&l->out);
		approvals_each(l->book, l->last, false, write_next, l);
		if (!l->out.len)
			return true;
		if (!send_text(l, &l->out))
			return false;
	}
}

static bool is_open(const struct asklink *l, uint64_t id)
{
	for (size_t i = 0; i < l->n_open; i++)
		if (l->open[i] == id)
			return true;
	return false;
}

static bool send_closed(struct asklink *l)
{
	l->n_open = 0;
	approvals_each(l->book, 0, false, note_open, l);
	for (size_t i = l->n_sent; i-- > 0;) {
		/* Answers that were read meanwhile have made it shorter. */
		if (i >= l->n_sent || is_open(l, l->sent[i]))
			continue;
		buf_clear(&l->out);
		buf_printf(&l->out, "{\"closed\":%llu}",
			   (unsigned long long)l->sent[i]);
		l->sent[i] = l->sent[--l->n_sent];
		if (!send_text(l, &l->out))
			return false;
	}
	return true;
}

/* Who answers does not have to be told. */
static void forget_sent(struct asklink *l, uint64_t id)
{
	for (size_t i = 0; i < l->n_sent; i++)
		if (l->sent[i] == id) {
			l->sent[i] = l->sent[--l->n_sent];
			return;
		}
}

/* ------------------------------------------------------- what was refused --
 */

static bool has_room(void *data)
{
	struct asklink *l = data;
	bool ret;

	(void)pthread_mutex_lock(&l->saw_lock);
	ret = l->n_saw + l->n_unseen < ASKLINK_SEEN_MAX;
	(void)pthread_mutex_unlock(&l->saw_lock);
	return ret;
}

static void see(void *data, const struct event *e)
{
	struct asklink *l = data;
	auto_(buf) struct buf b = BUF_INIT;

	buf_add_char(&b, ASKLINK_SAW);
	event_pack(e, &b);
	(void)pthread_mutex_lock(&l->saw_lock);
	if (!buf_failed(&b) && l->n_saw + l->n_unseen < ASKLINK_SEEN_MAX) {
		l->saw[l->n_saw++] = b;
		b = (struct buf)BUF_INIT;
	}
	(void)pthread_mutex_unlock(&l->saw_lock);
	wake(l);
}

/* False if there is none. Counted as sent. */
static bool next_saw(struct asklink *l, struct buf *ret)
{
	bool found;

	(void)pthread_mutex_lock(&l->saw_lock);
	found = l->n_saw;
	if (found) {
		*ret = l->saw[0];
		memmove(l->saw, l->saw + 1, --l->n_saw * sizeof(*l->saw));
		l->n_unseen++;
	}
	(void)pthread_mutex_unlock(&l->saw_lock);
	return found;
}

static void count_seen(struct asklink *l, int64_t n)
{
	(void)pthread_mutex_lock(&l->saw_lock);
	if (n > 0)
		l->n_unseen -=
			(size_t)n < l->n_unseen ? (size_t)n : l->n_unseen;
	(void)pthread_mutex_unlock(&l->saw_lock);
}

/* Where there is no room for one it is lost: nothing waits behind it. */
static void send_saw(struct asklink *l)
{
	struct buf b;

	while (next_saw(l, &b)) {
		if (send(l->sock, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT) <
		    0)
			count_seen(l, 1);
		buf_done(&b);
	}
}

/* -------------------------------------------------------------- answers -- */

/* The embedder has looked at the rules. */
static void change_network(struct asklink *l, const struct json *rules,
			   pid_t pid, bool grant)
{
	const char *v[ASKLINK_RULES_MAX];
	struct error err = ERROR_INIT;
	size_t n = 0;
	int r;

	/* Of a bundle that was not judged: it reaches what it reaches. */
	if (!l->net && !l->create->plan->host && !grant)
		(void)pidfd_signal(l->create->pidfd, SIGKILL);
	if (!l->net || rules->type != JSON_ARRAY)
		return;
	for (size_t i = 0; i < rules->n && n < ASKLINK_RULES_MAX; i++)
		if (rules->items[i].type == JSON_STRING)
			v[n++] = rules->items[i].text;
	if (grant) {
		(void)net_grant(l->net, pid, v, n, &err);
		return;
	}
	r = net_restrict(l->net, pid, v, n, &err);
	/* No room for it: better no network than one without the rules. */
	if (r < 0 && r != -ESRCH)
		(void)net_restrict(l->net, 0, NULL, 0, &err);
}

/* What cannot be read is the least. */
static void take_limit(struct asklink *l, const struct json *j)
{
	const struct json *memory = json_get(j, "restrict_max_memory");
	const struct json *processes = json_get(j, "restrict_max_processes");
	uint64_t v = 1;

	if (memory && (json_uint64(memory, &v) < 0 || !v))
		v = 1;
	if (memory)
		live_limits_memory(l->create->limits, v);
	else if (processes)
		live_limits_processes(
			l->create->limits,
			(uint32_t)json_int_or(j, "restrict_max_processes", 1));
}

static void take_order(struct asklink *l, size_t n)
{
	static const struct json_limits limits = {
		.bytes = ASKLINK_MAX,
		.depth = 4,
		.values = ASKLINK_RULES_MAX + 16,
	};
	auto_ptr(json_free) struct json *j = NULL;

	if (json_parse(l->data, n, &limits, "order", &j, NULL) < 0)
		return;
	/* By who asks, maybe. */
	act_settle();
	if (json_get(j, "seen"))
		count_seen(l, json_int_or(j, "seen", 0));
	else if (json_get(j, "restrict_network"))
		change_network(l, json_get(j, "restrict_network"),
			       (pid_t)json_int_or(j, "pid", 0), false);
	else if (json_get(j, "grant_network"))
		change_network(l, json_get(j, "grant_network"),
			       (pid_t)json_int_or(j, "pid", 0), true);
	else if (json_get(j, "deny_path"))
		(void)denied_paths_add(l->create->denied_paths,
				       json_str_or(j, "deny_path", ""));
	else if (json_get(j, "allow_path"))
		denied_paths_remove(l->create->denied_paths,
				    json_str_or(j, "allow_path", ""));
	else
		take_limit(l, j);
}

/* One that comes too late, or twice, changes nothing. */
static void resolve(struct asklink *l, uint64_t number, int error)
{
	is_own = true;
	if (approvals_resolve_by_program(l->book, number, NULL, error,
					 "callback", NULL, NULL) == 0)
		forget_sent(l, number);
	is_own = false;
}

static void take_answer(struct asklink *l, size_t n)
{
	struct asklink_answer a;

	if (n != sizeof(a))
		return;
	memcpy(&a, l->data, sizeof(a));
	if (a.error >= 0 && a.error < 4096)
		resolve(l, a.number, a.error);
}

static bool receive(struct asklink *l, int flags)
{
	ssize_t n = recv(l->sock, l->data, ASKLINK_MAX, flags);

	if (n < 0)
		return flags && (errno == EAGAIN || errno == EINTR);
	if (n == 0)
		return false;
	l->n_received++;
	if (*l->data == ASKLINK_ANSWER)
		take_answer(l, (size_t)n);
	else
		take_order(l, (size_t)n);
	return true;
}

/* --------------------------------------------------------------- asking -- */

/*
 * Most callbacks answer at once. Then who asks sends the question and waits for
 * the answer, which saves every change of threads on our side. Only while
 * nothing else is open, so that no other answer can come.
 */
static bool begin_quick(struct asklink *l)
{
	unsigned int n = atomic_load(&l->patience);

	if (n) {
		(void)atomic_compare_exchange_strong(&l->patience, &n, n - 1);
		return false;
	}
	if (pthread_mutex_trylock(&l->lock))
		return false;
	if (!l->n_sent)
		return true;
	(void)pthread_mutex_unlock(&l->lock);
	return false;
}

/*
 * Whatever was sent before an answer was left. It was counted before it was
 * sent, so what is counted and not there yet comes from somebody else.
 */
static bool receive_sent(struct asklink *l)
{
	uint32_t left = askslot_sent(l->slot) - l->n_received;
	uint32_t before;

	for (; left; left--) {
		before = l->n_received;
		if (!receive(l, MSG_DONTWAIT))
			return false;
		if (l->n_received == before)
			break;
	}
	return true;
}

static bool take_left_answer(struct asklink *l, uint64_t number)
{
	int error;

	if (!askslot_wait(l->slot, number, &error) || !receive_sent(l))
		return false;
	resolve(l, number, error);
	return true;
}

static void set_waiting(struct asklink *l, bool waits)
{
	(void)pthread_mutex_lock(&l->wait_lock);
	l->waiter = pthread_self();
	l->is_waiting = waits;
	l->turns += waits;
	(void)pthread_mutex_unlock(&l->wait_lock);
}

/*
 * Without a timer of its own: to set one costs more than all else here. Our
 * thread looks every millisecond, and makes recv(2) return.
 */
static bool wait_quickly(struct asklink *l, struct approval_wait *w)
{
	bool ok = true;
	int error;

	set_waiting(l, true);
	if (!atomic_exchange(&l->is_watched, true))
		wake(l);
	while (ok && approval_look(w, &error) == APPROVAL_WAITING)
		ok = l->slot ? take_left_answer(l, approval_id(w))
			     : receive(l, 0);
	set_waiting(l, false);
	return ok;
}

/* How long our thread sleeps, in ms: -1 until it is woken. */
static int watch(struct asklink *l)
{
	bool go_on;

	(void)pthread_mutex_lock(&l->wait_lock);
	if (l->is_waiting && l->turns == l->seen)
		(void)pthread_kill(l->waiter, SIGURG);
	l->naps = l->is_waiting || l->turns != l->seen ? 0 : l->naps + 1;
	l->seen = l->turns;
	go_on = l->naps < NAPS_MAX;
	/* From here on who waits wakes us. */
	if (!go_on)
		atomic_store(&l->is_watched, false);
	(void)pthread_mutex_unlock(&l->wait_lock);
	return go_on ? NAP_MS : -1;
}

/* With the lock held. */
static void ask_quickly(struct asklink *l, struct approval_wait *w)
{
	if (!atomic_exchange(&l->is_quick, true))
		wake(l);
	if (l->slot)
		askslot_open(l->slot, approval_id(w));
	if (send_questions(l) && wait_quickly(l, w)) {
		l->lost = 0;
		/* Of somebody who did not ask quickly. */
		if (l->n_sent) {
			atomic_store(&l->is_quick, false);
			wake(l);
		}
		return;
	}
	l->lost = l->lost < PATIENCE_MAX / 2 ? 2 * l->lost + 1 : PATIENCE_MAX;
	atomic_store(&l->patience, l->lost);
	atomic_store(&l->is_quick, false);
	wake(l);
}

int asklink_join(void *data, const struct event *e, const char *rule,
		 uint64_t deadline_ns, struct approval_wait *w)
{
	struct asklink *l = data;
	bool quick = begin_quick(l);
	int r;

	is_own = quick;
	r = approval_join(l->book, e, rule, deadline_ns, w);
	is_own = false;
	if (quick && r == 0)
		ask_quickly(l, w);
	if (quick)
		(void)pthread_mutex_unlock(&l->lock);
	return r;
}

static bool serve_once(struct asklink *l, const struct pollfd p[2])
{
	uint64_t ticks;
	bool ok = true;

	/* Who waits has it: we go on watching that. */
	if (pthread_mutex_trylock(&l->lock)) {
		(void)poll(NULL, 0, NAP_MS);
		return true;
	}
	if (p[1].revents && read(p[1].fd, &ticks, sizeof(ticks)) > 0)
		ok = send_questions(l) && send_closed(l);
	if (ok && p[1].revents)
		send_saw(l);
	if (ok && p[0].revents)
		ok = receive(l, MSG_DONTWAIT);
	/* Nobody else reads what is answered to these. */
	if (l->n_sent)
		atomic_store(&l->is_quick, false);
	(void)pthread_mutex_unlock(&l->lock);
	return ok;
}

static void *serve(void *data)
{
	struct asklink *l = data;
	struct pollfd p[] = {
		{ .fd = l->sock },
		{ .fd = l->wake_fd, .events = POLLIN },
	};
	bool ok = true;

	while (ok) {
		int ms = watch(l);

		/* Who sleeps for long is the one to hear of orders that come
		 * behind an answer. */
		p[0].events = ms >= 0 && atomic_load(&l->is_quick) ? 0 : POLLIN;
		approvals_catch_up(l->book);
		audit_flush(l->audit);
		if (poll(p, 2, ms) > 0)
			ok = serve_once(l, p);
	}
	/* When the embedder has died the sandbox is killed, by others: until
	 * then nobody is to go on with a denial. */
	(void)pidfd_wait(l->create->pidfd, END_GRACE_MS);
	approvals_close(l->book);
	return NULL;
}

static void free_link(struct asklink *l)
{
	while (l->n_saw)
		buf_done(&l->saw[--l->n_saw]);
	(void)pthread_mutex_destroy(&l->saw_lock);
	cleanup_close(&l->wake_fd);
	(void)pthread_mutex_destroy(&l->lock);
	(void)pthread_mutex_destroy(&l->wait_lock);
	buf_done(&l->out);
	askslot_free(l->slot);
	free(l);
}

static void say_hello(struct asklink *l)
{
	const char hello = ASKLINK_HELLO;
	auto_close int fd = -1;

	(void)askslot_make(&l->slot, &fd);
	(void)fd_send(l->sock, &hello, 1, &fd, fd >= 0);
}

struct asklink *asklink_start(struct approvals *book, struct net *net,
			      struct audit *audit, const struct create *c,
			      int sock)
{
	struct asklink *l = calloc(1, sizeof(*l));

	if (!l || pthread_mutex_init(&l->lock, NULL) ||
	    pthread_mutex_init(&l->saw_lock, NULL) ||
	    pthread_mutex_init(&l->wait_lock, NULL)) {
		free(l);
		return NULL;
	}
	l->book = book;
	l->net = net;
	l->create = c;
	l->audit = audit;
	l->sock = sock;
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0 || approvals_tell(book, told, l) < 0) {
		free_link(l);
		return NULL;
	}
	say_hello(l);
	if (quiet_thread_make(&l->thread, serve, l) < 0) {
		approvals_untell(book, l);
		free_link(l);
		return NULL;
	}
	audit_set_lazy(audit);
	denials_observe(c->denials,
			&(struct denials_observer){
				.data = l, .has_room = has_room, .see = see });
	return l;
}

void asklink_stop(struct asklink *l)
{
	if (!l)
		return;
	denials_observe(l->create->denials, NULL);
	(void)pthread_mutex_lock(&l->lock);
	send_saw(l);
	(void)pthread_mutex_unlock(&l->lock);
	(void)shutdown(l->sock, SHUT_RDWR);
	(void)pthread_join(l->thread, NULL);
	approvals_untell(l->book, l);
	free_link(l);
}
