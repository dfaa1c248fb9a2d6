/* What is made beforehand, in the stage, to be put in place by one rename. */
#include "branch/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "branch/plan.h"
#include "branch/site.h"
#include "branch/walk.h"

enum { NUMBER_LEN = 24 };

static int set_owner_and_mode(int fd, const struct dir_state *to,
			      const struct xattrs *x)
{
	static const struct xattrs none;
	int r;

	if (fchown(fd, to->uid, to->gid) < 0)
		return -errno;
	r = xattrs_apply(fd, "", &none, x);
	if (r == 0 && fchmod(fd, to->mode & 07777) < 0)
		r = -errno;
	return r;
}

/* An empty directory that looks like upper's; its mtime is set at the end. */
static int stage_mkdir(const struct site *s, struct plan *p, size_t i)
{
	struct plan_op *op = &p->ops[i];
	struct plan_dir *d = &p->dirs[op->strip];
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	auto_close int fd = -1;
	char name[NUMBER_LEN];
	struct object o;
	int r = plan_get_xattrs(p, d->new_xattrs, &x);

	(void)snprintf(name, sizeof(name), "%zu", i);
	if (r < 0)
		return r;
	if (mkdirat(s->stage_fd, name, 0700) < 0)
		return -errno;
	fd = openat(s->stage_fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = set_owner_and_mode(fd, &d->new, &x);
	if (r == 0)
		r = object_stat(fd, "", &o);
	if (r < 0)
		return r;
	op->new_ino = d->ino = o.ino;
	return 0;
}

int plan_stage(struct plan *p, const struct site *s, struct error *err)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		int r;

		if (!(p->ops[i].flags & OP_MKDIR))
			continue;
		r = stage_mkdir(s, p, i);
		if (r < 0)
			return error_set(err, ERR_SYSTEM, -r,
					 "cannot make a directory in the "
					 "branch");
	}
	return 0;
}
