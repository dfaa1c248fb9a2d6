#include "supervise/act.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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
	mode_t umask;
	uint64_t caps; /* effective */
};

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
	const char *at;
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
	r = read_field(text, "\nUid:", 3, 10, &w->uid);
	if (r == 0)
		r = read_field(text, "\nGid:", 3, 10, &w->gid);
	if (r == 0)
		r = read_field(text, "\nUmask:", 0, 8, &w->umask);
	read_groups(text, w);
	at = strstr(text, "\nCapEff:");
	w->caps = at ? strtoull(at + strlen("\nCapEff:"), NULL, 16) : 0;
	return r;
}

/* All that we may have, or none; of this thread. */
static int set_effective(uint64_t caps)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, sets) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		sets[i].effective =
			sets[i].permitted & (uint32_t)(caps >> 32 * i);
	return syscall(SYS_capset, &head, sets) < 0 ? -errno : 0;
}

static void become_root(void)
{
	(void)syscall(SYS_setresuid, -1, 0, -1);
	(void)syscall(SYS_setresgid, -1, getgid(), -1);
	(void)syscall(SYS_setgroups, 0, NULL);
}

/* Root becomes anybody. */
static int become(struct act *a, const struct who *w)
{
	a->changed = true;
	if (syscall(SYS_setgroups, w->n_groups, w->groups) == 0 &&
	    syscall(SYS_setresgid, -1, w->gid, -1) == 0 &&
	    syscall(SYS_setresuid, -1, w->uid, -1) == 0)
		return 0;
	act_end(a);
	return -EACCES;
}

/* Root as well may be without some of its capabilities. */
static int limit(struct act *a, uint64_t caps)
{
	a->is_bare = true;
	return set_effective(caps) < 0 ? -EACCES : 0;
}

int act_begin(struct act *a, struct call *c)
{
	auto_free struct who *w = malloc(sizeof(*w));
	int r;

	*a = (struct act){ .changed = false };
	if (!w)
		return -ENOMEM;
	r = read_who(c, w);
	if (r < 0)
		return r;
	if (w->uid == geteuid())
		return geteuid() == 0 ? limit(a, w->caps) : 0;
	return geteuid() == 0 ? become(a, w) : -EACCES;
}

static int compare_groups(const void *a, const void *b)
{
	gid_t x = *(const gid_t *)a, y = *(const gid_t *)b;

	return x < y ? -1 : x > y;
}

/* The kernel has sorted what it shows. */
static bool is_like_us(const struct who *w)
{
	gid_t ours[GROUPS_MAX];
	int n = getgroups(GROUPS_MAX, ours);

	if (n < 0 || (size_t)n != w->n_groups || w->uid != geteuid() ||
	    w->gid != getegid())
		return false;
	qsort(ours, (size_t)n, sizeof(*ours), compare_groups);
	return memcmp(ours, w->groups, (size_t)n * sizeof(*ours)) == 0;
}

int act_begin_bare(struct act *a, struct call *c, mode_t *ret_umask)
{
	auto_free struct who *w = malloc(sizeof(*w));
	int r;

	*a = (struct act){ .is_bare = true };
	if (!w)
		return -ENOMEM;
	r = read_who(c, w);
	if (r < 0)
		return r;
	if (geteuid() == 0)
		r = become(a, w);
	else if (!is_like_us(w))
		r = -EACCES;
	if (r == 0 && set_effective(0) < 0)
		r = -EACCES;
	if (r < 0)
		act_end(a);
	*ret_umask = w->umask;
	return r;
}

void act_end(struct act *a)
{
	/* Before what takes them. */
	if (a->is_bare)
		(void)set_effective(UINT64_MAX);
	if (a->changed)
		become_root();
	*a = (struct act){ .changed = false };
}
