/*
 * The calls of one run that handlers answer: the embedder's end of
 * sandbox/calllink.h.
 *
 *	calls_new -> calls_serve, on a thread of its own, until the supervisor
 *	closes its end and no handler runs -> calls_put
 *
 * Handlers run on that thread and on others, which are made as they are needed:
 * who gets a call sees to it that somebody waits for the next one. A call that
 * is answered later holds a reference: it may outlive the run, and then is
 * cancelled.
 */
#ifndef SANDLOCK_EMBED_CALLS_H
#define SANDLOCK_EMBED_CALLS_H

#include "sandlock.h"

struct calls;

/* @sock and the rows are borrowed until calls_serve returns. NULL on ENOMEM. */
struct calls *calls_new(int sock, const struct sandlock_handler *rows,
			size_t n_rows, unsigned int max_threads);
/* @s is what they are called for, see handle_calls_back; may be NULL. */
void calls_serve(struct calls *l, const struct sandlock_sandbox *s);
void calls_put(struct calls *l);

#endif
