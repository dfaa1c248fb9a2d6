/* Programs that are asked about, and the freeze before they are executed. */
#include "trap.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "spec/spec.h"
#include "supervise/exec.h"
#include "supervise/redirect.h"
#include "supervise/supervisor.h"

extern char **environ;

static const int trapped_nrs[] = { SYS_execve, SYS_execveat };

static struct error err;

/* The sandbox of these tests is the process group of the child. */
struct world {
	pid_t group;
	struct approvals *book;
	struct asker asker;
	struct spec_strings rules;
	struct exec_asker exec;
	struct supervisor *s;
	struct trapped t;
};

static int list_group(void *data, pid_t **ret, size_t *ret_n)
{
	const struct world *w = data;
	auto_dir DIR *d = opendir("/proc");
	pid_t *v = calloc(4096, sizeof(*v));
	struct dirent *e;
	size_t n = 0;

	while (d && v && n < 4096 && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0 && getpgid(pid) == w->group)
			v[n++] = pid;
	}
	*ret = v;
	*ret_n = n;
	return v ? 0 : -ENOMEM;
}

static int (*body_of_child)(void);

static int in_group(void *arg)
{
	return body_of_child();
}

/* Calls that came while their caller was being led by an earlier one. */
static atomic_int n_stale;

/* As tier C leads an exec to where the branch has the program. */
static struct outcome lead(struct call *c, void *data)
{
	char path[PATH_MAX];
	struct redirect to = { .path = path };
	int r;

	if (redirect_is_made(c))
		return OUTCOME_GO;
	n_stale += redirect_is_of(call_tid(c));
	r = call_read_string(c, call_arg(c, 0), path, sizeof(path));
	if (r == 0)
		r = exec_pass(c, &to);
	return r < 0 ? OUTCOME_FAIL(-r) : redirect_call(c, &to);
}

static bool is_led;

static void begin_with(struct world *w, const char *rule, int (*body)(void),
		       ask_join_fn *join)
{
	struct handler rows[EXEC_ROWS + 1];
	struct supervisor_options o = { .handlers = rows };

	*w = (struct world){ .group = 0 };
	w->book = approvals_new(0);
	w->asker = (struct asker){ .book = w->book,
				   .join = join,
				   .join_data = w,
				   .timeout_ms = 60000 };
	if (rule)
		assert_int_equal(spec_strings_add(&w->rules, rule), 0);
	w->exec = (struct exec_asker){ .asker = &w->asker,
				       .rules = &w->rules,
				       .freezer = freezer_new(list_group, w) };
	o.n_handlers = exec_rows(&w->exec, rows);
	if (is_led)
		rows[o.n_handlers++] = (struct handler){
			.name = "execve",
			.nr = SYS_execve,
			.lane = LANE_LOCAL,
			.fn = lead,
		};
	assert_int_equal(supervisor_new(&o, &w->s, &err), 0);
	assert_int_equal(supervisor_start(w->s, &err), 0);
	body_of_child = body;
	w->t = trap_fork(trapped_nrs, ARRAY_LEN(trapped_nrs), in_group, NULL);
	w->group = w->t.pid;
	assert_int_equal(setpgid(w->t.pid, w->t.pid), 0);
	assert_int_equal(supervisor_add_listener(w->s, w->t.listener_fd, &err),
			 0);
	trap_go(&w->t);
}

static void begin(struct world *w, const char *rule, int (*body)(void))
{
	begin_with(w, rule, body, NULL);
}

/* The wait status of the child. */
static int finish(struct world *w)
{
	int status = trap_wait(w->t.pid, 60);

	approvals_close(w->book);
	supervisor_free(w->s);
	freezer_free(w->exec.freezer);
	approvals_free(w->book);
	spec_strings_done(&w->rules);
	return status;
}

struct open_one {
	uint64_t id;
	char digest[EVENT_DIGEST_LEN + 1], path[64];
};

static bool take(void *data, const struct approval_info *i)
{
	struct open_one *o = data;

	o->id = i->id;
	(void)snprintf(o->digest, sizeof(o->digest), "%s", i->digest);
	(void)snprintf(o->path, sizeof(o->path), "%s", i->event->path);
	return false;
}

static struct open_one wait_for_one(struct world *w, uint64_t after)
{
	struct open_one o = { .id = 0 };

	for (int i = 0; i < 30000 && !o.id; i++) {
		approvals_each(w->book, after, false, take, &o);
		if (!o.id)
			trap_sleep_ms(1);
	}
	assert_true(o.id);
	return o;
}

static void answer(struct world *w, const struct open_one *o, int error)
{
	assert_int_equal(approvals_resolve(w->book, o->id, o->digest, error,
					   "test", NULL, &err),
			 0);
}

/* Shared with the child: what it does when. */
struct signals {
	atomic_int go, ready, count;
	char text[64];
};
static struct signals *shared;

static int spin_until(atomic_int *flag)
{
	for (int i = 0; i < 60000 && !*flag; i++)
		trap_sleep_ms(1);
	return *flag;
}

/* --------------------------------------------------------------- simple -- */

static int run_true(void)
{
	(void)execl("/bin/true", "true", "word", NULL);
	return 1;
}

static int run_true_denied(void)
{
	MUST(execl("/bin/true", "true", NULL) == -1 && errno == EACCES);
	return 0;
}

static void test_answers(void **state)
{
	struct world w;
	struct open_one o;

	begin(&w, "true", run_true);
	o = wait_for_one(&w, 0);
	assert_non_null(strstr(o.path, "true"));
	answer(&w, &o, 0);
	assert_int_equal(finish(&w), 0);

	begin(&w, "true", run_true_denied);
	o = wait_for_one(&w, 0);
	answer(&w, &o, EACCES);
	assert_int_equal(finish(&w), 0);

	/* What no rule matches is not asked about. */
	begin(&w, "/nothing", run_true);
	assert_int_equal(finish(&w), 0);
	begin(&w, NULL, run_true);
	assert_int_equal(finish(&w), 0);
}

static int run_denied(void)
{
	MUST(execl("/bin/true", "true", NULL) == -1 && errno == EPERM);
	return 0;
}

static void test_nobody_answers(void **state)
{
	struct world w;

	begin(&w, "true", run_denied);
	(void)wait_for_one(&w, 0);
	approvals_close(w.book);
	assert_int_equal(finish(&w), 0);
}

/* ------------------------------------------------------------- rewriting -- */

static char program[64], *rewritten;

static void *rewrite(void *arg)
{
	MUST(spin_until(&shared->go));
	(void)snprintf(rewritten, sizeof(program), "/bin/false");
	shared->ready = 1;
	for (;;)
		(void)pause();
	return NULL;
}

static int exec_rewritten(void)
{
	char *argv[] = { rewritten, NULL };
	pthread_t t;

	(void)snprintf(rewritten, sizeof(program), "/bin/true");
	MUST(pthread_create(&t, NULL, rewrite, NULL) == 0);
	MUST(execve(rewritten, argv, environ) == -1 && errno == EPERM);
	MUST(strcmp(rewritten, "/bin/false") == 0);
	return 0;
}

static int exec_private(void)
{
	rewritten = program;
	return exec_rewritten();
}

static int exec_other_argv(void)
{
	char *argv[] = { rewritten = program, NULL };
	pthread_t t;

	(void)snprintf(program, sizeof(program), "/bin/true");
	MUST(pthread_create(&t, NULL, rewrite, NULL) == 0);
	MUST(execve("/bin/true", argv, environ) == -1 && errno == EPERM);
	return 0;
}

static void check_rewriting(int (*body)(void))
{
	struct world w;
	struct open_one o;

	*shared = (struct signals){ .go = 0 };
	begin(&w, "*", body);
	o = wait_for_one(&w, 0);
	shared->go = 1;
	assert_true(spin_until(&shared->ready));
	answer(&w, &o, 0);
	assert_int_equal(finish(&w), 0);
}

static void test_rewritten_by_a_thread(void **state)
{
	check_rewriting(exec_private);
	check_rewriting(exec_other_argv);
}

static int exec_shared(void)
{
	char *argv[] = { shared->text, NULL };

	(void)snprintf(shared->text, sizeof(shared->text), "/bin/true");
	MUST(execve("/bin/true", argv, environ) == -1 && errno == EPERM);
	return 0;
}

static void test_shared_memory_is_denied_although_equal(void **state)
{
	struct world w;
	struct open_one o;

	begin(&w, "*", exec_shared);
	o = wait_for_one(&w, 0);
	answer(&w, &o, 0);
	assert_int_equal(finish(&w), 0);
}

static char link_path[64];

static int run_link(void)
{
	MUST(execl(link_path, "true", NULL) == -1 && errno == EPERM);
	return 0;
}

static void test_another_file_is_denied(void **state)
{
	char dir[] = "/tmp/test-exec-XXXXXX", other[64];
	struct world w;
	struct open_one o;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(link_path, sizeof(link_path), "%s/true", dir);
	(void)snprintf(other, sizeof(other), "%s/other", dir);
	assert_int_equal(symlink("/bin/true", link_path), 0);
	assert_int_equal(symlink("/bin/false", other), 0);
	begin(&w, "*", run_link);
	o = wait_for_one(&w, 0);
	assert_int_equal(rename(other, link_path), 0);
	answer(&w, &o, 0);
	assert_int_equal(finish(&w), 0);
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* --------------------------------------------------------------- threads -- */

static void *busy(void *arg)
{
	for (;;)
		(void)atomic_fetch_add(&shared->count, 1);
	return NULL;
}

static int exec_with_threads(void)
{
	pthread_t t;

	for (int i = 0; i < 16; i++)
		MUST(pthread_create(&t, NULL, busy, NULL) == 0);
	(void)execl("/bin/true", "true", NULL);
	return 1;
}

static void *exec_thread(void *arg)
{
	(void)execl("/bin/true", "true", NULL);
	_exit(1);
}

static int exec_in_a_thread(void)
{
	pthread_t t;

	for (int i = 0; i < 4; i++)
		MUST(pthread_create(&t, NULL, busy, NULL) == 0);
	MUST(pthread_create(&t, NULL, exec_thread, NULL) == 0);
	for (;;)
		(void)pause();
}

/* The leader has ended before. */
static int exec_without_leader(void)
{
	pthread_t t;

	MUST(pthread_create(&t, NULL, exec_thread, NULL) == 0);
	pthread_exit(NULL);
}

static void test_threads_do_not_hold_it_up(void **state)
{
	struct world w;

	for (int i = 0; i < 10; i++) {
		begin(&w, NULL, exec_with_threads);
		assert_int_equal(finish(&w), 0);
		begin(&w, NULL, exec_in_a_thread);
		assert_int_equal(finish(&w), 0);
		begin(&w, NULL, exec_without_leader);
		assert_int_equal(finish(&w), 0);
	}
}

static int failing_exec(void)
{
	char path[] = "/tmp/test-exec-script-XXXXXX";
	int fd = mkstemp(path), before;
	pthread_t t;

	MUST(fd >= 0 && write(fd, "#!/nothing/here\n", 16) == 16);
	MUST(fchmod(fd, 0755) == 0 && close(fd) == 0);
	for (int i = 0; i < 4; i++)
		MUST(pthread_create(&t, NULL, busy, NULL) == 0);
	for (int i = 0; i < 10; i++) {
		MUST(execl(path, path, NULL) == -1 && errno == ENOENT);
		before = shared->count;
		for (int j = 0; j < 2000 && shared->count == before; j++)
			trap_sleep_ms(1);
		MUST(shared->count != before);
	}
	MUST(unlink(path) == 0);
	MUST(execl("/tmp/test-exec-none", "x", NULL) == -1 && errno == ENOENT);
	return 0;
}

static void test_threads_run_on_after_a_failure(void **state)
{
	struct world w;

	begin(&w, NULL, failing_exec);
	assert_int_equal(finish(&w), 0);
}

/* --------------------------------------------------------------- sharing -- */

static int spawn(void)
{
	char *argv[] = { (char *)(uintptr_t) "true", NULL };
	int status;
	pid_t pid;

	for (int i = 0; i < 10; i++) {
		MUST(posix_spawn(&pid, "/bin/true", NULL, NULL, argv,
				 environ) == 0);
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
	}
	return 0;
}

static void test_vfork_may_share(void **state)
{
	struct world w;

	begin(&w, NULL, spawn);
	assert_int_equal(finish(&w), 0);
}

static int exec_clone(void *arg)
{
	MUST(execl("/bin/true", "true", NULL) == -1 && errno == EPERM);
	_exit(0);
}

static int share_memory(void)
{
	char *stack = malloc(65536);
	int status;
	pid_t pid = clone(exec_clone, stack + 65536, CLONE_VM | SIGCHLD, NULL);

	MUST(pid > 0);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static void test_another_process_may_not(void **state)
{
	struct world w;

	begin(&w, NULL, share_memory);
	assert_int_equal(finish(&w), 0);
}

/* ----------------------------------------------------------------- order -- */

static int two_execs(void)
{
	int status;
	pid_t a = fork(), b;

	MUST(a >= 0);
	if (a == 0) {
		(void)execl("/bin/true", "first", NULL);
		_exit(1);
	}
	MUST(spin_until(&shared->go));
	b = fork();
	MUST(b >= 0);
	if (b == 0) {
		(void)execl("/bin/true", "second", NULL);
		_exit(1);
	}
	/* Forks are not held up by what others wait for. */
	for (int i = 0; i < 50; i++) {
		pid_t c = fork();

		MUST(c >= 0);
		if (c == 0)
			_exit(0);
		MUST(waitpid(c, NULL, 0) == c);
	}
	shared->ready = 1;
	MUST(waitpid(b, &status, 0) == b && status == 0);
	shared->count = 1;
	MUST(waitpid(a, &status, 0) == a && status == 0);
	return 0;
}

/*
 * Who waits in vfork is killed while its child's exec is judged, and the kernel
 * cuts the path: from what is allowed to what is not.
 */
enum { PATH_CUT = 32 };
static char cut_path[64] __attribute__((aligned(8)));

static bool take_last(void *data, const struct approval_info *i)
{
	(void)take(data, i);
	return true;
}

static int allow_at_once(void *data, const struct event *e, const char *rule,
			 uint64_t deadline_ns, struct approval_wait *w)
{
	struct world *x = data;
	struct open_one o = { .id = 0 };
	int r = approval_join(x->book, e, rule, deadline_ns, w);

	approvals_each(x->book, 0, false, take_last, &o);
	if (r == 0 && o.id)
		answer(x, &o, strstr(e->path, "false") ? EPERM : 0);
	return r;
}

static void kill_soon(unsigned int seed)
{
	struct sigevent by = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = SIGKILL };
	struct itimerspec in = { .it_value.tv_nsec =
					 100 * 1000 + seed * 7919 % 2400000 };
	timer_t timer;

	MUST(timer_create(CLOCK_MONOTONIC, &by, &timer) == 0);
	MUST(timer_settime(timer, 0, &in, NULL) == 0);
}

static void exec_of_the_killed(unsigned int seed)
{
	(void)syscall(SYS_set_tid_address, cut_path + PATH_CUT);
	kill_soon(seed);
	if (vfork() == 0) {
		(void)execl(cut_path, "x", NULL);
		_exit(0);
	}
	for (;;)
		(void)pause();
}

#ifdef __x86_64__
/* What it is led by stands 24 KiB below the stack pointer that it calls with:
 * the compiler must not move that in between. */
static __attribute__((noinline)) void led_exec_of_the_killed(unsigned int seed)
{
	char *argv[] = { cut_path, NULL };
	uint64_t sp, at, len = strlen(cut_path) + 1;
	long r;

	__asm__ volatile("mov %%rsp, %0" : "=r"(sp));
	at = (sp - 24 * 1024 - len) & ~UINT64_C(63);
	(void)syscall(SYS_set_tid_address, at + PATH_CUT);
	kill_soon(seed);
	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"((long)SYS_vfork)
			 : "rcx", "r11", "memory");
	if (r == 0)
		__asm__ volatile("syscall"
				 : "=a"(r)
				 : "a"((long)SYS_execve), "D"(cut_path),
				   "S"(argv), "d"(NULL)
				 : "rcx", "r11", "memory");
	_exit(0);
}
#else
static void led_exec_of_the_killed(unsigned int seed)
{
	exec_of_the_killed(seed);
}
#endif

static int exec_of_many_killed(void)
{
	int status;
	pid_t pid, p;

	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	for (unsigned int i = 0; i < 150; i++) {
		pid = fork();
		if (pid == 0 && is_led)
			led_exec_of_the_killed(i);
		if (pid == 0)
			exec_of_the_killed(i);
		while ((p = wait(&status)) > 0)
			MUST(p == pid || !WIFEXITED(status) ||
			     WEXITSTATUS(status) == 0);
	}
	return 0;
}

static void check_cut(bool led)
{
	char allowed[64];
	struct world w;

	(void)snprintf(cut_path, sizeof(cut_path), "/tmp/test-exec-%017d",
		       (int)getpid());
	assert_int_equal(strlen(cut_path), PATH_CUT);
	(void)snprintf(allowed, sizeof(allowed), "%sXXXX", cut_path);
	assert_int_equal(symlink("/bin/false", cut_path), 0);
	assert_int_equal(symlink("/bin/true", allowed), 0);
	(void)strcpy(cut_path, allowed);
	is_led = led;
	begin_with(&w, "*", exec_of_many_killed, allow_at_once);
	is_led = false;
	assert_int_equal(finish(&w), 0);
	assert_int_equal(unlink(allowed), 0);
	allowed[PATH_CUT] = '\0';
	assert_int_equal(unlink(allowed), 0);
}

static void test_a_killed_parent_does_not_cut_the_path(void **state)
{
	check_cut(false);
}

static void test_nor_one_that_it_is_led_by(void **state)
{
	check_cut(true);
}

static int fail_often(void)
{
	for (int i = 0; i < 300; i++)
		MUST(execl("/etc/passwd", "passwd", NULL) == -1 &&
		     errno == EACCES);
	return 0;
}

/* A freeze must not take its next call for the one that has been made. */
static void test_who_was_led_is_so_for_one_call(void **state)
{
	struct world w;

	n_stale = 0;
	is_led = true;
	begin(&w, NULL, fail_often);
	assert_int_equal(finish(&w), 0);
	is_led = false;
	assert_int_equal(n_stale, 0);
}

static void test_answers_in_reverse(void **state)
{
	struct world w;
	struct open_one a, b;

	*shared = (struct signals){ .go = 0 };
	begin(&w, "*", two_execs);
	a = wait_for_one(&w, 0);
	shared->go = 1;
	b = wait_for_one(&w, a.id);
	assert_true(spin_until(&shared->ready));
	answer(&w, &b, 0);
	assert_true(spin_until(&shared->count));
	answer(&w, &a, 0);
	assert_int_equal(finish(&w), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_nobody_answers),
		cmocka_unit_test(test_rewritten_by_a_thread),
		cmocka_unit_test(test_shared_memory_is_denied_although_equal),
		cmocka_unit_test(test_another_file_is_denied),
		cmocka_unit_test(test_threads_do_not_hold_it_up),
		cmocka_unit_test(test_threads_run_on_after_a_failure),
		cmocka_unit_test(test_vfork_may_share),
		cmocka_unit_test(test_another_process_may_not),
		cmocka_unit_test(test_a_killed_parent_does_not_cut_the_path),
		cmocka_unit_test(test_nor_one_that_it_is_led_by),
		cmocka_unit_test(test_who_was_led_is_so_for_one_call),
		cmocka_unit_test(test_answers_in_reverse),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	return RUN_TESTS(tests);
}
