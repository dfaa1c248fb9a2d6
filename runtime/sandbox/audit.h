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
/* An approvals_told_fn; its data is the struct audit. */
void audit_told(void *data, const struct approval_info *i);

#endif
