#include "sandbox/asklink.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/quiet_thread.h"
#include "sandbox/create.h"
#include "sandbox/live_limits.h"
#include "supervise/approvals.h"
#include "supervise/denied_paths.h"
#include "supervise/net.h"

CLEANUP_PTR(struct json, json_free);
CLEANUP_PTR(struct json_out, json_out_free);

enum { OPEN_MAX = 4096 };

struct asklink {
	struct approvals *book;
	struct net *net; /* NULL: the network is not shared */
	const struct create *create;
	int sock;
	pthread_t thread;
	/* The thread's own. */
	uint64_t last;		 /* the newest that was sent */
	uint64_t sent[OPEN_MAX]; /* and not closed */
	size_t n_sent;
	uint64_t open[OPEN_MAX]; /* as it is now */
	size_t n_open;
	struct buf out;
	char data[ASKLINK_MAX + 1];
};

/* False at the end. Answers are short, so the embedder always reads on. */
static bool send_text(struct asklink *l, const struct buf *b)
{
	return send(l->sock, b->data, b->len, MSG_NOSIGNAL) >= 0;
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
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	struct asklink *l = data;

	if (l->n_sent == OPEN_MAX)
		return false;
	json_out_object(o);
	json_out_key(o, "ask");
	approval_to_json(i, o);
	json_out_uint_member(o, "deadline_ns", i->deadline_ns);
	json_out_object_end(o);
	if (json_out_end(o, &l->out) < 0)
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
		if (is_open(l, l->sent[i]))
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

/* -------------------------------------------------------------- answers -- */

/* The embedder has looked at the rules. */
static void change_network(struct asklink *l, const struct json *rules,
			   pid_t pid, bool grant)
{
	const char *v[ASKLINK_RULES_MAX];
	struct error err = ERROR_INIT;
	size_t n = 0;
	int r;

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

/* False if it is none. What cannot be read is the least. */
static bool take_limit(struct asklink *l, const struct json *j)
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
	return memory || processes;
}

/* One that comes too late, or twice, changes nothing. */
static void take_answer(struct asklink *l, size_t n)
{
	static const struct json_limits limits = {
		.bytes = ASKLINK_MAX,
		.depth = 4,
		.values = ASKLINK_RULES_MAX + 16,
	};
	auto_ptr(json_free) struct json *j = NULL;
	int64_t id, error;

	if (json_parse(l->data, n, &limits, "answer", &j, NULL) < 0)
		return;
	if (json_get(j, "restrict_network")) {
		change_network(l, json_get(j, "restrict_network"),
			       (pid_t)json_int_or(j, "pid", 0), false);
		return;
	}
	if (json_get(j, "grant_network")) {
		change_network(l, json_get(j, "grant_network"),
			       (pid_t)json_int_or(j, "pid", 0), true);
		return;
	}
	if (json_get(j, "deny_path")) {
		(void)denied_paths_add(l->create->denied_paths,
				       json_str_or(j, "deny_path", ""));
		return;
	}
	if (json_get(j, "allow_path")) {
		denied_paths_remove(l->create->denied_paths,
				    json_str_or(j, "allow_path", ""));
		return;
	}
	if (take_limit(l, j))
		return;
	id = json_int_or(j, "number", 0);
	error = json_int_or(j, "error", 1);
	if (id <= 0 || error < 0 || error >= 4096)
		return;
	(void)approvals_resolve(l->book, (uint64_t)id,
				json_str_or(j, "digest", ""), (int)error,
				"callback", NULL, NULL);
}

static bool receive(struct asklink *l)
{
	ssize_t n = recv(l->sock, l->data, ASKLINK_MAX, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	l->data[n] = '\0';
	take_answer(l, (size_t)n);
	return true;
}

static void *serve(void *data)
{
	struct asklink *l = data;
	struct pollfd p[] = {
		{ .fd = l->sock, .events = POLLIN },
		{ .fd = approvals_fd(l->book), .events = POLLIN },
	};
	uint64_t ticks;
	bool ok = true;

	while (ok) {
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents &&
		    read(p[1].fd, &ticks, sizeof(ticks)) == sizeof(ticks))
			ok = send_questions(l) && send_closed(l);
		if (ok && p[0].revents)
			ok = receive(l);
	}
	approvals_close(l->book);
	return NULL;
}

struct asklink *asklink_start(struct approvals *book, struct net *net,
			      const struct create *c, int sock)
{
	struct asklink *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->book = book;
	l->net = net;
	l->create = c;
	l->sock = sock;
	if (quiet_thread_make(&l->thread, serve, l) < 0) {
		free(l);
		return NULL;
	}
	return l;
}

void asklink_stop(struct asklink *l)
{
	if (!l)
		return;
	(void)shutdown(l->sock, SHUT_RDWR);
	(void)pthread_join(l->thread, NULL);
	buf_done(&l->out);
	free(l);
}
