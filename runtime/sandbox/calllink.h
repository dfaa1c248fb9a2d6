/*
 * Trapped system calls on their way to the handlers of an embedder.
 *
 *	supervisor			embedder
 *	CALL_MADE	->
 *			<-		CALL_READ... (any number, one by one)
 *	CALL_REPLY	->
 *			<-		CALL_ANSWER
 *
 * Each call that is under way has a channel for itself, a SOCK_SEQPACKET pair,
 * so that whoever waits for a message gets it without a thread in between.
 * Channels are made as they are needed and used again; the embedder gets its
 * ends over one socket, one byte and an fd each. The end of that socket, or of
 * a channel, answers what is left with EIO.
 *
 * In the supervisor a call takes a thread of the external lane until it is
 * answered: what is done to its caller happens there, and stalls nobody else.
 */
#ifndef SANDLOCK_SANDBOX_CALLLINK_H
#define SANDLOCK_SANDBOX_CALLLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervise/handler.h"

enum call_msg_type {
	CALL_MADE = 1,	  /* @value: which handler; data: struct call_made */
	CALL_REPLY,	  /* @value: 0, a number, or a negative errno */
	CALL_READ,	  /* of @n bytes at @addr */
	CALL_READ_STRING, /* of less than @n bytes at @addr */
	CALL_WRITE,	  /* of the data to @addr */
	CALL_INSTALL_FD,  /* of the fd; @value: close-on-exec */
	CALL_GET_FD,	  /* @value: its number there; the reply has an fd */
	CALL_GET_PROCESS, /* the reply has a pidfd */
	CALL_LOOK,	  /* is it still waited for? */
	CALL_ANSWER,	  /* data: struct call_answer; the fd */
};

enum { CALL_DATA_MAX = 32 * 1024 };

struct call_made {
	uint64_t id;
	pid_t pid;
	uint32_t flags;
	int32_t nr;
	uint32_t arch;
	uint64_t instruction_pointer;
	uint64_t args[6];
	uint64_t deadline_ns, sent_ns; /* CLOCK_MONOTONIC */
	int32_t cpu;		       /* where who sends it waits */
};

enum call_answer_kind {
	CALL_GO_ON,
	CALL_FAIL,   /* with @error */
	CALL_RETURN, /* @value */
	CALL_FD,
	CALL_HOLD, /* until its deadline, or the end of its caller */
	CALL_KILL, /* all of the sandbox, with @signal; EPERM if it lives */
};

struct call_answer {
	enum call_answer_kind kind;
	int32_t error, signal;
	bool cloexec;
	int64_t value;
};

struct call_msg {
	uint32_t type; /* enum call_msg_type */
	int32_t value;
	uint64_t number; /* of the call: every message has it */
	uint64_t addr, n;
	size_t len;
	int fd; /* received, or -1; the receiver's */
	char data[CALL_DATA_MAX];
};

/* All but the data; no fd. */
void call_msg_begin(struct call_msg *m, enum call_msg_type type, int value,
		    uint64_t number);
/* Sends @m with its first @m->len bytes of data and @m->fd, which stays the
 * caller's. 0 or a negative errno. */
int call_msg_send(int sock, const struct call_msg *m);
/* 1 a message, 0 the peer is gone, or a negative errno. */
int call_msg_recv(int sock, struct call_msg *m);

/* ------------------------------------------------------- supervisor's end --
 */

struct calllink;

/* @sock is borrowed. @kill_fn sends a signal to all of the sandbox. */
struct calllink *calllink_new(int sock, void (*kill_fn)(void *data, int sig),
			      void *data);
/* What waits is EIO, and what comes. Any thread, more than once. */
void calllink_close(struct calllink *l);
/* After the last call. NULL is fine. */
void calllink_free(struct calllink *l);

/* What handler @which says of @c; in LANE_EXTERNAL. */
struct outcome calllink_ask(struct calllink *l, struct call *c,
			    unsigned int which);

#endif
