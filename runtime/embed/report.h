/*
 * What a run changed, on its way from the supervisor to the embedder: records
 * in messages on one side, the public array on the other.
 */
#ifndef SANDLOCK_EMBED_REPORT_H
#define SANDLOCK_EMBED_REPORT_H

#include "base/buf.h"
#include "base/error.h"
#include "embed/channel.h"

struct branch;

/*
 * Appends the records of all changes of @b, digests included. On failure what
 * was found so far is there, and @err says why it is not all.
 */
int report_collect(struct branch *b, struct buf *records, struct error *err);
/* Sends them as CHANNEL_CHANGES. */
int report_send(int sock, const struct buf *records);

/* A directory that is worked in, and where what was changed in it is. */
struct root {
	char *lower, *upper;
};

/*
 * Appends the records of a message to the changes of @r. The supervisor is
 * ours, but a record that is cut is -EPROTO.
 */
int report_add(struct sandlock_report *r, const struct root *roots,
	       size_t n_roots, const char *data, size_t len);
/* Frees what it points to. */
void report_clear(struct sandlock_report *r);

#endif
