/* /proc/PID/mountinfo, line by line. */
#ifndef SANDLOCK_BRANCH_MOUNTINFO_H
#define SANDLOCK_BRANCH_MOUNTINFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct mountinfo {
	struct buf text; /* what the rest points into */
	char *next;
	uint64_t id;
	dev_t dev;
	const char *root;  /* of the mount, within its file system */
	const char *point; /* where it is mounted */
	const char *type;  /* of the file system */
	bool read_only;
};

/* @process: "self", or a pid. 0 or a negative errno. */
int mountinfo_open(struct mountinfo *m, const char *process);
/* 1 and the next mount, or 0 at the end; odd lines are passed over. */
int mountinfo_next(struct mountinfo *m);
void mountinfo_done(struct mountinfo *m);
/* Of ours; @dir is absolute and without links. True if that cannot be read. */
bool mountinfo_has_below(const char *dir);

#endif
