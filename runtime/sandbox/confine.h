/*
 * Landlock for a sandbox that has a mount namespace of its own: the rules
 * mirror the mounts, so that a mount that could be talked out of being
 * read-only would still not be written to.
 */
#ifndef SANDLOCK_SANDBOX_CONFINE_H
#define SANDLOCK_SANDBOX_CONFINE_H

struct error;
struct spec;
struct spec_strings;

/*
 * Restricts the calling process, which is in the sandbox's root and has
 * no_new_privs. @workdirs may be written to whatever the mounts say; or NULL.
 */
int confine_landlock(const struct spec *s, const struct spec_strings *workdirs,
		     struct error *err);

#endif
