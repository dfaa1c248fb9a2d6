/* Mounts below the lower: an overlay does not cross them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/change.h"
#include "branch/internal.h"

/* Undoes the \ooo escapes of mountinfo in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		unsigned int c;

		if (s[0] == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
			*to++ = (char)c;
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* The fifth field of a line; NULL if there is none. */
static char *mount_point(char *line)
{
	char *save = NULL, *field = strtok_r(line, " ", &save);

	for (int i = 1; field && i < 5; i++)
		field = strtok_r(NULL, " ", &save);
	if (field)
		unescape(field);
	return field;
}

int branch_uncovered(struct branch *b, change_fn *fn, void *data,
		     struct error *err)
{
	const char *lower = b->meta.lower;
	size_t n = strcmp(lower, "/") == 0 ? 0 : strlen(lower);
	auto_file FILE *file = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	size_t cap = 0;

	if (!file)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot open '/proc/self/mountinfo'");
	while (getline(&line, &cap, file) > 0) {
		const char *at = mount_point(line);
		struct change c = { .kind = CHANGE_ADD };
		int r;

		if (!at || strlen(at) <= n + 1 || at[n] != '/' ||
		    strncmp(at, lower, n) != 0)
			continue;
		c.path = at + n + 1;
		c.before.mode = c.after.mode = S_IFDIR;
		r = fn(data, &c);
		if (r)
			return r;
	}
	return 0;
}
