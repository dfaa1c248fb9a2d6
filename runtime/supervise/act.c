#include "supervise/act.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/caps.h"
#include "supervise/handler.h"
#include "supervise/who.h"

/* Who the thread is, until it becomes somebody else and back. */
static _Thread_local struct us {
	bool is_known;
	uid_t uid;
	gid_t gid, groups[WHO_GROUPS_MAX];
	size_t n_groups;
} us;

/* It was left without capabilities. */
static _Thread_local bool lingers;

void act_settle(void)
{
	if (!lingers)
		return;
	lingers = false;
	(void)caps_set_effective(UINT64_MAX);
}

static int read_who(struct call *c, struct who *w)
{
	int r = who_read(call_tid(c), w);

	return r == 0 && !call_is_valid(c) ? -ESRCH : r;
}

static void become_root(void)
{
	us.is_known = false;
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
	return caps_set_effective(caps) < 0 ? -EACCES : 0;
}

int act_begin(struct act *a, struct call *c)
{
	auto_free struct who *w = malloc(sizeof(*w));
	int r;

	*a = (struct act){ .changed = false };
	act_settle();
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
static bool read_us(void)
{
	int n = getgroups(WHO_GROUPS_MAX, us.groups);

	if (n < 0)
		return false;
	us.n_groups = (size_t)n;
	qsort(us.groups, us.n_groups, sizeof(*us.groups), compare_groups);
	us.uid = geteuid();
	us.gid = getegid();
	return true;
}

bool act_is_like(const struct who *w)
{
	us.is_known = us.is_known || read_us();
	return us.is_known && us.n_groups == w->n_groups && us.uid == w->uid &&
	       us.gid == w->gid &&
	       memcmp(us.groups, w->groups, us.n_groups * sizeof(*us.groups)) ==
		       0;
}

int act_begin_bare(struct act *a, const struct who *w)
{
	int r = 0;

	*a = (struct act){ .is_bare = true };
	if (!act_is_like(w)) {
		act_settle();
		r = geteuid() == 0 ? become(a, w) : -EACCES;
	}
	if (r == 0 && !lingers && caps_set_effective(0) < 0)
		r = -EACCES;
	if (r < 0)
		act_end(a);
	return r;
}

void act_end(struct act *a)
{
	/* Before what takes them. */
	if (a->is_bare)
		(void)caps_set_effective(UINT64_MAX);
	lingers = false;
	if (a->changed)
		become_root();
	*a = (struct act){ .changed = false };
}

void act_linger(struct act *a)
{
	if (a->changed) {
		act_end(a);
		return;
	}
	lingers = true;
	*a = (struct act){ .changed = false };
}
