#include "trap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "supervise/account.h"
#include "supervise/supervisor.h"

#ifndef SYS_fork
#define SYS_fork SYS_clone
#endif

/* Calls that libc makes for nobody, so that a child traps only on purpose. */
enum {
	NR_A = SYS_getpgid,
	NR_B = SYS_getsid,
	NR_C = SYS_getpriority,
	NR_FORK = SYS_fork,
};

static const int trapped_nrs[] = { NR_A, NR_B, NR_C, NR_FORK };

static struct error err;
/* Without a supervisor; ThreadSanitizer makes one with the first of ours. */
#ifdef __SANITIZE_THREAD__
static const size_t own_threads = 2;
#else
static const size_t own_threads = 1;
#endif
static pid_t own_session, own_group; /* 0 where begun outside, as in CI */

static struct supervisor *supervise(const struct handler *h, size_t n,
				    const struct supervisor_options *more)
{
	struct supervisor_options o =
		more ? *more : (struct supervisor_options){ 0 };
	struct supervisor *s = NULL;

	o.handlers = h;
	o.n_handlers = n;
	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	return s;
}

static struct trapped child(struct supervisor *s, int (*body)(void *),
			    void *arg)
{
	struct trapped t =
		trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), body, arg);

	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	return t;
}

/* Runs @body under the handlers; its wait status. */
static int run_under(const struct handler *h, size_t n, int (*body)(void *),
		     void *arg)
{
	struct supervisor *s = supervise(h, n, NULL);
	struct trapped t = child(s, body, arg);
	int status;

	trap_go(&t);
	status = trap_wait(t.pid, 10);
	supervisor_free(s);
	return status;
}

static void on_urgent(int sig)
{
}

static int ask_b(void *arg)
{
	MUST(syscall(NR_B, 0) == 7);
	return 0;
}

static struct outcome value_7(struct call *c, void *data);

/* First, as no thread has left a stack yet that would do without memory. */
static void test_a_start_that_failed_may_be_tried_again(void **state)
{
	const struct handler h = { "getsid", NR_B, LANE_INLINE, value_7 };
	const struct supervisor_options o = { .handlers = &h, .n_handlers = 1 };
	struct sigaction sa = { .sa_handler = on_urgent }, now, before;
	struct rlimit was, none = { 0, RLIM_INFINITY };
	struct supervisor *s;
	struct trapped t;

#ifdef SANITIZED
	skip(); /* A sanitizer needs memory of its own to fail a mapping. */
#endif
	assert_int_equal(sigaction(SIGURG, &sa, &before), 0);
	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	t = child(s, ask_b, NULL);
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	assert_true(supervisor_start(s, &err) < 0);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	trap_go(&t);
	assert_int_equal(trap_wait(t.pid, 30), 0);
	supervisor_free(s);
	assert_int_equal(sigaction(SIGURG, &before, &now), 0);
	assert_ptr_equal(now.sa_handler, on_urgent);
}

static struct outcome go(struct call *c, void *data)
{
	if (data)
		(void)atomic_fetch_add((atomic_int *)data, 1);
	return OUTCOME_GO;
}

static struct outcome value_7(struct call *c, void *data)
{
	if (data)
		(void)atomic_fetch_add((atomic_int *)data, 1);
	return OUTCOME_VALUE(7);
}

static struct outcome fail_enotty(struct call *c, void *data)
{
	return OUTCOME_FAIL(ENOTTY);
}

/* ---------------------------------------------------------------- chain -- */

static int chain_child(void *arg)
{
	MUST(syscall(NR_A, 0) == 7);
	MUST(syscall(NR_B, 0) == own_session);
	MUST(syscall(NR_C, 0, 0) == -1 && errno == EPERM);
	return 0;
}

static void test_chain(void **state)
{
	atomic_int before = 0, after = 0;
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_INLINE, go, &before, NULL },
		{ "getsid", NR_B, LANE_INLINE, go, &before, NULL },
		{ "getpgid", NR_A, LANE_INLINE, value_7, NULL, NULL },
		{ "getpgid", NR_A, LANE_INLINE, go, &after, NULL },
	};

	assert_int_equal(run_under(h, ARRAY_LEN(h), chain_child, NULL), 0);
	assert_int_equal(before, 2);
	assert_int_equal(after, 0);
}

static int kernels_child(void *arg)
{
	MUST(syscall(NR_B, 0) == own_session);
	MUST(syscall(NR_A, 1 << 30) == -1 && errno == ESRCH);
	MUST(syscall(NR_C, 0, 0) == -1 && errno == ENOTTY);
	return 0;
}

static void test_lanes_change_nothing(void **state)
{
	for (enum lane lane = LANE_INLINE; lane <= LANE_EXTERNAL; lane++) {
		const struct handler h[] = {
			{ "getpgid", NR_A, lane, go, NULL, NULL },
			{ "getsid", NR_B, lane, go, NULL, NULL },
			{ "getpriority", NR_C, lane, fail_enotty, NULL, NULL },
		};

		assert_int_equal(
			run_under(h, ARRAY_LEN(h), kernels_child, NULL), 0);
	}
}

static int seven_child(void *arg)
{
	for (int i = 0; i < 50; i++)
		MUST(syscall(NR_A, 0) == 7);
	return 0;
}

static void test_park_resumes_where_it_was(void **state)
{
	atomic_int first = 0, second = 0, third = 0, never = 0;
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_EXTERNAL, go, &first, NULL },
		{ "getpgid", NR_A, LANE_LOCAL, go, &second, NULL },
		{ "getpgid", NR_A, LANE_EXTERNAL, value_7, &third, NULL },
		{ "getpgid", NR_A, LANE_INLINE, go, &never, NULL },
	};

	assert_int_equal(run_under(h, ARRAY_LEN(h), seven_child, NULL), 0);
	assert_int_equal(first, 50);
	assert_int_equal(second, 50);
	assert_int_equal(third, 50);
	assert_int_equal(never, 0);
}

/* ------------------------------------------------------------ deadlines -- */

static struct outcome sleep_700(struct call *c, void *data)
{
	trap_sleep_ms(700);
	(void)atomic_fetch_add((atomic_int *)data, 1);
	return OUTCOME_GO;
}

static int deadline_child(void *arg)
{
	uint64_t began = trap_now_ms(), took;

	MUST(syscall(NR_A, 0) == -1 && errno == EIO);
	took = trap_now_ms() - began;
	MUST(took >= 990 && took < 1650);
	return 0;
}

static void test_one_deadline_for_all_parks(void **state)
{
	atomic_int ran = 0;
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_EXTERNAL, sleep_700, &ran, NULL },
		{ "getpgid", NR_A, LANE_EXTERNAL, sleep_700, &ran, NULL },
		{ "getpgid", NR_A, LANE_EXTERNAL, sleep_700, &ran, NULL },
		{ "getsid", NR_B, LANE_EXTERNAL, value_7, NULL, NULL },
	};
	const struct supervisor_options o = { .park_timeout_ms = 1000,
					      .external_workers = 1 };
	struct supervisor *s = supervise(h, ARRAY_LEN(h), &o);
	struct trapped t = child(s, deadline_child, NULL);
	uint64_t began = trap_now_ms();

	trap_go(&t);
	assert_int_equal(trap_wait(t.pid, 5), 0);
	/* The slot is taken until the function returns. */
	assert_int_equal(ran, 1);
	supervisor_free(s);
	assert_true(trap_now_ms() - began >= 1390);
	assert_int_equal(ran, 2);
}

/* -------------------------------------------------------------- signals -- */

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	alarms++;
}

static void set_alarm(int flags, unsigned int ms)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };
	struct itimerspec it = { .it_value.tv_nsec = ms * 1000000L };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = SIGALRM };
	timer_t timer;

	MUST(sigaction(SIGALRM, &sa, NULL) == 0);
	MUST(timer_create(CLOCK_MONOTONIC, &ev, &timer) == 0);
	MUST(timer_settime(timer, 0, &it, NULL) == 0);
}

static struct outcome slow_once(struct call *c, void *data)
{
	if (atomic_fetch_add((atomic_int *)data, 1) == 0)
		trap_sleep_ms(1500);
	return OUTCOME_VALUE(7);
}

static int eintr_child(void *arg)
{
	uint64_t began = trap_now_ms();

	set_alarm(0, 50);
	MUST(syscall(NR_A, 0) == -1 && errno == EINTR);
	MUST(trap_now_ms() - began < 1400);
	MUST(alarms == 1 || TRAP_TSAN);
	return 0;
}

static int restart_child(void *arg)
{
	set_alarm(SA_RESTART, 50);
	MUST(syscall(NR_A, 0) == 7);
	MUST(alarms == 1 || TRAP_TSAN);
	return 0;
}

static int blocked_child(void *arg)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGALRM);
	MUST(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	set_alarm(0, 50);
	MUST(syscall(NR_A, 0) == 7);
	MUST(alarms == 0);
	return 0;
}

static void check_signal(enum lane lane, int (*body)(void *), int expect)
{
	atomic_int ran = 0;
	const struct handler h[] = {
		{ "getpgid", NR_A, lane, slow_once, &ran, NULL },
	};

	assert_int_equal(run_under(h, 1, body, NULL), 0);
	assert_int_equal(ran, expect);
}

static int untouched_child(void *arg)
{
	set_alarm(0, 50);
	MUST(syscall(NR_A, 0) == 7);
	MUST(alarms == 1 || TRAP_TSAN);
	return 0;
}

static int fork_child(void *arg)
{
	set_alarm(0, 50);
	MUST(syscall(NR_FORK) == 7);
	MUST(alarms == 1 || TRAP_TSAN);
	return 0;
}

static void test_a_fork_is_never_interrupted(void **state)
{
	atomic_int ran = 0;
	const struct handler h[] = {
		{ "fork", NR_FORK, LANE_EXTERNAL, slow_once, &ran, NULL },
	};

	assert_int_equal(run_under(h, 1, fork_child, NULL), 0);
	assert_int_equal(ran, 2);
}

static void test_signals(void **state)
{
	check_signal(LANE_EXTERNAL, eintr_child, 1);
	check_signal(LANE_EXTERNAL, restart_child, 2);
	check_signal(LANE_EXTERNAL, blocked_child, 1);
}

static void test_local_work_is_never_answered_midway(void **state)
{
	check_signal(LANE_LOCAL, untouched_child, 1);
}

static struct outcome block(struct call *c, void *data)
{
	atomic_int *ended = data;
	int r;

	call_block_begin(c, EINTR);
	r = poll(NULL, 0, 5000);
	call_block_end(c);
	if (r < 0 && errno == EINTR && call_is_abandoned(c))
		(void)atomic_fetch_add(ended, 1);
	return OUTCOME_VALUE(7);
}

static int block_child(void *arg)
{
	set_alarm(SA_RESTART, 50);
	MUST(syscall(NR_A, 0) == -1 && errno == EINTR);
	MUST(alarms == 1 || TRAP_TSAN);
	return 0;
}

static int die_child(void *arg)
{
	(void)syscall(NR_A, 0);
	return 1;
}

static void test_blocking_handlers_are_poked(void **state)
{
	for (enum lane lane = LANE_LOCAL; lane <= LANE_EXTERNAL; lane++) {
		atomic_int ended = 0;
		const struct handler h[] = {
			{ "getpgid", NR_A, lane, block, &ended, NULL },
		};
		struct supervisor *s = supervise(h, 1, NULL);
		uint64_t began = trap_now_ms();
		struct trapped t = child(s, block_child, NULL);

		trap_go(&t);
		assert_int_equal(trap_wait(t.pid, 5), 0);
		t = child(s, die_child, NULL);
		trap_go(&t);
		trap_sleep_ms(100);
		assert_int_equal(kill(t.pid, SIGKILL), 0);
		(void)trap_wait(t.pid, 5);
		supervisor_free(s);
		assert_int_equal(ended, 2);
		assert_true(trap_now_ms() - began < 5000);
	}
}

/* ------------------------------------------------------------ slow ones -- */

enum { FAST = 1000 };

static atomic_int slow_runs, fast_runs;

/* Until the others have been answered, or never will be. */
static struct outcome slow_local(struct call *c, void *data)
{
	(void)atomic_fetch_add(&slow_runs, 1);
	for (int i = 0; i < 60000 && fast_runs < FAST; i++)
		trap_sleep_ms(1);
	return OUTCOME_VALUE(fast_runs == FAST ? 7 : 8);
}

static struct outcome fast_local(struct call *c, void *data)
{
	(void)atomic_fetch_add(&fast_runs, 1);
	return OUTCOME_VALUE(1);
}

static int slow_child(void *arg)
{
	pid_t pid = fork();
	int status;

	MUST(pid >= 0);
	if (pid == 0) {
		MUST(syscall(NR_A, 0) == 7);
		_exit(0);
	}
	trap_sleep_ms(20);
	for (int i = 0; i < FAST; i++)
		MUST(syscall(NR_B, 0) == 1);
	MUST(waitpid(pid, &status, 0) == pid);
	return status != 0;
}

static void test_slow_local_work_stalls_only_its_caller(void **state)
{
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_LOCAL, slow_local, NULL, NULL },
		{ "getsid", NR_B, LANE_LOCAL, fast_local, NULL, NULL },
	};

	slow_runs = fast_runs = 0;
	assert_int_equal(run_under(h, 2, slow_child, NULL), 0);
	assert_int_equal(slow_runs, 1);
	assert_int_equal(fast_runs, FAST);
}

/* --------------------------------------------------------------- memory -- */

struct told {
	char string[32];
	int string_result, long_result, fault_result, write_result, fd_result;
	pid_t tgid, tid;
	bool cwd_is_right;
};

static struct outcome look(struct call *c, void *data)
{
	struct told *told = data;
	auto_close int fd = -1, cwd = -1;
	struct stat a, b;
	char small[4];

	told->string_result = call_read_string(c, call_arg(c, 0), told->string,
					       sizeof(told->string));
	told->long_result =
		call_read_string(c, call_arg(c, 0), small, sizeof(small));
	told->fault_result = call_read(c, 8, small, sizeof(small));
	told->write_result = call_write(c, call_arg(c, 1), "changed", 8);
	told->tgid = call_tgid(c);
	told->tid = call_tid(c);
	fd = call_get_fd(c, (int)call_arg(c, 2));
	told->fd_result = fd;
	cwd = call_open_dirfd(c, AT_FDCWD);
	told->cwd_is_right = fstat(cwd, &a) == 0 && stat("/proc", &b) == 0 &&
			     a.st_ino == b.st_ino && a.st_dev == b.st_dev;
	return OUTCOME_VALUE(call_open_dirfd(c, 99) == -EBADF ? 7 : 0);
}

static void *look_thread(void *arg)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char target[8] = "before";
	char *string = page + 4096 - 6;

	MUST(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
	memcpy(string, "hello", 6);
	MUST(syscall(NR_A, string, target, 0) == 7);
	MUST(strcmp(target, "changed") == 0);
	return NULL;
}

static int look_child(void *arg)
{
	pthread_t thread;

	MUST(chdir("/proc") == 0);
	MUST(pthread_create(&thread, NULL, look_thread, NULL) == 0);
	MUST(pthread_join(thread, NULL) == 0);
	return 0;
}

static void test_memory_and_descriptors(void **state)
{
	struct told told = { 0 };
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_LOCAL, look, &told, NULL },
	};

	assert_int_equal(run_under(h, 1, look_child, NULL), 0);
	assert_int_equal(told.string_result, 0);
	assert_string_equal(told.string, "hello");
	assert_int_equal(told.long_result, -ENAMETOOLONG);
	assert_int_equal(told.fault_result, -EFAULT);
	assert_int_equal(told.write_result, 0);
	assert_true(told.fd_result >= 0);
	assert_true(told.tgid > 0 && told.tid > 0 && told.tgid != told.tid);
	assert_true(told.cwd_is_right);
}

static struct outcome give_fd(struct call *c, void *data)
{
	int fd = memfd_create("given", MFD_CLOEXEC);

	if (fd < 0 || write(fd, "given", 5) != 5)
		return OUTCOME_FAIL(EIO);
	return OUTCOME_OPEN(fd, call_arg(c, 0) != 0);
}

static int fd_child(void *arg)
{
	struct rlimit none = { 0, 0 };
	char text[8] = "";
	int fd;

	for (int cloexec = 0; cloexec < 2; cloexec++) {
		fd = (int)syscall(NR_A, cloexec);
		MUST(fd > 2);
		MUST(fcntl(fd, F_GETFD) == (cloexec ? FD_CLOEXEC : 0));
		MUST(pread(fd, text, 7, 0) == 5 && strcmp(text, "given") == 0);
	}
	MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
	MUST(syscall(NR_A, 0) == -1 && errno == EMFILE);
	return 0;
}

static void test_an_fd_as_the_result(void **state)
{
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_LOCAL, give_fd, NULL, NULL },
	};
	size_t before = trap_count("/proc/self/fd");

	assert_int_equal(run_under(h, 1, fd_child, NULL), 0);
	assert_int_equal(trap_count("/proc/self/fd"), before);
}

/* ------------------------------------------------------------- accounts -- */

/* Refuses calls with @refused as their argument. */
struct book {
	uint64_t refused;
	atomic_int settled, sent, undone;
};

static int settle(struct call *c, void *data)
{
	struct book *b = data;

	if (call_arg(c, 0) == b->refused)
		return EAGAIN;
	(void)atomic_fetch_add(&b->settled, 1);
	return 0;
}

static void note_sent(struct call *c, void *data)
{
	(void)atomic_fetch_add(&((struct book *)data)->sent, 1);
}

static void undo(struct call *c, void *data)
{
	(void)atomic_fetch_add(&((struct book *)data)->undone, 1);
}

static struct outcome keep_book(struct call *c, void *data)
{
	return OUTCOME_GO;
}

static struct outcome decide(struct call *c, void *data)
{
	if (call_arg(c, 0) == 13)
		return OUTCOME_FAIL(EACCES);
	/* The caller is killed, and gone, before it is answered. */
	if (call_arg(c, 0) == 14) {
		(void)kill(call_tid(c), SIGKILL);
		while (call_is_valid(c))
			trap_sleep_ms(1);
	}
	return OUTCOME_GO;
}

static int account_child(void *arg)
{
	MUST(syscall(NR_A, 0) == own_group);
	MUST(syscall(NR_A, 11) == -1 && errno == EAGAIN);
	MUST(syscall(NR_A, 12) == -1 && errno == EAGAIN);
	MUST(syscall(NR_A, 13) == -1 && errno == EACCES);
	(void)syscall(NR_A, 14);
	return 1;
}

static void test_accounts_follow_the_decision(void **state)
{
	static const struct account account = { settle, note_sent, undo };
	struct book first = { .refused = 11 }, second = { .refused = 12 };
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_INLINE, keep_book, &first, &account },
		{ "getpgid", NR_A, LANE_EXTERNAL, decide, NULL, NULL },
		{ "getpgid", NR_A, LANE_INLINE, keep_book, &second, &account },
	};
	int status = run_under(h, ARRAY_LEN(h), account_child, NULL);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* The ticker may have found the dead one first: then nothing settled.
	 */
	assert_in_range(first.settled, 2, 3);
	assert_int_equal(first.sent, 1);
	assert_int_equal(first.undone, first.settled - 1);
	assert_int_equal(second.settled, first.settled - 1);
	assert_int_equal(second.sent, 1);
	assert_int_equal(second.undone, second.settled - 1);
}

/* ----------------------------------------------------------- life cycle -- */

static struct outcome wait_for_flag(struct call *c, void *data)
{
	while (!atomic_load((atomic_int *)data))
		trap_sleep_ms(5);
	return OUTCOME_VALUE(7);
}

static int queued_child(void *arg)
{
	MUST(syscall(NR_A, 0) == -1 && errno == EIO);
	return 0;
}

static void test_stop_answers_what_is_queued(void **state)
{
	atomic_int flag = 0;
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_EXTERNAL, wait_for_flag, &flag, NULL },
	};
	const struct supervisor_options o = { .external_workers = 1 };
	struct supervisor *s = supervise(h, 1, &o);
	struct trapped running = child(s, seven_child, NULL), queued;
	uint64_t began;

	trap_go(&running);
	trap_sleep_ms(100);
	queued = child(s, queued_child, NULL);
	trap_go(&queued);
	trap_sleep_ms(100);
	began = trap_now_ms();
	assert_int_equal(supervisor_stop(s, 100), -ETIMEDOUT);
	assert_in_range(trap_now_ms() - began, 95, 5000);
	assert_int_equal(trap_wait(queued.pid, 5), 0);
	flag = 1;
	assert_int_equal(supervisor_stop(s, 5000), 0);
	(void)kill(running.pid, SIGKILL);
	(void)trap_wait(running.pid, 5);
	supervisor_free(s);
}

static void test_listeners_and_threads_go_when_unused(void **state)
{
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_LOCAL, value_7, NULL, NULL },
	};
	size_t fds = trap_count("/proc/self/fd");
	struct supervisor *s = supervise(h, 1, NULL);

	trap_wait_count("/proc/self/task", own_threads);
	for (int i = 0; i < 3; i++) {
		struct trapped a = child(s, seven_child, NULL);
		struct trapped b = child(s, seven_child, NULL);

		trap_go(&a);
		trap_go(&b);
		assert_int_equal(trap_wait(a.pid, 5), 0);
		assert_int_equal(trap_wait(b.pid, 5), 0);
	}
	trap_wait_count("/proc/self/fd", fds);
	trap_wait_count("/proc/self/task", own_threads);
	supervisor_free(s);
}

static void test_an_idle_sandbox_has_one_thread(void **state)
{
	atomic_int flag = 0;
	const struct handler h[] = {
		{ "getpgid", NR_A, LANE_LOCAL, value_7, NULL, NULL },
		{ "getsid", NR_B, LANE_EXTERNAL, wait_for_flag, &flag, NULL },
	};
	struct supervisor *s = supervise(h, 2, NULL);
	struct trapped a = child(s, die_child, NULL);
	struct trapped b = child(s, seven_child, NULL);

	trap_wait_count("/proc/self/task", own_threads + 2);
	trap_go(&b);
	assert_int_equal(trap_wait(b.pid, 5), 0);
	trap_wait_count("/proc/self/task", own_threads + 1);
	(void)kill(a.pid, SIGKILL);
	(void)trap_wait(a.pid, 5);
	supervisor_free(s);
}

static void test_rows_are_checked(void **state)
{
	const struct handler h[] = {
		{ "nothing", 5000, LANE_INLINE, go, NULL, NULL },
	};
	const struct supervisor_options o = { .handlers = h, .n_handlers = 1 };
	struct supervisor *s = NULL;

	assert_int_equal(supervisor_new(&o, &s, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "'nothing'"));
	assert_null(s);
}

static void *nothing(void *data)
{
	return data;
}

int main(void)
{
	pthread_t first;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_start_that_failed_may_be_tried_again),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_lanes_change_nothing),
		cmocka_unit_test(test_park_resumes_where_it_was),
		cmocka_unit_test(test_one_deadline_for_all_parks),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_a_fork_is_never_interrupted),
		cmocka_unit_test(test_local_work_is_never_answered_midway),
		cmocka_unit_test(test_blocking_handlers_are_poked),
		cmocka_unit_test(test_slow_local_work_stalls_only_its_caller),
		cmocka_unit_test(test_memory_and_descriptors),
		cmocka_unit_test(test_an_fd_as_the_result),
		cmocka_unit_test(test_accounts_follow_the_decision),
		cmocka_unit_test(test_stop_answers_what_is_queued),
		cmocka_unit_test(test_listeners_and_threads_go_when_unused),
		cmocka_unit_test(test_an_idle_sandbox_has_one_thread),
		cmocka_unit_test(test_rows_are_checked),
	};

	own_session = getsid(0);
	own_group = getpgid(0);
	if (pthread_create(&first, NULL, nothing, NULL) != 0)
		return 1;
	(void)pthread_join(first, NULL);
	return RUN_TESTS(tests);
}
