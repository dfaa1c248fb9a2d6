/* Connections and messages of a child, carried out here on its behalf. */
#include "net_world.h"

/* ------------------------------------------------------------- connect -- */

static int connects(void *arg)
{
	const struct servers *v = arg;
	struct sockaddr_in a = loopback(v->good);
	struct sockaddr_in6 six = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(v->good),
		.sin6_addr.s6_addr = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 }
	};
	struct pollfd p = { .events = POLLOUT };
	int fd, e = 1;
	socklen_t n = sizeof(e);

	MUST(try_connect(SOCK_STREAM, a) == 0);
	MUST(try_connect(SOCK_STREAM, loopback(v->bad)) == ECONNREFUSED);
	/* The unspecified address is the loopback one. */
	a.sin_addr.s_addr = 0;
	MUST(try_connect(SOCK_STREAM, a) == 0);
	a.sin_port = htons(v->bad);
	MUST(try_connect(SOCK_STREAM, a) == ECONNREFUSED);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (fd >= 0) {
		MUST(connect(fd, (struct sockaddr *)&six, sizeof(six)) == 0);
		MUST(close(fd) == 0);
		fd = socket(AF_INET6, SOCK_STREAM, 0);
		six.sin6_port = htons(v->bad);
		MUST(connect(fd, (struct sockaddr *)&six, sizeof(six)) < 0 &&
		     errno == ECONNREFUSED);
		MUST(close(fd) == 0);
	}
	/* What does not wait. */
	p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	a = loopback(v->good);
	MUST(connect(p.fd, (struct sockaddr *)&a, sizeof(a)) < 0 &&
	     errno == EINPROGRESS);
	MUST(poll(&p, 1, PATIENCE_S * 1000) == 1);
	MUST(getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &e, &n) == 0 && e == 0);
	MUST(connect(p.fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	MUST(connect(p.fd, (struct sockaddr *)&a, sizeof(a)) < 0 &&
	     errno == EISCONN);
	/* What the kernel says of nonsense. */
	MUST(connect(-1, (struct sockaddr *)&a, sizeof(a)) < 0 &&
	     errno == EBADF);
	MUST(connect(0, (struct sockaddr *)&a, sizeof(a)) < 0 &&
	     errno == ENOTSOCK);
	MUST(connect(p.fd, (struct sockaddr *)&a, 4) < 0 && errno == EINVAL);
	MUST(connect(p.fd, (void *)8, sizeof(a)) < 0 && errno == EFAULT);
	return 0;
}

static void connections_go_where_rules_let_them(void **state)
{
	struct servers v;
	char rule[64];
	const char *const pairs[] = { "network.allow", rule, NULL };
	auto_free char *said = NULL;
	char object[64];

	v.good_fd = server(SOCK_STREAM, &v.good);
	v.bad_fd = server(SOCK_STREAM, &v.bad);
	(void)rule_for(rule, "tcp://", v.good);
	said = run(pairs, connects, &v);
	/* Nobody has ever come there. */
	assert_int_equal(fcntl(v.bad_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(accept(v.bad_fd, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	(void)snprintf(object, sizeof(object), "\"127.0.0.1:%u\"", v.bad);
	assert_non_null(strstr(said, object));
	assert_non_null(strstr(said, "net.connect_tcp"));
	assert_non_null(strstr(said, "--net-allow tcp://127.0.0.1:"));
	(void)close(v.good_fd);
	(void)close(v.bad_fd);
}

static void on_alarm(int sig)
{
}

static void set_alarm(int flags, unsigned int ms)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };
	const struct itimerval t = { .it_value = { .tv_usec = ms * 1000 } };

	MUST(sigaction(SIGALRM, &sa, NULL) == 0);
	MUST(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

/* A connection that does not come about: the queue of the listener is full. */
static int waits(void *arg)
{
	const struct servers *v = arg;
	struct sockaddr_in a = loopback(v->good);
	struct timeval t = { .tv_usec = 100000 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t before = trap_now_ms();

	set_alarm(0, 200);
	MUST(connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 &&
	     errno == EINTR);
	MUST(trap_now_ms() - before >= 200);
	MUST(close(fd) == 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) == 0);
	MUST(connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 &&
	     errno == EINPROGRESS);
	MUST(close(fd) == 0);
	/* With SA_RESTART it goes on, past the deadline of parked calls. */
	fd = socket(AF_INET, SOCK_STREAM, 0);
	set_alarm(SA_RESTART, 200);
	before = trap_now_ms();
	MUST(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	MUST(trap_now_ms() - before >= DEADLINE_MS);
	return 0;
}

/* Makes room in the queue, after a while. */
static void *make_room(void *arg)
{
	const struct servers *v = arg;

	trap_sleep_ms(2 * DEADLINE_MS);
	for (int i = 0; i < 3; i++)
		(void)accept(v->good_fd, NULL, NULL);
	return NULL;
}

static void a_held_connect_is_as_in_the_kernel(void **state)
{
	struct servers v;
	char rule[64];
	const char *const pairs[] = { "network.allow", rule, NULL };
	struct sockaddr_in a;
	pthread_t thread;
	int fill[3];

	v.good_fd = server(SOCK_STREAM, &v.good);
	assert_int_equal(listen(v.good_fd, 0), 0);
	a = loopback(v.good);
	for (size_t i = 0; i < ARRAY_LEN(fill); i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(fill[i], (struct sockaddr *)&a, sizeof(a));
	}
	(void)rule_for(rule, "", v.good);
	assert_int_equal(pthread_create(&thread, NULL, make_room, &v), 0);
	free(run(pairs, waits, &v));
	(void)close(v.good_fd);
	for (size_t i = 0; i < ARRAY_LEN(fill); i++)
		(void)close(fill[i]);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/*
 * Another thread changes the address, and which socket the number stands for,
 * all the time: what was judged is what is done.
 */
struct flipped {
	struct sockaddr_in at;
	in_port_t ports[2];
	int fd, fds[2];
	atomic_bool is_over;
};

static void *flip(void *arg)
{
	struct flipped *f = arg;

	for (unsigned int i = 0; !atomic_load(&f->is_over); i++) {
		*(volatile in_port_t *)&f->at.sin_port = f->ports[i % 2];
		if (i % 16 == 0)
			(void)dup2(f->fds[i / 16 % 2], f->fd);
	}
	return NULL;
}

static int races(void *arg)
{
	const struct servers *v = arg;
	struct flipped f = {
		.at = loopback(v->good),
		.ports = { htons(v->good), htons(v->bad) },
		.fds = { socket(AF_INET, SOCK_DGRAM, 0),
			 socket(AF_UNIX, SOCK_DGRAM, 0) },
	};
	struct iovec iov = { (void *)"x", 1 };
	struct msghdr m = { &f.at, sizeof(f.at), &iov, 1, NULL, 0, 0 };
	const struct sockaddr *to = (struct sockaddr *)&f.at;
	int done = 0, refused = 0;
	pthread_t t;

	f.fd = dup(f.fds[0]);
	MUST(pthread_create(&t, NULL, flip, &f) == 0);
	/* Until both have happened, so that the race was one. */
	for (int i = 0; i < RACES || !done || !refused; i++) {
		ssize_t r = i % 2 ? sendmsg(f.fd, &m, 0)
				  : sendto(f.fd, "x", 1, 0, to, sizeof(f.at));

		done += r == 1;
		refused += r < 0 && errno == ECONNREFUSED;
		if (i % 8 == 0)
			(void)connect(f.fd, to, sizeof(f.at));
	}
	atomic_store(&f.is_over, true);
	MUST(pthread_join(t, NULL) == 0);
	return 0;
}

static void nothing_comes_between_judging_and_doing(void **state)
{
	struct servers v;
	char rule[64], byte;
	const char *const pairs[] = { "network.allow", rule, NULL };

	/* It is a race on purpose. */
	if (TRAP_TSAN)
		skip();
	v.good_fd = server(SOCK_DGRAM, &v.good);
	v.bad_fd = server(SOCK_DGRAM, &v.bad);
	(void)rule_for(rule, "udp://", v.good);
	free(run(pairs, races, &v));
	assert_int_equal(recv(v.good_fd, &byte, 1, MSG_DONTWAIT), 1);
	assert_true(recv(v.bad_fd, &byte, 1, MSG_DONTWAIT) < 0);
	(void)close(v.good_fd);
	(void)close(v.bad_fd);
}

/* ------------------------------------------------------------ messages -- */

static int datagrams(void *arg)
{
	const struct servers *v = arg;
	struct sockaddr_in good = loopback(v->good), bad = loopback(v->bad);
	struct iovec iov = { (void *)"c", 1 };
	struct mmsghdr two[3] = {
		{ .msg_hdr = { &good, sizeof(good), &iov, 1 } },
		{ .msg_hdr = { &bad, sizeof(bad), &iov, 1 } },
		{ .msg_hdr = { &good, sizeof(good), &iov, 1 } },
	};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	MUST(sendto(fd, "a", 1, 0, (struct sockaddr *)&good, sizeof(good)) ==
	     1);
	MUST(sendto(fd, "x", 1, 0, (struct sockaddr *)&bad, sizeof(bad)) < 0 &&
	     errno == ECONNREFUSED);
	/* In IPv4 no family is that family. */
	good.sin_family = bad.sin_family = AF_UNSPEC;
	MUST(sendto(fd, "b", 1, 0, (struct sockaddr *)&good, sizeof(good)) ==
	     1);
	MUST(sendto(fd, "x", 1, 0, (struct sockaddr *)&bad, sizeof(bad)) < 0 &&
	     errno == ECONNREFUSED);
	good.sin_family = bad.sin_family = AF_INET;
	MUST(sendmmsg(fd, two, 3, 0) == 1 && two[0].msg_len == 1);
	MUST(sendmmsg(fd, two + 1, 2, 0) < 0 && errno == ECONNREFUSED);
	MUST(sendmsg(fd, &two[2].msg_hdr, MSG_DONTWAIT) == 1);
	MUST(try_connect(SOCK_DGRAM, bad) == ECONNREFUSED);
	MUST(connect(fd, (struct sockaddr *)&good, sizeof(good)) == 0);
	MUST(sendto(fd, "d", 1, 0, NULL, 0) == 1);
	/* Dissolved. */
	good.sin_family = AF_UNSPEC;
	MUST(connect(fd, (struct sockaddr *)&good, sizeof(good)) == 0);
	MUST(sendto(fd, "x", 1, 0, NULL, 0) < 0 && errno == EDESTADDRREQ);
	/* TCP rules are none for datagrams, and there is one for datagrams. */
	good.sin_family = AF_INET;
	MUST(try_connect(SOCK_STREAM, good) == ECONNREFUSED);
	return 0;
}

static void every_message_is_judged(void **state)
{
	struct servers v;
	char rule[64], got[8] = "";
	const char *const pairs[] = { "network.allow", rule, NULL };
	size_t n = 0;

	v.good_fd = server(SOCK_DGRAM, &v.good);
	v.bad_fd = server(SOCK_DGRAM, &v.bad);
	(void)rule_for(rule, "udp://", v.good);
	free(run(pairs, datagrams, &v));
	while (n < sizeof(got) - 1 &&
	       recv(v.good_fd, got + n, 1, MSG_DONTWAIT) == 1)
		n++;
	assert_string_equal(got, "abccd");
	assert_true(recv(v.bad_fd, got, 1, MSG_DONTWAIT) < 0);
	(void)close(v.good_fd);
	(void)close(v.bad_fd);
}

enum { LARGE = 3 * 1000 * 1000 };

static void *read_slowly(void *arg)
{
	char room[50000];
	size_t got = 0;
	ssize_t n;

	while ((n = read(*(int *)arg, room, sizeof(room))) > 0) {
		for (ssize_t i = 0; i < n; i++, got++)
			MUST(room[i] == (char)(got / 1000));
		trap_sleep_ms(1);
	}
	MUST(got == LARGE);
	return NULL;
}

static int pass_fd(int over, int fd, const char *text)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} u = { .h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)text, strlen(text) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u.room) };

	memcpy(CMSG_DATA(&u.h), &fd, sizeof(fd));
	return sendmsg(over, &m, 0) < 0 ? errno : 0;
}

/* Who one is can be said, but not that one is somebody else. */
static void say_who(const int pair[2])
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} u = { .h = { CMSG_LEN(sizeof(struct ucred)), SOL_SOCKET,
		       SCM_CREDENTIALS } };
	struct ucred who = { 1, getuid() + 1, getgid() + 1 };
	struct iovec iov = { (void *)"w", 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u.room) };
	char byte;
	int one = 1;

	memcpy(CMSG_DATA(&u.h), &who, sizeof(who));
	MUST(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ==
	     0);
	MUST(sendmsg(pair[0], &m, 0) == 1);
	iov.iov_base = &byte;
	MUST(recvmsg(pair[1], &m, 0) == 1);
	memcpy(&who, CMSG_DATA(&u.h), sizeof(who));
	MUST(who.uid == getuid() && who.gid == getgid());
	MUST(who.pid == getppid());
	one = 0;
	MUST(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ==
	     0);
}

/* What is sent is what was seen, and no byte more. */
static int captured(void *arg)
{
	const struct servers *v = arg;
	struct sockaddr_in to = loopback(v->good);
	auto_free char *large = calloc(LARGE, 1);
	char text[3][8] = { "to", "msg", "mmsg" };
	struct iovec iov[4] = { { text[1], 3 },
				{ text[2], 4 },
				{ large, 10 },
				{ large + 10, LARGE - 10 } };
	struct mmsghdr m[3] = {
		{ .msg_hdr = { &to, sizeof(to), &iov[0], 1 } },
		{ .msg_hdr = { &to, sizeof(to), &iov[1], 1 } },
		/* It does not fit, so the next call has it. */
		{ .msg_hdr = { &to, sizeof(to), &iov[2], 2 } },
	};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), pair[2];
	pthread_t t;
	ssize_t sent = 0;

	MUST(sendto(fd, text[0], 2, 0, (struct sockaddr *)&to, sizeof(to)) ==
	     2);
	MUST(memcmp(text[0], "XX", 2) == 0);
	MUST(sendmmsg(fd, m, 3, 0) == 2 && m[0].msg_len == 3);
	MUST(sendmsg(fd, &m[2].msg_hdr, 0) < 0 && errno == EMSGSIZE);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	MUST(pthread_create(&t, NULL, read_slowly, &pair[1]) == 0);
	for (size_t i = 0; i < LARGE; i++)
		large[i] = (char)(i / 1000);
	/* A short count, as after a signal. */
	while (sent < LARGE) {
		ssize_t n =
			send(pair[0], large + sent, (size_t)(LARGE - sent), 0);

		MUST(n > 0 && n <= 1024 * 1024);
		sent += n;
	}
	MUST(shutdown(pair[0], SHUT_WR) == 0);
	MUST(pthread_join(t, NULL) == 0);
	return 0;
}

static void what_was_captured_is_what_is_sent(void **state)
{
	struct servers v;
	char rule[64], got[32] = "";
	const char *const pairs[] = { "network.allow", rule, NULL };
	size_t n = 0;
	ssize_t r;

	v.good_fd = server(SOCK_DGRAM, &v.good);
	(void)rule_for(rule, "udp://", v.good);
	written_over = "XX";
	free(run(pairs, captured, &v));
	written_over = NULL;
	while ((r = recv(v.good_fd, got + n, 8, MSG_DONTWAIT)) > 0)
		n += (size_t)r;
	assert_string_equal(got, "tomsgmmsg");
	(void)close(v.good_fd);
}

enum { MANY = 20, LONG = 1024 * 1024 };

static void *send_much(void *arg)
{
	int pair[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	MUST(send(pair[0], arg, LONG, MSG_DONTWAIT) >= 4096);
	MUST(close(pair[0]) == 0 && close(pair[1]) == 0);
	return NULL;
}

/* More at once than is held for all. */
static int much_at_once(void *arg)
{
	auto_free char *much = calloc(LONG + MANY, 1);
	volatile char *seen = much;
	pthread_t t[MANY];
	int pair[2];

	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	for (size_t i = 0; i < MANY; i++)
		MUST(pthread_create(&t[i], NULL, send_much, much + i) == 0);
	for (size_t i = 0; i < MANY; i++)
		while (!seen[i])
			trap_sleep_ms(1);
	MUST(send(pair[0], much, 8192, 0) < 0 && errno == ENOBUFS);
	for (size_t i = 0; i < MANY; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	/* There is room again. */
	MUST(send(pair[0], much, 8192, 0) == 8192);
	return 0;
}

static void what_is_captured_of_all_is_bounded(void **state)
{
	static const char *const pairs[] = { "network.allow", "*", NULL };
	const size_t most = CALL_CAPTURED_MAX + MANY * 4096;

	written_over = "X";
	n_together = MANY + 1;
	atomic_store(&n_came, 0);
	atomic_store(&bytes_together, 0);
	free(run(pairs, much_at_once, NULL));
	written_over = NULL;
	n_together = 0;
	assert_int_equal(atomic_load(&n_came), MANY + 2);
	assert_in_range(atomic_load(&bytes_together), CALL_CAPTURED_MAX / 2,
			most + 8192);
}

static int streams(void *arg)
{
	auto_free char *large = malloc(LARGE);
	struct iovec iov[2] = { { large, 1000 },
				{ large + 1000, LARGE - 1000 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	int pair[2], pipe_fds[2], got_fd;
	size_t n_fds = 1;
	pthread_t t;
	char text[8] = "";

	for (size_t i = 0; i < LARGE; i++)
		large[i] = (char)(i / 1000);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	MUST(pthread_create(&t, NULL, read_slowly, &pair[1]) == 0);
	MUST(sendmsg(pair[0], &m, 0) == LARGE);
	MUST(shutdown(pair[0], SHUT_WR) == 0);
	MUST(pthread_join(t, NULL) == 0);
	/* A descriptor of ours arrives. */
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	MUST(pipe(pipe_fds) == 0);
	MUST(pass_fd(pair[0], pipe_fds[1], "fd") == 0);
	MUST(pass_fd(pair[0], 99, "fd") == EBADF);
	MUST(fd_recv(pair[1], text, sizeof(text), &got_fd, &n_fds) == 2);
	MUST(n_fds == 1 && strcmp(text, "fd") == 0);
	MUST(write(got_fd, "y", 1) == 1 && read(pipe_fds[0], text, 1) == 1);
	say_who(pair);
	/* A signal before the first byte, and after it. */
	set_alarm(0, 100);
	iov[0].iov_len = LARGE;
	m.msg_iovlen = 1;
	MUST(sendmsg(pair[0], &m, 0) > 0);
	set_alarm(0, 100);
	MUST(sendmsg(pair[0], &m, 0) < 0 && errno == EINTR);
	MUST(sendmsg(pair[0], &m, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	/* A broken pipe is told by a signal, unless it must not. */
	MUST(close(pair[1]) == 0);
	MUST(sendmsg(pair[0], &m, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	MUST(sigaction(SIGPIPE,
		       &(const struct sigaction){ .sa_handler = on_alarm },
		       NULL) == 0);
	MUST(sendmsg(pair[0], &m, 0) < 0 && errno == EPIPE);
	return 0;
}

static void streams_take_all_and_pass_descriptors(void **state)
{
	const char *const pairs[] = { "network.allow", "icmp://*", NULL };

	free(run(pairs, streams, NULL));
}

static int options(void *arg)
{
	const struct servers *v = arg;
	struct sockaddr_in a = loopback(v->good);
	struct iovec iov = { (void *)"x", 1 };
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(8)];
	} u = { .h = { CMSG_LEN(8), IPPROTO_IP, IP_RETOPTS } };
	struct msghdr m = { &a, sizeof(a), &iov, 1, &u, sizeof(u.room), 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), ttl = 9;

	/* A source route would lead elsewhere. */
	MUST(sendmsg(fd, &m, 0) < 0 && errno == EPERM);
	u.h.cmsg_level = SOL_SOCKET;
	u.h.cmsg_type = SO_MARK;
	MUST(sendmsg(fd, &m, 0) < 0 && errno == EPERM);
	u.h.cmsg_level = IPPROTO_IP;
	u.h.cmsg_type = IP_TTL;
	u.h.cmsg_len = CMSG_LEN(sizeof(ttl));
	memcpy(CMSG_DATA(&u.h), &ttl, sizeof(ttl));
	MUST(sendmsg(fd, &m, 0) == 1);
	u.h.cmsg_len = 3;
	MUST(sendmsg(fd, &m, 0) < 0 && errno == EINVAL);
	return 0;
}

static void what_leads_elsewhere_is_refused(void **state)
{
	struct servers v;
	char rule[64];
	const char *const pairs[] = { "network.allow", rule, NULL };

	v.good_fd = server(SOCK_DGRAM, &v.good);
	(void)rule_for(rule, "udp://", v.good);
	free(run(pairs, options, &v));
	(void)close(v.good_fd);
}

/* -------------------------------------------------------- unix sockets -- */

/*
 * Who binds a path for somebody goes to his root. An ordinary user's sandboxes
 * have a user namespace for that, or the host's root; what is here has neither.
 */
static void skip_where_chroot_fails(void)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
}

struct names {
	char dir[256];
	struct sockaddr_un path, foreign, allowed, own;
	socklen_t len;
};

static struct sockaddr_un abstract(const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	/* All of one length, with the process in it. */
	(void)snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "%s-%07d", name,
		       (int)getpid());
	return a;
}

static int unix_server(const struct sockaddr_un *a, socklen_t len, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	MUST(fd >= 0 && bind(fd, (const struct sockaddr *)a, len) == 0);
	MUST(type != SOCK_STREAM || listen(fd, 5) == 0);
	return fd;
}

static int unix_connect(const struct sockaddr_un *a, socklen_t len, int type)
{
	int fd = socket(AF_UNIX, type, 0);
	int r = connect(fd, (const struct sockaddr *)a, len) ? errno : 0;

	(void)close(fd);
	return r;
}

static int unix_sockets(void *arg)
{
	const struct names *v = arg;
	struct sockaddr_un relative = { .sun_family = AF_UNIX,
					.sun_path = "../d/sock" };
	int fd;

	MUST(unix_connect(&v->foreign, v->len, SOCK_STREAM) == EPERM);
	MUST(unix_connect(&v->allowed, v->len, SOCK_STREAM) == 0);
	MUST(unix_connect(&v->own, v->len, SOCK_STREAM) == EPERM);
	fd = unix_server(&v->own, v->len, SOCK_STREAM);
	MUST(unix_connect(&v->own, v->len, SOCK_STREAM) == 0);
	MUST(close(fd) == 0);
	MUST(unix_connect(&v->own, v->len, SOCK_STREAM) == EPERM);
	fd = unix_server(&v->own, v->len, SOCK_DGRAM);
	MUST(sendto(fd, "x", 1, 0, (const struct sockaddr *)&v->own, v->len) ==
	     1);
	MUST(sendto(fd, "x", 1, 0, (const struct sockaddr *)&v->foreign,
		    v->len) < 0 &&
	     errno == EPERM);
	MUST(unix_connect(&v->path, sizeof(v->path), SOCK_STREAM) == 0);
	MUST(chdir(v->dir) == 0);
	MUST(unix_connect(&relative, sizeof(relative), SOCK_STREAM) == 0);
	strcpy(relative.sun_path, "made");
	fd = unix_server(&relative, sizeof(relative), SOCK_STREAM);
	MUST(unix_connect(&relative, sizeof(relative), SOCK_STREAM) == 0);
	strcpy(relative.sun_path, "none");
	MUST(unix_connect(&relative, sizeof(relative), SOCK_STREAM) == ENOENT);
	return 0;
}

static void unix_names_are_gated(void **state)
{
	char dir[256], allow[240];
	const char *const with[] = { "network.allow", allow, NULL };
	struct names v = { .len = offsetof(struct sockaddr_un, sun_path) + 17 };
	auto_free char *said = NULL;
	int dir_fd, fds[3];

	skip_where_chroot_fails();
	dir_fd = unit_tmpdir(dir);
	(void)snprintf(v.dir, sizeof(v.dir), "%.200s/d", dir);
	assert_int_equal(mkdir(v.dir, 0755), 0);
	v.path.sun_family = AF_UNIX;
	(void)snprintf(v.path.sun_path, sizeof(v.path.sun_path), "%.90s/sock",
		       v.dir);
	v.foreign = abstract("foreign_");
	v.allowed = abstract("allowed_");
	v.own = abstract("own_____");
	fds[0] = unix_server(&v.foreign, v.len, SOCK_STREAM);
	fds[1] = unix_server(&v.allowed, v.len, SOCK_STREAM);
	fds[2] = unix_server(&v.path, sizeof(v.path), SOCK_STREAM);
	(void)snprintf(allow, sizeof(allow), "unix:@%s",
		       v.allowed.sun_path + 1);
	said = run(with, unix_sockets, &v);
	assert_non_null(strstr(said, "@foreign_"));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	(void)unlinkat(dir_fd, "d/sock", 0);
	(void)unlinkat(dir_fd, "d/made", 0);
	(void)rmdir(v.dir);
	(void)rmdir(dir);
	(void)close(dir_fd);
}

/* One address: a path, or, by its family, a port that no rule allows. */
struct two_faced {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_un un;
	} at;
	int fd, udp_fd, unix_fd;
	atomic_bool is_over;
};

static void *change_faces(void *arg)
{
	struct two_faced *f = arg;

	for (unsigned int i = 0; !atomic_load(&f->is_over); i++) {
		bool is_path = i % 2;

		*(volatile sa_family_t *)&f->at.any.sa_family =
			is_path ? AF_UNIX : AF_INET;
		(void)dup2(is_path ? f->unix_fd : f->udp_fd, f->fd);
	}
	return NULL;
}

static int bind_races(void *arg)
{
	const struct names *v = arg;
	struct two_faced f = {
		.at.in = loopback(('a' << 8) | 'a'), /* "aa\177" */
		.udp_fd = socket(AF_INET, SOCK_DGRAM, 0),
		.unix_fd = socket(AF_UNIX, SOCK_DGRAM, 0),
	};
	const char *path = f.at.un.sun_path;
	struct sockaddr_in got;
	socklen_t n = sizeof(got);
	int paths = 0, refused = 0;
	pthread_t t;

	MUST(chdir(v->dir) == 0);
	f.fd = dup(f.udp_fd);
	MUST(pthread_create(&t, NULL, change_faces, &f) == 0);
	for (int i = 0; i < RACES || paths < 20 || !refused; i++) {
		int r = bind(f.fd, &f.at.any, sizeof(f.at.in));

		refused += r < 0 && errno == EACCES;
		if (unlink(path) < 0)
			continue;
		paths++;
		r = socket(AF_UNIX, SOCK_DGRAM, 0);
		(void)dup2(r, f.unix_fd);
		(void)close(r);
	}
	atomic_store(&f.is_over, true);
	MUST(pthread_join(t, NULL) == 0);
	MUST(getsockname(f.udp_fd, (struct sockaddr *)&got, &n) == 0);
	MUST(got.sin_port == 0);
	return 0;
}

static void a_path_that_is_bound_becomes_no_port(void **state)
{
	static const char *const pairs[] = { "network.allow", "icmp://*",
					     NULL };
	struct names v;
	int dir_fd;

	if (TRAP_TSAN)
		skip();
	skip_where_chroot_fails();
	dir_fd = unit_tmpdir(v.dir);
	free(run(pairs, bind_races, &v));
	(void)rmdir(v.dir);
	(void)close(dir_fd);
}

/* The second half of what goes out has no room. */
static int many_messages(void *arg)
{
	const struct itimerval often = { { 0, 50000 }, { 0, 50000 } };
	struct sigaction sa = { .sa_handler = on_alarm,
				.sa_flags = SA_RESTART };
	struct iovec iov = { (void *)"m", 1 };
	struct mmsghdr many[1000] = { 0 };
	int fds[2], n, got = 0;
	char c;

	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		many[i].msg_hdr.msg_iov = &iov;
		many[i].msg_hdr.msg_iovlen = 1;
	}
	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
	MUST(sigaction(SIGALRM, &sa, NULL) == 0);
	MUST(setitimer(ITIMER_REAL, &often, NULL) == 0);
	n = sendmmsg(fds[0], many, ARRAY_LEN(many), 0);
	MUST(n > 0 && n < (int)ARRAY_LEN(many));
	while (recv(fds[1], &c, 1, MSG_DONTWAIT) == 1)
		got++;
	MUST(got == n);
	return 0;
}

static void messages_are_not_sent_twice(void **state)
{
	static const char *const pairs[] = { "network.allow", "*", NULL };

	free(run(pairs, many_messages, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_go_where_rules_let_them),
		cmocka_unit_test(a_held_connect_is_as_in_the_kernel),
		cmocka_unit_test(nothing_comes_between_judging_and_doing),
		cmocka_unit_test(every_message_is_judged),
		cmocka_unit_test(what_was_captured_is_what_is_sent),
		cmocka_unit_test(what_is_captured_of_all_is_bounded),
		cmocka_unit_test(messages_are_not_sent_twice),
		cmocka_unit_test(streams_take_all_and_pass_descriptors),
		cmocka_unit_test(what_leads_elsewhere_is_refused),
		cmocka_unit_test(unix_names_are_gated),
		cmocka_unit_test(a_path_that_is_bound_becomes_no_port),
	};

	return RUN_TESTS(tests);
}
