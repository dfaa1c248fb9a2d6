/* Time that never goes back. Pure but for that; thread-safe. */
#ifndef SANDLOCK_BASE_CLOCK_H
#define SANDLOCK_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, in ns: comparable between processes of one machine. */
uint64_t clock_now_ns(void);
/* The same in ms, for deadlines, what is left of which may be negative. */
int64_t clock_now_ms(void);

#endif
