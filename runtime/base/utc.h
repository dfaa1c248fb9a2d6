/* Times as RFC 3339 writes them, in UTC: "2026-01-31T12:00:00Z". */
#ifndef SANDLOCK_BASE_UTC_H
#define SANDLOCK_BASE_UTC_H

struct json_out;
struct timespec;

enum { UTC_MAX = 48 };

/* With 0, 3 or 9 @digits of a second; "-" where there is no such year. */
const char *utc_text(const struct timespec *t, int digits, char ret[UTC_MAX]);
void utc_member(struct json_out *o, const char *key, const struct timespec *t,
		int digits);

#endif
