/*
 * Why something can or cannot be done in a sandbox that runs: a path by
 * looking at it from outside and through the sandbox's root, a system call by
 * the table that its filter was made from.
 */
#ifndef SANDLOCK_SANDBOX_WHY_H
#define SANDLOCK_SANDBOX_WHY_H

struct error;
struct sandbox_env;

enum why_verdict { WHY_ALLOWED, WHY_DENIED, WHY_UNKNOWN };

struct why_answer {
	const char *what; /* "read", "write", "call" */
	enum why_verdict verdict;
	const char *because;
	const char *remedy; /* an option of run, or NULL */
};
typedef int why_fn(void *data, const struct why_answer *a);

/*
 * Judges @word: an absolute path, or the name of a system call. ERR_STATE
 * where it does not run, ERR_USAGE for a word that is neither.
 */
int sandbox_why(const struct sandbox_env *env, const char *name,
		const char *word, why_fn *fn, void *data, struct error *err);

#endif
