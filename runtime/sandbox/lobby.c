#include "sandbox/lobby.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "control/peer.h"
#include "control/protocol.h"
#include "sandbox/serve.h"

enum { FRAME_MAX = 256 }; /* more than what is looked for */

enum stay { STAYS, GOES, NEEDS_SUPERVISOR };

static void remove_guest(struct lobby *l, size_t i)
{
	cleanup_close(&l->guests[i].fd);
	l->guests[i] = l->guests[--l->n];
}

bool lobby_accept(struct lobby *l, int listen_fd)
{
	auto_close int fd = -1;

	if (l->n == LOBBY_MAX)
		return false;
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno != EMFILE && errno != ENFILE;
	l->guests[l->n++] = (struct lobby_guest){ .fd = take_fd(&fd) };
	return true;
}

void lobby_poll(const struct lobby *l, struct pollfd *p)
{
	for (size_t i = 0; i < l->n; i++)
		p[i] = (struct pollfd){ .fd = l->guests[i].fd,
					.events = POLLIN };
}

/*
 * The one request that is answered here, byte for byte as our client sends it
 * and in one piece; what is written in another way is for the server.
 */
static bool is_listen(const char *got, size_t n)
{
	auto_(buf) struct buf frame = BUF_INIT;

	return control_request(&frame, "listen", NULL) == 0 && n == frame.len &&
	       memcmp(got, frame.data, n) == 0;
}

static int answer(int fd, const char *data, const char *why)
{
	auto_(buf) struct buf frame = BUF_INIT;
	int r = control_answer(&frame, data, why);

	return r < 0 ? r : fd_send(fd, frame.data, frame.len, NULL, 0);
}

/* The client's place is its listener's from now on. */
static enum stay take_listener(struct lobby_guest *g)
{
	auto_close int listener_fd = -1;
	size_t n_fds = 1;
	char got[FRAME_MAX];

	if (fd_recv(g->fd, got, sizeof(got), &listener_fd, &n_fds) <= 0)
		return GOES;
	if (!n_fds) {
		(void)answer(g->fd, NULL, "listen takes a pid and an fd");
		return GOES;
	}
	if (answer(g->fd, "{}", NULL) < 0)
		return GOES;
	cleanup_close(&g->fd);
	*g = (struct lobby_guest){ .fd = take_fd(&listener_fd),
				   .is_listener = true };
	return STAYS;
}

static enum stay look_at(struct lobby_guest *g, short revents)
{
	char got[FRAME_MAX];
	ssize_t n;

	/* Without anything to say: nobody is left to be heard of. */
	if (g->is_listener)
		return revents & POLLIN ? NEEDS_SUPERVISOR : GOES;
	n = recv(g->fd, got, sizeof(got), MSG_PEEK | MSG_DONTWAIT);
	if (n <= 0)
		return GOES;
	/* Who is refused here may have something to prove to the server. */
	if (!is_listen(got, (size_t)n) || peer_check(g->fd, NULL) < 0)
		return NEEDS_SUPERVISOR;
	return take_listener(g);
}

bool lobby_look(struct lobby *l, const struct pollfd *p)
{
	bool needed = false;

	/* From the end: the last one takes the place of who goes. */
	for (size_t i = l->n; i-- > 0;) {
		enum stay s = p[i].revents
				      ? look_at(&l->guests[i], p[i].revents)
				      : STAYS;

		if (s == GOES)
			remove_guest(l, i);
		needed |= s == NEEDS_SUPERVISOR;
	}
	return needed;
}

bool lobby_has_clients(const struct lobby *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (!l->guests[i].is_listener)
			return true;
	return false;
}

int lobby_leave(struct lobby *l, struct create *c, struct error *err)
{
	int r = 0;

	while (r == 0 && l->n) {
		struct lobby_guest *g = &l->guests[--l->n];

		if (g->is_listener)
			r = serve_listener(c, take_fd(&g->fd), err);
		else
			serve_client(c, take_fd(&g->fd));
	}
	return r;
}

void lobby_done(struct lobby *l)
{
	while (l->n)
		remove_guest(l, l->n - 1);
}
