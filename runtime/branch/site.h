/*
 * The trees that a commit works on, opened so that one rename can cross them:
 * the lower, the branch's upper, and the stage, a private directory on the
 * same mount that holds what was displaced and what was made beforehand.
 *
 * The stage is <branch>/trash, or <lower>/.sandlock-<name> where upper and
 * lower are not on one file system.
 */
#ifndef SANDLOCK_BRANCH_SITE_H
#define SANDLOCK_BRANCH_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct branch;
struct error;
struct plan;

struct site {
	struct branch *branch; /* borrowed */
	const char *prefix;
	int view_fd; /* the lower as the host sees it, with what is mounted */
	int lower_fd, upper_fd; /* directories; renames cross these */
	int dir_fd;		/* the branch's directory, by the same mount */
	int trash_fd;		/* <branch>/trash; -1 until there is a stage */
	int stage_fd;		/* likewise; the same directory unless staged */
	int lock_fd;		/* holds the flock on the lower's root */
	bool staged;		/* renames from upper to lower are impossible */
};
#define SITE_INIT                                                            \
	{                                                                    \
		.view_fd = -1, .lower_fd = -1, .upper_fd = -1, .dir_fd = -1, \
		.trash_fd = -1, .stage_fd = -1, .lock_fd = -1                \
	}

/* ERR_STATE unless both trees are there and no commit is under way. */
int site_check(const struct branch *b, struct error *err);

/* Locks the lower's root (ERR_LOCKED after @timeout_ms) and opens the trees. */
int site_open(struct site *s, struct branch *b, int timeout_ms,
	      struct error *err);
void site_done(struct site *s);

/*
 * Makes it, and tells before the first write where the file system cannot do
 * what a commit needs. There is none yet: site_discard_stage.
 */
int site_make_stage(struct site *s, struct error *err);
/* The one that goes with an intent. */
int site_find_stage(struct site *s, struct error *err);
/*
 * Forgets what was displaced, or what an interrupted commit left: the trash is
 * removed later, by a detached child, a stage beside the lower at once.
 */
int site_discard_stage(struct site *s, struct branch *b, struct error *err);
/* The same beside the lower alone, without a site. */
bool site_has_lower_stage(const struct branch *b);
int site_clear_lower(struct branch *b, struct error *err);

/* Everything that was written through the site is on disk, afterwards. */
int site_sync(const struct site *s, const struct plan *p, struct error *err);

/*
 * Opens directories of a plan, one after the other, in one of the trees.
 * Consecutive ones that are near cost one open each.
 */
enum { CURSOR_KEPT = 32 };
struct cursor {
	const struct plan *plan;
	int root_fd;
	bool hostile; /* the lower: nothing may lead us elsewhere */
	struct {
		uint32_t dir;
		int fd;
	} kept[CURSOR_KEPT]; /* outermost first */
	unsigned int n_kept;
	uint32_t *climb;
	size_t cap_climb;
};
void cursor_init(struct cursor *c, const struct plan *p, int root_fd,
		 bool hostile);
void cursor_done(struct cursor *c);
/*
 * The fd is the cursor's, until the next call. Negative errno: -ENOENT,
 * -ELOOP, -EXDEV as from openat2(2), -ESTALE if it is another directory than
 * the plan saw.
 */
int cursor_open(struct cursor *c, uint32_t dir, int *ret_fd);

#endif
