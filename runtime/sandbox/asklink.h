/*
 * Questions to an embedder, over a SOCK_SEQPACKET socket. What each system
 * call takes is in bytes, all else one JSON object a message.
 *
 * From the supervisor:
 *	ASKLINK_HELLO			comes first, with askslot.h's memory
 *	struct asklink_question, and what event_pack writes
 *	{"closed":NUMBER}		it is not open any more
 *	ASKLINK_SAW, and what event_pack writes of one that was refused
 * From the embedder:
 *	struct asklink_answer		unless it is left in that memory
 *	{"seen":N}			so many of those were looked at
 *	{"restrict_network":[RULE...],"pid":N}
 *	{"grant_network":[RULE...],"pid":N}
 *	{"restrict_max_memory":BYTES}
 *	{"restrict_max_processes":N}
 *	{"deny_path":"..."}
 *	{"allow_path":"..."}
 *
 * At most ASKLINK_SEEN_MAX of those are under way or wait, further ones are
 * left out: however many are refused, nobody waits for that, and a question is
 * not behind more than these.
 *
 * The end of the stream withdraws all: what is asked from then on is denied.
 */
#ifndef SANDLOCK_SANDBOX_ASKLINK_H
#define SANDLOCK_SANDBOX_ASKLINK_H

#include <stdint.h>

#include "base/cleanup.h"
#include "policy/event.h"

struct approval_wait;
struct approvals;
struct asklink;
struct audit;
struct create;
struct net;

enum {
	ASKLINK_MAX = 64 * 1024,
	ASKLINK_RULES_MAX = 256,
	ASKLINK_SEEN_MAX = 64,
};

/* The first byte of a message; that of an object is '{'. */
enum {
	ASKLINK_HELLO = 'H',
	ASKLINK_QUESTION = 'Q',
	ASKLINK_SAW = 'S',
	ASKLINK_ANSWER = 'A',
};

/* Without padding: what goes to another process is no leftover of a stack. */
struct asklink_question {
	char kind;
	char zero[3];
	int32_t cpu; /* where who asks waits */
	uint64_t number, deadline_ns;
};

struct asklink_answer {
	char kind;
	char zero[3];
	int32_t error; /* 0: allowed */
	uint64_t number;
};

/* Starts a thread that serves @sock, borrowed; @net may be NULL. What is denied
 * and limited is that of @c; @audit is flushed. NULL on ENOMEM, or where no
 * thread can be made. */
struct asklink *asklink_start(struct approvals *book, struct net *net,
			      struct audit *audit, const struct create *c,
			      int sock);
/*
 * approval_join for those who ask the embedder; @data is the link. Waits for an
 * answer that comes at once. An ask_join_fn.
 */
int asklink_join(void *data, const struct event *e, const char *rule,
		 uint64_t deadline_ns, struct approval_wait *w);
/* Ends it; the book is closed by then. NULL is fine. */
void asklink_stop(struct asklink *l);

#endif
