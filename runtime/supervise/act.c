#include "supervise/act.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervise/handler.h"

enum { GROUPS_MAX = 1024, STATUS_MAX = 16 * 1024 };

struct who {
	uid_t uid;
	gid_t gid;
	gid_t groups[GROUPS_MAX];
	size_t n_groups;
};

/* The n-th number behind "Name:". */
static int read_field(const char *status, const char *name, int nth,
		      unsigned int *ret)
{
	const char *at = strstr(status, name);

	if (!at)
		return -EIO;
	at += strlen(name);
	for (int i = 0;; i++) {
		char *end;
		unsigned long v = strtoul(at, &end, 10);

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
	while (n < GROUPS_MAX) {
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
static int read_who(struct call *c, struct who *w)
{
	char path[40];
	auto_free char *text = malloc(STATUS_MAX);
	auto_close int fd = -1;
	ssize_t n;
	int r;

	if (!text)
		return -ENOMEM;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)call_tid(c));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, STATUS_MAX - 1);
	if (n <= 0 || !call_is_valid(c))
		return -ESRCH;
	text[n] = '\0';
	r = read_field(text, "\nUid:", 3, &w->uid);
	if (r == 0)
		r = read_field(text, "\nGid:", 3, &w->gid);
	read_groups(text, w);
	return r;
}

static void become_root(void)
{
	(void)syscall(SYS_setresuid, -1, 0, -1);
	(void)syscall(SYS_setresgid, -1, getgid(), -1);
	(void)syscall(SYS_setgroups, 0, NULL);
}

int act_begin(struct act *a, struct call *c)
{
	auto_free struct who *w = malloc(sizeof(*w));
	int r;

	a->changed = false;
	if (!w)
		return -ENOMEM;
	r = read_who(c, w);
	if (r < 0)
		return r;
	if (w->uid == geteuid())
		return 0;
	if (geteuid() != 0)
		return -EACCES;
	a->changed = true;
	if (syscall(SYS_setgroups, w->n_groups, w->groups) < 0 ||
	    syscall(SYS_setresgid, -1, w->gid, -1) < 0 ||
	    syscall(SYS_setresuid, -1, w->uid, -1) < 0) {
		act_end(a);
		return -EACCES;
	}
	return 0;
}

void act_end(struct act *a)
{
	if (a->changed)
		become_root();
	a->changed = false;
}
