#include "branch/site.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "branch/internal.h"

int site_check(const struct branch *b, struct error *err)
{
	if (b->upper_fd < 0)
		return error_say(err, ERR_STATE, ENOENT,
				 "branch '%s' has lost its upper directory",
				 b->meta.name);
	if (b->lower_fd < 0) {
		(void)error_say(err, ERR_STATE, ESTALE,
				"'%s' is not the directory that branch '%s' "
				"was made on",
				b->meta.lower, b->meta.name);
		return error_hint(err, "put the directory back, or abort");
	}
	if (faccessat(b->dir_fd, "intent", F_OK, 0) == 0 ||
	    faccessat(b->dir_fd, "done", F_OK, 0) == 0) {
		(void)error_say(err, ERR_STATE, EBUSY,
				"a commit of branch '%s' was interrupted",
				b->meta.name);
		return error_hint(err, "sandlock recover %s", b->meta.name);
	}
	return 0;
}
