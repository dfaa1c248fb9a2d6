/*
 * The messages of a control socket (docs/protocol.md): four bytes of length,
 * big-endian, then that many bytes of JSON, at most CONTROL_BODY_MAX.
 *
 *	{"v":1,"verb":"state","args":{}}
 *	{"v":1,"ok":true,"data":...}	{"v":1,"ok":false,"err":"..."}
 */
#ifndef SANDLOCK_CONTROL_PROTOCOL_H
#define SANDLOCK_CONTROL_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"

enum {
	CONTROL_VERSION = 1,
	CONTROL_HEADER = 4,
	CONTROL_BODY_MAX = 65536,
	CONTROL_TIMEOUT_MS = 2000, /* of one connection, on both sides */
};

extern const char control_socket_name[]; /* "control.sock" */

struct control_request {
	struct json *root;	 /* owned */
	const char *verb;	 /* borrowed from it, as is @args */
	const struct json *args; /* an object, or NULL */
	int fd; /* that came along, or -1; who keeps it duplicates it */
};

size_t control_get_length(const unsigned char header[CONTROL_HEADER]);

/* "parse error: ...", "unsupported protocol version: N". ERR_USAGE. */
int control_parse(const char *body, size_t len, struct control_request *ret,
		  struct error *err);
void control_request_done(struct control_request *r);

/* Appends the frame of a request: @verb is a word of ours, @args JSON text or
 * NULL. -EMSGSIZE, -ENOMEM. */
int control_request(struct buf *frame, const char *verb, const char *args);

/*
 * Appends a whole frame: @data is JSON text (of a success) or NULL, then @why
 * says what failed. What is too long becomes the error that says so. -ENOMEM.
 */
int control_answer(struct buf *frame, const char *data, const char *why);

/*
 * Appends a refusal of who has to prove something first (control/peer.h), with
 * where: "prove":{"pid":N,"fd":N}. -ENOMEM. And reads it: false, it is none.
 */
int control_demand(struct buf *frame, pid_t pid, int fd);
bool control_read_demand(const char *body, size_t len, pid_t *ret_pid,
			 int *ret_fd);

/*
 * Appends the frame of an event: @data is JSON text, @event a word of ours.
 * -EMSGSIZE, -ENOMEM.
 */
int control_event(struct buf *frame, const char *event, const char *data);

/*
 * The "data" of an answer, moved out of the JSON @body, or its error as
 * ERR_STATE. json_free the result.
 */
int control_read_answer(const char *body, size_t len, struct json **ret,
			struct error *err);

/* An event: an object with a string "event". ERR_STATE. json_free the result.
 */
int control_read_event(const char *body, size_t len, struct json **ret,
		       struct error *err);

#endif
