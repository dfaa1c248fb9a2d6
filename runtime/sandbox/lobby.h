/*
 * Who has come to a waiter that is no supervisor yet. `exec` brings the
 * listener of what it starts, which may never have anything to say: to keep it
 * takes no thread and none of what a supervisor reads. All else, and the first
 * trapped call, makes the waiter a supervisor, which gets what is here.
 *
 *	lobby_accept, lobby_look -> lobby_leave
 *
 * One thread; it never waits for anybody.
 */
#ifndef SANDLOCK_SANDBOX_LOBBY_H
#define SANDLOCK_SANDBOX_LOBBY_H

#include <stdbool.h>
#include <stddef.h>

struct create;
struct error;
struct pollfd;

enum { LOBBY_MAX = 32 };

struct lobby {
	struct lobby_guest {
		int fd;
		bool is_listener; /* else a client's connection */
	} guests[LOBBY_MAX];
	size_t n;
};

/* Takes one client from @listen_fd; false: there is no room. */
bool lobby_accept(struct lobby *l, int listen_fd);
/* Fills @p with what to sleep on: l->n entries. */
void lobby_poll(const struct lobby *l, struct pollfd *p);
/* After poll(2) on those; true: somebody needs a supervisor. */
bool lobby_look(struct lobby *l, const struct pollfd *p);
/* Whether somebody here waits for an answer. */
bool lobby_has_clients(const struct lobby *l);
/* Hands all over to what serves @c. ERR_SYSTEM. */
int lobby_leave(struct lobby *l, struct create *c, struct error *err);
/* Closes all. */
void lobby_done(struct lobby *l);

#endif
