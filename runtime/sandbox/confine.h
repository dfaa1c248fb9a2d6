/*
 * confine.c: Landlock for a sandbox that has a mount namespace of its own: the
 * rules mirror the mounts, so that a mount that could be talked out of being
 * read-only would still not be written to. confine_thread.c: a thread of
 * whoever calls, without a sandbox.
 */
#ifndef SANDLOCK_SANDBOX_CONFINE_H
#define SANDLOCK_SANDBOX_CONFINE_H

#include <stddef.h>

struct error;
struct log_sink;
struct plan_path;
struct request;
struct spec;
struct spec_strings;

/*
 * Restricts the calling process, which is in the sandbox's root and has
 * no_new_privs. @workdirs may be written to whatever the mounts say; or NULL.
 */
int confine_landlock(const struct spec *s, const struct spec_strings *workdirs,
		     struct error *err);

/* Tier C: no mounts, but rules for paths of the host. */
int confine_paths(const struct spec *s, const struct plan_path *paths, size_t n,
		  struct error *err);

/*
 * Confines the calling thread, and what it forks, for good: files by Landlock,
 * system calls by a filter, no sockets but AF_UNIX. ERR_UNSUPPORTED for a key
 * that takes more than that; then nothing was done.
 */
int confine_thread(const struct request *r, const struct log_sink *log,
		   struct error *err);

#endif
