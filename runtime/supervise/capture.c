/* What a call is held to: supervise/handler.h, call_capture. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervise/internal.h"

struct piece {
	struct piece *next;
	uint64_t addr;
	size_t n;
	char data[];
};

struct captured {
	atomic_size_t *held; /* by all of a supervisor */
	size_t n_held;	     /* of it by this one */
	struct piece *first; /* the newest; of the same byte the oldest holds */
	int number, fd;	     /* a descriptor of the caller, and ours of it */
	uint64_t count;
	size_t bytes;
};

static struct captured *captured_of(struct call *c)
{
	if (c->captured)
		return c->captured;
	c->captured = calloc(1, sizeof(*c->captured));
	if (c->captured)
		*c->captured = (struct captured){ .held = &c->s->captured,
						  .number = -1,
						  .fd = -1 };
	return c->captured;
}

/* What is held for @v from now on: as much of @n as there is room for, but no
 * less than @least. */
static size_t hold(struct captured *v, size_t n, size_t least)
{
	size_t held = atomic_load(v->held), got;

	do {
		size_t left =
			held < CALL_CAPTURED_MAX ? CALL_CAPTURED_MAX - held : 0;

		if (left < least)
			left = least;
		got = n < left ? n : left;
	} while (!atomic_compare_exchange_weak(v->held, &held, held + got));
	v->n_held += got;
	return got;
}

static int keep(struct call *c, uint64_t addr, size_t n)
{
	struct captured *v = c->captured;
	auto_free struct piece *p = malloc(sizeof(*p) + n);
	int r;

	if (!p)
		return -ENOMEM;
	r = call_read(c, addr, p->data, n);
	if (r < 0)
		return r;
	p->addr = addr;
	p->n = n;
	p->next = v->first;
	v->first = take_ptr(&p);
	return 0;
}

int call_capture(struct call *c, uint64_t addr, size_t n)
{
	struct captured *v = captured_of(c);

	if (!v)
		return -ENOMEM;
	(void)hold(v, n, n);
	return keep(c, addr, n);
}

int call_capture_part(struct call *c, uint64_t addr, size_t n, size_t least,
		      size_t *ret)
{
	struct captured *v = captured_of(c);
	size_t got;
	int r;

	if (!v)
		return -ENOMEM;
	got = hold(v, n, least);
	r = got ? keep(c, addr, got) : 0;
	if (r == 0)
		*ret = got;
	return r;
}

int call_capture_fd(struct call *c, int fd)
{
	struct captured *v = captured_of(c);
	int got = v ? call_get_fd(c, fd) : -ENOMEM;

	if (got < 0)
		return got;
	cleanup_close(&v->fd);
	v->fd = got;
	v->number = fd;
	return 0;
}

bool call_has_captured(const struct call *c)
{
	return c->captured;
}

void call_capture_limit(struct call *c, uint64_t count, size_t bytes)
{
	if (!c->captured)
		return;
	c->captured->count = count;
	c->captured->bytes = bytes;
}

uint64_t call_captured_count(const struct call *c)
{
	return c->captured ? c->captured->count : 0;
}

size_t call_captured_bytes(const struct call *c)
{
	return c->captured ? c->captured->bytes : 0;
}

void captured_show(const struct captured *v, uint64_t addr, void *data,
		   size_t n)
{
	char *at = data;

	for (const struct piece *p = v ? v->first : NULL; p; p = p->next) {
		uint64_t from = p->addr > addr ? p->addr : addr;
		uint64_t p_end = p->addr + p->n, end = addr + n;

		if (p_end < end)
			end = p_end;
		if (from < end)
			memcpy(at + (from - addr), p->data + (from - p->addr),
			       end - from);
	}
}

int captured_fd(const struct captured *v, int fd)
{
	return v && v->fd >= 0 && v->number == fd ? v->fd : -1;
}

void captured_drop(struct captured **at)
{
	struct captured *v = take_ptr(at);
	struct piece *p;

	if (!v)
		return;
	while ((p = v->first)) {
		v->first = p->next;
		free(p);
	}
	(void)atomic_fetch_sub(v->held, v->n_held);
	cleanup_close(&v->fd);
	free(v);
}
