/*
 * The processes of a pid namespace, for who looks from outside.
 *
 *	pidns_open -> pidns_list, as often as wanted, on any thread ->
 *pidns_free
 */
#ifndef SANDLOCK_KERNEL_PIDNS_H
#define SANDLOCK_KERNEL_PIDNS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct pidns;

/* That of process @member, and those below; @init is its pid 1, as we see it,
 * to be left out, or 0. 0 or a negative errno. */
int pidns_open(pid_t member, pid_t init, struct pidns **ret);
void pidns_free(struct pidns *p); /* NULL is allowed */
/* Is @pid in it, and not in one below? */
bool pidns_has(const struct pidns *p, pid_t pid);
CLEANUP_PTR(struct pidns, pidns_free);

/*
 * All of them, zombies too, with the numbers that they have for us; malloc'ed.
 * Of the sandbox's own procfs where there is one and the kernel translates
 * numbers (6.11); else everybody on the host is looked at.
 */
int pidns_list(const struct pidns *p, pid_t **ret, size_t *ret_n);

#endif
