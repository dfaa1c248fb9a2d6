/*
 * Runs `true` through the C API, from one process.
 *
 *	api serve		for each line of standard input one run, and a
 *				line with the nanoseconds it took
 *	api leak RUNS		so many runs; complains about what is left of
 *				them: memory, fds, children, threads, files
 *	api handler CALLS	as serve, but a handler answers so many calls
 *				of "api loop CALLS", and its output is printed
 *	api loop CALLS		calls getppid, and prints the nanoseconds
 *
 * The working directory is worked in, on a branch.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <sandlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Until then malloc and the like have what they want to keep. */
enum { WARM_UP = 20, GROWTH_KIB = 512 };

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void run_once(void)
{
	static const char *const argv[] = { "true", NULL };
	struct sandlock_launch launch = {
		.argv = argv,
		.in.kind = SANDLOCK_STDIO_NULL,
		.out.kind = SANDLOCK_STDIO_CAPTURE,
		.err.kind = SANDLOCK_STDIO_CAPTURE,
	};
	struct sandlock_request *q = sandlock_request_new();
	const struct sandlock_report *report;
	struct sandlock_sandbox *s = NULL;
	struct sandlock_error e;

	if (!q)
		errx(1, "out of memory");
	if (sandlock_sandbox_new(NULL, q, &s, &e) < 0 ||
	    sandlock_sandbox_run(s, &launch, &report, &e) < 0)
		errx(1, "%s", e.msg);
	if (report->result.exit_kind != SANDLOCK_EXIT_CODE ||
	    report->result.exit_value != 0)
		errx(1, "true has failed");
	sandlock_sandbox_free(s);
	sandlock_request_free(q);
}

static int answer(void *data, struct sandlock_call *c,
		  struct sandlock_action *ret)
{
	(void)data;
	(void)c;
	ret->kind = SANDLOCK_ACTION_RETURN;
	ret->value = 1;
	return 0;
}

static void run_handled(const char *program, const char *calls)
{
	const char *const argv[] = { program, "loop", calls, NULL };
	const struct sandlock_handler h = { .syscall = "getppid",
					    .fn = answer };
	struct sandlock_launch launch = {
		.argv = argv,
		.in.kind = SANDLOCK_STDIO_NULL,
		.out.kind = SANDLOCK_STDIO_CAPTURE,
	};
	struct sandlock_request *q = sandlock_request_new();
	const struct sandlock_report *report;
	struct sandlock_sandbox *s = NULL;
	struct sandlock_error e;

	if (!q)
		errx(1, "out of memory");
	if (sandlock_request_set(q, "filesystem.read", "/", "api", &e) < 0 ||
	    sandlock_sandbox_new(NULL, q, &s, &e) < 0 ||
	    sandlock_sandbox_add_handler(s, &h, &e) < 0 ||
	    sandlock_sandbox_run(s, &launch, &report, &e) < 0)
		errx(1, "%s", e.msg);
	if (report->result.exit_kind != SANDLOCK_EXIT_CODE ||
	    report->result.exit_value != 0)
		errx(1, "the loop has failed");
	fputs(report->out_data, stdout);
	fflush(stdout);
	sandlock_sandbox_free(s);
	sandlock_request_free(q);
}

static void serve_handled(const char *calls)
{
	char program[4096] = "", line[64];

	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		err(1, "/proc/self/exe");
	while (fgets(line, sizeof(line), stdin))
		run_handled(program, calls);
}

static int loop(long calls)
{
	long long begin = now_ns();

	for (long i = 0; i < calls; i++)
		if (syscall(SYS_getppid) != 1)
			return 1;
	printf("%lld\n", now_ns() - begin);
	return 0;
}

static void serve(void)
{
	char line[64];
	long long begin;

	while (fgets(line, sizeof(line), stdin)) {
		begin = now_ns();
		run_once();
		printf("%lld\n", now_ns() - begin);
		fflush(stdout);
	}
}

static long count_entries(const char *path)
{
	DIR *dir = path ? opendir(path) : NULL;
	const struct dirent *d;
	long n = 0;

	while (dir && (d = readdir(dir)))
		n += d->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

static long private_kib(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Private_Dirty: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

struct seen {
	long fds, threads, kib, names, branches;
};

static struct seen look(void)
{
	const char *store = getenv("SANDLOCK_STORE");
	char branches[4096];

	snprintf(branches, sizeof(branches), "%s/branches", store);
	return (struct seen){
		.fds = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
		.kib = private_kib(),
		.names = count_entries(getenv("SANDLOCK_ROOT")),
		.branches = count_entries(branches),
	};
}

static int complain(const char *what, long before, long after)
{
	printf("%s: %ld, then %ld\n", what, before, after);
	return 1;
}

static int leak(long runs)
{
	struct seen before, after;
	int bad = 0;

	if (!getenv("SANDLOCK_ROOT") || !getenv("SANDLOCK_STORE"))
		errx(2, "SANDLOCK_ROOT and SANDLOCK_STORE say where to look");
	for (long i = 0; i < WARM_UP; i++)
		run_once();
	before = look();
	for (long i = 0; i < runs; i++)
		run_once();
	after = look();
	printf("%ld runs: private dirty memory %ld KiB, then %ld KiB\n", runs,
	       before.kib, after.kib);
	if (after.fds != before.fds)
		bad = complain("fds", before.fds, after.fds);
	if (after.threads != before.threads)
		bad = complain("threads", before.threads, after.threads);
	if (after.kib > before.kib + GROWTH_KIB)
		bad = complain("KiB", before.kib, after.kib);
	if (after.names)
		bad = complain("runtime directories", 0, after.names);
	if (after.branches)
		bad = complain("branches", 0, after.branches);
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		bad = complain("children", 0, 1);
	return bad;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "leak") == 0)
		return leak(strtol(argv[2], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "loop") == 0)
		return loop(strtol(argv[2], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "handler") == 0) {
		serve_handled(argv[2]);
		return 0;
	}
	if (argc != 2 || strcmp(argv[1], "serve") != 0)
		errx(2, "usage: api serve | leak RUNS | handler CALLS | loop "
			"CALLS");
	serve();
	return 0;
}
