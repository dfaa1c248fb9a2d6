#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/utf8.h"

enum { OUT_DEPTH = 128 };

struct json_out {
	struct buf text;
	bool pretty;
	bool misused;	/* unbalanced, too deep, a key where none belongs */
	bool after_key; /* a key was written, its value was not */
	bool root_done;
	size_t depth;
	struct level {
		bool is_object;
		bool has_items;
	} levels[OUT_DEPTH];
};

struct json_out *json_out_new(bool pretty)
{
	struct json_out *o = calloc(1, sizeof(*o));

	if (o)
		o->pretty = pretty;
	return o;
}

void json_out_free(struct json_out *o)
{
	if (!o)
		return;
	buf_done(&o->text);
	free(o);
}

static void break_line(struct json_out *o)
{
	if (!o->pretty)
		return;
	buf_add_char(&o->text, '\n');
	for (size_t i = 0; i < o->depth; i++)
		buf_add_str(&o->text, "  ");
}

static void next_item(struct json_out *o, struct level *l)
{
	if (l->has_items)
		buf_add_char(&o->text, ',');
	l->has_items = true;
	break_line(o);
}

/* Writes what belongs in front of a value; false if none may stand here. */
static bool begin_value(struct json_out *o)
{
	struct level *l;

	if (!o || o->misused)
		return false;
	if (o->depth == 0) {
		o->misused = o->root_done;
		o->root_done = true;
		return !o->misused;
	}
	l = &o->levels[o->depth - 1];
	if (l->is_object) {
		o->misused = !o->after_key;
		o->after_key = false;
		return !o->misused;
	}
	next_item(o, l);
	return true;
}

static void open_level(struct json_out *o, bool is_object)
{
	if (!begin_value(o))
		return;
	if (o->depth == OUT_DEPTH) {
		o->misused = true;
		return;
	}
	o->levels[o->depth++] = (struct level){ .is_object = is_object };
	buf_add_char(&o->text, is_object ? '{' : '[');
}

static void close_level(struct json_out *o, bool is_object)
{
	const struct level *l;

	if (!o || o->misused)
		return;
	if (o->depth == 0 || o->after_key ||
	    o->levels[o->depth - 1].is_object != is_object) {
		o->misused = true;
		return;
	}
	l = &o->levels[--o->depth];
	if (l->has_items)
		break_line(o);
	buf_add_char(&o->text, is_object ? '}' : ']');
}

void json_out_object(struct json_out *o)
{
	open_level(o, true);
}

void json_out_object_end(struct json_out *o)
{
	close_level(o, true);
}

void json_out_array(struct json_out *o)
{
	open_level(o, false);
}

void json_out_array_end(struct json_out *o)
{
	close_level(o, false);
}

static void add_code_point(struct buf *b, uint32_t cp)
{
	if (cp < 0x10000) {
		buf_printf(b, "\\u%04" PRIx32, cp);
		return;
	}
	cp -= 0x10000;
	buf_printf(b, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + (cp >> 10),
		   0xdc00 + (cp & 0x3ff));
}

/* What utf8_is_hidden names is escaped, so that a terminal may show it. */
static void add_escaped(struct buf *b, uint32_t cp)
{
	switch (cp) {
	case '"':
		buf_add_str(b, "\\\"");
		break;
	case '\\':
		buf_add_str(b, "\\\\");
		break;
	case '\n':
		buf_add_str(b, "\\n");
		break;
	case '\t':
		buf_add_str(b, "\\t");
		break;
	default:
		add_code_point(b, cp);
	}
}

/* How much of @s is ASCII that stands for itself. */
static size_t plain_span(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' &&
	       s[i] != '\\')
		i++;
	return i;
}

static void add_plain(struct buf *b, const char *s, size_t n)
{
	char *at = buf_extend(b, n + 2);

	if (!at)
		return;
	at[0] = '"';
	memcpy(at + 1, s, n);
	at[n + 1] = '"';
}

static void add_string(struct buf *b, const char *s, size_t n)
{
	if (plain_span(s, n) == n) {
		add_plain(b, s, n);
		return;
	}
	buf_add_char(b, '"');
	while (n > 0) {
		size_t len = plain_span(s, n);
		uint32_t cp;

		if (len) {
			buf_add(b, s, len);
			s += len;
			n -= len;
			continue;
		}
		len = utf8_decode(s, n, &cp);
		if (len == 0) {
			buf_add_str(b, "\xef\xbf\xbd");
			len = 1;
		} else if (cp == '"' || cp == '\\' || utf8_is_hidden(cp)) {
			add_escaped(b, cp);
		} else {
			buf_add(b, s, len);
		}
		s += len;
		n -= len;
	}
	buf_add_char(b, '"');
}

void json_out_key(struct json_out *o, const char *key)
{
	struct level *l;

	if (!o || o->misused)
		return;
	l = o->depth > 0 ? &o->levels[o->depth - 1] : NULL;
	if (!l || !l->is_object || o->after_key) {
		o->misused = true;
		return;
	}
	next_item(o, l);
	add_string(&o->text, key, strlen(key));
	buf_add_str(&o->text, o->pretty ? ": " : ":");
	o->after_key = true;
}

void json_out_str(struct json_out *o, const char *s)
{
	if (!s)
		json_out_null(o);
	else if (begin_value(o))
		add_string(&o->text, s, strlen(s));
}

static void add_base64(struct buf *b, const char *s, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t v = (uint32_t)(unsigned char)s[i] << 16;

		if (left > 1)
			v |= (uint32_t)(unsigned char)s[i + 1] << 8;
		if (left > 2)
			v |= (unsigned char)s[i + 2];
		buf_add_char(b, digits[v >> 18]);
		buf_add_char(b, digits[v >> 12 & 63]);
		buf_add_char(b, left > 1 ? digits[v >> 6 & 63] : '=');
		buf_add_char(b, left > 2 ? digits[v & 63] : '=');
	}
}

void json_out_bytes(struct json_out *o, const char *s, size_t n)
{
	auto_(buf) struct buf b64 = BUF_INIT;
	auto_(buf) struct buf display = BUF_INIT;

	if (!o)
		return;
	if (!memchr(s, '\0', n) && utf8_is_valid(s, n)) {
		if (begin_value(o))
			add_string(&o->text, s, n);
		return;
	}
	add_base64(&b64, s, n);
	text_escape(&display, s, n);
	if (buf_failed(&b64) || buf_failed(&display))
		o->text.failed = true;
	json_out_object(o);
	json_out_str_member(o, "b64", buf_str(&b64));
	json_out_str_member(o, "display", buf_str(&display));
	json_out_object_end(o);
}

void json_out_int(struct json_out *o, int64_t v)
{
	if (!begin_value(o))
		return;
	if (v < 0)
		buf_add_char(&o->text, '-');
	buf_add_uint(&o->text, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void json_out_uint(struct json_out *o, uint64_t v)
{
	if (begin_value(o))
		buf_add_uint(&o->text, v);
}

void json_out_bool(struct json_out *o, bool v)
{
	if (begin_value(o))
		buf_add_str(&o->text, v ? "true" : "false");
}

void json_out_null(struct json_out *o)
{
	if (begin_value(o))
		buf_add_str(&o->text, "null");
}

/* Writes a scalar, or opens a container. */
static void begin_node(struct json_out *o, const struct json *v)
{
	switch (v->type) {
	case JSON_NULL:
		json_out_null(o);
		break;
	case JSON_BOOL:
		json_out_bool(o, v->boolean);
		break;
	case JSON_NUMBER:
		if (begin_value(o))
			buf_add_str(&o->text, v->text);
		break;
	case JSON_STRING:
		json_out_str(o, v->text);
		break;
	case JSON_ARRAY:
		json_out_array(o);
		break;
	case JSON_OBJECT:
		json_out_object(o);
		break;
	}
}

void json_out_value(struct json_out *o, const struct json *v)
{
	struct {
		const struct json *node;
		size_t next;
	} stack[OUT_DEPTH];
	size_t base, top = 0;

	if (!o)
		return;
	base = o->depth;
	begin_node(o, v);
	if (o->depth > base)
		stack[top++].node = v;
	if (top > 0)
		stack[0].next = 0;
	while (top > 0 && !o->misused) {
		const struct json *node = stack[top - 1].node;
		size_t i = stack[top - 1].next++;

		if (i == node->n) {
			close_level(o, node->type == JSON_OBJECT);
			top--;
			continue;
		}
		if (node->type == JSON_OBJECT)
			json_out_key(o, node->keys[i]);
		begin_node(o, &node->items[i]);
		if (o->depth == base + top + 1) {
			stack[top].node = &node->items[i];
			stack[top++].next = 0;
		}
	}
}

void json_out_str_member(struct json_out *o, const char *key, const char *s)
{
	json_out_key(o, key);
	json_out_str(o, s);
}

void json_out_int_member(struct json_out *o, const char *key, int64_t v)
{
	json_out_key(o, key);
	json_out_int(o, v);
}

void json_out_bytes_member(struct json_out *o, const char *key, const char *s)
{
	json_out_key(o, key);
	if (s)
		json_out_bytes(o, s, strlen(s));
	else
		json_out_null(o);
}

void json_out_uint_member(struct json_out *o, const char *key, uint64_t v)
{
	json_out_key(o, key);
	json_out_uint(o, v);
}

void json_out_bool_member(struct json_out *o, const char *key, bool v)
{
	json_out_key(o, key);
	json_out_bool(o, v);
}

int json_out_end(struct json_out *o, struct buf *b)
{
	if (!o)
		return -ENOMEM;
	if (o->misused || o->depth > 0 || !o->root_done)
		return -EINVAL;
	buf_add_char(&o->text, '\n');
	if (buf_failed(&o->text))
		return -ENOMEM;
	buf_add(b, o->text.data, o->text.len);
	buf_done(&o->text);
	return buf_failed(b) ? -ENOMEM : 0;
}
