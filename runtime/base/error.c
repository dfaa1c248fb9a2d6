#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Not strerror: it may allocate, and error_set works after fork too. */
static const char *sys_text(int sys)
{
#ifdef __GLIBC__
	const char *text = strerrordesc_np(sys);

	return text ? text : "unknown error";
#else
	return strerror(sys);
#endif
}

/* A cut text must not end inside of a UTF-8 sequence. */
static void trim_partial(char *text, size_t size)
{
	size_t len = strnlen(text, size);
	size_t lead = len;
	uint32_t cp;

	if (len + 1 < size)
		return;
	while (lead > 0 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
		lead--;
	if (lead > 0 && !utf8_decode(text + lead - 1, len - lead + 1, &cp))
		text[lead - 1] = '\0';
}

/* By way of @tmp: an argument may point into @dst. */
__attribute__((format(printf, 3, 0))) static void
format_text(char *dst, size_t size, const char *fmt, va_list ap)
{
	char tmp[ERROR_MSG_MAX];

	(void)vsnprintf(tmp, size, fmt, ap);
	trim_partial(tmp, size);
	memcpy(dst, tmp, size);
}

static void append_text(char *msg, const char *text)
{
	size_t len = strlen(msg);
	size_t n = strnlen(text, ERROR_MSG_MAX - 1 - len);

	memcpy(msg + len, text, n);
	msg[len + n] = '\0';
	trim_partial(msg, ERROR_MSG_MAX);
}

__attribute__((format(printf, 4, 0))) static int fill(struct error *err,
						      enum error_kind kind,
						      int sys, const char *fmt,
						      va_list ap)
{
	if (err) {
		format_text(err->msg, sizeof(err->msg), fmt, ap);
		err->kind = kind;
		err->sys = sys;
		err->hint[0] = '\0';
	}
	return sys ? -sys : -EINVAL;
}

int error_set(struct error *err, enum error_kind kind, int sys, const char *fmt,
	      ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = fill(err, kind, sys, fmt, ap);
	va_end(ap);
	if (err && sys) {
		append_text(err->msg, ": ");
		append_text(err->msg, sys_text(sys));
	}
	return r;
}

int error_say(struct error *err, enum error_kind kind, int sys, const char *fmt,
	      ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = fill(err, kind, sys, fmt, ap);
	va_end(ap);
	return r;
}

int error_hint(struct error *err, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		format_text(err->hint, sizeof(err->hint), fmt, ap);
		va_end(ap);
	}
	return error_code(err);
}

int error_wrap(struct error *err, const char *fmt, ...)
{
	char msg[ERROR_MSG_MAX];
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		format_text(msg, sizeof(msg), fmt, ap);
		va_end(ap);
		append_text(msg, ": ");
		append_text(msg, err->msg);
		memcpy(err->msg, msg, sizeof(msg));
	}
	return error_code(err);
}

int error_code(const struct error *err)
{
	return err && err->sys ? -err->sys : -EINVAL;
}
