/*
 * Programs in a branch that is not mounted: what they see and do there is what
 * they would in a plain directory, and the lower stays as it is.
 */
#include "trap.h"
#include "tree_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "branch/merged.h"
#include "kernel/landlock.h"
#include "sandbox/cow.h"
#include "spec/request.h"
#include "supervise/supervisor.h"

static char top[64];
static struct error err;

static const char files_script[] =
	"mkdir lower lower/d lower/d/e lower/empty;"
	"echo one > lower/one; echo two > lower/d/two; echo f > lower/d/e/f;"
	"ln -s d lower/l; ln -s d/two lower/lf; ln -s \"$PWD/lower/d\" "
	"lower/abs;"
	"printf '#!/bin/sh\\necho script $0 $*\\n' > lower/run;"
	"chmod 755 lower/run; cp /bin/true lower/true;"

	"find lower | xargs touch -h -d @1000000000";

static void shell(const char *script)
{
	char *cmd;

	assert_true(asprintf(&cmd, "cd %s && { %s\n}", top, script) > 0);
	assert_int_equal(system(cmd), 0);
	free(cmd);
}

static int open_top(const char *name)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void confine(void)
{
	char lower[128], upper[128], out[128];
	const struct landlock_rule rules[] = {
		{ "/usr", -1, LANDLOCK_READ | LANDLOCK_EXEC, false },
		{ "/bin", -1, LANDLOCK_READ | LANDLOCK_EXEC, true },
		{ "/lib", -1, LANDLOCK_READ | LANDLOCK_EXEC, true },
		{ "/lib64", -1, LANDLOCK_READ | LANDLOCK_EXEC, true },
		{ "/etc", -1, LANDLOCK_READ, false },
		{ "/proc", -1, LANDLOCK_READ, false },
		{ "/dev", -1, LANDLOCK_READ | LANDLOCK_WRITE, false },
		{ lower, -1, LANDLOCK_READ | LANDLOCK_EXEC, false },
		{ upper, -1, LANDLOCK_READ | LANDLOCK_EXEC, false },
		{ out, -1, LANDLOCK_ALL, false },
	};
	const struct landlock_rules r = { .paths = rules,
					  .n_paths = ARRAY_LEN(rules),
					  .any_bind = true,
					  .any_connect = true,
					  .allow_degraded =
						  (1u << PROTECT_COUNT) - 1 };

	(void)snprintf(lower, sizeof(lower), "%s/lower", top);
	(void)snprintf(upper, sizeof(upper), "%s/upper", top);
	(void)snprintf(out, sizeof(out), "%s/out", top);
	MUST(landlock_restrict(&r, NULL) == 0);
}

static void go_in(void)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/lower", top);
	MUST(chdir(path) == 0);
	confine();
}

static int run_shell(void *arg)
{
	go_in();
	execl("/bin/sh", "sh", "-c", arg, NULL);
	return 127;
}

/* Runs something in the branch; its wait status. */
static int run(int (*body)(void *), void *arg)
{
	int lower = open_top("lower"), upper = open_top("upper");
	int work = open_top("work"), nrs[COW_ROWS];
	struct merged *m = merged_new(lower, upper, work, "trusted.overlay.");
	char lower_path[128], upper_path[128];
	const struct cow_root root = { .lower = lower_path,
				       .upper = upper_path,
				       .merged = m };
	struct handler rows[COW_ROWS];
	struct supervisor_options o = { .handlers = rows };
	struct supervisor *s = NULL;
	struct trapped t;
	struct cow *w;
	int status;

	(void)snprintf(lower_path, sizeof(lower_path), "%s/lower", top);
	(void)snprintf(upper_path, sizeof(upper_path), "%s/upper", top);
	w = cow_new(&root, 1);
	assert_non_null(w);
	o.n_handlers = cow_rows(w, rows);
	for (size_t i = 0; i < o.n_handlers; i++)
		nrs[i] = rows[i].nr;
	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	t = trap_fork(nrs, o.n_handlers, body, arg);
	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	trap_go(&t);
	status = trap_wait(t.pid, 30);
	supervisor_free(s);
	cow_free(w);
	merged_free(m);
	(void)close(lower);
	(void)close(upper);
	(void)close(work);
	return status;
}

static void open_fixture(const char *script)
{
	strcpy(top, "/var/tmp/sandlock-cow-XXXXXX");
	assert_non_null(mkdtemp(top));
	shell(script);
	shell("rm -f lower/c/c lower/a/d lower/c/d; mkdir -p upper work out;"
	      " cp -a lower plain; cp -a lower before");
}

static void close_fixture(void)
{
	char *cmd;

	assert_true(asprintf(&cmd, "rm -rf %s", top) > 0);
	assert_int_equal(system(cmd), 0);
	free(cmd);
}

static void compare_trees(const char *a, const char *b)
{
	char *cmd;

	/* Types, modes, owners, names, contents. */
	assert_true(asprintf(&cmd,
			     "for d in %s %s; do (cd $d; find . -printf "
			     "'%%p %%y %%m %%U %%l\\n' | sort; find . -type f |"
			     " sort | xargs -r cat) > out/sum.$d; done;"
			     " diff out/sum.%s out/sum.%s >&2",
			     a, b, a, b) > 0);
	shell(cmd);
	free(cmd);
}

/* The overlay that the kernel makes of what was written. */
static void compare_with_plain(void)
{
	char o[512], view[128];

	(void)snprintf(o, sizeof(o),
		       "lowerdir=%s/lower,upperdir=%s/upper,"
		       "workdir=%s/work",
		       top, top, top);
	(void)snprintf(view, sizeof(view), "%s/view", top);
	assert_int_equal(mkdir(view, 0700), 0);
	assert_int_equal(mount("overlay", view, "overlay", 0, o), 0);
	compare_trees("view", "plain");
	assert_int_equal(umount2(view, 0), 0);
}

/* In the branch and in a plain copy: the same output, and the same tree. */
static void does_the_same(const char *script)
{
	char *in, *cmd;

	if (geteuid() != 0)
		skip();
	open_fixture(files_script);
	assert_true(asprintf(&in, "{ %s\n} > %s/out/branch 2>&1", script, top) >
		    0);
	assert_int_equal(run(run_shell, in), 0);
	assert_true(asprintf(&cmd,
			     "(cd plain && { %s\n} > ../out/plain 2>&1);"
			     " diff out/plain out/branch >&2",
			     script) > 0);
	shell(cmd);
	compare_with_plain();
	compare_trees("lower", "before");
	free(in);
	free(cmd);
	close_fixture();
}

static void files_are_read_written_and_removed(void **state)
{
	does_the_same("cat one l/two lf abs/two; echo x >> one; cat one;"
		      "echo new > d/new; cat l/new; rm d/two; cat lf; ls d;"
		      "stat -c '%n %s %F' one d/new lf; : > one;"
		      "rm one; echo again > one; cat one; test -e d/two;"
		      "mv d/new d/e/moved; cat d/e/moved; ls -R .");
}

static void directories_are_made_moved_and_removed(void **state)
{
	does_the_same("mkdir new new/sub; echo 1 > new/sub/f; ls new;"
		      "mv d moved; ls moved moved/e; cat moved/e/f;"
		      "rm -r moved/e; ls moved; rmdir empty; mkdir empty;"
		      "echo in > empty/in; rmdir empty; rm -r new; mkdir d;"
		      "ls -a d; ls -a .; ln one hard; cat hard;"
		      "ln -s hard soft; readlink soft; cat soft");
}

static void one_can_be_in_a_new_directory(void **state)
{
	does_the_same("mkdir new; cd new; echo a > a; cat a; ls; mkdir b;"
		      "cd b; echo c > c; cat ../a c; cd ../..; cat new/b/c;"
		      "cd new/b && cat ../../one; cd ..; ls -a; cd ../d; ls;"
		      "cat two");
}

static void programs_of_the_branch_are_run(void **state)
{
	does_the_same("cp /bin/echo echo; ./echo hello; ./run a b; ./true;"
		      "echo true $?; cp run run2; ./run2 c 'd e';"
		      "mkdir bin; cp /bin/cat bin/kitty; bin/kitty one;"
		      "printf '#!./bin/kitty\\nx\\n' > s; chmod +x s; ./s;"
		      "cd bin; ./kitty ../one; PATH=$PWD:$PATH; kitty ../one;"
		      "printf 'x' > notx; ./notx; echo $?;"
		      "sh -c 'exec ./kitty ../one'; cd ..; cd ./bin;"
		      "./missing; echo $?; chmod -x kitty; ./kitty; echo $?");
}

static void metadata_are_changed(void **state)
{
	does_the_same("chmod 600 one; stat -c '%a %s' one; chmod 711 d;"
		      "stat -c %a d; touch -d @5 one; stat -c %Y one;"
		      "chown 3:4 d/two; stat -c %u:%g d/two;"
		      "chown -h 3:4 lf; stat -c %u:%g lf d/two;"
		      "setfattr -n user.k -v v one; getfattr -n user.k one;"
		      "setfattr -x user.k one; getfattr -d one;"
		      "truncate -s 2 d/two; cat d/two; umask 077; echo > u;"
		      "stat -c %a u; mkfifo p; stat -c %F p;"
		      "(echo through > p &); cat p");
}

/* ------------------------------------------------------- random calls -- */

static int log_calls(FILE *log, int root, int steps)
{
	for (int i = 0; i < steps; i++) {
		char seen[256] = "";
		struct what w = random_call();
		int r = on_kernel(root, &w, seen);

		(void)fprintf(log, "%d: op %d '%s' '%s' %u: %d %s\n", i, w.op,
			      w.a, w.b, w.n, r, seen);
	}
	(void)fclose(log);
	return 0;
}

static int random_inside(void *arg)
{
	FILE *log = arg;
	int root;

	go_in();
	root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(root >= 0);
	return log_calls(log, root, 150);
}

static FILE *open_log(const char *name)
{
	char path[128];
	FILE *log;

	(void)snprintf(path, sizeof(path), "%s/out/%s", top, name);
	log = fopen(path, "we");
	assert_non_null(log);
	return log;
}

static void any_call_does_as_in_a_plain_directory(void **state)
{
	if (geteuid() != 0)
		skip();
	(void)umask(0);
	stays_inside = true;
	for (unsigned int s = 1; s <= 20; s++) {
		FILE *log;
		int root;

		open_fixture(lower_script);
		seed = s;
		log = open_log("branch");
		assert_int_equal(run(random_inside, log), 0);
		(void)fclose(log);
		seed = s;
		root = open_top("plain");
		assert_int_equal(log_calls(open_log("plain"), root, 150), 0);
		(void)close(root);
		assert_int_equal(chdir("/"), 0);
		shell("diff out/plain out/branch >&2");
		compare_with_plain();
		compare_trees("lower", "before");
		close_fixture();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_read_written_and_removed),
		cmocka_unit_test(directories_are_made_moved_and_removed),
		cmocka_unit_test(one_can_be_in_a_new_directory),
		cmocka_unit_test(programs_of_the_branch_are_run),
		cmocka_unit_test(metadata_are_changed),
		cmocka_unit_test(any_call_does_as_in_a_plain_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
