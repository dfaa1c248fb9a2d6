/*
 * The tier of a host command. In tier A namespaces keep it in; where a user may
 * make none (AppArmor's restriction of Ubuntu, a container's filter) tier C has
 * Landlock, a filter and the supervisor.
 */
#include <errno.h>

#include "base/error.h"
#include "sandbox/check.h"
#include "sandbox/host.h"

/* All that a run makes: without one of them it fails later. */
static bool can_make_namespaces(const struct host_context *h)
{
	struct probe_namespaces p;

	if (!probe_doubts(h->privileged, h->initial))
		return true;
	if (probe_namespaces(h->privileged, &p) < 0)
		return true;
	return !p.user && !p.mount && !p.proc;
}

static int refuse(const struct request *r, struct error *err)
{
	(void)error_say(err, ERR_UNSUPPORTED, ENOTSUP,
			r->isolation == ISOLATION_NOTIFY
				? "--isolation=notify: commands of the host "
				  "take namespaces"
				: "namespaces cannot be made here");
	return error_hint(err, r->isolation == ISOLATION_NOTIFY
				       ? "drop it"
				       : "`sandlock check` says why, and what "
					 "to do about it");
}

int host_find_tier(struct host_context *h, struct error *err)
{
	switch (h->request->isolation) {
	case ISOLATION_NAMESPACES:
		return 0;
	case ISOLATION_AUTO:
		h->notify = !can_make_namespaces(h);
		break;
	case ISOLATION_NOTIFY:
		h->notify = true;
		break;
	}
	return h->notify ? refuse(h->request, err) : 0;
}
