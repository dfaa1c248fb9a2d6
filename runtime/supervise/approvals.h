/*
 * Approvals: what somebody has to be asked about, and their answers.
 *
 *	approval_join -> waiting -> answered | expired | cancelled
 *
 * An approval is one-shot. Its state leaves "waiting" once, by compare and
 * swap: by an answer, at its deadline (absolute, taken when it was made), or
 * because it is withdrawn: nobody waits for it any more, or the book is closed.
 * Only an answer that says so allows; everything else is a denial.
 *
 * Who asks joins with a struct approval_wait of its own, and leaves before that
 * goes away. Equal requests (event_digest) that wait share one approval, its
 * deadline too; what was denied to a process it is denied again for a few
 * seconds, without being asked. At most @max_open are open, which is: shown and
 *answered; what is asked meanwhile waits in order, with its deadline running.
 *
 * An answer names the number and the digest of what its author saw. Late,
 * repeated, unknown, withdrawn and mismatching ones have errors of their own,
 * and change nothing.
 *
 * Thread-safe. Callbacks run under the lock of the book and must not call back
 * into it, but @wake may leave.
 */
#ifndef SANDLOCK_SUPERVISE_APPROVALS_H
#define SANDLOCK_SUPERVISE_APPROVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/cleanup.h"
#include "policy/event.h"

struct approval;
struct approvals;
struct buf;
struct error;
struct json_out;

enum approval_state {
	APPROVAL_WAITING,
	APPROVAL_ANSWERED,
	APPROVAL_EXPIRED,
	APPROVAL_CANCELLED,
};

enum {
	APPROVALS_MAX_OPEN = 64,
	APPROVALS_ALIKE_MAX = 1024,
	APPROVALS_KEPT = 256,	   /* closed ones, to tell late from unknown */
	APPROVALS_LATE_MAX = 1024, /* those somebody is told of later */
	APPROVAL_TEXT_MAX = 256,   /* who, reason */
	APPROVAL_PREFIX_MIN = 8,   /* digits of a digest that an answer names */
};

/* A copy-free look at one; borrowed, valid under the lock of the book. */
struct approval_info {
	uint64_t id;
	const char *digest; /* "" in a separate book, where none is made */
	const struct event *event;
	const char *rule; /* why it is asked; or NULL */
	enum approval_state state;
	bool is_open;
	int error;	 /* the verdict: 0 allows */
	const char *who; /* answered it, or NULL */
	bool by_program; /* which a sandbox can make answer without end */
	const char *reason;
	unsigned int count;	       /* how often it was asked so far */
	struct timespec asked, closed; /* CLOCK_REALTIME */
	uint64_t deadline_ns;	       /* CLOCK_MONOTONIC */
};

/* One that became open, or was closed after having been open, or has expired
 * without. */
typedef void approvals_told_fn(void *data, const struct approval_info *i);

/* @max_open 0: APPROVALS_MAX_OPEN. NULL on ENOMEM. */
struct approvals *approvals_new(unsigned int max_open);
/* Equal requests are questions of their own, nothing is denied again without
 * one, approvals_fd is silent, and the number alone names what was shown.
 * Before the first is asked. */
void approvals_set_separate(struct approvals *b);
/* Calls @told from now on, for up to four at a time. -ENOSPC. */
int approvals_tell(struct approvals *b, approvals_told_fn *told, void *data);
void approvals_untell(struct approvals *b, void *data);
/*
 * Calls @told only of those that were closed, later: when somebody calls
 * approvals_catch_up, without the lock of the book, and by whoever closes one
 * when too many wait. One at a time; NULL ends that, after all were told of.
 */
void approvals_tell_later(struct approvals *b, approvals_told_fn *told,
			  void *data);
void approvals_catch_up(struct approvals *b);
/* Withdraws what waits; what is asked from now on is withdrawn at once. */
void approvals_close(struct approvals *b);
/* Nobody is joined any more. NULL is allowed. */
void approvals_free(struct approvals *b);
CLEANUP_PTR(struct approvals, approvals_free);

/*
 * An eventfd, readable after one became open or was closed; whoever reads it
 * looks again (approvals_each). Belongs to the book.
 */
int approvals_fd(const struct approvals *b);

struct approval_wait {
	struct approval *approval; /* NULL: not joined */
	struct approval_wait *prev, *next;
	void (*wake)(void *data); /* the state has changed */
	void *data;
	bool is_woken;
};

/*
 * Asks. @event is copied. @w->wake and @w->data are set by the caller. -ENOMEM.
 */
int approval_join(struct approvals *b, const struct event *e, const char *rule,
		  uint64_t deadline_ns, struct approval_wait *w);
/* The last one that leaves withdraws it. Idempotent. */
void approval_leave(struct approval_wait *w);
/* Its state now; *@ret_error is the verdict, never 0 unless it was allowed. */
enum approval_state approval_look(struct approval_wait *w, int *ret_error);
uint64_t approval_deadline_ns(const struct approval_wait *w);
uint64_t approval_id(const struct approval_wait *w);
/* What was asked, if its deadline has passed without an answer; else NULL. Its
 * caller's numbers are those of who asked first. Until who has joined leaves.
 */
const struct event *approval_expired(struct approval_wait *w);
const char *approval_rule(const struct approval_wait *w);
/* What whoever has answered said besides; NULL: nothing, or nobody has. */
const char *approval_reason(const struct approval_wait *w);

/*
 * Answers number @id: @error 0 allows, else it is the errno that the caller
 * gets. @digest is that of what was shown, or at least APPROVAL_PREFIX_MIN
 * digits of it; NULL for who was sent the question by a separate book.
 * ERR_NOT_FOUND (-ENOENT) unknown; ERR_STATE: -EALREADY
 * repeated, -ETIMEDOUT late, -ECANCELED withdrawn; ERR_CONFLICT (-EBADMSG) for
 * another digest; ERR_USAGE where @who or @reason is longer than
 * APPROVAL_TEXT_MAX.
 */
int approvals_resolve(struct approvals *b, uint64_t id, const char *digest,
		      int error, const char *who, const char *reason,
		      struct error *err);

/* The same, of an answer that no person gives. */
int approvals_resolve_by_program(struct approvals *b, uint64_t id,
				 const char *digest, int error, const char *who,
				 const char *reason, struct error *err);

/* The same, with yes: and every equal request (event_digest) of this book is
 * allowed from then on, without being asked. At most APPROVALS_ALIKE_MAX. */
int approvals_allow_alike(struct approvals *b, uint64_t id, const char *digest,
			  const char *who, struct error *err);

/* Calls @fn for each open one with a number over @after, in order, until it
 * returns false; with @closed for those that are not open any more, too. */
void approvals_each(struct approvals *b, uint64_t after, bool closed,
		    bool (*fn)(void *data, const struct approval_info *i),
		    void *data);

/* That of @i, in @made where it has none. */
const char *approval_digest(const struct approval_info *i,
			    char made[EVENT_DIGEST_LEN + 1]);
/* One object; it fits into a message of the control socket. */
void approval_to_json(const struct approval_info *i, struct json_out *o);

#endif
