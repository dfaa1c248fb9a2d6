/*
 * A growable byte buffer. The data are always followed by a NUL that does not
 * count. A failed allocation is remembered: the appending functions become
 * no-ops and buf_failed() tells, so that a long series is checked once.
 */
#ifndef SANDLOCK_BASE_BUF_H
#define SANDLOCK_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* NULL while nothing was appended */
	size_t len;
	size_t cap;
	bool failed;
};

#define BUF_INIT             \
	{                    \
		.data = NULL \
	}

void buf_done(struct buf *b);
void buf_clear(struct buf *b);
void buf_add(struct buf *b, const void *data, size_t len);
/* Makes @len bytes more, to be written there; NULL if that failed. */
char *buf_extend(struct buf *b, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_add_uint(struct buf *b, uint64_t v);
void buf_printf(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
bool buf_failed(const struct buf *b);

/* Hands the bytes over ("" where there are none); NULL if anything failed. */
char *buf_take(struct buf *b, size_t *ret_len);

/* The words of a NULL-terminated list (or NULL) with blanks between them;
 * malloc'ed, NULL on ENOMEM. */
char *buf_join_words(char *const *words);

/* The bytes as a string, never NULL; borrowed. */
const char *buf_str(const struct buf *b);

#endif
