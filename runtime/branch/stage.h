/*
 * What has to be made before a commit can be written down: directories above
 * a part that was asked for, and, where upper and lower are not on one file
 * system, a copy of everything, beside the lower.
 */
#ifndef SANDLOCK_BRANCH_STAGE_H
#define SANDLOCK_BRANCH_STAGE_H

struct error;
struct plan;
struct site;

/* Fills in the inode numbers of what it made. */
int plan_stage(struct plan *p, const struct site *s, struct error *err);

#endif
