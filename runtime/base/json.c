#include "base/json.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "base/utf8.h"

/*
 * All of a tree goes at once, and so it lies in a few blocks: the root in the
 * first one.
 */
struct block {
	struct block *next;
	size_t size; /* of bytes */
	_Alignas(max_align_t) char bytes[];
};

struct pool {
	struct block *first, *last;
	size_t used; /* of the last one */
};

struct tree {
	struct json root;
	struct pool pool;
};

enum { BLOCK_MIN = 8 * 1024, BLOCK_MAX = 256 * 1024 };

static void *pool_get(struct pool *p, size_t n, size_t align)
{
	size_t at = (p->used + align - 1) & ~(align - 1);
	struct block *b = p->last;

	if (!b || at > b->size || n > b->size - at) {
		size_t size = b ? b->size * 2 : BLOCK_MIN;

		if (size > BLOCK_MAX)
			size = BLOCK_MAX;
		if (size < n)
			size = n;
		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		b->next = NULL;
		b->size = size;
		if (p->last)
			p->last->next = b;
		else
			p->first = b;
		p->last = b;
		at = 0;
	}
	p->used = at + n;
	return b->bytes + at;
}

static void pool_done(struct pool *p)
{
	struct block *next;

	for (struct block *b = p->first; b; b = next) {
		next = b->next;
		free(b);
	}
}

/* A container that is still open; it is moved to its parent when it ends. */
struct frame {
	struct json value;
	size_t cap;
	char *key; /* JSON_OBJECT: of the member to come */
};

struct reader {
	const struct json_limits *limits;
	const char *what;
	struct error *err;
	struct pool pool;
	struct frame *frames; /* [0] holds the root as its only item */
	size_t depth;	      /* frames in use */
	size_t cap;
	size_t values;
};

/* The pool lies in its own first block. */
void json_free(struct json *root)
{
	struct pool pool;

	if (!root)
		return;
	pool = ((struct tree *)root)->pool;
	pool_done(&pool);
}

void json_narrow(struct json *root, const struct json *part)
{
	*root = part ? *part : (struct json){ .type = JSON_NULL };
}

static void reader_done(struct reader *r)
{
	pool_done(&r->pool);
	free(r->frames);
}

static int out_of_memory(struct reader *r)
{
	return error_set(r->err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
			 r->what);
}

static int push(struct reader *r, enum json_type type)
{
	struct frame *frames;
	size_t cap;

	if (r->depth > r->limits->depth)
		return error_say(r->err, ERR_BUNDLE, E2BIG,
				 "'%s' is nested deeper than %u levels",
				 r->what, r->limits->depth);
	if (r->depth == r->cap) {
		cap = r->cap ? r->cap * 2 : 16;
		frames = reallocarray(r->frames, cap, sizeof(*frames));
		if (!frames)
			return out_of_memory(r);
		r->frames = frames;
		r->cap = cap;
	}
	r->frames[r->depth++] = (struct frame){ .value.type = type };
	return 0;
}

/* What it grows out of stays in the pool: as much again at the most. */
static void *grow_array(struct pool *p, const void *old, size_t n, size_t cap,
			size_t size, size_t align)
{
	void *more = pool_get(p, cap * size, align);

	if (more && n)
		memcpy(more, old, n * size);
	return more;
}

static int grow(struct reader *r, struct frame *f)
{
	size_t cap = f->cap ? f->cap * 2 : 4;
	struct json *v = &f->value;

	if (v->n < f->cap)
		return 0;
	v->items = grow_array(&r->pool, v->items, v->n, cap, sizeof(*v->items),
			      _Alignof(struct json));
	if (v->type == JSON_OBJECT)
		v->keys = grow_array(&r->pool, v->keys, v->n, cap,
				     sizeof(*v->keys), _Alignof(char *));
	if (!v->items || (v->type == JSON_OBJECT && !v->keys))
		return -ENOMEM;
	f->cap = cap;
	return 0;
}

/* Moves @v to the innermost open container. */
static int append(struct reader *r, struct json v)
{
	struct frame *f = &r->frames[r->depth - 1];

	if (grow(r, f) < 0)
		return out_of_memory(r);
	if (f->value.type == JSON_OBJECT)
		f->value.keys[f->value.n] = f->key;
	f->value.items[f->value.n++] = v;
	return 0;
}

static int count_value(struct reader *r)
{
	if (r->values++ < r->limits->values)
		return 0;
	return error_say(r->err, ERR_BUNDLE, E2BIG,
			 "'%s' has more than %zu values", r->what,
			 r->limits->values);
}

/* Where the string stands that is being read: "process.args[1]". */
static void add_place(struct buf *b, const struct reader *r, bool is_key)
{
	for (size_t i = 1; i < r->depth; i++) {
		const struct frame *f = &r->frames[i];

		if (is_key && i + 1 == r->depth)
			return;
		if (f->value.type == JSON_ARRAY) {
			buf_printf(b, "[%zu]", f->value.n);
			continue;
		}
		if (b->len > 0)
			buf_add_char(b, '.');
		if (f->key)
			text_escape(b, f->key, strlen(f->key));
	}
}

static int bad_string(const struct reader *r, bool is_key, const char *why)
{
	auto_(buf) struct buf place = BUF_INIT;

	add_place(&place, r, is_key);
	return error_say(r->err, ERR_BUNDLE, EINVAL, "%s: %s%s%s %s", r->what,
			 buf_str(&place), place.len ? ": " : "",
			 is_key ? "a key" : "the string", why);
}

static int copy_text(struct reader *r, const void *s, size_t n, bool is_key,
		     char **ret)
{
	if (memchr(s, '\0', n))
		return bad_string(r, is_key, "has a NUL in it");
	if (!utf8_is_valid(s, n))
		return bad_string(r, is_key, "is no valid UTF-8");
	*ret = pool_get(&r->pool, n + 1, 1);
	if (!*ret)
		return out_of_memory(r);
	memcpy(*ret, s, n);
	(*ret)[n] = '\0';
	return 0;
}

static int add_scalar(struct reader *r, struct json v)
{
	return count_value(r) == 0 && append(r, v) == 0;
}

static int add_text(struct reader *r, enum json_type type, const void *s,
		    size_t n)
{
	struct json v = { .type = type };

	if (copy_text(r, s, n, false, &v.text) < 0)
		return 0;
	return add_scalar(r, v);
}

static int on_null(void *ctx)
{
	return add_scalar(ctx, (struct json){ .type = JSON_NULL });
}

static int on_boolean(void *ctx, int value)
{
	return add_scalar(ctx,
			  (struct json){ .type = JSON_BOOL, .boolean = value });
}

static int on_number(void *ctx, const char *s, size_t n)
{
	return add_text(ctx, JSON_NUMBER, s, n);
}

static int on_string(void *ctx, const unsigned char *s, size_t n)
{
	return add_text(ctx, JSON_STRING, s, n);
}

static int on_start(struct reader *r, enum json_type type)
{
	return count_value(r) == 0 && push(r, type) == 0;
}

static int on_start_map(void *ctx)
{
	return on_start(ctx, JSON_OBJECT);
}

static int on_start_array(void *ctx)
{
	return on_start(ctx, JSON_ARRAY);
}

static int on_map_key(void *ctx, const unsigned char *s, size_t n)
{
	struct reader *r = ctx;

	return copy_text(r, s, n, true, &r->frames[r->depth - 1].key) == 0;
}

static int on_end_array(void *ctx)
{
	struct reader *r = ctx;
	struct json v = r->frames[--r->depth].value;

	return append(r, v) == 0;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_duplicates(struct reader *r, const struct json *j)
{
	auto_free char **sorted = NULL;

	if (j->n < 2)
		return 0;
	sorted = reallocarray(NULL, j->n, sizeof(*sorted));
	if (!sorted)
		return out_of_memory(r);
	memcpy(sorted, j->keys, j->n * sizeof(*sorted));
	qsort(sorted, j->n, sizeof(*sorted), compare_keys);
	for (size_t i = 1; i < j->n; i++) {
		auto_(buf) struct buf key = BUF_INIT;

		if (strcmp(sorted[i - 1], sorted[i]) != 0)
			continue;
		text_escape(&key, sorted[i], strlen(sorted[i]));
		return error_say(r->err, ERR_BUNDLE, EINVAL,
				 "'%s' has the key '%s' twice in one object",
				 r->what, buf_str(&key));
	}
	return 0;
}

static int on_end_map(void *ctx)
{
	struct reader *r = ctx;

	if (check_duplicates(r, &r->frames[r->depth - 1].value) < 0)
		return 0;
	return on_end_array(ctx);
}

/* The code unit of a \uXXXX escape whose digits start at @s, or -1. */
static int code_unit(const char *s, const char *end)
{
	int unit = 0;

	if (end - s < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = s[i];

		if (c >= '0' && c <= '9')
			unit = unit << 4 | (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			unit = unit << 4 | ((c | 0x20) - 'a' + 10);
		else
			return -1;
	}
	return unit;
}

/*
 * Yajl turns half of a surrogate pair into a question mark. A backslash is
 * valid JSON only in strings, so that there is no need to track these.
 */
static const char *find_lone_surrogate(const char *p, const char *end)
{
	while ((p = memchr(p, '\\', (size_t)(end - p)))) {
		int unit, low;

		if (end - p < 2)
			return NULL;
		unit = p[1] == 'u' ? code_unit(p + 2, end) : -1;
		if (unit < 0xd800 || unit > 0xdfff) {
			p += 2;
			continue;
		}
		if (unit >= 0xdc00 || end - p < 12 || p[6] != '\\' ||
		    p[7] != 'u')
			return p;
		low = code_unit(p + 8, end);
		if (low < 0xdc00 || low > 0xdfff)
			return p;
		p += 12;
	}
	return NULL;
}

static size_t line_of(const char *data, size_t offset)
{
	size_t line = 1;

	for (size_t i = 0; i < offset; i++)
		line += data[i] == '\n';
	return line;
}

static int syntax_error(const struct reader *r, yajl_handle h, const char *data,
			size_t len)
{
	static const char prefix[] = "parse error: ";
	static const char lexical[] = "lexical error: ";
	size_t offset = yajl_get_bytes_consumed(h);
	unsigned char *text = yajl_get_error(h, 0, NULL, 0);
	const char *why = text ? (const char *)text : "syntax error";

	if (strncmp(why, prefix, strlen(prefix)) == 0)
		why += strlen(prefix);
	else if (strncmp(why, lexical, strlen(lexical)) == 0)
		why += strlen(lexical);
	if (offset > len)
		offset = len;
	(void)error_say(r->err, ERR_BUNDLE, EINVAL,
			"'%s' is no valid JSON: line %zu: %.*s", r->what,
			line_of(data, offset), (int)strcspn(why, "\n"), why);
	if (text)
		yajl_free_error(h, text);
	return -EINVAL;
}

static int run_yajl(struct reader *r, const char *data, size_t len)
{
	static const yajl_callbacks callbacks = {
		.yajl_null = on_null,
		.yajl_boolean = on_boolean,
		.yajl_number = on_number,
		.yajl_string = on_string,
		.yajl_start_map = on_start_map,
		.yajl_map_key = on_map_key,
		.yajl_end_map = on_end_map,
		.yajl_start_array = on_start_array,
		.yajl_end_array = on_end_array,
	};
	yajl_handle h = yajl_alloc(&callbacks, NULL, r);
	yajl_status status;
	int ret = 0;

	if (!h)
		return out_of_memory(r);
	status = yajl_parse(h, (const unsigned char *)data, len);
	if (status == yajl_status_ok)
		status = yajl_complete_parse(h);
	if (status == yajl_status_client_canceled)
		ret = error_code(r->err);
	else if (status != yajl_status_ok)
		ret = syntax_error(r, h, data, len);
	yajl_free(h);
	return ret;
}

int json_parse(const char *data, size_t len, const struct json_limits *limits,
	       const char *what, struct json **ret, struct error *err)
{
	struct error local = ERROR_INIT;
	auto_(reader) struct reader r = {
		.limits = limits,
		.what = what,
		.err = err ? err : &local,
	};
	struct tree *tree;
	const char *lone;
	int rc;

	if (len > limits->bytes)
		return error_say(err, ERR_BUNDLE, EFBIG,
				 "'%s' is larger than %zu bytes", what,
				 limits->bytes);
	lone = find_lone_surrogate(data, data + len);
	if (lone)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "'%s' is no valid JSON: line %zu: half of a "
				 "surrogate pair",
				 what, line_of(data, (size_t)(lone - data)));
	tree = pool_get(&r.pool, sizeof(*tree), _Alignof(struct tree));
	if (!tree)
		return out_of_memory(&r);
	rc = push(&r, JSON_ARRAY);
	if (rc == 0)
		rc = run_yajl(&r, data, len);
	if (rc < 0)
		return rc;
	tree->root = r.frames[0].value.items[0];
	tree->pool = r.pool;
	r.pool = (struct pool){ NULL, NULL, 0 };
	*ret = &tree->root;
	return 0;
}

const struct json *json_get(const struct json *j, const char *key)
{
	if (!j || j->type != JSON_OBJECT)
		return NULL;
	for (size_t i = 0; i < j->n; i++)
		if (strcmp(j->keys[i], key) == 0)
			return &j->items[i];
	return NULL;
}

/* The magnitude of a number without fraction and exponent. */
static int parse_digits(const char *s, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s || strspn(s, "0123456789") != strlen(s))
		return -EINVAL;
	for (; *s; s++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	*ret = v;
	return 0;
}

static int parse_integer(const struct json *j, bool *ret_negative,
			 uint64_t *ret)
{
	if (!j || j->type != JSON_NUMBER)
		return -EINVAL;
	*ret_negative = j->text[0] == '-';
	return parse_digits(j->text + *ret_negative, ret);
}

int json_uint64(const struct json *j, uint64_t *ret)
{
	bool negative;
	uint64_t v;
	int r = parse_integer(j, &negative, &v);

	if (r < 0)
		return r;
	if (negative && v > 0)
		return -ERANGE;
	*ret = v;
	return 0;
}

int json_int64(const struct json *j, int64_t *ret)
{
	bool negative;
	uint64_t v;
	int r = parse_integer(j, &negative, &v);

	if (r < 0)
		return r;
	if (v > (uint64_t)INT64_MAX + negative)
		return -ERANGE;
	*ret = negative ? (int64_t)(0 - v) : (int64_t)v;
	return 0;
}

const char *json_str_or(const struct json *obj, const char *key,
			const char *dflt)
{
	const struct json *j = json_get(obj, key);

	return j && j->type == JSON_STRING ? j->text : dflt;
}

int64_t json_int_or(const struct json *obj, const char *key, int64_t dflt)
{
	int64_t v;

	return json_int64(json_get(obj, key), &v) == 0 ? v : dflt;
}

bool json_bool_or(const struct json *obj, const char *key, bool dflt)
{
	const struct json *j = json_get(obj, key);

	return j && j->type == JSON_BOOL ? j->boolean : dflt;
}
