#include "base/user.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { LINE_BYTES = 4096 };

char *user_name(uid_t uid)
{
	auto_file FILE *f = fopen("/etc/passwd", "re");
	char line[LINE_BYTES];
	struct passwd pw, *found;

	while (f && fgetpwent_r(f, &pw, line, sizeof(line), &found) == 0)
		if (found->pw_uid == uid)
			return strdup(found->pw_name);
	return NULL;
}
