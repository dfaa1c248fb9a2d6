/*
 * Handlers: what answers a trapped system call.
 *
 * A handler is a row: name, number, lane, function. Rows of the same number
 * form a chain in the order of the table; built-in ones come before an
 * embedder's. Each returns an outcome: OUTCOME_CONTINUE hands over to the next
 * row, anything else ends the chain; a chain that ends is CONTINUE. There is
 * no default verdict for an internal error but to deny: a trapped number
 * without a row is EPERM, one of a foreign architecture ENOSYS.
 *
 *	LANE_INLINE	decides at once, never blocks, never touches a path,
 *			never writes the caller's memory (that takes the gate)
 *	LANE_LOCAL	file-system work; runs on the receiver itself while it
 *			is short, the receiver role moves on if it is not
 *	LANE_EXTERNAL	may wait for peers or people: always parked
 *
 * A handler that must wait is parked: it runs to its end on a thread of its
 * lane, the receiver goes on. All parks of one call share one deadline
 * (supervisor option, 30 s from receipt). A full lane queues.
 *
 * While a call is parked its caller may be answered over the handler's head:
 *
 *	why		what the caller gets	when
 *	the deadline	EIO			queued, or in LANE_EXTERNAL
 *	a signal	EINTR or a restart	queued, or in LANE_EXTERNAL
 *			(fork and exec: a restart)
 *	its death	-			always
 *
 * The handler then still runs to its end and keeps its slot; its outcome is
 * dropped (an fd in it is closed). LANE_LOCAL work that has begun is left
 * alone, as in the kernel: its effects cannot be restarted. See call_block_*
 * for a handler that waits as the kernel itself would.
 *
 * Thread rule: a handler may run on any thread of the supervisor; two calls
 * may run the same function at once. A struct call belongs to the handler that
 * was given it until it returns.
 */
#ifndef SANDLOCK_SUPERVISE_HANDLER_H
#define SANDLOCK_SUPERVISE_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct account;
struct seccomp_notif;

enum lane { LANE_INLINE, LANE_LOCAL, LANE_EXTERNAL };

enum outcome_kind {
	OUTCOME_CONTINUE, /* next handler; at the end the kernel carries on */
	OUTCOME_ERRNO,	  /* the call fails with @error */
	OUTCOME_RETURN,	  /* the call returns @value */
	OUTCOME_FD,   /* @fd is installed in the caller and returned; closed */
	OUTCOME_HELD, /* undecided: see call_resume */
};

struct outcome {
	enum outcome_kind kind;
	int error; /* positive; OUTCOME_RESTART_ERRNO see call_is_interrupted */
	int64_t value;
	int fd;
	bool cloexec; /* of the installed fd */
};

/* The kernel's ERESTARTSYS: EINTR, or a restart, as the signal wants it. */
enum { OUTCOME_RESTART_ERRNO = 512 };
/* Its ERESTARTNOINTR: always a restart. */
enum { OUTCOME_ALWAYS_RESTART_ERRNO = 513 };

#define OUTCOME_GO ((struct outcome){ .kind = OUTCOME_CONTINUE, .fd = -1 })
#define OUTCOME_FAIL(e) \
	((struct outcome){ .kind = OUTCOME_ERRNO, .error = (e), .fd = -1 })
#define OUTCOME_VALUE(v) \
	((struct outcome){ .kind = OUTCOME_RETURN, .value = (v), .fd = -1 })
#define OUTCOME_OPEN(f, c) \
	((struct outcome){ .kind = OUTCOME_FD, .fd = (f), .cloexec = (c) })

#define OUTCOME_WAIT ((struct outcome){ .kind = OUTCOME_HELD, .fd = -1 })

struct call;

typedef struct outcome handler_fn(struct call *c, void *data);

struct handler {
	const char *name; /* of the system call */
	int nr;
	enum lane lane;
	handler_fn *fn;
	void *data;		       /* borrowed; outlives the supervisor */
	const struct account *account; /* supervise/account.h; NULL: none */
	/* Calls of 32-bit programs come, too, if they are trapped: with this
	 * machine's number, and arguments in the same places. */
	bool takes_32;
	/* It, and what is done instead, may run without the thread's
	 * capabilities, and sees to what it needs (act_settle). */
	bool is_bare;
};

int call_nr(const struct call *c);
uint64_t call_arg(const struct call *c, unsigned int i); /* 0..5 */
/* As the kernel has told it. */
const struct seccomp_notif *call_notification(const struct call *c);
pid_t call_tid(const struct call *c); /* thread, as we see it */
pid_t call_tgid(struct call *c);      /* process; 0 if it is gone */
pid_t call_ppid(struct call *c);      /* its parent; 0 if it is gone */
/* The CPU of who handed it over to this thread, or -1. */
int call_cpu(const struct call *c);
/* Absolute CLOCK_MONOTONIC, ns: when the parks of this call must be over. */
uint64_t call_deadline_ns(const struct call *c);

/* True while the caller still waits for this very call. Check after reading
 * its memory and before an effect. */
bool call_is_valid(const struct call *c);
/*
 * A signal that would interrupt the call is pending: a handler that finds this
 * before it has had an effect answers OUTCOME_FAIL(OUTCOME_RESTART_ERRNO).
 */
bool call_is_interrupted(const struct call *c);

/* The caller's memory: 0, or -EFAULT; -ESRCH where the call has died. Reads
 * are copied once. Writes take the exec gate. */
int call_read(struct call *c, uint64_t addr, void *data, size_t n);
/* A NUL-terminated string of at most @max - 1 bytes: -ENAMETOOLONG. */
int call_read_string(struct call *c, uint64_t addr, char *ret, size_t max);
/* The same, but it counts only if the call is valid afterwards. */
int call_peek_string(struct call *c, uint64_t addr, char *ret, size_t max);
int call_write(struct call *c, uint64_t addr, const void *data, size_t n);

/* A copy of the caller's fd @fd (pidfd_getfd); ours, O_CLOEXEC. -EBADF,
 * -ESRCH, or why the kernel refused. */
int call_get_fd(struct call *c, int fd);
/* A pidfd of its process. -ESRCH. */
int call_open_process(struct call *c);
/* Its cwd, root, or a directory fd, as an O_PATH fd of ours. */
int call_open_cwd(struct call *c);
int call_open_root(struct call *c);
int call_open_dirfd(struct call *c, int dirfd); /* AT_FDCWD: the cwd */

/*
 * What a decision is made on must be what is carried out: from then on reads of
 * these bytes, or of descriptor @fd, give what was there at that moment,
 * whatever the caller does meanwhile. Ends with the call; see net_capture.
 */
int call_capture(struct call *c, uint64_t addr, size_t n);
/*
 * The same, of as much of @n as fits into CALL_CAPTURED_MAX bytes for all calls
 * of the sandbox together, or of @least: *@ret says how much.
 */
enum { CALL_CAPTURED_MAX = 16 * 1024 * 1024 };
int call_capture_part(struct call *c, uint64_t addr, size_t n, size_t least,
		      size_t *ret);
int call_capture_fd(struct call *c, int fd);
bool call_has_captured(const struct call *c);
/* How many of the things that it names that was done for, and how much of
 * them; 0 unless it was said. */
void call_capture_limit(struct call *c, uint64_t count, size_t bytes);
uint64_t call_captured_count(const struct call *c);
size_t call_captured_bytes(const struct call *c);

/* Installs @fd in the caller, returning the number there (ADDFD); -EMFILE,
 * -ESRCH. For an fd that is the call's result use OUTCOME_OPEN. */
int call_install_fd(struct call *c, int fd, bool cloexec);
/* Puts @fd in the place of its @number, which is open. 0, -ESRCH. */
int call_replace_fd(struct call *c, int number, int fd, bool cloexec);

/*
 * Between the two the call is not answered over the handler's head, whatever
 * its lane: what follows cannot be done twice. False if it was answered
 * already. Its caller may die all the same.
 */
bool call_effect_begin(struct call *c);
void call_effect_end(struct call *c);

/*
 * Around a system call that waits as the kernel's own would (a connect, the
 * open of a FIFO), in a parked handler. Between the two
 *   - the deadline does not count,
 *   - a pending signal answers the caller with @signal_errno
 *     (OUTCOME_RESTART_ERRNO, or EINTR where the kernel would not restart),
 *     in LANE_LOCAL too,
 *   - once the caller was answered or died, this thread is poked with a signal
 *     every 20 ms, so that its system call returns EINTR: give up then.
 * They nest no deeper than one, and the receiver never waits: in LANE_INLINE
 * they must not be used.
 */
void call_block_begin(struct call *c, int signal_errno);
void call_block_end(struct call *c);
/* True once the caller was answered over this handler's head, or died. */
bool call_is_abandoned(const struct call *c);

/* The row behind this one has nothing to do, and need not be waited for. */
void call_skip(struct call *c);

/*
 * Holding a call without a thread: a handler that waits for a decision returns
 * OUTCOME_WAIT, and is run again, in its lane or a higher one, once somebody
 * has called call_resume (any thread, before or after the handler returned;
 * more often than needed is fine). What it knows of the call it leaves with
 * call_keep: @free_fn is called on it once no handler of the call will run any
 * more, at the latest when the next call is received. Until then, and only
 * with a lock that @free_fn takes too, may call_resume be used.
 */
void call_keep(struct call *c, void *data, void (*free_fn)(void *));
void *call_kept(const struct call *c);
/* The same, if it was left with this @free_fn, else NULL: rows of one call may
 * leave different things. */
void *call_kept_by(const struct call *c, void (*free_fn)(void *));
/* OUTCOME_WAIT for what nobody tells us of: the handler is run again after a
 * while, again and again, until it returns something else. */
struct outcome call_retry(struct call *c);
void call_resume(struct call *c);
/* Another deadline than the supervisor's, and the errno that goes with it;
 * UINT64_MAX: none. */
void call_set_deadline(struct call *c, uint64_t deadline_ns, int error);

#endif
