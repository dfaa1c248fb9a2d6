/* System calls that an embedder may handle. */
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/nearest.h"
#include "policy/syscalls.h"
#include "spec/request.h"

/* System call numbers of every architecture are below this. */
enum { NUMBERS = 1024 };

/* clang-format off */
static const struct {
	const char *name, *why;
} never[] = {
	{ "close",           "no program expects that it waits or fails" },
	{ "close_range",     "no program expects that it waits or fails" },
	{ "wait4",           "a program that waits must hear of its signals" },
	{ "waitid",          "a program that waits must hear of its signals" },
	{ "exit",            "what ends is not held up (a pidfd tells of it)" },
	{ "exit_group",      "what ends is not held up (a pidfd tells of it)" },
	{ "rt_sigreturn",    "it is part of how the kernel delivers signals" },
	{ "restart_syscall", "it is part of how the kernel delivers signals" },
	{ "preadv2",         "a command is started with it" },
	{ "pwritev2",        "a command is started with it" },
};
/* clang-format on */

int policy_syscall_number(const char *name)
{
	int nr = seccomp_syscall_resolve_name(name);

	/* Negative: of another architecture only. */
	return nr < 0 || nr >= NUMBERS ? -1 : nr;
}

char *policy_syscall_name(int nr)
{
	if (nr < 0 || nr >= NUMBERS)
		return NULL;
	return seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
}

static const char *nth_name(const void *v, size_t i)
{
	return ((char *const *)v)[i];
}

static int say_unknown(const char *name, struct error *err)
{
	char **v = calloc(NUMBERS, sizeof(*v));
	const char *meant;

	(void)error_say(err, ERR_USAGE, EINVAL,
			"'%.64s' is no system call of this machine", name);
	for (int i = 0; v && i < NUMBERS; i++)
		v[i] = policy_syscall_name(i);
	meant = v ? nearest_word(name, nth_name, v, NUMBERS) : NULL;
	if (meant)
		(void)error_hint(err, "did you mean '%s'?", meant);
	for (int i = 0; v && i < NUMBERS; i++)
		free(v[i]);
	free(v);
	return -EINVAL;
}

/* By the table as a whole, or by name. */
static bool is_refused(const struct request *r, unsigned int shared,
		       const char *name, struct syscall_refusal *ret)
{
	return policy_refusal(r, shared, name, NULL, ret) &&
	       !(ret->row && ret->row->n_args);
}

/* Whoever starts the command has to do without what is handled. */
static int check_start(const struct request *r, unsigned int shared,
		       const char *name, struct error *err)
{
	struct syscall_refusal why;

	if (strcmp(name, "read") != 0 && strcmp(name, "write") != 0)
		return 0;
	if (!is_refused(r, shared, "preadv2", &why) &&
	    !is_refused(r, shared, "pwritev2", &why))
		return 0;
	return error_say(err, ERR_USAGE, EINVAL,
			 "'%s' cannot be handled while '%s' is denied: nothing "
			 "would run",
			 name, why.extra);
}

int policy_check_handled(const struct request *r, unsigned int shared,
			 const char *name, struct error *err)
{
	struct syscall_refusal why;

	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (strcmp(never[i].name, name) == 0)
			return error_say(err, ERR_USAGE, EINVAL,
					 "the system call '%s' cannot be "
					 "handled: %s",
					 name, never[i].why);
	if (policy_syscall_number(name) < 0)
		return say_unknown(name, err);
	if (r->bundle || !is_refused(r, shared, name, &why))
		return check_start(r, shared, name, err);
	(void)error_say(err, ERR_USAGE, EINVAL,
			"the system call '%s' is refused here, so that it "
			"never gets to a handler",
			name);
	if (why.row && syscall_groups[why.row->group].optional)
		return error_hint(err, "allow '%s' in syscalls.extra_allow",
				  syscall_groups[why.row->group].name);
	return error_hint(err, "by %s",
			  why.row ? syscall_groups[why.row->group].name
				  : "syscalls.extra_deny");
}
