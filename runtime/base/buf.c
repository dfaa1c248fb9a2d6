#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST = 64 };

/* Makes room for @extra bytes and the NUL. */
static bool reserve(struct buf *b, size_t extra)
{
	size_t need, cap;
	char *data;

	if (b->failed)
		return false;
	if (__builtin_add_overflow(b->len, extra, &need) ||
	    need >= SIZE_MAX / 2) {
		b->failed = true;
		return false;
	}
	if (need < b->cap)
		return true;
	cap = b->cap ? b->cap : BUF_FIRST;
	while (cap <= need)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!reserve(b, len))
		return;
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

char *buf_extend(struct buf *b, size_t len)
{
	char *at;

	if (!reserve(b, len))
		return NULL;
	at = b->data + b->len;
	b->len += len;
	b->data[b->len] = '\0';
	return at;
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_add_uint(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(b, digits + at, sizeof(digits) - at);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	size_t room;
	int n;

	if (!reserve(b, 0))
		return;
	room = b->cap - b->len;
	va_copy(again, ap);
	n = vsnprintf(b->data + b->len, room, fmt, ap);
	if (n < 0)
		b->failed = true;
	else if ((size_t)n >= room && reserve(b, (size_t)n))
		(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
	va_end(again);
	if (b->failed)
		b->data[b->len] = '\0';
	else
		b->len += (size_t)n;
}

bool buf_failed(const struct buf *b)
{
	return b->failed;
}

char *buf_take(struct buf *b, size_t *ret_len)
{
	size_t len;
	char *data;

	if (!reserve(b, 0)) {
		buf_done(b);
		return NULL;
	}
	b->data[b->len] = '\0';
	data = b->data;
	len = b->len;
	*b = (struct buf)BUF_INIT;
	if (ret_len)
		*ret_len = len;
	return data;
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_join_words(char *const *words)
{
	struct buf b = BUF_INIT;

	for (; words && *words; words++) {
		if (b.len)
			buf_add_char(&b, ' ');
		buf_add_str(&b, *words);
	}
	return buf_take(&b, NULL);
}
