/*
 * Calls that only the caller can make for itself, with another path.
 *
 * chdir and exec act on who makes them, and a trapped call goes on with what
 * is in the caller's registers and memory. So the caller is seized by ptrace,
 * the call is answered with a restart, and at the stop on its way out its
 * registers are made to point to another path (and other arguments), which are
 * written below its stack. The call is trapped once more, and is then one that
 * may go on; when it has failed, or was no exec, the registers are put back.
 *
 * Nobody relies on what is written there: another thread that changes it gets
 * what the kernel gives it by itself.
 */
#ifndef SANDLOCK_SUPERVISE_REDIRECT_H
#define SANDLOCK_SUPERVISE_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "supervise/handler.h"

struct redirect {
	const char *path; /* instead of the one that was given */
	unsigned int arg; /* which one that is, below 4; of exec always 0 */
	/* exec: in the place of argv[0], if there are any. */
	const char *const *words;
	size_t n_words;
	/* The path is below this directory (or, if it is empty, is this file),
	 * to which the caller gets by no path: it is lent the descriptor, which
	 * it could have opened by itself, for this call. Borrowed. */
	bool is_lent;
	int lent_fd;
	/* For whoever looks at the call once it is made again: an end of its
	 * own, or NULL. redirect_call has it, whatever becomes of it. */
	void *pass;
	void (*free_pass)(void *pass);
	/* Tells it the path of what is lent, once there is one; or NULL. */
	void (*name_pass)(void *pass, const char *path);
	/* Nobody has looked at it yet: redirect_is_made says no. */
	bool is_anew;
};

/* Of chdir, execve, execveat, and calls that look a path up; EOPNOTSUPP on
 * machines where it is not known how. */
struct outcome redirect_call(struct call *c, const struct redirect *r);

/* This is the call that a redirection makes: one that was looked at. */
bool redirect_is_made(struct call *c);
/* What was passed to it, once; NULL. */
void *redirect_take(struct call *c);
/* A thread of ours traces it, for one call, and lets it run only while the gate
 * is open. */
bool redirect_is_of(pid_t tid);
/*
 * For who has closed the gate: @tid may run all the same, until its call is
 * made. There it is held, at its exec event or on its way out of the call,
 * until somebody else is favoured; 0: nobody.
 */
void redirect_favour(pid_t tid);
/* It has made its call, and is. */
bool redirect_is_held(pid_t tid);

#endif
