#include "kernel/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/uapi.h"
#include "kernel/caps.h"

/* A thousand supplementary groups fit. */
enum { STATUS_MAX = 16 * 1024 };

int notify_request_size(size_t *ret, struct error *err)
{
	struct seccomp_notif_sizes sizes;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return error_set(err, ERR_UNSUPPORTED, errno,
				 "no seccomp user notification");
	if (sizes.seccomp_notif > NOTIFY_ROOM ||
	    sizes.seccomp_notif_resp > NOTIFY_ROOM ||
	    sizes.seccomp_data != sizeof(struct seccomp_data))
		return error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				 "this kernel's seccomp notifications are "
				 "larger than this build knows");
	*ret = sizes.seccomp_notif;
	return 0;
}

int notify_set_sync(int listener_fd)
{
	if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
		  (unsigned long)SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) < 0)
		return -errno;
	return 0;
}

int notify_receive(int listener_fd, union notify_request *r, size_t size)
{
	memset(r, 0, size);
	if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &r->notif) < 0)
		return -errno;
	return 0;
}

bool notify_is_over(int listener_fd)
{
	struct pollfd p = { .fd = listener_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

static int respond(int listener_fd, const struct seccomp_notif_resp *resp)
{
	union notify_response r;

	memset(&r, 0, sizeof(r));
	r.resp = *resp;
	if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &r.resp) < 0)
		return -errno;
	return 0;
}

int notify_fail(int listener_fd, uint64_t id, int error)
{
	struct seccomp_notif_resp resp = { .id = id, .error = -error };

	return respond(listener_fd, &resp);
}

int notify_return(int listener_fd, uint64_t id, int64_t value)
{
	struct seccomp_notif_resp resp = { .id = id, .val = value };

	return respond(listener_fd, &resp);
}

int notify_continue(int listener_fd, uint64_t id)
{
	struct seccomp_notif_resp resp = {
		.id = id,
		.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE,
	};

	return respond(listener_fd, &resp);
}

bool notify_is_valid(int listener_fd, uint64_t id)
{
	return ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static int add_fd(int listener_fd, uint64_t id, int fd, bool cloexec,
		  uint32_t flags, int number)
{
	struct seccomp_notif_addfd a = {
		.id = id,
		.flags = flags,
		.srcfd = (uint32_t)fd,
		.newfd = (uint32_t)number,
		.newfd_flags = cloexec ? O_CLOEXEC : 0,
	};
	int r = ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &a);

	return r < 0 ? -errno : r;
}

int notify_install_fd(int listener_fd, uint64_t id, int fd, bool cloexec)
{
	return add_fd(listener_fd, id, fd, cloexec, 0, 0);
}

int notify_replace_fd(int listener_fd, uint64_t id, int number, int fd,
		      bool cloexec)
{
	int r = add_fd(listener_fd, id, fd, cloexec, SECCOMP_ADDFD_FLAG_SETFD,
		       number);

	return r < 0 ? r : 0;
}

int notify_answer_fd(int listener_fd, uint64_t id, int fd, bool cloexec)
{
	return add_fd(listener_fd, id, fd, cloexec, SECCOMP_ADDFD_FLAG_SEND, 0);
}

ssize_t notify_read_memory(pid_t tid, uint64_t addr, void *data, size_t n)
{
	struct iovec local = { .iov_base = data, .iov_len = n };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)addr,
				.iov_len = n };
	ssize_t r;

	if (n == 0)
		return 0;
	r = process_vm_readv(tid, &local, 1, &remote, 1, 0);
	if (r < 0)
		return -errno;
	return r == 0 ? -EFAULT : r;
}

/* That of who has changed its ids is root's, whoever we act for. */
static int open_memory(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	uint64_t was = 0;

	if (fd >= 0)
		return fd;
	if (errno != EACCES || caps_begin_all(&was) < 0)
		return -errno;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	caps_end_all(was);
	return fd;
}

int notify_write_memory(int listener_fd, uint64_t id, pid_t tid, uint64_t addr,
			const void *data, size_t n)
{
	char path[32];
	auto_close int fd = -1;
	ssize_t r;

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)tid);
	fd = open_memory(path);
	if (fd < 0)
		return fd;
	if (!notify_is_valid(listener_fd, id))
		return -ENOENT;
	if (addr > INT64_MAX || n > (size_t)INT64_MAX - addr)
		return -EFAULT;
	r = pwrite(fd, data, n, (off_t)addr);
	if (r < 0)
		return errno == EIO ? -EFAULT : -errno;
	if ((size_t)r == n)
		return 0;
	/* 0: the address space is gone; less: the rest is not mapped. */
	return r == 0 ? -ENOENT : -EFAULT;
}

/* The value of "Name:\t<number>" in /proc/TID/status. */
static bool find_number(const char *text, const char *name, int base,
			uint64_t *ret)
{
	const char *at = strstr(text, name);

	if (!at)
		return false;
	*ret = strtoull(at + strlen(name), NULL, base);
	return true;
}

int notify_read_task(pid_t tid, struct notify_task *ret)
{
	char path[32], text[STATUS_MAX];
	uint64_t tgid, own, shared, blocked, ignored;
	auto_close int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return errno == ESRCH ? -ENOENT : -errno;
	text[n] = '\0';
	/* The kernel escapes newlines in Name, so no line can be forged. */
	if (!find_number(text, "\nTgid:", 10, &tgid) ||
	    !find_number(text, "\nSigPnd:", 16, &own) ||
	    !find_number(text, "\nShdPnd:", 16, &shared) ||
	    !find_number(text, "\nSigBlk:", 16, &blocked) ||
	    !find_number(text, "\nSigIgn:", 16, &ignored))
		return -EPROTO;
	ret->tgid = (pid_t)tgid;
	ret->signalled = ((own | shared) & ~blocked & ~ignored) != 0;
	return 0;
}
