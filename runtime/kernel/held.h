/*
 * Files that were deleted and that processes still have open: no tree shows
 * them, but they take their space until the last one closes them.
 */
#ifndef SANDLOCK_KERNEL_HELD_H
#define SANDLOCK_KERNEL_HELD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* More are not told apart: the rest is not counted. */
enum { HELD_MAX = 64 * 1024 };

/*
 * Bytes of all regular files without a name that @pids have open, each file
 * once: those that were below one of @dirs, which ends with NULL, or if that is
 * NULL on any overlay but that of our own root. What we have open ourselves as
 * one of 0 to 2 was there before.
 * Processes that we may not look at, or that are gone, have none. Thread-safe.
 */
uint64_t held_bytes(const pid_t *pids, size_t n, const char *const *dirs);

#endif
