/*
 * Programs of the host that do for us what we may not or need not do:
 * newuidmap(1), busctl(1).
 *
 *	helper_find -> helper_start (of several, if need be) -> helper_wait
 *
 * They are found in the host's own directories only, get no input, a fixed
 * environment and no signal of ours blocked or ignored. What they say, on
 * either output, is for messages or to be parsed. They never outlive
 * helper_done. Not thread-safe: one owner.
 */
#ifndef SANDLOCK_BASE_HELPER_H
#define SANDLOCK_BASE_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

enum { HELPER_TEXT_MAX = 512, HELPER_PATH_MAX = 64 };

struct helper {
	pid_t pid;  /* 0: not started */
	int out_fd; /* its output */
};

#define HELPER_INIT          \
	{                    \
		.out_fd = -1 \
	}

/* Where the program @name is; false if it is not installed. */
bool helper_find(const char *name, char ret[HELPER_PATH_MAX]);
/* @words: the path and the arguments, each with its NUL. A negative errno. */
int helper_start(struct helper *h, const struct buf *words);
/*
 * What it said, on one line, cut to @size. 0: it ended well, 1: it did not,
 * -ETIMEDOUT where it says nothing for 30 s, or another negative errno.
 */
int helper_wait(struct helper *h, char *text, size_t size);
void helper_done(struct helper *h);

#endif
