/*
 * The ways `sandlock diff` shows changes. Each format is a callback that is
 * called once a change, in path order, and writes to standard output.
 */
#ifndef SANDLOCK_CMD_DIFF_H
#define SANDLOCK_CMD_DIFF_H

#include "cmd.h"

struct diff {
	struct ctx *ctx;
	const char *name; /* of the branch */
	bool colour, null, digest;
	bool shown; /* to somebody, who could be deceived */
	size_t n_changes, n_uncovered;
	/*
	 * What is to be printed behind the deletions and changes of type,
	 * which come first: a branch that removes things must say so on the
	 * first screen.
	 */
	struct buf rest;
	struct {
		size_t added, modified, meta, deleted, replaced, conflicts;
		uint64_t plus, minus;
	} sum;
	/* --summary: a directory that is new as a whole, until its end. */
	struct {
		struct buf path; /* with a slash; empty: none */
		struct buf line;
		char letter;
		size_t n; /* entries in it */
		uint64_t bytes;
	} whole;
	struct sandlock_error *err;
};

/* Callbacks for sandlock_diff; they return 0 or a negative errno. */
int diff_list(void *data, const struct sandlock_change *c);
int diff_summary(void *data, const struct sandlock_change *c);
int diff_name_status(void *data, const struct sandlock_change *c);
int diff_stat(void *data, const struct sandlock_change *c);
int diff_patch(void *data, const struct sandlock_change *c);
int diff_json(void *data, const struct sandlock_change *c);

/* After the last change; then the callback for sandlock_uncovered; the end. */
void diff_json_changes_end(const struct diff *d);
int diff_json_uncovered(void *data, const struct sandlock_change *c);
void diff_json_end(void);

/* "M etc/motd (+6 bytes)", without a newline. */
void diff_line(struct buf *b, const struct sandlock_change *c, bool colour);

/* "file", "dir", "symlink", "fifo", "socket", "chr", "blk" */
const char *diff_kind(mode_t mode);

/* pager.c: where standard output is a terminal it goes through a pager. */
void pager_start(void);
void pager_finish(void);

#endif
