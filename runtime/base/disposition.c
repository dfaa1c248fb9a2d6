#include "base/disposition.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const names[] = {
	[DISPOSE_COMMIT] = "commit",
	[DISPOSE_ABORT] = "abort",
	[DISPOSE_KEEP] = "keep",
	[DISPOSE_DEFER] = "defer",
};

int disposition_parse(const char *text, enum disposition *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum disposition)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *disposition_name(enum disposition d)
{
	return d == DISPOSE_UNSAID ? "unsaid" : names[d];
}
