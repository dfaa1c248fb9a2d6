/*
 * Seccomp user notification (seccomp_unotify(2)): a listener fd over which the
 * system calls that a filter traps arrive, and the caller behind each.
 *
 * The task that is named in a notification may die at any moment, and its
 * number may be used again. What was read through the number is the caller's
 * only if the notification is still valid afterwards; a write goes through an
 * fd that was opened before the check. Functions return 0 or a negative errno;
 * -ENOENT always means that the notification has died. Thread-safe.
 */
#ifndef SANDLOCK_KERNEL_NOTIFY_H
#define SANDLOCK_KERNEL_NOTIFY_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* The kernel's structures may be longer than those we were built with. */
enum { NOTIFY_ROOM = 256 };

union notify_request {
	struct seccomp_notif notif;
	char room[NOTIFY_ROOM];
};

union notify_response {
	struct seccomp_notif_resp resp;
	char room[NOTIFY_ROOM];
};

/*
 * How many bytes of a request must be zero before it is received, as this
 * kernel has it; ERR_UNSUPPORTED without user notification, or where its
 * structures outgrew ours.
 */
int notify_request_size(size_t *ret, struct error *err);

/*
 * Sync wake-up: caller and supervisor take turns on one CPU (6.6). -EINVAL
 * where the kernel lacks it.
 */
int notify_set_sync(int listener_fd);

/*
 * Waits for a notification; the first @size bytes of @r are cleared. -EINTR
 * after a signal. -ENOENT if its task died at once, or, since 6.11, nobody is
 * left to be heard of (notify_is_over).
 */
int notify_receive(int listener_fd, union notify_request *r, size_t size);

/* True once no task can ever trap into this listener. */
bool notify_is_over(int listener_fd);

/* Answers: @error (positive) or @value; or the kernel carries on. */
int notify_fail(int listener_fd, uint64_t id, int error);
int notify_return(int listener_fd, uint64_t id, int64_t value);
int notify_continue(int listener_fd, uint64_t id);

bool notify_is_valid(int listener_fd, uint64_t id);

/*
 * Installs @fd in the caller and returns its number there. notify_answer_fd
 * makes that number the result of the call, in one step (5.14); if it fails
 * the call is still unanswered.
 */
int notify_install_fd(int listener_fd, uint64_t id, int fd, bool cloexec);
/* In the place of its @number; 0 or a negative errno. */
int notify_replace_fd(int listener_fd, uint64_t id, int number, int fd,
		      bool cloexec);
int notify_answer_fd(int listener_fd, uint64_t id, int fd, bool cloexec);

/*
 * The memory of task @tid. A read may be short at the end of a mapping:
 * returns the count, -EFAULT if it is 0. Check the notification afterwards.
 */
ssize_t notify_read_memory(pid_t tid, uint64_t addr, void *data, size_t n);
/*
 * Writes all or fails (-EFAULT, or -EIO where that many bytes cannot be
 * written in one go). Checks the notification itself, once the memory is
 * pinned: no other process is ever written to.
 */
int notify_write_memory(int listener_fd, uint64_t id, pid_t tid, uint64_t addr,
			const void *data, size_t n);

/* What /proc/TID/status says of a caller; check the notification afterwards. */
struct notify_task {
	pid_t tgid;
	bool signalled; /* a signal is pending, not blocked and not ignored */
};
int notify_read_task(pid_t tid, struct notify_task *ret);

#endif
