/* hooks of config.json. */
#include <limits.h>

#include "base/limits.h"
#include "spec/parse.h"

static int check_env(const struct at *at, void *obj)
{
	struct spec_hook *h = obj;

	h->has_env = true;
	return check_variables(at, &h->env);
}

/* clang-format off */
#define H(m) MEMBER(struct spec_hook, m)

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
	[i] = { key_, FIELD_ARRAY, 0, MEMBER(struct spec_hooks, v[i]), \
		COUNT(struct spec_hooks, n[i]), .shape = &hook_shape, \
		.max = LIMIT_HOOKS }
static const struct field points[SPEC_HOOK_COUNT] = {
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

const char *spec_hook_name(enum spec_hook_point point)
{
	return points[point].key;
}
