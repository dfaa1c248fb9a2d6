#include "policy/event.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/path.h"

const char *event_category_name(enum event_category c)
{
	switch (c) {
	case EVENT_FILE:
		return "file";
	case EVENT_NETWORK:
		return "network";
	case EVENT_PROCESS:
		return "process";
	case EVENT_MEMORY:
		return "memory";
	}
	return "file";
}

static size_t size_of(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

/* Copies @n bytes to *@at and goes on behind them. */
static char *put(char **at, const char *from, size_t n)
{
	char *to = *at;

	if (!from)
		return NULL;
	memcpy(to, from, n);
	*at += n;
	return to;
}

/* In one piece. */
struct event *event_dup(const struct event *e)
{
	size_t program = size_of(e->program), path = size_of(e->path);
	size_t host = size_of(e->host), by = size_of(e->interpreter);
	struct event *d =
		malloc(sizeof(*d) + program + path + by + host + e->argv_len);
	char *at;

	if (!d)
		return NULL;
	at = (char *)(d + 1);
	*d = *e;
	d->program = put(&at, e->program, program);
	d->path = put(&at, e->path, path);
	d->interpreter = put(&at, e->interpreter, by);
	d->host = put(&at, e->host, host);
	d->argv = put(&at, e->argv, e->argv_len);
	return d;
}

/* With its length, so that no two requests feed the same bytes. */
static void add_part(SHA2_CTX *sha, const void *data, size_t len)
{
	uint64_t n = len;

	SHA256Update(sha, (const uint8_t *)&n, sizeof(n));
	SHA256Update(sha, data, len);
}

static void add_string(SHA2_CTX *sha, const char *s)
{
	add_part(sha, s ? s : "", s ? strlen(s) + 1 : 0);
}

void event_digest(const struct event *e, char ret[EVENT_DIGEST_LEN + 1])
{
	const unsigned char more[] = { (unsigned char)e->category,
				       (unsigned char)e->writes,
				       (unsigned char)e->denied,
				       (unsigned char)(e->port >> 8),
				       (unsigned char)e->port };
	SHA2_CTX sha;

	SHA256Init(&sha);
	add_string(&sha, e->syscall);
	add_string(&sha, e->program);
	add_string(&sha, e->path);
	add_string(&sha, e->interpreter);
	add_string(&sha, e->host);
	add_string(&sha, e->protocol);
	add_part(&sha, more, sizeof(more));
	add_part(&sha, e->argv ? e->argv : "", e->argv_len);
	(void)SHA256End(&sha, ret);
}

static bool is_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool event_is_alike(const struct event *a, const struct event *b)
{
	return a->category == b->category && a->writes == b->writes &&
	       a->denied == b->denied && a->port == b->port &&
	       is_equal(a->syscall, b->syscall) &&
	       is_equal(a->program, b->program) && is_equal(a->path, b->path) &&
	       is_equal(a->interpreter, b->interpreter) &&
	       is_equal(a->host, b->host) &&
	       is_equal(a->protocol, b->protocol) &&
	       a->argv_len == b->argv_len &&
	       (!a->argv_len || memcmp(a->argv, b->argv, a->argv_len) == 0);
}

/* The words with blanks between them, up to @max bytes. */
static bool add_words(const struct event *e, size_t max, struct buf *b)
{
	size_t at = 0, begin = b->len;

	while (at < e->argv_len) {
		const char *word = e->argv + at;
		size_t len = strnlen(word, e->argv_len - at);
		size_t used = b->len - begin;
		size_t room = used < max ? max - used : 0;

		if (at)
			buf_add_char(b, ' ');
		if (len > room) {
			text_escape(b, word, room);
			buf_add_str(b, "...");
			return true;
		}
		text_escape(b, word, len);
		at += len + 1;
	}
	return false;
}

/*
 * A name in quotes: one within it would seem to be its end, and what follows
 * our words.
 */
static bool add_name(const char *s, size_t max, struct buf *b)
{
	size_t len = s ? strlen(s) : 0, left = len < max ? len : max;

	buf_add_char(b, '\'');
	while (left > 0) {
		const char *quote = memchr(s, '\'', left);
		size_t n = quote ? (size_t)(quote - s) : left;

		text_escape(b, s, n);
		if (quote)
			buf_printf(b, "\\x%02x", '\'');
		n += quote != NULL;
		s += n;
		left -= n;
	}
	if (len > max)
		buf_add_str(b, "...");
	buf_add_char(b, '\'');
	return len > max;
}

static bool describe_process(const struct event *e, size_t max, struct buf *b)
{
	bool cut;

	buf_add_str(b, "run ");
	cut = add_name(e->path, max, b);
	if (e->interpreter) {
		buf_add_str(b, " by ");
		cut = add_name(e->interpreter, max, b) || cut;
	}
	if (!e->argv_len)
		return cut;
	buf_add_str(b, " as '");
	cut = add_words(e, max, b) || cut;
	buf_add_char(b, '\'');
	return cut;
}

static bool describe_network(const struct event *e, size_t max, struct buf *b)
{
	bool is_bind = e->syscall && strcmp(e->syscall, "bind") == 0;
	bool is_send = e->syscall && strncmp(e->syscall, "send", 4) == 0;

	buf_add_str(b,
		    is_bind ? "bind " : (is_send ? "send to " : "connect to "));
	if (!e->host)
		return add_name(e->path, max, b);
	buf_printf(b, strchr(e->host, ':') ? "[%s]:%u" : "%s:%u", e->host,
		   (unsigned int)e->port);
	if (e->protocol)
		buf_printf(b, " (%s)", e->protocol);
	return false;
}

void event_describe(const struct event *e, size_t max, struct buf *ret,
		    bool *ret_cut)
{
	bool cut = false;

	switch (e->category) {
	case EVENT_PROCESS:
		cut = describe_process(e, max, ret);
		break;
	case EVENT_NETWORK:
		cut = describe_network(e, max, ret);
		break;
	case EVENT_FILE:
	case EVENT_MEMORY:
		buf_add_str(ret, e->writes ? "write " : "read ");
		cut = add_name(e->path, max, ret);
		break;
	}
	if (ret_cut)
		*ret_cut = cut;
}

static void add_bytes(struct json_out *o, const char *key, const char *s)
{
	if (!s)
		return;
	json_out_key(o, key);
	json_out_bytes(o, s, strnlen(s, EVENT_TEXT_MAX));
}

static bool is_long(const char *s)
{
	return s && strlen(s) > EVENT_TEXT_MAX;
}

static void add_argv(const struct event *e, struct json_out *o)
{
	size_t at = 0;

	json_out_key(o, "argv");
	json_out_array(o);
	while (at < e->argv_len) {
		size_t len = strnlen(e->argv + at, e->argv_len - at);

		if (at + len > EVENT_ARGV_MAX)
			break;
		json_out_bytes(o, e->argv + at, len);
		at += len + 1;
	}
	json_out_array_end(o);
	if (at < e->argv_len)
		json_out_bool_member(o, "argv_cut", true);
}

void event_to_json(const struct event *e, struct json_out *o)
{
	json_out_str_member(o, "syscall", e->syscall);
	json_out_str_member(o, "category", event_category_name(e->category));
	json_out_int_member(o, "pid", e->pid);
	json_out_int_member(o, "parent_pid", e->parent_pid);
	add_bytes(o, "program", e->program);
	add_bytes(o, "path", e->path);
	add_bytes(o, "interpreter", e->interpreter);
	if (is_long(e->program) || is_long(e->path) || is_long(e->interpreter))
		json_out_bool_member(o, "path_cut", true);
	if (e->category == EVENT_FILE)
		json_out_bool_member(o, "writes", e->writes);
	if (e->host) {
		json_out_str_member(o, "host", e->host);
		json_out_uint_member(o, "port", e->port);
	}
	if (e->protocol)
		json_out_str_member(o, "protocol", e->protocol);
	if (e->argv)
		add_argv(e, o);
	json_out_bool_member(o, "denied", e->denied);
}
