/*
 * What is done by a process in the caller's place: what the kernel decides by
 * who does it, and what its peers are told.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "supervise/deputy.h"
#include "supervise/net_internal.h"

enum { STATUS_MAX = 64 * 1024 };

/* One call, as its caller. */
struct deed {
	const struct net *n;
	struct call *c;
	int root_fd, cwd_fd; /* -1: it names no path */
	int fd;
	struct net_address a; /* len 0: none */
	bool is_short;
	struct msghdr h;
	int flags;
	unsigned char *ids;
	ssize_t *sent; /* shared with the process */
};

/* The caller's root and working directory, then its domain. */
static int enter_view(void *data)
{
	const struct deed *d = data;

	/* Its ids were read. */
	if (!call_is_valid(d->c))
		return -ESRCH;
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

	return bind(d->fd, &d->a.at.any, d->a.len) < 0 ? -errno : 0;
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
	return connect(d->fd, &d->a.at.any, d->a.len) < 0 ? -errno : 0;
}

/* The kernel judges what ids it says; a process may only name itself. */
static int do_send(void *data)
{
	struct deed *d = data;
	pid_t pid = getpid();

	if (d->ids)
		memcpy(d->ids + offsetof(struct ucred, pid), &pid, sizeof(pid));
	if (d->a.len) {
		d->h.msg_name = &d->a.at;
		d->h.msg_namelen = d->a.len;
	}
	*d->sent = sendmsg(d->fd, &d->h, d->flags);
	return *d->sent < 0 ? -errno : 0;
}

static bool is_path(const struct net_address *a)
{
	return a->at.any.sa_family == AF_UNIX &&
	       a->len > offsetof(struct sockaddr_un, sun_path) &&
	       a->at.un.sun_path[0];
}

/* What the caller calls itself: the last of the numbers behind @key. */
static int read_number(const struct call *c, const char *key, int *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	const char *at, *end;
	char path[40];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)call_tid(c));
	if (fd_read_file(AT_FDCWD, path, STATUS_MAX, &b) < 0)
		return -ESRCH;
	at = strstr(buf_str(&b), key);
	end = at ? strchr(at + 1, '\n') : NULL;
	at = end ? memrchr(at, '\t', (size_t)(end - at)) : NULL;
	if (!at)
		return -EIO;
	*ret = atoi(at + 1);
	return 0;
}

/*
 * /proc/self would be who stands in, which is in no namespace of the caller's
 * and so does not exist. A name that becomes too long stays what it is.
 */
static int name_caller(const struct call *c, struct net_address *a)
{
	static const char self[] = "/proc/self/",
			  thread[] = "/proc/thread-self/";
	char path[sizeof(a->at.un.sun_path) + 1] = "", text[2 * sizeof(path)];
	size_t n = a->len - offsetof(struct sockaddr_un, sun_path);
	bool is_thread;
	int tgid, tid, r;

	if (n >= sizeof(path))
		return 0;
	memcpy(path, a->at.un.sun_path, n);
	is_thread = strncmp(path, thread, sizeof(thread) - 1) == 0;
	if (!is_thread && strncmp(path, self, sizeof(self) - 1) != 0)
		return 0;
	r = read_number(c, "\nNStgid:", &tgid);
	if (r == 0)
		r = read_number(c, "\nNSpid:", &tid);
	if (r < 0)
		return r;
	if (is_thread)
		(void)snprintf(text, sizeof(text), "/proc/%d/task/%d/%s", tgid,
			       tid, path + sizeof(thread) - 1);
	else
		(void)snprintf(text, sizeof(text), "/proc/%d/%s", tgid,
			       path + sizeof(self) - 1);
	n = strlen(text);
	if (n >= sizeof(a->at.un.sun_path))
		return 0;
	memcpy(a->at.un.sun_path, text, n + 1);
	a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	return 0;
}

static int run(struct deed *d, struct call *c, bool whole,
	       int (*work)(void *data))
{
	bool in_view = is_path(&d->a);
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
	int r = in_view ? name_caller(c, &d->a) : 0;

	if (r < 0)
		return r;
	if (in_view && root_fd < 0)
		return take_fd(&root_fd);
	if (in_view)
		cwd_fd = call_open_dirfd(c, AT_FDCWD);
	if (in_view && cwd_fd < 0)
		return take_fd(&cwd_fd);
	d->c = c;
	d->root_fd = root_fd;
	d->cwd_fd = cwd_fd;
	return call_is_valid(c) ? deputy_run(&deputy) : -ESRCH;
}

int net_bind_path(struct net *n, struct call *c, int fd,
		  const struct net_address *a)
{
	struct deed d = { .n = n, .fd = fd, .a = *a };

	return run(&d, c, false, do_bind);
}

bool net_needs_caller(const struct net *n, const struct net_socket *s)
{
	return n->is_own_network && s->family != AF_INET &&
	       s->family != AF_INET6;
}

int net_bind_as_caller(struct net *n, struct call *c, int fd,
		       const struct net_address *a)
{
	struct deed d = { .n = n, .fd = fd, .a = *a };

	return run(&d, c, true, do_bind);
}

int net_connect_as_caller(struct net *n, struct call *c, int fd,
			  const struct net_address *a, bool is_short)
{
	struct deed d = { .n = n, .fd = fd, .a = *a, .is_short = is_short };

	return run(&d, c, true, do_connect);
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
		.a = NET_ADDRESS_INIT,
		.h = *h,
		.flags = flags,
		.ids = ids,
		.sent = sent,
	};
	ssize_t r;

	if (sent == MAP_FAILED)
		return -ENOMEM;
	if (h->msg_namelen)
		memcpy(&d.a.at, h->msg_name, h->msg_namelen);
	d.a.len = h->msg_namelen;
	r = run(&d, c, true, do_send);
	if (r == 0)
		r = *sent;
	(void)munmap(sent, sizeof(*sent));
	return r;
}
