#include "supervise/gate.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The exclusive side is held. Else @state counts the shared ones. */
#define GATE_EXCLUSIVE UINT_MAX

static int futex_wait(atomic_uint *word, unsigned int seen,
		      uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / 1000000000),
			       .tv_nsec = (long)(deadline_ns % 1000000000) };

	/* FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC. */
	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
		    seen, deadline_ns ? &ts : NULL, NULL,
		    FUTEX_BITSET_MATCH_ANY) < 0)
		return -errno;
	return 0;
}

static void futex_wake_all(atomic_uint *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX,
		      NULL, NULL, 0);
}

void gate_enter(struct gate *g)
{
	for (;;) {
		unsigned int seen = atomic_load(&g->waiting);

		if (seen) {
			(void)futex_wait(&g->waiting, seen, 0);
			continue;
		}
		seen = atomic_load(&g->state);
		if (seen == GATE_EXCLUSIVE) {
			(void)futex_wait(&g->state, seen, 0);
			continue;
		}
		if (atomic_compare_exchange_strong(&g->state, &seen, seen + 1))
			return;
	}
}

void gate_leave(struct gate *g)
{
	if (atomic_fetch_sub(&g->state, 1) == 1 && atomic_load(&g->waiting))
		futex_wake_all(&g->state);
}

/* One exec less waits; the last one lets the writes go on. */
static void stop_waiting(struct gate *g)
{
	if (atomic_fetch_sub(&g->waiting, 1) == 1)
		futex_wake_all(&g->waiting);
}

int gate_close(struct gate *g, uint64_t deadline_ns)
{
	int r = 0;

	atomic_fetch_add(&g->waiting, 1);
	while (r != -ETIMEDOUT) {
		unsigned int seen = 0;

		if (atomic_compare_exchange_strong(&g->state, &seen,
						   GATE_EXCLUSIVE)) {
			stop_waiting(g);
			return 0;
		}
		r = futex_wait(&g->state, seen, deadline_ns);
	}
	stop_waiting(g);
	return -ETIMEDOUT;
}

void gate_open(struct gate *g)
{
	atomic_store(&g->state, 0);
	futex_wake_all(&g->state);
}
