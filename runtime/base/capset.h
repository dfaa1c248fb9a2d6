/* Sets of capabilities as data, and their names. */
#ifndef SANDLOCK_BASE_CAPSET_H
#define SANDLOCK_BASE_CAPSET_H

#include <stdint.h>

/* One bit per capability number. */
struct capset {
	uint64_t bounding, effective, inheritable, permitted, ambient;
};

/* The number of "CAP_CHOWN" (any case, prefix needed), or -EINVAL. */
int capset_number(const char *name);
/* "CAP_CHOWN", or NULL. */
const char *capset_name(int number);

#endif
