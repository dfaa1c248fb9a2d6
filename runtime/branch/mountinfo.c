#include "branch/mountinfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"

int mountinfo_open(struct mountinfo *m, const char *process)
{
	char path[64];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%s/mountinfo", process);
	*m = (struct mountinfo){ .text = BUF_INIT };
	/* Whole: the kernel begins anew for each part that it is asked for. */
	r = fd_read_file(AT_FDCWD, path, LIMIT_MOUNTINFO_BYTES, &m->text);
	if (r < 0)
		mountinfo_done(m);
	else
		m->next = m->text.data;
	return r;
}

void mountinfo_done(struct mountinfo *m)
{
	buf_done(&m->text);
	*m = (struct mountinfo){ .text = BUF_INIT };
}

/* Undoes the \ooo escapes in place. */
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

/* 36 35 98:0 /root /point rw,noatime ... - ext4 ... */
static bool parse(struct mountinfo *m, char *line)
{
	char *save = NULL, *field[6];
	unsigned int major, minor;

	for (size_t i = 0; i < 6; i++) {
		field[i] = strtok_r(i == 0 ? line : NULL, " \n", &save);
		if (!field[i])
			return false;
	}
	do
		m->type = strtok_r(NULL, " \n", &save);
	while (m->type && strcmp(m->type, "-") != 0);
	if (m->type)
		m->type = strtok_r(NULL, " \n", &save);
	if (!m->type || sscanf(field[2], "%u:%u", &major, &minor) != 2)
		return false;
	unescape(field[3]);
	unescape(field[4]);
	m->id = strtoull(field[0], NULL, 10);
	m->dev = makedev(major, minor);
	m->root = field[3];
	m->point = field[4];
	m->read_only = strncmp(field[5], "ro", 2) == 0;
	return true;
}

int mountinfo_next(struct mountinfo *m)
{
	char *line;

	while ((line = strsep(&m->next, "\n")))
		if (parse(m, line))
			return 1;
	return 0;
}

bool mountinfo_has_below(const char *dir)
{
	struct mountinfo m;
	bool found = false;

	if (mountinfo_open(&m, "self") < 0)
		return true;
	while (!found && mountinfo_next(&m) == 1)
		found = strcmp(m.point, dir) != 0 &&
			path_is_under(m.point, dir);
	mountinfo_done(&m);
	return found;
}
