/*
 * Asking control sockets, many at once: one that does not answer costs its own
 * CONTROL_TIMEOUT_MS, connect included, and delays nobody else's answer.
 * Thread-safe.
 */
#ifndef SANDLOCK_CONTROL_CLIENT_H
#define SANDLOCK_CONTROL_CLIENT_H

#include "control/protocol.h"
#include "control/rundir.h"

struct error;

/* One question; filled by the caller up to @args, the rest by the client. */
struct control_call {
	const char *name, *verb;
	const char *args;    /* JSON text or NULL */
	const int *pass_fd;  /* an fd that goes along, or NULL */
	struct json *answer; /* the "data", or NULL; json_free */
	struct error err;    /* why there is none */
	/* The client's own. */
	int fd;
	int64_t end_ms;
	struct buf out, in;
	size_t sent;
	bool connected;
	bool is_starting;
	bool is_proved; /* what was demanded, control/peer.h */
};

/* Asks the sandboxes of @d; a call has an answer or an error afterwards. */
void control_ask_all(struct rundir *d, struct control_call *calls, size_t n);

/* The same for one. ERR_STATE where nobody answers. */
int control_ask(struct rundir *d, const char *name, const char *verb,
		const char *args, struct json **ret, struct error *err);

/*
 * The halves of it, for who has something to do until the answer is there:
 *
 *	control_begin (it is sent) -> control_finish -> c->answer ->
 *control_drop
 *
 * ERR_STATE where nobody answers; @c is done with on failure, too, and one that
 * is all zero may be dropped.
 */
int control_begin(struct rundir *d, struct control_call *c, struct error *err);
int control_finish(struct rundir *d, struct control_call *c, struct error *err);
void control_drop(struct control_call *c);

/*
 * Asks for a list page by page, and calls @fn with each item, which is in the
 * array that has the name of @verb, until it returns something else than 0,
 * which is returned.
 */
int control_list(struct rundir *d, const char *name, const char *verb,
		 int (*fn)(void *data, const struct json *item), void *data,
		 struct error *err);

/*
 * Calls @fn with each event that is published from now on, "event" and "data"
 * in @e, until it returns something else than 0, which is returned, or the
 * server ends: 0, or @stop_fd (may be NULL) can be read: -ECANCELED.
 * @subscribed (may be NULL) is called once the server listens: what it asks
 * then misses nothing. ERR_STATE where nobody answers.
 */
typedef int control_event_fn(void *data, const struct json *e);
int control_subscribe(struct rundir *d, const char *name, const int *stop_fd,
		      int (*subscribed)(void *data), control_event_fn *fn,
		      void *data, struct error *err);

#endif
