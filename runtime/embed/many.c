/* Several sandboxes that run at the same time: pipelines, and what gathers. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "embed/handle.h"
#include "spec/request.h"

#define GATHER_VARIABLE "_SANDLOCK_GATHER"
/* Somebody else may read, or calls back may run: looked at all the same. */
enum { GLANCE_MS = 100, FDS = 3 };

static void watch(struct sandlock_sandbox *s, struct pollfd p[FDS])
{
	const struct spawned *x = &s->flight.process;

	(void)pthread_mutex_lock(&s->lock);
	p[0] = (struct pollfd){ .fd = x->sock, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = x->stdio[1], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = x->stdio[2], .events = POLLIN };
	(void)pthread_mutex_unlock(&s->lock);
}

/* How many still run; those have their fds in @p. */
static size_t look(struct sandlock_sandbox *const *v, size_t n,
		   struct pollfd *p)
{
	const struct sandlock_report *r;
	size_t running = 0;

	for (size_t i = 0; i < n; i++)
		if (sandlock_sandbox_wait(v[i], 0, &r, NULL) == -ETIMEDOUT)
			watch(v[i], p + FDS * running++);
	return running;
}

API int sandlock_wait_all(struct sandlock_sandbox *const *v, size_t n,
			  int timeout_ms, struct sandlock_error *err)
{
	int64_t end = timeout_ms < 0 ? INT64_MAX : clock_now_ms() + timeout_ms;
	auto_free struct pollfd *p = calloc(FDS * n + 1, sizeof(*p));
	struct error e = ERROR_INIT;
	size_t running;

	if (!p)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "wait"), &e,
				  err);
	while ((running = look(v, n, p)) > 0) {
		int64_t left = end - clock_now_ms();

		if (left <= 0)
			return api_result(error_say(&e, ERR_TIMEOUT, ETIMEDOUT,
						    "%zu of %zu still run "
						    "after %d ms",
						    running, n, timeout_ms),
					  &e, err);
		(void)poll(p, FDS * running,
			   left < GLANCE_MS ? (int)left : GLANCE_MS);
	}
	return api_result(0, &e, err);
}

/* All are created before one is started, so that none starts in vain. */
static int start_all(struct sandlock_sandbox *const *v,
		     struct sandlock_launch *l, size_t n,
		     struct sandlock_error *err)
{
	size_t created = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		r = sandlock_sandbox_create(v[i], &l[i], err);
		created += r == 0;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = sandlock_sandbox_start(v[i], err);
	for (size_t i = 0; r < 0 && i < created; i++)
		handle_end(v[i]);
	return r;
}

struct pipes {
	int (*fds)[2];
	size_t n;
};

static void pipes_done(struct pipes *p)
{
	for (size_t i = 0; i < p->n; i++) {
		(void)close(p->fds[i][0]);
		(void)close(p->fds[i][1]);
	}
	free(p->fds);
}

static int pipes_open(struct pipes *p, size_t n, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;

	p->fds = calloc(n + 1, sizeof(*p->fds));
	if (!p->fds)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "pipes"),
				  &e, err);
	for (; p->n < n; p->n++)
		if (pipe2(p->fds[p->n], O_CLOEXEC) < 0)
			return api_result(
				error_set(&e, ERR_SYSTEM, errno, "pipes"), &e,
				err);
	return 0;
}

static struct sandlock_stdio given(int fd)
{
	return (struct sandlock_stdio){ SANDLOCK_STDIO_FD, fd };
}

API int sandlock_pipeline_start(struct sandlock_sandbox *const *v,
				struct sandlock_launch *l, size_t n,
				struct sandlock_error *err)
{
	auto_(pipes) struct pipes p = { .n = 0 };
	struct error e = ERROR_INIT;
	int r;

	if (!n)
		return api_result(error_say(&e, ERR_USAGE, EINVAL,
					    "there is nothing to start: the "
					    "pipeline is empty"),
				  &e, err);
	r = pipes_open(&p, n - 1, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i + 1 < n; i++) {
		l[i].out = given(p.fds[i][1]);
		l[i + 1].in = given(p.fds[i][0]);
	}
	return start_all(v, l, n, err);
}

/* The variable, and which fds of the consumer are which pipes. */
static int describe(const struct pipes *p, const char *const *names,
		    struct buf *ret, int *fds)
{
	buf_add_str(ret, GATHER_VARIABLE "=");
	for (size_t i = 0; i < p->n; i++) {
		bool last = i + 1 == p->n;

		buf_printf(ret, "%s%s:%d", i ? "," : "", names[i],
			   last ? 0 : 3 + (int)i);
		if (!last)
			fds[i] = p->fds[i][0];
	}
	return buf_failed(ret) ? -ENOMEM : 0;
}

/* They stand between commas and colons, and tell the inputs apart. */
static int check_names(const char *const *names, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		const char *name = names ? names[i] : NULL;

		if (!name || !*name || strpbrk(name, ",:"))
			return error_say(err, ERR_USAGE, EINVAL,
					 "'%s' is no name of an input",
					 name ? name : "");
		for (size_t k = 0; k < i; k++)
			if (strcmp(names[k], name) == 0)
				return error_say(err, ERR_USAGE, EINVAL,
						 "there are two inputs '%s'",
						 name);
	}
	return 0;
}

/* It takes the place of what an earlier run of the consumer had. */
static int set_variable(struct sandlock_sandbox *s, const char *text)
{
	int r;

	handle_begin(s);
	r = request_set(s->request, "program.env", text, GATHER_VARIABLE, NULL);
	handle_finish(s);
	return r;
}

API int sandlock_gather_start(struct sandlock_sandbox *const *v,
			      struct sandlock_launch *l,
			      const char *const *names, size_t n,
			      struct sandlock_error *err)
{
	auto_(pipes) struct pipes p = { .n = 0 };
	auto_(buf) struct buf said = BUF_INIT;
	auto_free int *fds = calloc(n + 1, sizeof(*fds));
	struct error e = ERROR_INIT;
	int r;

	if (n < 2 || l[n - 1].n_fds)
		return api_result(error_say(&e, ERR_USAGE, EINVAL,
					    "somebody gathers from others, and "
					    "has no fds of his own"),
				  &e, err);
	if (check_names(names, n - 1, &e) < 0)
		return api_result(error_code(&e), &e, err);
	r = pipes_open(&p, n - 1, err);
	if (r < 0)
		return r;
	if (!fds || describe(&p, names, &said, fds) < 0 ||
	    set_variable(v[n - 1], buf_str(&said)) < 0)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "gather"),
				  &e, err);
	for (size_t i = 0; i + 1 < n; i++)
		l[i].out = given(p.fds[i][1]);
	l[n - 1].in = given(p.fds[n - 2][0]);
	l[n - 1].fds = fds;
	l[n - 1].n_fds = n - 2;
	r = start_all(v, l, n, err);
	l[n - 1].fds = NULL;
	l[n - 1].n_fds = 0;
	return r;
}
