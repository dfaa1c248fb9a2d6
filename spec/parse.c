#include "spec/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/path.h"

/* Deeper than any table: the path of a message is cut there. */
enum { PATH_DEPTH_MAX = 24 };

static bool is_plain_key(const char *key)
{
	size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyz"
			       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return n > 0 && key[n] == '\0';
}

struct shown shown(const char *s)
{
	auto_(buf) struct buf cut = BUF_INIT, b = BUF_INIT;
	struct shown ret;

	text_cut(&cut, s, 60);
	text_escape(&b, buf_str(&cut), cut.len);
	(void)snprintf(ret.text, sizeof(ret.text), "%s%s", buf_str(&b),
		       cut.len < strlen(s) ? "..." : "");
	return ret;
}

static void add_step(struct buf *b, const struct at *at)
{
	if (!at->key)
		buf_printf(b, "[%zu]", at->index);
	else if (!is_plain_key(at->key))
		buf_printf(b, "['%s']", SHOWN(at->key));
	else
		buf_printf(b, "%s%s", b->len ? "." : "", at->key);
}

/* "process.rlimits[1].type", or "" for the document. */
static void add_path(struct buf *b, const struct at *at, const char *member)
{
	const struct at *steps[PATH_DEPTH_MAX];
	size_t n = 0;

	for (; at->up && n < PATH_DEPTH_MAX; at = at->up)
		steps[n++] = at;
	while (n > 0)
		add_step(b, steps[--n]);
	if (member)
		add_step(b, &(struct at){ .key = member });
}

__attribute__((format(printf, 3, 0))) static int
fail_at(const struct at *at, const char *member, const char *fmt, va_list ap)
{
	auto_(buf) struct buf path = BUF_INIT, msg = BUF_INIT;

	add_path(&path, at, member);
	buf_vprintf(&msg, fmt, ap);
	return error_say(at->p->err, ERR_BUNDLE, EINVAL, "%s: %s%s%s",
			 at->p->what, buf_str(&path), path.len ? ": " : "",
			 buf_str(&msg));
}

int at_fail(const struct at *at, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = fail_at(at, NULL, fmt, ap);
	va_end(ap);
	return r;
}

int at_fail_member(const struct at *at, const char *key, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = fail_at(at, key, fmt, ap);
	va_end(ap);
	return r;
}

int at_no_memory(const struct at *at)
{
	return error_set(at->p->err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
			 at->p->what);
}

void at_warn(const struct at *at, const char *fmt, ...)
{
	auto_(buf) struct buf path = BUF_INIT, msg = BUF_INIT;
	va_list ap;

	if (!at->p->log)
		return;
	add_path(&path, at, NULL);
	va_start(ap, fmt);
	buf_vprintf(&msg, fmt, ap);
	va_end(ap);
	log_warn(at->p->log, "%s: %s%s%s", at->p->what, buf_str(&path),
		 path.len ? ": " : "", buf_str(&msg));
}

static const struct name *find_row(const struct names *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].name, name) == 0)
			return &t->v[i];
	return NULL;
}

const char *names_of(const struct names *t, uint64_t value)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].value == value)
			return t->v[i].name;
	return NULL;
}

struct at at_item(const struct at *at, size_t i)
{
	const struct json *v = at->v;

	return (struct at){
		.p = at->p,
		.up = at,
		.key = v->type == JSON_OBJECT ? v->keys[i] : NULL,
		.index = i,
		.v = &v->items[i],
	};
}

bool at_has(const struct at *at, const char *key)
{
	const struct json *v = json_get(at->v, key);

	return v && v->type != JSON_NULL;
}

static const char *with_article(enum json_type type)
{
	switch (type) {
	case JSON_NULL:
		return "null";
	case JSON_BOOL:
		return "true or false";
	case JSON_NUMBER:
		return "a number";
	case JSON_STRING:
		return "a string";
	case JSON_ARRAY:
		return "an array";
	case JSON_OBJECT:
		return "an object";
	}
	return "a value";
}

int at_expect(const struct at *at, enum json_type type)
{
	if (at->v->type == type)
		return 0;
	return at_fail(at, "must be %s, not %s", with_article(type),
		       with_article(at->v->type));
}

int at_string(const struct at *at, unsigned int flags, const char **ret)
{
	int r = at_expect(at, JSON_STRING);
	const char *s;

	if (r < 0)
		return r;
	s = at->v->text;
	if (*s == '\0' && (flags & STR_NONEMPTY))
		return at_fail(at, "must not be empty");
	if (*s == '\0' && (flags & STR_MAY_BE_NONE)) {
		*ret = NULL;
		return 0;
	}
	if ((flags & STR_ABSOLUTE) && *s != '/')
		return at_fail(at, "'%s' is no absolute path", SHOWN(s));
	*ret = s;
	return 0;
}

static void *place(const struct field *f, void *obj)
{
	return (char *)obj + f->offset;
}

static size_t *count_place(const struct field *f, void *obj)
{
	return (size_t *)((char *)obj + f->count);
}

static void store_bits(const struct field *f, void *obj, uint64_t bits)
{
	void *to = place(f, obj);

	switch (f->size) {
	case 1:
		*(uint8_t *)to = (uint8_t)bits;
		break;
	case 2:
		*(uint16_t *)to = (uint16_t)bits;
		break;
	case 4:
		*(uint32_t *)to = (uint32_t)bits;
		break;
	default:
		*(uint64_t *)to = bits;
		break;
	}
}

static int bad_number(const struct at *at, int r)
{
	if (r == -ERANGE)
		return at_fail(at, "%s is out of range", SHOWN(at->v->text));
	return at_fail(at, "must be an integer, not %s", SHOWN(at->v->text));
}

static int read_int(const struct at *at, const struct field *f, void *obj)
{
	int r = at_expect(at, JSON_NUMBER);
	int64_t v;

	if (r < 0)
		return r;
	r = json_int64(at->v, &v);
	if (r < 0)
		return bad_number(at, r);
	if (v < f->min || v > (int64_t)f->max)
		return at_fail(at, "%lld is out of range (%lld to %lld)",
			       (long long)v, (long long)f->min,
			       (long long)f->max);
	store_bits(f, obj, (uint64_t)v);
	return 0;
}

static uint64_t uint_limit(const struct field *f)
{
	if (f->max)
		return f->max;
	return f->size == 8 ? UINT64_MAX : (UINT64_C(1) << f->size * 8) - 1;
}

static int read_uint(const struct at *at, const struct field *f, void *obj)
{
	int r = at_expect(at, JSON_NUMBER);
	uint64_t v;

	if (r < 0)
		return r;
	r = json_uint64(at->v, &v);
	if (r < 0)
		return bad_number(at, r);
	if (v < (uint64_t)f->min || v > uint_limit(f))
		return at_fail(at, "%llu is out of range (%llu to %llu)",
			       (unsigned long long)v,
			       (unsigned long long)f->min,
			       (unsigned long long)uint_limit(f));
	store_bits(f, obj, v);
	return 0;
}

static int read_bool(const struct at *at, const struct field *f, void *obj)
{
	int r = at_expect(at, JSON_BOOL);

	if (r < 0)
		return r;
	*(bool *)place(f, obj) = at->v->boolean;
	return 0;
}

static int read_str(const struct at *at, const struct field *f, void *obj)
{
	const char *s;
	int r = at_string(at, f->flags, &s);
	char *copy;

	if (r < 0 || !s)
		return r;
	copy = strdup(s);
	if (!copy)
		return at_no_memory(at);
	*(char **)place(f, obj) = copy;
	return 0;
}

static int check_name(const struct at *at, const struct names *t,
		      const char *name, uint64_t *ret)
{
	const struct name *row = find_row(t, name);

	if (!row)
		return at_fail(at, "unknown %s '%s'", t->what, SHOWN(name));
	*ret = row->value;
	return 0;
}

static int read_strs(const struct at *at, const struct field *f, void *obj)
{
	struct spec_strings *to = place(f, obj);
	int r = at_expect(at, JSON_ARRAY);
	uint64_t ignored = 0;

	if (r < 0)
		return r;
	to->v = calloc(at->v->n + 1, sizeof(*to->v));
	if (!to->v)
		return at_no_memory(at);
	for (size_t i = 0; i < at->v->n; i++) {
		struct at item = at_item(at, i);
		const char *s;

		r = at_string(&item, f->flags, &s);
		if (r < 0)
			return r;
		if (f->names) {
			r = check_name(&item, f->names, s, &ignored);
			if (r < 0)
				return r;
		}
		to->v[i] = strdup(s);
		if (!to->v[i])
			return at_no_memory(at);
		to->n++;
	}
	return 0;
}

static int read_enum(const struct at *at, const struct field *f, void *obj)
{
	const char *s;
	uint64_t value = 0;
	int r = at_string(at, f->flags, &s);

	if (r < 0 || !s)
		return r;
	r = check_name(at, f->names, s, &value);
	if (r < 0)
		return r;
	store_bits(f, obj, value);
	return 0;
}

static int read_flags(const struct at *at, const struct field *f, void *obj)
{
	int r = at_expect(at, JSON_ARRAY);
	uint64_t all = 0, value = 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < at->v->n; i++) {
		struct at item = at_item(at, i);
		const char *s;

		r = at_string(&item, 0, &s);
		if (r < 0)
			return r;
		r = check_name(&item, f->names, s, &value);
		if (r < 0)
			return r;
		all |= value;
	}
	store_bits(f, obj, all);
	return 0;
}

/* Room for as many elements as at->v has. */
static int make_array(const struct at *at, const struct field *f, void *obj,
		      size_t size)
{
	void *array;

	if (f->max && at->v->n > f->max)
		return at_fail(at, "has %zu elements, at most %llu are allowed",
			       at->v->n, (unsigned long long)f->max);
	if (at->v->n == 0)
		return 0;
	array = calloc(at->v->n, size);
	if (!array)
		return at_no_memory(at);
	*(void **)place(f, obj) = array;
	*count_place(f, obj) = at->v->n;
	return 0;
}

/* The ids of users and groups: 2^32-1 is none. */
static int read_ids(const struct at *at, const struct field *f, void *obj)
{
	static const struct field id = { .size = sizeof(uint32_t),
					 .max = UINT32_MAX - 1 };
	int r = at_expect(at, JSON_ARRAY);

	if (r < 0)
		return r;
	r = make_array(at, f, obj, sizeof(uint32_t));
	for (size_t i = 0; r >= 0 && i < at->v->n; i++) {
		struct at item = at_item(at, i);
		uint32_t *ids = *(uint32_t **)place(f, obj);

		r = read_uint(&item, &id, &ids[i]);
	}
	return r;
}

static int read_elements(const struct at *at, const struct field *f, void *obj)
{
	int r = make_array(at, f, obj, f->shape->size);
	char *elem = *(char **)place(f, obj);

	for (size_t i = 0; r >= 0 && i < at->v->n; i++) {
		struct at item = at_item(at, i);

		if (f->kind == FIELD_MAP) {
			if (*item.key == '\0')
				return at_fail(at, "has an empty name");
			*(char **)elem = strdup(item.key);
			if (!*(char **)elem)
				return at_no_memory(at);
		}
		r = shape_read(&item, f->shape, elem);
		elem += f->shape->size;
	}
	return r;
}

static int read_new(const struct at *at, const struct field *f, void *obj)
{
	void *new = calloc(1, f->shape->size);

	if (!new)
		return at_no_memory(at);
	*(void **)place(f, obj) = new;
	return shape_read(at, f->shape, new);
}

static int read_by_kind(const struct at *at, const struct field *f, void *obj)
{
	int r;

	switch (f->kind) {
	case FIELD_BOOL:
		return read_bool(at, f, obj);
	case FIELD_INT:
		return read_int(at, f, obj);
	case FIELD_UINT:
		return read_uint(at, f, obj);
	case FIELD_STR:
		return read_str(at, f, obj);
	case FIELD_STRS:
		return read_strs(at, f, obj);
	case FIELD_IDS:
		return read_ids(at, f, obj);
	case FIELD_ENUM:
		return read_enum(at, f, obj);
	case FIELD_FLAGS:
		return read_flags(at, f, obj);
	case FIELD_OBJ:
		return shape_read(at, f->shape, place(f, obj));
	case FIELD_NEW:
		return read_new(at, f, obj);
	case FIELD_ARRAY:
	case FIELD_MAP:
		r = at_expect(at,
			      f->kind == FIELD_MAP ? JSON_OBJECT : JSON_ARRAY);
		return r < 0 ? r : read_elements(at, f, obj);
	case FIELD_CALL:
		return 0;
	}
	return 0;
}

static int read_field(const struct at *at, const struct field *f, void *obj)
{
	int r = read_by_kind(at, f, obj);

	if (r < 0)
		return r;
	if (f->has)
		*((char *)obj + f->has - 1) = true;
	return f->check ? f->check(at, obj) : 0;
}

static int read_member(const struct at *at, const struct field *f, void *obj)
{
	struct at member = { .p = at->p, .up = at, .key = f->key };

	member.v = json_get(at->v, f->key);
	if (member.v && member.v->type != JSON_NULL)
		return read_field(&member, f, obj);
	if (f->flags & FIELD_REQUIRED)
		return at_fail(&member, "is required but missing");
	return 0;
}

static void warn_unknown(const struct at *at, const struct shape *s)
{
	for (size_t i = 0; i < at->v->n; i++) {
		size_t k = 0;

		while (k < s->n && strcmp(s->fields[k].key, at->v->keys[i]))
			k++;
		if (k == s->n)
			at_warn(at, "unknown key '%s', ignored",
				SHOWN(at->v->keys[i]));
	}
}

int shape_read(const struct at *at, const struct shape *s, void *obj)
{
	int r;

	if (s->n > 0 && !s->fields[0].key) {
		r = read_field(at, &s->fields[0], obj);
		return r < 0 || !s->check ? r : s->check(at, obj);
	}
	r = at_expect(at, JSON_OBJECT);
	if (r >= 0 && at->p->warn_unknown)
		warn_unknown(at, s);
	for (size_t i = 0; r >= 0 && i < s->n; i++)
		r = read_member(at, &s->fields[i], obj);
	return r < 0 || !s->check ? r : s->check(at, obj);
}
