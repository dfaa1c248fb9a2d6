#include "spec/toml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/utf8.h"
#include "spec/toml_reader.h"

/*
 * How a table or array came to be, which says who may still add to it:
 * ORIGIN_PATH by being on the way of a header, and may get its own later;
 * ORIGIN_HEADER by "[x]" or "[[x]]"; ORIGIN_DOTTED by a key "x.y";
 * ORIGIN_INLINE by braces or brackets, and is complete.
 */
enum origin { ORIGIN_INLINE, ORIGIN_PATH, ORIGIN_HEADER, ORIGIN_DOTTED };

struct toml_place toml_here(struct toml_reader *r)
{
	for (; r->seen < r->p; r->seen++) {
		if (*r->seen == '\n') {
			r->place.line++;
			r->place.column = 1;
		} else if (((unsigned char)*r->seen & 0xc0) != 0x80) {
			r->place.column++;
		}
	}
	return r->place;
}

int toml_fail(struct toml_reader *r, struct toml_place at, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error_say(r->err, ERR_USAGE, EINVAL, "%s:%u:%u: %s", r->what,
			 at.line, at.column, text);
}

int toml_no_memory(struct toml_reader *r)
{
	return error_set(r->err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
			 r->what);
}

static bool is_container(const struct toml *t)
{
	return t->type == TOML_ARRAY || t->type == TOML_TABLE;
}

/* Depth comes from the input, so this does not recurse. */
void toml_free(struct toml *t)
{
	while (t) {
		struct toml *up;

		if (is_container(t) && t->n) {
			t = t->items[--t->n];
			continue;
		}
		up = t->up;
		free(t->items);
		free(t->text);
		free(t->key);
		free(t);
		t = up;
	}
}

const struct toml *toml_get(const struct toml *t, const char *key)
{
	for (size_t i = 0; t && t->type == TOML_TABLE && i < t->n; i++)
		if (strcmp(t->items[i]->key, key) == 0)
			return t->items[i];
	return NULL;
}

const char *toml_type_name(enum toml_type type)
{
	switch (type) {
	case TOML_STRING:
		return "a string";
	case TOML_INTEGER:
		return "an integer";
	case TOML_FLOAT:
		return "a float";
	case TOML_BOOL:
		return "a boolean";
	case TOML_DATE:
		return "a date";
	case TOML_ARRAY:
		return "an array";
	case TOML_TABLE:
		return "a table";
	}
	return "";
}

bool toml_sees(const struct toml_reader *r, const char *s)
{
	size_t n = strlen(s);

	return (size_t)(r->end - r->p) >= n && memcmp(r->p, s, n) == 0;
}

bool toml_take_newline(struct toml_reader *r)
{
	size_t n = toml_sees(r, "\n") ? 1 : toml_sees(r, "\r\n") ? 2 : 0;

	r->p += n;
	return n;
}

void toml_skip_blanks(struct toml_reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t'))
		r->p++;
}

static int skip_comment(struct toml_reader *r)
{
	if (r->p == r->end || *r->p != '#')
		return 0;
	for (; r->p < r->end; r->p++) {
		unsigned char c = (unsigned char)*r->p;

		if (toml_sees(r, "\n") || toml_sees(r, "\r\n"))
			return 0;
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return toml_fail(r, toml_here(r),
					 "a control character");
	}
	return 0;
}

/* Blanks, comments and line ends. */
static int skip_space(struct toml_reader *r)
{
	int n;

	do {
		toml_skip_blanks(r);
		n = skip_comment(r);
	} while (n == 0 && toml_take_newline(r));
	return n;
}

static int expect_line_end(struct toml_reader *r)
{
	int n;

	toml_skip_blanks(r);
	n = skip_comment(r);
	if (n < 0 || r->p == r->end || toml_take_newline(r))
		return n;
	return toml_fail(r, toml_here(r), "the line should end here");
}

/* A new item at the end of @up; @key is taken over, also on failure. */
static int add_item(struct toml_reader *r, struct toml *up, char *key,
		    struct toml_place at, struct toml **ret)
{
	struct toml *t = calloc(1, sizeof(*t));
	struct toml **items;

	items = t && r->values < LIMIT_TOML_VALUES
			? reallocarray(up->items, up->n + 1, sizeof(*items))
			: NULL;
	if (!items) {
		free(key);
		free(t);
		if (r->values >= LIMIT_TOML_VALUES)
			return toml_fail(r, at, "more than %d values",
					 LIMIT_TOML_VALUES);
		return toml_no_memory(r);
	}
	r->values++;
	up->items = items;
	items[up->n++] = t;
	t->up = up;
	t->key = key;
	t->key_at = t->at = at;
	*ret = t;
	return 0;
}

static unsigned int depth_of(const struct toml *t)
{
	unsigned int n = 0;

	for (; t->up; t = t->up)
		n++;
	return n;
}

static int check_depth(struct toml_reader *r, const struct toml *t,
		       struct toml_place at)
{
	if (depth_of(t) < LIMIT_TOML_DEPTH)
		return 0;
	return toml_fail(r, at, "nested deeper than %d levels",
			 LIMIT_TOML_DEPTH);
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static int read_key_part(struct toml_reader *r, char **ret)
{
	const char *start = r->p;

	if (r->p < r->end && (*r->p == '"' || *r->p == '\''))
		return toml_read_quoted(r, ret);
	while (r->p < r->end && is_bare(*r->p))
		r->p++;
	if (r->p == start)
		return toml_fail(r, toml_here(r), "there should be a key here");
	*ret = strndup(start, (size_t)(r->p - start));
	return *ret ? 0 : toml_no_memory(r);
}

static struct toml *find_item(const struct toml *t, const char *key)
{
	return (struct toml *)toml_get(t, key);
}

static int fail_key(struct toml_reader *r, struct toml_place at,
		    const char *key, const char *why, const struct toml *other)
{
	auto_(buf) struct buf shown = BUF_INIT;

	text_escape(&shown, key, strlen(key));
	return toml_fail(r, at, "'%.200s' %s in line %u", buf_str(&shown), why,
			 other->key_at.line);
}

/*
 * One step on the way of a key: the table @key in *@t, which is made if it is
 * not there. A header goes on in the last table of an array of tables.
 */
static int step_into(struct toml_reader *r, struct toml **t, char *key,
		     struct toml_place at, bool header)
{
	struct toml *next = find_item(*t, key);
	bool open;
	int n;

	if (!next) {
		n = check_depth(r, *t, at);
		if (n < 0)
			free(key);
		else
			n = add_item(r, *t, key, at, &next);
		if (n < 0)
			return n;
		next->type = TOML_TABLE;
		next->origin = header ? ORIGIN_PATH : ORIGIN_DOTTED;
		*t = next;
		return 0;
	}
	open = is_container(next) && next->origin != ORIGIN_INLINE &&
	       (header ||
		(next->type == TOML_TABLE && next->origin != ORIGIN_HEADER));
	n = open ? 0
		 : fail_key(r, at, key, "cannot be extended: it is defined",
			    next);
	free(key);
	if (n < 0)
		return n;
	/* What a key has added to is no longer free for a header. */
	if (!header)
		next->origin = ORIGIN_DOTTED;
	*t = next->type == TOML_ARRAY ? next->items[next->n - 1] : next;
	return 0;
}

/* Reads "a.b.c": *@t becomes the table of the last part, *@ret the part. */
static int read_key(struct toml_reader *r, struct toml **t, bool header,
		    char **ret, struct toml_place *ret_at)
{
	for (;;) {
		struct toml_place at;
		char *part = NULL;
		int n;

		toml_skip_blanks(r);
		at = toml_here(r);
		n = read_key_part(r, &part);
		if (n < 0)
			return n;
		toml_skip_blanks(r);
		if (r->p == r->end || *r->p != '.') {
			*ret = part;
			*ret_at = at;
			return 0;
		}
		r->p++;
		n = step_into(r, t, part, at, header);
		if (n < 0)
			return n;
	}
}

/* Reads "KEY =" into @t and makes the item. */
static int read_assignment(struct toml_reader *r, struct toml *t,
			   struct toml **ret)
{
	struct toml_place at;
	struct toml *old;
	char *key = NULL;
	int n = read_key(r, &t, false, &key, &at);

	if (n < 0)
		return n;
	old = find_item(t, key);
	if (old) {
		n = fail_key(r, at, key, "is there already,", old);
	} else if (r->p == r->end || *r->p != '=') {
		n = toml_fail(r, toml_here(r), "there should be a '=' here");
	} else {
		r->p++;
		toml_skip_blanks(r);
		return add_item(r, t, key, at, ret);
	}
	free(key);
	return n;
}

/* Reads a scalar, or the bracket that opens an array or a table. */
static int begin_value(struct toml_reader *r, struct toml *v)
{
	v->at = toml_here(r);
	if (r->p < r->end && (*r->p == '[' || *r->p == '{')) {
		v->type = *r->p == '[' ? TOML_ARRAY : TOML_TABLE;
		v->origin = ORIGIN_INLINE;
		r->p++;
		return check_depth(r, v, v->at);
	}
	return toml_read_scalar(r, v);
}

/* 1 with the next element of @array, or 0 where it is closed. */
static int next_element(struct toml_reader *r, struct toml *array,
			struct toml **ret)
{
	int n = skip_space(r);

	if (n == 0 && array->n && toml_sees(r, ",")) {
		r->p++;
		n = skip_space(r);
	} else if (n == 0 && array->n && !toml_sees(r, "]")) {
		return toml_fail(r, toml_here(r),
				 "there should be a ',' or ']' here");
	}
	if (n < 0)
		return n;
	if (toml_sees(r, "]")) {
		r->p++;
		return 0;
	}
	n = add_item(r, array, NULL, toml_here(r), ret);
	return n < 0 ? n : 1;
}

/* 1 with the next member of an inline @table, or 0 where it is closed. */
static int next_member(struct toml_reader *r, struct toml *table,
		       struct toml **ret)
{
	int n;

	toml_skip_blanks(r);
	if (toml_sees(r, "}")) {
		r->p++;
		return 0;
	}
	if (table->n) {
		if (!toml_sees(r, ","))
			return toml_fail(r, toml_here(r),
					 "there should be a ',' or '}' here");
		r->p++;
	}
	n = read_assignment(r, table, ret);
	return n < 0 ? n : 1;
}

static int read_value(struct toml_reader *r, struct toml *v)
{
	struct toml *stack[LIMIT_TOML_DEPTH + 1];
	size_t depth = 0;
	int n = begin_value(r, v);

	if (n == 0 && is_container(v))
		stack[depth++] = v;
	while (n >= 0 && depth) {
		struct toml *top = stack[depth - 1], *item = NULL;

		n = top->type == TOML_ARRAY ? next_element(r, top, &item)
					    : next_member(r, top, &item);
		if (n == 0)
			depth--;
		if (n <= 0)
			continue;
		n = begin_value(r, item);
		if (n == 0 && is_container(item))
			stack[depth++] = item;
	}
	return n;
}

/* "[KEY]": the table is new, or was only on the way to another. */
static int define_table(struct toml_reader *r, struct toml *t, char *key,
			struct toml_place at, struct toml **ret)
{
	struct toml *old = find_item(t, key);
	int n = 0;

	if (old && (old->type != TOML_TABLE || old->origin != ORIGIN_PATH))
		n = fail_key(r, at, key, "is there already,", old);
	if (n == 0 && !old) {
		n = check_depth(r, t, at);
		if (n == 0)
			return add_item(r, t, key, at, ret);
	}
	free(key);
	*ret = old;
	return n;
}

/* "[[KEY]]": one more table in the array. */
static int define_element(struct toml_reader *r, struct toml *t, char *key,
			  struct toml_place at, struct toml **ret)
{
	struct toml *array = find_item(t, key);
	int n = check_depth(r, t, at);

	if (n == 0 && array &&
	    (array->type != TOML_ARRAY || array->origin != ORIGIN_HEADER))
		n = fail_key(r, at, key, "is there already,", array);
	if (n == 0 && !array) {
		n = add_item(r, t, key, at, &array);
		key = NULL;
		if (n == 0) {
			array->type = TOML_ARRAY;
			array->origin = ORIGIN_HEADER;
		}
	}
	free(key);
	return n < 0 ? n : add_item(r, array, NULL, at, ret);
}

static int read_header(struct toml_reader *r, struct toml *root,
		       struct toml **ret)
{
	bool array = toml_sees(r, "[[");
	struct toml_place at;
	struct toml *t = root;
	char *key = NULL;
	int n;

	r->p += array ? 2 : 1;
	n = read_key(r, &t, true, &key, &at);
	if (n < 0)
		return n;
	if (!toml_sees(r, array ? "]]" : "]")) {
		free(key);
		return toml_fail(r, toml_here(r), "there should be a '%s' here",
				 array ? "]]" : "]");
	}
	r->p += array ? 2 : 1;
	n = array ? define_element(r, t, key, at, &t)
		  : define_table(r, t, key, at, &t);
	if (n < 0)
		return n;
	t->type = TOML_TABLE;
	t->origin = ORIGIN_HEADER;
	t->key_at = t->at = at;
	*ret = t;
	return 0;
}

static int read_document(struct toml_reader *r, struct toml *root)
{
	struct toml *table = root, *item;
	int n = skip_space(r);

	while (n == 0 && r->p < r->end) {
		if (*r->p == '[') {
			n = read_header(r, root, &table);
		} else {
			n = read_assignment(r, table, &item);
			if (n == 0)
				n = read_value(r, item);
		}
		if (n == 0)
			n = expect_line_end(r);
		if (n == 0)
			n = skip_space(r);
	}
	return n;
}

/* Once for the whole text, so that nothing after this has to look. */
static int check_utf8(struct toml_reader *r)
{
	const char *start = r->p;
	struct toml_place at;
	uint32_t cp;
	size_t n = 1;

	while (r->p < r->end && n) {
		n = utf8_decode(r->p, (size_t)(r->end - r->p), &cp);
		r->p += n;
	}
	if (r->p < r->end) {
		at = toml_here(r);
		return toml_fail(r, at, "this is no valid UTF-8");
	}
	r->p = start;
	return 0;
}

int toml_parse(const char *text, size_t len, const char *what,
	       struct toml **ret, struct error *err)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct toml_reader r = {
		.p = text,
		.end = text + len,
		.seen = text,
		.place = { 1, 1 },
		.what = what,
		.err = err,
	};
	auto_ptr(toml_free) struct toml *root = NULL;
	int n;

	if (len > LIMIT_TOML_BYTES)
		return error_say(err, ERR_USAGE, EFBIG,
				 "'%s' is larger than %d bytes", what,
				 LIMIT_TOML_BYTES);
	root = calloc(1, sizeof(*root));
	if (!root)
		return toml_no_memory(&r);
	root->type = TOML_TABLE;
	root->origin = ORIGIN_HEADER;
	root->at = root->key_at = r.place;
	n = check_utf8(&r);
	if (n < 0)
		return n;
	if (toml_sees(&r, bom))
		r.seen = r.p += 3;
	n = read_document(&r, root);
	if (n < 0)
		return n;
	*ret = take_ptr(&root);
	return 0;
}
