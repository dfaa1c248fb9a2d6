/*
 * Sandboxes as objects, from a host with many threads: what the suites cannot
 * do with one embedder that does one thing after the other.
 */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "capi_world.h"
#include "sandlock.h"

static const char *const sleeps[] = { "sleep", "1000", NULL };
static const char *const says_hello[] = { "echo", "hello", NULL };

/* -------------------------------------------------------------- threads -- */

enum { THREADS = 4, ROUNDS = 3 };

struct worker {
	const struct world *w;
	pthread_t thread;
	char dir[320];
	char why[900]; /* "" if all went well */
};

static void run_and_commit(struct worker *me, struct sandlock_sandbox *s)
{
	const char *const argv[] = { "sh", "-c", "echo x >>f; echo out", NULL };
	struct sandlock_launch l = captured(argv);
	const struct sandlock_report *r = NULL;
	struct sandlock_error e = { .msg = "" };

	if (sandlock_sandbox_run(s, &l, &r, &e) < 0)
		(void)snprintf(me->why, sizeof(me->why), "run: %s", e.msg);
	else if (r->result.exit_value != 0 || r->n_changes != 1 ||
		 strcmp(r->out_data, "out\n") != 0 ||
		 !sandlock_sandbox_pending(s))
		(void)snprintf(me->why, sizeof(me->why),
			       "exit %d, %zu changes, '%s', outcome %d (%s)",
			       r->result.exit_value, r->n_changes, r->out_data,
			       r->result.outcome, r->result.outcome_error.msg);
	else if (sandlock_sandbox_commit(s, NULL, &e) < 0)
		(void)snprintf(me->why, sizeof(me->why), "commit: %s", e.msg);
}

static void *work(void *data)
{
	struct worker *me = data;

	for (int i = 0; i < ROUNDS && !me->why[0]; i++) {
		struct sandlock_sandbox *s = make(me->w, me->dir, "defer");

		run_and_commit(me, s);
		sandlock_sandbox_free(s);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct world *w = *state;
	struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .w = w };
		(void)snprintf(workers[i].dir, sizeof(workers[i].dir), "%s/%d",
			       w->dir, i);
		assert_int_equal(mkdir(workers[i].dir, 0755), 0);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work,
						&workers[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++) {
		auto_(buf) struct buf b = BUF_INIT;
		char path[400];

		(void)pthread_join(workers[i].thread, NULL);
		assert_string_equal(workers[i].why, "");
		(void)snprintf(path, sizeof(path), "%s/f", workers[i].dir);
		assert_int_equal(fd_read_file(AT_FDCWD, path, 100, &b), 0);
		assert_string_equal(buf_str(&b), "x\nx\nx\n");
	}
}

struct waiting {
	struct sandlock_sandbox *s;
	int ret;
	enum sandlock_exit_kind kind;
};

static void *wait_for_end(void *data)
{
	struct waiting *w = data;
	const struct sandlock_report *r = NULL;
	struct sandlock_error e;

	w->ret = sandlock_sandbox_wait(w->s, -1, &r, &e);
	w->kind = w->ret == 0 ? r->result.exit_kind : SANDLOCK_EXIT_UNKNOWN;
	return NULL;
}

/* Whoever waits keeps nobody from anything. */
static void test_others_while_one_waits(void **state)
{
	struct world *w = *state;
	struct waiting a = { .s = make(w, w->dir, "commit") };
	struct waiting b = { .s = a.s };
	struct sandlock_launch l = captured(sleeps);
	const struct sandlock_report *r;
	pthread_t x, y;
	char *ports = NULL;

	OK(sandlock_sandbox_create(a.s, &l, &err));
	OK(sandlock_sandbox_start(a.s, &err));
	assert_int_equal(pthread_create(&x, NULL, wait_for_end, &a), 0);
	assert_int_equal(pthread_create(&y, NULL, wait_for_end, &b), 0);
	assert_int_equal(sandlock_sandbox_wait(a.s, 50, &r, &err), -ETIMEDOUT);
	assert_int_equal(err.kind, SANDLOCK_ERR_TIMEOUT);
	OK(sandlock_sandbox_ports(a.s, &ports, &err));
	free(ports);
	assert_true(sandlock_sandbox_pid(a.s) > 0);
	assert_false(sandlock_sandbox_pending(a.s));
	OK(sandlock_sandbox_kill(a.s, &err));
	(void)pthread_join(x, NULL);
	(void)pthread_join(y, NULL);
	assert_int_equal(a.ret, 0);
	assert_int_equal(b.ret, 0);
	assert_int_equal(a.kind, SANDLOCK_EXIT_SIGNAL);
	assert_int_equal(b.kind, SANDLOCK_EXIT_SIGNAL);
	sandlock_sandbox_free(a.s);
}

static void *create_and_start(void *data)
{
	struct sandlock_launch l = captured(sleeps);
	struct sandlock_error e;

	if (sandlock_sandbox_create(data, &l, &e) < 0 ||
	    sandlock_sandbox_start(data, &e) < 0)
		return data;
	return NULL;
}

/* The command does not end with the thread that started it. */
static void test_thread_that_started_it_ends(void **state)
{
	struct world *w = *state;
	struct sandlock_sandbox *s = make(w, w->dir, "commit");
	const struct sandlock_report *r;
	pthread_t t;
	void *failed;

	assert_int_equal(pthread_create(&t, NULL, create_and_start, s), 0);
	assert_int_equal(pthread_join(t, &failed), 0);
	assert_null(failed);
	assert_int_equal(sandlock_sandbox_wait(s, 300, &r, &err), -ETIMEDOUT);
	sandlock_sandbox_free(s);
}

/* Nor with a child that has a copy of the handle. */
static void test_forked_child_frees_its_copy(void **state)
{
	struct world *w = *state;
	struct sandlock_sandbox *s = make(w, w->dir, "commit");
	const struct sandlock_report *r;
	int status;
	pid_t pid;

	assert_null(create_and_start(s));
	pid = fork();
	if (pid == 0) {
		sandlock_sandbox_free(s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(sandlock_sandbox_wait(s, 300, &r, &err), -ETIMEDOUT);
	OK(sandlock_sandbox_kill(s, &err));
	OK(sandlock_sandbox_wait(s, -1, &r, &err));
	sandlock_sandbox_free(s);
}

/* What a thread blocks is none of the command's business. */
static void test_blocked_signals_are_not_inherited(void **state)
{
	struct world *w = *state;
	struct sandlock_sandbox *s = make(w, w->dir, NULL);
	const char *const argv[] = { "sh", "-c", "kill -TERM $$; echo alive",
				     NULL };
	struct sandlock_launch l = captured(argv);
	const struct sandlock_report *r;
	sigset_t all, old;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	OK(sandlock_sandbox_run(s, &l, &r, &err));
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	assert_int_equal(r->result.exit_kind, SANDLOCK_EXIT_SIGNAL);
	assert_int_equal(r->result.exit_value, SIGTERM);
	sandlock_sandbox_free(s);
}

/* -------------------------------------------------------------- streams -- */

static void test_pipes_and_fds(void **state)
{
	struct world *w = *state;
	struct sandlock_sandbox *s = make(w, w->dir, NULL);
	const char *const argv[] = {
		"sh", "-c", "read x; echo got $x; echo three >&3; echo e >&2",
		NULL
	};
	struct sandlock_launch l = {
		.argv = argv,
		.in.kind = SANDLOCK_STDIO_PIPE,
		.out.kind = SANDLOCK_STDIO_PIPE,
		.err.kind = SANDLOCK_STDIO_CAPTURE,
	};
	const struct sandlock_report *r;
	char text[64] = "";
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	l.fds = &fds[1];
	l.n_fds = 1;
	OK(sandlock_sandbox_create(s, &l, &err));
	(void)close(fds[1]);
	OK(sandlock_sandbox_start(s, &err));
	assert_int_equal(fd_write_full(l.in.fd, "word\n", 5), 0);
	(void)close(l.in.fd);
	assert_true(fd_read_full(l.out.fd, text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "got word\n");
	(void)close(l.out.fd);
	OK(sandlock_sandbox_wait(s, -1, &r, &err));
	assert_null(r->out_data);
	assert_string_equal(r->err_data, "e\n");
	memset(text, 0, sizeof(text));
	assert_true(fd_read_full(fds[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "three\n");
	(void)close(fds[0]);
	sandlock_sandbox_free(s);
}

static void test_bad_streams_are_refused(void **state)
{
	struct world *w = *state;
	struct sandlock_sandbox *s = make(w, w->dir, NULL);
	struct sandlock_launch l = captured(says_hello);
	const struct sandlock_report *r;

	l.in.kind = SANDLOCK_STDIO_CAPTURE;
	assert_true(sandlock_sandbox_run(s, &l, &r, &err) < 0);
	assert_int_equal(err.kind, SANDLOCK_ERR_USAGE);
	l.in = (struct sandlock_stdio){ SANDLOCK_STDIO_FD, 9999 };
	assert_int_equal(sandlock_sandbox_run(s, &l, &r, &err), -EBADF);
	l = captured(says_hello);
	OK(sandlock_sandbox_run(s, &l, &r, &err));
	assert_string_equal(r->out_data, "hello\n");
	sandlock_sandbox_free(s);
}

static void test_spawn(void **state)
{
	struct world *w = *state;
	struct sandlock_sandbox *s = make(w, w->dir, NULL);
	const char *const cat[] = { "cat", NULL };
	const char *const none[] = { "/nonexistent/x", NULL };
	struct sandlock_launch l = {
		.argv = none,
		.in.kind = SANDLOCK_STDIO_PIPE,
		.out.kind = SANDLOCK_STDIO_CAPTURE,
	};
	const struct sandlock_report *r;

	assert_int_equal(sandlock_sandbox_spawn(s, &l, &err), -ENOENT);
	assert_int_equal(err.kind, SANDLOCK_ERR_EXEC_MISSING);
	assert_int_equal(l.in.fd, -1);
	assert_int_equal(sandlock_sandbox_get_state(s), SANDLOCK_SANDBOX_NEW);
	l.argv = cat;
	OK(sandlock_sandbox_spawn(s, &l, &err));
	assert_int_equal(sandlock_sandbox_get_state(s),
			 SANDLOCK_SANDBOX_RUNNING);
	assert_true(sandlock_sandbox_pid(s) > 0);
	assert_int_equal(sandlock_sandbox_start(s, &err), -EINVAL);
	assert_int_equal(fd_write_full(l.in.fd, "word\n", 5), 0);
	(void)close(l.in.fd);
	OK(sandlock_sandbox_wait(s, -1, &r, &err));
	assert_string_equal(r->out_data, "word\n");
	sandlock_sandbox_free(s);
}

/* -------------------------------------------------------------- program -- */

static void test_a_program_that_is_none(void **state)
{
	struct world *w = *state;
	struct sandlock_launch l = captured(says_hello);
	const struct sandlock_report *r;
	struct sandlock_sandbox *s;

	/* It makes a fork of vfork: what posix_spawn says is not heard. */
	if (is_under_valgrind())
		skip();
	w->env.program = "/nonexistent/sandlock";
	s = make(w, w->dir, NULL);
	assert_int_equal(sandlock_sandbox_run(s, &l, &r, &err), -ENOENT);
	sandlock_sandbox_free(s);
	w->env.program = "/bin/true";
	s = make(w, w->dir, NULL);
	assert_true(sandlock_sandbox_run(s, &l, &r, &err) < 0);
	assert_int_equal(err.kind, SANDLOCK_ERR_SYSTEM);
	assert_int_equal(sandlock_sandbox_get_state(s), SANDLOCK_SANDBOX_NEW);
	sandlock_sandbox_free(s);
}

/* ---------------------------------------------------------- transactions -- */

static void add_stage(struct sandlock_transaction *t, const struct world *w,
		      const char *script)
{
	struct sandlock_request *q = sandlock_request_new();
	const char *const argv[] = { "sh", "-c", script, NULL };
	struct sandlock_launch l = captured(argv);

	OK(sandlock_request_set(q, "config.workdir", w->dir, "test", &err));
	OK(sandlock_transaction_add(t, q, &l, &err));
	sandlock_request_free(q);
}

static void test_transaction(void **state)
{
	struct world *w = *state;
	struct sandlock_transaction *t;
	struct sandlock_transaction_result r;
	char path[320];

	(void)snprintf(path, sizeof(path), "%s/a", w->dir);
	OK(sandlock_transaction_new(&w->env, &t, &err));
	add_stage(t, w, "echo 1 >a");
	add_stage(t, w, "cat a; exit 5");
	add_stage(t, w, "echo never");
	OK(sandlock_transaction_run(t, 0, &r, &err));
	assert_int_equal(r.outcome, SANDLOCK_OUTCOME_ABORTED);
	assert_int_equal(r.n_run, 2);
	assert_int_equal(r.failed, 1);
	assert_int_equal(sandlock_transaction_report(t, 1)->result.exit_value,
			 5);
	assert_string_equal(sandlock_transaction_report(t, 1)->out_data, "1\n");
	assert_null(sandlock_transaction_report(t, 2));
	assert_int_equal(access(path, F_OK), -1);
	assert_true(sandlock_transaction_run(t, 0, &r, &err) < 0);
	assert_int_equal(err.kind, SANDLOCK_ERR_STATE);
	sandlock_transaction_free(t);

	OK(sandlock_transaction_new(&w->env, &t, &err));
	add_stage(t, w, "echo 1 >a");
	add_stage(t, w, "echo 2 >>a");
	OK(sandlock_transaction_run(t, 0, &r, &err));
	assert_int_equal(r.outcome, SANDLOCK_OUTCOME_COMMITTED);
	assert_int_equal(r.failed, r.n_run);
	assert_int_equal(sandlock_transaction_report(t, 1)->n_changes, 1);
	assert_int_equal(access(path, F_OK), 0);
	sandlock_transaction_free(t);
}

static void assert_changed(const struct sandlock_transaction *t, size_t stage,
			   const char *want)
{
	const struct sandlock_report *r = sandlock_transaction_report(t, stage);
	char got[256] = "";

	for (size_t i = 0; i < r->n_changes; i++) {
		const struct sandlock_changed *c = &r->changes[i];
		size_t n = strlen(got);

		assert_int_equal(c->after.has_digest,
				 c->after.kind == SANDLOCK_ENTRY_FILE);
		(void)snprintf(got + n, sizeof(got) - n, "%c %s %d\n",
			       c->letter, c->path, (int)c->after.size);
	}
	assert_string_equal(got, want);
}

/* What every stage tells is what the branch holds at its end. */
static void test_reports_of_stages(void **state)
{
	for (int savepoints = 0; savepoints < 2; savepoints++) {
		const struct world *w = *state;
		struct sandlock_transaction_result r;
		struct sandlock_transaction *t;
		char path[320];

		OK(sandlock_transaction_new(&w->env, &t, &err));
		add_stage(t, w, "echo 1 >s; mkdir sd; echo x >sd/x");
		add_stage(t, w, "echo 2 >>s; rm sd/x; echo yy >sd/y");
		add_stage(t, w, "rm -r sd; echo zzz >z");
		if (savepoints)
			OK(sandlock_transaction_set_savepoints(t, &err));
		OK(sandlock_transaction_run(t, 0, &r, &err));
		assert_int_equal(r.n_run, 3);
		assert_changed(t, 0, "A s 2\nA sd 0\nA sd/x 2\n");
		assert_changed(t, 1, "A s 4\nA sd 0\nA sd/y 3\n");
		assert_changed(t, 2, "A s 4\nA z 4\n");
		(void)snprintf(path, sizeof(path), "%s/s", w->dir);
		assert_int_equal(unlink(path), 0);
		path[strlen(path) - 1] = 'z';
		assert_int_equal(unlink(path), 0);
		sandlock_transaction_free(t);
	}
}

/* Stage 1 fails until somebody has made the file outside. */
static struct sandlock_transaction *make_savepoints(const struct world *w)
{
	struct sandlock_transaction *t;

	OK(sandlock_transaction_new(&w->env, &t, &err));
	add_stage(t, w, "echo 1 >a");
	add_stage(t, w, "cat a; echo 2 >>a; touch b; exit 5");
	OK(sandlock_transaction_set_savepoints(t, &err));
	return t;
}

static void test_savepoints(void **state)
{
	struct world *w = *state;
	struct sandlock_transaction *t = make_savepoints(w);
	struct sandlock_transaction_result r;
	char path[320];

	(void)snprintf(path, sizeof(path), "%s/a", w->dir);
	assert_true(sandlock_transaction_rollback(t, 1, &err) < 0);
	for (int i = 0; i < 3; i++) {
		OK(sandlock_transaction_run(t, 0, &r, &err));
		assert_int_equal(r.outcome, SANDLOCK_OUTCOME_PENDING);
		assert_int_equal(r.failed, 1);
		assert_int_equal(r.n_run, 2);
		/* What it wrote before is undone. */
		assert_string_equal(sandlock_transaction_report(t, 1)->out_data,
				    "1\n");
	}
	assert_int_equal(sandlock_transaction_rollback(t, 2, &err), -EINVAL);
	OK(sandlock_transaction_rollback(t, 0, &err));
	OK(sandlock_transaction_run(t, 0, &r, &err));
	assert_int_equal(r.failed, 1);
	assert_int_equal(sandlock_transaction_set_savepoints(t, &err), -EBUSY);
	assert_int_equal(access(path, F_OK), -1);
	OK(sandlock_transaction_end(t, SANDLOCK_COMMIT, &r, &err));
	assert_int_equal(r.outcome, SANDLOCK_OUTCOME_COMMITTED);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(sandlock_transaction_end(t, SANDLOCK_COMMIT, &r, &err),
			 -EINVAL);
	assert_int_equal(sandlock_transaction_run(t, 0, &r, &err), -EBUSY);
	sandlock_transaction_free(t);
}

static void test_savepoints_without_a_decision(void **state)
{
	struct world *w = *state;
	struct sandlock_transaction *t = make_savepoints(w);
	struct sandlock_transaction_result r;
	struct sandlock_commit c = { .conflicts = SANDLOCK_CONFLICT_FORCE };

	OK(sandlock_transaction_run(t, 0, &r, &err));
	OK(sandlock_transaction_end(t, SANDLOCK_ABORT, &r, &err));
	assert_int_equal(r.outcome, SANDLOCK_OUTCOME_ABORTED);
	sandlock_transaction_free(t);

	t = make_savepoints(w);
	OK(sandlock_transaction_run(t, 0, &r, &err));
	OK(sandlock_transaction_rollback(t, 1, &err));
	sandlock_transaction_free(t);
	OK(sandlock_commit(&w->env, r.name, &c, &err));
	assert_int_equal(c.n_published, 1);
	assert_true(c.gone);

	/* No stage of theirs runs by itself. */
	t = make_savepoints(w);
	assert_null(sandlock_transaction_stage(t, 2));
	assert_int_equal(sandlock_sandbox_create(
				 sandlock_transaction_stage(t, 0),
				 &(struct sandlock_launch){ .argv = NULL },
				 &err),
			 -EBUSY);
	sandlock_transaction_free(t);
}

static int refuse_ls(void *data, const struct sandlock_event *e,
		     struct sandlock_context *ctx)
{
	bool is_ls = e->argv && e->argv[0] && strcmp(e->argv[0], "ls") == 0;

	*(bool *)data |= is_ls;
	return is_ls ? EACCES : 0;
}

static void test_stage_with_a_policy(void **state)
{
	struct world *w = *state;
	struct sandlock_transaction *t;
	struct sandlock_transaction_result r;
	bool asked = false;

	OK(sandlock_transaction_new(&w->env, &t, &err));
	add_stage(t, w, "echo 1 >a");
	add_stage(t, w, "ls / >b; exit $?");
	OK(sandlock_sandbox_set_policy(sandlock_transaction_stage(t, 1),
				       refuse_ls, &asked, NULL, &err));
	OK(sandlock_transaction_run(t, 0, &r, &err));
	assert_int_equal(r.failed, 1);
	assert_int_equal(r.outcome, SANDLOCK_OUTCOME_ABORTED);
	assert_int_equal(sandlock_transaction_report(t, 1)->result.exit_value,
			 126);
	assert_true(asked);
	sandlock_transaction_free(t);
}

static void test_transaction_in_time(void **state)
{
	struct world *w = *state;
	struct sandlock_transaction *t;
	struct sandlock_transaction_result r;

	OK(sandlock_transaction_new(&w->env, &t, &err));
	add_stage(t, w, "echo 1 >a");
	add_stage(t, w, "exec sleep 1000");
	OK(sandlock_transaction_run(t, 1500, &r, &err));
	assert_int_equal(r.outcome, SANDLOCK_OUTCOME_ABORTED);
	assert_int_equal(
		sandlock_transaction_report(t, r.failed)->result.exit_kind,
		SANDLOCK_EXIT_TIMEOUT);
	sandlock_transaction_free(t);
}

/* ------------------------------------------------------- several at once -- */

enum { MANY = 3 };

static void end_all(struct sandlock_sandbox **v)
{
	for (int i = 0; i < MANY; i++)
		sandlock_sandbox_free(v[i]);
}

static void test_pipeline(void **state)
{
	const char *const first[] = {
		"sh", "-c", "head -c 300000 /dev/zero >&2; echo b; echo a", NULL
	};
	const char *const second[] = { "sort", NULL };
	const char *const third[] = { "sh", "-c", "cat; exit 4", NULL };
	struct sandlock_launch l[MANY] = { captured(first), captured(second),
					   captured(third) };
	struct sandlock_sandbox *v[MANY];
	const struct sandlock_report *r;

	for (int i = 0; i < MANY; i++)
		v[i] = make(*state, NULL, NULL);
	OK(sandlock_pipeline_start(v, l, MANY, &err));
	OK(sandlock_wait_all(v, MANY, -1, &err));
	OK(sandlock_sandbox_wait(v[2], 0, &r, &err));
	assert_string_equal(r->out_data, "a\nb\n");
	assert_int_equal(r->result.exit_value, 4);
	OK(sandlock_sandbox_wait(v[0], 0, &r, &err));
	assert_int_equal(r->err_len, 300000);
	assert_int_equal(r->result.exit_value, 0);
	/* One that cannot be started takes the others with it. */
	l[0] = captured(sleeps);
	l[1] = captured((const char *const[]){ "nosuchprogram", NULL });
	l[2] = captured(sleeps);
	assert_true(sandlock_pipeline_start(v, l, MANY, &err) < 0);
	assert_int_equal(err.kind, SANDLOCK_ERR_EXEC_MISSING);
	for (int i = 0; i < MANY; i++)
		assert_int_not_equal(sandlock_sandbox_get_state(v[i]),
				     SANDLOCK_SANDBOX_RUNNING);
	end_all(v);
}

static void test_gather(void **state)
{
	const char *const x[] = { "echo", "from x", NULL };
	const char *const y[] = { "echo", "from y", NULL };
	const char *const all[] = { "sh", "-c",
				    "echo $_SANDLOCK_GATHER; cat <&3; cat",
				    NULL };
	static const char *const names[] = { "x", "y" };
	struct sandlock_launch l[MANY] = { captured(x), captured(y),
					   captured(all) };
	struct sandlock_sandbox *v[MANY];
	const struct sandlock_report *r;

	for (int i = 0; i < MANY; i++)
		v[i] = make(*state, NULL, NULL);
	OK(sandlock_gather_start(v, l, names, MANY, &err));
	OK(sandlock_wait_all(v, MANY, -1, &err));
	OK(sandlock_sandbox_wait(v[2], 0, &r, &err));
	assert_string_equal(r->out_data, "x:3,y:0\nfrom x\nfrom y\n");
	end_all(v);
}

static void test_gather_checks_names(void **state)
{
	static const struct {
		const char *names[2], *msg;
	} cases[] = {
		{ { "x", "x" }, "there are two inputs 'x'" },
		{ { "x", "" }, "'' is no name of an input" },
		{ { NULL, "y" }, "'' is no name of an input" },
		{ { "x", "a:3" }, "'a:3' is no name of an input" },
		{ { "a,b", "y" }, "'a,b' is no name of an input" },
	};
	struct sandlock_launch l[MANY] = { captured(sleeps), captured(sleeps),
					   captured(sleeps) };
	struct sandlock_sandbox *v[MANY];

	for (int i = 0; i < MANY; i++)
		v[i] = make(*state, NULL, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
			sandlock_gather_start(v, l, cases[i].names, MANY, &err),
			-EINVAL);
		assert_int_equal(err.kind, SANDLOCK_ERR_USAGE);
		assert_string_equal(err.msg, cases[i].msg);
		assert_int_equal(sandlock_sandbox_get_state(v[0]),
				 SANDLOCK_SANDBOX_NEW);
	}
	assert_int_equal(sandlock_pipeline_start(v, l, 0, &err), -EINVAL);
	end_all(v);
}

static void test_wait_all_in_time(void **state)
{
	struct sandlock_launch l = captured(sleeps);
	struct sandlock_sandbox *s = make(*state, NULL, NULL);

	OK(sandlock_sandbox_create(s, &l, &err));
	OK(sandlock_sandbox_start(s, &err));
	assert_int_equal(sandlock_wait_all(&s, 1, 100, &err), -ETIMEDOUT);
	sandlock_sandbox_free(s);
}

/* --------------------------------------------------------------- confine -- */

/* In a child: there is no way back. */
static int confined(const struct world *w)
{
	struct sandlock_request *q = sandlock_request_new();
	char path[320];
	int fd;

	OK(sandlock_request_set(q, "filesystem.write", w->dir, "test", &err));
	/* What a kernel before 6.12 lacks is not what is looked at. */
	OK(sandlock_request_set(q, "allow_degraded",
				"fs-truncate,net-tcp,fs-ioctl-dev,signal-scope,"
				"abstract-unix-scope",
				"test", &err));
	if (sandlock_confine(&w->env, q, &err) < 0)
		return 1;
	(void)snprintf(path, sizeof(path), "%s/new", w->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return 2;
	(void)snprintf(path, sizeof(path), "%s/outside", w->path);
	if (open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) >= 0 ||
	    errno != EACCES)
		return 3;
	if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0)
		return 4;
	if (socket(AF_INET, SOCK_DGRAM, 0) >= 0 || errno != EPERM)
		return 5;
	if (unshare(CLONE_NEWUSER) == 0)
		return 6;
	/* The namespaces are the host's. */
	if (shmget(IPC_PRIVATE, 4096, 0600) >= 0 || errno != EPERM)
		return 7;
	if (syscall(SYS_mq_unlink, "none") == 0 || errno != EPERM)
		return 8;
	return 0;
}

static void test_confine(void **state)
{
	struct world *w = *state;
	struct sandlock_request *q;
	int status;
	pid_t pid;

	/* It does not know Landlock. */
	if (is_under_valgrind())
		skip();
	q = sandlock_request_new();
	pid = fork();
	if (pid == 0)
		_exit(confined(w));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	OK(sandlock_request_set(q, "limits.memory", "1G", "test", &err));
	assert_true(sandlock_confine(&w->env, q, &err) < 0);
	assert_int_equal(err.kind, SANDLOCK_ERR_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "limits.memory"));
	sandlock_request_free(q);
}

/* ----------------------------------------------------------------- leaks -- */

static size_t count_entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n;
}

/* SANDLOCK_TEST_SANDBOXES=1000 for the whole of it. */
static void test_nothing_is_left_behind(void **state)
{
	struct world *w = *state;
	const char *wanted = getenv("SANDLOCK_TEST_SANDBOXES");
	int n = wanted ? (int)strtol(wanted, NULL, 10) : 20;
	size_t before = count_entries("/proc/self/fd");
	char path[320];

	for (int i = 0; i < n; i++) {
		const char *const argv[] = { "sh", "-c", "echo $$ >f", NULL };
		struct sandlock_sandbox *s =
			make(w, w->dir, i % 2 ? "commit" : "defer");
		struct sandlock_launch l = captured(argv);
		const struct sandlock_report *r;

		OK(sandlock_sandbox_run(s, &l, &r, &err));
		assert_int_equal(r->result.exit_value, 0);
		if (i % 2 == 0)
			OK(sandlock_sandbox_abort(s, &err));
		sandlock_sandbox_free(s);
	}
	assert_int_equal(count_entries("/proc/self/fd"), before);
	/* No child, dead or alive. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	/* "." and ".." */
	assert_int_equal(count_entries(w->root), 2);
	(void)snprintf(path, sizeof(path), "%s/branches", w->store);
	assert_int_equal(count_entries(path), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_others_while_one_waits,
						begin, end),
		cmocka_unit_test_setup_teardown(
			test_thread_that_started_it_ends, begin, end),
		cmocka_unit_test_setup_teardown(
			test_forked_child_frees_its_copy, begin, end),
		cmocka_unit_test_setup_teardown(
			test_blocked_signals_are_not_inherited, begin, end),
		cmocka_unit_test_setup_teardown(test_pipes_and_fds, begin, end),
		cmocka_unit_test_setup_teardown(test_spawn, begin, end),
		cmocka_unit_test_setup_teardown(test_bad_streams_are_refused,
						begin, end),
		cmocka_unit_test_setup_teardown(test_a_program_that_is_none,
						begin, end),
		cmocka_unit_test_setup_teardown(test_transaction, begin, end),
		cmocka_unit_test_setup_teardown(test_reports_of_stages, begin,
						end),
		cmocka_unit_test_setup_teardown(test_savepoints, begin, end),
		cmocka_unit_test_setup_teardown(
			test_savepoints_without_a_decision, begin, end),
		cmocka_unit_test_setup_teardown(test_stage_with_a_policy, begin,
						end),
		cmocka_unit_test_setup_teardown(test_transaction_in_time, begin,
						end),
		cmocka_unit_test_setup_teardown(test_pipeline, begin, end),
		cmocka_unit_test_setup_teardown(test_gather, begin, end),
		cmocka_unit_test_setup_teardown(test_gather_checks_names, begin,
						end),
		cmocka_unit_test_setup_teardown(test_wait_all_in_time, begin,
						end),
		cmocka_unit_test_setup_teardown(test_confine, begin, end),
		cmocka_unit_test_setup_teardown(test_nothing_is_left_behind,
						begin, end),
	};

	return RUN_TESTS(tests);
}
