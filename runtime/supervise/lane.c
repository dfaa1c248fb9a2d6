#include <errno.h>

#include "base/log.h"
#include "supervise/internal.h"

int lane_init(struct lane_queue *q, struct supervisor *s, enum lane lane,
	      unsigned int max)
{
	int r = pthread_mutex_init(&q->lock, NULL);

	q->s = s;
	q->lane = lane;
	q->max = max;
	return r ? -r : cond_init_monotonic(&q->work);
}

void lane_done(struct lane_queue *q)
{
	(void)pthread_cond_destroy(&q->work);
	(void)pthread_mutex_destroy(&q->lock);
}

static struct lane_queue *queue_of(struct supervisor *s, enum lane lane)
{
	return lane == LANE_EXTERNAL ? &s->external : &s->local;
}

static void append(struct lane_queue *q, struct call *c)
{
	atomic_store(&c->queue, q);
	c->queue_next = NULL;
	c->queue_prev = q->last;
	if (q->last)
		q->last->queue_next = c;
	else
		q->first = c;
	q->last = c;
	q->n++;
}

static void unlink_call(struct lane_queue *q, struct call *c)
{
	if (c->queue_prev)
		c->queue_prev->queue_next = c->queue_next;
	else
		q->first = c->queue_next;
	if (c->queue_next)
		c->queue_next->queue_prev = c->queue_prev;
	else
		q->last = c->queue_prev;
	atomic_store(&c->queue, NULL);
	q->n--;
}

static struct call *pop(struct lane_queue *q)
{
	struct call *c = q->first;

	if (c)
		unlink_call(q, c);
	return c;
}

/* Ends a call that no handler will see any more; takes the reference. */
static void discard(struct call *c, int error)
{
	call_abandon(c, error);
	park_remove(c);
	call_put(c);
}

void lane_finish(struct call *c, enum progress p, struct outcome o)
{
	if (p == CALL_MUST_PARK) {
		lane_push(c, LANE_EXTERNAL);
		return;
	}
	if (p == CALL_HELD) {
		call_hold(c);
		return;
	}
	call_finish(c, o);
	park_remove(c);
	call_put(c);
}

static void serve(struct lane_queue *q, struct call *c)
{
	enum progress p;
	struct outcome o;

	if (atomic_load(&q->s->stopping) || !park_begin(c)) {
		discard(c, EIO);
		return;
	}
	p = call_run(c, q->lane, &o);
	lane_finish(c, p, o);
}

/* Serves until the queue is empty; called and left with the lock held. */
static void serve_all(struct lane_queue *q)
{
	struct call *c;

	while ((c = pop(q))) {
		(void)pthread_mutex_unlock(&q->lock);
		serve(q, c);
		(void)pthread_mutex_lock(&q->lock);
	}
}

/* False if nothing came for long, or the supervisor stops. */
static bool wait_for_work(struct lane_queue *q)
{
	uint64_t until = clock_now_ns() + THREAD_IDLE_MS * UINT64_C(1000000);
	bool go_on = true;

	(void)atomic_fetch_sub(&q->running, 1);
	q->idle++;
	while (!q->first && go_on)
		go_on = !atomic_load(&q->s->stopping) &&
			cond_wait_until(&q->work, &q->lock, until);
	q->idle--;
	if (!q->first)
		return false;
	(void)atomic_fetch_add(&q->running, 1);
	return true;
}

static void *work(void *arg)
{
	struct lane_queue *q = arg;
	struct supervisor *s = q->s;

	(void)pthread_mutex_lock(&q->lock);
	do
		serve_all(q);
	while (wait_for_work(q));
	(void)pthread_mutex_unlock(&q->lock);
	thread_end(s);
	return NULL;
}

/* No thread could be made. What is queued waits for one that exists. */
static void give_up_slot(struct lane_queue *q)
{
	struct call *c = NULL;

	(void)pthread_mutex_lock(&q->lock);
	if (atomic_fetch_sub(&q->running, 1) == 1 && q->idle == 0)
		c = pop(q);
	(void)pthread_mutex_unlock(&q->lock);
	if (c)
		discard(c, EIO);
}

void lane_push(struct call *c, enum lane lane)
{
	struct supervisor *s = c->s;
	struct lane_queue *q = queue_of(s, lane);
	bool start = false, stopping;
	int r;

	park_add(c, lane);
	(void)pthread_mutex_lock(&q->lock);
	stopping = atomic_load(&s->stopping);
	if (!stopping) {
		append(q, c);
		start = q->n > q->idle &&
			atomic_load(&q->running) + q->idle < q->max;
		if (start)
			(void)atomic_fetch_add(&q->running, 1);
		else
			(void)pthread_cond_signal(&q->work);
	}
	(void)pthread_mutex_unlock(&q->lock);
	if (stopping)
		discard(c, EIO);
	if (!start)
		return;
	r = thread_start(s, work, q);
	if (r < 0) {
		log_warn(s->log, "cannot start a worker: errno %d", -r);
		give_up_slot(q);
	}
}

void lane_cancel(struct call *c)
{
	struct lane_queue *q = atomic_load(&c->queue);
	bool found;

	if (!q)
		return;
	(void)pthread_mutex_lock(&q->lock);
	found = atomic_load(&c->queue) == q;
	if (found)
		unlink_call(q, c);
	(void)pthread_mutex_unlock(&q->lock);
	if (found)
		discard(c, EIO);
}

void lane_stop(struct lane_queue *q)
{
	struct call *c;

	do {
		(void)pthread_mutex_lock(&q->lock);
		c = pop(q);
		if (!c)
			(void)pthread_cond_broadcast(&q->work);
		(void)pthread_mutex_unlock(&q->lock);
		if (c)
			discard(c, EIO);
	} while (c);
}

bool lane_has_room(struct lane_queue *q)
{
	return atomic_load_explicit(&q->running, memory_order_relaxed) < q->max;
}

void lane_occupy(struct lane_queue *q)
{
	(void)pthread_mutex_lock(&q->lock);
	(void)atomic_fetch_add(&q->running, 1);
	(void)pthread_mutex_unlock(&q->lock);
}

void lane_serve_out(struct lane_queue *q)
{
	(void)pthread_mutex_lock(&q->lock);
	serve_all(q);
	(void)atomic_fetch_sub(&q->running, 1);
	(void)pthread_mutex_unlock(&q->lock);
}
