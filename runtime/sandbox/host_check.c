/*
 * What a request alone shows to be impossible, whatever the machine: what is
 * found here is what `profile check` says, and the first that a run looks at.
 */
#include <errno.h>

#include "base/error.h"
#include "policy/ask.h"
#include "policy/syscalls.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"

static int check_command(const struct request *r, struct error *err)
{
	const struct host_context h = {
		.request = r,
		.notify = r->isolation == ISOLATION_NOTIFY,
		.shared_network =
			r->isolation == ISOLATION_NOTIFY || net_is_shared(r),
		/* As it was given: its real path is not needed. */
		.chroot = r->chroot,
		.workdirs = r->workdirs,
	};
	struct net_rules net = { .connect.n = 0 };
	int n = h.notify ? host_check_notify(r, err) : 0;

	if (n == 0)
		n = host_check_quota(&h, err);
	if (n == 0)
		n = host_read_rules(&h, &net, err);
	net_rules_done(&net);
	return n < 0 ? n : mediate_check(&h, err);
}

static int check_bundle(const struct request *r, struct error *err)
{
	if (!r->no_supervisor || !policy_is_judged(r))
		return 0;
	(void)error_say(err, ERR_USAGE, EINVAL,
			"nobody can decide about the system calls of this "
			"bundle: --no-supervisor");
	return error_hint(err, "leave one of the two out");
}

int host_check(const struct request *r, struct error *err)
{
	int n = request_check(r, err);

	if (n == 0)
		n = policy_check_names(r, err);
	if (n == 0)
		n = ask_check_paths(&r->ask_exec, "ask.exec", err);
	if (n == 0)
		n = ask_check_paths(&r->ask_open, "ask.open", err);
	if (n < 0)
		return n;
	return r->bundle ? check_bundle(r, err) : check_command(r, err);
}
