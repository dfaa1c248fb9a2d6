/* linux.seccomp of config.json. */
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "spec/parse.h"

/* clang-format off */
static const struct name action_rows[] = {
	{ "SCMP_ACT_ALLOW",	   SECCOMP_RET_ALLOW },
	{ "SCMP_ACT_ERRNO",	   SECCOMP_RET_ERRNO },
	{ "SCMP_ACT_KILL",	   SECCOMP_RET_KILL_THREAD },
	{ "SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS },
	{ "SCMP_ACT_KILL_THREAD",  SECCOMP_RET_KILL_THREAD },
	{ "SCMP_ACT_LOG",	   SECCOMP_RET_LOG },
	{ "SCMP_ACT_NOTIFY",	   SECCOMP_RET_USER_NOTIF },
	{ "SCMP_ACT_TRACE",	   SECCOMP_RET_TRACE },
	{ "SCMP_ACT_TRAP",	   SECCOMP_RET_TRAP },
};
const struct names profile_action_names = NAMES("seccomp action", action_rows);

static const struct name operator_rows[] = {
	{ "SCMP_CMP_EQ",	SCMP_CMP_EQ },
	{ "SCMP_CMP_GE",	SCMP_CMP_GE },
	{ "SCMP_CMP_GT",	SCMP_CMP_GT },
	{ "SCMP_CMP_LE",	SCMP_CMP_LE },
	{ "SCMP_CMP_LT",	SCMP_CMP_LT },
	{ "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
	{ "SCMP_CMP_NE",	SCMP_CMP_NE },
};
const struct names profile_operator_names =
	NAMES("seccomp operator", operator_rows);

static const struct name arch_rows[] = {
	{ "SCMP_ARCH_AARCH64" },     { "SCMP_ARCH_ARM" },
	{ "SCMP_ARCH_LOONGARCH64" }, { "SCMP_ARCH_M68K" },
	{ "SCMP_ARCH_MIPS" },	     { "SCMP_ARCH_MIPS64" },
	{ "SCMP_ARCH_MIPS64N32" },   { "SCMP_ARCH_MIPSEL" },
	{ "SCMP_ARCH_MIPSEL64" },    { "SCMP_ARCH_MIPSEL64N32" },
	{ "SCMP_ARCH_PARISC" },	     { "SCMP_ARCH_PARISC64" },
	{ "SCMP_ARCH_PPC" },	     { "SCMP_ARCH_PPC64" },
	{ "SCMP_ARCH_PPC64LE" },     { "SCMP_ARCH_RISCV64" },
	{ "SCMP_ARCH_S390" },	     { "SCMP_ARCH_S390X" },
	{ "SCMP_ARCH_SH" },	     { "SCMP_ARCH_SHEB" },
	{ "SCMP_ARCH_X32" },	     { "SCMP_ARCH_X86" },
	{ "SCMP_ARCH_X86_64" },
};
const struct names profile_arch_names =
	NAMES("seccomp architecture", arch_rows);

static const struct name flag_rows[] = {
	{ "SECCOMP_FILTER_FLAG_LOG" },
	{ "SECCOMP_FILTER_FLAG_SPEC_ALLOW" },
	{ "SECCOMP_FILTER_FLAG_TSYNC" },
	{ "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV" },
};
const struct names profile_flag_names = NAMES("seccomp flag", flag_rows);
/* clang-format on */

/* libseccomp takes less than MAX_ERRNO, 4095; a tracer gets 16 bits. */
static int check_errno(const struct at *at, const char *key, uint32_t action,
		       bool given, uint32_t value)
{
	if (!given)
		return 0;
	if (action != SECCOMP_RET_ERRNO && action != SECCOMP_RET_TRACE)
		return at_fail_member(at, key, "the action takes none");
	if (action == SECCOMP_RET_ERRNO && value > 4094)
		return at_fail_member(at, key, "%u is out of range (0 to 4094)",
				      value);
	return 0;
}

static int check_rule(const struct at *at, void *obj)
{
	const struct spec_seccomp_rule *r = obj;

	if (r->names.n == 0)
		return at_fail_member(at, "names", "must not be empty");
	return check_errno(at, "errnoRet", r->action, r->has_errno,
			   r->errno_ret);
}

bool spec_seccomp_is_ours(const struct spec_seccomp *s)
{
	return s->listener_path &&
	       strcmp(s->listener_path, SPEC_OWN_LISTENER) == 0;
}

/*
 * The supervisor of a NOTIFY rule gets the listener by a write(2) of the
 * process itself, which must not wait for that supervisor.
 */
static int check_notify(const struct at *at, const struct spec_seccomp *s)
{
	bool notify = false;

	if (s->default_action == SECCOMP_RET_USER_NOTIF)
		return at_fail_member(at, "defaultAction",
				      "SCMP_ACT_NOTIFY cannot be used as "
				      "default action");
	for (size_t i = 0; i < s->n_rules; i++) {
		const struct spec_seccomp_rule *r = &s->rules[i];

		if (r->action != SECCOMP_RET_USER_NOTIF)
			continue;
		notify = true;
		for (size_t j = 0; j < r->names.n; j++)
			if (strcmp(r->names.v[j], "write") == 0 &&
			    !spec_seccomp_is_ours(s))
				return at_fail_member(
					at, "syscalls",
					"SCMP_ACT_NOTIFY cannot be used for "
					"the write syscall");
	}
	if (notify && !s->listener_path)
		return at_fail_member(at, "listenerPath",
				      "is required for SCMP_ACT_NOTIFY");
	return 0;
}

static int check_seccomp(const struct at *at, void *obj)
{
	const struct spec_seccomp *s = obj;
	int r = check_errno(at, "defaultErrnoRet", s->default_action,
			    s->has_default_errno, s->default_errno);

	if (r < 0)
		return r;
	if (s->listener_metadata && !s->listener_path)
		return at_fail_member(at, "listenerMetadata",
				      "must not be given without "
				      "listenerPath");
	return check_notify(at, s);
}

/* clang-format off */
#define A(m) MEMBER(struct spec_seccomp_arg, m)
static const struct field arg_fields[] = {
	{ "index",    FIELD_UINT, FIELD_REQUIRED, A(index), .max = 5 },
	{ "value",    FIELD_UINT, FIELD_REQUIRED, A(value) },
	{ "valueTwo", FIELD_UINT, 0, A(value_two) },
	{ "op",	      FIELD_ENUM, FIELD_REQUIRED, A(op),
	  .names = &profile_operator_names },
};
#undef A
static const struct shape arg_shape = {
	SHAPE(struct spec_seccomp_arg, arg_fields) };

#define R(m) MEMBER(struct spec_seccomp_rule, m)
static const struct field rule_fields[] = {
	{ "names",    FIELD_STRS, FIELD_REQUIRED | STR_NONEMPTY, R(names) },
	{ "action",   FIELD_ENUM, FIELD_REQUIRED, R(action),
	  .names = &profile_action_names },
	{ "errnoRet", FIELD_UINT, 0, R(errno_ret),
	  HAS(struct spec_seccomp_rule, has_errno), .max = 0xffff },
	{ "args",     FIELD_ARRAY, 0, R(args),
	  COUNT(struct spec_seccomp_rule, n_args), .shape = &arg_shape,
	  .max = 64 },
};
#undef R
static const struct shape rule_shape = {
	SHAPE(struct spec_seccomp_rule, rule_fields), .check = check_rule };

#define S(m) MEMBER(struct spec_seccomp, m)
static const struct field seccomp_fields[] = {
	{ "defaultAction",    FIELD_ENUM, FIELD_REQUIRED, S(default_action),
	  .names = &profile_action_names },
	{ "defaultErrnoRet",  FIELD_UINT, 0, S(default_errno),
	  HAS(struct spec_seccomp, has_default_errno), .max = 0xffff },
	{ "architectures",    FIELD_STRS, 0, S(architectures),
	  .names = &profile_arch_names },
	{ "flags",	      FIELD_STRS, 0, S(flags),
	  .names = &profile_flag_names },
	{ "listenerPath",     FIELD_STR, STR_MAY_BE_NONE | STR_ABSOLUTE,
	  S(listener_path) },
	{ "listenerMetadata", FIELD_STR, STR_MAY_BE_NONE,
	  S(listener_metadata) },
	{ "syscalls",	      FIELD_ARRAY, 0, S(rules),
	  COUNT(struct spec_seccomp, n_rules), .shape = &rule_shape,
	  .max = LIMIT_SYSCALL_RULES },
};
#undef S
const struct shape seccomp_shape = {
	SHAPE(struct spec_seccomp, seccomp_fields), .check = check_seccomp };
/* clang-format on */

void spec_seccomp_done(struct spec_seccomp *s)
{
	shape_done(&seccomp_shape, s);
	*s = (struct spec_seccomp){ .default_action = 0 };
}

static const char *action_name(uint32_t action)
{
	return names_of(&profile_action_names, action);
}

static bool names_call(const struct spec_seccomp_rule *r, const char *call)
{
	for (size_t i = 0; i < r->names.n; i++)
		if (strcmp(r->names.v[i], call) == 0)
			return true;
	return false;
}

void spec_seccomp_look_up(const struct spec_seccomp *s, const char *call,
			  struct spec_seccomp_said *ret)
{
	*ret = (struct spec_seccomp_said){
		.ret = s->default_action,
		.errno_ret = s->has_default_errno ? s->default_errno : EPERM,
		.is_default = true,
	};
	for (size_t i = 0; i < s->n_rules; i++) {
		const struct spec_seccomp_rule *r = &s->rules[i];

		if (!names_call(r, call) || r->n_args)
			continue;
		ret->ret = r->action;
		ret->errno_ret = r->has_errno ? r->errno_ret : EPERM;
		ret->is_default = false;
	}
	for (size_t i = 0; i < s->n_rules; i++)
		if (s->rules[i].n_args && s->rules[i].action != ret->ret &&
		    names_call(&s->rules[i], call))
			ret->looks_at_args = true;
	ret->action = action_name(ret->ret);
}

static void write_strings(const char *key, const struct spec_strings *list,
			  struct json_out *o)
{
	if (!list->n)
		return;
	json_out_key(o, key);
	json_out_array(o);
	for (size_t i = 0; i < list->n; i++)
		json_out_str(o, list->v[i]);
	json_out_array_end(o);
}

static void write_args(const struct spec_seccomp_rule *r, struct json_out *o)
{
	if (!r->n_args)
		return;
	json_out_key(o, "args");
	json_out_array(o);
	for (size_t i = 0; i < r->n_args; i++) {
		const struct spec_seccomp_arg *a = &r->args[i];

		json_out_object(o);
		json_out_uint_member(o, "index", a->index);
		json_out_uint_member(o, "value", a->value);
		if (a->value_two)
			json_out_uint_member(o, "valueTwo", a->value_two);
		json_out_str_member(
			o, "op",
			names_of(&profile_operator_names, (uint64_t)a->op));
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

static void write_rule(const struct spec_seccomp_rule *r, struct json_out *o)
{
	json_out_object(o);
	write_strings("names", &r->names, o);
	json_out_str_member(o, "action", action_name(r->action));
	if (r->has_errno)
		json_out_uint_member(o, "errnoRet", r->errno_ret);
	write_args(r, o);
	json_out_object_end(o);
}

void spec_seccomp_write(const struct spec_seccomp *s, struct json_out *o)
{
	json_out_object(o);
	json_out_str_member(o, "defaultAction", action_name(s->default_action));
	if (s->has_default_errno)
		json_out_uint_member(o, "defaultErrnoRet", s->default_errno);
	write_strings("architectures", &s->architectures, o);
	write_strings("flags", &s->flags, o);
	if (s->listener_path)
		json_out_str_member(o, "listenerPath", s->listener_path);
	if (s->listener_metadata)
		json_out_str_member(o, "listenerMetadata",
				    s->listener_metadata);
	json_out_key(o, "syscalls");
	json_out_array(o);
	for (size_t i = 0; i < s->n_rules; i++)
		write_rule(&s->rules[i], o);
	json_out_array_end(o);
	json_out_object_end(o);
}
