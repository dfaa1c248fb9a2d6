/*
 * An embedder whose callback decides:
 *
 *	policy MODE [NEEDLE [VERDICT]] -- COMMAND...
 *
 * What has NEEDLE in its path, or is a call of that name or category, gets
 * VERDICT; all else is allowed. MODE:
 *	sync		answers at once
 *	later		hands over, and a thread answers 100 ms later
 *	drop		frees unanswered what NEEDLE matches
 *	keep		never answers it, and frees it after the run
 *	restrict	as sync, and takes all of the network but ONLY away,
 *			of that process with OF_PID; then but THEN,
 *			with THEN_OF_PID of that process
 *	deny-path	as sync, and denies the path ONLY; allow-path
 *	grant		as restrict of that process, then grants it MORE, and
 *			with FOR_ALL tries to grant that to all
 *	max-memory	as sync, and limits memory to ONLY bytes; max-processes
 *	swap		as sync, and renames ONLY to MORE before it answers
 *	slow		as sync, but the first waits until the file GO is there
 *	flood		as sync, takes 20 ms to look at a refusal, and counts
 *			them only
 *	twice		answers twice, and says what came of it
 *	stopped		as twice, and before that stops the supervisor, and
 *			gives it orders until there is no room for more
 *
 * With BUNDLE that one, of which COMMAND... may be missing: then config.json's.
 * With ISOLATION that one, with BRANCH a branch of where it stands, with MOUNT
 * that mount. Prints the events that NEEDLE matches, with PROGRAM whose they
 * are, and the exit status.
 */
#include <pthread.h>
#include <sandlock.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct test {
	const char *mode, *needle;
	int verdict;
	struct sandlock_approval *kept;
	atomic_int freed, late, told;
};

static int matches(const struct test *t, const struct sandlock_event *e)
{
	return t->needle && ((e->path && strstr(e->path, t->needle)) ||
			     strcmp(e->syscall, t->needle) == 0 ||
			     strcmp(e->category, t->needle) == 0);
}

static void print(const struct sandlock_event *e)
{
	printf("event %s %s %s", e->category, e->syscall,
	       e->path ? e->path : "-");
	for (size_t i = 0; i < e->n_argv; i++)
		printf(" %s", e->argv[i]);
	if (e->host)
		printf(" %s:%u", e->host, e->port);
	if (getenv("PROGRAM"))
		printf(" by %s", e->program ? e->program : "nobody");
	printf("%s\n", e->denied ? " denied" : "");
	fflush(stdout);
}

/* In the middle of deciding: that destination, of this process or of all. */
static void restrict_network(const struct sandlock_event *e,
			     struct sandlock_context *ctx)
{
	const char *only = getenv("ONLY"), *then = getenv("THEN");
	struct sandlock_error err = { 0 };
	pid_t pid = getenv("OF_PID") ? e->pid : 0;
	int r = sandlock_context_restrict_network(ctx, pid, &only, only ? 1 : 0,
						  &err);

	printf("restricted %d %s\n", r, err.msg);
	if (!then)
		return;
	pid = getenv("THEN_OF_PID") ? e->pid : 0;
	r = sandlock_context_restrict_network(ctx, pid, &then, 1, &err);
	printf("then %d %s\n", r, err.msg);
}

static void grant_network(const struct sandlock_event *e,
			  struct sandlock_context *ctx)
{
	const char *only = getenv("ONLY"), *more = getenv("MORE");
	struct sandlock_error err = { 0 };
	pid_t pid = getenv("FOR_ALL") ? 0 : e->pid;

	(void)sandlock_context_restrict_network(ctx, pid, &only, only ? 1 : 0,
						NULL);
	printf("granted %d\n",
	       sandlock_context_grant_network(ctx, pid, &more, 1, &err));
}

static void limit(const struct test *t, struct sandlock_context *ctx)
{
	unsigned long long n = strtoull(getenv("ONLY"), NULL, 10);
	struct sandlock_error err = { 0 };
	int r = strstr(t->mode, "memory")
			? sandlock_context_restrict_max_memory(ctx, n, &err)
			: sandlock_context_restrict_max_processes(
				  ctx, (uint32_t)n, &err);

	printf("limited %d %s\n", r, err.msg);
}

static int decide(void *data, const struct sandlock_event *e,
		  struct sandlock_context *ctx)
{
	struct test *t = data;

	if (!matches(t, e))
		return SANDLOCK_VERDICT_ALLOW;
	if (strcmp(t->mode, "flood") == 0) {
		usleep(20000);
		t->told++;
		return t->verdict;
	}
	print(e);
	if (strcmp(t->mode, "slow") == 0)
		while (access(getenv("GO"), F_OK) < 0)
			usleep(5000);
	if (strcmp(t->mode, "swap") == 0)
		(void)rename(getenv("ONLY"), getenv("MORE"));
	if (strcmp(t->mode, "restrict") == 0)
		restrict_network(e, ctx);
	if (strcmp(t->mode, "grant") == 0)
		grant_network(e, ctx);
	if (strncmp(t->mode, "max-", 4) == 0)
		limit(t, ctx);
	if (strcmp(t->mode, "deny-path") == 0)
		printf("denied %d\n",
		       sandlock_context_deny_path(ctx, getenv("ONLY"), NULL));
	if (strcmp(t->mode, "allow-path") == 0)
		printf("allowed %d\n",
		       sandlock_context_allow_path(ctx, getenv("ONLY"), NULL));
	return t->verdict;
}

struct later {
	struct sandlock_approval *a;
	int verdict;
	struct test *t;
};

static void *answer_later(void *arg)
{
	const struct timespec ts = { .tv_nsec = 100 * 1000 * 1000 };
	struct later *l = arg;

	(void)nanosleep(&ts, NULL);
	(void)sandlock_approval_resolve(l->a, l->verdict);
	sandlock_approval_free(l->a);
	atomic_fetch_sub(&l->t->late, 1);
	free(l);
	return NULL;
}

/* The supervisor is the only child. */
static void signal_supervisor(int sig)
{
	char path[64];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &pid) == 1)
		kill(pid, sig);
	else
		printf("no supervisor\n");
	if (f)
		fclose(f);
}

struct full {
	struct sandlock_approval *a;
	atomic_int orders, is_over;
};

static void *look_while_full(void *arg)
{
	struct full *f = arg;
	int before;

	do {
		before = f->orders;
		usleep(100 * 1000);
	} while (before != f->orders);
	printf("cancelled %d\n", sandlock_approval_is_cancelled(f->a));
	f->is_over = 1;
	signal_supervisor(SIGCONT);
	return NULL;
}

static void fill(struct sandlock_context *ctx, struct sandlock_approval *a)
{
	struct full f = { .a = a };
	char path[4000];
	pthread_t thread;

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	signal_supervisor(SIGSTOP);
	pthread_create(&thread, NULL, look_while_full, &f);
	while (!f.is_over) {
		(void)sandlock_context_deny_path(ctx, path, NULL);
		f.orders++;
	}
	pthread_join(thread, NULL);
}

static void defer(void *data, const struct sandlock_event *e,
		  struct sandlock_context *ctx, struct sandlock_approval *a)
{
	struct test *t = data;
	struct later *l;
	pthread_t thread;

	if (!a) {
		if (matches(t, e))
			print(e);
		return;
	}
	if (!matches(t, e)) {
		(void)sandlock_approval_resolve(a, SANDLOCK_VERDICT_ALLOW);
		sandlock_approval_free(a);
		return;
	}
	print(e);
	if (strcmp(t->mode, "drop") == 0) {
		sandlock_approval_free(a);
	} else if (strcmp(t->mode, "keep") == 0) {
		t->kept = a;
	} else if (strcmp(t->mode, "twice") == 0 ||
		   strcmp(t->mode, "stopped") == 0) {
		if (strcmp(t->mode, "stopped") == 0)
			fill(ctx, a);
		printf("first %d\n", sandlock_approval_resolve(a, t->verdict));
		printf("second %d\n", sandlock_approval_resolve(a, 0));
		sandlock_approval_free(a);
	} else {
		l = malloc(sizeof(*l));
		*l = (struct later){ a, t->verdict, t };
		atomic_fetch_add(&t->late, 1);
		pthread_create(&thread, NULL, answer_later, l);
		pthread_detach(thread);
	}
}

static void count_free(void *data)
{
	struct test *t = data;

	t->freed++;
}

int main(int argc, char **argv)
{
	const struct timespec tick = { .tv_nsec = 1000 * 1000 };
	struct sandlock_env env = { .root = getenv("SANDLOCK_ROOT"),
				    .store = getenv("SANDLOCK_STORE"),
				    .program = getenv("SANDLOCK_PROGRAM") };
	struct sandlock_request *q = sandlock_request_new();
	struct sandlock_launch l = { .argv = NULL };
	const struct sandlock_report *report = NULL;
	struct sandlock_sandbox *s = NULL;
	struct sandlock_error err = { 0 };
	struct test t = { .mode = argv[1] };
	int i = 2, r;

	if (argc > 2 && strcmp(argv[i], "--") != 0)
		t.needle = argv[i++];
	if (i < argc && strcmp(argv[i], "--") != 0)
		t.verdict = atoi(argv[i++]);
	if (i + 1 < argc)
		l.argv = (const char *const *)argv + i + 1;
	if (getenv("BUNDLE"))
		sandlock_request_set(q, "program.bundle", getenv("BUNDLE"),
				     "test", &err);
	if (getenv("ISOLATION"))
		sandlock_request_set(q, "program.isolation",
				     getenv("ISOLATION"), "test", &err);
	sandlock_request_set(q, "config.branch",
			     getenv("BRANCH") ? "true" : "false", "test", &err);
	if (getenv("MOUNT"))
		sandlock_request_set(q, "filesystem.mount", getenv("MOUNT"),
				     "test", &err);
	if (getenv("ASK_TIMEOUT"))
		sandlock_request_set(q, "ask.timeout", getenv("ASK_TIMEOUT"),
				     "test", &err);
	if (getenv("NET_ALLOW"))
		sandlock_request_set(q, "network.allow", getenv("NET_ALLOW"),
				     "test", &err);
	if (getenv("ISOLATION"))
		sandlock_request_set(q, "program.isolation",
				     getenv("ISOLATION"), "test", &err);
	if (getenv("NET_BIND"))
		sandlock_request_set(q, "network.allow_bind",
				     getenv("NET_BIND"), "test", &err);
	r = sandlock_sandbox_new(&env, q, &s, &err);
	if (r == 0 &&
	    (strcmp(t.mode, "sync") == 0 || strcmp(t.mode, "slow") == 0 ||
	     strcmp(t.mode, "swap") == 0 || strcmp(t.mode, "flood") == 0 ||
	     strcmp(t.mode, "restrict") == 0 || strcmp(t.mode, "grant") == 0 ||
	     strncmp(t.mode, "max-", 4) == 0 || strstr(t.mode, "-path")))
		r = sandlock_sandbox_set_policy(s, decide, &t, count_free,
						&err);
	else if (r == 0)
		r = sandlock_sandbox_set_deferred_policy(s, defer, &t,
							 count_free, &err);
	if (r == 0)
		r = sandlock_sandbox_run(s, &l, &report, &err);
	if (r < 0)
		printf("error: %s\n", err.msg);
	else
		printf("exit %d\n", report->result.exit_value);
	if (t.told)
		printf("flood: %d told\n", t.told);
	printf("freed before %d\n", t.freed);
	if (t.kept)
		printf("cancelled %d\n",
		       sandlock_approval_is_cancelled(t.kept));
	sandlock_sandbox_free(s);
	sandlock_approval_free(t.kept);
	while (t.late)
		nanosleep(&tick, NULL);
	printf("freed after %d\n", t.freed);
	sandlock_request_free(q);
	return r < 0;
}
