/* hooks of config.json. */
#include <limits.h>

#include "base/limits.h"
#include "spec/parse.h"

/* clang-format off */
static const struct name hook_rows[] = {
	{ "prestart",	     SPEC_HOOK_PRESTART },
	{ "createRuntime",   SPEC_HOOK_CREATE_RUNTIME },
	{ "createContainer", SPEC_HOOK_CREATE_CONTAINER },
	{ "startContainer",  SPEC_HOOK_START_CONTAINER },
	{ "poststart",	     SPEC_HOOK_POSTSTART },
	{ "poststop",	     SPEC_HOOK_POSTSTOP },
};
const struct names hook_names = NAMES("hook", hook_rows);

#define H(m) MEMBER(struct spec_hook, m)
static int check_env(const struct at *at, void *obj)
{
	return check_variables(at, &((const struct spec_hook *)obj)->env);
}

static const struct field hook_fields[] = {
	{ "path",    FIELD_STR, FIELD_REQUIRED | STR_NONEMPTY | STR_ABSOLUTE,
	  H(path) },
	{ "args",    FIELD_STRS, 0, H(args) },
	{ "env",     FIELD_STRS, 0, H(env), .check = check_env },
	{ "timeout", FIELD_INT, 0, H(timeout_s), .min = 1,
	  .max = INT_MAX / 1000 },
};
#undef H
static const struct shape hook_shape = {
	SHAPE(struct spec_hook, hook_fields) };

#define POINT(key_, i) \
	{ key_, FIELD_ARRAY, 0, MEMBER(struct spec_hooks, v[i]), \
	  COUNT(struct spec_hooks, n[i]), .shape = &hook_shape, \
	  .max = LIMIT_HOOKS }
static const struct field points[] = {
	POINT("prestart",	 SPEC_HOOK_PRESTART),
	POINT("createRuntime",	 SPEC_HOOK_CREATE_RUNTIME),
	POINT("createContainer", SPEC_HOOK_CREATE_CONTAINER),
	POINT("startContainer",	 SPEC_HOOK_START_CONTAINER),
	POINT("poststart",	 SPEC_HOOK_POSTSTART),
	POINT("poststop",	 SPEC_HOOK_POSTSTOP),
};
#undef POINT
const struct shape hooks_shape = { SHAPE(struct spec_hooks, points) };
/* clang-format on */
