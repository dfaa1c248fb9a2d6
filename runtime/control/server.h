/*
 * The control socket of a sandbox: a thread that answers one request on each
 * connection (docs/protocol.md).
 *
 *	control_server_bind -> control_server_adopt -> control_server_begin
 *	  -> (answers) -> control_server_stop
 *
 * A silent, slow or malformed client delays nobody: every connection has
 * CONTROL_TIMEOUT_MS in all, at most 64 are open, and a new one takes the
 * place of the oldest. @answer is called on the server's thread, one call at a
 * time; it appends the JSON of "data" to @ret or fails with the text for the
 * client. Nothing else of the caller is touched.
 *
 * "subscribe" is the server's own verb: such a connection stays open and is
 * sent every event that is published from then on. One that does not read what
 * it is sent is dropped.
 */
#ifndef SANDLOCK_CONTROL_SERVER_H
#define SANDLOCK_CONTROL_SERVER_H

#include "base/cleanup.h"
#include "control/protocol.h"

struct error;
struct control_server;

typedef int control_answer_fn(void *data, const struct control_request *q,
			      struct buf *ret, struct error *err);

/*
 * Binds control.sock in the directory @dir_fd, mode 0600: clients wait. The
 * fd can be given to another process, and to control_server_adopt there.
 */
int control_server_bind(int dir_fd, int *ret_fd, struct error *err);
/* Takes @listen_fd, also on failure. */
int control_server_adopt(int listen_fd, control_answer_fn *answer, void *data,
			 struct control_server **ret, struct error *err);
/* Can be read once a client is there; -1 once the thread has begun. */
int control_server_fd(const struct control_server *s);
/* Before the thread is: a client that was accepted elsewhere. Takes @fd. */
void control_server_take(struct control_server *s, int fd);
/* Starts the thread, which a sandbox that nobody asks does not need. */
int control_server_begin(struct control_server *s, struct error *err);
/*
 * Sends {"v":1,"event":@event,"data":@json} to who subscribed. Never blocks;
 * any thread, but not once control_server_stop was called. NULL is fine.
 */
void control_server_publish(struct control_server *s, const char *event,
			    const char *json);
/* False if nobody would hear it. */
bool control_server_is_heard(struct control_server *s);
/* Ends the thread and closes all; the file stays. NULL is fine. */
void control_server_stop(struct control_server *s);

#endif
