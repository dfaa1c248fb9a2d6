/*
 * What is done by a process in the caller's place: what the kernel decides by
 * who does it, and what its peers are told.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "supervise/deputy.h"
#include "supervise/net_internal.h"

/* One call, as its caller. */
struct deed {
	const struct net *n;
	int root_fd, cwd_fd; /* -1: it names no path */
	int fd;
	const struct net_address *a;
	bool is_short;
	const struct msghdr *h;
	int flags;
	unsigned char *ids;
	ssize_t *sent; /* shared with the process */
};

/* The caller's root and working directory, then its domain. */
static int enter_view(void *data)
{
	const struct deed *d = data;

	if (d->root_fd < 0)
		return 0;
	/* Where the root is ours nobody may chroot. */
	if (!d->n->is_own_path && (fchdir(d->root_fd) < 0 || chroot(".") < 0))
		return -errno;
	if (fchdir(d->cwd_fd) < 0)
		return -errno;
	if (!d->n->confine)
		return 0;
	return d->n->confine(d->n->confine_data);
}

static int do_bind(void *data)
{
	const struct deed *d = data;

	return bind(d->fd, &d->a->at.any, d->a->len) < 0 ? -errno : 0;
}

static void ignore(int sig)
{
}

/* Again and again, since the first may come before the call. */
static int interrupt_soon(void)
{
	const struct itimerval t = { { 0, 2000 }, { 0, 2000 } };
	const struct sigaction a = { .sa_handler = ignore };

	if (sigaction(SIGALRM, &a, NULL) < 0 ||
	    setitimer(ITIMER_REAL, &t, NULL) < 0)
		return -errno;
	return 0;
}

static int do_connect(void *data)
{
	const struct deed *d = data;
	int r = d->is_short ? interrupt_soon() : 0;

	if (r < 0)
		return r;
	return connect(d->fd, &d->a->at.any, d->a->len) < 0 ? -errno : 0;
}

/* The kernel judges what ids it says; a process may only name itself. */
static int do_send(void *data)
{
	const struct deed *d = data;
	pid_t pid = getpid();

	if (d->ids)
		memcpy(d->ids + offsetof(struct ucred, pid), &pid, sizeof(pid));
	*d->sent = sendmsg(d->fd, d->h, d->flags);
	return *d->sent < 0 ? -errno : 0;
}

static bool is_path(const struct sockaddr *a, socklen_t len)
{
	return a && a->sa_family == AF_UNIX &&
	       len > offsetof(struct sockaddr_un, sun_path) &&
	       ((const struct sockaddr_un *)(const void *)a)->sun_path[0];
}

static int run(struct deed *d, struct call *c, bool in_view, bool whole,
	       int (*work)(void *data))
{
	auto_close int root_fd = in_view ? call_open_root(c) : -1;
	auto_close int cwd_fd = -1;
	const struct deputy deputy = {
		.tid = call_tid(c),
		.init = d->n->userns_of,
		.prepare = enter_view,
		.work = work,
		.data = d,
		.whole = whole,
	};

	if (in_view && root_fd < 0)
		return take_fd(&root_fd);
	if (in_view)
		cwd_fd = call_open_dirfd(c, AT_FDCWD);
	if (in_view && cwd_fd < 0)
		return take_fd(&cwd_fd);
	d->root_fd = root_fd;
	d->cwd_fd = cwd_fd;
	return call_is_valid(c) ? deputy_run(&deputy) : -ESRCH;
}

int net_bind_path(struct net *n, struct call *c, int fd,
		  const struct net_address *a)
{
	struct deed d = { .n = n, .fd = fd, .a = a };

	return run(&d, c, true, false, do_bind);
}

bool net_needs_caller(const struct net *n, const struct net_socket *s)
{
	return n->is_own_network && s->family != AF_INET &&
	       s->family != AF_INET6;
}

int net_bind_as_caller(struct net *n, struct call *c, int fd,
		       const struct net_address *a)
{
	struct deed d = { .n = n, .fd = fd, .a = a };

	return run(&d, c, is_path(&a->at.any, a->len), true, do_bind);
}

int net_connect_as_caller(struct net *n, struct call *c, int fd,
			  const struct net_address *a, bool is_short)
{
	struct deed d = { .n = n, .fd = fd, .a = a, .is_short = is_short };

	return run(&d, c, is_path(&a->at.any, a->len), true, do_connect);
}

ssize_t net_send_as_caller(struct net *n, struct call *c, int fd,
			   const struct msghdr *h, int flags,
			   unsigned char *ids)
{
	ssize_t *sent = mmap(NULL, sizeof(*sent), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct deed d = {
		.n = n,
		.fd = fd,
		.h = h,
		.flags = flags,
		.ids = ids,
		.sent = sent,
	};
	ssize_t r;

	if (sent == MAP_FAILED)
		return -ENOMEM;
	r = run(&d, c, is_path(h->msg_name, h->msg_namelen), true, do_send);
	if (r == 0)
		r = *sent;
	(void)munmap(sent, sizeof(*sent));
	return r;
}
