/*
 * Confining a thread that stays where it is: what Landlock and a filter can do
 * without namespaces, a branch or a supervisor. What they cannot is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/landlock.h"
#include "kernel/seccomp.h"
#include "policy/syscalls.h"
#include "sandbox/confine.h"
#include "sandbox/host.h"
#include "spec/request.h"

/* Files that everything needs, and that lead nowhere. */
static const char *const devices[] = {
	"/dev/null",   "/dev/zero",    "/dev/full",
	"/dev/random", "/dev/urandom", "/dev/tty",
};

/* clang-format off */
static const char *const keys[] = {
	"filesystem.read", "filesystem.write", "syscalls.extra_allow",
	"syscalls.extra_deny", "allow_degraded", "disable",
	/* There is no branch, and nothing becomes of it. */
	"config.branch", "filesystem.on_exit", "filesystem.on_error",
};
/* clang-format on */

static int check_key(void *data, const char *key, const char *value)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i], key) == 0)
			return 0;
	(void)error_say(data, ERR_UNSUPPORTED, ENOTSUP,
			"a thread cannot be confined by '%s'", key);
	return error_hint(data, "run a command in a sandbox for that");
}

static struct landlock_rule rule(const char *path, unsigned int access,
				 bool optional)
{
	return (struct landlock_rule){
		.path = path,
		.fd = -1,
		.access = access,
		.optional = optional,
	};
}

/* Read-only without a rule of its own: the system. */
static size_t fill_rules(const struct request *r, struct landlock_rule *v)
{
	const unsigned int use =
		LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_IOCTL;
	const unsigned int read = LANDLOCK_READ | LANDLOCK_EXEC;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		v[n++] = rule(devices[i], use, true);
	for (size_t i = 0; i < r->read.n; i++)
		v[n++] = rule(r->read.v[i], read, false);
	for (size_t i = 0; i < r->write.n; i++)
		v[n++] = rule(r->write.v[i], LANDLOCK_ALL, false);
	for (size_t i = 0; !r->read.n && host_system_paths[i]; i++)
		v[n++] = rule(host_system_paths[i], read, true);
	return n;
}

static int restrict_files(const struct request *r, struct error *err)
{
	struct landlock_rules rules = {
		.allow_degraded = r->allow_degraded,
		.disabled = r->disabled,
	};
	auto_free struct landlock_rule *v = NULL;
	size_t n = ARRAY_LEN(devices) + r->read.n + r->write.n;

	for (size_t i = 0; host_system_paths[i]; i++)
		n++;
	v = calloc(n, sizeof(*v));
	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "Landlock");
	rules.n_paths = fill_rules(r, v);
	rules.paths = v;
	return landlock_restrict(&rules, err);
}

int confine_thread(const struct request *r, const struct log_sink *log,
		   struct error *err)
{
	struct spec_seccomp filter = { .n_rules = 0 };
	struct seccomp_program program = { .n_insns = 0 };
	auto_free char *cache = NULL;
	int n = request_each(r, check_key, err);

	if (n == 0)
		n = landlock_check(r->allow_degraded, r->disabled, err);
	if (n == 0)
		n = policy_thread_filter(r, &filter, err);
	if (n < 0)
		return n;
	if (seccomp_cache_dir(&cache) < 0)
		cache = NULL;
	n = seccomp_program_get(&filter, cache, log, &program, err);
	spec_seccomp_done(&filter);
	if (n == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		n = error_set(err, ERR_SYSTEM, errno,
			      "cannot set no_new_privs");
	if (n == 0)
		n = restrict_files(r, err);
	if (n == 0)
		n = seccomp_program_load(&program, err);
	seccomp_program_done(&program);
	return n < 0 ? n : 0;
}
