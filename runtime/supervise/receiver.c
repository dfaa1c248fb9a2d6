/*
 * Receiving: one thread per listener is in RECV, and runs what is short.
 *
 * No system call but RECV and the answer belongs to a call that is decided
 * inline or by a short local handler. The receiver only writes down since when
 * it runs local handlers; a monitor, which naps while there is such work and
 * sleeps else, finds the one that takes too long and takes the role over. The
 * old receiver has become a worker of the local lane by then, without noticing
 * until its handler returns.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/cpu.h"
#include "kernel/pidfd.h"
#include "policy/syscalls.h"
#include "supervise/act.h"
#include "supervise/internal.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv)
#define NATIVE_ARCH AUDIT_ARCH_RISCV64
#else
#error "say which AUDIT_ARCH_* this machine is"
#endif

/*
 * While handlers come and go the monitor naps longer and longer: its waking up
 * drives caller and receiver apart, onto two CPUs, which costs more than all
 * else it does. A slow handler is found after 200 us if it comes out of quiet,
 * and at most a millisecond later in the thick of short ones. It sleeps after
 * so many naps in which nothing was going on.
 */
enum { MONITOR_NAP_MAX_NS = 1000 * 1000, MONITOR_NAPS = 20 };

enum role { ROLE_RECEIVER, ROLE_MONITOR, ROLE_END };

static void *run_thread(void *arg);

static struct thread *thread_new(struct listener *l, bool is_monitor)
{
	struct thread *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->l = listener_get(l);
	t->is_monitor = is_monitor;
	return t;
}

static void thread_free(struct thread *t)
{
	call_put(t->call);
	listener_put(t->l);
	free(t);
}

static int start_thread(struct listener *l, bool is_monitor)
{
	struct thread *t = thread_new(l, is_monitor);
	int r;

	if (!t)
		return -ENOMEM;
	r = thread_start(l->s, run_thread, t);
	if (r < 0)
		thread_free(t);
	return r;
}

/* ------------------------------------------------------------ monitor -- */

static void wake_monitor(struct listener *l)
{
	(void)syscall(SYS_futex, &l->monitor, FUTEX_WAKE | FUTEX_PRIVATE_FLAG,
		      1, NULL, NULL, 0);
}

/* Since when the receiver runs local handlers, or BUSY_*. */
static uint64_t receiver_busy(struct listener *l)
{
	uint64_t busy;

	(void)pthread_mutex_lock(&l->s->lock);
	busy = l->receiver ? atomic_load(&l->receiver->busy) : BUSY_NO;
	(void)pthread_mutex_unlock(&l->s->lock);
	return busy;
}

static bool is_ending(struct listener *l)
{
	return atomic_load(&l->s->stopping) || atomic_load(&l->is_over);
}

/* False if there was nothing to watch for long, and we are the monitor no
 * more. */
static bool sleep_as_monitor(struct listener *l)
{
	struct timespec limit = { .tv_sec = THREAD_IDLE_MS / 1000 };
	unsigned int seen = MONITOR_ASLEEP;

	atomic_store(&l->monitor, MONITOR_ASLEEP);
	/* Either the receiver sees us asleep, or we see it busy. */
	if (receiver_busy(l) == BUSY_NO && !is_ending(l))
		(void)syscall(SYS_futex, &l->monitor,
			      FUTEX_WAIT | FUTEX_PRIVATE_FLAG, MONITOR_ASLEEP,
			      &limit, NULL, 0);
	if (receiver_busy(l) == BUSY_NO &&
	    atomic_compare_exchange_strong(&l->monitor, &seen, MONITOR_NONE))
		return false;
	atomic_store(&l->monitor, MONITOR_AWAKE);
	return true;
}

/* The receiver is about to run local handlers. */
static void see_to_monitor(struct listener *l)
{
	unsigned int seen = atomic_load(&l->monitor);

	while (seen != MONITOR_AWAKE) {
		unsigned int was = seen;

		if (!atomic_compare_exchange_weak(&l->monitor, &seen,
						  MONITOR_AWAKE))
			continue;
		if (was == MONITOR_ASLEEP)
			wake_monitor(l);
		else if (start_thread(l, true) < 0)
			atomic_store(&l->monitor, MONITOR_NONE);
		return;
	}
}

/* The role's priority, not the handlers': nobody keeps it who lost the role. */
static void hurry(const struct thread *t, bool yes)
{
	struct sched_param p = { .sched_priority = yes ? 1 : 0 };

	if (t->l->s->is_prompt)
		(void)syscall(SYS_sched_setscheduler, t->tid,
			      (yes ? SCHED_FIFO : SCHED_OTHER) |
				      SCHED_RESET_ON_FORK,
			      &p);
}

/*
 * A caller that waits wakes up its receiver where it runs itself, but not one
 * of real-time priority: that one goes there by itself, now and then.
 */
static void follow(struct thread *t)
{
	struct proc_stat st;

	if (t->l->s->is_prompt && cpu_is_time() &&
	    proc_read_stat(call_tid(t->call), &st) == 0)
		cpu_go_to(st.cpu);
}

/*
 * Makes us the receiver, in place of one that runs local handlers since @busy.
 * Its call is parked in the same step, so that it cannot end unseen.
 */
static bool take_over(struct thread *t, uint64_t busy)
{
	struct listener *l = t->l;
	struct supervisor *s = l->s;
	bool ok;

	if (!t->call)
		t->call = call_new(l);
	if (!t->call)
		return false;
	(void)pthread_mutex_lock(&s->lock);
	(void)pthread_mutex_lock(&s->park.lock);
	ok = l->receiver && atomic_compare_exchange_strong(&l->receiver->busy,
							   &busy, BUSY_TAKEN);
	if (ok) {
		park_add_running(l->receiver->call);
		lane_occupy(&s->local);
		hurry(l->receiver, false);
		l->receiver = t;
	}
	(void)pthread_mutex_unlock(&s->park.lock);
	(void)pthread_mutex_unlock(&s->lock);
	if (ok)
		park_watch(s);
	return ok;
}

static enum role monitor(struct thread *t)
{
	struct listener *l = t->l;
	uint64_t nap = LOCAL_RUN_NS;
	unsigned int naps = 0;

	while (!is_ending(l)) {
		uint64_t busy = receiver_busy(l), now = clock_now_ns();

		if (busy > BUSY_TAKEN && now < busy + LOCAL_RUN_NS) {
			naps = 0;
			sleep_until_ns(busy + LOCAL_RUN_NS);
		} else if (busy > BUSY_TAKEN && take_over(t, busy)) {
			atomic_store(&l->monitor, MONITOR_NONE);
			return ROLE_RECEIVER;
		} else if (++naps < MONITOR_NAPS) {
			sleep_until_ns(now + nap);
			nap = nap * 2 < MONITOR_NAP_MAX_NS ? nap * 2
							   : MONITOR_NAP_MAX_NS;
		} else {
			naps = 0;
			nap = LOCAL_RUN_NS;
			if (!sleep_as_monitor(l))
				return ROLE_END;
		}
	}
	atomic_store(&l->monitor, MONITOR_NONE);
	return ROLE_END;
}

/* ----------------------------------------------------------- receiver -- */

/*
 * Parks the call, to be run in @lane, or if held to be resumed; the receiver
 * gets a new one to fill.
 */
static void hand_off(struct thread *t, enum progress p, enum lane lane)
{
	struct call *c = t->call, *next = call_new(t->l);

	if (!next) {
		call_finish(c, OUTCOME_FAIL(ENOMEM));
		return;
	}
	t->call = next;
	c->cpu = sched_getcpu();
	if (p == CALL_HELD)
		call_hold(c);
	else
		lane_push(c, lane);
}

/*
 * Runs the local handlers here. False if the role was lost meanwhile; then the
 * call is over, or parked, too.
 */
static bool run_local(struct thread *t, uint64_t now)
{
	struct call *c = t->call;
	enum progress p;
	struct outcome o;

	atomic_store(&t->busy, now);
	see_to_monitor(t->l);
	p = call_run(c, LANE_LOCAL, &o);
	if (atomic_exchange(&t->busy, BUSY_NO) != BUSY_TAKEN) {
		if (p == CALL_DONE)
			call_finish(c, o);
		else
			hand_off(t, p, LANE_EXTERNAL);
		return true;
	}
	/* The monitor reads t->call until it has let go of the park lock. */
	(void)pthread_mutex_lock(&c->s->park.lock);
	t->call = NULL;
	(void)pthread_mutex_unlock(&c->s->park.lock);
	lane_finish(c, p, o);
	lane_serve_out(&t->l->s->local);
	return false;
}

/* What a 32-bit program calls becomes what it is on this machine. */
static void make_native(struct call *c)
{
	struct seccomp_data *d = &c->req.notif.data;
	int nr = d->arch == policy_arch_32()
			 ? handlers_native(&c->s->table, d->nr)
			 : -1;

	if (nr < 0)
		return;
	d->nr = nr;
	d->arch = NATIVE_ARCH;
}

/* Answers, or parks, what was received. False if the role was lost. */
static bool serve(struct thread *t)
{
	struct call *c = t->call;
	struct supervisor *s = c->s;
	uint64_t now = clock_now_ns();
	struct outcome o;
	enum progress p;

	c->deadline_ns = now + s->park_timeout_ns;
	c->chain = handlers_find(&s->table, call_nr(c));
	if (c->req.notif.data.arch != NATIVE_ARCH) {
		call_finish(c, OUTCOME_FAIL(ENOSYS));
		return true;
	}
	if (c->chain.row == c->chain.end) {
		call_finish(c, OUTCOME_FAIL(EPERM));
		return true;
	}
	p = call_run(c, LANE_INLINE, &o);
	if (p == CALL_DONE) {
		call_finish(c, o);
		return true;
	}
	if (p == CALL_HELD || c->chain.row == c->chain.end ||
	    c->chain.row->lane == LANE_EXTERNAL) {
		hand_off(t, p, LANE_EXTERNAL);
		return true;
	}
	if (!lane_has_room(&s->local)) {
		hand_off(t, p, LANE_LOCAL);
		return true;
	}
	return run_local(t, now);
}

/* Nobody receives from @l any more; @is_over: and nobody ever will. */
static void end_receiving(struct listener *l, bool is_over)
{
	struct supervisor *s = l->s;

	(void)pthread_mutex_lock(&s->lock);
	l->receiver = NULL;
	(void)pthread_mutex_unlock(&s->lock);
	if (!is_over)
		return;
	atomic_store(&l->is_over, true);
	wake_monitor(l);
	listener_put(l); /* the list's; we have our own */
}

/* What receiving failed with. False if that was the end. */
static bool go_on_after(struct listener *l, int r)
{
	switch (r) {
	case -EINTR:
		return true;
	case -ENOENT:
		if (!notify_is_over(l->fd))
			return true;
		end_receiving(l, true);
		return false;
	default:
		/* The listener stays open: closed, every trapped call would be
		 * ENOSYS and the program go on. */
		log_write(l->s->log, LOG_LEVEL_ERROR,
			  "cannot receive system calls: errno %d", -r);
		end_receiving(l, false);
		return false;
	}
}

/* The first call of the first receiver; 0 or -ENOMEM. */
static int become_receiver(struct thread *t)
{
	if (!t->call)
		t->call = call_new(t->l);
	if (!t->call)
		return -ENOMEM;
	(void)pthread_mutex_lock(&t->l->s->lock);
	t->l->receiver = t;
	(void)pthread_mutex_unlock(&t->l->s->lock);
	return 0;
}

static void count(struct supervisor *s, int nr)
{
	if (nr >= 0 && nr < TABLE_NR_MAX)
		(void)atomic_fetch_add_explicit(&s->received[nr], 1,
						memory_order_relaxed);
}

static enum role receive(struct thread *t)
{
	struct listener *l = t->l;
	struct supervisor *s = l->s;
	int r;

	act_settle();
	hurry(t, true);
	while (!atomic_load(&s->stopping)) {
		call_reset(t->call);
		atomic_store_explicit(&t->in_receive, true,
				      memory_order_relaxed);
		r = notify_receive(l->fd, &t->call->req, s->request_size);
		atomic_store_explicit(&t->in_receive, false,
				      memory_order_relaxed);
		if (r < 0) {
			if (!go_on_after(l, r))
				return ROLE_END;
			continue;
		}
		if (t->call->req.notif.data.arch != NATIVE_ARCH)
			make_native(t->call);
		count(s, call_nr(t->call));
		follow(t);
		if (!serve(t)) {
			unsigned int none = MONITOR_NONE;

			return atomic_compare_exchange_strong(
				       &l->monitor, &none, MONITOR_AWAKE)
				       ? ROLE_MONITOR
				       : ROLE_END;
		}
	}
	end_receiving(l, false);
	return ROLE_END;
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;
	struct supervisor *s = t->l->s;
	enum role role = t->is_monitor ? ROLE_MONITOR : ROLE_RECEIVER;

	t->self = pthread_self();
	t->tid = (pid_t)syscall(SYS_gettid);
	if (role == ROLE_RECEIVER && become_receiver(t) < 0) {
		log_warn(s->log, "no memory to receive system calls");
		role = ROLE_END;
	}
	while (role != ROLE_END)
		role = role == ROLE_MONITOR ? monitor(t) : receive(t);
	thread_free(t);
	thread_end(s);
	return NULL;
}

/* ----------------------------------------------------------- listeners -- */

struct listener *listener_new(struct supervisor *s, int fd)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->s = s;
	l->fd = fd;
	atomic_init(&l->refs, 1);
	(void)pthread_mutex_lock(&s->lock);
	l->next = s->listeners;
	s->listeners = l;
	(void)pthread_mutex_unlock(&s->lock);
	return l;
}

struct listener *listener_get(struct listener *l)
{
	(void)atomic_fetch_add(&l->refs, 1);
	return l;
}

void listener_put(struct listener *l)
{
	struct supervisor *s = l->s;

	if (atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	(void)pthread_mutex_lock(&s->lock);
	for (struct listener **i = &s->listeners; *i; i = &(*i)->next)
		if (*i == l) {
			*i = l->next;
			break;
		}
	(void)pthread_mutex_unlock(&s->lock);
	(void)close(l->fd);
	free(l);
}

int listener_start(struct listener *l)
{
	return start_thread(l, false);
}

void listener_interrupt(struct listener *l)
{
	if (l->receiver && atomic_load(&l->receiver->in_receive))
		(void)pthread_kill(l->receiver->self, SIGURG);
	wake_monitor(l);
}
