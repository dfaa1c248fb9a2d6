/*
 * The waiter: the one process that serves a created or detached bundle with a
 * branch, or about which somebody is asked. It sleeps on init's pidfd, on the
 * control socket and on the listener of what is trapped; with the first
 * question or trapped call it becomes a supervisor like any other (serve.h),
 * and not before. When init has died it settles the branch and carries out its
 * disposition. It is an exec of the program, so that it holds nothing of ours.
 * Where somebody is asked it is a supervisor from its beginning, and stands
 * between the launcher and `start`.
 *
 * If it is killed the first verb that meets the branch settles it. Where calls
 * are trapped nobody would answer them any more: a guard, which is a fork of
 * the waiter that sleeps on its pidfd, then ends the sandbox.
 */
#ifndef SANDLOCK_SANDBOX_WAITER_H
#define SANDLOCK_SANDBOX_WAITER_H

#include <stdbool.h>
#include <sys/types.h>

struct create;
struct error;

#define WAITER_NAME "sandlock-waiter"

/* Of what is detached: there is a branch, or somebody to be asked. */
bool waiter_is_due(const struct create *c);
/* Whether process @pid is that of sandbox @name. */
bool waiter_is_of(pid_t pid, const char *name);
/*
 * Starts it and writes its pid into the pid file. It gets the control socket,
 * where one is wanted, and c->traps_fd.
 */
int waiter_spawn(struct create *c, struct error *err);

#endif
