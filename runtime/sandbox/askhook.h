/*
 * Questions to a program, --ask=/PATH: run once for each, with the question as
 * JSON on its standard input (what approval_to_json writes) and the name of the
 * sandbox as its argument. Exit status 0 allows; anything else, and a program
 * that cannot be run, denies. One after the other; others wait meanwhile, their
 * deadlines running. It is killed once its question is closed.
 */
#ifndef SANDLOCK_SANDBOX_ASKHOOK_H
#define SANDLOCK_SANDBOX_ASKHOOK_H

#include "base/cleanup.h"

struct approvals;
struct askhook;

/* Starts a thread. The strings are borrowed. NULL on ENOMEM. */
struct askhook *askhook_start(struct approvals *book, const char *program,
			      const char *sandbox);
/* Ends it; the book is closed by then. NULL is fine. */
void askhook_stop(struct askhook *h);

#endif
