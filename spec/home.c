#include "spec/home.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* That of the environment, where the command looks for its own. */
static const char *find_home(struct error *err)
{
	const char *home = getenv("HOME");

	if (home && home[0] == '/' && home[strspn(home, "/")])
		return home;
	(void)error_say(err, ERR_USAGE, EINVAL,
			"the environment has no HOME to put in place of "
			"${HOME}");
	return NULL;
}

int home_expand(const char *path, struct buf *ret, bool *ret_used,
		struct error *err)
{
	static const char variable[] = "${HOME}";
	const char *begin, *home;

	if (path[0] == '~' && (path[1] == '/' || !path[1])) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'~' is a directory of that name in a profile");
		return error_hint(err, "write ${HOME}, or ./~");
	}
	while ((begin = strstr(path, "${"))) {
		if (strncmp(begin, variable, strlen(variable)) != 0) {
			(void)error_say(err, ERR_USAGE, EINVAL,
					"'%s' begins with an unknown variable",
					begin);
			return error_hint(err, "${HOME} is the only one");
		}
		home = find_home(err);
		if (!home)
			return error_code(err);
		buf_add(ret, path, (size_t)(begin - path));
		buf_add(ret, home, strlen(home));
		path = begin + strlen(variable);
		*ret_used = true;
	}
	buf_add(ret, path, strlen(path));
	return buf_failed(ret) ? error_set(err, ERR_SYSTEM, ENOMEM, "profile")
			       : 0;
}
