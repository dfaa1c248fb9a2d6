#include "base/utc.h"

#include <time.h>

#include "base/json.h"

/* The last @width digits of @v. */
static char *put(char *at, unsigned long v, int width, char behind)
{
	for (int i = width; i-- > 0; v /= 10)
		at[i] = (char)('0' + v % 10);
	at[width] = behind;
	return at + width + 1;
}

const char *utc_text(const struct timespec *t, int digits, char ret[UTC_MAX])
{
	unsigned long fraction = (unsigned long)t->tv_nsec;
	char *at = ret;
	struct tm tm;

	if (!gmtime_r(&t->tv_sec, &tm) || tm.tm_year < -1900 ||
	    tm.tm_year > 9999 - 1900) {
		ret[0] = '-';
		ret[1] = '\0';
		return ret;
	}
	at = put(at, (unsigned long)tm.tm_year + 1900, 4, '-');
	at = put(at, (unsigned long)tm.tm_mon + 1, 2, '-');
	at = put(at, (unsigned long)tm.tm_mday, 2, 'T');
	at = put(at, (unsigned long)tm.tm_hour, 2, ':');
	at = put(at, (unsigned long)tm.tm_min, 2, ':');
	at = put(at, (unsigned long)tm.tm_sec, 2, digits ? '.' : 'Z');
	for (int i = digits; i < 9; i++)
		fraction /= 10;
	if (digits)
		at = put(at, fraction, digits, 'Z');
	*at = '\0';
	return ret;
}

void utc_member(struct json_out *o, const char *key, const struct timespec *t,
		int digits)
{
	char text[UTC_MAX];

	json_out_str_member(o, key, utc_text(t, digits, text));
}
