#include "base/utc.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"

const char *utc_text(const struct timespec *t, int digits, char ret[UTC_MAX])
{
	char day[32], fraction[16];
	struct tm tm;

	if (!gmtime_r(&t->tv_sec, &tm) ||
	    !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm)) {
		(void)snprintf(ret, UTC_MAX, "-");
		return ret;
	}
	(void)snprintf(fraction, sizeof(fraction), ".%09ld", t->tv_nsec);
	(void)snprintf(ret, UTC_MAX, "%s%.*sZ", day, digits ? digits + 1 : 0,
		       fraction);
	return ret;
}

void utc_member(struct json_out *o, const char *key, const struct timespec *t,
		int digits)
{
	char text[UTC_MAX];

	json_out_str_member(o, key, utc_text(t, digits, text));
}
