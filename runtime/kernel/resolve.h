/*
 * Addresses of host names, as the system resolves them.
 *
 * The name service of libc cannot be had in a statically linked program, and
 * loads code into others: getent(1) asks it, in a process of its own.
 */
#ifndef SANDLOCK_KERNEL_RESOLVE_H
#define SANDLOCK_KERNEL_RESOLVE_H

#include <stddef.h>

#include "spec/net_rule.h"

struct error;

enum { RESOLVE_MAX = 64 }; /* addresses of one name; more are left out */

/*
 * All addresses of @name, each once; "localhost" without asking. ERR_USAGE that
 * names it where there are none, or nobody answered within 30 s.
 */
int resolve_host(const char *name, struct net_ip ret[RESOLVE_MAX],
		 size_t *ret_n, struct error *err);

/* 0, or a negative errno: getent cannot be executed. */
int resolve_check(void);

#endif
