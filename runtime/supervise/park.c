/*
 * Parked calls, and the ticker that looks at them every 20 ms: because of
 * WAIT_KILLABLE_RECV a caller sees no signal while we hold it, so somebody has
 * to see it for the caller.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "supervise/internal.h"

int park_init(struct park *p)
{
	int r = pthread_mutex_init(&p->lock, NULL);

	return r ? -r : cond_init_monotonic(&p->changed);
}

void park_done(struct park *p)
{
	(void)pthread_cond_destroy(&p->changed);
	(void)pthread_mutex_destroy(&p->lock);
}

static void insert(struct park *p, struct call *c)
{
	if (c->is_parked)
		return;
	(void)call_get(c);
	c->is_parked = true;
	c->park_prev = NULL;
	c->park_next = p->first;
	if (p->first)
		p->first->park_prev = c;
	p->first = c;
	if (p->n++ == 0)
		(void)pthread_cond_signal(&p->changed);
}

void park_add(struct call *c, enum lane lane)
{
	struct park *p = &c->s->park;

	(void)pthread_mutex_lock(&p->lock);
	c->lane = lane;
	c->has_begun = false;
	insert(p, c);
	(void)pthread_mutex_unlock(&p->lock);
	park_watch(c->s);
}

void park_add_running(struct call *c)
{
	c->lane = LANE_LOCAL;
	c->has_begun = true;
	insert(&c->s->park, c);
}

bool park_begin(struct call *c)
{
	struct park *p = &c->s->park;
	bool ok;

	(void)pthread_mutex_lock(&p->lock);
	ok = !call_is_abandoned(c);
	c->has_begun = ok;
	(void)pthread_mutex_unlock(&p->lock);
	return ok;
}

void park_remove(struct call *c)
{
	struct park *p = &c->s->park;
	bool was;

	(void)pthread_mutex_lock(&p->lock);
	was = c->is_parked;
	if (was) {
		if (c->park_next)
			c->park_next->park_prev = c->park_prev;
		if (c->park_prev)
			c->park_prev->park_next = c->park_next;
		else
			p->first = c->park_next;
		c->is_parked = false;
		p->n--;
	}
	(void)pthread_mutex_unlock(&p->lock);
	if (was)
		call_put(c);
}

void call_set_deadline(struct call *c, uint64_t deadline_ns, int error)
{
	(void)pthread_mutex_lock(&c->s->park.lock);
	c->deadline_ns = deadline_ns;
	c->deadline_errno = error;
	(void)pthread_mutex_unlock(&c->s->park.lock);
}

struct outcome call_retry(struct call *c)
{
	(void)pthread_mutex_lock(&c->s->park.lock);
	c->is_retried = true;
	(void)pthread_mutex_unlock(&c->s->park.lock);
	return OUTCOME_WAIT;
}

bool call_effect_begin(struct call *c)
{
	bool ok;

	(void)pthread_mutex_lock(&c->s->park.lock);
	ok = !call_is_abandoned(c);
	c->has_effect = ok;
	(void)pthread_mutex_unlock(&c->s->park.lock);
	return ok;
}

void call_effect_end(struct call *c)
{
	(void)pthread_mutex_lock(&c->s->park.lock);
	c->has_effect = false;
	(void)pthread_mutex_unlock(&c->s->park.lock);
}

void call_block_begin(struct call *c, int signal_errno)
{
	(void)pthread_mutex_lock(&c->s->park.lock);
	c->is_blocking = true;
	c->signal_errno = signal_errno;
	c->runner = pthread_self();
	(void)pthread_mutex_unlock(&c->s->park.lock);
}

void call_block_end(struct call *c)
{
	(void)pthread_mutex_lock(&c->s->park.lock);
	c->is_blocking = false;
	(void)pthread_mutex_unlock(&c->s->park.lock);
}

/* ------------------------------------------------------------- ticker -- */

/* May the caller be answered although a handler may be at work? */
static bool can_abandon(const struct call *c)
{
	if (c->has_effect)
		return false;
	return !c->has_begun || c->lane == LANE_EXTERNAL || c->is_blocking;
}

/* fork(2) and execve(2) know no EINTR, and no program expects one. */
static int restart_errno(const struct call *c)
{
	switch (call_nr(c)) {
#ifdef SYS_fork
	case SYS_fork:
	case SYS_vfork:
#endif
	case SYS_clone:
	case SYS_clone3:
	case SYS_execve:
	case SYS_execveat:
		return OUTCOME_ALWAYS_RESTART_ERRNO;
	default:
		return OUTCOME_RESTART_ERRNO;
	}
}

/* What the caller is answered now; 0: nothing. With the park lock held. */
static int verdict(const struct call *c, uint64_t now, bool signalled)
{
	if (!can_abandon(c))
		return 0;
	if (signalled)
		return c->is_blocking ? c->signal_errno : restart_errno(c);
	return !c->is_blocking && now >= c->deadline_ns ? c->deadline_errno : 0;
}

/* A handler in a system call that nobody waits for: make it return. */
static void poke(const struct call *c)
{
	if (c->is_blocking && call_is_abandoned(c))
		(void)pthread_kill(c->runner, SIGURG);
}

/*
 * Claims the call, if it is to be answered, in the same breath as it is seen
 * whether its handler has begun: local work must not be answered over its head.
 * Returns the errno, 0: none.
 */
static int judge(struct call *c, bool is_dead, bool signalled)
{
	struct park *p = &c->s->park;
	int e;

	(void)pthread_mutex_lock(&p->lock);
	e = is_dead ? 0 : verdict(c, clock_now_ns(), signalled);
	if ((is_dead || e) && !call_claim(c))
		e = 0;
	poke(c);
	(void)pthread_mutex_unlock(&p->lock);
	return e;
}

static bool wants_retry(const struct call *c)
{
	bool wants;

	(void)pthread_mutex_lock(&c->s->park.lock);
	wants = c->is_retried;
	(void)pthread_mutex_unlock(&c->s->park.lock);
	return wants;
}

static void look_at(struct call *c)
{
	struct notify_task task = { 0 };
	int e;

	if (!call_is_abandoned(c))
		(void)notify_read_task(call_tid(c), &task);
	/* Only now: what was read is the caller's if it still waits. */
	e = judge(c, !notify_is_valid(c->l->fd, c->req.notif.id),
		  task.signalled);
	if (e)
		call_fail_held(c, e);
	if (call_is_abandoned(c)) {
		lane_cancel(c);
		call_resume(c);
	} else if (wants_retry(c)) {
		call_resume(c);
	}
}

/* References to all parked calls; NULL if there are none, or no memory. */
static struct call **take_all(struct park *p, size_t *ret_n)
{
	struct call **v = NULL;
	size_t n = 0;

	(void)pthread_mutex_lock(&p->lock);
	if (p->n)
		v = calloc(p->n, sizeof(struct call *));
	for (struct call *c = v ? p->first : NULL; c; c = c->park_next)
		v[n++] = call_get(c);
	(void)pthread_mutex_unlock(&p->lock);
	*ret_n = n;
	return v;
}

void park_stop(struct park *p)
{
	size_t n;
	struct call **v = take_all(p, &n);

	for (size_t i = 0; i < n; i++) {
		call_resume(v[i]);
		call_put(v[i]);
	}
	free(v);
	(void)pthread_mutex_lock(&p->lock);
	(void)pthread_cond_broadcast(&p->changed);
	(void)pthread_mutex_unlock(&p->lock);
}

static void look_at_all(struct park *p)
{
	size_t n;
	struct call **v = take_all(p, &n);

	for (size_t i = 0; i < n; i++) {
		look_at(v[i]);
		call_put(v[i]);
	}
	free(v);
}

/* Waits for parked calls: false if there were none for long. */
static bool wait_for_calls(struct supervisor *s)
{
	struct park *p = &s->park;
	uint64_t until = clock_now_ns() + THREAD_IDLE_MS * UINT64_C(1000000);
	bool found = true;

	(void)pthread_mutex_lock(&p->lock);
	while (p->n == 0 && found)
		found = !atomic_load(&s->stopping) &&
			cond_wait_until(&p->changed, &p->lock, until);
	found = p->n > 0;
	if (!found)
		p->is_ticking = false;
	(void)pthread_mutex_unlock(&p->lock);
	return found;
}

static void *tick(void *arg)
{
	struct supervisor *s = arg;

	while (wait_for_calls(s)) {
		sleep_until_ns(clock_now_ns() +
			       PARK_TICK_MS * UINT64_C(1000000));
		look_at_all(&s->park);
	}
	thread_end(s);
	return NULL;
}

void park_watch(struct supervisor *s)
{
	struct park *p = &s->park;
	bool start;
	int r;

	(void)pthread_mutex_lock(&p->lock);
	start = p->n > 0 && !p->is_ticking;
	if (start)
		p->is_ticking = true;
	(void)pthread_mutex_unlock(&p->lock);
	if (!start)
		return;
	r = thread_start(s, tick, s);
	if (r == 0)
		return;
	/* Handlers still answer; the next park tries again. */
	log_warn(s->log, "cannot watch parked system calls: errno %d", -r);
	(void)pthread_mutex_lock(&p->lock);
	p->is_ticking = false;
	(void)pthread_mutex_unlock(&p->lock);
}
