/* Ports that a child binds, and rules that change while it runs. */
#include "net_world.h"

#include <sys/prctl.h>

/* --------------------------------------------------------------- ports -- */

static int bind_port(int type, uint16_t port, int *ret_fd)
{
	struct sockaddr_in a = loopback(port);

	*ret_fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	return bind(*ret_fd, (struct sockaddr *)&a, sizeof(a)) ? errno : 0;
}

static int binds(void *arg)
{
	const struct servers *v = arg;
	int fd;

	MUST(bind_port(SOCK_STREAM, v->good, &fd) == 0);
	MUST(listen(fd, 1) == 0);
	MUST(bind_port(SOCK_STREAM, v->bad, &fd) == EACCES);
	MUST(bind_port(SOCK_DGRAM, v->bad, &fd) == EACCES);
	MUST(bind_port(SOCK_DGRAM, v->good, &fd) == 0);
	MUST(bind_port(SOCK_DGRAM, 0, &fd) == 0);
	/* Any port is enough to connect, not to be connected to. */
	MUST(bind_port(SOCK_STREAM, 0, &fd) == 0);
	MUST(listen(fd, 1) < 0 && errno == EACCES);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(listen(fd, 1) < 0 && errno == EACCES);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	MUST(fd < 0 || (listen(fd, 1) < 0 && errno == EACCES));
	return 0;
}

/* A port that is free now. */
static uint16_t free_port(void)
{
	uint16_t port;

	(void)close(server(SOCK_STREAM, &port));
	return port;
}

static void ports_are_bound_by_rule(void **state)
{
	struct servers v = { .good = free_port(), .bad = free_port() };
	char rule[16];
	const char *const pairs[] = { "network.allow_bind", rule, NULL };
	auto_free char *said = NULL;

	(void)snprintf(rule, sizeof(rule), "%u", v.good);
	said = run(pairs, binds, &v);
	assert_non_null(strstr(said, "net.bind_tcp"));
	assert_non_null(strstr(said, "net.bind_udp"));
}

enum how { BY_RECVFROM, BY_RECVMSG, BY_RECVMMSG, HOWS };

static enum how how;

/* In two pieces, with what else there is to know. */
static ssize_t receive_message(int fd, int flags, char *data, size_t room,
			       struct sockaddr_in *a)
{
	char control[64];
	struct iovec v[] = { { data, 1 }, { data + 1, room - 1 } };
	struct mmsghdr m = { .msg_hdr = { .msg_name = a,
					  .msg_namelen = sizeof(*a),
					  .msg_iov = v,
					  .msg_iovlen = 2,
					  .msg_control = control,
					  .msg_controllen = sizeof(control) } };
	ssize_t n = how == BY_RECVMSG ? recvmsg(fd, &m.msg_hdr, flags)
				      : recvmmsg(fd, &m, 1, flags, NULL);

	if (n < 0)
		return n;
	if (how == BY_RECVMMSG) {
		MUST(n == 1);
		n = (ssize_t)m.msg_len;
	}
	MUST(m.msg_hdr.msg_namelen == sizeof(*a));
	MUST(!(m.msg_hdr.msg_flags & MSG_TRUNC) == (room >= 4 || n == 1));
	MUST(m.msg_hdr.msg_controllen == CMSG_SPACE(sizeof(int)));
	MUST(CMSG_FIRSTHDR(&m.msg_hdr)->cmsg_type == IP_TTL);
	return n;
}

/* Who sent, as the kernel says it; 0 and the errno if it fails. */
static uint16_t sender(int fd, int flags, size_t room, ssize_t *ret_n)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);
	char data[8];

	*ret_n = how == BY_RECVFROM
			 ? recvfrom(fd, data, room, flags,
				    (struct sockaddr *)&a, &n)
			 : receive_message(fd, flags, data, room, &a);
	MUST(*ret_n <= 0 || data[0] == 'd');
	return *ret_n < 0 ? 0 : ntohs(a.sin_port);
}

static void *send_late(void *arg)
{
	const int *fds = arg;
	struct sockaddr_in a = loopback(81);

	trap_sleep_ms(100);
	MUST(sendto(fds[0], "data", 4, 0, (struct sockaddr *)&a, sizeof(a)) ==
	     4);
	return NULL;
}

static int datagrams_tell_virtual_ports(void *arg)
{
	const struct timeval brief = { .tv_usec = 50000 };
	struct sockaddr_in a = loopback(81);
	int fds[2], other, one = 1;
	pthread_t late;
	ssize_t n;

	how = *(enum how *)arg;
	MUST(bind_port(SOCK_DGRAM, 80, &fds[0]) == 0);
	MUST(bind_port(SOCK_DGRAM, 81, &fds[1]) == 0);
	for (int i = 0; i < 2; i++)
		MUST(setsockopt(fds[i], IPPROTO_IP, IP_RECVTTL, &one,
				sizeof(one)) == 0);
	MUST(sender(fds[1], MSG_DONTWAIT, 8, &n) == 0 && errno == EAGAIN);
	MUST(sendto(fds[0], "data", 4, 0, (struct sockaddr *)&a, sizeof(a)) ==
	     4);
	MUST(sender(fds[1], MSG_PEEK, 8, &n) == 80 && n == 4);
	MUST(sender(fds[1], MSG_TRUNC, 2, &n) == 80 && n == 4);
	/* It is waited for, and for as long as it was said. */
	MUST(pthread_create(&late, NULL, send_late, fds) == 0);
	MUST(sender(fds[1], 0, 8, &n) == 80 && n == 4);
	MUST(pthread_join(late, NULL) == 0);
	MUST(setsockopt(fds[1], SOL_SOCKET, SO_RCVTIMEO, &brief,
			sizeof(brief)) == 0);
	MUST(sender(fds[1], 0, 8, &n) == 0 && errno == EAGAIN);
	/* Others keep their number. */
	a = loopback(80);
	other = socket(AF_INET, SOCK_DGRAM, 0);
	MUST(sendto(other, "d", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1);
	MUST(sender(fds[0], 0, 8, &n) == port_of(other) && n == 1);
	return 0;
}

static void who_sent_has_a_virtual_port(void **state)
{
	static const char *const pairs[] = { "network.port_remap", "true",
					     NULL };

	for (enum how i = 0; i < HOWS; i++)
		free(run(pairs, datagrams_tell_virtual_ports, &i));
}

/* As many as there are, and what is no datagram as ever. */
static int many_at_once(void *arg)
{
	struct sockaddr_in a = loopback(81), from[3];
	struct timespec brief = { .tv_sec = 0 };
	struct mmsghdr m[3] = { 0 };
	char data[3];
	struct iovec v[3];
	int fds[2], pair[2];
	size_t n;

	(void)arg;
	MUST(bind_port(SOCK_DGRAM, 80, &fds[0]) == 0);
	MUST(bind_port(SOCK_DGRAM, 81, &fds[1]) == 0);
	for (int i = 0; i < 3; i++) {
		v[i] = (struct iovec){ &data[i], 1 };
		m[i].msg_hdr = (struct msghdr){ .msg_name = &from[i],
						.msg_namelen = sizeof(from[i]),
						.msg_iov = &v[i],
						.msg_iovlen = 1 };
	}
	for (int i = 0; i < 2; i++)
		MUST(sendto(fds[0], i ? "b" : "a", 1, 0, (struct sockaddr *)&a,
			    sizeof(a)) == 1);
	MUST(recvmmsg(fds[1], m, 3, MSG_WAITFORONE, NULL) == 2);
	MUST(data[0] == 'a' && data[1] == 'b' && m[1].msg_len == 1);
	MUST(ntohs(from[0].sin_port) == 80 && ntohs(from[1].sin_port) == 80);
	MUST(sendto(fds[0], "c", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1);
	/* Its time is looked at behind a datagram. */
	MUST(recvmmsg(fds[1], m, 3, 0, &brief) == 1 && data[0] == 'c');
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	MUST(fd_send(pair[0], "ab", 2, &fds[0], 1) == 0);
	n = 1;
	MUST(fd_recv(pair[1], data, 2, &fds[0], &n) == 2 && n == 1);
	return 0;
}

static void several_datagrams_are_received(void **state)
{
	static const char *const pairs[] = { "network.port_remap", "true",
					     NULL };

	free(run(pairs, many_at_once, NULL));
}

struct talk {
	int pipe_fd[2], back_fd[2];
};

/* The parent looks when it is told to. */
static void let_look(const struct talk *t)
{
	char byte;

	MUST(write(t->pipe_fd[1], "x", 1) == 1);
	MUST(read(t->back_fd[0], &byte, 1) == 1);
}

static char looks[3][128];

static void *look(void *arg)
{
	const struct talk *t = arg;

	for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
		auto_(buf) struct buf b = BUF_INIT;
		char byte;

		MUST(read(t->pipe_fd[0], &byte, 1) == 1);
		MUST(net_ports_json(net, &b) == 0);
		(void)snprintf(looks[i], sizeof(looks[i]), "%s", buf_str(&b));
		MUST(write(t->back_fd[1], "x", 1) == 1);
	}
	return NULL;
}

static int remaps(void *arg)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(80),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in a;
	socklen_t n = sizeof(a);
	int tcp, udp, fd, other, one = 1;

	MUST(bind_port(SOCK_STREAM, 80, &tcp) == 0);
	MUST(listen(tcp, 5) == 0);
	MUST(port_of(tcp) == 80);
	MUST(bind_port(SOCK_DGRAM, 80, &udp) == 0);
	MUST(port_of(udp) == 80);
	let_look(arg);
	/* It is taken, as it would be. */
	MUST(bind_port(SOCK_STREAM, 80, &other) == EADDRINUSE);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (fd >= 0) {
		MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one,
				sizeof(one)) == 0);
		MUST(bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0);
		MUST(close(fd) == 0);
	}
	/* No rule lets it connect anywhere but to itself. */
	fd = socket(AF_INET, SOCK_STREAM, 0);
	a = loopback(80);
	MUST(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	MUST(getpeername(fd, (struct sockaddr *)&a, &n) == 0);
	MUST(ntohs(a.sin_port) == 80);
	other = accept(tcp, NULL, NULL);
	MUST(other >= 0 && port_of(other) == 80);
	MUST(sendto(fd, "x", 1, 0, NULL, 0) == 1 && read(other, &n, 1) == 1);
	MUST(close(tcp) == 0);
	MUST(port_of(other) == 80);
	a = loopback(80);
	MUST(try_connect(SOCK_STREAM, a) == ECONNREFUSED);
	MUST(sendto(fd = socket(AF_INET, SOCK_DGRAM, 0), "x", 1, 0,
		    (struct sockaddr *)&a, sizeof(a)) == 1);
	MUST(read(udp, &n, 1) == 1);
	let_look(arg);
	MUST(close(udp) == 0);
	let_look(arg);
	return 0;
}

static void ports_are_remapped_while_they_are_bound(void **state)
{
	const char *const pairs[] = { "network.port_remap", "true", NULL };
	unsigned int tcp, udp, same;
	struct talk t;
	pthread_t thread;
	char end;

	assert_int_equal(pipe(t.pipe_fd), 0);
	assert_int_equal(pipe(t.back_fd), 0);
	assert_int_equal(pthread_create(&thread, NULL, look, &t), 0);
	beside = &thread;
	free(run(pairs, remaps, &t));
	assert_int_equal(sscanf(looks[0], "{\"80\":%u,\"80/udp\":%u%c", &tcp,
				&udp, &end),
			 3);
	assert_int_equal(end, '}');
	assert_true(tcp != 80 && udp != 80);
	assert_int_equal(sscanf(looks[1], "{\"80/udp\":%u%c", &same, &end), 2);
	assert_int_equal(same, udp);
	assert_string_equal(looks[2], "{}");
	for (int i = 0; i < 2; i++) {
		(void)close(t.pipe_fd[i]);
		(void)close(t.back_fd[i]);
	}
}

/* ------------------------------------------------------------- live rules --
 */

struct live {
	struct talk t;
	struct servers v;
};

static int in_child(struct sockaddr_in a)
{
	int status;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0)
		_exit(try_connect(SOCK_STREAM, a));
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int lives(void *arg)
{
	const struct live *l = arg;
	struct sockaddr_in good = loopback(l->v.good);
	struct sockaddr_in bad = loopback(l->v.bad);
	pid_t pid = getpid();

	MUST(write(l->t.pipe_fd[1], &pid, sizeof(pid)) == sizeof(pid));
	MUST(try_connect(SOCK_STREAM, good) == 0);
	let_look(&l->t); /* nothing, for all */
	MUST(try_connect(SOCK_STREAM, good) == ECONNREFUSED);
	let_look(&l->t); /* more than there is, for this one */
	MUST(try_connect(SOCK_STREAM, good) == 0);
	MUST(in_child(good) == 0);
	MUST(try_connect(SOCK_STREAM, bad) == ECONNREFUSED);
	let_look(&l->t); /* nothing, for this one */
	MUST(try_connect(SOCK_STREAM, good) == ECONNREFUSED);
	MUST(in_child(good) == ECONNREFUSED);
	return 0;
}

/* What comes of a connect of one whose parent has ended. */
static int in_orphan(struct sockaddr_in a)
{
	int fds[2], r = -1;
	pid_t pid;

	MUST(pipe(fds) == 0);
	pid = fork();
	if (pid == 0) {
		pid = getpid();
		if (fork())
			_exit(0);
		while (getppid() == pid)
			(void)usleep(1000);
		r = try_connect(SOCK_STREAM, a);
		MUST(write(fds[1], &r, sizeof(r)) == sizeof(r));
		_exit(0);
	}
	MUST(waitpid(pid, NULL, 0) == pid);
	MUST(read(fds[0], &r, sizeof(r)) == sizeof(r));
	return r;
}

static int orphans(void *arg)
{
	const struct live *l = arg;
	struct sockaddr_in good = loopback(l->v.good);
	pid_t pid = getpid();

	MUST(in_orphan(good) == 0);
	MUST(write(l->t.pipe_fd[1], &pid, sizeof(pid)) == sizeof(pid));
	let_look(&l->t);
	MUST(try_connect(SOCK_STREAM, good) == ECONNREFUSED);
	MUST(in_orphan(good) == ECONNREFUSED);
	return 0;
}

static void *restrict_one(void *arg)
{
	struct live *l = arg;
	char byte;
	pid_t pid;

	MUST(read(l->t.pipe_fd[0], &pid, sizeof(pid)) == sizeof(pid));
	MUST(read(l->t.pipe_fd[0], &byte, 1) == 1);
	MUST(net_restrict(net, pid, NULL, 0, &err) == 0);
	MUST(write(l->t.back_fd[1], "x", 1) == 1);
	return NULL;
}

static void an_orphan_keeps_live_rules(void **state)
{
	struct live l;
	char rule[64];
	const char *const pairs[] = { "network.allow", rule, NULL };
	pthread_t thread;

	l.v.good_fd = server(SOCK_STREAM, &l.v.good);
	assert_int_equal(pipe(l.t.pipe_fd), 0);
	assert_int_equal(pipe(l.t.back_fd), 0);
	(void)rule_for(rule, "tcp://", l.v.good);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, restrict_one, &l), 0);
	beside = &thread;
	free(run(pairs, orphans, &l));
	while (waitpid(-1, NULL, 0) > 0)
		;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
	(void)close(l.v.good_fd);
}

static void *restrict_step_by_step(void *arg)
{
	static const char *const all = "0.0.0.0/0", *const name = "a.example";
	struct live *l = arg;
	char byte;
	pid_t pid;

	MUST(read(l->t.pipe_fd[0], &pid, sizeof(pid)) == sizeof(pid));
	for (int i = 0; i < 3; i++) {
		MUST(read(l->t.pipe_fd[0], &byte, 1) == 1);
		MUST(net_restrict(net, i ? pid : 0, &all, i == 1, &err) == 0);
		MUST(write(l->t.back_fd[1], "x", 1) == 1);
	}
	MUST(net_restrict(net, 0, &name, 1, &err) == -EINVAL);
	MUST(net_restrict(net, INT32_MAX, &all, 1, &err) == -ESRCH);
	return NULL;
}

static void live_rules_take_away_and_never_add(void **state)
{
	struct live l;
	char rule[64];
	const char *const pairs[] = { "network.allow", rule, NULL };
	auto_free char *said = NULL;
	pthread_t thread;

	l.v.good_fd = server(SOCK_STREAM, &l.v.good);
	l.v.bad_fd = server(SOCK_STREAM, &l.v.bad);
	assert_int_equal(pipe(l.t.pipe_fd), 0);
	assert_int_equal(pipe(l.t.back_fd), 0);
	(void)rule_for(rule, "tcp://", l.v.good);
	assert_int_equal(
		pthread_create(&thread, NULL, restrict_step_by_step, &l), 0);
	beside = &thread;
	said = run(pairs, lives, &l);
	assert_non_null(strstr(said, "restricted while it runs"));
	(void)close(l.v.good_fd);
	(void)close(l.v.bad_fd);
	for (int i = 0; i < 2; i++) {
		(void)close(l.t.pipe_fd[i]);
		(void)close(l.t.back_fd[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_are_bound_by_rule),
		cmocka_unit_test(who_sent_has_a_virtual_port),
		cmocka_unit_test(several_datagrams_are_received),
		cmocka_unit_test(ports_are_remapped_while_they_are_bound),
		cmocka_unit_test(live_rules_take_away_and_never_add),
		cmocka_unit_test(an_orphan_keeps_live_rules),
	};

	return RUN_TESTS(tests);
}
