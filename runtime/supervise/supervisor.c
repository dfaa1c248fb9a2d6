#include "supervise/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "supervise/act.h"
#include "supervise/internal.h"

/* How often a receiver that may have missed its signal gets another one. */
enum { STOP_TICK_MS = 10 };

static struct timespec timespec_of(uint64_t t)
{
	return (struct timespec){ .tv_sec = (time_t)(t / 1000000000),
				  .tv_nsec = (long)(t % 1000000000) };
}

void sleep_until_ns(uint64_t t)
{
	struct timespec ts = timespec_of(t);

	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

bool cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t t)
{
	struct timespec ts = timespec_of(t);

	return pthread_cond_timedwait(c, lock, &ts) != ETIMEDOUT;
}

/* ------------------------------------------------------------- threads -- */

/* Faults are the thread's own; every other signal but ours is the caller's. */
static void signals_of_threads(sigset_t *ret)
{
	static const int own[] = { SIGURG, SIGSEGV, SIGBUS, SIGFPE,
				   SIGILL, SIGABRT, SIGSYS, SIGTRAP };

	(void)sigfillset(ret);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		(void)sigdelset(ret, own[i]);
}

static int create_thread(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t mask, old;
	pthread_t thread;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	(void)pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	signals_of_threads(&mask);
	(void)pthread_sigmask(SIG_SETMASK, &mask, &old);
	r = pthread_create(&thread, &attr, fn, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

static void forget_thread(struct supervisor *s)
{
	if (--s->n_threads == 0)
		(void)pthread_cond_broadcast(&s->ended);
}

int thread_start(struct supervisor *s, void *(*fn)(void *), void *arg)
{
	int r;

	/* It has the capabilities of who makes it. */
	act_settle();
	(void)pthread_mutex_lock(&s->lock);
	s->n_threads++;
	(void)pthread_mutex_unlock(&s->lock);
	r = create_thread(fn, arg);
	if (r == 0)
		return 0;
	(void)pthread_mutex_lock(&s->lock);
	forget_thread(s);
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

/*
 * Each thread joins the one that ended before it, and the stop joins the last:
 * who has stopped a supervisor can unload this code, or fork.
 */
void thread_end(struct supervisor *s)
{
	pthread_t before = 0;
	bool join;

	(void)pthread_mutex_lock(&s->lock);
	join = s->has_last;
	if (join)
		before = s->last;
	s->last = pthread_self();
	s->has_last = true;
	forget_thread(s);
	(void)pthread_mutex_unlock(&s->lock);
	/* From here on @s may be gone. */
	if (join)
		(void)pthread_join(before, NULL);
}

/* ---------------------------------------------------------- supervisor -- */

static int init_locks(struct supervisor *s, const struct supervisor_options *o)
{
	int r = pthread_mutex_init(&s->lock, NULL);

	if (r)
		return -r;
	r = cond_init_monotonic(&s->ended);
	if (r == 0)
		r = park_init(&s->park);
	if (r == 0)
		r = lane_init(&s->local, s, LANE_LOCAL,
			      o->local_workers ? o->local_workers
					       : LOCAL_WORKERS);
	if (r == 0)
		r = lane_init(&s->external, s, LANE_EXTERNAL,
			      o->external_workers ? o->external_workers
						  : EXTERNAL_WORKERS);
	return r;
}

static int end_of_callers_fds(void)
{
	struct rlimit l;
	uint64_t n, own;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > INT_MAX)
		return INT_MAX;
	n = l.rlim_cur;
	own = n / 4 < OWN_FDS_MAX ? n / 4 : OWN_FDS_MAX;
	return (int)(n - own);
}

int supervisor_new(const struct supervisor_options *o, struct supervisor **ret,
		   struct error *err)
{
	auto_free struct supervisor *s = calloc(1, sizeof(*s));
	uint32_t ms = o->park_timeout_ms ? o->park_timeout_ms : PARK_TIMEOUT_MS;
	int r;

	if (!s)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot make a supervisor");
	s->log = o->log;
	s->caller_fds_end = end_of_callers_fds();
	s->park_timeout_ns = ms * UINT64_C(1000000);
	r = notify_request_size(&s->request_size, err);
	if (r < 0)
		return r;
	r = init_locks(s, o);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot make a supervisor");
	s->is_prompt = o->is_prompt;
	r = handlers_init(&s->table, o->handlers, o->n_handlers, err);
	if (r < 0)
		return r;
	*ret = take_ptr(&s);
	return 0;
}

static int start_listener(struct listener *l, struct error *err)
{
	int r = listener_start(l);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot start to receive system calls");
	return 0;
}

int supervisor_add_listener(struct supervisor *s, int listener_fd,
			    struct error *err)
{
	auto_close int fd = listener_fd;
	struct listener *l;
	bool start;

	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot use the seccomp listener");
	/* Before 6.6 a call costs a wake-up more. */
	(void)notify_set_sync(fd);
	l = listener_new(s, fd);
	if (!l)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot add a seccomp listener");
	(void)take_fd(&fd);
	(void)pthread_mutex_lock(&s->lock);
	start = s->is_started && !l->is_begun;
	l->is_begun = l->is_begun || start;
	(void)pthread_mutex_unlock(&s->lock);
	return start ? start_listener(l, err) : 0;
}

static void on_signal(int sig)
{
}

static int catch_signal(struct supervisor *s, struct error *err)
{
	struct sigaction sa = { .sa_handler = on_signal };

	/* Of a start that failed: what is to be put back is known. */
	if (s->has_handler)
		return 0;
	if (sigaction(SIGURG, &sa, &s->old_action) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot catch SIGURG");
	s->has_handler = true;
	return 0;
}

/* The next listener that was added before the start; NULL: none. */
static struct listener *next_to_begin(struct supervisor *s)
{
	struct listener *l;

	(void)pthread_mutex_lock(&s->lock);
	s->is_started = true;
	for (l = s->listeners; l && l->is_begun; l = l->next)
		;
	if (l)
		l->is_begun = true;
	(void)pthread_mutex_unlock(&s->lock);
	return l;
}

int supervisor_start(struct supervisor *s, struct error *err)
{
	struct listener *l;
	int r = catch_signal(s, err);

	while (r == 0 && (l = next_to_begin(s))) {
		r = start_listener(l, err);
		if (r == 0)
			continue;
		(void)pthread_mutex_lock(&s->lock);
		l->is_begun = false;
		(void)pthread_mutex_unlock(&s->lock);
	}
	return r;
}

int supervisor_stop(struct supervisor *s, int timeout_ms)
{
	uint64_t now = clock_now_ns();
	uint64_t end = timeout_ms < 0
			       ? UINT64_MAX
			       : now + (uint64_t)timeout_ms * UINT64_C(1000000);
	pthread_t last = 0;
	bool is_done, join;

	atomic_store(&s->stopping, true);
	lane_stop(&s->local);
	lane_stop(&s->external);
	park_stop(&s->park);
	(void)pthread_mutex_lock(&s->lock);
	while (s->n_threads && now < end) {
		uint64_t tick = now + STOP_TICK_MS * UINT64_C(1000000);

		for (struct listener *l = s->listeners; l; l = l->next)
			listener_interrupt(l);
		(void)cond_wait_until(&s->ended, &s->lock,
				      tick < end ? tick : end);
		now = clock_now_ns();
	}
	is_done = s->n_threads == 0;
	join = is_done && s->has_last;
	if (join) {
		last = s->last;
		s->has_last = false;
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (join)
		(void)pthread_join(last, NULL);
	return is_done ? 0 : -ETIMEDOUT;
}

void supervisor_free(struct supervisor *s)
{
	if (!s)
		return;
	(void)supervisor_stop(s, -1);
	while (s->listeners)
		listener_put(s->listeners);
	if (s->has_handler)
		(void)sigaction(SIGURG, &s->old_action, NULL);
	handlers_done(&s->table);
	lane_done(&s->local);
	lane_done(&s->external);
	park_done(&s->park);
	(void)pthread_cond_destroy(&s->ended);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

uint64_t supervisor_received(const struct supervisor *s, int nr)
{
	if (nr < 0 || nr >= TABLE_NR_MAX)
		return 0;
	return atomic_load_explicit(&s->received[nr], memory_order_relaxed);
}
