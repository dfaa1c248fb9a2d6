#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/utc.h"
#include "supervise/approvals.h"

enum { WHAT_MAX = 512 };

const char *approval_digest(const struct approval_info *i,
			    char made[EVENT_DIGEST_LEN + 1])
{
	if (*i->digest)
		return i->digest;
	event_digest(i->event, made);
	return made;
}

/* "waiting", "allowed", "denied", "expired", "withdrawn". */
static const char *state_name(const struct approval_info *i)
{
	switch (i->state) {
	case APPROVAL_WAITING:
		return "waiting";
	case APPROVAL_ANSWERED:
		return i->error ? "denied" : "allowed";
	case APPROVAL_EXPIRED:
		return "expired";
	case APPROVAL_CANCELLED:
		return "withdrawn";
	}
	return "withdrawn";
}

void approval_to_json(const struct approval_info *i, struct json_out *o)
{
	uint64_t now = clock_now_ns();
	auto_(buf) struct buf what = BUF_INIT;
	char answer[32], made[EVENT_DIGEST_LEN + 1];
	const char *digest = approval_digest(i, made);
	bool cut = false;

	event_describe(i->event, WHAT_MAX, &what, &cut);
	(void)snprintf(answer, sizeof(answer), "%llu-%.*s",
		       (unsigned long long)i->id, (int)APPROVAL_PREFIX_MIN,
		       digest);
	json_out_object(o);
	json_out_str_member(o, "id", answer);
	json_out_uint_member(o, "number", i->id);
	json_out_str_member(o, "digest", digest);
	json_out_str_member(o, "state", state_name(i));
	json_out_str_member(o, "what", buf_str(&what));
	if (cut)
		json_out_bool_member(o, "what_cut", true);
	json_out_uint_member(o, "count", i->count);
	utc_member(o, "asked", &i->asked, 0);
	if (i->state == APPROVAL_WAITING)
		json_out_uint_member(o, "seconds_left",
				     now < i->deadline_ns ? (i->deadline_ns -
							     now) / 1000000000
							  : 0);
	else
		utc_member(o, "closed", &i->closed, 0);
	if (i->rule)
		json_out_str_member(o, "rule", i->rule);
	if (i->state == APPROVAL_ANSWERED) {
		json_out_str_member(o, "by", i->who);
		if (i->error)
			json_out_str_member(o, "errno",
					    strerrorname_np(i->error));
		if (i->reason)
			json_out_str_member(o, "reason", i->reason);
	}
	if (i->state == APPROVAL_EXPIRED) {
		json_out_str_member(o, "by", "deadline");
		json_out_str_member(o, "errno", strerrorname_np(i->error));
		json_out_str_member(o, "reason",
				    i->is_open
					    ? "nobody answered in time"
					    : "nobody answered in time; "
					      "too many questions were open");
	}
	json_out_key(o, "event");
	json_out_object(o);
	event_to_json(i->event, o);
	json_out_object_end(o);
	json_out_object_end(o);
}
