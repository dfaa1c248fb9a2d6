#include "kernel/netdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "spec/spec.h"

enum {
	ADDRESSES_MAX = 256, /* of one device */
	NUMBERS_MAX = 1024,  /* tried for "%d" */
	ATTRS_MAX = 256,
	REPLY_MAX = 32 * 1024,
	TIMEOUT_S = 10,
};

struct request {
	struct nlmsghdr h;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg addr;
	};
	char attrs[ATTRS_MAX];
};

struct address {
	struct ifaddrmsg m;
	uint32_t flags;
	unsigned char local[16], peer[16], broadcast[4];
	bool has_local, has_peer, has_broadcast;
};

struct device {
	const char *host_name;
	char name[IFNAMSIZ]; /* inside */
	struct address addresses[ADDRESSES_MAX];
	size_t n_addresses;
};

/* Both ends: one socket in the host's namespace, one in the sandbox's. */
struct mover {
	int host_sock, inside_sock, ns_fd;
	struct error *err;
};

static int open_socket(void)
{
	struct timeval tv = { .tv_sec = TIMEOUT_S };
	auto_close int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0)
		return -errno;
	return take_fd(&fd);
}

static void init_request(struct request *r, uint16_t type, uint16_t flags,
			 size_t body)
{
	memset(r, 0, sizeof(*r));
	r->h.nlmsg_len = (uint32_t)NLMSG_LENGTH(body);
	r->h.nlmsg_type = type;
	r->h.nlmsg_flags = NLM_F_REQUEST | flags;
}

/* The caller's attributes are few and fit. */
static void add_attr(struct request *r, unsigned short type, const void *data,
		     size_t len)
{
	size_t at = NLMSG_ALIGN(r->h.nlmsg_len);
	struct rtattr a = { .rta_len = (unsigned short)RTA_LENGTH(len),
			    .rta_type = type };

	memcpy((char *)r + at, &a, sizeof(a));
	memcpy((char *)r + at + RTA_LENGTH(0), data, len);
	r->h.nlmsg_len = (uint32_t)(at + RTA_LENGTH(len));
}

static int send_request(int sock, const struct request *r)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK };

	if (sendto(sock, r, r->h.nlmsg_len, 0, (struct sockaddr *)&sa,
		   sizeof(sa)) < 0)
		return -errno;
	return 0;
}

typedef void message_fn(struct device *d, const struct nlmsghdr *h, int index);

/* Reads messages until the acknowledgement or the end of the dump. */
static int receive(int sock, message_fn *fn, struct device *d, int index)
{
	char buf[REPLY_MAX] __attribute__((aligned(NLMSG_ALIGNTO)));

	for (;;) {
		ssize_t n = recv(sock, buf, sizeof(buf), 0);
		size_t left = (size_t)n;
		struct nlmsghdr *h = (struct nlmsghdr *)buf;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((struct nlmsgerr *)NLMSG_DATA(h))
					->error;
			if (fn)
				fn(d, h, index);
		}
	}
}

static int transact(int sock, const struct request *r)
{
	int e = send_request(sock, r);

	return e < 0 ? e : receive(sock, NULL, NULL, 0);
}

/* Any socket answers for its network namespace; -ENODEV. */
static int index_of(int sock, const char *name)
{
	struct ifreq req = { .ifr_ifindex = 0 };

	(void)snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	return ioctl(sock, SIOCGIFINDEX, &req) < 0 ? -errno : req.ifr_ifindex;
}

static void copy_bytes(void *to, size_t room, const struct rtattr *a, bool *has)
{
	size_t len = RTA_PAYLOAD(a);

	if (len > room)
		return;
	memcpy(to, RTA_DATA(a), len);
	*has = true;
}

static void take_address(struct device *d, const struct nlmsghdr *h, int index)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	struct address a = { .m = *m, .flags = m->ifa_flags };
	unsigned int left = (unsigned int)IFA_PAYLOAD(h);
	bool has_flags = false;

	if (h->nlmsg_type != RTM_NEWADDR || (int)m->ifa_index != index ||
	    m->ifa_scope != RT_SCOPE_UNIVERSE)
		return;
	for (const struct rtattr *p = IFA_RTA(m); RTA_OK(p, left);
	     p = RTA_NEXT(p, left)) {
		if (p->rta_type == IFA_LOCAL)
			copy_bytes(a.local, sizeof(a.local), p, &a.has_local);
		else if (p->rta_type == IFA_ADDRESS)
			copy_bytes(a.peer, sizeof(a.peer), p, &a.has_peer);
		else if (p->rta_type == IFA_BROADCAST)
			copy_bytes(a.broadcast, sizeof(a.broadcast), p,
				   &a.has_broadcast);
		else if (p->rta_type == IFA_FLAGS)
			copy_bytes(&a.flags, sizeof(a.flags), p, &has_flags);
	}
	/* One over the limit is remembered, to be refused. */
	if ((a.flags & IFA_F_PERMANENT) && d->n_addresses <= ADDRESSES_MAX) {
		if (d->n_addresses < ADDRESSES_MAX)
			d->addresses[d->n_addresses] = a;
		d->n_addresses++;
	}
}

static int read_addresses(int sock, struct device *d, int index)
{
	struct request r;
	int e;

	init_request(&r, RTM_GETADDR, NLM_F_DUMP, sizeof(r.addr));
	e = send_request(sock, &r);
	if (e == 0)
		e = receive(sock, take_address, d, index);
	if (e == 0 && d->n_addresses > ADDRESSES_MAX)
		e = -E2BIG;
	return e;
}

static int put_address(int sock, const struct address *a, int index)
{
	size_t len = a->m.ifa_family == AF_INET ? 4 : 16;
	/* State of the old device, and not to be set. */
	uint32_t flags =
		a->flags & ~(uint32_t)(IFA_F_PERMANENT | IFA_F_TENTATIVE |
				       IFA_F_DADFAILED | IFA_F_SECONDARY);
	struct request r;

	init_request(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK,
		     sizeof(r.addr));
	r.addr = (struct ifaddrmsg){ .ifa_family = a->m.ifa_family,
				     .ifa_prefixlen = a->m.ifa_prefixlen,
				     .ifa_scope = a->m.ifa_scope,
				     .ifa_index = (unsigned int)index };
	if (a->has_local)
		add_attr(&r, IFA_LOCAL, a->local, len);
	if (a->has_peer)
		add_attr(&r, IFA_ADDRESS, a->peer, len);
	if (a->has_broadcast && a->m.ifa_family == AF_INET)
		add_attr(&r, IFA_BROADCAST, a->broadcast, 4);
	add_attr(&r, IFA_FLAGS, &flags, sizeof(flags));
	return transact(sock, &r);
}

static int change_namespace(const struct mover *m, const struct device *d,
			    int index)
{
	struct request r;

	init_request(&r, RTM_NEWLINK, NLM_F_ACK, sizeof(r.link));
	r.link.ifi_index = index;
	add_attr(&r, IFLA_NET_NS_FD, &m->ns_fd, sizeof(m->ns_fd));
	add_attr(&r, IFLA_IFNAME, d->name, strlen(d->name) + 1);
	return transact(m->host_sock, &r);
}

static int set_up(int sock, int index)
{
	struct request r;

	init_request(&r, RTM_NEWLINK, NLM_F_ACK, sizeof(r.link));
	r.link.ifi_index = index;
	r.link.ifi_flags = r.link.ifi_change = IFF_UP;
	return transact(sock, &r);
}

static int name_taken(const char *name, struct error *err)
{
	return error_say(err, ERR_BUNDLE, EEXIST,
			 "linux.netDevices: the sandbox has a device '%s' "
			 "already",
			 name);
}

/* Fills in the name that the device will have inside. */
static int choose_name(const struct mover *m, const char *wanted, char *ret)
{
	const char *pattern = strchr(wanted, '%');
	size_t head = pattern ? (size_t)(pattern - wanted) : 0;

	if (strlen(wanted) >= IFNAMSIZ ||
	    (pattern && (pattern[1] != 'd' || strchr(pattern + 1, '%'))))
		return error_say(m->err, ERR_BUNDLE, EINVAL,
				 "linux.netDevices: '%s' is no name of a "
				 "device",
				 wanted);
	if (!pattern) {
		(void)snprintf(ret, IFNAMSIZ, "%s", wanted);
		return index_of(m->inside_sock, ret) > 0
			       ? name_taken(wanted, m->err)
			       : 0;
	}
	for (int i = 0; i < NUMBERS_MAX; i++) {
		int n = snprintf(ret, IFNAMSIZ, "%.*s%d%s", (int)head, wanted,
				 i, pattern + 2);

		if (n < IFNAMSIZ && index_of(m->inside_sock, ret) == -ENODEV)
			return 0;
	}
	return name_taken(wanted, m->err);
}

static int move_error(const struct device *d, int sys, struct error *err)
{
	(void)error_set(err, ERR_SYSTEM, sys,
			"cannot move the network device '%s' into the sandbox",
			d->host_name);
	if (sys == EINVAL)
		return error_hint(err, "devices such as bridges, tunnels and "
				       "the loopback stay where they are");
	if (sys == EPERM)
		return error_hint(err, "it takes CAP_NET_ADMIN on both sides");
	return error_code(err);
}

static int move_one(const struct mover *m, const struct spec_net_device *s,
		    struct device *d)
{
	int index = index_of(m->host_sock, s->host_name);
	int e;

	d->host_name = s->host_name;
	d->n_addresses = 0;
	if (index < 0)
		return error_set(m->err, ERR_BUNDLE, -index,
				 "linux.netDevices: no device '%s'",
				 s->host_name);
	e = choose_name(m, s->name && *s->name ? s->name : s->host_name,
			d->name);
	if (e < 0)
		return e;
	e = read_addresses(m->host_sock, d, index);
	if (e == 0)
		e = change_namespace(m, d, index);
	if (e < 0)
		return move_error(d, -e, m->err);
	index = index_of(m->inside_sock, d->name);
	e = index < 0 ? index : 0;
	for (size_t i = 0; e == 0 && i < d->n_addresses; i++)
		e = put_address(m->inside_sock, &d->addresses[i], index);
	if (e == 0)
		e = set_up(m->inside_sock, index);
	if (e < 0)
		return error_set(m->err, ERR_SYSTEM, -e,
				 "cannot set up the network device '%s'",
				 d->name);
	return 0;
}

static int move_all(const struct spec_net_device *v, size_t n, int ns_fd,
		    struct device *d, struct error *err)
{
	auto_close int host = open_socket();
	auto_close int inside = -1;
	struct mover m = { .host_sock = host, .ns_fd = ns_fd, .err = err };

	if (host >= 0 && setns(ns_fd, CLONE_NEWNET) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot enter the sandbox's network "
				 "namespace");
	inside = host < 0 ? host : open_socket();
	if (inside < 0)
		return error_set(err, ERR_SYSTEM, -inside,
				 "cannot open a netlink socket");
	m.inside_sock = inside;
	for (size_t i = 0; i < n; i++) {
		int e = move_one(&m, &v[i], d);

		if (e < 0)
			return e;
	}
	return 0;
}

static bool is_own_namespace(int ns_fd)
{
	struct stat theirs, ours;

	return fstat(ns_fd, &theirs) == 0 &&
	       stat("/proc/self/ns/net", &ours) == 0 &&
	       theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

int netdev_move(const struct spec_net_device *v, size_t n, pid_t pid,
		struct error *err)
{
	auto_close int ns_fd = -1, in = -1, out = -1;
	auto_free struct device *d = NULL;
	struct error e = ERROR_INIT;
	char path[64];
	int fds[2];
	pid_t child;

	if (n == 0)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	ns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (ns_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 path);
	if (is_own_namespace(ns_fd))
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "linux.netDevices: the sandbox has no network "
				 "namespace of its own");
	/* The child of a process with threads had better not allocate. */
	d = calloc(1, sizeof(*d));
	if (!d || pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot move network devices");
	in = fds[0];
	out = fds[1];
	child = fork();
	if (child < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot fork");
	if (child == 0) {
		(void)move_all(v, n, ns_fd, d, &e);
		_exit(fd_write_full(out, &e, sizeof(e)) < 0);
	}
	(void)close(take_fd(&out));
	if (fd_read_full(in, &e, sizeof(e)) != (ssize_t)sizeof(e))
		(void)error_say(&e, ERR_SYSTEM, EIO,
				"the child that moves network devices has "
				"died");
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (e.kind == ERR_NONE)
		return 0;
	if (err)
		*err = e;
	return error_code(&e);
}
