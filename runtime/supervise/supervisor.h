/*
 * The supervisor of a sandbox: one process that receives its trapped system
 * calls, runs handlers, serves the control socket, waits for init and settles.
 *
 * Exactly one thread is in NOTIF_RECV at any time. Others exist only while
 * something needs them: a monitor while a local handler runs, workers while a
 * lane has work, one thread for the control socket. Nothing mediated: no
 * thread but the main one.
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
	unsigned int local_workers, external_workers; /* 0: 4 and 64 */
	const struct log_sink *log;
};

int supervisor_new(const struct supervisor_options *o, struct supervisor **ret,
		   struct error *err);
/* Adds a seccomp listener (several may exist); takes the fd. Thread-safe. */
int supervisor_add_listener(struct supervisor *s, int listener_fd,
			    struct error *err);
/* Starts receiving: from now on threads exist as needed. */
int supervisor_start(struct supervisor *s, struct error *err);
/*
 * The sandbox is dead: queued work is answered EIO without running, running
 * work is waited for, threads end. With @timeout_ms >= 0 returns -ETIMEDOUT
 * when work still runs then; may be called again.
 */
int supervisor_stop(struct supervisor *s, int timeout_ms);
void supervisor_free(struct supervisor *s);

#endif
