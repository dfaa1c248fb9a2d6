#include "sandbox/watching.h"

#include <errno.h>
#include <poll.h>

#include "base/cleanup.h"
#include "base/quiet_thread.h"
#include "branch/watch.h"

static void *watch(void *data)
{
	struct watching *w = data;
	struct pollfd p[] = {
		{ .fd = w->pidfd, .events = POLLIN },
		{ .fd = branch_watch_fd(w->watch), .events = POLLIN },
	};

	branch_watch_scan(w->watch);
	while (!p[0].revents &&
	       (poll(p, ARRAY_LEN(p), -1) >= 0 || errno == EINTR))
		branch_watch_read(w->watch);
	return NULL;
}

void watching_begin(struct watching *w, struct branch *b, int pidfd)
{
	if (w->begun)
		return;
	w->begun = true;
	w->pidfd = pidfd;
	w->watch = b ? branch_watch_open(b) : NULL;
	w->has_thread =
		w->watch && quiet_thread_make(&w->thread, watch, w) == 0;
}

void watching_end(struct watching *w)
{
	if (w->has_thread)
		(void)pthread_join(w->thread, NULL);
	w->has_thread = false;
	branch_watch_free(take_ptr(&w->watch));
}
