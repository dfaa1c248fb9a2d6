#include "kernel/seccomp.h"

#include <ctype.h>
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/uapi.h"
#include "kernel/bpf.h"
#include "kernel/seccomp_cache.h"
#include "kernel/seccomp_newer.h"
#include "kernel/seccomp_shrink.h"
#include "spec/spec.h"

enum { OPTIMIZE_BY_PRIORITY = 1, OPTIMIZE_BINARY_TREE = 2 };

struct flag_row {
	const char *name;
	unsigned int bit;
};

/* clang-format off */
static const struct flag_row flag_rows[] = {
	{ "SECCOMP_FILTER_FLAG_TSYNC",              SECCOMP_FILTER_FLAG_TSYNC },
	{ "SECCOMP_FILTER_FLAG_SPEC_ALLOW",         SECCOMP_FILTER_FLAG_SPEC_ALLOW },
	{ "SECCOMP_FILTER_FLAG_LOG",                SECCOMP_FILTER_FLAG_LOG },
	{ "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV },
};

static const char *const flag_names[] = {
	"SECCOMP_FILTER_FLAG_TSYNC",
	"SECCOMP_FILTER_FLAG_SPEC_ALLOW",
	"SECCOMP_FILTER_FLAG_LOG",
	"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
	NULL
};

static const char *const action_names[] = {
	"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL",
	"SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_LOG",
	"SCMP_ACT_NOTIFY", "SCMP_ACT_TRACE", "SCMP_ACT_TRAP", NULL
};

static const char *const operator_names[] = {
	"SCMP_CMP_EQ", "SCMP_CMP_GE", "SCMP_CMP_GT", "SCMP_CMP_LE",
	"SCMP_CMP_LT", "SCMP_CMP_MASKED_EQ", "SCMP_CMP_NE", NULL
};

static const char *const arch_names[] = {
	"SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM",
#ifdef SCMP_ARCH_LOONGARCH64
	"SCMP_ARCH_LOONGARCH64",
#endif
#ifdef SCMP_ARCH_M68K
	"SCMP_ARCH_M68K",
#endif
	"SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64", "SCMP_ARCH_MIPS64N32",
	"SCMP_ARCH_MIPSEL", "SCMP_ARCH_MIPSEL64", "SCMP_ARCH_MIPSEL64N32",
	"SCMP_ARCH_PARISC", "SCMP_ARCH_PARISC64", "SCMP_ARCH_PPC",
	"SCMP_ARCH_PPC64", "SCMP_ARCH_PPC64LE", "SCMP_ARCH_RISCV64",
	"SCMP_ARCH_S390", "SCMP_ARCH_S390X",
#ifdef SCMP_ARCH_SH
	"SCMP_ARCH_SH", "SCMP_ARCH_SHEB",
#endif
	"SCMP_ARCH_X32", "SCMP_ARCH_X86", "SCMP_ARCH_X86_64", NULL
};
/* clang-format on */

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)
/* clang-format off */
#define LIBRARY_VERSION                            \
	STRINGIFY(SCMP_VER_MAJOR) "."              \
	STRINGIFY(SCMP_VER_MINOR) "."              \
	STRINGIFY(SCMP_VER_MICRO)
/* clang-format on */

static void release_context(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}

#define auto_context __attribute__((cleanup(release_context)))

void seccomp_program_done(struct seccomp_program *p)
{
	free(p->insns);
	*p = (struct seccomp_program){ .insns = NULL };
}

/* SECCOMP_RET_* and SCMP_ACT_* are the same numbers. */
static uint32_t with_data(uint32_t action, bool has_errno, uint32_t value)
{
	if (action != SCMP_ACT_ERRNO(0) && action != SCMP_ACT_TRACE(0))
		return action;
	return action | ((has_errno ? value : EPERM) & SECCOMP_RET_DATA);
}

static uint32_t default_action(const struct spec_seccomp *s)
{
	return with_data(s->default_action, s->has_default_errno,
			 s->default_errno);
}

/* "SCMP_ARCH_X86_64" is "x86_64" to libseccomp; 0 if it knows no such one. */
static uint32_t arch_token(const char *name)
{
	static const char prefix[] = "SCMP_ARCH_";
	char text[32];
	size_t i;

	if (strncmp(name, prefix, sizeof(prefix) - 1) == 0)
		name += sizeof(prefix) - 1;
	for (i = 0; i < sizeof(text) - 1 && name[i]; i++)
		text[i] = (char)tolower((unsigned char)name[i]);
	text[i] = '\0';
	return seccomp_arch_resolve_name(text);
}

static int add_archs(scmp_filter_ctx ctx, const struct spec_seccomp *s,
		     const struct log_sink *log, struct error *err)
{
	for (size_t i = 0; i < s->architectures.n; i++) {
		const char *name = s->architectures.v[i];
		uint32_t token = arch_token(name);
		int r;

		/* Not in the filter: what is called that way is killed. */
		if (!token) {
			log_warn(log,
				 "seccomp: libseccomp %s does not know "
				 "'%s'",
				 LIBRARY_VERSION, name);
			continue;
		}
		r = seccomp_arch_add(ctx, token);
		if (r < 0 && r != -EEXIST)
			return error_set(err, ERR_BUNDLE, -r,
					 "seccomp: cannot add architecture "
					 "'%s'",
					 name);
	}
	return 0;
}

static bool repeats_index(const struct spec_seccomp_rule *r)
{
	unsigned int seen = 0;

	for (size_t i = 0; i < r->n_args; i++) {
		if (seen & 1u << r->args[i].index)
			return true;
		seen |= 1u << r->args[i].index;
	}
	return false;
}

static struct scmp_arg_cmp comparison(const struct spec_seccomp_arg *a)
{
	return (struct scmp_arg_cmp){ .arg = a->index,
				      .op = (enum scmp_compare)a->op,
				      .datum_a = a->value,
				      .datum_b = a->value_two };
}

/* libseccomp takes an argument once a rule: a repeated one means "or". */
static int add_call(scmp_filter_ctx ctx, const struct spec_seccomp_rule *r,
		    uint32_t action, int nr)
{
	struct scmp_arg_cmp cmp[6];

	if (repeats_index(r)) {
		for (size_t i = 0; i < r->n_args; i++) {
			int e;

			cmp[0] = comparison(&r->args[i]);
			e = seccomp_rule_add_array(ctx, action, nr, 1, cmp);
			if (e < 0)
				return e;
		}
		return 0;
	}
	/* No index twice: at most six. */
	for (size_t i = 0; i < r->n_args && i < ARRAY_LEN(cmp); i++)
		cmp[i] = comparison(&r->args[i]);
	return seccomp_rule_add_array(ctx, action, nr, (unsigned int)r->n_args,
				      cmp);
}

static int rule_error(const char *name, int sys, struct error *err)
{
	if (sys == EEXIST)
		return error_say(err, ERR_BUNDLE, sys,
				 "seccomp: two rules for '%s' contradict each "
				 "other",
				 name);
	return error_set(err, ERR_BUNDLE, sys,
			 "seccomp: cannot add the rule for '%s'", name);
}

/*
 * Newer than libseccomp. From 424 on a number is the same on all machines but
 * alpha; it is taken by number only for the native one.
 */
static int resolve_call(const char *name, bool native)
{
	/* clang-format off */
	static const struct { const char *name; int nr; } newer[] = {
		{ "setxattrat", 463 },
		{ "removexattrat", 466 },
		{ "open_tree_attr", 467 },
		{ "file_setattr", 469 },
	};
	/* clang-format on */
	int nr = seccomp_syscall_resolve_name(name);

	for (size_t i = 0;
	     native && nr == __NR_SCMP_ERROR && i < ARRAY_LEN(newer); i++)
		if (strcmp(name, newer[i].name) == 0)
			return newer[i].nr;
	return nr;
}

static int add_rule(scmp_filter_ctx ctx, const struct spec_seccomp_rule *r,
		    uint32_t dflt, bool native, const struct log_sink *log,
		    struct error *err)
{
	uint32_t action = with_data(r->action, r->has_errno, r->errno_ret);

	/* libseccomp refuses a rule that says what the default says. */
	if (action == dflt)
		return 0;
	for (size_t i = 0; i < r->names.n; i++) {
		const char *name = r->names.v[i];
		int nr = resolve_call(name, native);
		int e;

		if (nr == __NR_SCMP_ERROR) {
			log_debug(log,
				  "seccomp: unknown system call '%s' is "
				  "skipped",
				  name);
			continue;
		}
		e = add_call(ctx, r, action, nr);
		if (e < 0)
			return rule_error(name, -e, err);
	}
	return 0;
}

static int export_program(scmp_filter_ctx ctx, void **ret, size_t *ret_n,
			  struct error *err)
{
	auto_close int fd = memfd_create("seccomp", MFD_CLOEXEC);
	auto_free void *insns = NULL;
	struct stat st;
	int r;

	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot make a memfd");
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot compile the seccomp profile");
	if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot read the seccomp program");
	insns = malloc((size_t)st.st_size);
	if (!insns)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot read the seccomp program");
	if (fd_read_full(fd, insns, (size_t)st.st_size) != st.st_size)
		return error_set(err, ERR_SYSTEM, EIO,
				 "cannot read the seccomp program");
	*ret_n = (size_t)st.st_size / sizeof(struct sock_filter);
	*ret = take_ptr(&insns);
	return 0;
}

static uint32_t newest_of(const struct spec_seccomp *s, uint32_t arch)
{
	bool native = arch == seccomp_arch_native();
	int newest = 0;

	for (size_t i = 0; i < s->n_rules; i++) {
		for (size_t j = 0; j < s->rules[i].names.n; j++) {
			const char *name = s->rules[i].names.v[j];
			int nr = native ? resolve_call(name, true)
					: seccomp_syscall_resolve_name_arch(
						  arch, name);

			newest = nr > newest ? nr : newest;
		}
	}
	return (uint32_t)newest;
}

/*
 * Only where the default is an errno: what kills shall kill. Of calls that
 * nothing is said about none is newer.
 */
static int answer_newer(const struct spec_seccomp *s, void **insns, size_t *n,
			struct error *err)
{
	auto_free struct seccomp_newest *v =
		calloc(s->architectures.n + 1, sizeof(*v));
	uint32_t native = seccomp_arch_native();
	size_t n_v = 0;
	int r;

	if (s->default_action != SECCOMP_RET_ERRNO)
		return 0;
	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "seccomp");
	for (size_t i = 0; i <= s->architectures.n; i++) {
		/* The native one is in every filter, named or not. */
		uint32_t arch =
			i ? arch_token(s->architectures.v[i - 1]) : native;

		if (!arch || (i && arch == native))
			continue;
		v[n_v].arch = arch;
		v[n_v].nr = newest_of(s, arch);
		n_v += v[n_v].nr != 0;
	}
	r = n_v ? seccomp_answer_newer(v, n_v, insns, n) : 0;
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "seccomp") : 0;
}

static int compile(const struct spec_seccomp *s, uint32_t optimize,
		   const struct log_sink *log, void **ret, size_t *ret_n,
		   struct error *err)
{
	uint32_t dflt = default_action(s);
	auto_context scmp_filter_ctx ctx = seccomp_init(dflt);
	int r;

	if (!ctx)
		return error_say(err, ERR_UNSUPPORTED, EINVAL,
				 "seccomp: the default action is not supported "
				 "by this kernel or libseccomp");
	/* Not in every libseccomp, and only a matter of speed. */
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, optimize);
	r = add_archs(ctx, s, log, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < s->n_rules; i++) {
		r = add_rule(ctx, &s->rules[i], dflt, !s->architectures.n, log,
			     err);
		if (r < 0)
			return r;
	}
	r = export_program(ctx, ret, ret_n, err);
	if (r == 0)
		r = answer_newer(s, ret, ret_n, err);
	if (r == 0 && seccomp_shrink(*ret, ret_n) < 0)
		r = error_set(err, ERR_SYSTEM, ENOMEM, "seccomp");
	return r;
}

/* A tree is faster to load and to run, but has some instructions more. */
static int compile_to_fit(const struct spec_seccomp *s,
			  const struct log_sink *log, void **ret, size_t *ret_n,
			  struct error *err)
{
	auto_free void *insns = NULL;
	size_t n;
	int r = compile(s, OPTIMIZE_BINARY_TREE, log, &insns, &n, err);

	if (r == 0 && n > BPF_MAXINSNS) {
		free(take_ptr(&insns));
		r = compile(s, OPTIMIZE_BY_PRIORITY, NULL, &insns, &n, err);
	}
	if (r < 0)
		return r;
	if (n > BPF_MAXINSNS) {
		(void)error_say(err, ERR_BUNDLE, E2BIG,
				"the seccomp profile has %zu instructions, the "
				"kernel takes %d",
				n, BPF_MAXINSNS);
		return error_hint(err, "name fewer architectures or fewer "
				       "arguments");
	}
	*ret = take_ptr(&insns);
	*ret_n = n;
	return 0;
}

/* @name NULL: of anything. */
static bool notifies_of(const struct spec_seccomp *s, const char *name)
{
	for (size_t i = 0; i < s->n_rules; i++) {
		const struct spec_seccomp_rule *r = &s->rules[i];

		if (r->action != SECCOMP_RET_USER_NOTIF)
			continue;
		for (size_t j = 0; j < r->names.n; j++)
			if (!name || strcmp(r->names.v[j], name) == 0)
				return true;
	}
	return false;
}

static int filter_flags(const struct spec_seccomp *s, bool has_notify,
			unsigned int *ret, struct error *err)
{
	unsigned int flags = 0;

	for (size_t i = 0; i < s->flags.n; i++) {
		size_t j = 0;

		while (j < ARRAY_LEN(flag_rows) &&
		       strcmp(flag_rows[j].name, s->flags.v[i]) != 0)
			j++;
		if (j == ARRAY_LEN(flag_rows))
			return error_say(err, ERR_BUNDLE, EINVAL,
					 "seccomp: unknown flag '%s'",
					 s->flags.v[i]);
		flags |= flag_rows[j].bit;
	}
	if (has_notify)
		flags |= SECCOMP_FILTER_FLAG_NEW_LISTENER;
	else /* Means nothing without a listener, and is EINVAL. */
		flags &= ~SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	/* The kernel takes both only if a failure is an errno, not a tid. */
	if (has_notify && (flags & SECCOMP_FILTER_FLAG_TSYNC))
		flags |= SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
	*ret = flags;
	return 0;
}

int seccomp_program_get(const struct spec_seccomp *s, const char *cache_dir,
			const struct log_sink *log, struct seccomp_program *ret,
			struct error *err)
{
	auto_(seccomp_program) struct seccomp_program p = { .insns = NULL };
	auto_(buf) struct buf key = BUF_INIT;
	int r;

	if (s->default_action == SECCOMP_RET_USER_NOTIF)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "SCMP_ACT_NOTIFY cannot be used as default "
				 "action");
	p.has_notify = notifies_of(s, NULL);
	p.traps_io = notifies_of(s, "read") || notifies_of(s, "write");
	p.traps_exec = notifies_of(s, "execve");
	/* The write that hands over the listener would wait for it. */
	if (notifies_of(s, "write") && !spec_seccomp_is_ours(s))
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "SCMP_ACT_NOTIFY cannot be used for the write "
				 "syscall");
	r = filter_flags(s, p.has_notify, &p.flags, err);
	if (r < 0)
		return r;
	if (cache_dir)
		seccomp_cache_key(s, &key);
	if (buf_failed(&key))
		cache_dir = NULL;
	if (!cache_dir ||
	    !seccomp_cache_get(cache_dir, &key, log, &p.insns, &p.n_insns)) {
		r = compile_to_fit(s, log, &p.insns, &p.n_insns, err);
		if (r < 0)
			return r;
		if (cache_dir)
			seccomp_cache_put(cache_dir, &key, p.insns, p.n_insns,
					  log);
	}
	*ret = p;
	p.insns = NULL;
	return 0;
}

/* Where the architecture is that of @m: what follows is skipped if not. */
static size_t add_numbers(struct sock_filter *v,
			  const struct seccomp_numbers *m)
{
	size_t len = 0;

	if (!m->n)
		return 0;
	v[len++] = bpf_if(BPF_JEQ, m->arch, 0, (uint8_t)(2 * m->n + 2));
	v[len++] = bpf_load(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < m->n; i++) {
		v[len++] = bpf_if(BPF_JEQ, (uint32_t)m->v[i], 0, 1);
		v[len++] = bpf_return(SECCOMP_RET_USER_NOTIF);
	}
	v[len++] = bpf_return(SECCOMP_RET_ALLOW);
	return len;
}

int seccomp_program_listen(const struct seccomp_numbers numbers[2],
			   struct seccomp_program *ret, struct error *err)
{
	size_t len = 0, max = 8 + 2 * (numbers[0].n + numbers[1].n);
	struct sock_filter *v = calloc(max, sizeof(*v));

	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "the filter of trapped system calls");
	v[len++] = bpf_load(offsetof(struct seccomp_data, arch));
	len += add_numbers(v + len, &numbers[0]);
	len += add_numbers(v + len, &numbers[1]);
	v[len++] = bpf_return(SECCOMP_RET_ALLOW);
	*ret = (struct seccomp_program){
		.insns = v,
		.n_insns = len,
		.flags = SECCOMP_FILTER_FLAG_NEW_LISTENER |
			 SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		.has_notify = true,
	};
	return 0;
}

static int load_error(const struct seccomp_program *p, int sys,
		      struct error *err)
{
	(void)error_set(err, ERR_SYSTEM, sys, "cannot load the seccomp filter");
	if (sys == EACCES)
		return error_hint(err, "without no_new_privs it takes "
				       "CAP_SYS_ADMIN");
	if (sys == EINVAL && p->flags)
		return error_hint(err, "this kernel may lack one of the filter "
				       "flags");
	if (sys == EBUSY)
		return error_hint(err, "a filter with a listener is in force "
				       "already");
	return error_code(err);
}

int seccomp_program_load(const struct seccomp_program *p, struct error *err)
{
	struct sock_fprog prog = { .len = (unsigned short)p->n_insns,
				   .filter = p->insns };
	int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, p->flags,
			      &prog);

	if (fd < 0)
		return load_error(p, errno, err);
	if (p->has_notify)
		return fd;
	/* TSYNC: the thread that could not follow. */
	if (fd > 0)
		return error_say(err, ERR_SYSTEM, ESRCH,
				 "cannot load the seccomp filter: thread %d "
				 "has another one",
				 fd);
	return 0;
}

const char *const *seccomp_action_names(void)
{
	return action_names;
}

const char *const *seccomp_operator_names(void)
{
	return operator_names;
}

const char *const *seccomp_arch_names(void)
{
	return arch_names;
}

const char *const *seccomp_flag_names(void)
{
	return flag_names;
}

/* The filter is loaded without libseccomp: all that are known. */
const char *const *seccomp_supported_flag_names(void)
{
	return flag_names;
}

const char *seccomp_library_version(void)
{
	return LIBRARY_VERSION;
}
