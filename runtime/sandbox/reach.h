/*
 * Whether a path can be read and written in a sandbox, and why not: by looking
 * at it through the sandbox's root and from outside; in tier C, where the root
 * is the host's, by the rules that it has. Used for what somebody
 * asks (why.c) and what programs try (mediate_explain.c). Thread-safe.
 */
#ifndef SANDLOCK_SANDBOX_REACH_H
#define SANDLOCK_SANDBOX_REACH_H

#include <limits.h>
#include <stdbool.h>

struct plan;
struct request;
struct spec;

struct reach {
	const struct spec *spec;
	const struct request *request; /* NULL: a bundle */
	int root_fd;		       /* of the sandbox */
	const struct plan *plan;       /* of tier C, else NULL */
};

enum reach_verdict { REACH_ALLOWED, REACH_DENIED, REACH_UNKNOWN };

struct reach_answer {
	enum reach_verdict verdict;
	/* What a program gets where it is denied; 0: a file that is empty. */
	int error;
	bool ours; /* it is the sandbox that denies, not the host */
	char because[256];
	const char *where; /* file and line of the rule, or the option; NULL */
	char remedy[2 * PATH_MAX + 32]; /* an option of run, or "" */
};

/* @path is absolute. */
void reach_read(const struct reach *r, const char *path,
		struct reach_answer *ret);
void reach_write(const struct reach *r, const char *path,
		 struct reach_answer *ret);

/* True if a rule hides it, ours or the caller's: @ret says which. */
bool reach_hidden(const struct reach *r, const char *path, int error,
		  struct reach_answer *ret);
/* Of tier C. */
bool reach_in_branch(const struct plan *p, const char *path);

#endif
