/* UTF-8, strictly: no overlong forms, no surrogates, nothing over U+10FFFF. */
#ifndef SANDLOCK_BASE_UTF8_H
#define SANDLOCK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length (1 to 4) of the code point at @s, or 0 if there is none. */
size_t utf8_decode(const char *s, size_t n, uint32_t *ret);
/* How much of @s is printable ASCII. */
size_t utf8_plain_span(const char *s, size_t n);
bool utf8_is_valid(const char *s, size_t n);

/*
 * True for what must not reach a terminal raw: control characters, line
 * separators, bidirectional and invisible characters, noncharacters.
 */
bool utf8_is_hidden(uint32_t cp);

#endif
