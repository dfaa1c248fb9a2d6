/*
 * Who answered what: one JSON object a line, appended to approvals.jsonl in the
 * default store, for as long as somebody keeps the file.
 *
 * What a person answered is always written. What a program answers, and what
 * expires, a sandbox can have as often as it likes, so:
 *
 *	the same again	is counted: a line when there are ten, a hundred, ...,
 *			and at the end, instead of one each
 *	AUDIT_BURST	bytes a sandbox may add at once, half of them for what
 *			was not denied, and AUDIT_HOURLY more in each hour
 *	what is left out	is counted, and that is a line in the same way
 */
#ifndef SANDLOCK_SANDBOX_AUDIT_H
#define SANDLOCK_SANDBOX_AUDIT_H

#include "supervise/approvals.h"

struct audit;
struct create;
struct error;

enum {
	AUDIT_BURST = 1024 * 1024,
	AUDIT_HOURLY = 64 * 1024,
	AUDIT_KINDS = 256, /* that are remembered to be counted */
};

/* Appends to @fd, which it takes; -1: nothing is kept. NULL on ENOMEM. */
struct log_sink;
struct audit *audit_new(const char *sandbox, int fd,
			const struct log_sink *log);

int audit_open(const struct create *c, struct audit **ret, struct error *err);
void audit_close(struct audit *a);
/*
 * From here on somebody calls audit_flush within milliseconds of every answer,
 * and lines are written together: where a program answers each of a hundred
 * thousand calls a write for each would be a good part of what a call takes.
 */
void audit_set_lazy(struct audit *a);
/* Any thread. */
void audit_flush(struct audit *a);
/* An approvals_told_fn; its data is the struct audit. */
void audit_told(void *data, const struct approval_info *i);

#endif
