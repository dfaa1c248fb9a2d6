/*
 * OCI bundles: create, start, run. What exists is found by its name from then
 * on: control.h, and branch.h for what it wrote.
 */
#ifndef LIBSANDLOCK_BUNDLE_H
#define LIBSANDLOCK_BUNDLE_H

#include <stdbool.h>

#include "base.h"

SANDLOCK_BEGIN

struct sandlock_request; /* request.h */

enum sandlock_branch_choice {
	SANDLOCK_BRANCH_DEFAULT, /* a branch, unless the root is read-only */
	SANDLOCK_BRANCH_NONE,	 /* writes go to the root file system */
	SANDLOCK_BRANCH_ASKED,	 /* only if the bundle's annotations ask */
};

/* How a bundle is to be run. Zero-initialise, then set. */
struct sandlock_bundle {
	const char *name;   /* NULL: a name is made up */
	const char *bundle; /* directory; NULL: "." */
	const char *config; /* NULL: <bundle>/config.json */
	const char *console_socket;
	const char *pidfd_socket;
	const char *pid_file;
	bool no_pivot;
	bool no_new_keyring;
	unsigned int preserve_fds; /* 3 .. 2+n are kept open */
	bool disable_cgroups;	   /* --cgroup-manager=disabled */
	bool systemd_cgroup;	   /* --systemd-cgroup */
	enum sandlock_branch_choice branch;
	enum sandlock_disposition on_exit, on_error; /* start as UNSAID! */
	const char *storage;
	bool durable;
	/* Bytes that the branch may take on disk; 0: what annotations say. */
	uint64_t quota_bytes;
	/* run only */
	bool detach;
	bool keep; /* do not delete the container when it ends */
	/* Also of create. Nobody can ask what runs in it. */
	bool no_control_socket;
	/*
	 * Nobody is told of system calls, and nobody can ask either: renames
	 * of directories of the root file system are EXDEV in the branch.
	 */
	bool no_supervisor;
	/*
	 * Who is asked about its programs and files: the section ask of it,
	 * borrowed; all else in it is left alone. NULL: nobody. What is created
	 * or detached asks on its control socket, unless a program is named.
	 */
	const struct sandlock_request *request;
};
#define SANDLOCK_BUNDLE_INIT                                            \
	{                                                               \
		.on_exit = SANDLOCK_UNSAID, .on_error = SANDLOCK_UNSAID \
	}

/* create: everything but the start of the user's program. */
int sandlock_create(const struct sandlock_env *env,
		    const struct sandlock_bundle *b,
		    struct sandlock_error *err);
/* Lets a created sandbox's program run; returns when it has been executed. */
int sandlock_start(const struct sandlock_env *env, const char *name,
		   struct sandlock_error *err);
/*
 * create, start, wait, settle, delete. With detach it returns after the start.
 * Forwards signals to the program while it waits; must be called from a process
 * with one thread.
 */
int sandlock_run(const struct sandlock_env *env,
		 const struct sandlock_bundle *b, struct sandlock_result *ret,
		 struct sandlock_error *err);

SANDLOCK_END

#endif
