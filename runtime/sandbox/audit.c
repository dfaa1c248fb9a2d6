#include "sandbox/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "base/utc.h"
#include "sandbox/create.h"

CLEANUP_PTR(struct json_out, json_out_free);

static const char audit_name[] = "approvals.jsonl";

/* How often, and since when; a line at each power of ten. */
struct tally {
	uint64_t n, next, told;
	struct timespec first, last;
};

/* One that was written: the same again is counted. */
struct kind {
	char digest[EVENT_DIGEST_LEN + 1]; /* empty: none */
	enum approval_state state;
	int error;
	uint64_t number;
	struct tally again;
};

struct audit {
	char *sandbox;
	int fd;
	const struct log_sink *log;
	pthread_mutex_t lock; /* of what follows */
	struct buf lines;     /* to be written */
	bool is_lazy;
	uint64_t room, filled_ns; /* bytes, as of when */
	struct tally left_out;
	struct kind kinds[AUDIT_KINDS];
};

enum { LAZY_MAX = 32 * 1024 };

static const uint64_t hour_ns = UINT64_C(3600) * 1000000000;

/* One write appends whole lines, whoever else appends. With the lock held. */
static void write_lines(struct audit *a)
{
	int r = buf_failed(&a->lines) ? -ENOMEM : 0;

	if (r == 0 && a->lines.len)
		r = fd_write_full(a->fd, a->lines.data, a->lines.len);
	if (r < 0)
		log_warn(a->log, "cannot write to the audit log: errno %d", -r);
	buf_clear(&a->lines);
}

void audit_flush(struct audit *a)
{
	(void)pthread_mutex_lock(&a->lock);
	write_lines(a);
	(void)pthread_mutex_unlock(&a->lock);
}

void audit_set_lazy(struct audit *a)
{
	(void)pthread_mutex_lock(&a->lock);
	a->is_lazy = true;
	(void)pthread_mutex_unlock(&a->lock);
}

/* Without a branch there may be no store yet. */
static int open_log(const char *dir, const char *path)
{
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags, 0600);

	if (fd < 0 && errno == ENOENT && mkdir(dir, 0700) == 0)
		fd = open(path, flags, 0600);
	return fd;
}

struct audit *audit_new(const char *sandbox, int fd, const struct log_sink *log)
{
	struct audit *a = calloc(1, sizeof(*a));

	if (!a || pthread_mutex_init(&a->lock, NULL)) {
		free(a);
		cleanup_close(&fd);
		return NULL;
	}
	a->fd = fd;
	a->log = log;
	a->room = AUDIT_BURST;
	a->filled_ns = clock_now_ns();
	a->sandbox = strdup(sandbox);
	if (!a->sandbox) {
		audit_close(a);
		return NULL;
	}
	return a;
}

int audit_open(const struct create *c, struct audit **ret, struct error *err)
{
	auto_free char *path = NULL;
	auto_close int fd = -1;

	path = c->store ? path_join(store_path(c->store), audit_name) : NULL;
	if (c->store && !path)
		return error_set(err, ERR_SYSTEM, ENOMEM, "audit log");
	if (path)
		fd = open_log(store_path(c->store), path);
	if (fd < 0)
		log_warn(c->env->log, "nothing is kept of who answers: no '%s'",
			 path ? path : audit_name);
	*ret = audit_new(c->plan->name, take_fd(&fd), c->env->log);
	return *ret ? 0 : error_set(err, ERR_SYSTEM, ENOMEM, "audit log");
}

/* ---------------------------------------------------------------- lines -- */

static struct json_out *begin_line(const struct audit *a, const char *key)
{
	struct json_out *o = json_out_new(false);

	json_out_object(o);
	json_out_str_member(o, "sandbox", a->sandbox);
	json_out_key(o, key);
	return o;
}

static void end_line(struct audit *a, struct json_out *o)
{
	json_out_object_end(o);
	if (json_out_end(o, &a->lines) < 0)
		a->lines.failed = true;
}

static void write_tally(const struct tally *t, struct json_out *o)
{
	json_out_uint_member(o, "count", t->n);
	utc_member(o, "first", &t->first, 0);
	utc_member(o, "last", &t->last, 0);
}

static void tell_again(struct audit *a, struct kind *k)
{
	auto_ptr(json_out_free) struct json_out *o = begin_line(a, "again");

	json_out_object(o);
	json_out_uint_member(o, "number", k->number);
	json_out_str_member(o, "digest", k->digest);
	write_tally(&k->again, o);
	json_out_object_end(o);
	end_line(a, o);
	k->again.told = k->again.n;
}

static void tell_left_out(struct audit *a)
{
	auto_ptr(json_out_free) struct json_out *o = begin_line(a, "left_out");

	json_out_object(o);
	write_tally(&a->left_out, o);
	json_out_uint_member(o, "burst_bytes", AUDIT_BURST);
	json_out_uint_member(o, "hourly_bytes", AUDIT_HOURLY);
	json_out_object_end(o);
	end_line(a, o);
	a->left_out.told = a->left_out.n;
}

/* True if that is a line. */
static bool count(struct tally *t, const struct timespec *when, uint64_t first)
{
	if (!t->n++) {
		t->first = *when;
		t->next = first;
	}
	t->last = *when;
	if (t->n < t->next)
		return false;
	t->next *= 10;
	return true;
}

/* --------------------------------------------------------------- limits -- */

static void refill(struct audit *a)
{
	uint64_t now = clock_now_ns(), passed = now - a->filled_ns, more;

	if (passed > AUDIT_BURST / AUDIT_HOURLY * hour_ns)
		passed = AUDIT_BURST / AUDIT_HOURLY * hour_ns;
	more = passed / (hour_ns / AUDIT_HOURLY);
	if (!more)
		return;
	a->filled_ns = now;
	a->room = a->room + more < AUDIT_BURST ? a->room + more : AUDIT_BURST;
}

/* What is counted but not told is, before its place is used for another. */
static void tell_rest(struct audit *a, struct kind *k)
{
	if (k->again.n != k->again.told)
		tell_again(a, k);
}

static struct kind *kind_of(struct audit *a, const char *digest)
{
	unsigned int i = 0;

	for (int n = 0; n < 2 && digest[n]; n++)
		i = i * 16 + (unsigned int)(digest[n] <= '9'
						    ? digest[n] - '0'
						    : digest[n] - 'a' + 10);
	return &a->kinds[i % AUDIT_KINDS];
}

static void write_one(struct audit *a, const struct approval_info *i)
{
	auto_ptr(json_out_free) struct json_out *o = begin_line(a, "approval");

	approval_to_json(i, o);
	end_line(a, o);
}

/* Of what a sandbox may have without end: false if it is left out. */
static bool write_limited(struct audit *a, const struct approval_info *i)
{
	uint64_t kept = i->error ? 0 : AUDIT_BURST / 2;
	struct kind *k = kind_of(a, i->digest);
	size_t before = a->lines.len, n;

	if (strcmp(k->digest, i->digest) == 0 && k->state == i->state &&
	    k->error == i->error) {
		if (count(&k->again, &i->closed, 10))
			tell_again(a, k);
		return true;
	}
	refill(a);
	if (a->room <= kept)
		return false;
	tell_rest(a, k);
	write_one(a, i);
	n = a->lines.len - before;
	a->room -= n < a->room ? n : a->room;
	*k = (struct kind){ .state = i->state,
			    .error = i->error,
			    .number = i->id };
	memcpy(k->digest, i->digest, sizeof(k->digest));
	return true;
}

void audit_told(void *data, const struct approval_info *i)
{
	struct audit *a = data;

	if (i->state == APPROVAL_WAITING || a->fd < 0)
		return;
	(void)pthread_mutex_lock(&a->lock);
	if (i->state == APPROVAL_ANSWERED && !i->by_program)
		write_one(a, i);
	else if (!write_limited(a, i) && count(&a->left_out, &i->closed, 1))
		tell_left_out(a);
	if (!a->is_lazy || a->lines.failed || a->lines.len >= LAZY_MAX)
		write_lines(a);
	(void)pthread_mutex_unlock(&a->lock);
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	for (size_t k = 0; k < AUDIT_KINDS; k++)
		tell_rest(a, &a->kinds[k]);
	if (a->left_out.n != a->left_out.told)
		tell_left_out(a);
	audit_flush(a);
	buf_done(&a->lines);
	(void)pthread_mutex_destroy(&a->lock);
	cleanup_close(&a->fd);
	free(a->sandbox);
	free(a);
}
