#include "supervise/callers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/uapi.h"
#include "supervise/handler.h"
#include "supervise/who.h"

int callers_init(struct callers *k)
{
	*k = (struct callers){ .is_over = false };
	return -pthread_mutex_init(&k->lock, NULL);
}

/* With the lock held. */
static void free_slot(struct callers *k, size_t i)
{
	if (k->v[i].tid) {
		(void)close(k->v[i].fd);
		(void)close(k->v[i].root_fd);
	}
	free(k->v[i].groups);
	memset(&k->v[i], 0, sizeof(k->v[i]));
}

void callers_forget(struct callers *k)
{
	(void)pthread_mutex_lock(&k->lock);
	k->is_over = true;
	for (size_t i = 0; i < CALLERS_MAX; i++)
		free_slot(k, i);
	(void)pthread_mutex_unlock(&k->lock);
}

void callers_done(struct callers *k)
{
	callers_forget(k);
	(void)pthread_mutex_destroy(&k->lock);
}

/* With the lock held. */
static bool recall(const struct callers *k, size_t i, pid_t tid,
		   struct who *ret, int *ret_root_fd)
{
	struct pidfd_info info = { .mask = 0 };
	int fd;

	if (k->v[i].tid != tid || ioctl(k->v[i].fd, PIDFD_GET_INFO, &info) < 0)
		return false;
	/* Of its own: somebody else may forget. */
	fd = fcntl(k->v[i].root_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return false;
	ret->tgid = (pid_t)info.tgid;
	ret->ppid = (pid_t)info.ppid;
	ret->uid = info.fsuid;
	ret->gid = info.fsgid;
	ret->n_groups = k->v[i].n_groups;
	memcpy(ret->groups, k->v[i].groups,
	       ret->n_groups * sizeof(*ret->groups));
	ret->umask = 0;
	/* It may have any. */
	ret->caps = UINT64_MAX;
	*ret_root_fd = fd;
	return true;
}

/* Takes @fd. With the lock held. */
static void remember(struct callers *k, size_t i, pid_t tid, int fd,
		     int root_fd, const struct who *w)
{
	struct pidfd_info info = { .mask = 0 };
	size_t size = w->n_groups * sizeof(*w->groups);
	auto_free gid_t *groups = malloc(size ? size : 1);
	auto_close int pidfd = fd, root = -1;

	if (k->is_over || !groups || ioctl(fd, PIDFD_GET_INFO, &info) < 0)
		return;
	root = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
	if (root < 0)
		return;
	free_slot(k, i);
	memcpy(groups, w->groups, size);
	k->v[i].tid = tid;
	k->v[i].fd = take_fd(&pidfd);
	k->v[i].root_fd = take_fd(&root);
	k->v[i].n_groups = w->n_groups;
	k->v[i].groups = take_ptr(&groups);
}

static int read_caller(struct callers *k, struct call *c, struct who *ret,
		       int *ret_root_fd)
{
	pid_t tid = call_tid(c);
	auto_close int fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	auto_close int root_fd = call_open_root(c);
	int r = root_fd < 0 ? root_fd : who_read(tid, ret);

	if (r < 0)
		return r;
	/* The number meant the caller for as long as it waits. */
	if (!call_is_valid(c))
		return -ESRCH;
	if (fd >= 0) {
		(void)pthread_mutex_lock(&k->lock);
		remember(k, (size_t)tid % CALLERS_MAX, tid, take_fd(&fd),
			 root_fd, ret);
		(void)pthread_mutex_unlock(&k->lock);
	}
	*ret_root_fd = take_fd(&root_fd);
	return 0;
}

int callers_find(struct callers *k, struct call *c, bool wants_umask,
		 struct who *ret, int *ret_root_fd)
{
	pid_t tid = call_tid(c);
	bool found;

	(void)pthread_mutex_lock(&k->lock);
	found = !wants_umask &&
		recall(k, (size_t)tid % CALLERS_MAX, tid, ret, ret_root_fd);
	(void)pthread_mutex_unlock(&k->lock);
	return found ? 0 : read_caller(k, c, ret, ret_root_fd);
}
