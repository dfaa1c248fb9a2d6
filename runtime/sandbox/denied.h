/*
 * What was refused to a sandbox, for other processes: from its supervisor
 * while it runs, afterwards from the log that is kept beside its branch for as
 * long as that is pending.
 */
#ifndef SANDLOCK_SANDBOX_DENIED_H
#define SANDLOCK_SANDBOX_DENIED_H

#include "supervise/denials.h"

struct create;
struct error;
struct sandbox_env;

/*
 * The payload is dead, its cgroup still there: adds what limits the kernel
 * kept, tells who asked for it and the sink of messages what
 * was refused, and writes the log beside a branch that is @pending.
 */
void denied_finish(struct create *c, bool pending);

/* The same of a pending @b that nothing else was on record of. */
struct branch;
struct quota;
void denied_keep_quota(const struct branch *b, const struct quota *q);

/* Calls @fn for each, oldest first. ERR_NOT_FOUND: no sandbox, no branch. */
int sandbox_denials(const struct sandbox_env *env, const char *name,
		    denial_fn *fn, void *data, struct error *err);
/*
 * Goes on with what is refused from now on, until the sandbox ends. A record
 * that was counted up comes again.
 */
int sandbox_watch_denials(const struct sandbox_env *env, const char *name,
			  denial_fn *fn, void *data, struct error *err);

#endif
