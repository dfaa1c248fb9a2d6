#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "policy/event.h"

enum { WRITES = 1, DENIED = 2, IS_CUT = 4, STARTS = 8 };

/* Then the texts: each a byte, 0 for none, and its bytes with a NUL. */
struct head {
	int32_t pid, parent_pid;
	uint32_t n_argv;
	uint16_t port;
	uint8_t category, flags;
};

static void add_text(const char *s, size_t n, struct buf *b)
{
	buf_add(b, s, n);
	buf_add_char(b, '\0');
}

static void add_optional(const char *s, struct buf *b)
{
	buf_add_char(b, s ? 1 : 0);
	if (s)
		add_text(s, strnlen(s, EVENT_TEXT_MAX), b);
}

static bool is_long(const char *s)
{
	return s && strnlen(s, EVENT_TEXT_MAX + 1) > EVENT_TEXT_MAX;
}

/* As many words as are shown; true if that is not all. */
static bool count_words(const struct event *e, uint32_t *ret)
{
	size_t at = 0;

	*ret = 0;
	while (at < e->argv_len) {
		size_t len = strnlen(e->argv + at, e->argv_len - at);

		if (at + len > EVENT_ARGV_MAX)
			return true;
		at += len + 1;
		++*ret;
	}
	return false;
}

void event_pack(const struct event *e, struct buf *b)
{
	struct head h = {
		.pid = e->pid,
		.parent_pid = e->parent_pid,
		.port = e->port,
		.category = (uint8_t)e->category,
		.flags = (uint8_t)((e->writes ? WRITES : 0) |
				   (e->denied ? DENIED : 0) |
				   (e->starts ? STARTS : 0)),
	};
	size_t at = 0;

	if (count_words(e, &h.n_argv) || is_long(e->program) ||
	    is_long(e->path) || is_long(e->interpreter))
		h.flags |= IS_CUT;
	buf_add(b, &h, sizeof(h));
	add_optional(e->syscall, b);
	add_optional(e->program, b);
	add_optional(e->path, b);
	add_optional(e->interpreter, b);
	add_optional(e->host, b);
	add_optional(e->protocol, b);
	for (uint32_t i = 0; i < h.n_argv; i++) {
		size_t len = strnlen(e->argv + at, e->argv_len - at);

		add_text(e->argv + at, len, b);
		at += len + 1;
	}
}

struct reader {
	const char *at, *end;
};

static const char *read_text(struct reader *r)
{
	const char *s = r->at;
	size_t n = strnlen(s, (size_t)(r->end - s));

	if (s + n == r->end)
		return NULL;
	r->at += n + 1;
	return s;
}

static bool read_optional(struct reader *r, const char **ret)
{
	*ret = NULL;
	if (r->at == r->end)
		return false;
	if (!*r->at++)
		return true;
	*ret = read_text(r);
	return *ret;
}

int event_unpack(const char *data, size_t n, struct event_view *ret)
{
	struct reader r = { data + sizeof(struct head), data + n };
	struct event_view v = { .syscall = NULL };
	struct head h;

	if (n < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (!read_optional(&r, &v.syscall) || !read_optional(&r, &v.program) ||
	    !read_optional(&r, &v.path) || !read_optional(&r, &v.interpreter) ||
	    !read_optional(&r, &v.host) || !read_optional(&r, &v.protocol) ||
	    h.n_argv > (size_t)(r.end - r.at))
		return -EBADMSG;
	v.argv = h.n_argv ? calloc(h.n_argv + 1, sizeof(*v.argv)) : NULL;
	if (h.n_argv && !v.argv)
		return -ENOMEM;
	for (; v.n_argv < h.n_argv; v.n_argv++) {
		v.argv[v.n_argv] = read_text(&r);
		if (!v.argv[v.n_argv]) {
			free(v.argv);
			return -EBADMSG;
		}
	}
	v.category = (enum event_category)h.category;
	v.pid = h.pid;
	v.parent_pid = h.parent_pid;
	v.port = h.port;
	v.writes = h.flags & WRITES;
	v.denied = h.flags & DENIED;
	v.is_cut = h.flags & IS_CUT;
	v.starts = h.flags & STARTS;
	*ret = v;
	return 0;
}

void event_view_done(struct event_view *v)
{
	free(v->argv);
	*v = (struct event_view){ .syscall = NULL };
}
