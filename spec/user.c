#include <errno.h>

#include "base/error.h"
#include "spec/parse.h"

/*
 * The whole of the digits at *@s, below 2^32-1 (which is no id). Strict: what
 * is no number is never taken for root (CVE-2026-30892).
 */
static bool read_id(const char **s, uint32_t *ret)
{
	uint64_t v = 0;
	const char *p = *s;

	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v >= UINT32_MAX)
			return false;
	}
	if (p == *s)
		return false;
	*s = p;
	*ret = (uint32_t)v;
	return true;
}

int spec_user_parse(const char *text, uid_t *ret_uid, bool *ret_has_gid,
		    gid_t *ret_gid, struct error *err)
{
	const char *s = text;
	uint32_t uid, gid = 0;
	bool ok = read_id(&s, &uid);
	bool has_gid = ok && *s == ':';

	if (has_gid) {
		s++;
		ok = read_id(&s, &gid);
	}
	if (!ok || *s) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'%s' is no user of the form UID[:GID]",
				SHOWN(text));
		return error_hint(err, "names are not looked up, give numbers");
	}
	*ret_uid = uid;
	*ret_has_gid = has_gid;
	if (has_gid)
		*ret_gid = gid;
	return 0;
}
