#include "kernel/pidns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/uapi.h"

enum { STEP = 64 };

struct pidns {
	int ns_fd, proc_fd; /* -1: no procfs */
	ino_t ino;
	pid_t init; /* its pid 1, as we see it, if that is left out */
};

struct list {
	pid_t *v;
	size_t n;
};

static void list_done(struct list *l)
{
	free(l->v);
}

static int append(struct list *l, pid_t pid)
{
	pid_t *v = l->v;

	if (l->n % STEP == 0)
		v = reallocarray(v, l->n + STEP, sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n++] = pid;
	return 0;
}

/* Anything may be mounted there: the pid 1 in it shows whose it is. */
static int open_proc(const struct pidns *p, pid_t member)
{
	char root[32];
	auto_close int root_fd = -1, fd = -1;
	struct statfs fs;
	struct stat st;

	(void)snprintf(root, sizeof(root), "/proc/%d/root", (int)member);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd >= 0)
		fd = fd_open_in_root(root_fd, "/proc", O_RDONLY | O_DIRECTORY,
				     0);
	if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC ||
	    fstatat(fd, "1/ns/pid", &st, 0) < 0 || st.st_ino != p->ino)
		return -1;
	return take_fd(&fd);
}

int pidns_open(pid_t member, pid_t init, struct pidns **ret)
{
	auto_ptr(pidns_free) struct pidns *p = calloc(1, sizeof(*p));
	char path[32];
	struct stat st;

	if (!p)
		return -ENOMEM;
	p->proc_fd = -1;
	p->init = init;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)member);
	p->ns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (p->ns_fd < 0 || fstat(p->ns_fd, &st) < 0)
		return -errno;
	p->ino = st.st_ino;
	p->proc_fd = open_proc(p, member);
	*ret = take_ptr(&p);
	return 0;
}

void pidns_free(struct pidns *p)
{
	if (!p)
		return;
	cleanup_close(&p->ns_fd);
	cleanup_close(&p->proc_fd);
	free(p);
}

bool pidns_has(const struct pidns *p, pid_t pid)
{
	char path[40];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat(path, &st) == 0 && st.st_ino == p->ino;
}

/* Also of a namespace below. */
static bool is_member(const struct pidns *p, pid_t pid)
{
	auto_close int fd = -1;
	char path[40];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fstat(fd, &st) == 0) {
		int up;

		if (st.st_ino == p->ino)
			return true;
		up = ioctl(fd, NS_GET_PARENT);
		(void)close(fd);
		fd = up;
	}
	return false;
}

typedef int add_fn(const struct pidns *p, pid_t pid, struct list *l);

/* A zombie without threads has no namespaces, and is left out. */
static int add_from_host(const struct pidns *p, pid_t pid, struct list *l)
{
	return pid != p->init && is_member(p, pid) ? append(l, pid) : 0;
}

/* One that has gone meanwhile is fine; a kernel that cannot is -ENOTTY. */
static int add_from_inside(const struct pidns *p, pid_t pid, struct list *l)
{
	int ours = pid == 1 && p->init
			   ? 0
			   : ioctl(p->ns_fd, NS_GET_PID_FROM_PIDNS, pid);

	if (ours < 0)
		return errno == ESRCH ? 0 : -errno;
	return ours ? append(l, ours) : 0;
}

static int list_procfs(const struct pidns *p, int proc_fd, const char *path,
		       add_fn *add, struct list *l)
{
	auto_close int fd =
		openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	(void)take_fd(&fd);
	while (r == 0 && (errno = 0, e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0)
			r = add(p, pid, l);
	}
	return r == 0 ? -errno : r;
}

int pidns_list(const struct pidns *p, pid_t **ret, size_t *ret_n)
{
	auto_(list) struct list l = { NULL, 0 };
	int r = p->proc_fd < 0
			? -ENOTTY
			: list_procfs(p, p->proc_fd, ".", add_from_inside, &l);

	if (r == -ENOTTY) {
		l.n = 0;
		r = list_procfs(p, -1, "/proc", add_from_host, &l);
	}
	if (r < 0)
		return r;
	*ret = take_ptr(&l.v);
	*ret_n = l.n;
	return 0;
}
