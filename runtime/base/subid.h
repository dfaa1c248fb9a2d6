/* The subordinate ids that /etc/subuid and /etc/subgid grant to the caller. */
#ifndef SANDLOCK_BASE_SUBID_H
#define SANDLOCK_BASE_SUBID_H

#include <stdbool.h>
#include <stddef.h>

#include "base/idmap.h"

struct error;

/*
 * The maps an ordinary user gets by default: inside 0 is the caller, inside
 * 1.. are the caller's ranges of /etc/subuid and /etc/subgid, if there are any
 * and newuidmap(1) and newgidmap(1) are installed to use them.
 */
int subid_default_maps(struct idmap *ret, struct error *err);

#endif
