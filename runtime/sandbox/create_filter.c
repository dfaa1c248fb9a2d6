/* The filters of system calls that a sandbox, and what exec starts, gets. */
#include <errno.h>
#include <seccomp.h>

#include "base/error.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/launcher.h"

static int compile(const struct spec_seccomp *s, const struct log_sink *log,
		   struct seccomp_program *ret, struct error *err)
{
	auto_free char *dir = NULL;

	if (seccomp_cache_dir(&dir) < 0)
		dir = NULL;
	return seccomp_program_get(s, dir, log, ret, err);
}

int create_get_filter(const struct spec *s, const struct log_sink *log,
		      struct seccomp_program *ret, int *ret_fd,
		      struct error *err)
{
	int r = compile(s->seccomp, log, ret, err);

	if (r < 0 || !ret->n_insns)
		return r;
	if (ret->has_notify && !s->seccomp->listener_path)
		return error_say(
			err, ERR_BUNDLE, EINVAL,
			"linux.seccomp.listenerPath is not set, but an "
			"action is SCMP_ACT_NOTIFY");
	return launcher_filter(ret, ret_fd, err);
}

int create_get_traps(unsigned int traps, struct seccomp_program *ret,
		     struct error *err)
{
	int native[16], other[16];
	const struct seccomp_numbers v[] = {
		{ seccomp_arch_native(), native,
		  policy_trap_numbers(traps, native, ARRAY_LEN(native)) },
		{ policy_arch_32(), other,
		  policy_trap_numbers_32(traps, other, ARRAY_LEN(other)) },
	};

	return v[0].n ? seccomp_program_listen(v, ret, err) : 0;
}

int create_get_judged(const struct request *r, unsigned int traps,
		      const struct log_sink *log, struct seccomp_program *ret,
		      int *ret_fd, struct error *err)
{
	struct spec_seccomp s;
	int n = policy_trap_filter(r, traps, &s, err);

	if (n < 0)
		return n;
	n = compile(&s, log, ret, err);
	spec_seccomp_done(&s);
	return n < 0 ? n : launcher_filter(ret, ret_fd, err);
}
