/*
 * Children whose system calls are trapped: a filter in raw BPF, loaded by the
 * child, whose listener comes to the test over a socket. A child has no
 * assertions: it exits with 0 or the line that failed.
 */
#ifndef SANDLOCK_TESTS_TRAP_H
#define SANDLOCK_TESTS_TRAP_H

#include "unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "base/uapi.h"

/* In a child: ends it with the line number, which is never 0 modulo 256. */
#define MUST(cond)                                                       \
	do {                                                             \
		if (!(cond)) {                                           \
			(void)fprintf(stderr, "%s:%d: %s (errno %d)\n",  \
				      __FILE__, __LINE__, #cond, errno); \
			_exit(__LINE__ % 255 + 1);                       \
		}                                                        \
	} while (0)

/*
 * Under ThreadSanitizer children of a process with threads may have threads,
 * too, and handlers of signals run late.
 */
#ifdef __SANITIZE_THREAD__
enum { TRAP_TSAN = 1 };
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
#else
enum { TRAP_TSAN = 0 };
#endif

enum { TRAP_MAX = 96 };

/* Traps the @n calls @nr; returns the listener or -1. */
static inline int trap_load(const int *nr, size_t n)
{
	struct sock_filter f[2 + 2 * TRAP_MAX];
	struct sock_fprog prog = { .filter = f };
	unsigned short len = 0;

	f[len++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < n && i < TRAP_MAX; i++) {
		f[len++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)nr[i], 0, 1);
		f[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							SECCOMP_RET_USER_NOTIF);
	}
	f[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						SECCOMP_RET_ALLOW);
	prog.len = len;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER |
				    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
			    &prog);
}

struct trapped {
	pid_t pid;
	int listener_fd;
	int go_fd; /* the child begins once it reads a byte */
};

/*
 * Forks a child that traps @nr and then runs @body, whose result is its exit
 * status, once trap_go was called.
 */
static inline struct trapped trap_fork(const int *nr, size_t n,
				       int (*body)(void *), void *arg)
{
	struct trapped t = { .listener_fd = -1 };
	int sock[2], remote, pidfd;
	char byte;

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	t.pid = fork();
	assert_true(t.pid >= 0);
	if (t.pid == 0) {
		int fd = trap_load(nr, n);

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		MUST(fd >= 0);
		/* By its number: any other call may be trapped. */
		MUST(write(sock[1], &fd, sizeof(fd)) == sizeof(fd));
		(void)close(sock[0]);
		MUST(read(sock[1], &byte, 1) == 1);
		(void)close(fd);
		_exit(body(arg));
	}
	(void)close(sock[1]);
	assert_int_equal(read(sock[0], &remote, sizeof(remote)),
			 sizeof(remote));
	pidfd = (int)syscall(SYS_pidfd_open, t.pid, 0);
	t.listener_fd = (int)syscall(SYS_pidfd_getfd, pidfd, remote, 0);
	assert_true(t.listener_fd >= 0);
	(void)close(pidfd);
	t.go_fd = sock[0];
	return t;
}

static inline void trap_go(struct trapped *t)
{
	assert_int_equal(write(t->go_fd, "x", 1), 1);
	(void)close(t->go_fd);
	t->go_fd = -1;
}

/*
 * Waits for a child; its wait status. @seconds is what it takes on a slow
 * machine; after ten times that it hangs, and is killed.
 */
static inline int trap_wait(pid_t pid, int seconds)
{
	int status, pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (poll(&p, 1, seconds * 10 * 1000) == 0)
		(void)kill(pid, SIGKILL);
	(void)close(pidfd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline uint64_t trap_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static inline void trap_sleep_ms(unsigned int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000,
			       .tv_nsec = (ms % 1000) * 1000000L };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* Entries of a directory, as /proc/self/fd or task. */
static inline size_t trap_count(const char *path)
{
	auto_dir DIR *d = opendir(path);
	size_t n = 0;

	while (d && readdir(d))
		n++;
	return n - 2;
}

/* Until it has @n of them: a task is there a moment longer than its thread. */
static inline void trap_wait_count(const char *path, size_t n)
{
	uint64_t end = trap_now_ms() + 60000;

	while (trap_count(path) != n && trap_now_ms() < end)
		trap_sleep_ms(10);
	assert_int_equal(trap_count(path), n);
}

#endif
