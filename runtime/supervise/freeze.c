#include "supervise/freeze.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/pidfd.h"
#include "supervise/internal.h"
#include "supervise/redirect.h"

enum {
	/* Who is not still by then is in the kernel, and may write memory. */
	STOP_MAX_MS = 2000,
	/* Who has only not had a CPU since is waited for. */
	RUN_MAX_MS = 30 * 1000,
	GATE_TICK_NS = 100 * 1000 * 1000,
	/* Longer than any exec takes; then it must not go on unwatched. */
	LEAVE_MAX_MS = 20 * 1000,
	/* To copy a path takes a hundredth of that. */
	READ_NS = 2 * 1000 * 1000,
	NAP_MIN_NS = 20 * 1000,
	NAP_MAX_NS = 1000 * 1000,
	IDLE_TICKS = 50,
	IDLE_TICK_NS = 20 * 1000 * 1000,
	TRACEES_STEP = 64,
	TRACEES_MAX = 64 * 1024,
};

enum job { JOB_NONE, JOB_BEGIN, JOB_END, JOB_CANCEL };

struct tracee {
	pid_t tid;
	bool is_child; /* of ours: its status is for somebody else */
	bool is_stopped;
	int signal; /* that it was about to get */
};

struct ran {
	uint64_t ns, times;
};

struct freezer {
	processes_list_fn *list;
	void *data;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	bool has_thread;
	enum job job;
	int result;
	struct supervisor *s;
	/* The thread's own; @pids is read by who holds the gate, too. */
	pid_t caller, caller_tgid;
	enum freeze_caller how;
	int caller_nr;
	struct ran ran; /* before it was answered */
	long n_living;	/* of other processes, while all were still */
	bool has_held;	/* that wait for our answer, and are no tracees */
	bool is_alone;
	struct tracee *v;
	size_t n;
	pid_t *pids;
	size_t n_pids;
};

struct freezer *freezer_new(processes_list_fn *list, void *data)
{
	struct freezer *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->list = list;
	f->data = data;
	if (pthread_mutex_init(&f->lock, NULL) ||
	    cond_init_monotonic(&f->changed) < 0) {
		free(f);
		return NULL;
	}
	return f;
}

void freezer_free(struct freezer *f)
{
	if (!f)
		return;
	(void)pthread_cond_destroy(&f->changed);
	(void)pthread_mutex_destroy(&f->lock);
	free(f->v);
	free(f->pids);
	free(f);
}

const pid_t *freezer_processes(const struct freezer *f, size_t *ret_n)
{
	*ret_n = f->n_pids;
	return f->pids;
}

/* ------------------------------------------------------------ tracees -- */

static struct tracee *find(struct freezer *f, pid_t tid)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].tid == tid)
			return &f->v[i];
	return NULL;
}

static void forget(struct freezer *f, struct tracee *t)
{
	*t = f->v[--f->n];
}

static struct tracee *add(struct freezer *f, pid_t tid)
{
	struct tracee *v = f->v;

	if (f->n >= TRACEES_MAX)
		return NULL;
	if (f->n % TRACEES_STEP == 0)
		v = realloc(v, (f->n + TRACEES_STEP) * sizeof(*v));
	if (!v)
		return NULL;
	f->v = v;
	v[f->n] = (struct tracee){ .tid = tid };
	return &v[f->n++];
}

/*
 * What has become of one. A dead one is reaped, unless it is a child of ours:
 * somebody waits for its status. False if it is no tracee any more.
 */
static bool look_at(struct tracee *t)
{
	siginfo_t si = { .si_pid = 0 };
	int options = WEXITED | WSTOPPED | WNOHANG | __WALL | __WNOTHREAD;
	int r;

	do
		r = waitid(P_PID, (id_t)t->tid, &si, options | WNOWAIT);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return false;
	if (si.si_pid == 0)
		return true;
	if (si.si_code != CLD_TRAPPED && si.si_code != CLD_STOPPED) {
		if (!t->is_child)
			(void)waitid(P_PID, (id_t)t->tid, &si, options);
		return false;
	}
	(void)waitid(P_PID, (id_t)t->tid, &si, options);
	t->is_stopped = true;
	/* The event is above the signal; a plain one was to be delivered. */
	t->signal = si.si_status >> 8 ? 0 : si.si_status;
	return true;
}

static void look_at_all(struct freezer *f)
{
	for (size_t i = f->n; i-- > 0;)
		if (!look_at(&f->v[i]))
			forget(f, &f->v[i]);
}

static void let_go_stopped(struct freezer *f)
{
	for (size_t i = f->n; i-- > 0;) {
		struct tracee *t = &f->v[i];

		if (!t->is_stopped)
			continue;
		if (ptrace(PTRACE_DETACH, t->tid, NULL,
			   (void *)(intptr_t)t->signal) == 0)
			forget(f, t);
		else /* It dies, or became another thread's number. */
			t->is_stopped = false;
	}
}

static bool waits_for_answer(pid_t tid);
static bool is_at_rest_with_us(pid_t tid);

/*
 * It does not run before the gate opens: it waits for our answer, and was
 * received, or is traced by somebody who does not let it go before that.
 */
static bool is_gated(pid_t tid, char state)
{
	if (redirect_is_of(tid))
		return state == 't' || ((state == 'D' || state == 'S') &&
					waits_for_answer(tid));
	return state == 'D' && is_at_rest_with_us(tid);
}

/* 1 seized, 0 there is nothing to seize, or a negative errno; -EAGAIN: it is
 * being led to another call, which ends by itself. */
static int seize(struct freezer *f, pid_t tid, pid_t tgid)
{
	struct proc_stat st;
	struct tracee *t;
	int e;

	if (find(f, tid))
		return 0;
	e = proc_read_stat(tid, &st);
	/* Who cannot be looked at, for want of descriptors, may run. */
	if (e < 0 && e != -ESRCH)
		return e;
	if (e < 0 || st.state == 'Z' || st.state == 'X')
		return 0;
	if (tid != f->caller && is_gated(tid, st.state)) {
		f->has_held = true;
		return 0;
	}
	t = add(f, tid);
	if (!t)
		return -ENOMEM;
	t->is_child = tid == tgid && st.ppid == getpid();
	if (ptrace(PTRACE_SEIZE, tid, NULL,
		   (void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC)) < 0) {
		e = errno;
		forget(f, t);
		/* A dying one is refused with EPERM, too. */
		if (e == ESRCH || proc_read_stat(tid, &st) < 0 ||
		    st.state == 'Z' || st.state == 'X')
			return 0;
		return redirect_is_of(tid) ? -EAGAIN : -e;
	}
	(void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	return 1;
}

/* ----------------------------------------------------------- stopping -- */

static bool is_fork(int nr)
{
#ifdef SYS_vfork
	if (nr == SYS_vfork || nr == SYS_fork)
		return true;
#endif
	return nr == SYS_clone || nr == SYS_clone3;
}

static bool wchan_is(pid_t tid, const char *const *names, size_t n)
{
	char path[40], text[64] = "";
	auto_close int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/wchan", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return false;
	for (size_t i = 0; i < n; i++)
		/* Compilers append ".isra.0" and the like. */
		if (strncmp(text, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static bool waits_for_answer(pid_t tid)
{
	static const char *const names[] = { "__seccomp_filter",
					     "seccomp_do_user_notification" };

	return wchan_is(tid, names, ARRAY_LEN(names));
}

/* A fork that is under way makes a task that we do not know. */
static bool waits_in_fork(pid_t tid)
{
	static const char *const names[] = { "kernel_clone",
					     "wait_for_vfork_done" };

	return wchan_is(tid, names, ARRAY_LEN(names)) || waits_for_answer(tid);
}

/*
 * It waits for our answer, which it does not get before the freeze is over, or
 * for its vfork child, which is stopped. It will stop before it runs.
 */
static bool is_held(struct freezer *f, pid_t tid)
{
	struct chain chain;
	struct proc_stat st;
	int nr;

	if (proc_read_stat(tid, &st) < 0 || st.state != 'D')
		return false;
	nr = task_blocked_in(tid);
	if (nr < 0)
		return false;
	if (is_fork(nr))
		return waits_in_fork(tid);
	chain = handlers_find(&f->s->table, nr);
	return chain.row < chain.end;
}

static bool is_all_still(struct freezer *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (!f->v[i].is_stopped && f->v[i].tid != f->caller &&
		    !is_held(f, f->v[i].tid))
			return false;
	return true;
}

/* Of those that are not still one is not even about to run. */
static bool is_one_stuck(struct freezer *f)
{
	struct proc_stat st;

	for (size_t i = 0; i < f->n; i++)
		if (!f->v[i].is_stopped && f->v[i].tid != f->caller &&
		    !is_held(f, f->v[i].tid) &&
		    proc_read_stat(f->v[i].tid, &st) == 0 && st.state != 'R')
			return true;
	return false;
}

/* The number of tasks that were not known, or a negative errno. */
static int seize_process(struct freezer *f, pid_t pid)
{
	char path[32];
	auto_dir DIR *d = NULL;
	struct dirent *e;
	int n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	if (!d)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;
	while ((e = readdir(d))) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
		int r;

		if (tid <= 0 || tid == f->caller)
			continue;
		r = seize(f, tid, pid);
		if (r < 0)
			return r;
		n += r;
	}
	return n;
}

static int seize_new(struct freezer *f)
{
	int n = 0, r;

	free(f->pids);
	f->pids = NULL;
	f->n_pids = 0;
	r = f->list(f->data, &f->pids, &f->n_pids);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n_pids; i++) {
		r = seize_process(f, f->pids[i]);
		if (r < 0)
			return r;
		n += r;
	}
	return n;
}

/* How long, and how many times, a task has been on a CPU. */
static struct ran read_ran(pid_t tid)
{
	char path[40], text[96] = "";
	struct ran r = { 0, 0 };
	auto_close int fd = -1;
	unsigned long long ns, waited, times;

	(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
	    sscanf(text, "%llu %llu %llu", &ns, &waited, &times) == 3)
		r = (struct ran){ ns, times };
	return r;
}

/*
 * All of it at one moment: in one wait it may be asleep for good, and in the
 * next one, for our answer, before it was received, when a signal wakes it.
 */
static bool is_at_rest_with_us(pid_t tid)
{
	struct ran before = read_ran(tid), after;
	struct proc_stat st;

	if (!before.times || proc_read_stat(tid, &st) < 0 || st.state != 'D' ||
	    !waits_for_answer(tid))
		return false;
	after = read_ran(tid);
	return after.times == before.times && after.ns == before.ns;
}

static uint64_t nap(uint64_t ns)
{
	sleep_until_ns(clock_now_ns() + ns);
	return ns * 2 < NAP_MAX_NS ? ns * 2 : NAP_MAX_NS;
}

static int wait_until_still(struct freezer *f, uint64_t begin)
{
	uint64_t end = begin + STOP_MAX_MS * UINT64_C(1000000);
	uint64_t last = begin + RUN_MAX_MS * UINT64_C(1000000);
	uint64_t ns = NAP_MIN_NS;

	for (;;) {
		look_at_all(f);
		if (is_all_still(f))
			return 0;
		if (clock_now_ns() >= last ||
		    (clock_now_ns() >= end && is_one_stuck(f)))
			return -ETIMEDOUT;
		ns = nap(ns);
	}
}

/* -EAGAIN: one of them is about to have ended. */
static long count_living(pid_t pid)
{
	char path[32];
	auto_dir DIR *d = NULL;
	struct dirent *e;
	struct proc_stat st;
	long n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

		if (tid <= 0 || proc_read_stat(tid, &st) < 0 ||
		    st.state == 'Z' || st.state == 'X')
			continue;
		if (st.is_exiting)
			return -EAGAIN;
		n++;
	}
	return n;
}

/*
 * Nobody runs, but one that is killed still does what its end takes: the kernel
 * writes where it was told to (set_tid_address, robust futexes), and that can
 * be what the caller was asked about, of who waits in vfork for it. With those
 * of the caller's own process the caller is killed.
 */
static long count_others(const struct freezer *f)
{
	long n = 0;

	for (size_t i = 0; n >= 0 && i < f->n_pids; i++) {
		long m = f->pids[i] == f->caller_tgid
				 ? 0
				 : count_living(f->pids[i]);

		n = m < 0 ? m : n + m;
	}
	return n;
}

static int note_living(struct freezer *f, uint64_t begin)
{
	uint64_t end = begin + STOP_MAX_MS * UINT64_C(1000000);
	uint64_t ns = NAP_MIN_NS;

	while ((f->n_living = count_others(f)) < 0 && clock_now_ns() < end)
		ns = nap(ns);
	return f->n_living < 0 ? -ETIMEDOUT : 0;
}

/* A thread that has ended has no memory. */
static int shares(pid_t tid, pid_t other)
{
	long r = syscall(SYS_kcmp, tid, other, KCMP_VM, 0, 0);

	if (r < 0)
		return errno == ESRCH ? 0 : -errno;
	return r == 0;
}

int freezer_shares(const struct freezer *f, pid_t pid)
{
	char path[32];
	auto_dir DIR *d = NULL;
	struct dirent *e;
	int r = shares(f->caller, pid);

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = r ? NULL : opendir(path);
	while (r == 0 && d && (e = readdir(d)))
		if (*e->d_name != '.')
			r = shares(f->caller,
				   (pid_t)strtol(e->d_name, NULL, 10));
	return r;
}

/* Into which the kernel may write at its end. */
bool freezer_has_sharer(const struct freezer *f)
{
	for (size_t i = 0; i < f->n_pids; i++)
		if (f->pids[i] != f->caller_tgid &&
		    freezer_shares(f, f->pids[i]))
			return true;
	return false;
}

/*
 * A list that is made while all that were known stand still, and that names
 * nobody new, is complete: only who runs can make another task.
 */
static int stop_all(struct freezer *f)
{
	uint64_t begin = clock_now_ns();
	uint64_t ns = NAP_MIN_NS;
	int r;

	f->has_held = false;
	do {
		r = seize_new(f);
		if (r == -EAGAIN &&
		    clock_now_ns() - begin < STOP_MAX_MS * UINT64_C(1000000)) {
			ns = nap(ns);
			r = 1;
		}
		if (r >= 0 && wait_until_still(f, begin) < 0)
			r = -ETIMEDOUT;
	} while (r > 0);
	if (r < 0)
		return r;
	/* Nobody else is there, and only the caller could make somebody. */
	f->is_alone = f->n == 0 && !f->has_held;
	if (f->is_alone)
		return 0;
	r = note_living(f, begin);
	if (r < 0)
		return r;
	f->ran = read_ran(f->caller);
	if (f->how == FREEZE_WATCH && !redirect_is_of(f->caller) &&
	    freezer_has_sharer(f))
		f->how = FREEZE_SEIZE;
	if (f->how != FREEZE_SEIZE)
		return 0;
	/* Held by us, too; after the answer it shows when it has left. */
	r = seize(f, f->caller, f->caller_tgid);
	if (r < 0)
		return r;
	/* It may be from an earlier freeze that it waited through. */
	return find(f, f->caller) ? 0 : -ESRCH;
}

/*
 * It sleeps where only signals end it, has gone on to another call, or to the
 * next one of the same kind, or has used the CPU for long.
 */
static bool has_read(struct freezer *f)
{
	struct ran now = read_ran(f->caller);
	struct proc_stat st;
	int nr, r = proc_read_stat(f->caller, &st);

	if (r < 0)
		return r == -ESRCH;
	if (st.state == 'Z' || st.state == 'X' || now.ns >= f->ran.ns + READ_NS)
		return true;
	nr = task_blocked_in(f->caller);
	if (nr >= 0 && nr != f->caller_nr)
		return true;
	if (now.times == f->ran.times)
		return false;
	return st.state == 'S' || waits_for_answer(f->caller);
}

/* The exec of a thread makes it the leader, under whose number it stops. */
static bool has_left(struct freezer *f)
{
	struct tracee *t = find(f, f->caller);

	if (f->is_alone)
		return true;
	/* An earlier freeze may have seized it: then it stops once it has. */
	if (f->how == FREEZE_WATCH)
		return (t && t->is_stopped) || redirect_is_held(f->caller) ||
		       has_read(f);
	if (f->how == FREEZE_TRACED)
		return redirect_is_held(f->caller) ||
		       !redirect_is_of(f->caller);
	return !t || t->is_stopped;
}

static void wait_until_left(struct freezer *f)
{
	uint64_t end = clock_now_ns() + LEAVE_MAX_MS * UINT64_C(1000000);
	uint64_t ns = NAP_MIN_NS;

	for (;;) {
		look_at_all(f);
		if (has_left(f))
			return;
		if (clock_now_ns() >= end)
			break;
		ns = nap(ns);
	}
	/* What was decided must not be read by the kernel after the freeze. */
	(void)kill(f->caller_tgid, SIGKILL);
}

/*
 * Somebody has died meanwhile. The caller stands still, but for one that is
 * watched and traced by nobody: that one's memory is its own.
 */
static bool is_written_to(const struct freezer *f)
{
	if (f->is_alone ||
	    (f->how == FREEZE_WATCH && !redirect_is_of(f->caller)))
		return false;
	return count_others(f) != f->n_living;
}

static int do_job(struct freezer *f, enum job job)
{
	int r = 0;

	switch (job) {
	case JOB_NONE:
		break;
	case JOB_BEGIN:
		r = stop_all(f);
		if (r == 0)
			return 0;
		let_go_stopped(f);
		break;
	case JOB_END:
		wait_until_left(f);
		if (is_written_to(f))
			(void)kill(f->caller_tgid, SIGKILL);
		/* Its leader may have ended, and been in no list, before. */
		if (f->how == FREEZE_SEIZE && !f->is_alone &&
		    !find(f, f->caller) && !find(f, f->caller_tgid) &&
		    add(f, f->caller_tgid))
			look_at_all(f);
		let_go_stopped(f);
		break;
	case JOB_CANCEL:
		look_at_all(f);
		let_go_stopped(f);
		break;
	}
	return r;
}

/* ------------------------------------------------------------- thread -- */

static void *run(void *arg)
{
	struct freezer *f = arg;
	struct supervisor *s = f->s;
	bool frozen = false;
	int idle = 0;

	(void)pthread_mutex_lock(&f->lock);
	while (f->n || f->job ||
	       (idle++ < IDLE_TICKS && !atomic_load(&s->stopping))) {
		enum job job = f->job;
		bool has_late = f->n && !frozen;
		int r;

		if (!job) {
			(void)cond_wait_until(
				&f->changed, &f->lock,
				clock_now_ns() +
					(has_late ? NAP_MAX_NS : IDLE_TICK_NS));
			job = f->job;
		}
		(void)pthread_mutex_unlock(&f->lock);
		r = do_job(f, job);
		frozen = job == JOB_BEGIN ? r == 0 : frozen && !job;
		if (!frozen) {
			look_at_all(f);
			let_go_stopped(f);
		}
		(void)pthread_mutex_lock(&f->lock);
		if (!job)
			continue;
		idle = 0;
		f->result = r;
		f->job = JOB_NONE;
		(void)pthread_cond_broadcast(&f->changed);
	}
	f->has_thread = false;
	(void)pthread_mutex_unlock(&f->lock);
	thread_end(s);
	return NULL;
}

/* Has the thread do it. Only who holds the gate asks, so there is one job. */
static int order(struct freezer *f, struct call *c, enum job job,
		 enum freeze_caller how)
{
	int r = 0;

	(void)pthread_mutex_lock(&f->lock);
	f->s = c->s;
	f->how = how;
	f->caller = call_tid(c);
	f->caller_nr = call_nr(c);
	f->caller_tgid = call_tgid(c);
	if (!f->has_thread)
		r = thread_start(f->s, run, f);
	f->has_thread = r == 0;
	if (r == 0) {
		f->job = job;
		(void)pthread_cond_broadcast(&f->changed);
		while (f->job)
			(void)pthread_cond_wait(&f->changed, &f->lock);
		r = f->result;
	}
	(void)pthread_mutex_unlock(&f->lock);
	return r;
}

static void open_gate(struct call *c)
{
	c->has_gate = false;
	redirect_favour(0);
	gate_open(&c->s->gate);
}

int freezer_begin(struct freezer *f, struct call *c, enum freeze_caller how)
{
	/* While it is known to live: the number is used from here on. */
	if (call_tgid(c) == 0)
		return EPERM;
	if (how == FREEZE_SEIZE && redirect_is_of(call_tid(c)))
		how = FREEZE_TRACED;
	/* One exec after the other, however many were allowed at once. */
	while (gate_close(&c->s->gate, clock_now_ns() + GATE_TICK_NS) < 0)
		if (atomic_load(&c->s->stopping) || !call_is_valid(c))
			return EPERM;
	c->has_gate = true;
	redirect_favour(call_tid(c));
	if (order(f, c, JOB_BEGIN, how) == 0)
		return 0;
	open_gate(c);
	return EPERM;
}

void freezer_end(struct freezer *f, struct call *c)
{
	(void)order(f, c, JOB_END, f->how);
	open_gate(c);
}

void freezer_cancel(struct freezer *f, struct call *c)
{
	(void)order(f, c, JOB_CANCEL, f->how);
	open_gate(c);
}
