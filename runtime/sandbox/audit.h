/*
 * Who answered what: one JSON object a line, appended to approvals.jsonl in the
 * default store, for as long as somebody keeps the file.
 */
#ifndef SANDLOCK_SANDBOX_AUDIT_H
#define SANDLOCK_SANDBOX_AUDIT_H

#include "supervise/approvals.h"

struct audit;
struct create;
struct error;

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
