/*
 * What the files of the supervisor share. docs/architecture.md says which
 * thread may touch what; in short:
 *
 *	struct call	the thread that runs its handlers. The ticker holds a
 *			reference to parked ones and touches only @answered and
 *			what never changes. The fields under "parked" belong to
 *			the park lock, those under "queued" to the lane's lock.
 *	struct thread	itself; the monitor reads @busy and claims it.
 *	struct listener	atomics and what never changes; the rest under the
 *			supervisor's lock.
 *
 * Lock order: supervisor, park, lane. No lock is held while a handler runs.
 */
#ifndef SANDLOCK_SUPERVISE_INTERNAL_H
#define SANDLOCK_SUPERVISE_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/quiet_thread.h"
#include "kernel/notify.h"
#include "supervise/account.h"
#include "supervise/gate.h"
#include "supervise/handler.h"
#include "supervise/supervisor.h"

enum {
	PARK_TIMEOUT_MS = 30 * 1000,
	PARK_TICK_MS = 20,
	LOCAL_WORKERS = 32,
	EXTERNAL_WORKERS = 64,
	LOCAL_RUN_NS = 200 * 1000, /* a local handler is short up to here */
	THREAD_IDLE_MS = 1000,
	THREAD_STACK_BYTES = 256 * 1024,
	OWN_FDS_MAX = 256, /* of a small table a quarter */
};

/* ------------------------------------------------------------- table -- */

/* System call numbers of every architecture are below this. */
enum { TABLE_NR_MAX = 1024, TABLE_32_MAX = 8 };

struct chain {
	const struct handler *row, *end;
};

/* The rows, sorted by number; the order within a number is the caller's. */
struct table {
	struct handler *rows;
	uint16_t first[TABLE_NR_MAX + 1];
	/* What 32-bit programs call, and what it is here. */
	struct number_32 {
		int theirs, ours;
	} other[TABLE_32_MAX];
	size_t n_other;
};

int handlers_init(struct table *t, const struct handler *rows, size_t n,
		  struct error *err);
void handlers_done(struct table *t);
/* This machine's number of @nr of a 32-bit program, or -1. */
int handlers_native(const struct table *t, int nr);
/* The rows of @nr, an empty chain if there are none. */
struct chain handlers_find(const struct table *t, int nr);

/* ------------------------------------------------------------- calls -- */

struct captured;
struct lane_queue;

struct call {
	/* The same for good, or until the next one is received. */
	struct supervisor *s;
	struct listener *l; /* a reference */
	union notify_request req;
	uint64_t deadline_ns;
	/* Of the thread that runs the handlers. */
	struct chain chain; /* what is still to run */
	pid_t tgid, ppid;   /* 0: not asked yet */
	void *kept;
	void (*free_kept)(void *);
	struct captured *captured; /* NULL: nothing */
	bool has_gate; /* an account of it holds the exclusive side */
	atomic_bool is_finishing; /* its own thread answers it */
	/* Who sets it answers the call, or found it dead. */
	atomic_bool answered;
	atomic_uint refs;
	atomic_int hold; /* enum hold */
	int cpu;	 /* where it was received; -1: cannot be known */
	/* parked */
	struct call *park_prev, *park_next;
	bool is_parked; /* the list holds a reference */
	bool has_begun; /* a handler of it runs */
	bool is_blocking;
	bool has_effect; /* not to be answered over the handler's head */
	bool is_retried; /* resumed by every tick */
	int signal_errno;
	int deadline_errno;
	enum lane lane;
	pthread_t runner; /* while it is blocking */
	/* queued; the queue holds a reference */
	struct call *queue_prev, *queue_next;
	_Atomic(struct lane_queue *) queue; /* NULL: in none */
};

/* capture.c: lays what was captured of [@addr, @addr + @n) over @data. */
void captured_show(const struct captured *v, uint64_t addr, void *data,
		   size_t n);
/* Of descriptor @fd: ours, borrowed, or -1. */
int captured_fd(const struct captured *v, int fd);
/* NULL is fine; and *@v is NULL afterwards. */
void captured_drop(struct captured **v);

struct call *call_new(struct listener *l);
struct call *call_get(struct call *c);
void call_put(struct call *c); /* NULL is allowed */
/* Makes a call that was never parked ready to be received into again. */
void call_reset(struct call *c);

/* Claims the right to answer; false if somebody has it. */
bool call_claim(struct call *c);

/* HELD: nobody runs it, and who resumes it passes the runner's reference on. */
enum hold { HOLD_NOT, HOLD_HELD, HOLD_RESUMED };

enum progress { CALL_DONE, CALL_MUST_PARK, CALL_HELD };

/*
 * Runs rows of at most @lane, from where it stands. CALL_DONE: the chain has
 * ended, or its caller is gone, and *@ret is the outcome. CALL_MUST_PARK: the
 * next row, or carrying it out, is of a higher lane. CALL_HELD: the row that
 * ran waits for call_resume and will run again; call_hold follows.
 */
enum progress call_run(struct call *c, enum lane lane, struct outcome *ret);

/* Parks it without a thread; takes the reference. */
void call_hold(struct call *c);

/*
 * The one way an outcome takes, parked or inline: claims the call, settles the
 * accounts, answers. Drops the outcome where the call was answered already.
 */
void call_finish(struct call *c, struct outcome o);

/* The same. What a held call has kept goes first: its caller finds no trace of
 * what it waited with. */
void call_fail_held(struct call *c, int error);
/* Answers a parked call over its handler's head. */
void call_abandon(struct call *c, int error);

/* -------------------------------------------------------------- park -- */

struct park {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct call *first;
	size_t n;
	bool is_ticking; /* a ticker exists */
};

int park_init(struct park *p);
void park_done(struct park *p);

/* Adds a call that waits for a thread of @lane, or moves it there. */
void park_add(struct call *c, enum lane lane);
/* The same for local work that runs already; with the park lock held.
 * park_watch follows, without it. */
void park_add_running(struct call *c);
/* Sees to it that somebody looks at the parked calls. */
void park_watch(struct supervisor *s);
/* The first handler is about to run: false if the caller is gone. */
bool park_begin(struct call *c);
/* Takes it out, if it is in: its handlers are done. */
void park_remove(struct call *c);
/* The ticker ends with the last parked call: held ones are resumed. */
void park_stop(struct park *p);

/* -------------------------------------------------------------- lanes -- */

/*
 * A queue with threads for it. @running counts slots in use, by workers of
 * the lane and, in LANE_LOCAL, by receivers that lost their role. Written
 * under the lock.
 */
struct lane_queue {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct call *first, *last;
	size_t n;
	atomic_uint running;
	unsigned int idle, max;
	enum lane lane;
	struct supervisor *s;
};

int lane_init(struct lane_queue *q, struct supervisor *s, enum lane lane,
	      unsigned int max);
void lane_done(struct lane_queue *q);

/*
 * Parks a call in a queue; takes the reference. Makes a thread if there is a
 * free slot; if that fails and nobody else could ever take it, or the
 * supervisor stops, the call is EIO.
 */
void lane_push(struct call *c, enum lane lane);
/* Takes an abandoned call out of its queue, if it is still in one. */
void lane_cancel(struct call *c);
/* Wakes idle workers, and answers what is queued with EIO. */
void lane_stop(struct lane_queue *q);

bool lane_has_room(struct lane_queue *q);
/* A slot for work that runs already. */
void lane_occupy(struct lane_queue *q);
/* Serves the queue in the slot that we occupy until it is empty; frees it. */
void lane_serve_out(struct lane_queue *q);
/* What follows call_run on a thread that is no receiver; takes the call. */
void lane_finish(struct call *c, enum progress p, struct outcome o);

/* ---------------------------------------------------------- receivers -- */

enum { BUSY_NO = 0, BUSY_TAKEN = 1 }; /* else: since when, in ns */

/* A receiver, or a monitor, of one listener. */
struct thread {
	struct listener *l;    /* a reference */
	_Atomic uint64_t busy; /* BUSY_*, or when the local handlers began */
	struct call *call;     /* received, or to be received into */
	atomic_bool in_receive;
	pthread_t self;
	pid_t tid;
	bool is_monitor; /* to begin with */
};

enum monitor_state { MONITOR_NONE, MONITOR_ASLEEP, MONITOR_AWAKE };

struct listener {
	struct supervisor *s;
	struct listener *next;
	int fd;
	atomic_uint refs; /* the list's, every thread's and every call's */
	atomic_bool is_over;
	atomic_bool has_executed; /* its first exec was received */
	struct thread *receiver;  /* who has the role */
	bool is_begun;		  /* a receiver was made, once */
	atomic_uint monitor;	  /* enum monitor_state; a futex */
};

/* Takes the fd; in the list of @s. NULL on ENOMEM. */
struct listener *listener_new(struct supervisor *s, int fd);
struct listener *listener_get(struct listener *l);
void listener_put(struct listener *l);
/* Starts its receiver. */
int listener_start(struct listener *l);
/* Makes RECV return, if its receiver is in it, and the monitor look up; with
 * the supervisor's lock held. */
void listener_interrupt(struct listener *l);

/* --------------------------------------------------------- supervisor -- */

struct supervisor {
	struct table table;
	struct gate gate;
	struct park park;
	struct lane_queue local, external;
	uint64_t park_timeout_ns;
	size_t request_size;
	/* Callers' descriptors are below: what is above is for our own work,
	 * which must not fail for what callers have us hold. */
	int caller_fds_end;
	const struct log_sink *log;
	bool is_prompt;
	atomic_bool stopping;
	atomic_size_t captured; /* bytes that are held for calls */
	_Atomic uint64_t received[TABLE_NR_MAX]; /* by number */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t ended;
	struct listener *listeners;
	unsigned int n_threads;
	bool has_last; /* of the threads that have ended, to be joined */
	pthread_t last;
	bool is_started;
	bool has_handler; /* of SIGURG; old_action is to be put back */
	struct sigaction old_action;
};

/* Makes a thread of the supervisor, counted until @fn returns. */
int thread_start(struct supervisor *s, void *(*fn)(void *), void *arg);
/* The last thing that such a thread does. */
void thread_end(struct supervisor *s);

/*
 * Where a task is: the number of the system call it is blocked in, -1 if it
 * runs, -2 if that cannot be known, -ESRCH if it has gone.
 */
int task_blocked_in(pid_t tid);

void sleep_until_ns(uint64_t t);
/* False once @t has passed. */
bool cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t t);

#endif
