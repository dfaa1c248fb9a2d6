#include "supervise/callers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "supervise/act.h"
#include "supervise/handler.h"
#include "supervise/who.h"

CLEANUP_PTR(struct caller, caller_put);

void caller_put(struct caller *k)
{
	if (!k || atomic_fetch_sub(&k->refs, 1) != 1)
		return;
	cleanup_close(&k->fd);
	cleanup_close(&k->root_fd);
	free(k->program);
	free(k);
}

/* Takes the descriptors. */
static struct caller *caller_new(pid_t tid, int fd, int root_fd,
				 const struct who *w)
{
	size_t size = w->n_groups * sizeof(*w->groups);
	auto_close int pidfd = fd, root = root_fd;
	struct caller *k = malloc(sizeof(*k) + size);

	if (!k)
		return NULL;
	atomic_init(&k->refs, 1);
	k->tid = tid;
	k->fd = take_fd(&pidfd);
	k->root_fd = take_fd(&root);
	k->program = NULL;
	k->n_groups = w->n_groups;
	memcpy(k->groups, w->groups, size);
	return k;
}

int callers_init(struct callers *k, bool sees_execs)
{
	*k = (struct callers){ .sees_execs = sees_execs };
	return -pthread_mutex_init(&k->lock, NULL);
}

void callers_forget(struct callers *k)
{
	(void)pthread_mutex_lock(&k->lock);
	k->is_over = true;
	for (size_t i = 0; i < CALLERS_MAX; i++) {
		caller_put(k->v[i]);
		k->v[i] = NULL;
	}
	(void)pthread_mutex_unlock(&k->lock);
}

void callers_done(struct callers *k)
{
	callers_forget(k);
	(void)pthread_mutex_destroy(&k->lock);
}

static struct caller **slot_of(struct callers *k, pid_t tid)
{
	return &k->v[(size_t)tid % CALLERS_MAX];
}

/* Who was remembered by that number; NULL if nobody was. */
static struct caller *take(struct callers *k, pid_t tid)
{
	struct caller *found;

	(void)pthread_mutex_lock(&k->lock);
	found = *slot_of(k, tid);
	if (found && found->tid == tid)
		(void)atomic_fetch_add(&found->refs, 1);
	else
		found = NULL;
	(void)pthread_mutex_unlock(&k->lock);
	return found;
}

/* If the number still means it. */
static bool recall(const struct caller *k, struct who *ret)
{
	struct pidfd_info info = { .mask = 0 };

	if (ioctl(k->fd, PIDFD_GET_INFO, &info) < 0)
		return false;
	ret->tgid = (pid_t)info.tgid;
	ret->ppid = (pid_t)info.ppid;
	ret->uid = info.fsuid;
	ret->gid = info.fsgid;
	ret->n_groups = k->n_groups;
	memcpy(ret->groups, k->groups, k->n_groups * sizeof(*k->groups));
	ret->umask = 0;
	/* It may have any. */
	ret->caps = UINT64_MAX;
	return true;
}

static void remember(struct callers *k, struct caller *new)
{
	struct pidfd_info info = { .mask = 0 };
	struct caller **slot = slot_of(k, new->tid);

	if (new->fd < 0 || ioctl(new->fd, PIDFD_GET_INFO, &info) < 0)
		return;
	(void)pthread_mutex_lock(&k->lock);
	if (!k->is_over) {
		caller_put(*slot);
		(void)atomic_fetch_add(&new->refs, 1);
		*slot = new;
	}
	(void)pthread_mutex_unlock(&k->lock);
}

static int read_caller(struct callers *k, struct call *c, struct who *ret,
		       struct caller **ret_caller)
{
	auto_close int fd = -1, root_fd = -1;
	pid_t tid = call_tid(c);
	int r;

	act_settle();
	fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	root_fd = call_open_root(c);
	r = root_fd < 0 ? root_fd : who_read(tid, ret);
	if (r < 0)
		return r;
	/* The number meant the caller for as long as it waits. */
	if (!call_is_valid(c))
		return -ESRCH;
	*ret_caller = caller_new(tid, take_fd(&fd), take_fd(&root_fd), ret);
	if (!*ret_caller)
		return -ENOMEM;
	remember(k, *ret_caller);
	return 0;
}

int callers_find(struct callers *k, struct call *c, bool wants_umask,
		 struct who *ret, struct caller **ret_caller)
{
	auto_ptr(caller_put) struct caller *known =
		wants_umask ? NULL : take(k, call_tid(c));

	if (!known || !recall(known, ret))
		return read_caller(k, c, ret, ret_caller);
	*ret_caller = take_ptr(&known);
	return 0;
}

/* ------------------------------------------------------------ programs -- */

static void change_execs(struct callers *k, unsigned int more,
			 unsigned int less)
{
	(void)pthread_mutex_lock(&k->lock);
	k->n_execs++;
	k->n_running += more;
	k->n_running -= less;
	(void)pthread_mutex_unlock(&k->lock);
}

void callers_exec_begin(struct callers *k)
{
	change_execs(k, 1, 0);
}

void callers_exec_end(struct callers *k)
{
	change_execs(k, 0, 1);
}

/* What it is as long as nobody executes anything. */
static char *known_program(struct callers *k, const struct caller *who,
			   uint64_t *ret_execs)
{
	char *copy = NULL;

	(void)pthread_mutex_lock(&k->lock);
	*ret_execs = k->n_execs;
	if (who->program && who->n_execs == k->n_execs && !k->n_running)
		copy = strdup(who->program);
	(void)pthread_mutex_unlock(&k->lock);
	return copy;
}

static void keep_program(struct callers *k, struct caller *who,
			 const char *program, uint64_t execs)
{
	(void)pthread_mutex_lock(&k->lock);
	if (k->sees_execs && !k->n_running && k->n_execs == execs) {
		free(who->program);
		who->program = strdup(program);
		who->n_execs = execs;
	}
	(void)pthread_mutex_unlock(&k->lock);
}

char *callers_program(struct callers *k, struct caller *who, struct call *c)
{
	char link[32], path[PATH_MAX];
	uint64_t execs;
	char *known = known_program(k, who, &execs);

	if (known)
		return known;
	act_settle();
	(void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)call_tid(c));
	if (fd_read_link(AT_FDCWD, link, path) < 0 || !call_is_valid(c))
		return NULL;
	keep_program(k, who, path, execs);
	return strdup(path);
}
