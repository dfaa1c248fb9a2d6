#include "supervise/deputy.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/caps.h"
#include "supervise/who.h"

/* Groups that may not be set cannot have been changed by the caller either. */
static int become(const struct who *w)
{
	if (syscall(SYS_setgroups, w->n_groups, w->groups) < 0 &&
	    errno != EPERM)
		return -errno;
	(void)setfsgid(w->gid);
	(void)setfsuid(w->uid);
	if ((uid_t)setfsuid((uid_t)-1) != w->uid ||
	    (gid_t)setfsgid((gid_t)-1) != w->gid)
		return -EPERM;
	return caps_set_effective(w->caps);
}

/* The kernel's word for all ids of a process, which keeps its capabilities. */
static int become_wholly(const struct who *w)
{
	if (syscall(SYS_setgroups, w->n_groups, w->groups) < 0 &&
	    errno != EPERM)
		return -errno;
	if (prctl(PR_SET_KEEPCAPS, 1) < 0 ||
	    syscall(SYS_setresgid, w->gid, w->gid, w->gid) < 0 ||
	    syscall(SYS_setresuid, w->uid, w->uid, w->uid) < 0)
		return -errno;
	return caps_set_effective(w->caps);
}

static int enter_userns(pid_t init)
{
	auto_close int fd = -1;
	char path[40];

	if (!init)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)init);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWUSER) < 0)
		return -errno;
	caps_forget();
	return 0;
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
	r = caps_set_effective(UINT64_MAX);
	return r == 0 ? die_with_parent() : r;
}

static int be_deputy(const struct deputy *d, struct who *w)
{
	int r = enter_userns(d->init);

	if (r == 0)
		r = who_read(d->tid, w);
	if (r == 0 && d->prepare)
		r = d->prepare(d->data);
	if (r == 0)
		r = d->whole ? become_wholly(w) : become(w);
	if (r == 0)
		r = die_with_parent();
	(void)umask(w->umask);
	return r == 0 ? d->work(d->data) : r;
}

int deputy_run(const struct deputy *d)
{
	auto_free struct who *w = calloc(1, sizeof(*w));
	pid_t self = getpid();
	pid_t pid = w ? fork() : -1;
	int status = 0;

	if (pid == 0) {
		sigset_t none;

		parent = self;
		(void)sigemptyset(&none);
		if (die_with_parent() < 0)
			_exit(EIO);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		_exit(-be_deputy(d, w));
	}
	if (pid < 0)
		return -EIO;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -EIO;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}
