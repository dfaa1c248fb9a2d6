#include "supervise/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/pidfd.h"
#include "supervise/account.h"
#include "supervise/denials.h"
#include "supervise/internal.h"

enum {
	NAP_NS = 1000 * 1000,
	NAPS = 100,
	/* No fork takes that long in the kernel. */
	FORK_MAX_NS = 1000 * 1000 * 1000,
};

/* A fork that was let go on: its child may not be there yet. */
struct fork {
	pid_t tid, tgid;
	int nr;
	bool is_vfork;
	bool is_sent; /* the kernel may be at it */
	uint64_t since_ns;
	uint64_t since_ticks; /* as field 22 of /proc/PID/stat */
};

struct processes {
	pthread_mutex_t lock;
	unsigned int limit;
	processes_list_fn *list;
	void *data;
	struct denials *denials;
	unsigned int taken; /* never less than there are */
	struct fork *forks; /* room for the first @limit that there was */
	unsigned int n_forks;
};

struct processes *processes_new(unsigned int limit, processes_list_fn *list,
				void *data, struct denials *d)
{
	struct processes *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->forks = calloc(limit ? limit : 1, sizeof(*p->forks));
	if (!p->forks || pthread_mutex_init(&p->lock, NULL)) {
		free(p->forks);
		free(p);
		return NULL;
	}
	p->limit = limit;
	p->list = list;
	p->data = data;
	p->denials = d;
	p->taken = limit; /* unknown: the first fork counts */
	return p;
}

void processes_free(struct processes *p)
{
	if (!p)
		return;
	(void)pthread_mutex_destroy(&p->lock);
	free(p->forks);
	free(p);
}

int processes_restrict(struct processes *p, unsigned int limit)
{
	struct fork *forks = NULL;
	int r = 0;

	(void)pthread_mutex_lock(&p->lock);
	if (!p->limit) {
		forks = calloc(limit, sizeof(*forks));
		r = forks ? 0 : -ENOMEM;
	}
	if (forks) {
		free(p->forks);
		p->forks = forks;
	}
	if (r == 0 && (!p->limit || limit < p->limit)) {
		p->limit = limit;
		p->taken = limit; /* unknown, again */
	}
	(void)pthread_mutex_unlock(&p->lock);
	return r;
}

static uint64_t boot_ticks(void)
{
	struct timespec ts;
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * hz +
	       (uint64_t)ts.tv_nsec * hz / 1000000000;
}

static bool makes_process(const struct call *c)
{
	return call_nr(c) != SYS_clone || !(call_arg(c, 0) & CLONE_THREAD);
}

static bool is_vfork(const struct call *c)
{
#ifdef SYS_vfork
	if (call_nr(c) == SYS_vfork)
		return true;
#endif
	return call_nr(c) == SYS_clone && (call_arg(c, 0) & CLONE_VFORK);
}

/* ------------------------------------------------------------- counting -- */

struct living {
	pid_t ppid;
	uint64_t start_time;
};

int task_blocked_in(pid_t tid)
{
	char path[40], text[32] = "";
	auto_close int fd = -1;
	char *end;
	long nr;

	(void)snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -2;
	if (read(fd, text, sizeof(text) - 1) <= 0)
		return errno == ESRCH ? -ESRCH : -2;
	nr = strtol(text, &end, 10);
	return end == text ? -1 : (int)nr;
}

/* Has the process a child that began in a later tick than the fork? */
static bool has_new_child(const struct fork *f, const struct living *v,
			  size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].ppid == f->tgid && v[i].start_time > f->since_ticks)
			return true;
	return false;
}

/*
 * May the child of @f still be missing among the living? A caller of vfork is
 * in the call until its child is on its own, long after it was counted.
 */
static bool is_under_way(const struct fork *f, const struct living *v, size_t n)
{
	int nr = task_blocked_in(f->tid);

	if (nr == -ESRCH)
		return false;
	if (!f->is_sent)
		return true;
	if (clock_now_ns() - f->since_ns >= FORK_MAX_NS)
		return false;
	if (nr < 0)
		return true;
	return nr == f->nr && !(f->is_vfork && has_new_child(f, v, n));
}

/* The parents and beginnings of the living; malloc'ed. */
static int list_living(struct processes *p, struct living **ret, size_t *ret_n)
{
	auto_free pid_t *pids = NULL;
	auto_free struct living *v = NULL;
	size_t n = 0, n_living = 0;
	int r = p->list(p->data, &pids, &n);

	if (r < 0)
		return r;
	v = calloc(n ? n : 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct proc_stat st;

		if (proc_read_stat(pids[i], &st) < 0 || proc_has_ended(&st))
			continue;
		v[n_living++] = (struct living){ st.ppid, st.start_time };
	}
	*ret = take_ptr(&v);
	*ret_n = n_living;
	return 0;
}

/*
 * Counts again. A fork that is over when it is judged has its child in a list
 * that is made afterwards, or had it. With the lock held.
 */
static int count(struct processes *p)
{
	auto_free struct living *v = NULL;
	auto_free struct living *after = NULL;
	size_t n = 0, n_after = 0;
	unsigned int kept = 0;
	int r = list_living(p, &v, &n);

	if (r < 0)
		return r;
	for (unsigned int i = 0; i < p->n_forks; i++)
		if (is_under_way(&p->forks[i], v, n))
			p->forks[kept++] = p->forks[i];
	if (kept < p->n_forks)
		r = list_living(p, &after, &n_after);
	else
		n_after = n;
	if (r < 0)
		return r;
	p->n_forks = kept;
	p->taken = (unsigned int)n_after + kept;
	return 0;
}

static struct fork *find_fork(struct processes *p, pid_t tid)
{
	for (unsigned int i = 0; i < p->n_forks; i++)
		if (p->forks[i].tid == tid)
			return &p->forks[i];
	return NULL;
}

/* False if it is not known, or not any more. */
static bool forget_fork(struct processes *p, pid_t tid)
{
	struct fork *f = find_fork(p, tid);

	if (!f)
		return false;
	*f = p->forks[--p->n_forks];
	return true;
}

/* ----------------------------------------------------------- the account -- */

static void record(const struct processes *p, struct call *c)
{
	struct denial_of_limit x;

	denial_of_processes(&x, p->limit);
	if (is_vfork(c))
		x.what.call = "vfork";
	denials_add_call(p->denials, c, &x.what);
}

static int settle_fork(struct call *c, void *data)
{
	struct processes *p = data;
	int e = 0;

	if (!makes_process(c))
		return 0;
	(void)pthread_mutex_lock(&p->lock);
	if (!p->limit) {
		(void)pthread_mutex_unlock(&p->lock);
		return 0;
	}
	/* An earlier one of this thread is over, or it would not be here. */
	(void)forget_fork(p, call_tid(c));
	if (p->taken >= p->limit && count(p) < 0)
		e = EAGAIN;
	else if (p->taken >= p->limit || p->n_forks >= p->limit)
		e = EAGAIN;
	if (e == 0) {
		p->forks[p->n_forks++] = (struct fork){
			.tid = call_tid(c),
			.tgid = call_tgid(c),
			.nr = call_nr(c),
			.is_vfork = is_vfork(c),
			.since_ns = clock_now_ns(),
			.since_ticks = boot_ticks(),
		};
		p->taken++;
	}
	(void)pthread_mutex_unlock(&p->lock);
	if (e)
		record(p, c);
	return e;
}

static void start_fork(struct call *c, void *data)
{
	struct processes *p = data;
	struct fork *f;

	(void)pthread_mutex_lock(&p->lock);
	f = find_fork(p, call_tid(c));
	if (f && makes_process(c))
		f->is_sent = true;
	(void)pthread_mutex_unlock(&p->lock);
}

static void undo_fork(struct call *c, void *data)
{
	struct processes *p = data;

	if (!makes_process(c))
		return;
	(void)pthread_mutex_lock(&p->lock);
	/* Another one's count may have found the caller gone. */
	if (forget_fork(p, call_tid(c)))
		p->taken--;
	(void)pthread_mutex_unlock(&p->lock);
}

static const struct account fork_account = { settle_fork, start_fork,
					     undo_fork };

/* Full, but only because some forks may still be under way. */
static bool is_unsure(struct processes *p, pid_t tid)
{
	bool unsure = false;

	(void)pthread_mutex_lock(&p->lock);
	(void)forget_fork(p, tid);
	if (p->limit && p->taken >= p->limit && count(p) == 0)
		unsure = p->taken >= p->limit &&
			 p->taken - p->n_forks < p->limit;
	(void)pthread_mutex_unlock(&p->lock);
	return unsure;
}

/* Gives forks under way the time to end, so that none is refused for them. */
static struct outcome before_fork(struct call *c, void *data)
{
	struct processes *p = data;

	if (!makes_process(c))
		return OUTCOME_GO;
	for (int i = 0; i < NAPS && is_unsure(p, call_tid(c)); i++) {
		if (!call_is_valid(c))
			break;
		sleep_until_ns(clock_now_ns() + NAP_NS);
	}
	return OUTCOME_GO;
}

/* Its flags lie in memory; libc falls back to clone. */
static struct outcome refuse_clone3(struct call *c, void *data)
{
	return OUTCOME_FAIL(ENOSYS);
}

size_t processes_rows(struct processes *p, struct handler ret[PROCESSES_ROWS])
{
	size_t n = 0;

	ret[n++] = (struct handler){ "clone",	  SYS_clone, LANE_LOCAL,
				     before_fork, p,	     &fork_account };
	ret[n++] = (struct handler){ "clone3",	    SYS_clone3, LANE_INLINE,
				     refuse_clone3, NULL,	NULL };
#ifdef SYS_fork
	ret[n++] = (struct handler){ "fork",	  SYS_fork, LANE_LOCAL,
				     before_fork, p,	    &fork_account };
	ret[n++] = (struct handler){ "vfork",	  SYS_vfork, LANE_LOCAL,
				     before_fork, p,	     &fork_account };
#endif
	return n;
}
