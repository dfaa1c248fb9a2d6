/*
 * Unix sockets. A path is looked up as the caller sees it, once, and the socket
 * that was found is what is connected to. Abstract names belong to the network
 * namespace, so to the host: a sandbox reaches those that it bound itself and
 * those of rules, as Landlock's scope has it for calls that are not trapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/sockdiag.h"
#include "supervise/act.h"
#include "supervise/net_internal.h"

enum {
	NAMES_MAX = 1024,
	NAME_MAX_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path)
};

static const size_t family_len = offsetof(struct sockaddr_un, sun_path);

struct name {
	char text[NAME_MAX_BYTES];
	size_t n;
	uint32_t ino;
	uint64_t cookie;
};

struct net_names {
	pthread_mutex_t lock;
	struct name *v;
	size_t n;
};

struct net_names *net_names_new(void)
{
	struct net_names *v = calloc(1, sizeof(*v));

	if (v && pthread_mutex_init(&v->lock, NULL)) {
		free(v);
		return NULL;
	}
	return v;
}

void net_names_free(struct net_names *v)
{
	if (!v)
		return;
	(void)pthread_mutex_destroy(&v->lock);
	free(v->v);
	free(v);
}

/* What cannot be asked is not ours. */
static bool is_alive(const struct name *x)
{
	return sockdiag_find_unix(x->ino, x->cookie) == 1;
}

/* With the lock held. */
static int make_room(struct net_names *v)
{
	struct name *p;

	for (size_t i = v->n; v->n == NAMES_MAX && i-- > 0;)
		if (!is_alive(&v->v[i]))
			v->v[i] = v->v[--v->n];
	if (v->n == NAMES_MAX)
		return -ENOBUFS;
	p = reallocarray(v->v, v->n + 1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	v->v = p;
	return 0;
}

static int bind_name(int fd, const struct net_address *a, struct name *ret)
{
	union net_sockaddr got;
	socklen_t n = sizeof(got);
	struct stat st;

	if (bind(fd, &a->at.any, a->len) < 0 ||
	    getsockname(fd, &got.any, &n) < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (n <= family_len || n > sizeof(got.un))
		return -EINVAL;
	ret->n = n - family_len - 1;
	memcpy(ret->text, got.un.sun_path + 1, ret->n);
	ret->ino = (uint32_t)st.st_ino;
	ret->cookie = sockdiag_cookie(fd);
	return 0;
}

int net_names_bind(struct net_names *v, struct call *c, int fd,
		   const struct net_address *a)
{
	struct act act;
	int r;

	(void)pthread_mutex_lock(&v->lock);
	r = make_room(v);
	if (r == 0)
		r = act_begin(&act, c);
	if (r == 0) {
		r = bind_name(fd, a, &v->v[v->n]);
		act_end(&act);
	}
	if (r == 0)
		v->n++;
	(void)pthread_mutex_unlock(&v->lock);
	return r;
}

static bool is_own_name(struct net_names *v, const char *text, size_t n)
{
	bool found = false;

	(void)pthread_mutex_lock(&v->lock);
	for (size_t i = 0; !found && i < v->n; i++)
		found = v->v[i].n == n && memcmp(v->v[i].text, text, n) == 0 &&
			is_alive(&v->v[i]);
	(void)pthread_mutex_unlock(&v->lock);
	return found;
}

static const struct net_socket unix_socket = { .fd = -1, .proto = NET_UNIX };

/* EPERM is what Landlock's scope says. */
static int judge_abstract(struct net *n, struct call *c,
			  const struct net_address *a)
{
	const char *name = a->at.un.sun_path + 1;
	size_t len = a->len - family_len - 1;
	auto_(buf) struct buf object = BUF_INIT;
	struct net_verdict v;

	if (is_own_name(n->names, name, len))
		return 0;
	v = net_decide_abstract(&n->layers, name, len);
	if (v.allowed)
		return 0;
	buf_printf(&object, "@%.*s", (int)len, name);
	net_refused(n, c, &unix_socket, NULL, false, buf_str(&object), -1,
		    EPERM);
	return -EPERM;
}

/* A relative path, made absolute in the view of the caller. */
static int absolute(struct call *c, const char *path, char ret[PATH_MAX])
{
	char link[40];
	size_t n;
	int r;

	(void)snprintf(link, sizeof(link), "/proc/%d/cwd", (int)call_tid(c));
	r = fd_read_link(AT_FDCWD, link, ret);
	if (r < 0)
		return r;
	n = strlen(ret);
	if (snprintf(ret + n, PATH_MAX - n, "/%s", path) >= (int)(PATH_MAX - n))
		return -ENAMETOOLONG;
	return call_is_valid(c) ? 0 : -ESRCH;
}

/*
 * The socket that @path is for the caller, as O_PATH: looked up with its
 * rights. What leads there is opened with ours, as the caller's own may be.
 */
static int open_path(struct call *c, const char *path)
{
	char whole[PATH_MAX];
	auto_close int root_fd = call_open_root(c);
	struct act act;
	int r = 0;

	if (root_fd < 0)
		return take_fd(&root_fd);
	if (*path != '/') {
		r = absolute(c, path, whole);
		path = whole;
	}
	if (r == 0)
		r = act_begin(&act, c);
	if (r < 0)
		return r;
	r = fd_open_in_root(root_fd, path, O_PATH, 0);
	act_end(&act);
	return r;
}

static int is_own_path(const struct net *n, int fd, const char *path)
{
	struct statvfs fs;

	if (n->is_own_path)
		return n->is_own_path(n->path_data, path);
	return fstatvfs(fd, &fs) < 0 ? -errno : !(fs.f_flag & ST_RDONLY);
}

static int judge_path(struct net *n, struct call *c, struct net_address *a)
{
	char path[sizeof(a->at.un.sun_path) + 1] = "";
	char inside[PATH_MAX], link[FD_PATH_MAX];
	auto_close int fd = -1;
	struct net_verdict v;
	int r;

	memcpy(path, a->at.un.sun_path, a->len - family_len);
	fd = open_path(c, path);
	if (fd < 0)
		return fd;
	r = fd_path(fd, inside);
	if (r < 0)
		return r;
	r = is_own_path(n, fd, inside);
	if (r < 0)
		return r;
	v = net_decide_path(&n->layers, inside, r);
	if (!v.allowed) {
		net_refused(n, c, &unix_socket, NULL, false, inside, v.rule,
			    EACCES);
		return -EACCES;
	}
	memset(&a->at, 0, sizeof(a->at));
	a->at.un.sun_family = AF_UNIX;
	(void)snprintf(a->at.un.sun_path, sizeof(a->at.un.sun_path), "%s",
		       fd_proc_path(fd, link));
	a->len = sizeof(a->at.un);
	cleanup_close(&a->path_fd);
	a->path_fd = take_fd(&fd);
	return 0;
}

int net_judge_unix(struct net *n, struct call *c, struct net_address *a)
{
	if (a->at.any.sa_family != AF_UNIX || a->len <= family_len ||
	    a->len > sizeof(a->at.un))
		return -EINVAL;
	if (a->at.un.sun_path[0] == '\0')
		return judge_abstract(n, c, a);
	return judge_path(n, c, a);
}
