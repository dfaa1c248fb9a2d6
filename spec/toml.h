/*
 * A strict reader of TOML 1.0 into a tree. Bounded (1 MiB, 32 levels, 10,000
 * values, in limits.h); errors name line and column, which the tree keeps for
 * the messages of those who read it. Stricter than the specification in one
 * point: a string has no NUL in it, because ours are C strings.
 *
 *	toml_parse -> toml_get ... -> toml_free
 *
 * Dates and floats are checked but stay text. Thread-safe: no shared state.
 */
#ifndef SANDLOCK_SPEC_TOML_H
#define SANDLOCK_SPEC_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;

enum toml_type {
	TOML_STRING,
	TOML_INTEGER,
	TOML_FLOAT,
	TOML_BOOL,
	TOML_DATE, /* date, time, or both */
	TOML_ARRAY,
	TOML_TABLE,
};

/* Lines and columns count from 1, columns in characters. */
struct toml_place {
	unsigned int line, column;
};

struct toml {
	enum toml_type type;
	struct toml_place at;	  /* of the value */
	struct toml_place key_at; /* of its key, in a table */
	char *key;		  /* NULL: an element of an array, the root */
	bool boolean;
	int64_t integer;
	char *text; /* TOML_STRING; TOML_FLOAT and TOML_DATE as written */
	struct toml **items; /* of arrays and tables, in their order */
	size_t n;
	/* The reader's own. */
	struct toml *up;
	int origin;
};

/* Parses @len bytes; @what names the source in messages. ERR_USAGE. */
int toml_parse(const char *text, size_t len, const char *what,
	       struct toml **ret, struct error *err);
void toml_free(struct toml *t);
CLEANUP_PTR(struct toml, toml_free);

/* The member of a table, or NULL (also where @t is no table). */
const struct toml *toml_get(const struct toml *t, const char *key);

/* "a string", "an array" */
const char *toml_type_name(enum toml_type type);

#endif
