/*
 * While a sandbox runs for more than a moment: what it writes is watched
 * (branch/watch.h) by whoever waits for its end, in his poll(2).
 *
 *	watching_plan -> poll with watching_fd and watching_ms
 *	-> watching_is_due: watching_begin
 *	-> after each poll: watching_read
 *	-> init has ended: watching_end
 *
 * All of it is best effort.
 */
#ifndef SANDLOCK_SANDBOX_WATCHING_H
#define SANDLOCK_SANDBOX_WATCHING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct branch;
struct branch_watch;

struct watching {
	struct branch_watch *watch;
	int64_t due_ms; /* when to begin, 0: never, or it has begun */
	pthread_t thread;
	bool has_thread;
	bool is_behind; /* there is more for watching_read, without a poll */
	int pidfd;
};

/* From now on a moment, then it is due. */
void watching_plan(struct watching *w);
/* Milliseconds until it is due, 0 when it is behind, or -1. */
int watching_ms(const struct watching *w);
bool watching_is_due(const struct watching *w);
/* Of @b, which may be NULL; keeps nothing of it. */
void watching_begin(struct watching *w, struct branch *b);
/* The same, now, in a thread: for who cannot wait for watching_fd. It ends by
 * itself when @pidfd has. */
void watching_begin_thread(struct watching *w, struct branch *b, int pidfd);
/* Readable when there is something for watching_read; or -1. */
int watching_fd(const struct watching *w);
/* After each poll: reads if that, or it was behind. */
void watching_read(struct watching *w, bool is_readable);
/* When init has ended, or dies. */
void watching_end(struct watching *w);

#endif
