/*
 * The tier of a host command. In tier A namespaces keep it in; where a user may
 * make none (AppArmor's restriction of Ubuntu, a container's filter) tier C has
 * Landlock, a filter and the supervisor. What those cannot do is refused here,
 * with the option that asks for it: nothing of it is left out silently.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/landlock.h"
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

static bool wants_other_user(const struct request *r)
{
	return r->has_user && (r->uid != geteuid() || r->gid != getegid());
}

static bool allows(const struct request *r, const char *group)
{
	for (size_t i = 0; i < r->extra_allow.n; i++)
		if (strcmp(r->extra_allow.v[i], group) == 0)
			return true;
	return false;
}

static bool wants_chroot(const struct request *r)
{
	return r->chroot;
}

static bool has_no_supervisor(const struct request *r)
{
	return r->no_supervisor;
}

static bool wants_sysv(const struct request *r)
{
	return allows(r, "sysv_ipc");
}

static bool wants_keys(const struct request *r)
{
	return allows(r, "keys");
}

static bool wants_io_uring(const struct request *r)
{
	return allows(r, "io_uring");
}

/* Nothing else keeps what is inside from the guard that holds it together. */
static bool waives_signals(const struct request *r)
{
	return (r->allow_degraded | r->disabled) &
	       UINT32_C(1) << PROTECT_SIGNAL_SCOPE;
}

/* clang-format off */
static const struct {
	bool (*wants)(const struct request *r);
	const char *what, *why, *hint;
} refusals[] = {
	{ has_no_supervisor, "--no-supervisor", "only the supervisor keeps it off the network",
	  "drop --no-supervisor" },
	{ wants_chroot, "--chroot", "a root of its own takes a mount namespace, for the kernel looks "
	  "up interpreters and links of /proc by itself",
	  "-r and -w say what of the host's root may be read and written" },
	{ wants_other_user, "--user", "the supervisor reads what its own user's processes ask",
	  "run sandlock itself as that user: setpriv --reuid=UID --regid=GID --clear-groups sandlock run" },
	{ wants_sysv, "--extra-allow-syscall sysv_ipc", "those objects would be the host's",
	  "drop it: pipes and shared mappings work" },
	{ wants_keys, "--extra-allow-syscall keys", "the keyrings would be the host's",
	  "drop it" },
	{ wants_io_uring, "--extra-allow-syscall io_uring", "its calls are made where no supervisor sees them",
	  "drop it: programs fall back to other calls" },
	{ waives_signals, "to waive signal-scope", "it is what holds the processes together",
	  "drop it; the protection takes Linux 6.12" },
};
/* clang-format on */

static int refuse(const struct request *r, size_t i, struct error *err)
{
	(void)error_say(err, ERR_UNSUPPORTED, ENOTSUP,
			r->isolation == ISOLATION_NOTIFY
				? "%s cannot be had with --isolation=notify: "
				  "%s"
				: "%s cannot be had here, where no namespaces "
				  "can be made: %s",
			refusals[i].what, refusals[i].why);
	return error_hint(err,
			  r->isolation == ISOLATION_NOTIFY
				  ? "%s"
				  : "%s; `sandlock check` says what "
				    "forbids namespaces",
			  refusals[i].hint);
}

/* Yama: 1 lets ancestors look into a process, which we are; more does not. */
static int check_yama(struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", 16,
			 &b) < 0 ||
	    buf_str(&b)[0] < '2')
		return 0;
	(void)error_say(err, ERR_UNSUPPORTED, EPERM,
			"kernel.yama.ptrace_scope is %c: a supervisor cannot "
			"read what is asked of it",
			buf_str(&b)[0]);
	return error_hint(err, "sysctl -w kernel.yama.ptrace_scope=1");
}

/* What rules allow is done with a duplicate of the caller's socket. */
static int check_getfd(const struct request *r, struct error *err)
{
	bool has_rules = r->net_allow.n || r->net_deny.n || r->bind_allow.n ||
			 r->bind_deny.n || r->port_remap || r->ask_connect.n;
	int why = has_rules ? probe_getfd() : 0;

	if (!why)
		return 0;
	(void)error_set(err, ERR_UNSUPPORTED, why,
			"without namespaces network rules need pidfd_getfd");
	return error_hint(err, "a container needs --cap-add SYS_PTRACE, or a "
			       "seccomp profile that allows it");
}

int host_check_notify(const struct request *r, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
		if (refusals[i].wants(r))
			return refuse(r, i, err);
	return 0;
}

static int check_notify(const struct request *r, struct error *err)
{
	int n = host_check_notify(r, err);

	if (n == 0)
		n = check_yama(err);
	if (n == 0)
		n = check_getfd(r, err);
	if (n == 0)
		n = landlock_check(r->allow_degraded, r->disabled, err);
	return n;
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
	return h->notify ? check_notify(h->request, err) : 0;
}
