/*
 * The words that a caller passes to execve: argv and envp, and where in its
 * memory they lie.
 */
#ifndef SANDLOCK_SUPERVISE_WORDS_H
#define SANDLOCK_SUPERVISE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct call;

/* Pieces of memory; more than are kept is -E2BIG. */
struct ranges {
	struct range {
		uint64_t addr, len;
	} * v;
	size_t n;
};

void ranges_done(struct ranges *r);
int ranges_add(struct ranges *r, uint64_t addr, uint64_t len);

enum { WORDS_MAX_BYTES = 1024 * 1024, WORDS_MAX = 32 * 1024 };

/*
 * Appends the words of the array at @addr (0: none), each with its NUL, to
 * @words (NULL: they are only measured) and their places to @places (or NULL).
 * -E2BIG where they are more than WORDS_MAX, or than WORDS_MAX_BYTES; -EFAULT,
 * -ESRCH.
 */
int words_read(struct call *c, uint64_t addr, struct buf *words,
	       struct ranges *places);

/*
 * Whether somebody who is not stopped could change them: 0 if all @places lie
 * in private or read-only mappings and the process does no asynchronous I/O,
 * else -EPERM; a negative errno where that cannot be told.
 */
int words_are_private(struct call *c, const struct ranges *places);

#endif
