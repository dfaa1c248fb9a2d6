/*
 * libsandlock: run a command or a bundle in a sandbox on a copy-on-write
 * branch, see what it changed, commit or abort.
 *
 * Functions return 0 or a negative errno and fill a struct sandlock_error (may
 * be NULL) that says what and what to do next. The library never prints, never
 * exits, installs no signal handlers and keeps no global state; functions on
 * different sandboxes or branches may run in different threads. The calling
 * process may be multi-threaded, except for sandlock_run (see there).
 *
 * Strings returned through ret_ arguments are the caller's, by free(3).
 */
#ifndef SANDLOCK_H
#define SANDLOCK_H

/* In the order to read them. */
/* clang-format off */
#include "sandlock/base.h"              /* errors, results */
#include "sandlock/request.h"           /* what a command may do */
#include "sandlock/sandbox.h"           /* runs it */
#include "sandlock/branch.h"            /* what it wrote */
#include "sandlock/policy.h"            /* callbacks that decide */
#include "sandlock/handlers.h"          /* callbacks that answer */
#include "sandlock/transaction.h"       /* several over one branch */
#include "sandlock/bundle.h"            /* OCI: create, start, run */
#include "sandlock/control.h"           /* what runs, by name */
#include "sandlock/check.h"             /* what works here */
#include "sandlock/program.h"           /* not for you */
/* clang-format on */

#endif
