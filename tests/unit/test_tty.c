#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/pidfd.h"
#include "kernel/tty.h"

static struct error err;
static char dir[] = "/tmp/sandlock-tty-XXXXXX";

static int group_setup(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int group_teardown(void **state)
{
	return rmdir(dir);
}

static int open_devpts(void)
{
	return open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void need_ptmx(void)
{
	if (access("/dev/pts/ptmx", R_OK | W_OK) < 0) {
		print_message("needs a usable /dev/pts/ptmx\n");
		skip();
	}
}

static void open_pair(int *master, int *slave)
{
	auto_close int pts = open_devpts();

	need_ptmx();
	assert_int_equal(tty_open_pair(pts, 132, 43, master, slave, &err), 0);
}

static void test_pair_has_its_size(void **state)
{
	auto_close int master = -1, slave = -1;
	struct winsize ws;
	char c;

	open_pair(&master, &slave);
	assert_int_equal(ioctl(slave, TIOCGWINSZ, &ws), 0);
	assert_int_equal(ws.ws_col, 132);
	assert_int_equal(ws.ws_row, 43);
	assert_true(fcntl(master, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(slave, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(slave, "x", 1), 1);
	assert_int_equal(read(master, &c, 1), 1);
	assert_int_equal(c, 'x');
}

static void check_refused(int expect)
{
	auto_close int d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int master = -1, slave = -1;

	assert_int_equal(tty_open_pair(d, 0, 0, &master, &slave, &err), expect);
	assert_int_equal(master, -1);
}

static void test_false_ptmx_is_refused(void **state)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/ptmx", dir);
	check_refused(-ENOENT);
	assert_int_equal(symlink("/dev/pts/ptmx", path), 0);
	check_refused(-ELOOP);
	assert_int_equal(unlink(path), 0);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	(void)close(fd);
	check_refused(-ENODEV);
	assert_int_equal(unlink(path), 0);
	if (geteuid() == 0) {
		assert_int_equal(mknod(path, S_IFCHR | 0600, makedev(5, 2)), 0);
		/* The kernel looks for a "pts" beside it. */
		check_refused(-ENOENT);
		assert_int_equal(unlink(path), 0);
	}
}

static void test_controlling_terminal(void **state)
{
	auto_close int master = -1, slave = -1;
	char text[64] = "";
	pid_t pid;
	int status;

	open_pair(&master, &slave);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int fd;

		if (tty_make_controlling(slave, &err) < 0)
			_exit(1);
		fd = open("/dev/tty", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || tcgetsid(0) != getpid() || !isatty(1))
			_exit(2);
		(void)!write(fd, "hello", 5);
		_exit(0);
	}
	assert_int_equal(read(master, text, sizeof(text)), 5);
	assert_string_equal(text, "hello");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Listens on a path longer than sun_path, by a short relative name. */
static int listen_at(const char *where)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = "s" };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	auto_close int old = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(chdir(where), 0);
	assert_int_equal(bind(sock, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(sock, 1), 0);
	assert_int_equal(fchdir(old), 0);
	return sock;
}

static void test_console_socket_with_a_long_path(void **state)
{
	auto_close int master = -1, slave = -1, sock = -1, server = -1;
	auto_close int peer = -1;
	char deep[256], path[300], payload[64] = "";
	int got[1];
	size_t n = 1;

	open_pair(&master, &slave);
	(void)snprintf(deep, sizeof(deep), "%s/%0120d", dir, 0);
	(void)snprintf(path, sizeof(path), "%s/s", deep);
	assert_int_equal(tty_console_connect(path, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "connect to the socket"));
	assert_int_equal(mkdir(deep, 0700), 0);
	server = listen_at(deep);
	sock = tty_console_connect(path, &err);
	assert_true(sock >= 0);
	assert_true(fcntl(sock, F_GETFD) & FD_CLOEXEC);
	peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	assert_true(peer >= 0);
	assert_int_equal(tty_console_send(sock, master, &err), 0);
	assert_int_equal(fd_recv(peer, payload, sizeof(payload), got, &n), 9);
	assert_string_equal(payload, "/dev/ptmx");
	assert_int_equal(n, 1);
	assert_true(isatty(got[0]));
	(void)close(got[0]);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(deep), 0);
}

/*
 * The relay in a process of its own: its standard input and output are a pty
 * (or pipes), the inside is a shell on another one.
 */
struct relay_test {
	int outer_master; /* what a person sees */
	pid_t pid;
};

static int run_relay(const char *script)
{
	auto_close int master = -1, slave = -1, pts = open_devpts();
	auto_close int pidfd = -1, sigfd = -1;
	struct tty_session session;
	sigset_t set;
	pid_t pid;
	int status;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	(void)sigaddset(&set, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	sigfd = signalfd(-1, &set, SFD_CLOEXEC);
	if (tty_open_pair(pts, 0, 0, &master, &slave, &err) < 0)
		return 90;
	pid = fork();
	if (pid == 0) {
		(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
		if (tty_make_controlling(slave, &err) < 0)
			_exit(91);
		(void)execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(92);
	}
	(void)close(take_fd(&slave));
	pidfd = pidfd_open_pid(pid);
	session = (struct tty_session){
		.master_fd = master,
		.pidfd = pidfd,
		.signal_fd = sigfd,
		.end_ms = -1,
	};
	if (tty_relay(&session, &err) < 0)
		return 93;
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 94;
}

static struct relay_test start_relay(const char *script)
{
	struct relay_test t;

	need_ptmx();
	t.pid = forkpty(&t.outer_master, NULL, NULL,
			&(struct winsize){ .ws_row = 11, .ws_col = 77 });
	assert_true(t.pid >= 0);
	if (t.pid == 0)
		_exit(run_relay(script));
	return t;
}

/* Reads until @want was seen, or to the end. */
static void expect(struct relay_test *t, const char *want)
{
	char text[4096];
	size_t len = 0;

	text[0] = '\0';
	while (!strstr(text, want)) {
		struct pollfd p = { .fd = t->outer_master, .events = POLLIN };
		ssize_t n;

		assert_int_equal(poll(&p, 1, 5000), 1);
		n = read(t->outer_master, text + len, sizeof(text) - 1 - len);
		if (n <= 0)
			fail_msg("'%s' not in '%s'", want, text);
		len += (size_t)n;
		text[len] = '\0';
	}
}

static int finish(struct relay_test *t)
{
	int status;

	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	(void)close(t->outer_master);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_relay_copies_both_ways(void **state)
{
	struct relay_test t = start_relay("read x; echo got-$x; exit 5");

	assert_int_equal(write(t.outer_master, "abc\r", 4), 4);
	expect(&t, "got-abc");
	assert_int_equal(finish(&t), 5);
}

static void test_relay_is_raw_and_puts_it_back(void **state)
{
	struct relay_test t = start_relay("echo ready; read x; exit 0");
	struct termios tio;

	expect(&t, "ready");
	assert_int_equal(tcgetattr(t.outer_master, &tio), 0);
	assert_false(tio.c_lflag & (ICANON | ECHO | ISIG));
	assert_int_equal(write(t.outer_master, "\r", 1), 1);
	/* Still held by us: the slave's settings can be read afterwards. */
	assert_int_equal(waitpid(t.pid, NULL, 0), t.pid);
	assert_int_equal(tcgetattr(t.outer_master, &tio), 0);
	assert_true(tio.c_lflag & ICANON);
	(void)close(t.outer_master);
}

static void test_relay_passes_sizes_and_signals(void **state)
{
	struct relay_test t = start_relay(
		"trap 'stty size' WINCH; trap 'echo usr; exit 3' USR1;"
		"stty size; while :; do sleep 0.05; done");
	struct winsize ws = { .ws_row = 22, .ws_col = 88 };

	expect(&t, "11 77");
	assert_int_equal(ioctl(t.outer_master, TIOCSWINSZ, &ws), 0);
	expect(&t, "22 88");
	assert_int_equal(kill(t.pid, SIGUSR1), 0);
	expect(&t, "usr");
	assert_int_equal(finish(&t), 3);
}

static void test_relay_drains_what_was_printed(void **state)
{
	struct relay_test t =
		start_relay("i=0; while [ $i -lt 2000 ]; do echo 0123456789"
			    "0123456789; i=$((i+1)); done; printf end-of-it");

	(void)usleep(200000);
	for (;;) {
		char text[4096];
		ssize_t n = read(t.outer_master, text, sizeof(text) - 1);

		assert_true(n > 0);
		text[n] = '\0';
		if (strstr(text, "end-of-it") || strstr(text, "of-it"))
			break;
	}
	assert_int_equal(finish(&t), 0);
}

static void test_relay_ends_with_a_background_process(void **state)
{
	struct relay_test t =
		start_relay("trap '' HUP; sleep 3 & echo started; exit 7");

	expect(&t, "started");
	assert_int_equal(finish(&t), 7);
}

static void test_relay_of_a_pipe_types_end_of_file(void **state)
{
	int in[2], out[2], status;
	char text[256] = "";
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	need_ptmx();
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		(void)close(in[1]);
		_exit(run_relay("stty -echo; cat; echo over"));
	}
	(void)close(out[1]);
	(void)close(in[0]);
	(void)usleep(100000);
	assert_int_equal(write(in[1], "no newline", 10), 10);
	(void)close(in[1]);
	while (len < sizeof(text) - 1 &&
	       (n = read(out[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	assert_non_null(strstr(text, "no newline"));
	assert_non_null(strstr(text, "over"));
	(void)close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair_has_its_size),
		cmocka_unit_test(test_false_ptmx_is_refused),
		cmocka_unit_test(test_controlling_terminal),
		cmocka_unit_test(test_console_socket_with_a_long_path),
		cmocka_unit_test(test_relay_copies_both_ways),
		cmocka_unit_test(test_relay_is_raw_and_puts_it_back),
		cmocka_unit_test(test_relay_passes_sizes_and_signals),
		cmocka_unit_test(test_relay_drains_what_was_printed),
		cmocka_unit_test(test_relay_ends_with_a_background_process),
		cmocka_unit_test(test_relay_of_a_pipe_types_end_of_file),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
