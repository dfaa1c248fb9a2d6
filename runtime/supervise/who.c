#include "supervise/who.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { STATUS_MAX = 64 * 1024 };

/* The n-th number behind "Name:". */
static int read_field(const char *status, const char *name, int nth, int base,
		      unsigned int *ret)
{
	const char *at = strstr(status, name);

	if (!at)
		return -EIO;
	at += strlen(name);
	for (int i = 0;; i++) {
		char *end;
		unsigned long v = strtoul(at, &end, base);

		if (end == at)
			return -EIO;
		if (i == nth) {
			*ret = (unsigned int)v;
			return 0;
		}
		at = end;
	}
}

static void read_groups(const char *status, struct who *w)
{
	const char *at = strstr(status, "\nGroups:");
	size_t n = 0;

	at = at ? at + strlen("\nGroups:") : "";
	while (n < WHO_GROUPS_MAX) {
		char *end;
		unsigned long v;

		at += strspn(at, " \t");
		if (*at < '0' || *at > '9')
			break;
		v = strtoul(at, &end, 10);
		w->groups[n++] = (gid_t)v;
		at = end;
	}
	w->n_groups = n;
}

/* The fourth of the ids is the one files are judged by. */
int who_read(pid_t tid, struct who *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	const char *text, *at;
	unsigned int tgid = 0, ppid = 0;
	char path[40];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	if (fd_read_file(AT_FDCWD, path, STATUS_MAX, &b) < 0)
		return -ESRCH;
	text = buf_str(&b);
	r = read_field(text, "\nTgid:", 0, 10, &tgid);
	if (r == 0)
		r = read_field(text, "\nPPid:", 0, 10, &ppid);
	if (r == 0)
		r = read_field(text, "\nUid:", 3, 10, &ret->uid);
	if (r == 0)
		r = read_field(text, "\nGid:", 3, 10, &ret->gid);
	if (r == 0)
		r = read_field(text, "\nUmask:", 0, 8, &ret->umask);
	ret->tgid = (pid_t)tgid;
	ret->ppid = (pid_t)ppid;
	read_groups(text, ret);
	at = strstr(text, "\nCapEff:");
	ret->caps = at ? strtoull(at + strlen("\nCapEff:"), NULL, 16) : 0;
	return r;
}
