#include "supervise/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kernel/pidfd.h"
#include "kernel/registers.h"
#include "supervise/internal.h"

enum {
	/* Where it is written, below the stack: out of the way of a signal's
	 * frame, else where there is no room, just below the red zone. */
	FAR_BELOW = 24 * 1024,
	NEAR_BELOW = 512,
	ARGS_MAX = 64 * 1024,
	/* A signal handler may run before the call is made again. */
	STOPS_MAX = 10 * 1000,
	/* At the lower end of the main thread's stack, for who has none of its
	 * own: of the 128 KiB that the kernel gives it at least. */
	SHELVES = 8,
	SHELF_SIZE = 8 * 1024,
	SHELF_WAIT_MS = 5000,
	STACK_MIN = 128 * 1024,
	/* Below a heap there may be what is reserved for it. */
	GUARD_MAX = 64 * 1024,
};

enum verdict { VERDICT_NONE, VERDICT_GO, VERDICT_STOP };

/* Shared by the handler, until it has said its verdict, and the tracer. */
struct job {
	struct supervisor *s;
	pid_t tid;
	int nr;
	unsigned int arg;
	char *path;
	char **words;
	size_t n_words;
	int lent; /* the number that it has for the caller; -1: none */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	bool has_begun;
	int error; /* of the beginning */
	enum verdict verdict;
	/* Under the lock of all jobs. */
	struct job *next;
	pid_t caller; /* as it began */
	void *pass;
	void (*free_pass)(void *pass);
	bool is_anew;
	bool is_turned; /* path_at does not change any more */
	bool is_made;	/* its caller stands still behind it */
			/* The tracer's. */
#ifdef HAVE_REGISTERS
	struct registers was; /* to be put back */
#endif
	uint64_t path_at;
	int shelf, n_shelves; /* the first that it has, and how many */
};

/* All that there are: of one task there is one. */
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct job *jobs;

/* Of a freeze that waits for it. */
static _Atomic pid_t favourite;
static pthread_cond_t favour_changed = PTHREAD_COND_INITIALIZER;

void redirect_favour(pid_t tid)
{
	(void)pthread_mutex_lock(&jobs_lock);
	atomic_store(&favourite, tid);
	(void)pthread_cond_broadcast(&favour_changed);
	(void)pthread_mutex_unlock(&jobs_lock);
}

/* With the lock held. */
static struct job *job_of(pid_t tid)
{
	struct job *j = jobs;

	while (j && j->caller != tid)
		j = j->next;
	return j;
}

/* Its instruction may be another one by the time it is made again. */
static bool is_its_call(const struct job *j, uint64_t nr, uint64_t path_at)
{
	return nr == (uint64_t)(j->nr == SYS_execveat ? SYS_execve : j->nr) &&
	       path_at == j->path_at;
}

static struct job *job_that_makes(struct call *c)
{
	struct job *j = job_of(call_tid(c));

	return j && j->is_turned && !j->is_anew &&
			       is_its_call(j, (uint64_t)call_nr(c),
					   call_arg(c, j->arg))
		       ? j
		       : NULL;
}

bool redirect_is_made(struct call *c)
{
	bool is;

	(void)pthread_mutex_lock(&jobs_lock);
	is = job_that_makes(c);
	(void)pthread_mutex_unlock(&jobs_lock);
	return is;
}

void *redirect_take(struct call *c)
{
	struct job *j;
	void *pass = NULL;

	(void)pthread_mutex_lock(&jobs_lock);
	j = job_that_makes(c);
	if (j)
		pass = take_ptr(&j->pass);
	(void)pthread_mutex_unlock(&jobs_lock);
	return pass;
}

bool redirect_is_of(pid_t tid)
{
	bool is;

	(void)pthread_mutex_lock(&jobs_lock);
	is = job_of(tid);
	(void)pthread_mutex_unlock(&jobs_lock);
	return is;
}

bool redirect_is_held(pid_t tid)
{
	const struct job *j;
	bool is;

	(void)pthread_mutex_lock(&jobs_lock);
	j = job_of(tid);
	is = j && j->is_made;
	(void)pthread_mutex_unlock(&jobs_lock);
	return is;
}

#ifdef HAVE_REGISTERS

/* By whoever is in between: there may be several threads of one memory. */
static atomic_bool shelf_is_used[SHELVES];

static void join_jobs(struct job *j)
{
	(void)pthread_mutex_lock(&jobs_lock);
	j->next = jobs;
	jobs = j;
	(void)pthread_mutex_unlock(&jobs_lock);
}

static void leave_jobs(const struct job *j)
{
	struct job **at = &jobs;

	(void)pthread_mutex_lock(&jobs_lock);
	while (*at && *at != j)
		at = &(*at)->next;
	if (*at)
		*at = j->next;
	(void)pthread_mutex_unlock(&jobs_lock);
}

static void leave_shelves(struct job *j)
{
	while (j->n_shelves)
		atomic_store(&shelf_is_used[j->shelf + --j->n_shelves], false);
}

static void job_free(struct job *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n_words; i++)
		free(j->words[i]);
	leave_jobs(j);
	if (j->pass)
		j->free_pass(j->pass);
	leave_shelves(j);
	free(j->words);
	free(j->path);
	(void)pthread_cond_destroy(&j->changed);
	(void)pthread_mutex_destroy(&j->lock);
	free(j);
}

static struct job *job_new(struct call *c, const struct redirect *r)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j || pthread_mutex_init(&j->lock, NULL)) {
		free(j);
		if (r->pass)
			r->free_pass(r->pass);
		return NULL;
	}
	(void)pthread_cond_init(&j->changed, NULL);
	j->s = c->s;
	j->tid = j->caller = call_tid(c);
	j->pass = r->pass;
	j->free_pass = r->free_pass;
	j->is_anew = r->is_anew;
	j->nr = call_nr(c);
	j->arg = r->arg;
	j->lent = -1;
	j->path = strdup(r->path);
	j->words = calloc(r->n_words + 1, sizeof(*j->words));
	if (!j->path || !j->words) {
		job_free(j);
		return NULL;
	}
	for (size_t i = 0; i < r->n_words; i++) {
		j->words[i] = strdup(r->words[i]);
		if (!j->words[i]) {
			job_free(j);
			return NULL;
		}
		j->n_words++;
	}
	return j;
}

/* ----------------------------------------------------------- its memory -- */

static int read_memory(pid_t tid, uint64_t at, void *data, size_t n)
{
	struct iovec ours = { data, n }, theirs = { (void *)(uintptr_t)at, n };

	return process_vm_readv(tid, &ours, 1, &theirs, 1, 0) == (ssize_t)n
		       ? 0
		       : -EFAULT;
}

static int write_memory(pid_t tid, uint64_t at, const void *data, size_t n)
{
	struct iovec ours = { (void *)(uintptr_t)data, n };
	struct iovec theirs = { (void *)(uintptr_t)at, n };

	return process_vm_writev(tid, &ours, 1, &theirs, 1, 0) == (ssize_t)n
		       ? 0
		       : -EFAULT;
}

static uint64_t argv_of(const struct job *j)
{
	return registers_argument(&j->was, j->nr == SYS_execveat ? 2 : 1);
}

/* The arguments behind the first, with the NULL at their end. */
static int read_args(const struct job *j, struct buf *ret)
{
	uint64_t at = argv_of(j), word = 0;

	for (int i = 0; at && i < ARGS_MAX; i++, at += sizeof(word)) {
		int r = read_memory(j->tid, at, &word, sizeof(word));

		if (r < 0)
			return r;
		if (i > 0 || !word)
			buf_add(ret, &word, sizeof(word));
		if (!word)
			return buf_failed(ret) ? -ENOMEM : 0;
	}
	return -E2BIG;
}

/* Pointers first, for their alignment; the strings behind them. */
static int lay_out(const struct job *j, const struct buf *args, uint64_t base,
		   struct buf *out)
{
	uint64_t at = base;

	if (j->n_words)
		at += j->n_words * sizeof(at) + args->len;
	for (size_t i = 0; i < j->n_words; i++) {
		buf_add(out, &at, sizeof(at));
		at += strlen(j->words[i]) + 1;
	}
	buf_add(out, args->data, args->len);
	for (size_t i = 0; i < j->n_words; i++)
		buf_add(out, j->words[i], strlen(j->words[i]) + 1);
	buf_add(out, j->path, strlen(j->path) + 1);
	return buf_failed(out) ? -ENOMEM : 0;
}

/*
 * Is there room below its stack pointer that nobody else uses? There is in the
 * main thread's stack, and in one that ends at a guard, as those of pthreads
 * do. The stack of a goroutine is a small piece of the heap, and the child of a
 * vfork shares it. @ret_main is where the main thread's ends.
 */
static bool has_stack(const struct job *j, uint64_t *ret_main)
{
	unsigned long long from, to, before = 0;
	uint64_t sp = registers_stack(&j->was);
	char path[40], line[512], rights[8];
	bool is_guard = false, found = false;
	FILE *f;

	*ret_main = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)j->tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		bool is_main = strstr(line, "[stack]");

		if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) != 3)
			continue;
		if (is_main && to - from >= STACK_MIN)
			*ret_main = from;
		if (sp >= from && sp < to)
			found = is_main || (is_guard && before == from);
		before = to;
		is_guard = strncmp(rights, "---", 3) == 0 &&
			   to - from <= GUARD_MAX;
	}
	(void)fclose(f);
	return found;
}

/* @n of them, side by side. */
static bool take_shelves(struct job *j, int n)
{
	for (int i = 0; i < SHELVES && j->n_shelves < n; i++) {
		if (atomic_exchange(&shelf_is_used[i], true)) {
			leave_shelves(j);
			continue;
		}
		if (!j->n_shelves)
			j->shelf = i;
		j->n_shelves++;
	}
	if (j->n_shelves == n)
		return true;
	leave_shelves(j);
	return false;
}

/* Each is needed for as long as it takes to make a call. */
static int wait_for_shelves(struct job *j, int n)
{
	const struct timespec nap = { .tv_nsec = 1000 * 1000 };

	for (int ms = 0; ms < SHELF_WAIT_MS; ms++) {
		if (take_shelves(j, n))
			return 0;
		(void)nanosleep(&nap, NULL);
	}
	return -EAGAIN;
}

static int write_all(struct job *j, uint64_t top, uint64_t *ret_argv)
{
	auto_(buf) struct buf args = BUF_INIT;
	auto_(buf) struct buf out = BUF_INIT;
	uint64_t base;
	int r = j->n_words ? read_args(j, &args) : 0;

	/* How long it is does not depend on where it is. */
	if (r == 0)
		r = lay_out(j, &args, 0, &out);
	if (r < 0)
		return r;
	if (j->n_shelves && out.len > (size_t)j->n_shelves * SHELF_SIZE - 64)
		return -E2BIG;
	base = (top - out.len) & ~UINT64_C(63);
	buf_clear(&out);
	r = lay_out(j, &args, base, &out);
	if (r == 0)
		r = write_memory(j->tid, base, out.data, out.len);
	*ret_argv = base;
	j->path_at = base + out.len - strlen(j->path) - 1;
	return r;
}

/* One is enough for all but long lists of arguments. */
static int write_on_shelf(struct job *j, uint64_t end, uint64_t *ret_argv)
{
	int r = -E2BIG;

	for (int n = 1; r == -E2BIG && n <= SHELVES; n *= SHELVES) {
		leave_shelves(j);
		r = wait_for_shelves(j, n);
		if (r == 0)
			r = write_all(
				j, end + (uint64_t)(j->shelf + n) * SHELF_SIZE,
				ret_argv);
	}
	return r;
}

static int write_somewhere(struct job *j, uint64_t *ret_argv)
{
	uint64_t sp = registers_stack(&j->was), end;
	int r;

	if (has_stack(j, &end)) {
		r = write_all(j, sp - FAR_BELOW, ret_argv);
		return r == -EFAULT ? write_all(j, sp - NEAR_BELOW, ret_argv)
				    : r;
	}
	return end ? write_on_shelf(j, end, ret_argv) : -EOPNOTSUPP;
}

/* --------------------------------------------------------- its registers -- */

/* It is on its way out of the call, to make it again. */
static int turn(struct job *j)
{
	struct registers now;
	uint64_t argv = 0;
	int set, r = registers_read(j->tid, &j->was);

	if (r == 0 && !registers_will_restart(j->tid, &j->was, j->nr,
					      OUTCOME_ALWAYS_RESTART_ERRNO))
		r = -ESRCH;
	if (r < 0)
		return r;
	r = write_somewhere(j, &argv);
	now = j->was;
	if (r < 0) /* Nothing is made again. */
		registers_fail(&now, -r);
	else
		registers_set_argument(&now, j->arg, j->path_at);
	if (r == 0 && j->nr == SYS_execveat) {
		registers_set_call(&now, SYS_execve);
		for (unsigned int i = 1; i <= 2; i++)
			registers_set_argument(
				&now, i, registers_argument(&j->was, i + 1));
	}
	if (r == 0 && j->n_words)
		registers_set_argument(&now, 1, argv);
	(void)pthread_mutex_lock(&jobs_lock);
	j->is_turned = r == 0;
	(void)pthread_mutex_unlock(&jobs_lock);
	set = registers_write(j->tid, &now);
	return set < 0 ? set : r;
}

/* The way in, not what it was given back to by a signal's handler. */
static bool is_ours(const struct job *j)
{
	struct __ptrace_syscall_info now;

	return ptrace(PTRACE_GET_SYSCALL_INFO, j->tid, sizeof(now), &now) > 0 &&
	       now.op == PTRACE_SYSCALL_INFO_ENTRY &&
	       is_its_call(j, now.entry.nr, now.entry.args[j->arg]);
}

static void put_back(struct job *j)
{
	struct registers now;

	if (registers_read(j->tid, &now) < 0)
		return;
	registers_put_back(&now, &j->was);
	(void)registers_write(j->tid, &now);
}

/* --------------------------------------------------------------- stops -- */

/* The next stop's status; -1: it has gone. Its death is its parent's to see,
 * where that is somebody of ours. */
static int wait_for_stop(struct job *j)
{
	const int options = WEXITED | WSTOPPED | __WALL | __WNOTHREAD;
	struct proc_stat st;
	siginfo_t si;

	do {
		si.si_pid = 0;
		if (waitid(P_ALL, 0, &si, options | WNOWAIT) < 0) {
			if (errno != EINTR)
				return -1;
			continue;
		}
	} while (si.si_pid == 0);
	if (si.si_code == CLD_TRAPPED || si.si_code == CLD_STOPPED) {
		(void)waitid(P_PID, (id_t)si.si_pid, &si,
			     WSTOPPED | __WALL | __WNOTHREAD);
		/* An exec makes it the leader. */
		j->tid = si.si_pid;
		return si.si_status;
	}
	if (proc_read_stat(si.si_pid, &st) == 0 && st.ppid != getpid())
		(void)waitid(P_PID, (id_t)si.si_pid, &si, options);
	return -1;
}

static void let_run(const struct job *j, int how, int signal)
{
	bool favoured = atomic_load(&favourite) == j->caller;

	if (!favoured)
		gate_enter(&j->s->gate);
	/* Its next call is none of ours, however soon it comes. */
	if (how == PTRACE_DETACH)
		leave_jobs(j);
	(void)ptrace(how, j->tid, NULL, (void *)(intptr_t)signal);
	if (!favoured)
		gate_leave(&j->s->gate);
}

static void detach(const struct job *j, int signal)
{
	let_run(j, PTRACE_DETACH, signal);
}

/* What it has read is judged before it runs: it may be killed here. */
static void detach_judged(struct job *j)
{
	(void)pthread_mutex_lock(&jobs_lock);
	j->is_made = true;
	while (atomic_load(&favourite) == j->caller)
		(void)pthread_cond_wait(&favour_changed, &jobs_lock);
	(void)pthread_mutex_unlock(&jobs_lock);
	detach(j, 0);
}

/* How it goes on from a stop that is not the call's. */
static void pass(const struct job *j, int status)
{
	int event = status >> 8, signal = status & 0xff;

	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
		let_run(j, PTRACE_LISTEN, 0);
	else
		let_run(j, PTRACE_SYSCALL, event ? 0 : signal);
}

/* ------------------------------------------------------- what was lent -- */

/* One call of its own, from where it stands behind another one. */
static int make_call(struct job *j, const struct registers *regs)
{
	int stops = 0, r = registers_write(j->tid, regs);

	if (r < 0)
		return r;
	let_run(j, PTRACE_SYSCALL, 0);
	for (int i = 0; i < STOPS_MAX; i++) {
		int status = wait_for_stop(j);

		if (status < 0)
			return -ESRCH;
		if (status == (SIGTRAP | 0x80) && ++stops == 2)
			return 0;
		pass(j, status == (SIGTRAP | 0x80) ? 0 : status);
	}
	return wait_for_stop(j) < 0 ? -ESRCH : 0;
}

/*
 * It stands behind the call, which is over, and no exec: that would have closed
 * it. No handler of a signal sees it in between. -ESRCH: it has died.
 */
static int take_back(struct job *j)
{
	struct registers was, regs;
	uint64_t all = UINT64_MAX, mask;
	void *size = (void *)sizeof(mask);
	int r;

	if (j->lent < 0)
		return 0;
	if (registers_read(j->tid, &was) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, j->tid, size, &mask) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, j->tid, size, &all) < 0)
		return -errno;
	regs = was;
	registers_make_call(&regs, SYS_close, (uint64_t)j->lent);
	r = make_call(j, &regs);
	if (r == 0) {
		(void)registers_write(j->tid, &was);
		(void)ptrace(PTRACE_SETSIGMASK, j->tid, size, &mask);
	}
	return r;
}

static void see_through(struct job *j)
{
	bool is_in = false;

	for (int i = 0; i < STOPS_MAX; i++) {
		int status = wait_for_stop(j);
		bool is_call = status == (SIGTRAP | 0x80);

		if (status < 0)
			return;
		if (status >> 8 == PTRACE_EVENT_EXEC) {
			detach_judged(j);
			return;
		}
		if (is_call && is_in) {
			put_back(j);
			if (take_back(j) != -ESRCH)
				detach_judged(j);
			return;
		}
		if (is_call && is_ours(j))
			is_in = true;
		pass(j, is_call ? 0 : status);
	}
	if (wait_for_stop(j) >= 0)
		detach(j, 0);
}

/* By a freeze, until it stops: on its way out of this call. */
static bool is_traced_by_us(pid_t tid)
{
	char path[40], text[4096], *at;
	auto_close int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strstr(text, "\nTracerPid:");
	if (!at)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/self/task/%ld",
		       strtol(at + strlen("\nTracerPid:"), NULL, 10));
	return access(path, F_OK) == 0;
}

static enum verdict begin(struct job *j)
{
	enum verdict v;
	int error = 0;

	if (ptrace(PTRACE_SEIZE, j->tid, NULL,
		   (void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC |
			    PTRACE_O_TRACESYSGOOD)) < 0 ||
	    ptrace(PTRACE_INTERRUPT, j->tid, NULL, NULL) < 0)
		error = errno;
	/* Then it makes this call again as it was. */
	if (error == EPERM && is_traced_by_us(j->tid))
		error = OUTCOME_ALWAYS_RESTART_ERRNO;
	(void)pthread_mutex_lock(&j->lock);
	j->error = error;
	j->has_begun = true;
	(void)pthread_cond_broadcast(&j->changed);
	while (!j->verdict)
		(void)pthread_cond_wait(&j->changed, &j->lock);
	v = j->verdict;
	(void)pthread_mutex_unlock(&j->lock);
	return error ? VERDICT_NONE : v;
}

static void *trace(void *arg)
{
	struct job *j = arg;
	struct supervisor *s = j->s;
	enum verdict v = begin(j);
	int status = v == VERDICT_NONE ? -1 : wait_for_stop(j);

	if (status >= 0 && (v == VERDICT_STOP ||
			    status >> 8 != PTRACE_EVENT_STOP || turn(j) < 0)) {
		if (take_back(j) != -ESRCH)
			detach(j, status >> 8 ? 0 : status);
	} else if (status >= 0) {
		let_run(j, PTRACE_SYSCALL, 0);
		see_through(j);
	}
	job_free(j);
	thread_end(s);
	return NULL;
}

/* Before the verdict: nobody else looks at it yet. */
static int lend(struct call *c, struct job *j, const struct redirect *r)
{
	char *path;
	int n = call_install_fd(c, r->lent_fd, true);

	if (n < 0)
		return n;
	j->lent = n;
	if (asprintf(&path, "/proc/%d/task/%d/fd/%d%s%s", (int)call_tgid(c),
		     (int)call_tid(c), n, *r->path ? "/" : "", r->path) < 0)
		return -ENOMEM;
	free(j->path);
	j->path = path;
	if (j->pass && r->name_pass)
		r->name_pass(j->pass, path);
	return 0;
}

struct outcome redirect_call(struct call *c, const struct redirect *r)
{
	struct job *j = job_new(c, r);
	int error;

	if (!j)
		return OUTCOME_FAIL(ENOMEM);
	join_jobs(j);
	if (thread_start(c->s, trace, j) < 0) {
		job_free(j);
		return OUTCOME_FAIL(EAGAIN);
	}
	(void)pthread_mutex_lock(&j->lock);
	while (!j->has_begun)
		(void)pthread_cond_wait(&j->changed, &j->lock);
	error = j->error;
	/* A number that somebody else has by now is let go of. */
	if (!error && !call_is_valid(c))
		error = ESRCH;
	if (!error && r->is_lent)
		error = -lend(c, j, r);
	j->verdict = error ? VERDICT_STOP : VERDICT_GO;
	(void)pthread_cond_broadcast(&j->changed);
	(void)pthread_mutex_unlock(&j->lock);
	return error ? OUTCOME_FAIL(error)
		     : OUTCOME_FAIL(OUTCOME_ALWAYS_RESTART_ERRNO);
}

#else

struct outcome redirect_call(struct call *c, const struct redirect *r)
{
	(void)c;
	if (r->pass)
		r->free_pass(r->pass);
	return OUTCOME_FAIL(EOPNOTSUPP);
}

#endif
