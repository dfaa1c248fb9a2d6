/* Capabilities of the calling thread, capabilities(7). */
#ifndef SANDLOCK_KERNEL_CAPS_H
#define SANDLOCK_KERNEL_CAPS_H

#include <stdint.h>

#include "base/capset.h"

struct error;

/* The highest number this kernel knows; asked by prctl(2), needs no /proc. */
int caps_last(void);

/* Drops what is not in the bounding set. Needs CAP_SETPCAP. */
int caps_apply_bounding(const struct capset *c, struct error *err);
/*
 * Sets effective, permitted, inheritable and ambient. An ambient capability
 * that is not inheritable and permitted is dropped, as is any that the process
 * does not have.
 */
int caps_apply(const struct capset *c, struct error *err);

/* Of the calling thread: those of @caps that are permitted. */
int caps_set_effective(uint64_t caps);
/* The calling thread has entered a user namespace, and has others. */
void caps_forget(void);
int caps_get_effective(uint64_t *ret);
/*
 * All that root has, for a moment in which it does not act for anybody. For
 * others nothing changes.
 */
int caps_begin_all(uint64_t *ret_was);
void caps_end_all(uint64_t was);

#endif
