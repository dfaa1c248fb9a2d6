#include "hooks/hooks.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/log.h"
#include "unit.h"

static char dir[256]; /* for what hooks write */

struct fixture {
	struct spec_hook hooks[3];
	struct spec_hooks all;
	struct hook_context ctx;
	struct error err;
	struct log_sink sink;
	char log[1024];
	size_t n_logged;
};

static void collect(void *data, enum log_level level, const char *msg)
{
	struct fixture *f = data;

	if (level == LOG_LEVEL_DEBUG)
		return;
	f->n_logged++;
	(void)snprintf(f->log, sizeof(f->log), "%s", msg);
}

/* Each script is a hook at @point: sh -c SCRIPT. */
static char **shell(const char *script)
{
	static char *argv[3][4];
	static size_t next;
	char **v = argv[next++ % 3];

	v[0] = (char *)"sh";
	v[1] = (char *)"-c";
	v[2] = (char *)script;
	v[3] = NULL;
	return v;
}

static void prepare(struct fixture *f, enum spec_hook_point point,
		    const char *const *scripts)
{
	size_t n = 0;

	memset(f, 0, sizeof(*f));
	f->sink = (struct log_sink){ collect, f };
	f->ctx = (struct hook_context){
		.state = "{\"id\":\"x\"}",
		.state_len = 10,
		.cwd = dir,
		.log = &f->sink,
	};
	for (; scripts[n]; n++)
		f->hooks[n] = (struct spec_hook){
			.path = (char *)"/bin/sh",
			.args = { shell(scripts[n]), 3 },
		};
	f->all.v[point] = f->hooks;
	f->all.n[point] = n;
}

#define SCRIPTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static int run(struct fixture *f, enum spec_hook_point point)
{
	return hooks_run(&f->all, point, &f->ctx, &f->err);
}

static void check_file(const char *name, const char *want)
{
	char path[300], text[256];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	assert_string_equal(text, want);
	(void)close(fd);
	(void)unlink(path);
}

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static size_t count_fds(void)
{
	auto_dir DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	return n;
}

static void hooks_run_in_order_with_the_state(void **state)
{
	struct fixture f;

	prepare(&f, SPEC_HOOK_CREATE_RUNTIME,
		SCRIPTS("cat >>out; pwd >>out", "echo two >>out; cat >>out",
			"echo three >>out"));
	assert_int_equal(run(&f, SPEC_HOOK_CREATE_RUNTIME), 0);
	{
		char want[512];

		(void)snprintf(want, sizeof(want),
			       "{\"id\":\"x\"}%s\ntwo\n{\"id\":\"x\"}three\n",
			       dir);
		check_file("out", want);
	}
	assert_int_equal(run(&f, SPEC_HOOK_POSTSTART), 0);
}

static void an_environment_that_is_given_is_all(void **state)
{
	static char *env[] = { (char *)"A=b", NULL };
	static char *argv[] = { (char *)"env", NULL };
	struct fixture f;

	(void)setenv("LEAKED", "1", 1);
	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS("/usr/bin/env >&2; exit 1"));
	f.hooks[0] = (struct spec_hook){ .path = (char *)"/usr/bin/env" };
	f.hooks[0].args = (struct spec_strings){ argv, 1 };
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), 0);
	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS("test \"$LEAKED\" = 1"));
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), 0);
	f.hooks[0].has_env = true;
	assert_true(run(&f, SPEC_HOOK_PRESTART) < 0);
	prepare(&f, SPEC_HOOK_PRESTART,
		SCRIPTS("tr '\\0' ' ' </proc/self/environ >&2; exit 1"));
	f.hooks[0].env = (struct spec_strings){ env, 1 };
	f.hooks[0].has_env = true;
	assert_true(run(&f, SPEC_HOOK_PRESTART) < 0);
	assert_string_equal(f.err.msg,
			    "error running prestart hook #0: '/bin/sh' exited "
			    "with status 1: A=b");
	(void)unsetenv("LEAKED");
}

static void argv0_is_the_path_by_default(void **state)
{
	struct fixture f;

	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS(":"));
	f.hooks[0] = (struct spec_hook){ .path = (char *)"/bin/true" };
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), 0);
	f.hooks[0].path = (char *)"/bin/false";
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), -ECANCELED);
	assert_string_equal(f.err.msg, "error running prestart hook #0: "
				       "'/bin/false' exited with status 1");
}

static void the_first_failure_ends_the_series(void **state)
{
	struct fixture f;

	prepare(&f, SPEC_HOOK_CREATE_CONTAINER,
		SCRIPTS("echo one >>out",
			"echo ' some'; printf '\\033[1mbad\\nthing\\n' >&2; "
			"exit 3",
			"echo three >>out"));
	assert_int_equal(run(&f, SPEC_HOOK_CREATE_CONTAINER), -ECANCELED);
	assert_int_equal(f.err.kind, ERR_HOOK);
	assert_string_equal(f.err.msg,
			    "error running createContainer hook #1: '/bin/sh' "
			    "exited with status 3: \\x1b[1mbad thing");
	check_file("out", "one\n");
	assert_int_equal(f.n_logged, 0);
}

static void poststop_runs_all_and_only_warns(void **state)
{
	struct fixture f;

	prepare(&f, SPEC_HOOK_POSTSTOP,
		SCRIPTS("exit 1", "kill -9 $$", "echo three >>out"));
	assert_int_equal(run(&f, SPEC_HOOK_POSTSTOP), 0);
	assert_int_equal(f.err.kind, ERR_NONE);
	assert_int_equal(f.n_logged, 2);
	assert_string_equal(f.log, "error running poststop hook #1: '/bin/sh' "
				   "was killed by signal 9, SIGKILL");
	check_file("out", "three\n");
}

static void a_missing_program_is_named(void **state)
{
	struct fixture f;

	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS(":"));
	f.hooks[0].path = (char *)"/nonexistent/hook";
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), -ENOENT);
	assert_string_equal(f.err.msg,
			    "error running prestart hook #0: cannot execute "
			    "'/nonexistent/hook': No such file or directory");
	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS(":"));
	f.ctx.cwd = "/nonexistent";
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), -ENOENT);
	assert_non_null(strstr(f.err.msg, "cannot enter '/nonexistent'"));
}

static void a_timeout_kills_the_process_group(void **state)
{
	struct fixture f;
	int64_t start = now_ms();
	char path[300];

	prepare(&f, SPEC_HOOK_PRESTART,
		SCRIPTS("trap '' TERM; (sleep 3; echo late >late) & "
			"echo waiting >&2; sleep 100"));
	f.hooks[0].timeout_s = 1;
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), -ETIMEDOUT);
	assert_string_equal(f.err.msg,
			    "error running prestart hook #0: '/bin/sh' did not "
			    "end within its timeout of 1 s: waiting");
	assert_true(now_ms() - start >= 1000 && now_ms() - start < 60000);
	(void)usleep(2500 * 1000);
	(void)snprintf(path, sizeof(path), "%s/late", dir);
	assert_int_equal(access(path, F_OK), -1);
}

static void background_children_are_not_waited_for(void **state)
{
	struct fixture f;
	pid_t pid = 0;
	FILE *file;
	char path[300];

	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS("sleep 1000 & echo $! >pid"));
	f.hooks[0].timeout_s = 60;
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), 0);
	(void)snprintf(path, sizeof(path), "%s/pid", dir);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	(void)fclose(file);
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)unlink(path);
}

static void much_output_neither_blocks_nor_grows(void **state)
{
	struct fixture f;

	prepare(&f, SPEC_HOOK_PRESTART,
		SCRIPTS("i=0; while [ $i -lt 3000 ]; do echo "
			"'0123456789012345678901234567890123456789' >&2; "
			"echo 'to standard output, which is discarded'; "
			"i=$((i+1)); done; echo end >&2; exit 1"));
	f.hooks[0].timeout_s = 30;
	assert_true(run(&f, SPEC_HOOK_PRESTART) < 0);
	assert_true(strlen(f.err.msg) < 600);
	assert_string_equal(f.err.msg + strlen(f.err.msg) - 4, " end");
}

static void a_large_state_that_nobody_reads_is_no_failure(void **state)
{
	struct fixture f;
	size_t len = 4 * 1024 * 1024;
	auto_free char *big = malloc(len);

	assert_non_null(big);
	memset(big, 'x', len);
	prepare(&f, SPEC_HOOK_PRESTART,
		SCRIPTS("exec <&-; exit 0", "wc -c >out"));
	f.ctx.state = big;
	f.ctx.state_len = len;
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), 0);
	check_file("out", "4194304\n");
}

static void other_children_are_left_alone(void **state)
{
	struct fixture f;
	pid_t other = fork();
	int status;

	assert_true(other >= 0);
	if (other == 0)
		_exit(5);
	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS("sleep 0.2; exit 4"));
	assert_true(run(&f, SPEC_HOOK_PRESTART) < 0);
	assert_non_null(strstr(f.err.msg, "status 4"));
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(WEXITSTATUS(status), 5);
	assert_int_equal(waitpid(-1, &status, 0), -1);
	assert_int_equal(errno, ECHILD);
}

static void signals_are_reset(void **state)
{
	struct fixture f;
	sigset_t set, old;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	(void)signal(SIGPIPE, SIG_IGN);
	prepare(&f, SPEC_HOOK_PRESTART,
		SCRIPTS("grep -E '^Sig(Blk|Ign)' /proc/self/status | "
			"tr -d '\\n\\t' >&2; exit 1"));
	assert_true(run(&f, SPEC_HOOK_PRESTART) < 0);
	if (!strstr(f.err.msg, "SigBlk:0000000000000000SigIgn:"
			       "0000000000000000"))
		fail_msg("%s", f.err.msg);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &old, &set);
	assert_true(sigismember(&set, SIGTERM));
}

static void no_descriptor_leaks(void **state)
{
	struct fixture f;
	size_t before = count_fds();
	int leaky = open("/", O_RDONLY | O_DIRECTORY);
	int in = dup(STDIN_FILENO);

	assert_true(leaky >= 0);
	prepare(&f, SPEC_HOOK_PRESTART,
		SCRIPTS("i=3; while [ $i -lt 200 ]; do "
			"if [ -e /proc/$$/fd/$i ]; then exit 1; fi; "
			"i=$((i+1)); done"));
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), 0);
	/* Without standard input of our own. */
	(void)close(STDIN_FILENO);
	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS("cat >out"));
	assert_int_equal(run(&f, SPEC_HOOK_PRESTART), 0);
	(void)dup2(in, STDIN_FILENO);
	(void)close(in);
	(void)close(leaky);
	check_file("out", "{\"id\":\"x\"}");
	assert_int_equal(count_fds(), before);
}

static void an_ignored_sigchld_changes_nothing(void **state)
{
	struct fixture f;

	(void)signal(SIGCHLD, SIG_IGN);
	prepare(&f, SPEC_HOOK_PRESTART, SCRIPTS("sleep 0.1; exit 6"));
	assert_true(run(&f, SPEC_HOOK_PRESTART) < 0);
	(void)signal(SIGCHLD, SIG_DFL);
	/* Before 6.15 nobody can tell the status. */
	assert_true(strstr(f.err.msg, "status 6") ||
		    strstr(f.err.msg, "unknown status"));
}

static int make_dir(void **state)
{
	(void)close(unit_tmpdir(dir));
	return 0;
}

static int remove_dir(void **state)
{
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hooks_run_in_order_with_the_state),
		cmocka_unit_test(an_environment_that_is_given_is_all),
		cmocka_unit_test(argv0_is_the_path_by_default),
		cmocka_unit_test(the_first_failure_ends_the_series),
		cmocka_unit_test(poststop_runs_all_and_only_warns),
		cmocka_unit_test(a_missing_program_is_named),
		cmocka_unit_test(a_timeout_kills_the_process_group),
		cmocka_unit_test(background_children_are_not_waited_for),
		cmocka_unit_test(much_output_neither_blocks_nor_grows),
		cmocka_unit_test(a_large_state_that_nobody_reads_is_no_failure),
		cmocka_unit_test(other_children_are_left_alone),
		cmocka_unit_test(signals_are_reset),
		cmocka_unit_test(no_descriptor_leaks),
		cmocka_unit_test(an_ignored_sigchld_changes_nothing),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
