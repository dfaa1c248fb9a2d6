/*
 * OCI lifecycle hooks (runtime-spec config.md "POSIX-platform Hooks"): run in
 * order, the state on standard input. An "env" that is empty is empty.
 * Standard output is discarded; the tail of standard error goes into the
 * message. A hook that outlives its timeout is killed (with its process
 * group) and counts as failed, and so is one during which a signal comes that
 * interrupts what we do (kernel/interrupt.h). A hook that does not read its
 * input is no failure (SIGPIPE is blocked for the write).
 */
#ifndef SANDLOCK_HOOKS_H
#define SANDLOCK_HOOKS_H

#include <stddef.h>

#include "spec/spec.h"

struct error;
struct interrupt;
struct log_sink;

struct hook_context {
	const char *state; /* state JSON for standard input */
	size_t state_len;
	const char *cwd; /* NULL: unchanged */
	/* What hooks without "env" get; NULL: our own, as runc has it. */
	char *const *envp;
	/* What ends a hook that is waited for; or NULL. */
	struct interrupt *interrupt;
	const struct log_sink *log;
};

/*
 * Runs all hooks of a point. The first that fails ends the series: ERR_HOOK
 * with "error running createRuntime hook #1: …" (engines match the text).
 * For poststop every hook runs and failures are only warned about: returns 0.
 */
int hooks_run(const struct spec_hooks *hooks, enum spec_hook_point point,
	      const struct hook_context *ctx, struct error *err);

#endif
