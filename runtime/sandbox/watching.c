#include "sandbox/watching.h"

#include <errno.h>
#include <poll.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quiet_thread.h"
#include "branch/watch.h"

/* What was made may be more than anybody wants to wait for. */
enum { LAST_MS = 500 };

void watching_plan(struct watching *w)
{
	w->due_ms = clock_now_ms() + BRANCH_WATCH_AFTER_MS;
}

int watching_ms(const struct watching *w)
{
	int64_t left = w->due_ms - clock_now_ms();

	if (w->is_behind)
		return 0;
	if (!w->due_ms)
		return -1;
	return left < 0 ? 0 : (int)left;
}

bool watching_is_due(const struct watching *w)
{
	return w->due_ms && w->due_ms <= clock_now_ms();
}

void watching_begin(struct watching *w, struct branch *b)
{
	w->due_ms = 0;
	w->watch = b ? branch_watch_open(b) : NULL;
	w->is_behind = w->watch;
	if (w->watch)
		branch_watch_scan(w->watch);
}

static void *watch(void *data)
{
	struct watching *w = data;
	struct pollfd p[] = {
		{ .fd = w->pidfd, .events = POLLIN },
		{ .fd = branch_watch_fd(w->watch), .events = POLLIN },
	};
	bool is_behind = true;

	branch_watch_scan(w->watch);
	while (!p[0].revents &&
	       (poll(p, ARRAY_LEN(p), is_behind ? 0 : -1) >= 0 ||
		errno == EINTR))
		is_behind = branch_watch_read(w->watch);
	return NULL;
}

void watching_begin_thread(struct watching *w, struct branch *b, int pidfd)
{
	w->pidfd = pidfd;
	w->watch = b ? branch_watch_open(b) : NULL;
	w->has_thread =
		w->watch && quiet_thread_make(&w->thread, watch, w) == 0;
}

int watching_fd(const struct watching *w)
{
	return w->watch && !w->has_thread ? branch_watch_fd(w->watch) : -1;
}

void watching_read(struct watching *w, bool is_readable)
{
	if (is_readable || w->is_behind)
		w->is_behind = branch_watch_read(w->watch);
}

void watching_end(struct watching *w)
{
	int64_t end_ms = clock_now_ms() + LAST_MS;

	if (w->has_thread)
		(void)pthread_join(w->thread, NULL);
	while (w->watch && branch_watch_read(w->watch) &&
	       clock_now_ms() < end_ms)
		;
	w->has_thread = false;
	w->is_behind = false;
	branch_watch_free(take_ptr(&w->watch));
}
