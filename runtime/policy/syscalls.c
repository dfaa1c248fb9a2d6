#include "policy/syscalls.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "spec/request.h"

#define ALL_NAMESPACES                                             \
	((uint64_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | \
		    CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
		    CLONE_NEWNET))

struct trap_row {
	const char *name;
	unsigned int traps;
	const struct spec_seccomp_arg *args;
	size_t n_args;
};

/*
 * Disjoint from what the table refuses of clone: libseccomp takes no two
 * actions for one call.
 */
static const struct spec_seccomp_arg no_thread[] = {
	{ 0, CLONE_THREAD | ALL_NAMESPACES, 0, SCMP_CMP_MASKED_EQ },
};
static const struct spec_seccomp_arg of_others[] = {
	{ 0, 0, 0, SCMP_CMP_NE },
};
/* On a connected socket there is nothing to judge; nobody asks who sent. */
static const struct spec_seccomp_arg with_address[] = {
	{ 4, 0, 0, SCMP_CMP_NE },
};

/* clang-format off */
static const struct trap_row trap_rows[] = {
	{ "rename",      TRAP_RENAME | TRAP_COW },
	{ "renameat",    TRAP_RENAME | TRAP_COW },
	{ "renameat2",   TRAP_RENAME | TRAP_COW },
	{ "connect",     TRAP_NETWORK | TRAP_CONNECT },
	{ "sendto",      TRAP_NETWORK, with_address, ARRAY_LEN(with_address) },
	{ "sendmsg",     TRAP_NETWORK },
	{ "sendmmsg",    TRAP_NETWORK },
	{ "bind",        TRAP_BIND | TRAP_PORTS | TRAP_OWN_BIND },
	{ "listen",      TRAP_BIND | TRAP_PORTS },
	{ "getsockname", TRAP_PORTS },
	{ "getpeername", TRAP_PORTS },
	{ "recvfrom",    TRAP_PORTS, with_address, ARRAY_LEN(with_address) },
	{ "recvmsg",     TRAP_PORTS },
	{ "recvmmsg",    TRAP_PORTS },
	{ "clone",       TRAP_FORK, no_thread, ARRAY_LEN(no_thread) },
	{ "fork",        TRAP_FORK },
	{ "vfork",       TRAP_FORK },
	{ "execve",      TRAP_EXEC | TRAP_COW },
	{ "execveat",    TRAP_EXEC | TRAP_COW },
	{ "open",        TRAP_OPEN | TRAP_COW },
	{ "openat",      TRAP_OPEN | TRAP_COW },
	{ "openat2",     TRAP_OPEN | TRAP_COW },
	{ "creat",       TRAP_OPEN | TRAP_COW },
	{ "shmget",      TRAP_MEMORY },
	{ "msgget",      TRAP_MEMORY },
	{ "semget",      TRAP_MEMORY },
	{ "memfd_create", TRAP_MEMORY },
	{ "landlock_restrict_self", TRAP_OPENER },
	{ "setgroups", TRAP_OPENER },
	{ "chroot", TRAP_OPENER },
	{ "pivot_root", TRAP_OPENER },
	{ "setns", TRAP_OPENER },
	{ "unshare", TRAP_OPENER },
	{ "chmod",       TRAP_METADATA | TRAP_COW },
	{ "fchmod",      TRAP_METADATA | TRAP_COW },
	{ "fchmodat",    TRAP_METADATA | TRAP_COW },
	{ "fchmodat2",   TRAP_METADATA | TRAP_COW },
	{ "chown",       TRAP_METADATA | TRAP_COW },
	{ "lchown",      TRAP_METADATA | TRAP_COW },
	{ "fchown",      TRAP_METADATA | TRAP_COW },
	{ "fchownat",    TRAP_METADATA | TRAP_COW },
	{ "utime",       TRAP_METADATA | TRAP_COW },
	{ "utimes",      TRAP_METADATA | TRAP_COW },
	{ "futimesat",   TRAP_METADATA | TRAP_COW },
	{ "utimensat",   TRAP_METADATA | TRAP_COW },
	{ "setxattr",    TRAP_METADATA | TRAP_COW },
	{ "lsetxattr",   TRAP_METADATA | TRAP_COW },
	{ "fsetxattr",   TRAP_METADATA | TRAP_COW },
	{ "removexattr", TRAP_METADATA | TRAP_COW },
	{ "lremovexattr", TRAP_METADATA | TRAP_COW },
	{ "fremovexattr", TRAP_METADATA | TRAP_COW },
	{ "sched_setaffinity", TRAP_TASKS, of_others, ARRAY_LEN(of_others) },
	{ "sched_setscheduler", TRAP_TASKS, of_others, ARRAY_LEN(of_others) },
	{ "sched_setparam", TRAP_TASKS, of_others, ARRAY_LEN(of_others) },
	{ "sched_setattr", TRAP_TASKS, of_others, ARRAY_LEN(of_others) },
	{ "stat", TRAP_COW },
	{ "lstat", TRAP_COW },
	{ "access", TRAP_COW },
	{ "readlink", TRAP_COW },
	{ "mkdir", TRAP_COW },
	{ "mknod", TRAP_COW },
	{ "symlink", TRAP_COW },
	{ "unlink", TRAP_COW },
	{ "rmdir", TRAP_COW },
	{ "link", TRAP_COW },
	{ "getdents", TRAP_COW },
	{ "newfstatat", TRAP_COW },
	{ "statx", TRAP_COW },
	{ "faccessat", TRAP_COW },
	{ "faccessat2", TRAP_COW },
	{ "readlinkat", TRAP_COW },
	{ "statfs", TRAP_COW },
	{ "getxattr", TRAP_COW },
	{ "lgetxattr", TRAP_COW },
	{ "listxattr", TRAP_COW },
	{ "llistxattr", TRAP_COW },
	{ "fgetxattr", TRAP_COW },
	{ "flistxattr", TRAP_COW },
	{ "getxattrat", TRAP_COW },
	{ "listxattrat", TRAP_COW },
	{ "inotify_add_watch", TRAP_COW },
	{ "name_to_handle_at", TRAP_COW },
	{ "mkdirat", TRAP_COW },
	{ "mknodat", TRAP_COW },
	{ "symlinkat", TRAP_COW },
	{ "unlinkat", TRAP_COW },
	{ "linkat", TRAP_COW },
	{ "truncate", TRAP_COW },
	{ "setxattrat", TRAP_COW },
	{ "removexattrat", TRAP_COW },
	{ "chdir", TRAP_COW },
	{ "getcwd", TRAP_COW },
	{ "getdents64", TRAP_COW },
};

/* Without these a program cannot even end: never to be denied. */
static const char *const needed[] = {
	"execve", "execveat", "exit", "exit_group", "rt_sigreturn", "read",
	"write", "mmap", "brk", "close",
};
/* clang-format on */

static int find_group(const char *name)
{
	for (int i = 0; i < SYSCALLS_GROUPS; i++)
		if (strcmp(syscall_groups[i].name, name) == 0)
			return i;
	return -1;
}

static bool is_listed(const struct spec_strings *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->v[i], name) == 0)
			return true;
	return false;
}

/* A name is known if libseccomp of this build can resolve it. */
static bool is_syscall(const char *name)
{
	return seccomp_syscall_resolve_name(name) != __NR_SCMP_ERROR;
}

static void list_optional(char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < SYSCALLS_GROUPS; i++) {
		if (syscall_groups[i].optional && used < size)
			used += (size_t)snprintf(text + used, size - used,
						 "%s%s", used ? ", " : "",
						 syscall_groups[i].name);
	}
}

static int check_allowed(const struct request *r, struct error *err)
{
	char optional[128];

	for (size_t i = 0; i < r->extra_allow.n; i++) {
		const char *name = r->extra_allow.v[i];
		int group = find_group(name);

		if (group >= 0 && syscall_groups[group].optional)
			continue;
		list_optional(optional, sizeof(optional));
		if (group >= 0)
			(void)error_say(err, ERR_USAGE, EINVAL,
					"the system calls of '%s' cannot be "
					"allowed: %s",
					name, syscall_groups[group].why);
		else
			(void)error_say(err, ERR_USAGE, EINVAL,
					"'%s' is no group of system calls",
					name);
		return error_hint(err, "these can be allowed: %s", optional);
	}
	return 0;
}

static int check_denied(const struct request *r, struct error *err)
{
	for (size_t i = 0; i < r->extra_deny.n; i++) {
		const char *name = r->extra_deny.v[i];

		for (size_t j = 0; j < ARRAY_LEN(needed); j++)
			if (strcmp(name, needed[j]) == 0)
				return error_say(err, ERR_USAGE, EINVAL,
						 "the system call '%s' cannot "
						 "be denied: nothing would run",
						 name);
		if (find_group(name) < 0 && !is_syscall(name))
			return error_say(err, ERR_USAGE, EINVAL,
					 "'%s' is neither a system call nor a "
					 "group of them",
					 name);
	}
	return 0;
}

static bool is_handled(const struct request *r, unsigned int traps,
		       const char *name)
{
	return (traps & TRAP_HANDLED) && is_listed(&r->handled, name);
}

/*
 * Of a bundle, where @traps are decided about: what would get past a decision.
 * A path is what was decided about only where mounts are what they were, and a
 * call is carried out as its caller only in the user namespace of all.
 */
static bool is_past(const struct syscall_row *row, const struct request *r,
		    unsigned int traps)
{
	bool by_path = traps & (TRAP_EXEC | TRAP_OPEN);
	bool by_address = traps & TRAP_NETWORK;

	if (is_listed(&r->handled, row->name))
		return false;
	switch (row->group) {
	case SYSCALLS_IO_URING:
		return true;
	case SYSCALLS_NAMESPACE:
		return by_path || by_address;
	case SYSCALLS_MOUNT:
	case SYSCALLS_HANDLES:
		return by_path;
	case SYSCALLS_NETWORK:
		/* The others only look at interfaces. */
		return by_address && strcmp(row->name, "ioctl") != 0;
	case SYSCALLS_KERNEL:
	case SYSCALLS_CLOCK:
	case SYSCALLS_DEBUG:
	case SYSCALLS_KEYS:
	case SYSCALLS_SYSV_IPC:
	case SYSCALLS_PROCESS:
	case SYSCALLS_TERMINAL:
	case SYSCALLS_GROUPS:
		return false;
	}
	return false;
}

static bool decides_by_path(const struct request *r)
{
	return r->ask_exec.n || r->ask_open.n || request_asks_callback(r);
}

bool policy_is_judged(const struct request *r)
{
	return r->handled.n || r->ask_connect.n || decides_by_path(r);
}

/* The traps of a bundle that somebody decides about. */
static unsigned int judged_traps(const struct request *r, unsigned int shared)
{
	return (decides_by_path(r) ? TRAP_EXEC | TRAP_OPEN : 0) |
	       (shared & SYSCALL_JUDGED_NETWORK ? TRAP_NETWORK : 0);
}

/* A group that is denied by name stays denied. */
static bool row_holds(const struct syscall_row *row, const struct request *r,
		      unsigned int shared)
{
	const char *group = syscall_groups[row->group].name;

	if (r->bundle)
		return is_past(row, r, judged_traps(r, shared));
	if (row->when & ~shared)
		return syscall_groups[row->group].optional &&
		       is_listed(&r->extra_deny, group);
	/* Denied as a whole below. */
	if (row->n_args && is_listed(&r->extra_deny, row->name))
		return false;
	return !is_listed(&r->extra_allow, group) ||
	       is_listed(&r->extra_deny, group);
}

static struct spec_seccomp_rule *new_rule(struct spec_seccomp *s,
					  uint32_t action, int error)
{
	struct spec_seccomp_rule *v =
		realloc(s->rules, (s->n_rules + 1) * sizeof(*v));

	if (!v)
		return NULL;
	s->rules = v;
	v += s->n_rules++;
	*v = (struct spec_seccomp_rule){ .action = action };
	if (action == SECCOMP_RET_ERRNO) {
		v->has_errno = true;
		v->errno_ret = (uint32_t)error;
	}
	return v;
}

static bool can_join(const struct spec_seccomp *s, uint32_t action, int error)
{
	const struct spec_seccomp_rule *last;

	if (!s->n_rules)
		return false;
	last = &s->rules[s->n_rules - 1];
	return !last->n_args && last->action == action &&
	       (action != SECCOMP_RET_ERRNO ||
		last->errno_ret == (uint32_t)error);
}

/* Neighbours without arguments share a rule. */
static int add_call(struct spec_seccomp *s, const char *name, uint32_t action,
		    int error, const struct spec_seccomp_arg *args,
		    size_t n_args)
{
	struct spec_seccomp_rule *rule;

	if (!n_args && can_join(s, action, error))
		rule = &s->rules[s->n_rules - 1];
	else
		rule = new_rule(s, action, error);
	if (!rule)
		return -ENOMEM;
	if (n_args) {
		rule->args = calloc(n_args, sizeof(*args));
		if (!rule->args)
			return -ENOMEM;
		memcpy(rule->args, args, n_args * sizeof(*args));
		rule->n_args = n_args;
	}
	return spec_strings_add(&rule->names, name);
}

static uint32_t action_for(unsigned int traps, int error)
{
	return (traps & TRAP_DENIED) && error != ENOSYS ? SECCOMP_RET_USER_NOTIF
							: SECCOMP_RET_ERRNO;
}

static int add_table(struct spec_seccomp *s, const struct request *r,
		     unsigned int traps, unsigned int shared)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < syscall_rows_len; i++) {
		const struct syscall_row *row = &syscall_rows[i];

		/* One that is handled is trapped as a whole, and judged by the
		 * supervisor. */
		if (row->n_args && is_handled(r, traps, row->name))
			continue;
		if (row_holds(row, r, shared))
			n = add_call(s, row->name,
				     action_for(traps, row->error), row->error,
				     row->args, row->n_args);
	}
	return n;
}

static bool is_denied(const struct spec_seccomp *s, const char *name)
{
	for (size_t i = 0; i < s->n_rules; i++)
		if (!s->rules[i].n_args && is_listed(&s->rules[i].names, name))
			return true;
	return false;
}

static int add_extra(struct spec_seccomp *s, const struct request *r,
		     unsigned int traps)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < r->extra_deny.n; i++) {
		const char *name = r->extra_deny.v[i];

		if (find_group(name) < 0 && !is_denied(s, name))
			n = add_call(s, name, action_for(traps, EPERM), EPERM,
				     NULL, 0);
	}
	return n;
}

static int add_traps(struct spec_seccomp *s, const struct request *r,
		     unsigned int traps)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < ARRAY_LEN(trap_rows); i++) {
		const struct trap_row *row = &trap_rows[i];

		if ((row->traps & traps) && !is_denied(s, row->name) &&
		    !is_handled(r, traps, row->name))
			n = add_call(s, row->name, SECCOMP_RET_USER_NOTIF, 0,
				     row->args, row->n_args);
	}
	for (size_t i = 0; n == 0 && i < r->handled.n; i++) {
		const char *name = r->handled.v[i];

		if (is_handled(r, traps, name) && !is_denied(s, name))
			n = add_call(s, name, SECCOMP_RET_USER_NOTIF, 0, NULL,
				     0);
	}
	/* A trapped call is killed, not interrupted, once it was received. */
	if (n == 0 && traps)
		n = spec_strings_add(&s->flags,
				     "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV");
	return n;
}

/* @s moves to @ret, unless @n is an errno. */
static int finish(int n, struct spec_seccomp *s, struct spec_seccomp *ret,
		  struct error *err)
{
	if (n < 0) {
		spec_seccomp_done(s);
		return error_set(err, ERR_SYSTEM, -n,
				 "the filter of system calls");
	}
	*ret = *s;
	return 0;
}

int policy_check_names(const struct request *r, struct error *err)
{
	int n = check_allowed(r, err);

	return n < 0 ? n : check_denied(r, err);
}

int policy_filter(const struct request *r, unsigned int traps,
		  unsigned int shared, struct spec_seccomp *ret,
		  struct error *err)
{
	struct spec_seccomp s = { .default_action = SECCOMP_RET_ALLOW };
	int n = policy_check_names(r, err);

	if (n < 0)
		return n;
	n = add_table(&s, r, traps, shared);
	if (n == 0)
		n = add_extra(&s, r, traps);
	if (n == 0)
		n = add_traps(&s, r, traps);
	return finish(n, &s, ret, err);
}

static int add_past(struct spec_seccomp *s, const struct request *r,
		    unsigned int traps)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < syscall_rows_len; i++) {
		const struct syscall_row *row = &syscall_rows[i];

		if (is_past(row, r, traps))
			n = add_call(s, row->name,
				     action_for(traps, row->error), row->error,
				     row->args, row->n_args);
	}
	return n;
}

int policy_trap_filter(const struct request *r, unsigned int traps,
		       struct spec_seccomp *ret, struct error *err)
{
	struct spec_seccomp s = { .default_action = SECCOMP_RET_ALLOW };
	int n = add_past(&s, r, traps);

	if (n == 0)
		n = add_traps(&s, r, traps);
	return finish(n, &s, ret, err);
}

int policy_thread_filter(const struct request *r, struct spec_seccomp *ret,
			 struct error *err)
{
	static const struct spec_seccomp_arg not_unix[] = {
		{ .index = 0, .value = AF_UNIX, .op = SCMP_CMP_NE },
	};
	const unsigned int shared = SYSCALL_SHARED_NETWORK | SYSCALL_SHARED_ALL;
	int n = policy_filter(r, 0, shared, ret, err);

	if (n < 0)
		return n;
	n = add_call(ret, "socket", SECCOMP_RET_ERRNO, EPERM, not_unix,
		     ARRAY_LEN(not_unix));
	if (n < 0) {
		spec_seccomp_done(ret);
		return error_set(err, ERR_SYSTEM, -n,
				 "the filter of system calls");
	}
	return 0;
}

bool policy_is_trapped(const struct request *r, const char *name,
		       unsigned int traps)
{
	if (is_handled(r, traps, name))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(trap_rows); i++)
		if ((trap_rows[i].traps & traps) &&
		    strcmp(trap_rows[i].name, name) == 0)
			return true;
	return false;
}

/* Of what is handled: not trapped for another reason, nor named before. */
static bool is_news(const struct request *r, unsigned int traps, size_t i)
{
	const struct spec_strings before = { .v = r->handled.v, .n = i };

	return !policy_is_trapped(r, r->handled.v[i], traps & ~TRAP_HANDLED) &&
	       !is_listed(&before, r->handled.v[i]);
}

uint32_t policy_arch_32(void)
{
#if defined(__x86_64__)
	return SCMP_ARCH_X86;
#elif defined(__aarch64__)
	return SCMP_ARCH_ARM;
#else
	return 0;
#endif
}

int policy_syscall_number_32(const char *name)
{
	int nr = policy_arch_32() ? seccomp_syscall_resolve_name_arch(
					    policy_arch_32(), name)
				  : -1;

	return nr < 0 ? -1 : nr;
}

static size_t trap_numbers(unsigned int traps, int (*number_of)(const char *),
			   int *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; n < max && i < ARRAY_LEN(trap_rows); i++) {
		int nr = trap_rows[i].traps & traps
				 ? number_of(trap_rows[i].name)
				 : -1;

		if (nr >= 0)
			ret[n++] = nr;
	}
	return n;
}

size_t policy_trap_numbers(unsigned int traps, int *ret, size_t max)
{
	return trap_numbers(traps, seccomp_syscall_resolve_name, ret, max);
}

size_t policy_trap_numbers_32(unsigned int traps, int *ret, size_t max)
{
	return trap_numbers(traps, policy_syscall_number_32, ret, max);
}

void policy_traps_json(const struct request *r, unsigned int traps,
		       struct json_out *o)
{
	json_out_array(o);
	for (size_t i = 0; i < ARRAY_LEN(trap_rows); i++)
		if (trap_rows[i].traps & traps)
			json_out_str(o, trap_rows[i].name);
	for (size_t i = 0; (traps & TRAP_HANDLED) && i < r->handled.n; i++)
		if (is_news(r, traps, i))
			json_out_str(o, r->handled.v[i]);
	json_out_array_end(o);
}

static bool arg_matches(const struct spec_seccomp_arg *a, uint64_t v)
{
	switch (a->op) {
	case SCMP_CMP_NE:
		return v != a->value;
	case SCMP_CMP_LT:
		return v < a->value;
	case SCMP_CMP_LE:
		return v <= a->value;
	case SCMP_CMP_EQ:
		return v == a->value;
	case SCMP_CMP_GE:
		return v >= a->value;
	case SCMP_CMP_GT:
		return v > a->value;
	case SCMP_CMP_MASKED_EQ:
		return (v & a->value) == a->value_two;
	default:
		return false;
	}
}

/* "or" within an argument, "and" between several. */
static bool row_matches(const struct syscall_row *row, const uint64_t *args)
{
	unsigned int named = 0, met = 0;

	for (size_t i = 0; i < row->n_args; i++) {
		const struct spec_seccomp_arg *a = &row->args[i];

		named |= 1U << a->index;
		if (arg_matches(a, args[a->index]))
			met |= 1U << a->index;
	}
	return named == met;
}

bool policy_refusal(const struct request *r, unsigned int shared,
		    const char *name, const uint64_t *args,
		    struct syscall_refusal *ret)
{
	for (size_t i = 0; i < r->extra_deny.n; i++) {
		if (strcmp(r->extra_deny.v[i], name) != 0)
			continue;
		*ret = (struct syscall_refusal){ .extra = r->extra_deny.v[i],
						 .error = EPERM };
		return true;
	}
	for (size_t i = 0; i < syscall_rows_len; i++) {
		const struct syscall_row *row = &syscall_rows[i];

		if (strcmp(row->name, name) != 0 ||
		    !row_holds(row, r, shared) ||
		    (args && !row_matches(row, args)))
			continue;
		*ret = (struct syscall_refusal){ .row = row,
						 .error = row->error };
		return true;
	}
	return false;
}

void policy_syscalls_json(struct json_out *o)
{
	json_out_array(o);
	for (size_t i = 0; i < syscall_rows_len; i++) {
		const struct syscall_row *row = &syscall_rows[i];

		json_out_object(o);
		json_out_str_member(o, "name", row->name);
		json_out_str_member(o, "group",
				    syscall_groups[row->group].name);
		json_out_str_member(o, "errno", strerrorname_np(row->error));
		if (row->what)
			json_out_str_member(o, "only", row->what);
		if (row->when == SYSCALL_SHARED_NETWORK)
			json_out_str_member(o, "when",
					    "in the network of the host");
		if (row->when == SYSCALL_SHARED_ALL)
			json_out_str_member(o, "when", "without namespaces");
		json_out_bool_member(o, "can_allow",
				     syscall_groups[row->group].optional);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}
