#include "unit.h"

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/json.h"
#include "kernel/seccomp.h"
#include "policy/syscalls.h"
#include "spec/parse.h"
#include "spec/request.h"
#include "supervise/denials.h"
#include "supervise/refuse.h"
#include "supervise/supervisor.h"

static void add(struct spec_strings *list, const char *text)
{
	list->v = realloc(list->v, (list->n + 2) * sizeof(char *));
	assert_non_null(list->v);
	list->v[list->n++] = strdup(text);
	list->v[list->n] = NULL;
}

static void drop(struct spec_strings *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i]);
	free(list->v);
	*list = (struct spec_strings){ NULL, 0 };
}

/* Runs @body under the filter; returns the wait status. */
static int under(const struct request *r, unsigned int traps,
		 unsigned int shared, int (*body)(int listener))
{
	struct seccomp_program p = { .insns = NULL };
	struct spec_seccomp s = { .default_action = 0 };
	struct error err = ERROR_INIT;
	int status, n;
	pid_t pid;

	if (policy_filter(r, traps, shared, &s, &err) < 0 ||
	    seccomp_program_get(&s, NULL, NULL, &p, &err) < 0)
		fail_msg("%s", err.msg);
	spec_seccomp_done(&s);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
			_exit(254);
		n = seccomp_program_load(&p, &err);
		_exit(n < 0 ? 255 : body(n));
	}
	seccomp_program_done(&p);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void check_ok(int status)
{
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
#define HIGH (1UL << 32)

static void *thread_main(void *data)
{
	*(int *)data = 1;
	return NULL;
}

static int namespaces(int fd)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	pthread_t t;
	int ran = 0;
	pid_t pid;

	CHECK(1, REFUSED(unshare(CLONE_NEWUSER), EPERM));
	CHECK(2,
	      REFUSED(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0),
		      EPERM));
	CHECK(3,
	      REFUSED(syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD,
			      0, 0, 0, 0),
		      EPERM));
	CHECK(4, REFUSED(syscall(SYS_clone3, &args, sizeof(args)), ENOSYS));
	CHECK(5, REFUSED(setns(0, 0), EPERM));
	CHECK(6, pthread_create(&t, NULL, thread_main, &ran) == 0 &&
			 pthread_join(t, NULL) == 0 && ran);
	pid = fork();
	if (pid == 0)
		_exit(0);
	CHECK(7, pid > 0 && waitpid(pid, NULL, 0) == pid);
	return 0;
}

static int mounts(int fd)
{
	CHECK(1, REFUSED(syscall(SYS_mount, 0, 0, 0, 0, 0), EPERM));
	CHECK(2, REFUSED(syscall(SYS_umount2, "/", 0), EPERM));
	CHECK(3, REFUSED(syscall(SYS_open_tree, -1, "", 0), EPERM));
	CHECK(4, REFUSED(syscall(SYS_fsopen, "tmpfs", 0), EPERM));
	CHECK(5, REFUSED(syscall(SYS_mount_setattr, -1, "", 0, 0, 0), EPERM));
	CHECK(6, REFUSED(syscall(SYS_chroot, "/"), EPERM));
	/* open_tree_attr, which this libseccomp does not know by name. */
	CHECK(7, REFUSED(syscall(467, -1, "", 0, 0, 0), EPERM));
	return 0;
}

static int others(int fd)
{
	CHECK(1, REFUSED(syscall(SYS_bpf, 0, 0, 0), EPERM));
	CHECK(2, REFUSED(syscall(SYS_ptrace, 0, 0, 0, 0), EPERM));
	CHECK(3, REFUSED(syscall(SYS_pidfd_getfd, 0, 0, 0), EPERM));
	CHECK(4, REFUSED(syscall(SYS_io_uring_setup, 1, 0), EPERM));
	CHECK(5, REFUSED(syscall(SYS_keyctl, 0, 0, 0), EPERM));
	CHECK(6, REFUSED(syscall(SYS_clock_settime, 0, 0), EPERM));
	CHECK(7, REFUSED(syscall(SYS_kexec_file_load, 0, 0, 0, 0, 0), EPERM));
	CHECK(8, syscall(SYS_shmctl, -1, IPC_STAT, NULL) < 0 && errno != EPERM);
	CHECK(9, REFUSED(syscall(SYS_open_by_handle_at, 0, 0, 0), EPERM));
	CHECK(10, getpid() > 0 && close(dup(2)) == 0);
	return 0;
}

static int personalities(int fd)
{
	CHECK(1, syscall(SYS_personality, 0xffffffffUL) >= 0);
	CHECK(2, syscall(SYS_personality, 0UL) >= 0);
	CHECK(3, REFUSED(syscall(SYS_personality, ADDR_NO_RANDOMIZE), EPERM));
	CHECK(4, REFUSED(syscall(SYS_personality, 0x80000000UL), EPERM));
	CHECK(5, REFUSED(syscall(SYS_personality, 0xfffffffeUL), EPERM));
	CHECK(6, REFUSED(syscall(SYS_personality, 8UL | HIGH), EPERM));
	return 0;
}

static int arguments(int fd)
{
	int p[2];

	CHECK(1, REFUSED(syscall(SYS_ioctl, 0, TIOCSTI, 0), EPERM));
	CHECK(2, REFUSED(syscall(SYS_ioctl, 0, TIOCSTI | HIGH, 0), EPERM));
	CHECK(3, REFUSED(syscall(SYS_ioctl, 0, 0x541C, 0), EPERM));
	CHECK(4, pipe(p) == 0 && ioctl(p[0], FIONREAD, &p[1]) == 0);
	CHECK(5, REFUSED(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), EPERM));
	CHECK(6, REFUSED(prctl(PR_SET_PTRACER, 1, 0, 0, 0), EPERM));
	CHECK(7, REFUSED(syscall(SYS_prctl, PR_SET_DUMPABLE | HIGH, 0, 0, 0, 0),
			 EPERM));
	CHECK(8, prctl(PR_SET_NAME, "x", 0, 0, 0) == 0);
	return 0;
}

static int sockets(int fd)
{
	int v[2];

	CHECK(1, socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
	CHECK(2, socket(AF_INET, SOCK_STREAM, 0) >= 0);
	CHECK(3, socket(AF_INET6, SOCK_DGRAM, 0) >= 0 || errno == EAFNOSUPPORT);
	CHECK(4, socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
	for (int i = 0; i < 64; i++)
		if (i != AF_UNIX && i != AF_INET && i != AF_INET6 &&
		    i != AF_NETLINK)
			CHECK(5, REFUSED(syscall(SYS_socket, i, SOCK_STREAM, 0),
					 EAFNOSUPPORT));
	CHECK(6, REFUSED(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1), EPERM));
	CHECK(7, REFUSED(socket(AF_INET6, SOCK_RAW, 58), EPERM));
	CHECK(8, REFUSED(socket(AF_INET, SOCK_PACKET, 0), EPERM));
	CHECK(9, REFUSED(socket(AF_NETLINK, SOCK_RAW, 15), EAFNOSUPPORT));
	CHECK(10, REFUSED(syscall(SYS_socket, AF_VSOCK | HIGH, SOCK_STREAM, 0),
			  EAFNOSUPPORT));
	CHECK(11, socketpair(AF_UNIX, SOCK_STREAM, 0, v) == 0);
	CHECK(12, ioctl(socket(AF_INET, SOCK_DGRAM, 0), 0x8912, &v) == 0 ||
			  errno != EPERM);
	return 0;
}

static int no_interfaces(int fd)
{
	char ifreq[64] = { 0 };

	/* SIOCGIFCONF */
	CHECK(1, REFUSED(ioctl(socket(AF_INET, SOCK_DGRAM, 0), 0x8912, ifreq),
			 EPERM));
	return 0;
}

#ifdef __x86_64__

static int call_x32(int fd)
{
	return syscall(SYS_getpid | 0x40000000) > 0 ? 1 : 2;
}

#endif

static const struct request none;

static void test_denied(void **state)
{
	check_ok(under(&none, 0, false, namespaces));
	check_ok(under(&none, 0, false, mounts));
	check_ok(under(&none, 0, false, others));
	check_ok(under(&none, 0, false, personalities));
	check_ok(under(&none, 0, false, arguments));
	check_ok(under(&none, 0, false, sockets));
	check_ok(under(&none, 0, true, no_interfaces));
}

/* The child's side of `watched`. */
static int load_and_run(const struct seccomp_program *p, int sock,
			int (*body)(int listener))
{
	struct error err = ERROR_INIT;
	char byte;
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return 254;
	fd = seccomp_program_load(p, &err);
	if (fd < 0 || fd_send(sock, "x", 1, &fd, 1) < 0 ||
	    read(sock, &byte, 1) != 1)
		return 255;
	return body(fd);
}

/* As `under`, but refused by a supervisor; what it recorded goes to @d. */
static int watched(const struct request *r, unsigned int traps, bool shared,
		   struct denials *d, int (*body)(int listener))
{
	auto_ptr(refusals_free) struct refusals *f =
		refusals_new(r, traps, shared, d);
	struct supervisor_options o = { .handlers = NULL };
	struct seccomp_program p = { .insns = NULL };
	struct spec_seccomp s = { .default_action = 0 };
	struct supervisor *sup = NULL;
	struct error err = ERROR_INIT;
	int sock[2], fd = -1, status;
	size_t n_fds = 1;
	char byte;
	pid_t pid;

	if (policy_filter(r, traps, shared, &s, &err) < 0 ||
	    seccomp_program_get(&s, NULL, NULL, &p, &err) < 0)
		fail_msg("%s", err.msg);
	spec_seccomp_done(&s);
	o.handlers = refusals_rows(f, &o.n_handlers);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(sock[0]);
		_exit(load_and_run(&p, sock[1], body));
	}
	(void)close(sock[1]);
	assert_int_equal(fd_recv(sock[0], &byte, 1, &fd, &n_fds), 1);
	assert_int_equal(supervisor_new(&o, &sup, &err), 0);
	assert_int_equal(supervisor_add_listener(sup, fd, &err), 0);
	assert_int_equal(supervisor_start(sup, &err), 0);
	assert_int_equal(write(sock[0], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)close(sock[0]);
	supervisor_free(sup);
	seccomp_program_done(&p);
	return status;
}

/* Who judges for the record judges as the filter does. */
static void test_denied_by_a_supervisor(void **state)
{
	auto_ptr(denials_free) struct denials *d = denials_new();
	auto_(buf) struct buf b = BUF_INIT;

	check_ok(watched(&none, TRAP_DENIED, false, d, namespaces));
	check_ok(watched(&none, TRAP_DENIED | TRAP_FORK, false, d, namespaces));
	check_ok(watched(&none, TRAP_DENIED, false, d, mounts));
	check_ok(watched(&none, TRAP_DENIED, false, d, others));
	check_ok(watched(&none, TRAP_DENIED, false, d, personalities));
	check_ok(watched(&none, TRAP_DENIED, false, d, arguments));
	check_ok(watched(&none, TRAP_DENIED, false, d, sockets));
	check_ok(watched(&none, TRAP_DENIED, true, d, no_interfaces));
	assert_int_equal(denials_page(d, 0, 1024 * 1024, &b), 0);
	assert_non_null(strstr(b.data, "\"code\":\"syscall.mount\""));
	assert_non_null(strstr(b.data, "\"object\":\"TIOCSTI, TIOCLINUX\""));
	assert_non_null(strstr(b.data, "--extra-allow-syscall keys"));
	assert_null(strstr(b.data, "clone3"));
}

static void test_x32_is_killed(void **state)
{
#ifdef __x86_64__
	int status = under(&none, 0, false, call_x32);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
#else
	skip();
#endif
}

static int may_trace(int fd)
{
	CHECK(1, prctl(PR_SET_NAME, "x", 0, 0, 0) == 0);
	CHECK(2, REFUSED(syscall(SYS_kcmp, 0, 0, 99, 0, 0), EINVAL) ||
			 errno == ESRCH);
	CHECK(3, REFUSED(syscall(SYS_keyctl, 0, 0, 0), EPERM));
	return 0;
}

static void test_allow(void **state)
{
	struct request r = { .exec = NULL };
	struct spec_seccomp s = { .default_action = 0 };
	struct error err = ERROR_INIT;

	add(&r.extra_allow, "debug");
	check_ok(under(&r, 0, false, may_trace));
	add(&r.extra_allow, "mount");
	assert_int_equal(policy_filter(&r, 0, false, &s, &err), -EINVAL);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_non_null(strstr(err.hint, "sysv_ipc"));
	drop(&r.extra_allow);
	add(&r.extra_allow, "ptrace");
	assert_int_equal(policy_filter(&r, 0, false, &s, &err), -EINVAL);
	drop(&r.extra_allow);
}

static int no_mkdir(int fd)
{
	CHECK(1, REFUSED(mkdir("/tmp/never-made", 0700), EPERM));
	CHECK(2, REFUSED(socket(AF_INET, SOCK_STREAM, 0), EPERM));
	CHECK(3, REFUSED(rename("/no", "/such"), EPERM));
	return 0;
}

static int no_sysv(int fd)
{
	CHECK(1, REFUSED(syscall(SYS_shmget, 0, 4096, 0600), EPERM));
	CHECK(2, REFUSED(syscall(SYS_mq_unlink, "x"), EPERM));
	return 0;
}

/* Where the namespace is the host's, or where it is said. */
static void test_sysv(void **state)
{
	struct request r = { .exec = NULL };

	check_ok(under(&r, 0, SYSCALL_SHARED_ALL, no_sysv));
	add(&r.extra_deny, "sysv_ipc");
	check_ok(under(&r, 0, 0, no_sysv));
	drop(&r.extra_deny);
}

static void test_deny(void **state)
{
	auto_ptr(denials_free) struct denials *d = denials_new();
	auto_(buf) struct buf b = BUF_INIT;
	struct request r = { .exec = NULL };
	struct spec_seccomp s = { .default_action = 0 };
	struct error err = ERROR_INIT;

	add(&r.extra_deny, "mkdir");
	add(&r.extra_deny, "mkdirat");
	add(&r.extra_deny, "socket"); /* has rows with conditions, too */
	add(&r.extra_deny, "rename"); /* is trapped, too */
	add(&r.extra_deny, "renameat");
	add(&r.extra_deny, "renameat2");
	add(&r.extra_deny, "mount"); /* denied as it is */
	check_ok(under(&r, TRAP_RENAME, false, no_mkdir));
	check_ok(watched(&r, TRAP_RENAME | TRAP_DENIED, false, d, no_mkdir));
	assert_int_equal(denials_page(d, 0, 65536, &b), 0);
	assert_non_null(strstr(b.data, "\"rule\":\"syscalls.extra_deny mkdir"));
	add(&r.extra_deny, "mkdirs");
	assert_int_equal(policy_filter(&r, 0, false, &s, &err), -EINVAL);
	drop(&r.extra_deny);
	add(&r.extra_deny, "execve");
	assert_int_equal(policy_filter(&r, 0, false, &s, &err), -EINVAL);
	drop(&r.extra_deny);
}

/* The whole mask compiles; what is not asked for is not trapped. */
static int is_trapped(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	pthread_t t;
	int ran = 0;
	pid_t pid;

	CHECK(1, pthread_create(&t, NULL, thread_main, &ran) == 0 &&
			 pthread_join(t, NULL) == 0 && ran);
	CHECK(2,
	      REFUSED(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0),
		      EPERM));
	CHECK(3, poll(&p, 1, 0) == 0);
	/* A thread that shares our listener: the child waits in its rename. */
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		(void)rename("/no", "/such");
		_exit(0);
	}
	CHECK(4, pid > 0 && poll(&p, 1, 5000) == 1);
	CHECK(5, kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	return 0;
}

static int fork_is_trapped(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	pthread_t t;
	int ran = 0;

	CHECK(1, pthread_create(&t, NULL, thread_main, &ran) == 0 &&
			 pthread_join(t, NULL) == 0 && ran);
	CHECK(2, poll(&p, 1, 0) == 0);
	return 0;
}

static void test_traps(void **state)
{
	struct spec_seccomp s = { .default_action = 0 };
	struct seccomp_program p = { .insns = NULL };
	struct error err = ERROR_INIT;

	check_ok(under(&none, TRAP_RENAME, false, is_trapped));
	check_ok(
		under(&none, TRAP_FORK | TRAP_NETWORK, false, fork_is_trapped));
	assert_int_equal(policy_filter(&none, ~0u, true, &s, &err), 0);
	if (seccomp_program_get(&s, NULL, NULL, &p, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(p.has_notify);
	seccomp_program_done(&p);
	spec_seccomp_done(&s);
}

/* Written as config.json and read again it is the same. */
static void test_json(void **state)
{
	static const char head[] =
		"{\"ociVersion\":\"1.2.0\",\"root\":{\"path\":\"/\"},"
		"\"linux\":{\"seccomp\":";
	auto_(buf) struct buf b = BUF_INIT;
	auto_(buf) struct buf text = BUF_INIT;
	struct spec_seccomp s = { .default_action = 0 };
	struct json_out *o = json_out_new(false);
	struct spec *spec = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(policy_filter(&none, 0, true, &s, &err), 0);
	spec_seccomp_write(&s, o);
	assert_int_equal(json_out_end(o, &text), 0);
	json_out_free(o);
	buf_add_str(&b, head);
	buf_add(&b, text.data, text.len);
	buf_add_str(&b, "}}");
	if (spec_parse(b.data, b.len, "/", NULL, &spec, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(spec->seccomp->n_rules, s.n_rules);
	for (size_t i = 0; i < s.n_rules; i++) {
		const struct spec_seccomp_rule *x = &s.rules[i];
		const struct spec_seccomp_rule *y = &spec->seccomp->rules[i];

		assert_int_equal(x->names.n, y->names.n);
		assert_int_equal(x->action, y->action);
		assert_int_equal(x->errno_ret, y->errno_ret);
		assert_int_equal(x->n_args, y->n_args);
		for (size_t k = 0; k < x->n_args; k++) {
			assert_int_equal(x->args[k].index, y->args[k].index);
			assert_int_equal(x->args[k].value, y->args[k].value);
			assert_int_equal(x->args[k].value_two,
					 y->args[k].value_two);
			assert_int_equal(x->args[k].op, y->args[k].op);
		}
	}
	spec_free(spec);
	spec_seccomp_done(&s);
}

static void test_trap_numbers(void **state)
{
	int nrs[8];
	size_t n = policy_trap_numbers(TRAP_RENAME, nrs, ARRAY_LEN(nrs));

#ifdef SYS_rename
	assert_int_equal(n, 3);
	assert_int_equal(nrs[0], SYS_rename);
#endif
#ifdef SYS_renameat
	assert_in_range(n, 2, 3);
	assert_int_equal(nrs[n - 2], SYS_renameat);
#else
	assert_int_equal(n, 1);
#endif
	assert_int_equal(nrs[n - 1], SYS_renameat2);
	assert_int_equal(policy_trap_numbers(TRAP_RENAME, nrs, 1), 1);
	assert_int_equal(policy_trap_numbers(0, nrs, ARRAY_LEN(nrs)), 0);
	n = policy_trap_numbers_32(TRAP_RENAME, nrs, ARRAY_LEN(nrs));
#ifdef __x86_64__
	assert_int_equal(n, 3);
	assert_int_equal(nrs[0], 38);
	assert_int_equal(nrs[1], 302);
	assert_int_equal(nrs[2], 353);
#else
	assert_true(n == 0 || n == 3);
#endif
}

/* A typing error would silently allow a call. */
static void test_names(void **state)
{
	static const char *const new_ones[] = {
		"open_tree_attr",
		"setxattrat",
		"removexattrat",
		"file_setattr",
	};

	for (size_t i = 0; i < syscall_rows_len; i++) {
		const char *name = syscall_rows[i].name;
		bool known =
			seccomp_syscall_resolve_name(name) != __NR_SCMP_ERROR;

		for (size_t k = 0; k < ARRAY_LEN(new_ones); k++)
			known |= strcmp(name, new_ones[k]) == 0;
		if (!known)
			fail_msg("no system call '%s'", name);
		assert_true(!syscall_rows[i].n_args == !syscall_rows[i].what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_trap_numbers),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_denied_by_a_supervisor),
		cmocka_unit_test(test_x32_is_killed),
		cmocka_unit_test(test_allow),
		cmocka_unit_test(test_deny),
		cmocka_unit_test(test_sysv),
		cmocka_unit_test(test_traps),
		cmocka_unit_test(test_json),
	};

	return RUN_TESTS(tests);
}
