#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void log_write(const struct log_sink *sink, enum log_level level,
	       const char *fmt, ...)
{
	static const char mark[] = "...";
	char msg[2048];
	va_list ap;
	int n;

	if (!sink || !sink->write)
		return;
	va_start(ap, fmt);
	n = vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n >= sizeof(msg))
		memcpy(msg + sizeof(msg) - sizeof(mark), mark, sizeof(mark));
	sink->write(sink->data, level, msg);
}
