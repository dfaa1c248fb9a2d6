/*
 * Callbacks that answer a sandbox's system calls in the kernel's place.
 */
#ifndef LIBSANDLOCK_HANDLERS_H
#define LIBSANDLOCK_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base.h"
#include "sandbox.h"

SANDLOCK_BEGIN

/*
 * A trapped system call, owned by whoever has to answer it; its caller waits.
 * One thread at a time for each. Everything that is done to the caller goes
 * through the supervisor, and is -ESRCH once the caller does not wait any more:
 * it was killed or interrupted, time or the run is over, or it was answered.
 */
struct sandlock_call;

struct sandlock_call_info {
	uint64_t id;	/* of the notification, as the kernel numbers it */
	pid_t pid;	/* the thread that calls */
	uint32_t flags; /* of the notification */
	int nr;		/* sandlock_syscall_number */
	uint32_t arch;	/* AUDIT_ARCH_* */
	uint64_t instruction_pointer;
	uint64_t args[6];
};

enum sandlock_action_kind {
	SANDLOCK_ACTION_NONE, /* none: as if the handler had failed */
	/* The next handler of the call decides; after the last one the kernel
	 * carries it out. It reads memory again then, which may have changed.
	 */
	SANDLOCK_ACTION_CONTINUE,
	SANDLOCK_ACTION_ERRNO,	/* it fails with @error, 1 to 511 */
	SANDLOCK_ACTION_RETURN, /* it returns @value */
	SANDLOCK_ACTION_FD,	/* it returns @fd, which it gets a copy of */
	/* It is not answered, until a signal, or EIO when time is over. */
	SANDLOCK_ACTION_HOLD,
	/* @signal to every process of the sandbox; what is left of the caller
	 * gets EPERM. */
	SANDLOCK_ACTION_KILL,
};

struct sandlock_action {
	enum sandlock_action_kind kind;
	int error;
	int64_t value;
	int fd; /* the library's once it was answered with, whatever comes of
		   it: it closes it */
	bool close_on_exec; /* of the copy */
	int signal;
};

/* What a call gets whose handler fails. */
enum sandlock_exception {
	SANDLOCK_EXCEPTION_KILL, /* SIGKILL to all of the sandbox */
	SANDLOCK_EXCEPTION_EPERM,
	SANDLOCK_EXCEPTION_CONTINUE,
	SANDLOCK_EXCEPTION_EIO
};

/*
 * Handles a call: 0 with the answer in @ret, or SANDLOCK_HANDLER_LATER: @c is
 * the handler's then, to be answered and freed, also from another thread, also
 * before this returns. Anything else means that it has failed. Called on
 * threads of the library's own, for several calls at once.
 */
typedef int sandlock_handler_fn(void *data, struct sandlock_call *c,
				struct sandlock_action *ret);
enum { SANDLOCK_HANDLER_LATER = 1 };

struct sandlock_handler {
	const char *syscall; /* its name; NULL: number @nr */
	int nr;
	sandlock_handler_fn *fn;
	void *data;
	void (*free_fn)(void *data); /* or NULL */
	enum sandlock_exception on_exception;
};

/*
 * Before the first run: every such call of the sandbox goes to the handler,
 * before network rules judge it and carry it out, on what the handler saw (the
 * addresses, and the bytes that are sent: 1 MiB of them at most, and 16 MiB of
 * all calls at once), but after all else that the sandbox does about it, and
 * after the handlers of the call that were added before; of what those refuse
 * or answer it does not hear. @free_fn is called on @data once, after the last
 * call of any handler, by sandlock_sandbox_free, or here on failure. ERR_USAGE
 * for a call that cannot be handled, that is refused anyway, or for more than
 * 256 handlers; ERR_STATE.
 *
 * Not handled are close and close_range: a trapped call can wait, or be EINTR,
 * and no program expects that of them; wait4 and waitid: who waits is woken by
 * the signals that a held call does not get; exit and exit_group: what ends
 * must not be held up, and ends by signals as well, of which no call tells
 * (sandlock_call_open_process does); rt_sigreturn, restart_syscall: they are
 * how the kernel delivers signals; preadv2, pwritev2: a command is started by
 * them.
 *
 * Of a bundle, see policy.h for what it has to have, its own filter comes
 * first. Rules of ours there are none, so that what goes on is read again by
 * the kernel; io_uring is refused, and 32-bit calls kill. seccomp is called
 * once to load that filter before its program is executed.
 *
 * A run is not over while a handler runs; one that has not begun by then never
 * will. Calls that are answered later end with the run.
 */
int sandlock_sandbox_add_handler(struct sandlock_sandbox *s,
				 const struct sandlock_handler *h,
				 struct sandlock_error *err);
/*
 * Before the first run: at most @threads handlers run at once, others wait (0:
 * 64); and all handlers of a call together have @timeout_ms from when it was
 * made (0: 30 s), then it is EIO. ERR_STATE.
 */
int sandlock_sandbox_limit_handlers(struct sandlock_sandbox *s,
				    unsigned int threads, uint64_t timeout_ms,
				    struct sandlock_error *err);

/* Valid until the call is freed. */
const struct sandlock_call_info *
sandlock_call_get_info(const struct sandlock_call *c);
/*
 * The caller's memory: 0, or -ESRCH; -EFAULT where not all of it is there;
 * -ENAMETOOLONG where a string has no NUL within @max bytes, or 32 KiB. Of more
 * than that each such piece is read or written by itself.
 */
int sandlock_call_read(struct sandlock_call *c, uint64_t addr, void *data,
		       size_t n);
int sandlock_call_read_string(struct sandlock_call *c, uint64_t addr,
			      char *data, size_t max);
int sandlock_call_write(struct sandlock_call *c, uint64_t addr,
			const void *data, size_t n);
/* Gives the caller a copy of @fd, which stays ours: its number there, or
 * -ESRCH; -EMFILE, -EBADF. */
int sandlock_call_install_fd(struct sandlock_call *c, int fd,
			     bool close_on_exec);
/* A copy of the caller's @fd, close-on-exec, to be closed; or -ESRCH; -EBADF.
 */
int sandlock_call_get_fd(struct sandlock_call *c, int fd);
/* A pidfd of the process that calls, close-on-exec, to be closed: it can be
 * read once that has ended, which no handler is told of; or -ESRCH. */
int sandlock_call_open_process(struct sandlock_call *c);
/* True once nobody waits for an answer. */
bool sandlock_call_is_cancelled(struct sandlock_call *c);
/*
 * Answers, once: 0, or -EALREADY where it was answered before, -ECANCELED where
 * the run is over. Does not free. Whether the caller still was there to hear it
 * is not said.
 */
int sandlock_call_answer(struct sandlock_call *c,
			 const struct sandlock_action *a);
/* Unanswered, its handler has failed. NULL is fine. */
void sandlock_call_free(struct sandlock_call *c);

/*
 * Fills @ret with SANDLOCK_ACTION_FD of a file in memory that has the @n bytes
 * of @data and nothing to change them by, close-on-exec. ERR_SYSTEM.
 */
int sandlock_action_bytes(const void *data, size_t n,
			  struct sandlock_action *ret,
			  struct sandlock_error *err);

SANDLOCK_END

#endif
