/*
 * What roots.c and roots_commit.c share.
 */
#ifndef SANDLOCK_BRANCH_ROOTS_H
#define SANDLOCK_BRANCH_ROOTS_H

#include <stdbool.h>
#include <stddef.h>

struct branch;
struct error;

/*
 * Of some paths those that belong to root @i: absolute ones below its lower
 * and below no deeper root's; the first root has the rest. @ret has room for
 * @n; returns how many.
 */
size_t roots_select(struct branch *b, size_t i, const char *const *paths,
		    size_t n, const char **ret);

/*
 * Returns @r. What is said of another root by its name is said of the whole:
 * no verb takes that name.
 */
int roots_said(const struct branch *b, int r, struct error *err);

/* Everything is settled, or a commit of before finished. */
int roots_make_ready(struct branch *b, bool force_torn, int timeout_ms,
		     bool *ret_gone, struct error *err);

/* Closes and forgets a root that exists no more. */
void roots_forget(struct branch *b, size_t i);

#endif
