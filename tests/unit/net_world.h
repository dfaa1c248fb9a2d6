/*
 * A child whose network calls are trapped and carried out here, under rules,
 * and servers of the test for it to connect to.
 */
#ifndef SANDLOCK_TESTS_NET_WORLD_H
#define SANDLOCK_TESTS_NET_WORLD_H

#include "trap.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "spec/request.h"
#include "supervise/denials.h"
#include "supervise/net.h"
#include "supervise/supervisor.h"

static const int trapped_nrs[] = {
	SYS_connect,  SYS_sendto,  SYS_sendmsg,	    SYS_sendmmsg,
	SYS_bind,     SYS_listen,  SYS_getsockname, SYS_getpeername,
	SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg
};
/* Without remapping nobody asks for names. */
enum { NRS_NAMES = 5, DEADLINE_MS = 1000, PATIENCE_S = 60, RACES = 4000 };

static struct error err;
static _Atomic(struct net *) net; /* of the run that is on */
static pthread_t *beside;	  /* a thread that is done before it ends */

/*
 * Where there is one, what is sent is captured, as for an embedder's handler,
 * and written over with this behind it.
 */
static const char *written_over;
/* They go on when so many have come; what was captured of all of them. */
static size_t n_together;
static atomic_size_t n_came, bytes_together;

static inline struct outcome capture_row(struct call *c, void *data)
{
	struct iovec v = { (void *)(uintptr_t)call_arg(c, 1), 0 };
	struct msghdr m;

	if (!written_over || call_has_captured(c))
		return OUTCOME_GO;
	assert_int_equal(net_capture(c), 0);
	if (call_nr(c) != SYS_sendto) {
		(void)call_read(c, call_arg(c, 1), &m, sizeof(m));
		(void)call_read(c, (uint64_t)(uintptr_t)m.msg_iov, &v,
				sizeof(v));
	}
	(void)call_write(c, (uint64_t)(uintptr_t)v.iov_base, written_over,
			 strlen(written_over));
	(void)atomic_fetch_add(&bytes_together, call_captured_bytes(c));
	(void)atomic_fetch_add(&n_came, 1);
	while (atomic_load(&n_came) < n_together)
		trap_sleep_ms(1);
	return OUTCOME_GO;
}

static inline size_t add_capture_rows(struct handler *ret)
{
	static const struct handler rows[] = {
		{ "sendto", SYS_sendto, LANE_LOCAL, capture_row, NULL, NULL },
		{ "sendmsg", SYS_sendmsg, LANE_LOCAL, capture_row, NULL, NULL },
		{ "sendmmsg", SYS_sendmmsg, LANE_LOCAL, capture_row, NULL,
		  NULL },
	};

	memcpy(ret, rows, sizeof(rows));
	return ARRAY_LEN(rows);
}

/* Runs @body under rules, given as pairs of key and value. */
static inline char *run(const char *const *pairs, int (*body)(void *),
			void *arg)
{
	auto_ptr(request_free) struct request *q = request_new();
	auto_ptr(denials_free) struct denials *denials = denials_new();
	auto_(net_rules) struct net_rules rules = { .connect.n = 0 };
	auto_(buf) struct buf said = BUF_INIT;
	struct handler rows[3 + NET_ROWS];
	struct supervisor_options o = { .handlers = rows,
					.park_timeout_ms = DEADLINE_MS };
	struct net_options no = { .rules = &rules,
				  .denials = denials,
				  .request = q,
				  .init = getpid() };
	struct supervisor *s = NULL;
	struct trapped t;

	for (; *pairs; pairs += 2)
		assert_int_equal(
			request_set(q, pairs[0], pairs[1], "rule", &err), 0);
	assert_int_equal(net_rules_read(q, &rules, &err), 0);
	no.remap = q->port_remap;
	net = net_new(&no);
	assert_non_null(net);
	o.n_handlers = add_capture_rows(rows);
	o.n_handlers += net_rows(net, rows + o.n_handlers);
	assert_int_equal(supervisor_new(&o, &s, &err), 0);
	assert_int_equal(supervisor_start(s, &err), 0);
	t = trap_fork(trapped_nrs,
		      ARRAY_LEN(trapped_nrs) - (no.remap ? 0 : NRS_NAMES), body,
		      arg);
	net_set_first(net, t.pid);
	assert_int_equal(supervisor_add_listener(s, t.listener_fd, &err), 0);
	trap_go(&t);
	assert_int_equal(trap_wait(t.pid, PATIENCE_S), 0);
	if (beside)
		assert_int_equal(pthread_join(*beside, NULL), 0);
	beside = NULL;
	supervisor_free(s);
	net_free(net);
	assert_int_equal(denials_page(denials, 0, 60000, &said), 0);
	return buf_take(&said, NULL);
}

/* ------------------------------------------------------------- helpers -- */

static inline struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static inline uint16_t port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);

	MUST(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	return ntohs(a.sin_port);
}

/* On a free port, of the test itself. */
static inline int server(int type, uint16_t *ret_port)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = loopback(0);

	MUST(fd >= 0);
	MUST(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	if (type == SOCK_STREAM)
		MUST(listen(fd, 16) == 0);
	*ret_port = port_of(fd);
	return fd;
}

static inline int try_connect(int type, struct sockaddr_in a)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	int r = connect(fd, (struct sockaddr *)&a, sizeof(a)) ? errno : 0;

	MUST(close(fd) == 0);
	return r;
}

static inline const char *rule_for(char text[64], const char *scheme,
				   uint16_t port)
{
	(void)snprintf(text, 64, "%s127.0.0.1:%u", scheme, port);
	return text;
}

struct servers {
	int good_fd, bad_fd;
	uint16_t good, bad;
};

#endif
