/*
 * What a branch takes on disk: the blocks of all that is in its uppers, those
 * of earlier stages too. A file with several names counts once, a hole not at
 * all, and nothing that a link leads to.
 *
 * The trees are hostile, and may change meanwhile: directories are opened by
 * single components without following links, neither depth nor width meets a
 * limit but USAGE_PATHS_MAX, and a few dozen fds are open at a time. Copies
 * that an overlay is making count once they are whole.
 */
#ifndef SANDLOCK_BRANCH_USAGE_H
#define SANDLOCK_BRANCH_USAGE_H

#include <stdbool.h>
#include <stdint.h>

struct branch;
struct error;

enum {
	USAGE_OPEN_MAX = 32,	    /* directories, one in the other */
	USAGE_PATHS_MAX = 64 << 20, /* bytes: of those that lie deeper */
};

struct usage {
	uint64_t bytes;
	bool is_shut; /* there were directories that we may not look into */
};

/*
 * Adds what is in the directory @fd (O_PATH will do). Returns once it is more
 * than @limit. 0, -E2BIG beyond USAGE_PATHS_MAX, or another negative errno.
 * Thread-safe.
 */
int usage_add(int fd, uint64_t limit, struct usage *u);

/*
 * Of all roots of @b. What the modes of upper keep an ordinary user out of is
 * counted by root of the branch's user namespace, in a child, if that has one;
 * else it is left out, and ->is_shut says so. Does not change @b: other threads
 * may read it meanwhile.
 */
int branch_usage(struct branch *b, uint64_t limit, struct usage *ret,
		 struct error *err);
/*
 * Bytes that are free on the file systems that its roots and @more_fd, if it is
 * not -1, are on; each counts once. Cheap.
 */
uint64_t branch_free_space(struct branch *b, int more_fd);

#endif
