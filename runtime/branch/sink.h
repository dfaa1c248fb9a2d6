/*
 * Carries change records from the work, which may run in a child inside the
 * branch's user namespace, to the caller's function. Work gets a struct sink
 * and does not care:
 *
 *	sink_run(b, work, data, fn, fn_data, err)
 *		-> work(data, sink, err) -> sink_change(sink, c) -> fn(c)
 */
#ifndef SANDLOCK_BRANCH_SINK_H
#define SANDLOCK_BRANCH_SINK_H

#include <stddef.h>

#include "base/buf.h"
#include "branch/change.h"

struct branch;
struct error;

struct sink {
	change_fn *fn; /* in this process; NULL: nobody listens */
	void *data;
	int out_fd; /* to the parent, or -1 */
	struct buf out;
	void *result; /* copied back to the caller when the work ends */
	size_t result_size;
};

/* 0, or what @fn returned: then the work ends and returns it. */
int sink_change(struct sink *s, const struct change *c);

/* A record as bytes, and back: pointers in @ret point into @bytes. */
void change_pack(struct buf *b, const struct change *c);
int change_unpack(const char *bytes, size_t len, struct change *ret);

typedef int sink_work(void *data, struct sink *s, struct error *err);

/*
 * Runs @work where the ids of the branch can be acted for. @result (@size
 * bytes, may be NULL) belongs to the caller; work fills s->result.
 */
int sink_run(struct branch *b, sink_work *work, void *data, change_fn *fn,
	     void *fn_data, void *result, size_t size, struct error *err);

#endif
