/*
 * The features document (runtime-spec features.md). What the parser knows
 * comes from its own tables; what the build of libseccomp can do is told by
 * the caller, since spec/ lies below kernel/. Pure; thread-safe.
 */
#ifndef SANDLOCK_SPEC_FEATURES_H
#define SANDLOCK_SPEC_FEATURES_H

#include <stdbool.h>

struct buf;

/* Lists are NULL-terminated; everything is borrowed. */
struct features_input {
	const char *version;		/* of sandlock */
	const char *libseccomp_version; /* "2.5.4" */
	const char *const *seccomp_actions,
		*const *seccomp_operators,
			*const *seccomp_archs,
				*const *seccomp_known_flags,
					*const *seccomp_supported_flags;
	bool apparmor, selinux;
};

/* Appends the document, pretty. 0 or -ENOMEM. */
int features_json(const struct features_input *in, struct buf *ret);

#endif
