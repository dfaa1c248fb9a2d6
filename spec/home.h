/*
 * ${HOME} in the paths of a profile, as profiles of others have it. It is the
 * only variable: what looks like another one is an error, so that no rule is
 * silently about a path that nobody has.
 */
#ifndef SPEC_HOME_H
#define SPEC_HOME_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

/*
 * Appends @path with its variables replaced. *@ret_used is set if there were
 * any. ERR_USAGE if one is unknown or has no end, for a path that begins with
 * "~/", and where $HOME is no absolute path or the root.
 */
int home_expand(const char *path, struct buf *ret, bool *ret_used,
		struct error *err);

#endif
