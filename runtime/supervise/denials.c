#include "supervise/denials.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/utc.h"
#include "policy/event.h"
#include "supervise/ask.h"
#include "supervise/handler.h"

CLEANUP_PTR(struct json_out, json_out_free);

enum { COMM_MAX = 16, ERRNO_MAX = 256 };

struct record {
	struct denial_record r; /* its strings are in @text and @comm */
	char comm[COMM_MAX];
	char text[];
};

struct denials {
	pthread_mutex_t lock;
	/* A ring: the oldest is v[begin % DENIALS_MAX]. */
	struct record *v[DENIALS_MAX];
	size_t begin, n;
	uint64_t numbers, dropped;
	denials_told_fn *told;
	void *told_data;
	struct denials_observer observer;
};

struct denials *denials_new(void)
{
	struct denials *d = calloc(1, sizeof(*d));

	if (d)
		(void)pthread_mutex_init(&d->lock, NULL);
	return d;
}

static struct record **slot_of(struct denials *d, size_t i)
{
	return &d->v[(d->begin + i) % DENIALS_MAX];
}

void denials_free(struct denials *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n; i++)
		free(*slot_of(d, i));
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

static size_t room_for(const char *s, size_t max)
{
	return s ? strnlen(s, max) + 1 : 0;
}

/* What is longer than @max loses its end, which shows. */
static const char *put(char **at, const char *s, size_t max)
{
	static const char cut[] = "...";
	const char *ret = *at;
	size_t n;

	if (!s)
		return NULL;
	n = strnlen(s, max + 1);
	if (n > max) {
		n = max;
		memcpy(*at, s, n - strlen(cut));
		memcpy(*at + n - strlen(cut), cut, strlen(cut));
	} else {
		memcpy(*at, s, n);
	}
	(*at)[n] = '\0';
	*at += n + 1;
	return ret;
}

static struct record *new_record(const struct denial *x)
{
	size_t room = room_for(x->code, DENIAL_TEXT_MAX) +
		      room_for(x->call, DENIAL_TEXT_MAX) +
		      room_for(x->object, DENIAL_OBJECT_MAX) +
		      room_for(x->rule, DENIAL_TEXT_MAX) +
		      room_for(x->where, DENIAL_TEXT_MAX) +
		      room_for(x->remedy, DENIAL_TEXT_MAX);
	struct record *r = calloc(1, sizeof(*r) + room);
	struct denial *w;
	char *at;

	if (!r)
		return NULL;
	at = r->text;
	w = &r->r.what;
	r->r.program = r->comm;
	w->error = x->error;
	w->code = put(&at, x->code, DENIAL_TEXT_MAX);
	w->call = put(&at, x->call, DENIAL_TEXT_MAX);
	w->object = put(&at, x->object, DENIAL_OBJECT_MAX);
	w->rule = put(&at, x->rule, DENIAL_TEXT_MAX);
	w->where = put(&at, x->where, DENIAL_TEXT_MAX);
	w->remedy = put(&at, x->remedy, DENIAL_TEXT_MAX);
	return r;
}

static void of_limit(struct denial_of_limit *d, const char *code,
		     const char *option, uint64_t n)
{
	(void)snprintf(d->rule, sizeof(d->rule), "%s %" PRIu64, code, n);
	(void)snprintf(d->remedy, sizeof(d->remedy), "%s %" PRIu64, option,
		       2 * n);
	d->what = (struct denial){
		.code = code,
		.rule = d->rule,
		.remedy = d->remedy,
	};
}

void denial_of_memory(struct denial_of_limit *ret, uint64_t n)
{
	of_limit(ret, "limits.memory", "--max-memory", n);
	ret->what.call = "memory";
	ret->what.error = ENOMEM;
}

void denial_of_disk(struct denial_of_limit *ret, uint64_t n)
{
	of_limit(ret, "limits.disk", "--quota", n);
	ret->what.call = "write";
	ret->what.error = EDQUOT;
}

void denial_of_processes(struct denial_of_limit *ret, uint64_t n)
{
	of_limit(ret, "limits.processes", "--max-processes", n);
	ret->what.call = "fork";
	ret->what.error = EAGAIN;
}

/* The name of the program; it may have gone by now. */
static void read_comm(pid_t pid, char ret[COMM_MAX])
{
	auto_(buf) struct buf b = BUF_INIT;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	(void)fd_read_file(AT_FDCWD, path, 64, &b);
	(void)snprintf(ret, COMM_MAX, "%.*s", (int)strcspn(buf_str(&b), "\n"),
		       buf_str(&b));
}

static bool is_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same(const struct denial_record *p,
		    const struct denial_record *q)
{
	const struct denial *a = &p->what, *b = &q->what;

	return a->error == b->error && is_equal(a->object, b->object) &&
	       is_equal(a->call, b->call) && is_equal(a->code, b->code) &&
	       is_equal(a->rule, b->rule) && is_equal(a->where, b->where) &&
	       is_equal(a->remedy, b->remedy) &&
	       is_equal(p->program, q->program);
}

static void write_record(struct json_out *o, const struct denial_record *r)
{
	const struct denial *w = &r->what;

	json_out_object(o);
	json_out_uint_member(o, "id", r->id);
	json_out_str_member(o, "code", w->code);
	json_out_str_member(o, "call", w->call);
	json_out_str_member(o, "errno",
			    w->error ? strerrorname_np(w->error) : NULL);
	json_out_bytes_member(o, "object", w->object);
	json_out_bytes_member(o, "program", *r->program ? r->program : NULL);
	if (r->pid)
		json_out_int_member(o, "pid", r->pid);
	json_out_bytes_member(o, "rule", w->rule);
	json_out_bytes_member(o, "where", w->where);
	json_out_bytes_member(o, "remedy", w->remedy);
	json_out_uint_member(o, "count", r->count);
	utc_member(o, "first", &r->first, 3);
	utc_member(o, "last", &r->last, 3);
	json_out_object_end(o);
}

static void read_time(const struct json *j, const char *key,
		      struct timespec *ret)
{
	struct tm tm = { .tm_isdst = 0 };
	const char *end =
		strptime(json_str_or(j, key, ""), "%Y-%m-%dT%H:%M:%S", &tm);

	*ret = (struct timespec){ .tv_sec = end ? timegm(&tm) : 0 };
	if (end && *end == '.')
		ret->tv_nsec = strtol(end + 1, NULL, 10) % 1000 * 1000000;
}

static int read_errno(const char *name)
{
	if (!name)
		return 0;
	for (int e = 1; e < ERRNO_MAX; e++) {
		const char *known = strerrorname_np(e);

		if (known && strcmp(known, name) == 0)
			return e;
	}
	return EPERM;
}

/* As it can be shown, where it is no text. */
static const char *read_name(const struct json *j, const char *key)
{
	const struct json *v = json_get(j, key);

	if (v && v->type == JSON_STRING)
		return v->text;
	return json_str_or(v, "display", NULL);
}

void denial_from_json(const struct json *j, struct denial_record *ret)
{
	*ret = (struct denial_record){
		.what = {
			.code = json_str_or(j, "code", ""),
			.call = json_str_or(j, "call", ""),
			.error = read_errno(json_str_or(j, "errno", NULL)),
			.object = read_name(j, "object"),
			.rule = read_name(j, "rule"),
			.where = read_name(j, "where"),
			.remedy = read_name(j, "remedy"),
		},
		.id = (uint64_t)json_int_or(j, "id", 0),
		.count = (uint64_t)json_int_or(j, "count", 0),
		.pid = (pid_t)json_int_or(j, "pid", 0),
		.program = read_name(j, "program") ?: "",
	};
	read_time(j, "first", &ret->first);
	read_time(j, "last", &ret->last);
}

static int record_json(const struct denial_record *r, struct buf *ret)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	int n;

	write_record(o, r);
	n = json_out_end(o, ret);
	/* Without the newline: it goes into other texts. */
	if (n == 0 && ret->len && ret->data[ret->len - 1] == '\n')
		ret->data[--ret->len] = '\0';
	return n;
}

static void tell(struct denials *d, const struct denial_record *r)
{
	auto_(buf) struct buf text = BUF_INIT;

	if (d->told && record_json(r, &text) == 0)
		d->told(d->told_data, buf_str(&text));
}

static void keep(struct denials *d, struct record *r)
{
	if (d->n == DENIALS_MAX) {
		free(*slot_of(d, 0));
		d->begin++;
		d->n--;
		d->dropped++;
	}
	r->r.id = ++d->numbers;
	*slot_of(d, d->n++) = r;
}

void denials_add(struct denials *d, pid_t pid, const struct denial *x)
{
	struct record *r, *old = NULL;

	if (!d)
		return;
	r = new_record(x);
	if (r) {
		r->r.pid = pid;
		r->r.count = x->times ? x->times : 1;
		if (pid && !(x->event && x->event->is_launcher))
			read_comm(pid, r->comm);
		(void)clock_gettime(CLOCK_REALTIME, &r->r.first);
		r->r.last = r->r.first;
	}
	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; r && !old && i < d->n; i++)
		if (is_same(&(*slot_of(d, i))->r, &r->r))
			old = *slot_of(d, i);
	if (!r) {
		d->dropped++;
	} else if (old) {
		old->r.count += r->r.count;
		old->r.last = r->r.last;
		old->r.pid = r->r.pid;
		tell(d, &old->r);
		free(r);
	} else {
		keep(d, r);
		tell(d, &r->r);
	}
	(void)pthread_mutex_unlock(&d->lock);
}

static bool has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Its strings are those of @x. */
static struct event event_of(const struct denial *x)
{
	struct event e = { .syscall = x->call, .category = EVENT_PROCESS };

	if (x->event)
		e = *x->event;
	else if (has_prefix(x->code, "net.") ||
		 strcmp(x->code, "syscall.network") == 0)
		e.category = EVENT_NETWORK;
	else if (has_prefix(x->code, "fs."))
		e.category = EVENT_FILE;
	if (!x->event && has_prefix(x->code, "fs."))
		e.path = (char *)(uintptr_t)x->object;
	e.writes = e.writes || strcmp(x->code, "fs.write_file") == 0;
	e.denied = true;
	return e;
}

static void observe(struct denials *d, struct call *c, const struct denial *x)
{
	struct denials_observer o;
	struct event e;

	(void)pthread_mutex_lock(&d->lock);
	o = d->observer;
	(void)pthread_mutex_unlock(&d->lock);
	if (!o.see || x->is_told || !o.has_room(o.data))
		return;
	e = event_of(x);
	e.program = NULL;
	ask_fill_caller(&e, c);
	o.see(o.data, &e);
	free(e.program);
}

void denials_add_call(struct denials *d, struct call *c, const struct denial *x)
{
	pid_t tgid = d ? call_tgid(c) : 0;

	denials_add(d, tgid ? tgid : call_tid(c), x);
	if (d)
		observe(d, c, x);
}

void denials_observe(struct denials *d, const struct denials_observer *o)
{
	static const struct denials_observer nobody;

	(void)pthread_mutex_lock(&d->lock);
	d->observer = o ? *o : nobody;
	(void)pthread_mutex_unlock(&d->lock);
}

void denials_tell(struct denials *d, denials_told_fn *fn, void *data)
{
	(void)pthread_mutex_lock(&d->lock);
	d->told = fn;
	d->told_data = data;
	(void)pthread_mutex_unlock(&d->lock);
}

size_t denials_count(struct denials *d)
{
	size_t n;

	(void)pthread_mutex_lock(&d->lock);
	n = d->n;
	(void)pthread_mutex_unlock(&d->lock);
	return n;
}

int denials_each(struct denials *d, denial_fn *fn, void *data)
{
	int r = 0;

	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; r == 0 && i < d->n; i++)
		r = fn(data, &(*slot_of(d, i))->r);
	(void)pthread_mutex_unlock(&d->lock);
	return r;
}

/* The records after number @after that fit; returns whether more are left. */
static int add_records(struct denials *d, uint64_t after, size_t max,
		       struct buf *ret, uint64_t *ret_next)
{
	size_t begin = ret->len;

	*ret_next = 0;
	for (size_t i = 0; i < d->n; i++) {
		const struct denial_record *r = &(*slot_of(d, i))->r;
		auto_(buf) struct buf text = BUF_INIT;

		if (r->id <= after)
			continue;
		if (record_json(r, &text) < 0)
			return -ENOMEM;
		if (ret->len > begin && ret->len - begin + text.len > max)
			return 1;
		if (ret->len > begin)
			buf_add_char(ret, ',');
		buf_add(ret, text.data, text.len);
		*ret_next = r->id;
	}
	return 0;
}

int denials_page(struct denials *d, uint64_t after, size_t max, struct buf *ret)
{
	uint64_t next = 0;
	int more;

	buf_add_str(ret, "{\"denials\":[");
	(void)pthread_mutex_lock(&d->lock);
	more = add_records(d, after, max, ret, &next);
	if (more == 1)
		buf_printf(ret, "],\"next\":%llu", (unsigned long long)next);
	else
		buf_add_str(ret, "],\"next\":null");
	buf_printf(ret, ",\"dropped\":%llu}", (unsigned long long)d->dropped);
	(void)pthread_mutex_unlock(&d->lock);
	return more < 0 || buf_failed(ret) ? -ENOMEM : 0;
}
