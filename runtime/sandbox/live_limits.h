/*
 * Limits that are set while a sandbox runs (the context of a callback): of the
 * memory that its processes use, and of their number. They only go down, and
 * hold for what `sandlock exec` adds, too.
 *
 * Kept by whoever would keep them from the start: a controller, the user
 * namespace's count of processes, or the supervisor. What cannot be set ends
 * the sandbox: it must not go on with more than it was left.
 */
#ifndef SANDLOCK_SANDBOX_LIVE_LIMITS_H
#define SANDLOCK_SANDBOX_LIVE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct create;
struct host_context;
struct json_out;
struct live_limits;

/* Whether a request may set limits while it runs. */
bool live_limits_wanted(const struct host_context *h);

/* @c is borrowed. NULL on ENOMEM. */
struct live_limits *live_limits_new(const struct create *c);
void live_limits_free(struct live_limits *l);
CLEANUP_PTR(struct live_limits, live_limits_free);

/* Thread-safe, once the payload runs. */
void live_limits_memory(struct live_limits *l, uint64_t bytes);
void live_limits_processes(struct live_limits *l, uint32_t n);

/* Process @pid, which is about to execute something, came by another way. */
void live_limits_meet(struct live_limits *l, pid_t pid);

/* The members "max_memory" and "max_processes", where there are such limits. */
void live_limits_json(struct live_limits *l, struct json_out *o);

#endif
