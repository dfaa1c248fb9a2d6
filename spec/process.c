/* process: config.json and process.json. */
#include <errno.h>
#include <limits.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "spec/parse.h"

/* clang-format off */
static const struct name rlimit_rows[] = {
	{ "RLIMIT_AS",	       RLIMIT_AS },
	{ "RLIMIT_CORE",       RLIMIT_CORE },
	{ "RLIMIT_CPU",	       RLIMIT_CPU },
	{ "RLIMIT_DATA",       RLIMIT_DATA },
	{ "RLIMIT_FSIZE",      RLIMIT_FSIZE },
	{ "RLIMIT_LOCKS",      RLIMIT_LOCKS },
	{ "RLIMIT_MEMLOCK",    RLIMIT_MEMLOCK },
	{ "RLIMIT_MSGQUEUE",   RLIMIT_MSGQUEUE },
	{ "RLIMIT_NICE",       RLIMIT_NICE },
	{ "RLIMIT_NOFILE",     RLIMIT_NOFILE },
	{ "RLIMIT_NPROC",      RLIMIT_NPROC },
	{ "RLIMIT_RSS",	       RLIMIT_RSS },
	{ "RLIMIT_RTPRIO",     RLIMIT_RTPRIO },
	{ "RLIMIT_RTTIME",     RLIMIT_RTTIME },
	{ "RLIMIT_SIGPENDING", RLIMIT_SIGPENDING },
	{ "RLIMIT_STACK",      RLIMIT_STACK },
};
static const struct names rlimit_names = NAMES("rlimit", rlimit_rows);

static const struct name policy_rows[] = {
	{ "SCHED_OTHER",    SCHED_NORMAL },
	{ "SCHED_FIFO",	    SCHED_FIFO },
	{ "SCHED_RR",	    SCHED_RR },
	{ "SCHED_BATCH",    SCHED_BATCH },
	{ "SCHED_ISO",	    4 },
	{ "SCHED_IDLE",	    SCHED_IDLE },
	{ "SCHED_DEADLINE", SCHED_DEADLINE },
};
static const struct names policy_names =
	NAMES("scheduling policy", policy_rows);

static const struct name sched_flag_rows[] = {
	{ "SCHED_FLAG_RESET_ON_FORK",  SCHED_FLAG_RESET_ON_FORK },
	{ "SCHED_FLAG_RECLAIM",	       SCHED_FLAG_RECLAIM },
	{ "SCHED_FLAG_DL_OVERRUN",     SCHED_FLAG_DL_OVERRUN },
	{ "SCHED_FLAG_KEEP_POLICY",    SCHED_FLAG_KEEP_POLICY },
	{ "SCHED_FLAG_KEEP_PARAMS",    SCHED_FLAG_KEEP_PARAMS },
	{ "SCHED_FLAG_UTIL_CLAMP_MIN", SCHED_FLAG_UTIL_CLAMP_MIN },
	{ "SCHED_FLAG_UTIL_CLAMP_MAX", SCHED_FLAG_UTIL_CLAMP_MAX },
};
static const struct names sched_flag_names =
	NAMES("scheduling flag", sched_flag_rows);

static const struct name io_class_rows[] = {
	{ "IOPRIO_CLASS_RT",   IOPRIO_CLASS_RT },
	{ "IOPRIO_CLASS_BE",   IOPRIO_CLASS_BE },
	{ "IOPRIO_CLASS_IDLE", IOPRIO_CLASS_IDLE },
};
static const struct names io_class_names =
	NAMES("I/O priority class", io_class_rows);
/* clang-format on */

static int check_rlimit(const struct at *at, void *obj)
{
	const struct spec_rlimit *l = obj;

	if (l->soft > l->hard)
		return at_fail_member(at, "soft", "%llu is above hard (%llu)",
				      (unsigned long long)l->soft,
				      (unsigned long long)l->hard);
	return 0;
}

/* clang-format off */
static const struct field rlimit_fields[] = {
	{ "type", FIELD_ENUM, FIELD_REQUIRED,
	  MEMBER(struct spec_rlimit, resource), .names = &rlimit_names },
	{ "soft", FIELD_UINT, FIELD_REQUIRED, MEMBER(struct spec_rlimit, soft) },
	{ "hard", FIELD_UINT, FIELD_REQUIRED, MEMBER(struct spec_rlimit, hard) },
};
/* clang-format on */
static const struct shape rlimit_shape = {
	SHAPE(struct spec_rlimit, rlimit_fields), .check = check_rlimit
};

static int check_rlimits(const struct at *at, void *obj)
{
	const struct spec_process *p = obj;
	uint32_t seen = 0;

	for (size_t i = 0; i < p->n_rlimits; i++) {
		int resource = p->rlimits[i].resource;
		struct at item = at_item(at, i);

		if (seen & UINT32_C(1) << resource)
			return at_fail_member(
				&item, "type", "duplicate rlimit '%s'",
				names_of(&rlimit_names, (uint64_t)resource));
		seen |= UINT32_C(1) << resource;
	}
	return 0;
}

static int check_cwd(const struct at *at, void *obj)
{
	const struct spec_process *p = obj;

	if (p->cwd[0] != '/')
		return at_fail(at, "'%s' is no absolute path", SHOWN(p->cwd));
	return 0;
}

static int check_args(const struct at *at, void *obj)
{
	const struct spec_process *p = obj;

	if (p->args.n == 0)
		return at_fail(at, "must not be empty");
	if (p->args.v[0][0] == '\0')
		return at_fail(at, "has an empty program name");
	return 0;
}

struct variable {
	char *text;
	size_t name_len, index;
};

static int by_name(const void *a, const void *b)
{
	const struct variable *x = a, *y = b;
	size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
	int c = memcmp(x->text, y->text, n);

	if (c != 0)
		return c;
	if (x->name_len != y->name_len)
		return x->name_len < y->name_len ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

static bool same_name(const struct variable *a, const struct variable *b)
{
	return a->name_len == b->name_len &&
	       memcmp(a->text, b->text, a->name_len) == 0;
}

/* Of several settings of one variable only the last stays, in its place. */
static int drop_overridden(struct spec_strings *env)
{
	auto_free struct variable *vars = calloc(env->n + 1, sizeof(*vars));
	size_t kept = 0;

	if (!vars)
		return -ENOMEM;
	for (size_t i = 0; i < env->n; i++)
		vars[i] = (struct variable){
			.text = env->v[i],
			.name_len = strcspn(env->v[i], "="),
			.index = i,
		};
	qsort(vars, env->n, sizeof(*vars), by_name);
	for (size_t i = 0; i + 1 < env->n; i++) {
		if (!same_name(&vars[i], &vars[i + 1]))
			continue;
		free(take_ptr(&env->v[vars[i].index]));
	}
	for (size_t i = 0; i < env->n; i++)
		if (env->v[i])
			env->v[kept++] = env->v[i];
	env->n = kept;
	env->v[kept] = NULL;
	return 0;
}

int check_variables(const struct at *at, const struct spec_strings *env)
{
	for (size_t i = 0; i < env->n; i++) {
		struct at item = at_item(at, i);

		if (env->v[i][0] == '=')
			return at_fail(&item, "'%s' has an empty name",
				       SHOWN(env->v[i]));
		if (!strchr(env->v[i], '='))
			return at_fail(&item,
				       "'%s' is not of the form "
				       "NAME=VALUE",
				       SHOWN(env->v[i]));
	}
	return 0;
}

static int check_env(const struct at *at, void *obj)
{
	struct spec_process *p = obj;
	int r = check_variables(at, &p->env);

	if (r < 0)
		return r;
	return drop_overridden(&p->env) < 0 ? at_no_memory(at) : 0;
}

/* Lists each name once, and not more than fit on a line. */
static void add_unknown(struct buf *unknown, const char *name)
{
	struct shown text = shown(name);

	if (unknown->len > 512 ||
	    (unknown->len && strstr(unknown->data, text.text)))
		return;
	buf_printf(unknown, "%s%s", unknown->len ? ", " : "", text.text);
}

/* The mask of an array of names; unknown ones are listed in @unknown. */
static int read_caps(const struct at *at, uint64_t *ret, struct buf *unknown)
{
	uint64_t set = 0;
	int r = at_expect(at, JSON_ARRAY);

	for (size_t i = 0; r >= 0 && i < at->v->n; i++) {
		struct at item = at_item(at, i);
		const char *name;
		int number;

		r = at_string(&item, STR_NONEMPTY, &name);
		if (r < 0)
			return r;
		number = capset_number(name);
		if (number >= 0)
			set |= UINT64_C(1) << number;
		else
			add_unknown(unknown, name);
	}
	if (r >= 0)
		*ret = set;
	return r;
}

/* capabilities(7): the kernel raises what is permitted and inheritable. */
static void warn_ambient(const struct at *at, const struct capset *caps)
{
	uint64_t lost = caps->ambient & ~(caps->permitted & caps->inheritable);
	auto_(buf) struct buf names = BUF_INIT;

	/* In one line: buildah asks for fourteen that way, with every RUN. */
	for (int i = 0; lost && i < 64 && lost >> i; i++)
		if (lost >> i & 1)
			buf_printf(&names, "%s%s", names.len ? ", " : "",
				   capset_name(i));
	if (lost && !buf_failed(&names))
		at_warn(at,
			"can't raise ambient capability %s: it must be "
			"permitted and inheritable, too",
			buf_str(&names));
}

/* P-CAPS: what the kernel or we do not know is told and left out. */
static int read_capabilities(const struct at *at, void *obj)
{
	struct spec_process *p = obj;
	struct {
		const char *key;
		uint64_t *set;
	} sets[] = {
		{ "bounding", &p->caps.bounding },
		{ "effective", &p->caps.effective },
		{ "inheritable", &p->caps.inheritable },
		{ "permitted", &p->caps.permitted },
		{ "ambient", &p->caps.ambient },
	};
	auto_(buf) struct buf unknown = BUF_INIT;
	int r = at_expect(at, JSON_OBJECT);

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(sets); i++) {
		struct at set = { .p = at->p, .up = at, .key = sets[i].key };

		set.v = json_get(at->v, set.key);
		if (set.v && set.v->type != JSON_NULL)
			r = read_caps(&set, sets[i].set, &unknown);
	}
	if (r >= 0 && unknown.len)
		at_warn(at, "ignoring unknown or unavailable capabilities: %s",
			buf_str(&unknown));
	if (r >= 0)
		warn_ambient(at, &p->caps);
	return r;
}

static bool is_realtime(int policy)
{
	return policy == SCHED_FIFO || policy == SCHED_RR;
}

static int check_scheduler(const struct at *at, void *obj)
{
	const struct spec_scheduler *s = obj;

	if (s->priority != 0 && !is_realtime(s->policy))
		return at_fail_member(at, "priority",
				      "is only for SCHED_FIFO "
				      "and SCHED_RR");
	if ((s->runtime_ns || s->deadline_ns || s->period_ns) &&
	    s->policy != SCHED_DEADLINE)
		return at_fail(at, "runtime, deadline and period are only for "
				   "SCHED_DEADLINE");
	return 0;
}

/* A list of CPUs, "0-3,7". */
static bool is_cpu_list(const char *s)
{
	for (;;) {
		unsigned long first, last;
		char *end;

		if (*s < '0' || *s > '9')
			return false;
		errno = 0;
		first = strtoul(s, &end, 10);
		last = first;
		if (*end == '-') {
			s = end + 1;
			if (*s < '0' || *s > '9')
				return false;
			last = strtoul(s, &end, 10);
		}
		if (errno || last < first || last >= 8192)
			return false;
		if (*end == '\0')
			return true;
		if (*end != ',')
			return false;
		s = end + 1;
	}
}

static int check_affinity(const struct at *at, void *obj)
{
	const struct spec_process *p = obj;

	if (p->affinity_initial && !is_cpu_list(p->affinity_initial))
		return at_fail_member(at, "initial", "'%s' is no list of CPUs",
				      SHOWN(p->affinity_initial));
	if (p->affinity_final && !is_cpu_list(p->affinity_final))
		return at_fail_member(at, "final", "'%s' is no list of CPUs",
				      SHOWN(p->affinity_final));
	return 0;
}

/* clang-format off */
#define P(m) MEMBER(struct spec_process, m)

static const struct field console_fields[] = {
	{ "height", FIELD_UINT, FIELD_REQUIRED, P(console_height) },
	{ "width",  FIELD_UINT, FIELD_REQUIRED, P(console_width) },
};
static const struct shape console_shape = {
	SHAPE(struct spec_process, console_fields) };

/* 2^32-1 is no id. Required by the letter; all engines take 0 for granted. */
static const struct field user_fields[] = {
	{ "uid", FIELD_UINT, 0, P(uid), .max = UINT32_MAX - 1 },
	{ "gid", FIELD_UINT, 0, P(gid), .max = UINT32_MAX - 1 },
	{ "umask", FIELD_UINT, 0, P(umask), HAS(struct spec_process, has_umask),
	  .max = 0777 },
	{ "additionalGids", FIELD_IDS, 0, P(additional_gids),
	  COUNT(struct spec_process, n_additional_gids), .max = 65536 },
};
static const struct shape user_shape = {
	SHAPE(struct spec_process, user_fields) };

#define S(m) MEMBER(struct spec_scheduler, m)
static const struct field scheduler_fields[] = {
	{ "policy",   FIELD_ENUM, FIELD_REQUIRED, S(policy),
	  HAS(struct spec_scheduler, given), .names = &policy_names },
	{ "nice",     FIELD_INT, 0, S(nice), .min = -20, .max = 19 },
	{ "priority", FIELD_INT, 0, S(priority), .min = 0, .max = 99 },
	{ "flags",    FIELD_FLAGS, 0, S(flags), .names = &sched_flag_names },
	{ "runtime",  FIELD_UINT, 0, S(runtime_ns) },
	{ "deadline", FIELD_UINT, 0, S(deadline_ns) },
	{ "period",   FIELD_UINT, 0, S(period_ns) },
};
static const struct shape scheduler_shape = {
	SHAPE(struct spec_scheduler, scheduler_fields),
	.check = check_scheduler };
#undef S

static const struct field io_priority_fields[] = {
	{ "class", FIELD_ENUM, FIELD_REQUIRED,
	  MEMBER(struct spec_io_priority, class),
	  HAS(struct spec_io_priority, given), .names = &io_class_names },
	{ "priority", FIELD_INT, 0,
	  MEMBER(struct spec_io_priority, priority), .min = 0, .max = 7 },
};
static const struct shape io_priority_shape = {
	SHAPE(struct spec_io_priority, io_priority_fields) };

static const struct field affinity_fields[] = {
	{ "initial", FIELD_STR, STR_MAY_BE_NONE, P(affinity_initial) },
	{ "final",   FIELD_STR, STR_MAY_BE_NONE, P(affinity_final) },
};
static const struct shape affinity_shape = {
	SHAPE(struct spec_process, affinity_fields), .check = check_affinity };

static const struct field process_fields[] = {
	{ "terminal",	     FIELD_BOOL, 0, P(terminal) },
	{ "consoleSize",     FIELD_OBJ, 0, .shape = &console_shape },
	{ "cwd",	     FIELD_STR, FIELD_REQUIRED | STR_NONEMPTY, P(cwd),
	  .check = check_cwd },
	{ "args",	     FIELD_STRS, FIELD_REQUIRED, P(args),
	  .check = check_args },
	{ "env",	     FIELD_STRS, 0, P(env), .check = check_env },
	{ "user",	     FIELD_OBJ, 0, .shape = &user_shape },
	{ "rlimits",	     FIELD_ARRAY, 0, P(rlimits),
	  COUNT(struct spec_process, n_rlimits), .shape = &rlimit_shape,
	  .check = check_rlimits },
	{ "capabilities",    FIELD_CALL, 0,
	  HAS(struct spec_process, has_capabilities),
	  .check = read_capabilities },
	{ "noNewPrivileges", FIELD_BOOL, 0, P(no_new_privileges) },
	{ "oomScoreAdj",     FIELD_INT, 0, P(oom_score_adj),
	  HAS(struct spec_process, has_oom_score_adj),
	  .min = -1000, .max = 1000 },
	{ "scheduler",	     FIELD_OBJ, 0, P(scheduler),
	  .shape = &scheduler_shape },
	{ "ioPriority",	     FIELD_OBJ, 0, P(io_priority),
	  .shape = &io_priority_shape },
	{ "execCPUAffinity", FIELD_OBJ, 0, .shape = &affinity_shape },
	{ "apparmorProfile", FIELD_STR, STR_MAY_BE_NONE, P(apparmor_profile) },
	{ "selinuxLabel",    FIELD_STR, STR_MAY_BE_NONE, P(selinux_label) },
};
const struct shape process_shape = {
	SHAPE(struct spec_process, process_fields) };
#undef P
/* clang-format on */

void spec_process_free(struct spec_process *p)
{
	if (!p)
		return;
	shape_done(&process_shape, p);
	free(p);
}

CLEANUP_PTR(struct spec_process, spec_process_free);

static int copy_str(const char *from, char **ret)
{
	*ret = from ? strdup(from) : NULL;
	return from && !*ret ? -ENOMEM : 0;
}

static int copy_strs(const struct spec_strings *from, struct spec_strings *to)
{
	*to = (struct spec_strings){ 0 };
	if (!from->v)
		return 0;
	to->v = calloc(from->n + 1, sizeof(*to->v));
	if (!to->v)
		return -ENOMEM;
	for (; to->n < from->n; to->n++)
		if (copy_str(from->v[to->n], &to->v[to->n]) < 0)
			return -ENOMEM;
	return 0;
}

static int copy_array(const void *from, size_t n, size_t size, void *ret)
{
	void *copy = n ? malloc(n * size) : NULL;

	if (n && !copy)
		return -ENOMEM;
	if (n)
		memcpy(copy, from, n * size);
	*(void **)ret = copy;
	return 0;
}

/* What @to shares with the original after a plain assignment. */
static void forget_owned(struct spec_process *to)
{
	to->cwd = NULL;
	to->args = to->env = (struct spec_strings){ 0 };
	to->additional_gids = NULL;
	to->rlimits = NULL;
	to->affinity_initial = to->affinity_final = NULL;
	to->apparmor_profile = to->selinux_label = NULL;
}

int spec_process_copy(const struct spec_process *from,
		      struct spec_process **ret)
{
	auto_ptr(spec_process_free) struct spec_process *to =
		malloc(sizeof(*to));

	if (!to)
		return -ENOMEM;
	*to = *from;
	forget_owned(to);
	if (copy_str(from->cwd, &to->cwd) < 0 ||
	    copy_strs(&from->args, &to->args) < 0 ||
	    copy_strs(&from->env, &to->env) < 0 ||
	    copy_array(from->additional_gids, from->n_additional_gids,
		       sizeof(*to->additional_gids),
		       &to->additional_gids) < 0 ||
	    copy_array(from->rlimits, from->n_rlimits, sizeof(*to->rlimits),
		       &to->rlimits) < 0 ||
	    copy_str(from->affinity_initial, &to->affinity_initial) < 0 ||
	    copy_str(from->affinity_final, &to->affinity_final) < 0 ||
	    copy_str(from->apparmor_profile, &to->apparmor_profile) < 0 ||
	    copy_str(from->selinux_label, &to->selinux_label) < 0)
		return -ENOMEM;
	*ret = take_ptr(&to);
	return 0;
}
