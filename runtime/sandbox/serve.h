/*
 * The control socket of what runs in the foreground, a host command or a
 * bundle. The server's thread exists only between serve_begin, which is due
 * when somebody has connected, and serve_stop: nothing clones meanwhile, and
 * what it reads does not change. A detached
 * sandbox has no process that could serve, and no socket.
 */
#ifndef SANDLOCK_SANDBOX_SERVE_H
#define SANDLOCK_SANDBOX_SERVE_H

struct buf;
struct create;
struct error;

/*
 * After the payload was executed, so that it has no descriptor of the socket.
 * Does nothing where there is no directory. ERR_SYSTEM.
 */
int serve_start(struct create *c, struct error *err);
/* Can be read once serve_begin is due; -1 where it is not, or was. */
int serve_fd(const struct create *c);
int serve_begin(struct create *c, struct error *err);
/* Before handlers end: what they publish goes nowhere from then on. */
void serve_stop(struct create *c);

/* The same answers without a socket: the JSON of @verb without arguments. */
int serve_ask(struct create *c, const char *verb, struct buf *ret,
	      struct error *err);

#endif
