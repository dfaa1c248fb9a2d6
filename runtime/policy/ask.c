#include "policy/ask.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "spec/spec.h"

static bool matches_path(const char *rule, const char *path)
{
	size_t n = strlen(rule);

	if (!path)
		return false;
	/* "/dir", "/dir/", "/": the directory and all that is below it. */
	if (n > 0 && rule[n - 1] == '/')
		n--;
	if (strncmp(rule, path, n) == 0 && (path[n] == '/' || path[n] == '\0'))
		return true;
	return fnmatch(rule, path, FNM_PATHNAME | FNM_PERIOD) == 0;
}

static bool matches_name(const char *rule, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	if (!path)
		return false;
	return fnmatch(rule, slash ? slash + 1 : path, 0) == 0;
}

static const char *match(const struct spec_strings *rules, const char *path,
			 const char *real, bool names)
{
	for (size_t i = 0; i < rules->n; i++) {
		const char *rule = rules->v[i];

		if (strcmp(rule, "*") == 0)
			return rule;
		if (strchr(rule, '/') ? matches_path(rule, path) ||
						matches_path(rule, real)
				      : names && (matches_name(rule, path) ||
						  matches_name(rule, real)))
			return rule;
	}
	return NULL;
}

const char *ask_match_exec(const struct spec_strings *rules, const char *path,
			   const char *real)
{
	return match(rules, path, real, true);
}

const char *ask_match_open(const struct spec_strings *rules, const char *path,
			   const char *real)
{
	return match(rules, path, real, false);
}

int ask_check_paths(const struct spec_strings *rules, const char *key,
		    struct error *err)
{
	for (size_t i = 0; i < rules->n; i++) {
		const char *rule = rules->v[i];

		if (!*rule)
			return error_say(err, ERR_USAGE, EINVAL,
					 "%s: an empty rule; '*' stands for "
					 "everything",
					 key);
		if (strcmp(rule, "*") == 0 || *rule == '/')
			continue;
		if (!strchr(rule, '/') && strcmp(key, "ask.exec") == 0)
			continue;
		(void)error_say(err, ERR_USAGE, EINVAL,
				"%s: '%s' is no absolute path", key, rule);
		return error_hint(err, "patterns begin with '/'; '*' alone is "
				       "everything");
	}
	return 0;
}
