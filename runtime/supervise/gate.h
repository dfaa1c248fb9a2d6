/*
 * The exec gate: writes into a caller's memory against exec.
 *
 * Every write of ours (call_write) holds the shared side for the one write it
 * makes, microseconds. An exec that was decided on the contents of memory holds
 * the exclusive side from the moment the contents were verified until the
 * kernel has copied them. Writer-preferring: while an exec waits no new write
 * begins, else a loop of writes would starve it.
 *
 * A futex and two words: no owner, so the exclusive side may be released by
 * another thread than the one that took it.
 */
#ifndef SANDLOCK_SUPERVISE_GATE_H
#define SANDLOCK_SUPERVISE_GATE_H

#include <stdatomic.h>
#include <stdint.h>

struct gate {
	atomic_uint state;   /* writers of memory inside, or GATE_EXCLUSIVE */
	atomic_uint waiting; /* execs that want the exclusive side */
};

#define GATE_INIT \
	{         \
		0 \
	}

void gate_enter(struct gate *g); /* the shared side */
void gate_leave(struct gate *g);

/*
 * The exclusive side. 0, or -ETIMEDOUT at @deadline_ns (CLOCK_MONOTONIC,
 * 0: none): a write into memory whose page faults are served by a stranger
 * can take long.
 */
int gate_close(struct gate *g, uint64_t deadline_ns);
void gate_open(struct gate *g);

#endif
