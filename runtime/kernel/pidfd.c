#include "kernel/pidfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/uapi.h"

enum { STAT_MAX = 4096 };

int proc_boot_id(char ret[BOOT_ID_LEN + 1])
{
	auto_close int fd =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[BOOT_ID_LEN];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = fd_read_full(fd, text, sizeof(text));
	if (n < 0)
		return (int)n;
	if (n != BOOT_ID_LEN)
		return -EIO;
	memcpy(ret, text, BOOT_ID_LEN);
	ret[BOOT_ID_LEN] = '\0';
	return 0;
}

/* Field 3 is the first behind the name; returns the start of field @n. */
static const char *stat_field(const char *field3, int n)
{
	const char *p = field3;

	for (int i = 3; i < n; i++) {
		p = strchr(p, ' ');
		if (!p)
			return NULL;
		p++;
	}
	return p;
}

static bool stat_number(const char *field3, int n, uint64_t *ret)
{
	const char *p = stat_field(field3, n);
	char *end;

	if (!p)
		return false;
	errno = 0;
	*ret = strtoull(p, &end, 10);
	return errno == 0 && end != p;
}

/* PF_EXITING of the kernel. */
enum { TASK_EXITING = 0x4 };

static int parse_stat(char *text, struct proc_stat *ret)
{
	/* The name is the process's own and may hold ") R 1 (". */
	const char *field3 = strrchr(text, ')');
	uint64_t ppid, flags, start, threads, cpu = 0, code = 0;

	if (!field3 || field3[1] != ' ' || !field3[2])
		return -EIO;
	field3 += 2;
	if (!stat_number(field3, 4, &ppid) || !stat_number(field3, 9, &flags) ||
	    !stat_number(field3, 20, &threads) ||
	    !stat_number(field3, 22, &start))
		return -EIO;
	(void)stat_number(field3, 39, &cpu);
	(void)stat_number(field3, 52, &code);
	ret->state = field3[0];
	ret->ppid = (pid_t)ppid;
	ret->start_time = start;
	ret->exit_code = (int)code;
	ret->cpu = (int)cpu;
	ret->is_exiting = flags & TASK_EXITING;
	ret->threads = threads;
	return 0;
}

int proc_read_stat(pid_t pid, struct proc_stat *ret)
{
	char path[32], text[STAT_MAX];
	auto_close int fd = -1;
	ssize_t n;

	if (pid <= 0)
		return -ESRCH;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = fd_read_full(fd, text, sizeof(text) - 1);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	return parse_stat(text, ret);
}

bool proc_has_ended(const struct proc_stat *st)
{
	return (st->state == 'Z' || st->state == 'X') && st->threads <= 1;
}

int proc_id_of(pid_t pid, struct proc_id *ret)
{
	struct proc_stat st;
	int r = proc_read_stat(pid, &st);

	if (r < 0)
		return r;
	ret->pid = pid;
	ret->start_time = st.start_time;
	return 0;
}

bool proc_is_alive(const struct proc_id *id)
{
	struct proc_stat st;

	return proc_read_stat(id->pid, &st) == 0 &&
	       st.start_time == id->start_time && !proc_has_ended(&st);
}

int pidfd_open_pid(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int pidfd_open_id(const struct proc_id *id)
{
	auto_close int fd = -1;
	struct proc_stat st;

	if (id->pid <= 0)
		return -ESRCH;
	fd = pidfd_open_pid(id->pid);
	if (fd < 0)
		return fd == -EINVAL ? -ESRCH : fd;
	/*
	 * Read after the open: if the pid has been reused in between, the
	 * start time differs; if it is reused later, the fd stays with the old
	 * process.
	 */
	if (proc_read_stat(id->pid, &st) < 0 || st.start_time != id->start_time)
		return -ESRCH;
	return take_fd(&fd);
}

int pidfd_signal(int pidfd, int sig)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0)
		return -errno;
	return 0;
}

int pidfd_wait(int pidfd, int timeout_ms)
{
	int64_t end = timeout_ms < 0 ? 0 : clock_now_ms() + timeout_ms;
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	for (;;) {
		int left = -1, n;

		if (timeout_ms >= 0) {
			int64_t d = end - clock_now_ms();

			left = d > 0 ? (int)d : 0;
		}
		n = poll(&p, 1, left);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		if (n < 0)
			continue;
		/* POLLHUP comes when it was reaped (6.13). */
		if (p.revents & (POLLIN | POLLHUP))
			return 1;
		return p.revents & POLLNVAL ? -EBADF : -EIO;
	}
}

struct exit_status exit_status_from_wait(int status)
{
	struct exit_status s = { .kind = EXIT_UNKNOWN };

	if (WIFEXITED(status)) {
		s.kind = EXIT_CODE;
		s.value = WEXITSTATUS(status);
	} else if (WIFSIGNALED(status)) {
		s.kind = EXIT_SIGNAL;
		s.value = WTERMSIG(status);
	}
	return s;
}

static bool status_by_wait(int pidfd, struct exit_status *ret)
{
	siginfo_t si = { .si_pid = 0 };
	int r;

	do {
		r = waitid((idtype_t)P_PIDFD, (id_t)pidfd, &si,
			   WEXITED | WNOHANG | __WALL);
	} while (r < 0 && errno == EINTR);
	if (r < 0 || si.si_pid == 0)
		return false;
	ret->kind = si.si_code == CLD_EXITED ? EXIT_CODE : EXIT_SIGNAL;
	ret->value = si.si_status;
	return true;
}

static bool status_by_info(int pidfd, struct exit_status *ret)
{
	struct pidfd_info info = { .mask = PIDFD_INFO_EXIT };

	if (ioctl(pidfd, PIDFD_GET_INFO, &info) < 0)
		return false;
	if (!(info.mask & PIDFD_INFO_EXIT))
		return false;
	*ret = exit_status_from_wait(info.exit_code);
	return ret->kind != EXIT_UNKNOWN;
}

static bool status_by_stat(int pidfd, pid_t pid, struct exit_status *ret)
{
	struct proc_stat st;

	if (proc_read_stat(pid, &st) < 0 || st.state != 'Z')
		return false;
	/* Only an unreaped process still owns its pid. */
	if (pidfd_signal(pidfd, 0) == -ESRCH)
		return false;
	*ret = exit_status_from_wait(st.exit_code);
	return true;
}

void pidfd_exit_status(int pidfd, pid_t pid, struct exit_status *ret)
{
	*ret = (struct exit_status){ .kind = EXIT_UNKNOWN };
	if (status_by_wait(pidfd, ret))
		return;
	if (status_by_info(pidfd, ret) || status_by_stat(pidfd, pid, ret))
		return;
	/* It was reaped after the one had been tried, and before the other. */
	(void)status_by_info(pidfd, ret);
}
