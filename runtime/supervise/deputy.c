#include "supervise/deputy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { STATUS_MAX = 64 * 1024, GROUPS_MAX = 1024 };

/* The caller's credentials, in the ids of the namespace we are in. */
struct creds {
	uid_t uid;
	gid_t gid;
	uint64_t caps;
	mode_t umask;
	gid_t groups[GROUPS_MAX];
	size_t n_groups;
};

static const char *find_line(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? p + strlen(key) : NULL;
}

static int read_creds(pid_t tid, struct creds *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	char path[40], *end;
	const char *uid, *gid, *groups, *caps, *mask;
	unsigned int u[4], g[4];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	r = fd_read_file(AT_FDCWD, path, STATUS_MAX, &b);
	if (r < 0)
		return r;
	uid = find_line(buf_str(&b), "\nUid:");
	gid = find_line(buf_str(&b), "\nGid:");
	groups = find_line(buf_str(&b), "\nGroups:");
	caps = find_line(buf_str(&b), "\nCapEff:");
	mask = find_line(buf_str(&b), "\nUmask:");
	if (!uid || !gid || !groups || !caps || !mask ||
	    sscanf(uid, "%u %u %u %u", u, u + 1, u + 2, u + 3) != 4 ||
	    sscanf(gid, "%u %u %u %u", g, g + 1, g + 2, g + 3) != 4)
		return -EPROTO;
	ret->uid = u[3];
	ret->gid = g[3];
	ret->caps = strtoull(caps, NULL, 16);
	ret->umask = (mode_t)strtoul(mask, NULL, 8);
	ret->n_groups = 0;
	for (;;) {
		groups += strspn(groups, " \t");
		if (*groups < '0' || *groups > '9' ||
		    ret->n_groups == GROUPS_MAX)
			return 0;
		ret->groups[ret->n_groups++] = (gid_t)strtoul(groups, &end, 10);
		groups = end;
	}
}

static int set_effective(uint64_t caps)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	d[0].effective = d[0].permitted & (uint32_t)caps;
	d[1].effective = d[1].permitted & (uint32_t)(caps >> 32);
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

/* Groups that may not be set cannot have been changed by the caller either. */
static int become(const struct creds *k)
{
	if (syscall(SYS_setgroups, k->n_groups, k->groups) < 0 &&
	    errno != EPERM)
		return -errno;
	(void)setfsgid(k->gid);
	(void)setfsuid(k->uid);
	if ((uid_t)setfsuid((uid_t)-1) != k->uid ||
	    (gid_t)setfsgid((gid_t)-1) != k->gid)
		return -EPERM;
	return set_effective(k->caps);
}

static int enter_userns(pid_t init)
{
	auto_close int fd = -1;
	char path[40];

	if (!init)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)init);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 || setns(fd, CLONE_NEWUSER) < 0 ? -errno : 0;
}

/* Of the process that is to die with it; set once, in the deputy. */
static pid_t parent;

/* Changing ids takes it away. */
static int die_with_parent(void)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return getppid() == parent ? 0 : -EIO;
}

int deputy_become_all_powerful(void)
{
	int r;

	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	(void)umask(0);
	r = set_effective(UINT64_MAX);
	return r == 0 ? die_with_parent() : r;
}

static int be_deputy(const struct deputy *d, struct creds *k)
{
	int r = enter_userns(d->init);

	if (r == 0)
		r = read_creds(d->tid, k);
	if (r == 0 && d->prepare)
		r = d->prepare(d->data);
	if (r == 0)
		r = become(k);
	if (r == 0)
		r = die_with_parent();
	(void)umask(k->umask);
	return r == 0 ? d->work(d->data) : r;
}

int deputy_run(const struct deputy *d)
{
	auto_free struct creds *k = calloc(1, sizeof(*k));
	pid_t self = getpid();
	pid_t pid = k ? fork() : -1;
	int status = 0;

	if (pid == 0) {
		sigset_t none;

		parent = self;
		(void)sigemptyset(&none);
		if (die_with_parent() < 0)
			_exit(EIO);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		_exit(-be_deputy(d, k));
	}
	if (pid < 0)
		return -EIO;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -EIO;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}
