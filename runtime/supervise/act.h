/*
 * Acting as the caller: the calling thread takes on the user, the groups and
 * the lack of privileges that the caller of a trapped call has, so that the
 * kernel judges what we do on its behalf as if it had done it, and peers see
 * its user (SO_PEERCRED; the process in it is the supervisor).
 *
 *	act_begin -> (one system call on behalf) -> act_end
 *
 * Only a supervisor that is root can become somebody; an ordinary user's
 * payload is that user. Of the calling thread alone: it is a system call of
 * threads, glibc's functions change all of them.
 */
#ifndef SANDLOCK_SUPERVISE_ACT_H
#define SANDLOCK_SUPERVISE_ACT_H

#include <stdbool.h>
#include <sys/types.h>

struct call;
struct who;

struct act {
	bool changed;
	bool is_bare;
};

/* 0; -ESRCH where the caller is gone, -EACCES where we cannot be like it. */
int act_begin(struct act *a, struct call *c);
/*
 * The same without any capability, root's included, so that what is done is
 * never more than the caller could. @w is who it is: nobody changes that while
 * it waits in its call. An ordinary user's supervisor has to have the caller's
 * groups, too.
 */
int act_begin_bare(struct act *a, const struct who *w);
void act_end(struct act *a);
/* True if @w has the calling thread's user and groups. */
bool act_is_like(const struct who *w);
/*
 * The end of one that was begun bare, but a thread that became nobody else
 * stays without capabilities until somebody needs them: two system calls less
 * where the next thing it does is the same. Every row of a handler but those
 * that say so (is_bare) begins with all of them, and so does every thread.
 */
void act_linger(struct act *a);
/* The calling thread has all its capabilities again. */
void act_settle(void);

#endif
