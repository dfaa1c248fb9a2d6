#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#include "kernel/landlock.h"
#include "spec/request.h"

static char base[256];
static char ro[280], rw[280];

static int setup(void **state)
{
	int fd = unit_tmpdir(base);

	(void)close(fd);
	(void)snprintf(ro, sizeof(ro), "%s/ro", base);
	(void)snprintf(rw, sizeof(rw), "%s/rw", base);
	if (mkdir(ro, 0700) < 0 || mkdir(rw, 0700) < 0)
		return -1;
	if (chdir(base) < 0)
		return -1;
	return close(open("ro/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) |
	       close(open("rw/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) |
	       mkdir("rw/a", 0700) | mkdir("rw/b", 0700);
}

static int teardown(void **state)
{
	static const char *const files[] = { "ro/file", "rw/file", "rw/new",
					     "rw/b/moved", "rw/a/moved" };

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		(void)unlink(files[i]);
	return rmdir("rw/a") | rmdir("rw/b") | rmdir("ro") | rmdir("rw") |
	       chdir("/") | rmdir(base);
}

/* Runs @body restricted in a child; it returns the number of the line. */
static void in_child(const struct landlock_rules *r, int (*body)(void *),
		     void *data)
{
	struct error err = ERROR_INIT;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    landlock_restrict(r, &err) < 0) {
			(void)fprintf(stderr, "%s\n", err.msg);
			_exit(255);
		}
		_exit(body(data));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status))
		fail_msg("check %d failed", WEXITSTATUS(status));
}

#define CHECK(n, cond)            \
	do {                      \
		if (!(cond))      \
			return n; \
	} while (0)
#define REFUSED(call, e) ((call) < 0 && errno == (e))

/* What the running kernel lacks is no matter where a test does without. */
#define ANY_KERNEL ((1u << PROTECT_COUNT) - 1)

static int use_files(void *data)
{
	CHECK(1, open("ro/file", O_RDONLY | O_CLOEXEC) >= 0);
	CHECK(2, REFUSED(open("ro/file", O_WRONLY | O_CLOEXEC), EACCES));
	CHECK(3, landlock_abi() < 3 || REFUSED(truncate("ro/file", 0), EACCES));
	CHECK(4, REFUSED(mkdir("ro/dir", 0700), EACCES));
	CHECK(5, REFUSED(unlink("ro/file"), EACCES));
	CHECK(6, open("rw/file", O_RDWR | O_TRUNC | O_CLOEXEC) >= 0);
	CHECK(7, open("rw/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
	CHECK(8, rename("rw/new", "rw/a/moved") == 0);
	CHECK(9, rename("rw/a/moved", "rw/b/moved") == 0);
	CHECK(10, REFUSED(rename("rw/b/moved", "ro/moved"), EACCES));
	CHECK(11, REFUSED(open("/etc/passwd", O_RDONLY | O_CLOEXEC), EACCES));
	/* The rule for /dev/zero alone has no ioctl. */
	CHECK(12, open("/dev/zero", O_RDONLY | O_CLOEXEC) >= 0);
	return 0;
}

static void test_files(void **state)
{
	auto_close int rw_fd = open(rw, O_PATH | O_CLOEXEC);
	const struct landlock_rule paths[] = {
		{ .path = ro, .fd = -1, .access = LANDLOCK_READ },
		{ .fd = rw_fd, .access = LANDLOCK_ALL & ~LANDLOCK_EXEC },
		{ .path = "/dev/zero", .fd = -1, .access = LANDLOCK_READ },
		{ .path = "/no/such",
		  .fd = -1,
		  .access = LANDLOCK_READ,
		  .optional = true },
	};
	const struct landlock_rules r = { .paths = paths,
					  .n_paths = ARRAY_LEN(paths),
					  .allow_degraded = ANY_KERNEL };

	in_child(&r, use_files, NULL);
}

static int use_exec(void *data)
{
	char name[] = "true", *const argv[] = { name, NULL };

	(void)execv("/bin/true", argv);
	CHECK(1, errno == EACCES);
	return 0;
}

static void test_exec(void **state)
{
	const struct landlock_rule paths[] = {
		{ .path = "/", .fd = -1, .access = LANDLOCK_READ },
	};
	const struct landlock_rules r = { .paths = paths,
					  .n_paths = 1,
					  .allow_degraded = ANY_KERNEL };

	in_child(&r, use_exec, NULL);
}

static int use_ioctl(void *data)
{
	int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	struct winsize w;

	if (fd < 0)
		fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(1, fd >= 0);
	CHECK(2, REFUSED(ioctl(fd, TIOCGWINSZ, &w), EACCES));
	return 0;
}

static int may_ioctl(void *data)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct winsize w;

	CHECK(1, fd >= 0);
	CHECK(2, ioctl(fd, TIOCGWINSZ, &w) == 0);
	return 0;
}

static void test_ioctl(void **state)
{
	struct landlock_rule path = { .path = "/dev",
				      .fd = -1,
				      .access =
					      LANDLOCK_READ | LANDLOCK_WRITE };
	struct landlock_rules r = { .paths = &path, .n_paths = 1 };

	if (landlock_abi() < 5)
		skip();
	in_child(&r, use_ioctl, NULL);
	r.disabled = 1u << PROTECT_FS_IOCTL_DEV;
	in_child(&r, may_ioctl, NULL);
	r.disabled = 0;
	path.access |= LANDLOCK_IOCTL;
	in_child(&r, may_ioctl, NULL);
}

static int try_connect(unsigned int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port) };
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
}

static int try_bind(unsigned int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port) };
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
}

static int use_ports(void *data)
{
	const uint16_t *port = data;

	CHECK(1, try_connect(port[0]) == 0);
	CHECK(2, try_connect(port[1]) == -EACCES);
	CHECK(3, try_bind(0) == -EACCES);
	return 0;
}

static int use_any_port(void *data)
{
	const uint16_t *port = data;

	CHECK(1, try_connect(port[0]) == 0);
	CHECK(2, try_connect(port[1]) == 0);
	CHECK(3, try_bind(0) == 0);
	return 0;
}

static int listen_on(uint16_t *ret)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*ret = ntohs(at.sin_port);
	return fd;
}

static void test_ports(void **state)
{
	uint16_t port[2];
	auto_close int a = -1, b = -1;
	struct landlock_rules r = { .connect = port, .n_connect = 1 };

	if (landlock_abi() < 4)
		skip();
	a = listen_on(&port[0]);
	b = listen_on(&port[1]);
	in_child(&r, use_ports, port);
	r.any_connect = r.any_bind = true;
	in_child(&r, use_any_port, port);
	r = (struct landlock_rules){ .disabled = 1u << PROTECT_NET_TCP };
	in_child(&r, use_any_port, port);
}

static int abstract_connect(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1,
			 "sandlock-landlock-%d", (int)getppid());
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&at,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				   (size_t)n));
}

static int use_scopes(void *data)
{
	CHECK(1, REFUSED(kill(getppid(), 0), EPERM));
	CHECK(2, kill(getpid(), 0) == 0);
	CHECK(3, REFUSED(abstract_connect(), EPERM));
	return 0;
}

static int use_no_scopes(void *data)
{
	CHECK(1, kill(getppid(), 0) == 0);
	CHECK(2, abstract_connect() == 0);
	return 0;
}

static void test_scopes(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1,
			 "sandlock-landlock-%d", (int)getpid());
	struct landlock_rules r = { .n_paths = 0 };

	if (landlock_abi() < 6)
		skip();
	assert_int_equal(
		bind(fd, (struct sockaddr *)&at,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				 (size_t)n)),
		0);
	assert_int_equal(listen(fd, 8), 0);
	in_child(&r, use_scopes, NULL);
	r.disabled =
		1u << PROTECT_SIGNAL_SCOPE | 1u << PROTECT_ABSTRACT_UNIX_SCOPE;
	in_child(&r, use_no_scopes, NULL);
}

static void test_check(void **state)
{
	struct error err = ERROR_INIT;

	if (landlock_abi() >= 6)
		assert_int_equal(landlock_check(0, 0, &err), 0);
	else
		assert_true(landlock_check(0, 0, &err) < 0);
	assert_int_equal(landlock_check((1u << PROTECT_COUNT) - 1, 0, &err), 0);
	assert_int_equal(landlock_check(0, (1u << PROTECT_COUNT) - 1, &err), 0);
}

static void test_rights_by_abi(void **state)
{
	static const unsigned int fs[] = { 0, 13, 14, 15, 15, 16, 16, 16, 16 };

	for (int abi = 0; abi < (int)ARRAY_LEN(fs); abi++) {
		assert_int_equal(landlock_count_fs(abi), fs[abi]);
		assert_int_equal(landlock_count_net(abi), abi >= 4 ? 2 : 0);
		assert_int_equal(landlock_count_scopes(abi), abi >= 6 ? 2 : 0);
	}
}

static void test_names(void **state)
{
	enum protection p;

	for (int i = 0; i < PROTECT_COUNT; i++) {
		const char *name = protection_name((enum protection)i);

		assert_int_equal(protection_parse(name, &p), 0);
		assert_int_equal(p, i);
	}
	assert_int_equal(protection_parse("fs", &p), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_rights_by_abi),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_ioctl),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_scopes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
