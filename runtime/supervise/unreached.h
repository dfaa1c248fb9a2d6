/*
 * The record of what a sandbox without network wanted to reach. The kernel
 * refuses those connects by itself (ENETUNREACH): nothing is decided here, so
 * what is read of the caller's memory needs not be what the kernel reads.
 */
#ifndef SANDLOCK_SUPERVISE_UNREACHED_H
#define SANDLOCK_SUPERVISE_UNREACHED_H

#include "supervise/handler.h"

struct denials;

/* The row for connect; @d is borrowed. */
struct handler unreached_row(struct denials *d);

#endif
