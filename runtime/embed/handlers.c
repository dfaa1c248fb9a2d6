/* Handlers of an embedder: which there are, and the actions they take. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/quiet_thread.h"
#include "embed/calls.h"
#include "embed/handle.h"
#include "policy/net.h"
#include "policy/syscalls.h"
#include "spec/request.h"

enum { HANDLERS_MAX = 256, THREADS = 64, THREADS_MAX = 1024 };

struct handlers {
	struct sandlock_sandbox *sandbox;
	struct sandlock_handler *rows; /* each has a name, of its own */
	size_t n;
	unsigned int threads;
	uint64_t timeout_ms;
	struct calls *calls; /* of this run */
	pthread_t thread;
};

/* ---------------------------------------------------------------- guest -- */

static void *serve(void *data)
{
	struct handlers *h = data;

	calls_serve(h->calls, h->sandbox);
	flight_guest_done(h->sandbox);
	return NULL;
}

static int begin(void *data, int sock, struct error *err)
{
	struct handlers *h = data;
	int r;

	h->calls = calls_new(sock, h->rows, h->n, h->threads);
	if (!h->calls)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	r = quiet_thread_make_deep(&h->thread, serve, h);
	if (r < 0) {
		calls_put(take_ptr(&h->calls));
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot make a thread for handlers");
	}
	return 0;
}

static void end(void *data)
{
	struct handlers *h = data;

	(void)pthread_join(h->thread, NULL);
	calls_put(take_ptr(&h->calls));
}

static void free_handlers(void *data)
{
	struct handlers *h = data;

	for (size_t i = 0; i < h->n; i++) {
		if (h->rows[i].free_fn)
			h->rows[i].free_fn(h->rows[i].data);
		free((char *)h->rows[i].syscall);
	}
	free(h->rows);
	free(h);
}

void handlers_each_setting(const struct sandlock_sandbox *s,
			   void (*fn)(void *data, const char *key,
				      const char *value),
			   void *data)
{
	const struct handlers *h = s->guests[GUEST_HANDLERS].data;
	char text[32];

	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++)
		fn(data, SETTING_HANDLER, h->rows[i].syscall);
	(void)snprintf(text, sizeof(text), "%llu",
		       (unsigned long long)h->timeout_ms);
	fn(data, SETTING_HANDLED_MS, text);
}

/* ------------------------------------------------------------------ API -- */

/* Those of @s; an empty set has no guest. */
static int get_handlers(struct sandlock_sandbox *s, struct handlers **ret,
			struct error *err)
{
	struct guest *g = &s->guests[GUEST_HANDLERS];
	struct handlers *h = g->data;

	if (s->state != SANDLOCK_SANDBOX_NEW)
		return error_say(err, ERR_STATE, EBUSY,
				 "handlers are set before the first run");
	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
		h->sandbox = s;
		h->threads = THREADS;
		*g = (struct guest){ .free = free_handlers, .data = h };
	}
	*ret = h;
	return 0;
}

static int name_of(const struct sandlock_handler *h, char **ret,
		   struct error *err)
{
	*ret = h->syscall ? strdup(h->syscall) : policy_syscall_name(h->nr);
	if (*ret)
		return 0;
	if (h->syscall)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	return error_say(err, ERR_USAGE, EINVAL,
			 "no system call of this machine has number %d", h->nr);
}

static int add(struct sandlock_sandbox *s, const struct sandlock_handler *from,
	       struct error *err)
{
	auto_free char *name = NULL;
	struct sandlock_handler *v;
	struct handlers *h;
	int r = get_handlers(s, &h, err);

	if (r == 0)
		r = name_of(from, &name, err);
	if (r == 0)
		r = policy_check_handled(s->request, net_is_shared(s->request),
					 name, err);
	if (r < 0)
		return r;
	if (h->n == HANDLERS_MAX)
		return error_say(err, ERR_USAGE, E2BIG, "more than %d handlers",
				 HANDLERS_MAX);
	v = realloc(h->rows, (h->n + 1) * sizeof(*v));
	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	h->rows = v;
	v[h->n] = *from;
	v[h->n++].syscall = take_ptr(&name);
	s->guests[GUEST_HANDLERS].begin = begin;
	s->guests[GUEST_HANDLERS].end = end;
	return 0;
}

API int sandlock_sandbox_add_handler(struct sandlock_sandbox *s,
				     const struct sandlock_handler *h,
				     struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r;

	r = handle_enter(s, &e);
	if (r == 0) {
		r = add(s, h, &e);
		handle_finish(s);
	}
	if (r < 0 && h->free_fn)
		h->free_fn(h->data);
	return api_result(r, &e, err);
}

API int sandlock_sandbox_limit_handlers(struct sandlock_sandbox *s,
					unsigned int threads,
					uint64_t timeout_ms,
					struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	struct handlers *h;
	int r;

	r = handle_enter(s, &e);
	if (r < 0)
		return api_result(r, &e, err);
	r = get_handlers(s, &h, &e);
	if (r == 0 && (threads > THREADS_MAX || timeout_ms > UINT32_MAX))
		r = error_say(&e, ERR_USAGE, EINVAL,
			      "more than %d threads, or too long a time",
			      THREADS_MAX);
	if (r == 0) {
		h->threads = threads ? threads : THREADS;
		h->timeout_ms = timeout_ms;
	}
	handle_finish(s);
	return api_result(r, &e, err);
}

API int sandlock_syscall_number(const char *name)
{
	return policy_syscall_number(name);
}

API char *sandlock_syscall_name(int nr)
{
	return policy_syscall_name(nr);
}

/* Read from its beginning. */
static int make_file(const void *data, size_t n)
{
	auto_close int fd =
		memfd_create("sandlock-bytes", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (fd_write_full(fd, data, n) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return -errno;
	return take_fd(&fd);
}

API int sandlock_action_bytes(const void *data, size_t n,
			      struct sandlock_action *ret,
			      struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int fd = make_file(data, n);

	if (fd < 0)
		return api_result(error_set(&e, ERR_SYSTEM, -fd,
					    "cannot make a file of %zu bytes",
					    n),
				  &e, err);
	*ret = (struct sandlock_action){ .kind = SANDLOCK_ACTION_FD,
					 .fd = fd,
					 .close_on_exec = true };
	return 0;
}
