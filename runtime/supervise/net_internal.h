/* What the files of supervise/net share. */
#ifndef SANDLOCK_SUPERVISE_NET_INTERNAL_H
#define SANDLOCK_SUPERVISE_NET_INTERNAL_H

#include <linux/netlink.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "supervise/ask.h"
#include "supervise/net.h"

/* A row's data: the same function serves a quick row, which hands over what
 * may wait, and the one behind it, which waits. */
struct net_lane {
	struct net *net;
	bool may_wait;
};

/* Rules that came while it runs. */
struct net_live;
/* Abstract names that the sandbox itself bound. */
struct net_names;

/*
 * Sockets whose connection was made after its caller had been told to restart
 * connect: the next one must not say EISCONN.
 */
enum { NET_LATE_MAX = 64 };

struct net {
	struct net_layers layers;
	struct denials *denials;
	const struct request *request;
	const struct asker *asker;
	bool (*is_own_path)(const void *data, const char *path); /* net.h */
	const void *path_data;
	struct ports *ports; /* NULL: nothing is remapped */
	pid_t init, first;   /* see net.h, and the following, too */
	pid_t userns_of;
	int (*confine)(void *data);
	void *confine_data;
	bool is_own_network;
	struct net_names *names;
	struct net_live *live;
	struct net_lane quick, slow;
	pthread_mutex_t lock; /* of what follows */
	uint64_t late[NET_LATE_MAX];
	unsigned int next_late;
};

/* A duplicate of a caller's socket, and what it is. */
struct net_socket {
	int fd;
	int family, type;
	enum net_proto proto; /* 0: none that a rule could be for */
	bool nonblock;
};

union net_sockaddr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
	struct sockaddr_nl nl;
	struct sockaddr_storage room;
};

/* A copy of a caller's address; judged, it is what is used. */
struct net_address {
	union net_sockaddr at;
	socklen_t len; /* 0: none */
	int path_fd;   /* what a unix path leads to; -1 */
};

/* As the kernel has it, on every 64-bit machine. */
struct user_message {
	uint64_t name;
	uint32_t name_len;
	uint32_t pad;
	uint64_t iov;
	uint64_t n_iov;
	uint64_t control;
	uint64_t control_len;
	uint32_t flags;
	uint32_t pad2;
};

struct user_mmessage {
	struct user_message m;
	uint32_t sent;
	uint32_t pad;
};

/*
 * Of a call that sends and was captured: messages of a sendmmsg, and bytes in
 * all. What is beyond that is not sent by it.
 */
enum {
	NET_CAPTURED_MESSAGES = 64,
	NET_CAPTURED_BYTES = 1024 * 1024,
	/* Also where others have taken all there is (CALL_CAPTURED_MAX). */
	NET_CAPTURED_LEAST = 4096,
	NET_IOV_MAX = 1024, /* UIO_MAXIOV */
	NET_CONTROL_MAX = 4096,
};

/*
 * A call at work. What was captured of it is kept while somebody is asked about
 * where it goes, and is not read again.
 */
struct net_work {
	struct net_socket s;
	struct net_address a;
	bool is_open, is_read; /* the socket, the address */
	struct ask ask;
	bool is_approved;
	uint64_t sent; /* messages of sendmmsg that went before */
	struct outcome outcome;
};

/*
 * The work of @c: what was kept, or new, which then is the caller's, in
 * *@ret_own, to free. NULL on ENOMEM.
 */
struct net_work *net_work_get(struct call *c, struct net_work **ret_own);
void net_work_free(struct net_work *w);
CLEANUP_PTR(struct net_work, net_work_free);
/* The next message: nothing is known of it. */
void net_work_next(struct net_work *w);
int net_work_open(struct call *c, struct net_work *w);
/* And reads the address of connect and bind, once. */
int net_work_open_at(struct call *c, struct net_work *w);

/*
 * Judges where w->a leads, and asks where rules say so: true, or w->outcome is
 * the answer. *@own is kept with the call if it waits.
 */
bool net_may(struct net *n, struct call *c, struct net_work *w, bool is_send,
	     struct net_work **own);
/* Asks about w->a: true if that is allowed, else as net_may. */
bool net_ask(struct net *n, struct call *c, struct net_work *w,
	     struct net_work **own);
/* Ends the work: @o; what was kept holds no socket any longer. */
struct outcome net_work_end(struct net_work *w, struct outcome o);

/* 0 or a negative errno: -ENOTSOCK, -EBADF, -ESRCH. */
int net_socket_open(struct call *c, int fd, struct net_socket *ret);
void net_socket_done(struct net_socket *s);

#define NET_SOCKET_INIT  \
	{                \
		.fd = -1 \
	}
#define NET_ADDRESS_INIT      \
	{                     \
		.path_fd = -1 \
	}

int net_address_read(struct call *c, uint64_t addr, uint64_t len,
		     struct net_address *ret);
void net_address_done(struct net_address *a);

/* The address and port of an inet address, -EAFNOSUPPORT or -EINVAL. */
int net_address_inet(const struct net_address *a, struct net_ip *ret_ip,
		     uint16_t *ret_port);
void net_address_set_port(struct net_address *a, uint16_t port);

/* net_live.c. A verdict by such rules has NET_RULE_LIVE. */
enum { NET_RULE_LIVE = -2 };
struct net_live *net_live_new(void);
void net_live_free(struct net_live *l);
struct net_verdict net_live_decide(struct net *n, struct call *c,
				   const struct net_dest *d);

/* net_unix.c */
int net_judge_unix(struct net *n, struct call *c, struct net_address *a);
struct net_names *net_names_new(void);
void net_names_free(struct net_names *v);
/* Binds an abstract name (a.len of a family alone: one is made up). */
int net_names_bind(struct net_names *v, struct call *c, int fd,
		   const struct net_address *a);

/*
 * net_caller.c. Binds a path in the view of the caller, whose rights, umask and
 * Landlock domain decide.
 */
int net_bind_path(struct net *n, struct call *c, int fd,
		  const struct net_address *a);
/*
 * In a network of the sandbox's own: done by a process that has the caller's
 * ids, capabilities, root and working directory, of which peers see the ids.
 * 0 or bytes, or a negative errno; -EINTR of a connect that @is_short and would
 * wait. @ids, in the control data of @h or NULL, gets the process's number.
 */
int net_bind_as_caller(struct net *n, struct call *c, int fd,
		       const struct net_address *a);
int net_connect_as_caller(struct net *n, struct call *c, int fd,
			  const struct net_address *a, bool is_short);
ssize_t net_send_as_caller(struct net *n, struct call *c, int fd,
			   const struct msghdr *h, int flags,
			   unsigned char *ids);
/* Whether what is done with @s depends on who does it. */
bool net_needs_caller(const struct net *n, const struct net_socket *s);

/* When a call that waits gives up, by SO_SNDTIMEO or SO_RCVTIMEO: 0: never. */
uint64_t net_deadline_ms(int fd, int option);
bool net_is_over(uint64_t deadline_ms);

/* Shows a real port of ours as the virtual one. */
void net_show_virtual(struct net *n, const struct net_socket *s,
		      struct net_address *a, bool is_peer);
/* As much as there is room for, and how much there would have been. */
int net_write_name(struct call *c, const struct net_address *a, uint64_t at,
		   uint64_t len_at);

/* net_send.c, net_recv.c, net_bind.c: the handlers. */
struct outcome net_sendto(struct call *c, void *data); /* and sendmsg */
struct outcome net_sendmmsg(struct call *c, void *data);
struct outcome net_receive(struct call *c, void *data); /* recv* */
struct outcome net_bind(struct call *c, void *data);
struct outcome net_listen(struct call *c, void *data);
struct outcome net_getsockname(struct call *c, void *data);
struct outcome net_getpeername(struct call *c, void *data);

/* Records a refusal of @a (NULL: a unix socket); @rule is the index in the
 * list, -1: none. */
void net_refused(struct net *n, struct call *c, const struct net_socket *s,
		 const struct net_address *a, bool is_bind, const char *object,
		 int rule, int error);

/* "192.0.2.1:443", "[::1]:443", in @ret of NET_DEST_TEXT. */
enum { NET_DEST_TEXT = NET_IP_TEXT + 10 };

#endif
