/*
 * What serves a sandbox: its control socket, and the calls of a bundle that
 * are trapped. For what runs in the foreground it is the run itself, for a
 * bundle that was created or detached its waiter (waiter.h). The server's
 * thread exists only between serve_begin, which is due when somebody has
 * connected, and serve_stop: nothing clones meanwhile, and what it reads does
 * not change.
 */
#ifndef SANDLOCK_SANDBOX_SERVE_H
#define SANDLOCK_SANDBOX_SERVE_H

struct buf;
struct create;
struct error;

/*
 * The control socket: made before others may know of the sandbox, served by
 * this process or another once it runs. @ret_fd stays where none is wanted or
 * there is no directory; @listen_fd may be -1. ERR_SYSTEM.
 */
int serve_bind(const struct create *c, int *ret_fd, struct error *err);
int serve_adopt(struct create *c, int listen_fd, struct error *err);
/*
 * Begins to answer trapped calls, once c->traps_fd (of a bundle) or the idle
 * fd of its mediation can be read; does nothing where they are answered, or
 * none is trapped. Where it
 * fails nobody answers: the sandbox has to be ended. serve_begin includes it.
 */
int serve_calls(struct create *c, struct error *err);
/* Can be read once serve_begin is due; -1 where it is not, or was. */
int serve_fd(const struct create *c);
int serve_begin(struct create *c, struct error *err);
/* What came before, by another way; both take the fd. A client before
 * serve_begin, a listener after serve_calls or it. */
void serve_client(struct create *c, int fd);
int serve_listener(struct create *c, int fd, struct error *err);
/* Before handlers end: what they publish goes nowhere from then on. */
void serve_stop(struct create *c);

/* The same answers without a socket: the JSON of @verb without arguments. */
int serve_ask(struct create *c, const char *verb, struct buf *ret,
	      struct error *err);

#endif
