#include "branch/sink.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/internal.h"

enum {
	N_STRINGS = 6,
	NO_STRING = UINT32_MAX,
	FLUSH_BYTES = 32 * 1024,
	RECORD_MAX = 64 * 1024 * 1024,
};

/* In front of a record's strings. @pointers in the copy mean nothing. */
struct packed {
	struct change copy;
	uint32_t lens[N_STRINGS];
};

enum frame_type { FRAME_CHANGE, FRAME_RESULT };

struct frame {
	uint32_t len;
	uint32_t type;
};

static void list_strings(const struct change *c, const char *s[N_STRINGS])
{
	s[0] = c->path;
	s[1] = c->before.link_target;
	s[2] = c->after.link_target;
	s[3] = c->link_to;
	s[4] = c->xattrs;
	s[5] = c->conflict;
}

void change_pack(struct buf *b, const struct change *c)
{
	struct packed p = { .copy = *c };
	const char *s[N_STRINGS];

	list_strings(c, s);
	for (size_t i = 0; i < N_STRINGS; i++)
		p.lens[i] = s[i] ? (uint32_t)strlen(s[i]) : NO_STRING;
	buf_add(b, &p, sizeof(p));
	for (size_t i = 0; i < N_STRINGS; i++)
		if (s[i])
			buf_add(b, s[i], p.lens[i] + 1);
}

int change_unpack(const char *bytes, size_t len, struct change *ret)
{
	const char *s[N_STRINGS], *end = bytes + len;
	struct packed p;

	if (len < sizeof(p))
		return -EINVAL;
	memcpy(&p, bytes, sizeof(p));
	bytes += sizeof(p);
	for (size_t i = 0; i < N_STRINGS; i++) {
		s[i] = NULL;
		if (p.lens[i] == NO_STRING)
			continue;
		if (p.lens[i] >= (size_t)(end - bytes) || bytes[p.lens[i]])
			return -EINVAL;
		s[i] = bytes;
		bytes += p.lens[i] + 1;
	}
	if (!s[0])
		return -EINVAL;
	*ret = p.copy;
	ret->path = s[0];
	ret->before.link_target = s[1];
	ret->after.link_target = s[2];
	ret->link_to = s[3];
	ret->xattrs = s[4];
	ret->conflict = s[5];
	return 0;
}

static int flush(struct sink *s)
{
	int r = buf_failed(&s->out)
			? -ENOMEM
			: fd_write_full(s->out_fd, s->out.data, s->out.len);

	buf_clear(&s->out);
	return r;
}

static void add_frame(struct sink *s, enum frame_type type, const void *data,
		      size_t len)
{
	struct frame f = { .len = (uint32_t)len, .type = type };

	buf_add(&s->out, &f, sizeof(f));
	buf_add(&s->out, data, len);
}

int sink_change(struct sink *s, const struct change *c)
{
	auto_(buf) struct buf record = BUF_INIT;

	if (s->out_fd < 0)
		return s->fn ? s->fn(s->data, c) : 0;
	change_pack(&record, c);
	if (buf_failed(&record))
		return -ENOMEM;
	add_frame(s, FRAME_CHANGE, record.data, record.len);
	return s->out.len >= FLUSH_BYTES ? flush(s) : 0;
}

struct run {
	sink_work *work;
	void *data;
	struct sink sink;
};

static int run_child(void *data, int out_fd, struct error *err)
{
	struct run *run = data;
	struct sink *s = &run->sink;
	int r, flushed;

	s->out_fd = out_fd;
	r = run->work(run->data, s, err);
	if (s->result)
		add_frame(s, FRAME_RESULT, s->result, s->result_size);
	flushed = flush(s);
	return r < 0 || flushed == 0 ? r : flushed;
}

/* Owns what it read; records lie in it one after the other. */
struct reader {
	char *data;
	size_t cap;
};

static void reader_done(struct reader *r)
{
	free(r->data);
}

static int read_body(struct reader *r, int fd, size_t len)
{
	ssize_t n;

	if (len > RECORD_MAX)
		return -EINVAL;
	if (len > r->cap) {
		char *grown = realloc(r->data, len);

		if (!grown)
			return -ENOMEM;
		r->data = grown;
		r->cap = len;
	}
	n = fd_read_full(fd, r->data, len);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EINVAL;
}

static int deliver(struct sink *s, const struct frame *f, const char *body)
{
	struct change c;
	int r;

	if (f->type == FRAME_RESULT && f->len == s->result_size) {
		memcpy(s->result, body, f->len);
		return 0;
	}
	r = change_unpack(body, f->len, &c);
	if (r < 0)
		return r;
	return s->fn ? s->fn(s->data, &c) : 0;
}

static int read_frames(void *data, int in_fd, struct error *err)
{
	auto_(reader) struct reader body = { .data = NULL };
	struct run *run = data;
	struct frame f;

	for (;;) {
		ssize_t n = fd_read_full(in_fd, &f, sizeof(f));
		int r;

		if (n == 0)
			return 0;
		r = n == sizeof(f) ? read_body(&body, in_fd, f.len)
		    : n < 0	   ? (int)n
				   : -EINVAL;
		if (r < 0)
			return error_set(err, ERR_SYSTEM, -r,
					 "cannot read from the helper");
		r = deliver(&run->sink, &f, body.data);
		if (r)
			return r;
	}
}

int sink_run(struct branch *b, sink_work *work, void *data, change_fn *fn,
	     void *fn_data, void *result, size_t size, struct error *err)
{
	struct run run = { .work = work,
			   .data = data,
			   .sink = { .fn = fn,
				     .data = fn_data,
				     .out_fd = -1,
				     .result = result,
				     .result_size = size } };
	int r;

	if (!branch_needs_userns(&b->meta))
		return work(data, &run.sink, err);
	r = branch_enter(b, run_child, read_frames, &run, err);
	/* What the child recorded. */
	if (r == 0 && b->locked)
		r = branch_refresh(b, err);
	buf_done(&run.sink.out);
	return r;
}
