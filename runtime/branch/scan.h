/* The quick look at upper when a sandbox has ended; private to branch/. */
#ifndef SANDLOCK_BRANCH_SCAN_H
#define SANDLOCK_BRANCH_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct branch;

enum { SCAN_MAX = 256, SCAN_MAX_DEPTH = 64 };

struct scan {
	size_t n_changed; /* objects that are not what the runtime made */
	bool over;	  /* more than fits: n_changed is a lower bound */
	/* To be synced: changed files, and all directories. */
	int files[SCAN_MAX], dirs[SCAN_MAX];
	size_t n_files, n_dirs;
};

/* -EACCES where it takes root of the branch's user namespace. */
int scan_upper(const struct branch *b, struct scan *s);
void scan_done(struct scan *s);

#endif
