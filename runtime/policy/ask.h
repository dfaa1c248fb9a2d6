/*
 * Rules that somebody has to be asked about: the section [ask] of a profile.
 * Pure; each function returns the rule that matches, borrowed, or NULL.
 *
 *	exec	"*", the name of a program ("git", "python3*"), a path or a
 *		pattern of paths ("/opt/x", "/usr/bin/ssh*"), a directory with
 *		all below it ("/work/bin/")
 *	open	a path, a pattern, or a directory with all below it
 *
 * What a script names as its interpreter is judged as a program is.
 * Patterns are those of glob(7); '*' does not match a '/'.
 */
#ifndef SANDLOCK_POLICY_ASK_H
#define SANDLOCK_POLICY_ASK_H

struct error;
struct spec_strings;

/*
 * @path as the caller wrote it, made absolute; @real is what it leads to, or
 * NULL. Both are looked at.
 */
const char *ask_match_exec(const struct spec_strings *rules, const char *path,
			   const char *real);
const char *ask_match_open(const struct spec_strings *rules, const char *path,
			   const char *real);

/* ERR_USAGE for a rule that can never match; @key goes into the message. */
int ask_check_paths(const struct spec_strings *rules, const char *key,
		    struct error *err);

#endif
