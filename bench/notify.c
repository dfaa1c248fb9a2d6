/*
 * What our supervisor adds to a seccomp notification, against the shortest loop
 * that could do the same:
 *
 *	continue	receive; let the kernel carry on
 *	open		receive; read the path, check that the caller is still
 *			there, open the file, install the fd as the result
 *	policy		the same, against a callback of another process that is
 *			asked about every open of a sandbox
 *
 * Last, how long stat(2) takes in a sandbox while an approval waits, against
 * one where none does.
 *
 * With a word only that line is measured. Both loops use sync wake-up. The
 * rounds of a loop and of ours alternate; what counts is the median of the
 * rounds.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sandlock.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/notify.h"
#include "supervise/supervisor.h"

enum { ROUNDS = 31, CALLS = 3000, STATS = 100000, PATH_SIZE = 4096 };

enum what { CONTINUE, OPEN, POLICY, WAITING };

struct step {
	const char *name;
	enum what what;
	unsigned int percent; /* at most, of the bare one */
};

static const struct step steps[] = {
	{ "continue", CONTINUE, 125 },
	{ "open", OPEN, 130 },
	{ "policy", POLICY, 300 },
	{ "stat", WAITING, 120 },
};

#define FILE_NAME "/etc/passwd"
#define HELD_NAME "/etc/group"

static void die(const char *what)
{
	(void)fprintf(stderr, "notify: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* -------------------------------------------------------------- caller -- */

static int trap(int nr)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = ARRAY_LEN(f), .filter = f };
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("no_new_privs");
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			  SECCOMP_FILTER_FLAG_NEW_LISTENER |
				  SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
			  &prog);
	if (fd < 0)
		die("seccomp");
	return fd;
}

static void call_often(enum what what)
{
	for (int i = 0; i < CALLS; i++) {
		int fd;

		if (what == CONTINUE) {
			(void)syscall(SYS_getppid);
			continue;
		}
		fd = (int)syscall(SYS_openat, AT_FDCWD, FILE_NAME, O_RDONLY);
		if (fd < 0)
			die(FILE_NAME);
		(void)close(fd);
	}
}

static void be_caller(enum what what, int sock)
{
	int fd = trap(what == CONTINUE ? SYS_getppid : SYS_openat);
	uint64_t began, took;
	char byte;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd_send(sock, "x", 1, &fd, 1) < 0 || read(sock, &byte, 1) != 1)
		die("handshake");
	(void)close(fd);
	began = now_ns();
	call_often(what);
	took = now_ns() - began;
	if (fd_write_full(sock, &took, sizeof(took)) < 0)
		die("result");
	_exit(0);
}

struct caller {
	pid_t pid;
	int sock, listener_fd;
};

static struct caller start_caller(enum what what)
{
	struct caller c = { .listener_fd = -1 };
	size_t n_fds = 1;
	int sock[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) < 0)
		die("socketpair");
	c.pid = fork();
	if (c.pid < 0)
		die("fork");
	if (c.pid == 0) {
		(void)close(sock[0]);
		be_caller(what, sock[1]);
	}
	(void)close(sock[1]);
	c.sock = sock[0];
	if (fd_recv(c.sock, &byte, 1, &c.listener_fd, &n_fds) != 1 ||
	    n_fds != 1)
		die("listener");
	return c;
}

static void let_go(const struct caller *c)
{
	if (write(c->sock, "x", 1) != 1)
		die("handshake");
}

/* ns for each call */
static uint64_t end_caller(struct caller *c)
{
	uint64_t took = 0;

	if (fd_read_full(c->sock, &took, sizeof(took)) != sizeof(took))
		die("result");
	(void)close(c->sock);
	(void)waitpid(c->pid, NULL, 0);
	return took / CALLS;
}

/* ----------------------------------------------------------- bare loop -- */

static void bare_open(int fd, const struct seccomp_notif *n)
{
	char path[PATH_SIZE];
	ssize_t len =
		notify_read_memory((pid_t)n->pid, n->data.args[1], path, 256);
	int file;

	if (len < 0 || !memchr(path, '\0', (size_t)len) ||
	    !notify_is_valid(fd, n->id))
		die("path");
	file = open(path, (int)n->data.args[2] | O_CLOEXEC);
	if (file < 0 || notify_answer_fd(fd, n->id, file, false) < 0)
		die("answer");
	(void)close(file);
}

static uint64_t run_bare(enum what what, size_t size)
{
	struct caller c = start_caller(what);
	union notify_request r;

	(void)notify_set_sync(c.listener_fd);
	let_go(&c);
	for (int i = 0; i < CALLS; i++) {
		if (notify_receive(c.listener_fd, &r, size) < 0)
			die("receive");
		if (what != CONTINUE)
			bare_open(c.listener_fd, &r.notif);
		else if (notify_continue(c.listener_fd, r.notif.id) < 0)
			die("continue");
	}
	(void)close(c.listener_fd);
	return end_caller(&c);
}

/* ---------------------------------------------------------------- ours -- */

static struct outcome go_on(struct call *c, void *data)
{
	return OUTCOME_GO;
}

static struct outcome open_file(struct call *c, void *data)
{
	char path[PATH_SIZE];
	int fd, r = call_read_string(c, call_arg(c, 1), path, sizeof(path));

	if (r < 0)
		return OUTCOME_FAIL(-r);
	fd = open(path, (int)call_arg(c, 2) | O_CLOEXEC);
	return fd < 0 ? OUTCOME_FAIL(errno) : OUTCOME_OPEN(fd, false);
}

static uint64_t run_ours(enum what what)
{
	static const struct handler rows[] = {
		{ "getppid", SYS_getppid, LANE_INLINE, go_on, NULL, NULL },
		{ "openat", SYS_openat, LANE_LOCAL, open_file, NULL, NULL },
	};
	const struct supervisor_options o = { .handlers = rows,
					      .n_handlers = ARRAY_LEN(rows) };
	struct supervisor *s = NULL;
	struct error err = ERROR_INIT;
	struct caller c = start_caller(what);
	uint64_t took;

	if (supervisor_new(&o, &s, &err) < 0 || supervisor_start(s, &err) < 0 ||
	    supervisor_add_listener(s, c.listener_fd, &err) < 0) {
		(void)fprintf(stderr, "notify: %s\n", err.msg);
		exit(1);
	}
	let_go(&c);
	took = end_caller(&c);
	supervisor_free(s);
	return took;
}

/* -------------------------------------------------------------- policy -- */

/* Beside us: ../sandlock. */
static const char *find_program(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);

	if (n <= 0)
		die("/proc/self/exe");
	path[n] = '\0';
	for (int i = 0; i < 2; i++)
		*strrchr(path, '/') = '\0';
	return strcat(path, "/sandlock");
}

static void complain(const struct sandlock_error *e)
{
	(void)fprintf(stderr, "notify: %s\n", e->msg);
	exit(1);
}

static int allow(void *data, const struct sandlock_event *e,
		 struct sandlock_context *ctx)
{
	return SANDLOCK_VERDICT_ALLOW;
}

static void allow_others(void *data, const struct sandlock_event *e,
			 struct sandlock_context *ctx,
			 struct sandlock_approval *a)
{
	struct sandlock_approval **held = data;

	if (e->path && strcmp(e->path, HELD_NAME) == 0 && !*held) {
		*held = a;
		return;
	}
	(void)sandlock_approval_resolve(a, SANDLOCK_VERDICT_ALLOW);
	sandlock_approval_free(a);
}

/* What our own @word prints in a sandbox: a number. */
static uint64_t run_inside(const char *word, bool deferred)
{
	const struct sandlock_env env = { .program = find_program() };
	struct sandlock_launch l = { .argv = NULL,
				     .out.kind = SANDLOCK_STDIO_CAPTURE };
	struct sandlock_request *q = sandlock_request_new();
	const struct sandlock_report *report = NULL;
	struct sandlock_approval *held = NULL;
	struct sandlock_sandbox *s = NULL;
	struct sandlock_error e = { 0 };
	const char *const argv[] = { "/bench/bench/notify", "inside", word,
				     NULL };
	char mount[PATH_MAX + 16];
	uint64_t took;
	int r;

	l.argv = argv;
	(void)snprintf(mount, sizeof(mount), "/bench:%.*s:ro",
		       (int)(strrchr(env.program, '/') - env.program),
		       env.program);
	r = sandlock_request_set(q, "config.branch", "false", "bench", &e);
	if (r == 0)
		r = sandlock_request_set(q, "filesystem.mount", mount, "bench",
					 &e);
	if (r == 0)
		r = sandlock_sandbox_new(&env, q, &s, &e);
	if (r == 0)
		r = deferred ? sandlock_sandbox_set_deferred_policy(
				       s, allow_others, &held, NULL, &e)
			     : sandlock_sandbox_set_policy(s, allow, NULL, NULL,
							   &e);
	if (r == 0)
		r = sandlock_sandbox_run(s, &l, &report, &e);
	if (r < 0)
		complain(&e);
	took = strtoull(report->out_data ? report->out_data : "", NULL, 10);
	if (!took)
		die(word);
	sandlock_sandbox_free(s);
	sandlock_approval_free(held);
	sandlock_request_free(q);
	return took;
}

/* In the sandbox: ns for each open. */
static void be_opener(void)
{
	uint64_t began = now_ns();

	call_often(OPEN);
	(void)printf("%llu\n", (unsigned long long)(now_ns() - began) / CALLS);
}

/* In the sandbox: ns for each stat, while a child of ours waits, or not. */
static void be_watcher(bool waits)
{
	const struct timespec moment = { .tv_nsec = 100 * 1000 * 1000 };
	pid_t pid = waits ? fork() : -1;
	struct stat st;
	uint64_t began;

	if (pid == 0) {
		(void)open(HELD_NAME, O_RDONLY | O_CLOEXEC);
		_exit(0);
	}
	(void)nanosleep(&moment, NULL);
	began = now_ns();
	for (int i = 0; i < STATS; i++)
		(void)stat(FILE_NAME, &st);
	(void)printf("%llu\n", (unsigned long long)(now_ns() - began) / STATS);
	if (pid > 0)
		(void)kill(pid, SIGKILL);
}

/* -------------------------------------------------------------- report -- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

static void report(const struct step *s, const char *first, uint64_t a,
		   uint64_t b)
{
	(void)printf("%-10s %s %6.2f us   ours %6.2f us   %.2fx (at most "
		     "%.2fx)\n",
		     s->name, first, (double)a / 1e3, (double)b / 1e3,
		     (double)b / (double)a, s->percent / 100.0);
}

static void measure(const struct step *s, size_t size)
{
	uint64_t bare[ROUNDS], ours[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		bare[i] = run_bare(s->what, size);
		ours[i] = s->what == POLICY ? run_inside("opens", false)
					    : run_ours(s->what);
	}
	report(s, "bare", median(bare), median(ours));
}

static void measure_waiting(const struct step *s)
{
	uint64_t idle[ROUNDS], waiting[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		idle[i] = run_inside("stats", true);
		waiting[i] = run_inside("stats-waiting", true);
	}
	report(s, "idle", median(idle), median(waiting));
}

static int be_inside(const char *word)
{
	if (strcmp(word, "opens") == 0)
		be_opener();
	else
		be_watcher(strcmp(word, "stats-waiting") == 0);
	return 0;
}

int main(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	size_t size;

	if (argc > 2 && strcmp(argv[1], "inside") == 0)
		return be_inside(argv[2]);

	if (notify_request_size(&size, &err) < 0) {
		(void)fprintf(stderr, "notify: %s\n", err.msg);
		return 1;
	}
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		const struct step *s = &steps[i];

		if (argc > 1 && strcmp(argv[1], s->name) != 0)
			continue;
		if (s->what == WAITING)
			measure_waiting(s);
		else
			measure(s, size);
	}
	return 0;
}
