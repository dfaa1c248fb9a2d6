/*
 * The state of a container as JSON (runtime.md "State"): for `state`, for the
 * standard input of hooks, for a seccomp agent. Pure; thread-safe.
 */
#ifndef SANDLOCK_SPEC_STATE_H
#define SANDLOCK_SPEC_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;
struct spec_pair;

/* Everything is borrowed. A NULL member is left out. */
struct state_view {
	const char *oci_version; /* NULL: SPEC_OCI_VERSION */
	const char *id;
	pid_t pid;	    /* as the reader sees it; 0 where there is none */
	const char *status; /* "creating", "created", "running", "stopped" */
	const char *bundle;
	const char *rootfs;
	const char *created; /* RFC 3339 */
	const struct spec_pair *annotations;
	size_t n_annotations;
	const char *owner;
};

/*
 * Appends the object, with runc's order of keys and a newline at the end;
 * @pretty with two spaces of indentation. 0 or -ENOMEM.
 */
int state_json(const struct state_view *v, bool pretty, struct buf *ret);

/*
 * Appends the ContainerProcessState that goes with a seccomp listener to the
 * socket at listenerPath (config-linux.md "seccomp"). @pid: of the process
 * that has the filter; @metadata may be NULL. 0 or -ENOMEM.
 */
int state_seccomp_json(const struct state_view *v, pid_t pid,
		       const char *metadata, struct buf *ret);

#endif
