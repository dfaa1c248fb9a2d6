/* The reader's state and its scalars (toml_scalar.c). Private to spec/. */
#ifndef SANDLOCK_SPEC_TOML_READER_H
#define SANDLOCK_SPEC_TOML_READER_H

#include "spec/toml.h"

struct toml_reader {
	const char *p, *end;
	const char *what;
	struct error *err;
	/* Where @seen is; only moves forward, so that columns cost little. */
	const char *seen;
	struct toml_place place;
	size_t values;
};

/* The place of the next character. */
struct toml_place toml_here(struct toml_reader *r);
/* "what:line:column: …"; ERR_USAGE. */
int toml_fail(struct toml_reader *r, struct toml_place at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int toml_no_memory(struct toml_reader *r);

/* True if the text goes on with @s. */
bool toml_sees(const struct toml_reader *r, const char *s);
/* Takes a line end; false if there is none. */
bool toml_take_newline(struct toml_reader *r);
void toml_skip_blanks(struct toml_reader *r);

/* A string of one line, the next character being its quote: for keys. */
int toml_read_quoted(struct toml_reader *r, char **ret);
/* Anything but an array or a table. */
int toml_read_scalar(struct toml_reader *r, struct toml *v);

#endif
