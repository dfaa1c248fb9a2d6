/*
 * What the host has at the places of what a sandbox writes, noted while it
 * runs: nothing in upper tells that. An overlay of an ordinary user does not
 * say what it has copied up from where, and what was put in the place of
 * something is as if that had never been. So when something appears in upper we
 * look what the lower has there, and later know by the notes (origin.h) what
 * was another object, or is gone:
 *
 *	branch_watch_open -> branch_watch_scan
 *	-> whenever branch_watch_fd is readable, or there was more to do:
 *	   branch_watch_read
 *	-> the sandbox has ended: branch_watch_read, branch_watch_free
 *
 * It comes a moment after the fact, and is best effort: where there is no watch
 * to be had, settling notes what the lower has by then. Other threads may use
 * the branch meanwhile.
 */
#ifndef SANDLOCK_BRANCH_WATCH_H
#define SANDLOCK_BRANCH_WATCH_H

#include <stdbool.h>

#include "base/cleanup.h"

struct branch;
struct branch_watch;

/* The last inotify descriptor of a group takes milliseconds to go: who runs for
 * less needs none. */
enum { BRANCH_WATCH_AFTER_MS = 50 };

/* Of all roots; keeps nothing of @b. NULL: without. */
struct branch_watch *branch_watch_open(struct branch *b);
void branch_watch_free(struct branch_watch *w);
CLEANUP_PTR(struct branch_watch, branch_watch_free);
int branch_watch_fd(const struct branch_watch *w);
/* What is there already is to be read, too. */
void branch_watch_scan(struct branch_watch *w);
/*
 * What came since; does not wait. Who writes can make more of it than anybody
 * reads, so it returns after some milliseconds: true if there is more to do.
 */
bool branch_watch_read(struct branch_watch *w);

#endif
