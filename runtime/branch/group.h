/*
 * Files that only make sense together, known by their names: a git repository,
 * and a database with its journals. And files that point to others, which are
 * published last.
 */
#ifndef SANDLOCK_BRANCH_GROUP_H
#define SANDLOCK_BRANCH_GROUP_H

#include <stdbool.h>
#include <stddef.h>

struct plan;

/* Found by others: what lies in .git but its objects, lock files, journals. */
bool group_is_pointer(const char *path);

/* A lock file in a .git: its holder has died with the sandbox. */
bool group_is_stale_lock(const char *path);

/* A set of groups. */
struct groups {
	char **names; /* sorted, once groups_sort was called */
	size_t n;
};
void groups_done(struct groups *g);
/* 0 or -ENOMEM. */
int groups_add(struct groups *g, const char *path);
void groups_sort(struct groups *g);

/* Takes the ops on these groups out of the plan again. 0 or -ENOMEM. */
int group_leave_out(struct plan *p, const struct groups *g);

/* Puts a database into the class of its journals, so that nothing is between
 * them. 0 or -ENOMEM. */
int group_join_databases(struct plan *p);

#endif
