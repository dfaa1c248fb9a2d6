/*
 * A branch without an overlay mount: system calls that name something in its
 * directory are answered from the merged view (branch/merged.h).
 *
 * The payload has the lower directory where it always was, and Landlock lets
 * it read and execute there and in upper, and write to neither. So what the
 * kernel finds by itself is at worst out of date; whatever changes something
 * is done here, on behalf of the caller, and files that are opened for writing
 * are upper's and passed on by ADDFD. Where the kernel finds the same as we
 * would, it goes on with the call.
 *
 * Working directories and directory fds are real ones: of the lower, where the
 * lower has a part in the directory, else of upper. Both stand for the path in
 * the branch. chdir to a directory, and exec of a file, that only upper has
 * are carried out by the caller itself, see redirect.h.
 *
 * Every call in a branch's directory that cannot be answered fails with
 * EOPNOTSUPP.
 *
 * What is denied in a lower has no Landlock rule, so that the kernel opens it
 * under no name, and here it is EACCES for whatever does more than look at it.
 * It stays where it is: what it lies in cannot be moved. Landlock rules are
 * for what lay beside it in the beginning; what comes to lie there, and the
 * directories that hold it, are opened here.
 */
#ifndef SANDLOCK_SANDBOX_COW_H
#define SANDLOCK_SANDBOX_COW_H

#include <stddef.h>

#include "base/cleanup.h"
#include "supervise/handler.h"

struct merged;
struct object_finder;

struct cow_root {
	const char *lower, *upper; /* real paths; borrowed */
	/* Uppers of earlier stages, the newest first; as in @merged. */
	const char *const *layers;
	size_t n_layers;
	struct merged *merged; /* borrowed */
};

struct cow;

/* @roots is copied. For a process with one thread. NULL on ENOMEM. */
struct cow *cow_new(const struct cow_root *roots, size_t n);
void cow_free(struct cow *w);
CLEANUP_PTR(struct cow, cow_free);

/* Told what was denied: @code in the kernel's words, @call, and the path. */
typedef void cow_denied_fn(const void *data, struct call *c, const char *code,
			   const char *call, const char *path);

/* Real paths, borrowed; of those in no lower Landlock has no rule. -ENOMEM. */
int cow_deny(struct cow *w, const char *const *paths, size_t n,
	     cow_denied_fn *tell, const void *data);

/* How those that ask find what they ask about; borrowed from @w. */
const struct object_finder *cow_finder(struct cow *w);

enum { COW_ROWS = 96 };

/* Writes the rows, and returns how many this architecture has. */
size_t cow_rows(struct cow *w, struct handler ret[COW_ROWS]);

#endif
