/* The part of a branch that a person asked for: some paths, or all. */
#ifndef SANDLOCK_BRANCH_SELECT_H
#define SANDLOCK_BRANCH_SELECT_H

#include <stdbool.h>
#include <stddef.h>

struct branch;
struct error;

struct selection {
	char **paths; /* relative, normalised */
	size_t n;     /* 0: everything */
};

/*
 * Paths are relative to the lower, or absolute below it; "/x" that does not
 * lie below the lower's own path is taken as relative to its root, as a
 * container sees it. What is named twice, or lies below another, is there
 * once. ERR_USAGE for an empty one.
 */
int selection_init(struct selection *s, const struct branch *b,
		   const char *const *paths, size_t n, struct error *err);
void selection_done(struct selection *s);

/* Is @path one of them, or below one? */
bool selection_has(const struct selection *s, const char *path);
/* Is one of them below @path? */
bool selection_leads(const struct selection *s, const char *path);

/* ERR_NOT_FOUND for the first path that upper has nothing at. */
int selection_check(const struct selection *s, const char *branch, int upper_fd,
		    struct error *err);
/* The error for that. */
int selection_say_unchanged(const char *branch, const char *path,
			    struct error *err);

#endif
