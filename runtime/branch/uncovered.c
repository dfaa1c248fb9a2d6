/* Mounts below the lower: an overlay does not cross them. */
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "branch/change.h"
#include "branch/internal.h"
#include "branch/mountinfo.h"
#include "branch/recover.h"

int root_uncovered(struct branch *b, change_fn *fn, void *data,
		   struct error *err)
{
	const char *lower = b->meta.lower;
	size_t n = strcmp(lower, "/") == 0 ? 0 : strlen(lower);
	struct mountinfo m;
	int r = mountinfo_open(&m, "self");

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot open '/proc/self/mountinfo'");
	while (r == 0 && mountinfo_next(&m) == 1) {
		struct change c = { .kind = CHANGE_ADD };

		if (strncmp(m.point, lower, n) != 0 || m.point[n] != '/' ||
		    m.point[n + 1] == '\0')
			continue;
		c.path = m.point + n + 1;
		c.before.mode = c.after.mode = S_IFDIR;
		r = fn(data, &c);
	}
	mountinfo_done(&m);
	return r;
}
