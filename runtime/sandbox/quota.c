#include "sandbox/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/quiet_thread.h"
#include "branch/branch.h"
#include "branch/usage.h"
#include "kernel/held.h"
#include "kernel/pidfd.h"
#include "sandbox/state.h"
#include "supervise/denials.h"

#define MS UINT64_C(1000000)

enum {
	TICK_MS = 10, /* while space is taken */
	IDLE_TICK_MS = 50,
	SHARE = 20,	  /* of a processor, without a reason to hurry */
	HURRY_SHARE = 8,  /* where half of what was left may be gone, */
	URGENT_SHARE = 2, /* or all of it */
	PERIOD_MIN_MS = 50,
	PERIOD_MAX_MS = 1000, /* grows to this while nothing happens */
	FAILURES_MAX = 20,
};

/* What the last look has found. */
struct looked {
	uint64_t used, free_space, took_ns, at_ns;
	uint64_t period_ns; /* until the next, without a reason */
	/* The last that nothing kept out of anything; 0: none did. */
	uint64_t seen_used, seen_free;
	unsigned int failures;
};

static uint64_t free_space(const struct quota *q)
{
	return branch_free_space(q->options.branch, q->scratch_fd);
}

static uint64_t held(const struct quota *q)
{
	const struct sandbox_state *s = q->options.state;
	auto_free pid_t *pids = NULL;
	struct branch *b = q->options.branch;
	auto_free const char **dirs =
		calloc(branch_n_roots(b) + 2, sizeof(*dirs));
	size_t n, n_dirs = 0;

	if (!dirs || state_pids(s, &pids, &n, NULL) < 0)
		return 0;
	/* Without an overlay they are files of upper themselves. */
	if (s->scratch)
		dirs[n_dirs++] = s->scratch;
	for (size_t i = 0; i < branch_n_roots(b); i++)
		dirs[n_dirs++] = branch_dir(branch_root(b, i));
	return held_bytes(pids, n, s->notify ? dirs : NULL);
}

/*
 * Without a user namespace (tier C) nobody but root sees what a mode keeps its
 * owner out of. What the file system has lost since we saw all is taken to be
 * there.
 */
static uint64_t guess_hidden(struct looked *l, const struct usage *u)
{
	uint64_t guess;

	if (!u->is_shut || !l->seen_free) {
		l->seen_used = u->bytes;
		l->seen_free = l->free_space;
		return u->bytes;
	}
	guess = l->seen_used;
	if (l->seen_free > l->free_space)
		guess += l->seen_free - l->free_space;
	return guess > u->bytes ? guess : u->bytes;
}

static int count(const struct quota *q, bool is_alive, struct looked *l,
		 uint64_t *ret)
{
	uint64_t limit = q->options.bytes;
	struct usage u;
	int r = branch_usage(q->options.branch, limit, &u, NULL);

	if (r == 0 && q->scratch_fd >= 0 && u.bytes <= limit)
		r = usage_add(q->scratch_fd, limit, &u);
	if (r == 0 && is_alive && u.bytes <= limit)
		u.bytes += held(q);
	if (r == 0)
		*ret = guess_hidden(l, &u);
	return r;
}

/*
 * False: it is too much. What cannot be counted for long, or is made so that it
 * cannot be counted, is too much.
 */
static bool look(struct quota *q, bool is_alive, struct looked *l)
{
	uint64_t begin = clock_now_ns(), was_free = l->free_space, used = 0;
	uint64_t period, least = PERIOD_MIN_MS * MS;
	int r;

	l->free_space = free_space(q);
	r = count(q, is_alive, l, &used);
	l->at_ns = clock_now_ns();
	l->took_ns = l->at_ns - begin;
	l->failures = r < 0 ? l->failures + 1 : 0;
	if (used > q->options.bytes || r == -E2BIG ||
	    l->failures > FAILURES_MAX) {
		q->used = used;
		q->is_exceeded = true;
		return false;
	}
	if (least < l->took_ns * SHARE)
		least = l->took_ns * SHARE;
	period = l->period_ns * 2;
	if (r < 0 || used != l->used || l->free_space != was_free)
		period = least;
	if (period > PERIOD_MAX_MS * MS)
		period = PERIOD_MAX_MS * MS;
	l->period_ns = period > least ? period : least;
	if (r == 0)
		l->used = used;
	return true;
}

/*
 * The others on the file system take and give space, too: so that less is free
 * is a reason to look soon, and that it is not no reason not to look at all.
 */
static bool is_due(const struct quota *q, const struct looked *l,
		   uint64_t is_free)
{
	uint64_t passed = clock_now_ns() - l->at_ns;
	uint64_t left = q->options.bytes - l->used;
	uint64_t taken = l->free_space > is_free ? l->free_space - is_free : 0;

	if (passed >= l->period_ns)
		return true;
	if (!taken || taken < left / 2)
		return false;
	return passed >=
	       l->took_ns * (taken >= left ? URGENT_SHARE : HURRY_SHARE);
}

/* After it nobody looks again: what fails is tried as often as before. */
static void look_last(struct quota *q, struct looked *l)
{
	l->failures = 0;
	while (look(q, false, l) && l->failures > 0)
		(void)poll(NULL, 0, TICK_MS);
}

static void *watch(void *data)
{
	struct quota *q = data;
	struct pollfd p = { .fd = q->options.pidfd, .events = POLLIN };
	struct looked l = { .used = 0 };
	uint64_t was_free = 0;

	while (look(q, true, &l)) {
		uint64_t is_free = l.free_space;

		do {
			int ms = is_free == was_free ? IDLE_TICK_MS : TICK_MS;

			was_free = is_free;
			(void)poll(&p, 1, ms);
			is_free = free_space(q);
		} while (!p.revents && !is_due(q, &l, is_free));
		if (p.revents) {
			look_last(q, &l);
			return NULL;
		}
	}
	q->options.end(q->options.data);
	return NULL;
}

int quota_begin(struct quota *q, const struct quota_options *o,
		struct error *err)
{
	const char *scratch = o->state->scratch;
	int r;

	if (!o->bytes)
		return 0;
	*q = (struct quota){ .options = *o, .scratch_fd = -1 };
	if (scratch)
		q->scratch_fd = open(scratch, O_RDONLY | O_DIRECTORY |
						      O_NOFOLLOW | O_CLOEXEC);
	r = scratch && q->scratch_fd < 0
		    ? -errno
		    : quiet_thread_make(&q->thread, watch, q);
	q->has_thread = r == 0;
	if (r < 0) {
		cleanup_close(&q->scratch_fd);
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot watch how large branch '%s' is",
				 branch_name(o->branch));
	}
	return 0;
}

void quota_end(struct quota *q, struct exit_status *status)
{
	if (!q->has_thread)
		return;
	(void)pthread_join(q->thread, NULL);
	q->has_thread = false;
	cleanup_close(&q->scratch_fd);
	if (q->is_exceeded &&
	    (status->kind == EXIT_CODE || status->kind == EXIT_SIGNAL))
		*status = (struct exit_status){ EXIT_QUOTA, SIGKILL };
}

void quota_add_denial(const struct quota *q, bool host, struct denials *d)
{
	struct denial_of_limit x;

	if (!q->is_exceeded)
		return;
	denial_of_disk(&x, q->options.bytes);
	if (!host) {
		x.what.remedy = NULL;
		(void)snprintf(x.rule, sizeof(x.rule),
			       "io.sandlock.branch.quota %" PRIu64,
			       q->options.bytes);
	}
	denials_add(d, 0, &x.what);
}

int quota_check(struct branch *b, uint64_t bytes, struct error *err)
{
	struct usage u;
	int r = bytes ? branch_usage(b, bytes, &u, err) : 0;

	if (!bytes || r < 0 || u.bytes <= bytes)
		return r;
	(void)error_say(err, ERR_STATE, EDQUOT,
			"branch '%s' holds more already than its quota of "
			"%" PRIu64 " bytes",
			branch_name(b), bytes);
	return error_hint(err, "raise the quota");
}
