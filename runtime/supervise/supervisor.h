/*
 * The supervisor of a sandbox: one process that receives its trapped system
 * calls, runs handlers, serves the control socket, waits for init and settles.
 *
 * Exactly one thread is in NOTIF_RECV at any time, for each listener. Others
 * exist only while something needs them: a monitor while local handlers run,
 * workers while a lane has work, a ticker while calls are parked. Nothing
 * mediated: no thread but the caller's. They are made with every signal
 * blocked but SIGURG, whose handler (set by supervisor_start, put back by
 * supervisor_free) does nothing: it makes system calls return EINTR.
 *
 * docs/architecture.md says which thread may touch what.
 */
#ifndef SANDLOCK_SUPERVISE_SUPERVISOR_H
#define SANDLOCK_SUPERVISE_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervise/handler.h"

struct error;
struct log_sink;
struct supervisor;

struct supervisor_options {
	const struct handler *handlers; /* borrowed */
	size_t n_handlers;
	uint32_t park_timeout_ms; /* 0: 30000 */
	/*
	 * How many handlers of a lane may run at once, beside short local ones
	 * on the receiver; more are queued. 0: 32 and 64. A thread is made when
	 * it is needed and ends when it was idle for a second.
	 */
	unsigned int local_workers, external_workers;
	/*
	 * Receivers take a real-time priority, if they may: a caller that
	 * waits to be received can be interrupted by a signal, so for calls of
	 * which no program expects EINTR the wait has to be short.
	 */
	bool is_prompt;
	const struct log_sink *log; /* called on any thread */
};

int supervisor_new(const struct supervisor_options *o, struct supervisor **ret,
		   struct error *err);
/*
 * Adds a seccomp listener (several may exist); takes the fd, also on failure.
 * Its filter should have been loaded with WAIT_KILLABLE_RECV. It stays open
 * until the last task of its filter has gone and the last call that came over
 * it has returned. Thread-safe.
 */
int supervisor_add_listener(struct supervisor *s, int listener_fd,
			    struct error *err);
/* Starts receiving: from now on threads exist as needed. Once;
 * again where it has failed. */
int supervisor_start(struct supervisor *s, struct error *err);
/*
 * The sandbox is dead: queued work is answered EIO without running, running
 * work is waited for, threads end. With @timeout_ms >= 0 returns -ETIMEDOUT
 * when work still runs then; may be called again.
 */
int supervisor_stop(struct supervisor *s, int timeout_ms);
/* Stops, without a limit, and closes the listeners. NULL is allowed. */
void supervisor_free(struct supervisor *s);

/* How often system call @nr was trapped; any thread may ask. */
uint64_t supervisor_received(const struct supervisor *s, int nr);

#endif
