/* What becomes of a branch when its sandbox has ended. */
#ifndef SANDLOCK_BASE_DISPOSITION_H
#define SANDLOCK_BASE_DISPOSITION_H

enum disposition {
	DISPOSE_UNSAID = -1,
	DISPOSE_COMMIT,
	DISPOSE_ABORT,
	DISPOSE_KEEP,
	DISPOSE_DEFER,
};

/* "commit", "abort", "keep", "defer"; 0 or -EINVAL. */
int disposition_parse(const char *text, enum disposition *ret);
const char *disposition_name(enum disposition d);

#endif
