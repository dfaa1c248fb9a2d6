/*
 * JSON by yajl: a bounded, strict reader into a tree, and a writer.
 *
 * The reader rejects what is over its limits, invalid UTF-8, NUL in strings
 * (escaped ones too), duplicate keys, and anything after the value. Numbers
 * keep their text, so 2^64-1 survives. Typed getters live in spec/.
 */
#ifndef SANDLOCK_BASE_JSON_H
#define SANDLOCK_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct error;

enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

struct json {
	enum json_type type;
	bool boolean;
	char *text;	    /* JSON_STRING, JSON_NUMBER: NUL-terminated */
	char **keys;	    /* JSON_OBJECT: keys[i] names items[i] */
	struct json *items; /* JSON_ARRAY, JSON_OBJECT */
	size_t n;
};

struct json_limits {
	size_t bytes;
	unsigned int depth;
	size_t values; /* of all kinds, in total */
};

/* Parses @len bytes; @what names the source in messages. ERR_BUNDLE. */
int json_parse(const char *data, size_t len, const struct json_limits *limits,
	       const char *what, struct json **ret, struct error *err);
/* A root that json_parse returned, and with it all that is in it; or NULL. */
void json_free(struct json *root);
/* Makes @part, which is somewhere in @root, the root; null if it is NULL. */
void json_narrow(struct json *root, const struct json *part);

/* The member of an object, or NULL (also where @j is NULL or no object). */
const struct json *json_get(const struct json *j, const char *key);

/* Exact conversions of a JSON_NUMBER; -ERANGE, or -EINVAL for 1.5 and 1e3. */
int json_int64(const struct json *j, int64_t *ret);
int json_uint64(const struct json *j, uint64_t *ret);

/* Shortcuts with a default, for files that we wrote ourselves. */
const char *json_str_or(const struct json *obj, const char *key,
			const char *dflt);
int64_t json_int_or(const struct json *obj, const char *key, int64_t dflt);
bool json_bool_or(const struct json *obj, const char *key, bool dflt);

/*
 * The writer appends to a buf. A string that is not UTF-8 is written with its
 * bad bytes as U+FFFD; use json_out_bytes for names that must survive.
 * Members: json_out_key(), then a value; the _member forms do both. Errors are
 * remembered and reported by json_out_end, which also adds a newline; a NULL
 * writer (json_out_new out of memory) is such an error. Nesting ends at 128
 * levels. Control, bidirectional and invisible characters are written as
 * escapes: the text may go to a terminal.
 */
struct json_out;
struct json_out *json_out_new(bool pretty);
void json_out_free(struct json_out *o);
void json_out_object(struct json_out *o);
void json_out_object_end(struct json_out *o);
void json_out_array(struct json_out *o);
void json_out_array_end(struct json_out *o);
void json_out_key(struct json_out *o, const char *key);
/* NULL is written as null. */
void json_out_str(struct json_out *o, const char *s);
/* A name: a string if it is UTF-8, else {"b64":"…","display":"…"}. */
void json_out_bytes(struct json_out *o, const char *s, size_t n);
void json_out_int(struct json_out *o, int64_t v);
void json_out_uint(struct json_out *o, uint64_t v);
void json_out_bool(struct json_out *o, bool v);
void json_out_null(struct json_out *o);
void json_out_value(struct json_out *o, const struct json *v);
void json_out_str_member(struct json_out *o, const char *key, const char *s);
/* As json_out_bytes, of a string that may be NULL. */
void json_out_bytes_member(struct json_out *o, const char *key, const char *s);
void json_out_int_member(struct json_out *o, const char *key, int64_t v);
void json_out_uint_member(struct json_out *o, const char *key, uint64_t v);
void json_out_bool_member(struct json_out *o, const char *key, bool v);
/* Moves the text into @b. 0 or -ENOMEM / -EINVAL (unbalanced). */
int json_out_end(struct json_out *o, struct buf *b);

#endif
