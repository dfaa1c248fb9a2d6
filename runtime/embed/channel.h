/*
 * Messages between an embedder and the supervisor process of one of its
 * sandboxes, over a SOCK_SEQPACKET pair whose ends two processes of the same
 * version hold: the first setting says which that is.
 *
 *	embedder			supervisor
 *	SETTINGS... RUN	->
 *					(makes it) CREATED | FAILED
 *	GO		->
 *					STARTED | FAILED
 *	PAUSE RESUME PORTS ->		ANSWER
 *					(the end) CHANGES... ENDED | FAILED
 *
 * LOG may come at any time. The end of the stream means that the peer is dead.
 */
#ifndef SANDLOCK_EMBED_CHANNEL_H
#define SANDLOCK_EMBED_CHANNEL_H

#include <stddef.h>
#include <sys/types.h>

#include "sandlock.h"

#define SUPERVISOR_NAME "sandlock-supervisor"

enum channel_type {
	CHANNEL_SETTINGS = 1, /* a part of "KEY\0VALUE\0KEY\0VALUE\0" */
	CHANNEL_RUN,
	CHANNEL_GO,
	CHANNEL_PAUSE,
	CHANNEL_RESUME,
	CHANNEL_PORTS,
	CHANNEL_SIGNAL,	 /* value: for the payload; no answer */
	CHANNEL_LOG,	 /* value: level; data: text */
	CHANNEL_CREATED, /* value: pid; data: name, root, upper, root, ...;
			    fd: pidfd */
	CHANNEL_STARTED,
	CHANNEL_FAILED,	 /* data: struct error */
	CHANNEL_ANSWER,	 /* value 0: data is text; else struct error */
	CHANNEL_CHANGES, /* data: whole records of report.c */
	CHANNEL_ENDED,	 /* data: struct channel_end */
};

enum { CHANNEL_DATA_MAX = 64 * 1024 };

/* Settings that are no keys of a request. */
#define SETTING_VERSION "@version"
#define SETTING_ROOT "@root"
#define SETTING_STORE "@store"
/* "debug", or "info"; without it nobody wants to hear anything. */
#define SETTING_LOG "@log"
#define SETTING_REFUSE "@refuse_conflicts"

/* A system call that is handled: one for each handler, in order; and how long
 * a call may be in them, in ms. */
#define SETTING_HANDLER "@handler"
#define SETTING_HANDLED_MS "@handled_ms"

/* Of a stage, each a setting: "join", "hand_on" (to the embedder), "hold". */
#define SETTING_STAGE "@stage"
/* The number of the stage, from 0, where there are savepoints. */
#define SETTING_SAVEPOINTS "@savepoints"

/* Both processes are of one build, so structs are what they are. */
struct channel_end {
	struct sandlock_result result;
	struct sandlock_error changes_error;
};

struct channel_msg {
	enum channel_type type;
	int value;
	int fd; /* received, or -1; the receiver's */
	size_t len;
	char data[CHANNEL_DATA_MAX + 1]; /* NUL-terminated */
};

/* @fd -1: none. Blocks where the peer does not read; never raises SIGPIPE. */
int channel_send(int sock, enum channel_type type, int value, const void *data,
		 size_t n, int fd);
/* 1 a message, 0 the peer is gone, or a negative errno. */
int channel_recv(int sock, struct channel_msg *ret);

#endif
