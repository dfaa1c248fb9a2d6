/*
 * An embedder with handlers of system calls:
 *
 *	handle [OPTION...] SYSCALL[/EXCEPTION]=STEP[+STEP]... -- COMMAND...
 *
 * EXCEPTION: kill (the default), eperm, continue, eio. STEP:
 *	print		the call, and in which handler it is
 *	port:ARG	prints the port of the address that it points to;
 *			mport:I of the Ith message's of sendmsg or sendmmsg
 *	data:A:B	prints the bytes that argument A points to, as many as B
 *			says; mdata:I those of the Ith message's first piece
 *	await:PATH	waits until that is there
 *	path:ARG	prints the string that the argument points to
 *	poke:ARG:TEXT	writes TEXT, without a NUL, where it points to
 *	flood:ARG	writes 4 KiB there, again and again, until that fails
 *	sleep:MS
 *	later:MS	what follows happens on another thread, after so long
 *	wait		until main says go
 *	until:I:N	until handler I was called N times
 *	fd:PATH		gives the caller PATH, and prints its number there
 *	peek:FD		reads a line from that fd of the caller, and prints it
 *	cancelled	prints whether it is
 *	ends		prints whether the caller has ended, then and after all
 * and at the end
 *	continue errno:N return:N open:PATH bytes:TEXT hold kill:SIG
 *	none		no action
 *	fail		an error
 *	keep		never answers; freed after the run
 *	drop		frees it unanswered
 *	twice:N		answers with errno N, and again with errno 1
 * OPTION: threads=N timeout=MS, name=NAME, a KEY=VALUE of the request, or what
 * main does once it has read a line:
 *	wait=MS		waits for the end so long, says go, and waits on
 *	free=MS		frees the sandbox; another thread says go after so long
 * policy=allow: with a callback that is asked about execs and opens, too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sandlock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HANDLERS = 16 };

struct handler {
	int i;
	char *name, *steps;
	enum sandlock_exception on_exception;
	atomic_int freed, called, ended;
	atomic_bool is_over; /* nothing may call it */
};

static struct handler handlers[HANDLERS];
static int n_handlers;
static struct sandlock_call *kept;
static atomic_int late;
static atomic_bool go;

static void nap(long ms)
{
	const struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static void wait_until(const char *arg)
{
	const struct handler *h = &handlers[atoi(arg)];
	int n = atoi(strchr(arg, ':') + 1);

	while (h->called < n)
		nap(1);
}

static void print_path(struct sandlock_call *c, int arg)
{
	char text[256];
	int r = sandlock_call_read_string(
		c, sandlock_call_get_info(c)->args[arg], text, sizeof(text));

	if (r < 0)
		printf("path error %d\n", r);
	else
		printf("path %s\n", text);
}

static void print_port(struct sandlock_call *c, uint64_t at)
{
	struct sockaddr_in in;
	int r = sandlock_call_read(c, at, &in, sizeof(in));

	if (r < 0)
		printf("port error %d\n", r);
	else
		printf("port %d\n", ntohs(in.sin_port));
}

static void print_message_port(struct sandlock_call *c, int i)
{
	struct mmsghdr m = { 0 };

	(void)sandlock_call_read(
		c, sandlock_call_get_info(c)->args[1] + (uint64_t)i * sizeof(m),
		&m, sizeof(m.msg_hdr));
	print_port(c, (uint64_t)(uintptr_t)m.msg_hdr.msg_name);
}

static void print_data(struct sandlock_call *c, uint64_t at, uint64_t n)
{
	char text[256];
	int r;

	n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
	r = sandlock_call_read(c, at, text, n);
	if (r < 0)
		printf("data error %d\n", r);
	else
		printf("data %.*s\n", (int)n, text);
}

static void print_message_data(struct sandlock_call *c, int i)
{
	struct mmsghdr m = { 0 };
	struct iovec v = { 0 };

	(void)sandlock_call_read(
		c, sandlock_call_get_info(c)->args[1] + (uint64_t)i * sizeof(m),
		&m, sizeof(m.msg_hdr));
	(void)sandlock_call_read(c, (uint64_t)(uintptr_t)m.msg_hdr.msg_iov, &v,
				 sizeof(v));
	print_data(c, (uint64_t)(uintptr_t)v.iov_base, v.iov_len);
}

static void await(const char *path)
{
	while (access(path, F_OK) < 0)
		nap(5);
}

static void poke(struct sandlock_call *c, const char *arg)
{
	const char *text = strchr(arg, ':') + 1;

	printf("poke %d\n",
	       sandlock_call_write(c,
				   sandlock_call_get_info(c)->args[atoi(arg)],
				   text, strlen(text)));
}

static void flood(struct sandlock_call *c, int arg)
{
	static const char page[4096] = { [0 ... 4095] = 'x' };
	int r;

	do
		r = sandlock_call_write(c, sandlock_call_get_info(c)->args[arg],
					page, sizeof(page));
	while (r == 0);
	if (r != -ESRCH)
		printf("flood %d\n", r);
}

static void give_fd(struct sandlock_call *c, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	printf("installed %d\n", sandlock_call_install_fd(c, fd, false));
	close(fd);
}

static void peek(struct sandlock_call *c, int number)
{
	int fd = sandlock_call_get_fd(c, number);
	char text[256];
	ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);

	if (fd < 0)
		printf("peek error %d\n", fd);
	else
		printf("peek %.*s\n", (int)n, text);
	close(fd);
}

static int process_fd = -1;

static void print_ended(int patience_ms)
{
	struct pollfd p = { .fd = process_fd, .events = POLLIN };

	printf("ended %d\n", poll(&p, 1, patience_ms));
}

static void watch_process(struct sandlock_call *c)
{
	process_fd = sandlock_call_open_process(c);
	if (process_fd < 0)
		printf("no process: %d\n", process_fd);
	else
		print_ended(0);
}

/* What a handler does at the end; the step's name comes without its value. */
static int conclude(struct sandlock_call *c, const char *step, const char *arg,
		    struct sandlock_action *ret)
{
	if (strcmp(step, "continue") == 0) {
		ret->kind = SANDLOCK_ACTION_CONTINUE;
	} else if (strcmp(step, "errno") == 0) {
		ret->kind = SANDLOCK_ACTION_ERRNO;
		ret->error = atoi(arg);
	} else if (strcmp(step, "return") == 0) {
		ret->kind = SANDLOCK_ACTION_RETURN;
		ret->value = atoll(arg);
	} else if (strcmp(step, "open") == 0) {
		ret->kind = SANDLOCK_ACTION_FD;
		ret->fd = open(arg, O_RDONLY | O_CLOEXEC);
	} else if (strcmp(step, "bytes") == 0) {
		return sandlock_action_bytes(arg, strlen(arg), ret, NULL);
	} else if (strcmp(step, "hold") == 0) {
		ret->kind = SANDLOCK_ACTION_HOLD;
	} else if (strcmp(step, "kill") == 0) {
		ret->kind = SANDLOCK_ACTION_KILL;
		ret->signal = atoi(arg);
	} else if (strcmp(step, "keep") == 0) {
		kept = c;
		return SANDLOCK_HANDLER_LATER;
	} else if (strcmp(step, "drop") == 0) {
		sandlock_call_free(c);
		return SANDLOCK_HANDLER_LATER;
	} else if (strcmp(step, "twice") == 0) {
		ret->kind = SANDLOCK_ACTION_ERRNO;
		ret->error = atoi(arg);
		printf("first %d\n", sandlock_call_answer(c, ret));
		ret->error = 1;
		printf("second %d\n", sandlock_call_answer(c, ret));
	} else if (strcmp(step, "none") != 0) {
		return -1;
	}
	return 0;
}

struct later {
	struct handler *h;
	struct sandlock_call *c;
	char *steps;
	long ms;
};

static int take_steps(struct handler *h, struct sandlock_call *c, char *steps,
		      struct sandlock_action *ret);

static void *go_on_later(void *data)
{
	struct later *l = data;
	struct sandlock_action a = { .fd = -1 };
	int r;

	nap(l->ms);
	r = take_steps(l->h, l->c, l->steps, &a);
	if (r == 0)
		printf("answered %d\n", sandlock_call_answer(l->c, &a));
	if (r != SANDLOCK_HANDLER_LATER)
		sandlock_call_free(l->c);
	free(l->steps);
	free(l);
	atomic_fetch_sub(&late, 1);
	return NULL;
}

static int do_later(struct handler *h, struct sandlock_call *c, long ms,
		    const char *steps)
{
	struct later *l = malloc(sizeof(*l));
	pthread_t thread;

	*l = (struct later){ h, c, strdup(steps ? steps : ""), ms };
	atomic_fetch_add(&late, 1);
	pthread_create(&thread, NULL, go_on_later, l);
	pthread_detach(thread);
	return SANDLOCK_HANDLER_LATER;
}

static int take_steps(struct handler *h, struct sandlock_call *c, char *steps,
		      struct sandlock_action *ret)
{
	char *rest = NULL;

	for (char *s = strtok_r(steps, "+", &rest); s;
	     s = strtok_r(NULL, "+", &rest)) {
		char *arg = strchr(s, ':');

		if (arg)
			*arg++ = '\0';
		if (strcmp(s, "print") == 0)
			printf("call %s in %d\n", h->name, h->i);
		else if (strcmp(s, "path") == 0)
			print_path(c, atoi(arg));
		else if (strcmp(s, "port") == 0)
			print_port(c,
				   sandlock_call_get_info(c)->args[atoi(arg)]);
		else if (strcmp(s, "mport") == 0)
			print_message_port(c, atoi(arg));
		else if (strcmp(s, "ends") == 0)
			watch_process(c);
		else if (strcmp(s, "data") == 0)
			print_data(c,
				   sandlock_call_get_info(c)->args[atoi(arg)],
				   sandlock_call_get_info(c)
					   ->args[atoi(strchr(arg, ':') + 1)]);
		else if (strcmp(s, "mdata") == 0)
			print_message_data(c, atoi(arg));
		else if (strcmp(s, "await") == 0)
			await(arg);
		else if (strcmp(s, "poke") == 0)
			poke(c, arg);
		else if (strcmp(s, "flood") == 0)
			flood(c, atoi(arg));
		else if (strcmp(s, "sleep") == 0)
			nap(atol(arg));
		else if (strcmp(s, "later") == 0)
			return do_later(h, c, atol(arg), rest);
		else if (strcmp(s, "wait") == 0)
			while (!go)
				nap(1);
		else if (strcmp(s, "until") == 0)
			wait_until(arg);
		else if (strcmp(s, "fd") == 0)
			give_fd(c, arg);
		else if (strcmp(s, "peek") == 0)
			peek(c, atoi(arg));
		else if (strcmp(s, "cancelled") == 0)
			printf("cancelled %d\n", sandlock_call_is_cancelled(c));
		else
			return conclude(c, s, arg, ret);
	}
	return -1;
}

static int handle(void *data, struct sandlock_call *c,
		  struct sandlock_action *ret)
{
	struct handler *h = data;
	char *steps;
	int r;

	if (h->freed || h->is_over)
		printf("called too late\n");
	h->called++;
	steps = strdup(h->steps);
	r = take_steps(h, c, steps, ret);
	free(steps);
	if (h->freed)
		printf("freed too early\n");
	h->ended++;
	return r;
}

static void count_free(void *data)
{
	struct handler *h = data;

	h->freed++;
}

static void add_handler(char *text)
{
	static const char *const names[] = { "kill", "eperm", "continue",
					     "eio" };
	struct handler *h = &handlers[n_handlers];
	char *slash;

	h->i = n_handlers++;
	h->steps = strchr(text, '=');
	*h->steps++ = '\0';
	h->name = text;
	slash = strchr(text, '/');
	if (slash)
		*slash++ = '\0';
	for (int i = 0; slash && i < 4; i++)
		if (strcmp(slash, names[i]) == 0)
			h->on_exception = (enum sandlock_exception)i;
}

static int allow(void *data, const struct sandlock_event *e,
		 struct sandlock_context *ctx)
{
	(void)ctx;
	(void)e;
	++*(int *)data;
	return SANDLOCK_VERDICT_ALLOW;
}

static int set_up(struct sandlock_sandbox *s, bool with_policy,
		  struct sandlock_error *err)
{
	static int asked;
	int r = with_policy ? sandlock_sandbox_set_policy(s, allow, &asked,
							  NULL, err)
			    : 0;

	for (int i = 0; r == 0 && i < n_handlers; i++) {
		struct handler *h = &handlers[i];
		char *end;
		long nr = strtol(h->name, &end, 10);
		const struct sandlock_handler x = {
			.syscall = *end ? h->name : NULL,
			.nr = (int)nr,
			.fn = handle,
			.data = h,
			.free_fn = count_free,
			.on_exception = h->on_exception,
		};

		r = sandlock_sandbox_add_handler(s, &x, err);
	}
	return r;
}

static void print_end(int r, const struct sandlock_report *report,
		      const struct sandlock_error *err)
{
	if (r < 0)
		printf("error: %s (%s)\n", err->msg, err->hint);
	else if (report->result.exit_kind == SANDLOCK_EXIT_SIGNAL)
		printf("signal %d\n", report->result.exit_value);
	else
		printf("exit %d\n", report->result.exit_value);
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void read_line(void)
{
	char line[64];

	(void)!fgets(line, sizeof(line), stdin);
}

static void *say_go(void *data)
{
	nap(*(int *)data);
	go = true;
	return NULL;
}

static void print_running(const char *when)
{
	printf("%s: %d began, %d run, freed %d\n", when, handlers[0].called,
	       handlers[0].called - handlers[0].ended, handlers[0].freed);
}

/* The free has to wait for what runs. */
static void free_it(struct sandlock_sandbox *s, int ms)
{
	pthread_t thread;

	read_line();
	print_running("before the free");
	pthread_create(&thread, NULL, say_go, &ms);
	sandlock_sandbox_free(s);
	print_running("after the free");
	pthread_join(thread, NULL);
	exit(0);
}

static int run(struct sandlock_sandbox *s, struct sandlock_launch *l,
	       int wait_ms, int free_ms, const struct sandlock_report **ret,
	       struct sandlock_error *err)
{
	int r = sandlock_sandbox_create(s, l, err);
	long long begin;

	if (r == 0)
		r = sandlock_sandbox_start(s, err);
	if (r == 0 && free_ms)
		free_it(s, free_ms);
	if (r == 0 && wait_ms) {
		read_line();
		begin = now_ms();
		printf("waited %d\n",
		       sandlock_sandbox_wait(s, wait_ms, ret, err));
		printf("late by %lld ms\n", now_ms() - begin - wait_ms);
		print_running("before the end");
		go = true;
	}
	r = r < 0 ? r : sandlock_sandbox_wait(s, -1, ret, err);
	print_running("at the end");
	return r;
}

int main(int argc, char **argv)
{
	struct sandlock_env env = { .root = getenv("SANDLOCK_ROOT"),
				    .store = getenv("SANDLOCK_STORE"),
				    .program = getenv("SANDLOCK_PROGRAM") };
	struct sandlock_request *q = sandlock_request_new();
	const struct sandlock_report *report = NULL;
	struct sandlock_sandbox *s = NULL;
	struct sandlock_error err = { 0 };
	struct sandlock_launch l = { .argv = NULL };
	unsigned int threads = 0;
	bool with_policy = false;
	int i, r = 0, timeout_ms = 0, wait_ms = 0, free_ms = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sandlock_request_set(q, "config.branch", "false", "test", &err);
	if (getenv("BUNDLE"))
		sandlock_request_set(q, "program.bundle", getenv("BUNDLE"),
				     "test", &err);
	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		char *value = strchr(argv[i], '=') + 1;

		if (strncmp(argv[i], "threads=", 8) == 0)
			threads = (unsigned int)atoi(value);
		else if (strncmp(argv[i], "timeout=", 8) == 0)
			timeout_ms = atoi(value);
		else if (strncmp(argv[i], "wait=", 5) == 0)
			wait_ms = atoi(value);
		else if (strncmp(argv[i], "policy=", 7) == 0)
			with_policy = true;
		else if (strncmp(argv[i], "free=", 5) == 0)
			free_ms = atoi(value);
		else if (strncmp(argv[i], "name=", 5) == 0 ||
			 memchr(argv[i], '.', (size_t)(value - argv[i]))) {
			value[-1] = '\0';
			if (sandlock_request_set(q, argv[i], value, "test",
						 &err) < 0) {
				printf("error: %s\n", err.msg);
				return 2;
			}
		} else {
			add_handler(argv[i]);
		}
	}
	l.argv = (const char *const *)argv + i + 1;
	r = sandlock_sandbox_new(&env, q, &s, &err);
	if (r == 0)
		r = set_up(s, with_policy, &err);
	if (r == 0 && (threads || timeout_ms))
		r = sandlock_sandbox_limit_handlers(s, threads,
						    (uint64_t)timeout_ms, &err);
	if (r == 0)
		r = run(s, &l, wait_ms, free_ms, &report, &err);
	print_end(r, report, &err);
	for (i = 0; i < n_handlers; i++)
		handlers[i].is_over = true;
	printf("freed before %d\n", handlers[0].freed);
	sandlock_sandbox_free(s);
	printf("freed after %d\n", handlers[0].freed);
	printf("called %d\n", handlers[0].called);
	if (kept)
		printf("kept: cancelled %d\n",
		       sandlock_call_is_cancelled(kept));
	sandlock_call_free(kept);
	while (late)
		nap(1);
	if (process_fd >= 0)
		print_ended(60 * 1000);
	sandlock_request_free(q);
	return r < 0;
}
