/* Asking the supervisors of sandboxes about them. */
#ifndef SANDLOCK_SANDBOX_INSPECT_H
#define SANDLOCK_SANDBOX_INSPECT_H

#include "sandbox/sandbox.h"

struct rundir;

/* Fills the ports of those of @v that remap some, all supervisors at once; NULL
 * where none answers. */
int inspect_ports(struct rundir *d, struct sandbox_info *v, size_t n);

#endif
