/*
 * Asking about a call from within its handler:
 *
 *	struct ask lives in what the handler keeps (call_keep), beside what it
 *	captured of the call; ask_done is part of its free function.
 *
 *	first run	capture, then ask_about: ASK_WAITS, return *@ret
 *	later runs	call_kept is there: nothing is read from the caller
 *			again; ask_about says what was decided meanwhile
 *
 * After ASK_ALLOWED what may have changed is checked again by the handler, on
 * what it captured, against the rules of now.
 */
#ifndef SANDLOCK_SUPERVISE_ASK_H
#define SANDLOCK_SUPERVISE_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "supervise/approvals.h"
#include "supervise/handler.h"

struct denials;
struct denied_paths;
struct object;
struct object_finder;

/* As approval_join, by another way. */
typedef int ask_join_fn(void *data, const struct event *e, const char *rule,
			uint64_t deadline_ns, struct approval_wait *w);

/* Shared by the handlers of a sandbox; constant while they run. */
struct asker {
	struct approvals *book; /* NULL: nobody can answer, all is denied */
	ask_join_fn *join;	/* NULL: approval_join with the book */
	void *join_data;
	uint64_t timeout_ms, network_timeout_ms;
	struct denials *denials;	   /* or NULL */
	struct denied_paths *denied_paths; /* at run time; or NULL */
	bool asks_all; /* a callback is asked, whatever rules say */
	const struct object_finder *finder; /* NULL: paths are the kernel's */
};

enum {
	ASK_TIMEOUT_MS = 120 * 1000,
	/* Clients give up by themselves. */
	ASK_NETWORK_TIMEOUT_MS = 20 * 1000,
};

struct ask {
	struct approval_wait wait;
	const struct asker *asker;
	bool is_asked;
	bool is_over; /* the handler has seen what became of it */
};

enum ask_answer { ASK_ALLOWED, ASK_WAITS, ASK_DENIED };

/* Unless it is ASK_ALLOWED, *@ret is what the handler returns. */
enum ask_answer ask_about(const struct asker *a, struct ask *k, struct call *c,
			  const struct event *e, const char *rule,
			  struct outcome *ret);
/* A question whose deadline has passed while nobody looked is a denial, and on
 * record before the caller has its answer. */
void ask_done(struct ask *k);

/* By the finder, if there is one: see there. */
int ask_find_object(const struct asker *a, struct call *c, int dirfd,
		    uint64_t addr, const char *path, bool follow,
		    struct object *ret);
void ask_hold_objects(const struct asker *a, bool held);

/* True, and on record, if what call @name is about was denied at run time, or
 * cannot be known. */
bool ask_is_denied(const struct asker *a, struct call *c, const char *name,
		   const struct object *o);

/*
 * The row of a call that is about @o, first run and later ones: what is denied
 * fails, what a rule (or NULL) or a callback asks for waits, all else goes on.
 * @e says what the call is; who calls, and the path, are filled in. If its
 * program is known already it is taken.
 */
struct outcome ask_about_object(const struct asker *a, struct ask *k,
				struct call *c, struct event *e,
				const struct object *o, const char *rule);

/* Somebody is asked about what @rule (or none) is for. */
bool ask_is_asked(const struct asker *a, const char *rule);

/* Who calls: pid, parent, and the program, malloc'ed, unless it is there. */
void ask_fill_caller(struct event *e, struct call *c);

#endif
