/*
 * The waiter: the one process that stays behind a detached sandbox with a
 * branch. It sleeps on init's pidfd, then settles the branch and carries out
 * its disposition. If it is killed, the first verb that meets the branch does
 * its work. It is an exec of the program, so that it holds nothing of ours.
 */
#ifndef SANDLOCK_SANDBOX_WAITER_H
#define SANDLOCK_SANDBOX_WAITER_H

struct create;
struct error;

#define WAITER_NAME "sandlock-waiter"

/* Starts it and writes its pid into the pid file. */
int waiter_spawn(struct create *c, struct error *err);

#endif
