#include "supervise/approvals.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

struct approval {
	struct approvals *book;
	struct approval *prev, *next; /* in order of their numbers */
	uint64_t id;
	char digest[EVENT_DIGEST_LEN + 1]; /* "" in a separate book */
	struct event *event;
	char *rule;
	uint64_t deadline_ns;
	struct timespec asked, closed;
	atomic_int state; /* enum approval_state */
	atomic_int error; /* written before the state */
	bool is_open, by_program;
	bool is_shown; /* was open, and is closed */
	bool is_told;  /* it is being told of, without the lock */
	unsigned int count;
	struct approval_wait *waits;
	char who[APPROVAL_TEXT_MAX], reason[APPROVAL_TEXT_MAX];
};

enum { TOLD_MAX = 4, AGAIN_SECONDS = 5 };

struct list {
	struct approval *first, *last;
	size_t n;
};

struct approvals {
	/*
	 * Recursive: a call that is woken while the supervisor stops ends
	 * there and then, and leaves.
	 */
	pthread_mutex_t lock;
	bool is_waking;
	struct list waiting, closed;
	unsigned int max_open, n_open;
	uint64_t last_id;
	bool is_closing, is_separate;
	char (*alike)[EVENT_DIGEST_LEN + 1]; /* allowed without being asked */
	size_t n_alike;
	int event_fd;
	struct {
		approvals_told_fn *fn;
		void *data;
	} told[TOLD_MAX], later;
	/* The last of those that are closed, which @later was not told of. */
	struct approval *late;
	size_t n_late;
	pthread_mutex_t late_lock; /* who tells; taken before the other one */
	/* Of that lock: often the next one is the same again. */
	struct event *last;
	char last_digest[EVENT_DIGEST_LEN + 1];
};

static void append(struct list *l, struct approval *a)
{
	a->next = NULL;
	a->prev = l->last;
	if (l->last)
		l->last->next = a;
	else
		l->first = a;
	l->last = a;
	l->n++;
}

static void remove_from(struct list *l, struct approval *a)
{
	if (a->prev)
		a->prev->next = a->next;
	else
		l->first = a->next;
	if (a->next)
		a->next->prev = a->prev;
	else
		l->last = a->prev;
	l->n--;
}

static void free_approval(struct approval *a)
{
	if (!a)
		return;
	free(a->event);
	free(a->rule);
	free(a);
}
CLEANUP_PTR(struct approval, free_approval);

static int init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;
	int r = pthread_mutexattr_init(&attr);

	if (r)
		return -r;
	(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	r = pthread_mutex_init(lock, &attr);
	(void)pthread_mutexattr_destroy(&attr);
	return -r;
}

struct approvals *approvals_new(unsigned int max_open)
{
	struct approvals *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->event_fd < 0 || pthread_mutex_init(&b->late_lock, NULL) ||
	    init_lock(&b->lock) < 0) {
		cleanup_close(&b->event_fd);
		free(b);
		return NULL;
	}
	b->max_open = max_open ? max_open : APPROVALS_MAX_OPEN;
	return b;
}

void approvals_free(struct approvals *b)
{
	struct approval *a;

	if (!b)
		return;
	while ((a = b->waiting.first)) {
		remove_from(&b->waiting, a);
		free_approval(a);
	}
	while ((a = b->closed.first)) {
		remove_from(&b->closed, a);
		free_approval(a);
	}
	(void)pthread_mutex_destroy(&b->lock);
	(void)pthread_mutex_destroy(&b->late_lock);
	(void)close(b->event_fd);
	free(b->alike);
	free(b->last);
	free(b);
}

void approvals_set_separate(struct approvals *b)
{
	b->is_separate = true;
}

int approvals_tell(struct approvals *b, approvals_told_fn *told, void *data)
{
	size_t t = 0;

	(void)pthread_mutex_lock(&b->lock);
	while (t < TOLD_MAX && b->told[t].fn)
		t++;
	if (t < TOLD_MAX) {
		b->told[t].fn = told;
		b->told[t].data = data;
	}
	(void)pthread_mutex_unlock(&b->lock);
	return t < TOLD_MAX ? 0 : -ENOSPC;
}

void approvals_untell(struct approvals *b, void *data)
{
	(void)pthread_mutex_lock(&b->lock);
	for (size_t t = 0; t < TOLD_MAX; t++)
		if (b->told[t].data == data)
			b->told[t].fn = NULL;
	(void)pthread_mutex_unlock(&b->lock);
}

int approvals_fd(const struct approvals *b)
{
	return b->event_fd;
}

static struct approval_info info_of(const struct approval *a)
{
	return (struct approval_info){
		.id = a->id,
		.digest = a->digest,
		.event = a->event,
		.rule = a->rule,
		.state = (enum approval_state)atomic_load(&a->state),
		.is_open = a->is_open,
		.error = atomic_load(&a->error),
		.who = *a->who ? a->who : NULL,
		.by_program = a->by_program,
		.reason = *a->reason ? a->reason : NULL,
		.count = a->count,
		.asked = a->asked,
		.closed = a->closed,
		.deadline_ns = a->deadline_ns,
	};
}

static void tell(const struct approval *a)
{
	const uint64_t one = 1;
	struct approval_info i = info_of(a);

	if (!a->book->is_separate)
		(void)fd_write_full(a->book->event_fd, &one, sizeof(one));
	for (size_t t = 0; t < TOLD_MAX; t++)
		if (a->book->told[t].fn)
			a->book->told[t].fn(a->book->told[t].data, &i);
}

/* The oldest that @later was not told of; with the lock held. */
static struct approval *take_late(struct approvals *b)
{
	struct approval *a = b->late;

	if (a) {
		b->late = a->next;
		b->n_late--;
	}
	return a;
}

/* As it was when it was closed. With the lock held. */
static struct approval_info late_info(const struct approval *a)
{
	struct approval_info i = info_of(a);

	i.is_open = a->is_shown;
	return i;
}

static bool is_told_late(const struct approval *a)
{
	return a->is_shown || atomic_load(&a->state) == APPROVAL_EXPIRED;
}

/* @a is the last of those that are closed. With the lock held. */
static void tell_later(struct approvals *b, struct approval *a)
{
	char made[EVENT_DIGEST_LEN + 1];
	struct approval_info i;

	if (!b->late)
		b->late = a;
	if (++b->n_late <= APPROVALS_LATE_MAX)
		return;
	a = take_late(b);
	i = late_info(a);
	i.digest = approval_digest(&i, made);
	if (is_told_late(a))
		b->later.fn(b->later.data, &i);
}

/* With the late lock held. */
static const char *late_digest(struct approvals *b, const struct event *e)
{
	if (b->last && event_is_alike(b->last, e))
		return b->last_digest;
	free(b->last);
	b->last = event_dup(e);
	event_digest(e, b->last_digest);
	return b->last_digest;
}

/* With both locks held, but while @later runs. */
static void catch_up(struct approvals *b)
{
	struct approval *a;

	while ((a = take_late(b))) {
		struct approval_info i = late_info(a);

		if (!is_told_late(a))
			continue;
		a->is_told = true;
		(void)pthread_mutex_unlock(&b->lock);
		if (!*i.digest)
			i.digest = late_digest(b, i.event);
		b->later.fn(b->later.data, &i);
		(void)pthread_mutex_lock(&b->lock);
		a->is_told = false;
	}
}

void approvals_catch_up(struct approvals *b)
{
	(void)pthread_mutex_lock(&b->late_lock);
	(void)pthread_mutex_lock(&b->lock);
	catch_up(b);
	(void)pthread_mutex_unlock(&b->lock);
	(void)pthread_mutex_unlock(&b->late_lock);
}

void approvals_tell_later(struct approvals *b, approvals_told_fn *told,
			  void *data)
{
	(void)pthread_mutex_lock(&b->late_lock);
	(void)pthread_mutex_lock(&b->lock);
	catch_up(b);
	b->later.fn = told;
	b->later.data = data;
	(void)pthread_mutex_unlock(&b->lock);
	(void)pthread_mutex_unlock(&b->late_lock);
}

/* Opens what may be, in order. With the lock held, as all that follow. */
static void open_next(struct approvals *b)
{
	for (struct approval *a = b->waiting.first;
	     a && b->n_open < b->max_open; a = a->next) {
		if (a->is_open)
			continue;
		a->is_open = true;
		b->n_open++;
		tell(a);
	}
}

/* The oldest of those that nobody is joined to are forgotten. */
static void forget_old(struct approvals *b)
{
	struct approval *next;

	for (struct approval *a = b->closed.first;
	     a && a != b->late && b->closed.n > APPROVALS_KEPT; a = next) {
		next = a->next;
		if (a->waits || a->is_told)
			continue;
		remove_from(&b->closed, a);
		free_approval(a);
	}
}

/* Each once; who is woken may leave, so we begin anew after each. */
static void wake_all(struct approval *a)
{
	bool was = a->book->is_waking;
	struct approval_wait *w;

	a->book->is_waking = true;
	do {
		for (w = a->waits; w && w->is_woken; w = w->next)
			;
		if (w) {
			w->is_woken = true;
			if (w->wake)
				w->wake(w->data);
		}
	} while (w);
	a->book->is_waking = was;
}

/* Leaves "waiting", if it still is; false if somebody else was faster. */
static bool end(struct approval *a, enum approval_state state, int error)
{
	struct approvals *b = a->book;
	int waiting = APPROVAL_WAITING;

	if (atomic_load(&a->state) != APPROVAL_WAITING)
		return false;
	atomic_store(&a->error, error);
	if (!atomic_compare_exchange_strong(&a->state, &waiting, (int)state))
		return false;
	(void)clock_gettime(CLOCK_REALTIME, &a->closed);
	remove_from(&b->waiting, a);
	append(&b->closed, a);
	wake_all(a);
	if (a->is_open)
		b->n_open--;
	if (a->is_open || state == APPROVAL_EXPIRED)
		tell(a);
	a->is_shown = a->is_open;
	a->is_open = false;
	if (b->later.fn)
		tell_later(b, a);
	return true;
}

/* What is over its deadline is no more, whoever looks first. */
static void expire(struct approvals *b)
{
	uint64_t now = b->waiting.first ? clock_now_ns() : 0;
	struct approval *next;

	for (struct approval *a = b->waiting.first; a; a = next) {
		next = a->next;
		if (now >= a->deadline_ns)
			(void)end(a, APPROVAL_EXPIRED, EPERM);
	}
	open_next(b);
	forget_old(b);
}

void approvals_close(struct approvals *b)
{
	(void)pthread_mutex_lock(&b->lock);
	b->is_closing = true;
	while (b->waiting.first)
		(void)end(b->waiting.first, APPROVAL_CANCELLED, EPERM);
	(void)pthread_mutex_unlock(&b->lock);
}

/* ------------------------------------------------------------- asking -- */

static struct approval *new_approval(struct approvals *b, const struct event *e,
				     const char *rule, const char *digest,
				     uint64_t deadline_ns)
{
	auto_ptr(free_approval) struct approval *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->book = b;
	a->event = event_dup(e);
	a->rule = rule ? strdup(rule) : NULL;
	if (!a->event || (rule && !a->rule))
		return NULL;
	memcpy(a->digest, digest, sizeof(a->digest));
	a->deadline_ns = deadline_ns;
	(void)clock_gettime(CLOCK_REALTIME, &a->asked);
	atomic_init(&a->state, APPROVAL_WAITING);
	atomic_init(&a->error, EPERM);
	a->id = ++b->last_id;
	append(&b->waiting, a);
	return take_ptr(&a);
}

static struct approval *find_equal(struct approvals *b, const char *digest)
{
	for (struct approval *a = b->waiting.first; a; a = a->next)
		if (strcmp(a->digest, digest) == 0)
			return a;
	return NULL;
}

/* A shell tries every directory of $PATH, and they may be the same one. */
static const struct approval *find_denied(struct approvals *b,
					  const char *digest, pid_t pid)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	for (const struct approval *a = b->closed.last; a; a = a->prev)
		if (atomic_load(&a->state) == APPROVAL_ANSWERED &&
		    atomic_load(&a->error) && a->event->pid == pid &&
		    now.tv_sec - a->closed.tv_sec <= AGAIN_SECONDS &&
		    strcmp(a->digest, digest) == 0)
			return a;
	return NULL;
}

static bool is_allowed_alike(const struct approvals *b, const char *digest)
{
	for (size_t i = 0; i < b->n_alike; i++)
		if (strcmp(b->alike[i], digest) == 0)
			return true;
	return false;
}

/* With the lock held; what cannot be asked has ended when it is made. */
static void end_at_once(struct approvals *b, struct approval *a)
{
	const struct approval *denied =
		b->is_separate ? NULL
			       : find_denied(b, a->digest, a->event->pid);

	if (b->is_closing) {
		(void)end(a, APPROVAL_CANCELLED, EPERM);
	} else if (clock_now_ns() >= a->deadline_ns) {
		(void)end(a, APPROVAL_EXPIRED, EPERM);
	} else if (!a->is_open && is_allowed_alike(b, a->digest)) {
		(void)snprintf(a->who, sizeof(a->who), "an earlier answer");
		(void)end(a, APPROVAL_ANSWERED, 0);
	} else if (denied && !a->is_open) {
		memcpy(a->who, denied->who, sizeof(a->who));
		memcpy(a->reason, denied->reason, sizeof(a->reason));
		(void)end(a, APPROVAL_ANSWERED, atomic_load(&denied->error));
	}
}

int approval_join(struct approvals *b, const struct event *e, const char *rule,
		  uint64_t deadline_ns, struct approval_wait *w)
{
	char digest[EVENT_DIGEST_LEN + 1] = "";
	struct approval *a;

	if (!b->is_separate)
		event_digest(e, digest);
	(void)pthread_mutex_lock(&b->lock);
	expire(b);
	a = b->is_separate ? NULL : find_equal(b, digest);
	if (!a)
		a = new_approval(b, e, rule, digest, deadline_ns);
	if (a) {
		a->count++;
		w->approval = a;
		w->is_woken = false;
		w->prev = NULL;
		w->next = a->waits;
		if (a->waits)
			a->waits->prev = w;
		a->waits = w;
		end_at_once(b, a);
		open_next(b);
	}
	(void)pthread_mutex_unlock(&b->lock);
	return a ? 0 : -ENOMEM;
}

void approval_leave(struct approval_wait *w)
{
	struct approval *a = w->approval;
	struct approvals *b = a ? a->book : NULL;

	if (!a)
		return;
	(void)pthread_mutex_lock(&b->lock);
	if (w->prev)
		w->prev->next = w->next;
	else
		a->waits = w->next;
	if (w->next)
		w->next->prev = w->prev;
	w->approval = NULL;
	if (!a->waits)
		(void)end(a,
			  clock_now_ns() >= a->deadline_ns ? APPROVAL_EXPIRED
							   : APPROVAL_CANCELLED,
			  EPERM);
	if (!b->is_waking)
		expire(b);
	(void)pthread_mutex_unlock(&b->lock);
}

enum approval_state approval_look(struct approval_wait *w, int *ret_error)
{
	struct approval *a = w->approval;
	enum approval_state state = (enum approval_state)atomic_load(&a->state);

	if (state == APPROVAL_WAITING && clock_now_ns() >= a->deadline_ns) {
		(void)pthread_mutex_lock(&a->book->lock);
		expire(a->book);
		(void)pthread_mutex_unlock(&a->book->lock);
		state = (enum approval_state)atomic_load(&a->state);
	}
	*ret_error =
		state == APPROVAL_ANSWERED ? atomic_load(&a->error) : EPERM;
	return state;
}

uint64_t approval_deadline_ns(const struct approval_wait *w)
{
	return w->approval->deadline_ns;
}

uint64_t approval_id(const struct approval_wait *w)
{
	return w->approval->id;
}

const struct event *approval_expired(struct approval_wait *w)
{
	int error;

	return approval_look(w, &error) == APPROVAL_EXPIRED ? w->approval->event
							    : NULL;
}

const char *approval_rule(const struct approval_wait *w)
{
	return w->approval->rule;
}

const char *approval_reason(const struct approval_wait *w)
{
	const struct approval *a = w->approval;

	return atomic_load(&a->state) == APPROVAL_ANSWERED && *a->reason
		       ? a->reason
		       : NULL;
}

/* ---------------------------------------------------------- answering -- */

static struct approval *find(const struct list *l, uint64_t id)
{
	for (struct approval *a = l->first; a; a = a->next)
		if (a->id == id)
			return a;
	return NULL;
}

static int say_closed(const struct approval *a, struct error *err)
{
	unsigned long long id = a->id;

	switch ((enum approval_state)atomic_load(&a->state)) {
	case APPROVAL_ANSWERED:
		return error_say(err, ERR_STATE, EALREADY,
				 "approval %llu was %s already, by %s", id,
				 atomic_load(&a->error) ? "denied" : "allowed",
				 a->who);
	case APPROVAL_EXPIRED:
		return error_say(err, ERR_STATE, ETIMEDOUT,
				 "approval %llu has expired: the call was "
				 "denied",
				 id);
	case APPROVAL_CANCELLED:
	case APPROVAL_WAITING:
		break;
	}
	return error_say(err, ERR_STATE, ECANCELED,
			 "approval %llu was withdrawn: nobody waits for it",
			 id);
}

/* Whole, or enough of its beginning. */
static bool is_digest(const struct approval *a, const char *digest)
{
	size_t n = digest ? strlen(digest) : 0;
	struct approval_info i = info_of(a);
	char made[EVENT_DIGEST_LEN + 1];

	if (!digest)
		return a->book->is_separate;
	return n >= APPROVAL_PREFIX_MIN && n <= EVENT_DIGEST_LEN &&
	       strncmp(approval_digest(&i, made), digest, n) == 0;
}

/* It is shown to others: no control characters. */
static void copy_text(char ret[APPROVAL_TEXT_MAX], const char *s)
{
	size_t n = 0;

	for (; s[n] && n + 1 < APPROVAL_TEXT_MAX; n++)
		ret[n] = (unsigned char)s[n] < ' ' || s[n] == 0x7f ? '?' : s[n];
	ret[n] = '\0';
}

static int resolve(struct approvals *b, uint64_t id, const char *digest,
		   int error, const char *who, bool by_program,
		   const char *reason, struct error *err)
{
	struct approval *closed, *a;

	expire(b);
	a = find(&b->waiting, id);
	closed = a ? NULL : find(&b->closed, id);
	if (!closed && (!a || !a->is_open))
		return error_say(err, ERR_NOT_FOUND, ENOENT,
				 "there is no approval %llu",
				 (unsigned long long)id);
	if (!is_digest(closed ? closed : a, digest))
		return error_say(err, ERR_CONFLICT, EBADMSG,
				 "approval %llu is not what was shown: its "
				 "digest is another one",
				 (unsigned long long)id);
	if (closed)
		return say_closed(closed, err);
	copy_text(a->who, who);
	copy_text(a->reason, reason ? reason : "");
	a->by_program = by_program;
	(void)end(a, APPROVAL_ANSWERED, error);
	open_next(b);
	forget_old(b);
	return 0;
}

static int check_text(const char *what, const char *text, struct error *err)
{
	if (!text || strlen(text) < APPROVAL_TEXT_MAX)
		return 0;
	return error_say(err, ERR_USAGE, E2BIG,
			 "%s is longer than %d bytes: the question is open "
			 "still",
			 what, APPROVAL_TEXT_MAX - 1);
}

int approvals_resolve(struct approvals *b, uint64_t id, const char *digest,
		      int error, const char *who, const char *reason,
		      struct error *err)
{
	int r = check_text("who answers", who, err);

	if (r == 0)
		r = check_text("the reason", reason, err);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&b->lock);
	r = resolve(b, id, digest, error, who, false, reason, err);
	(void)pthread_mutex_unlock(&b->lock);
	return r;
}

int approvals_resolve_by_program(struct approvals *b, uint64_t id,
				 const char *digest, int error, const char *who,
				 const char *reason, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&b->lock);
	r = resolve(b, id, digest, error, who, true, reason, err);
	(void)pthread_mutex_unlock(&b->lock);
	return r;
}

/* One that is not kept is asked again. */
static void keep_alike(struct approvals *b, const char *digest)
{
	char(*v)[EVENT_DIGEST_LEN + 1];

	if (b->n_alike == APPROVALS_ALIKE_MAX)
		return;
	v = reallocarray(b->alike, b->n_alike + 1, sizeof(*v));
	if (!v)
		return;
	b->alike = v;
	memcpy(v[b->n_alike++], digest, sizeof(*v));
}

int approvals_allow_alike(struct approvals *b, uint64_t id, const char *digest,
			  const char *who, struct error *err)
{
	const struct approval *a;
	int r;

	(void)pthread_mutex_lock(&b->lock);
	a = find(&b->waiting, id);
	r = resolve(b, id, digest, 0, who, false, "for this sandbox", err);
	/* It is the last of those that are closed. */
	if (r == 0 && a && !b->is_separate)
		keep_alike(b, a->digest);
	(void)pthread_mutex_unlock(&b->lock);
	return r;
}

/* ------------------------------------------------------------ looking -- */

void approvals_each(struct approvals *b, uint64_t after, bool closed,
		    bool (*fn)(void *data, const struct approval_info *i),
		    void *data)
{
	bool go_on = true;

	(void)pthread_mutex_lock(&b->lock);
	expire(b);
	for (struct approval *a = closed ? b->closed.first : NULL; a && go_on;
	     a = a->next) {
		struct approval_info i = info_of(a);

		if (a->id > after)
			go_on = fn(data, &i);
	}
	for (struct approval *a = b->waiting.first; a && go_on; a = a->next) {
		struct approval_info i = info_of(a);

		if (a->id > after && a->is_open)
			go_on = fn(data, &i);
	}
	(void)pthread_mutex_unlock(&b->lock);
}
