/*
 * User namespaces: writing the maps of a new one, and entering one with given
 * maps to touch files that those ids own.
 */
#ifndef SANDLOCK_KERNEL_USERNS_H
#define SANDLOCK_KERNEL_USERNS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/idmap.h"

struct error;

/* The uid of the caller in the initial user namespace (/proc/self/uid_map). */
uid_t userns_initial_uid(void);

/* True in the initial user namespace, and in one that maps every id to itself.
 */
bool userns_is_initial(void);

/*
 * Writes the maps of @pid, which waits in a fresh user namespace. Directly
 * where the kernel allows it; else by newuidmap(1) and newgidmap(1), which are
 * run (both at once) only if more than the caller's own ids are asked for. A
 * single own gid without helper writes "deny" to setgroups. ERR_UNSUPPORTED
 * with a hint about /etc/subuid where the helpers refuse or are missing.
 */
int userns_write_maps(pid_t pid, const struct idmap *m, struct error *err);

/*
 * Moves the calling process, which must have one thread, into a new user
 * namespace with these maps and makes it root there (uid, gid 0 if mapped).
 * With @mounts also into a new mount namespace (private propagation). With an
 * empty map nothing happens to the user namespace.
 */
int userns_enter(const struct idmap *m, bool mounts, struct error *err);

#endif
