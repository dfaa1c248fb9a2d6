#include "branch/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "branch/internal.h"
#include "branch/links.h"
#include "branch/plan.h"
#include "branch/publish.h"
#include "branch/site.h"
#include "branch/tree.h"
#include "branch/walk.h"

enum {
	NUMBER_LEN = 24,
	SYNC_EACH_MAX = 256, /* above, one syncfs is cheaper */
};

static const char *number(size_t i, char ret[NUMBER_LEN])
{
	(void)snprintf(ret, NUMBER_LEN, "%zu", i);
	return ret;
}

static int set_owner_and_mode(int fd, const struct dir_state *to,
			      const struct xattrs *x)
{
	static const struct xattrs none;
	int r;

	if (fchown(fd, to->uid, to->gid) < 0)
		return -errno;
	r = xattrs_apply(fd, "", &none, x);
	if (r == 0 && fchmod(fd, (to->mode & 07777) | S_IRWXU) < 0)
		r = -errno;
	return r;
}

/*
 * An empty directory that looks like upper's. Its mtime, and a mode that keeps
 * us out, are set at the end.
 */
static int stage_mkdir(const struct site *s, struct plan *p, size_t i)
{
	struct plan_op *op = &p->ops[i];
	struct plan_dir *d = &p->dirs[op->strip];
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	auto_close int fd = -1;
	char name[NUMBER_LEN];
	struct object o;
	int r = plan_get_xattrs(p, d->new_xattrs, &x);

	if (r < 0)
		return r;
	if (mkdirat(s->stage_fd, number(i, name), 0700) < 0)
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

static int stage_copy(struct tree_copy *t, struct cursor *upper, struct plan *p,
		      size_t i, struct error *err)
{
	struct plan_op *op = &p->ops[i];
	const char *name = plan_text(p, op->name);
	char to[NUMBER_LEN];
	struct object o;
	int fd, r = cursor_open(upper, op->dir, &fd);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot find '%s'", name);
	r = tree_copy(t, fd, name, number(i, to), err);
	if (r < 0)
		return r;
	r = object_stat(t->stage_fd, to, &o);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot copy '%s'", name);
	op->new_ino = o.ino;
	return 0;
}

/* A little more than the contents, for names and inodes. */
static int check_space(const struct plan *p, const struct site *s,
		       struct error *err)
{
	struct statvfs v;
	uint64_t have, need = p->copy_bytes + p->n_published * 512;

	if (fstatvfs(s->lower_fd, &v) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot look at '%s'",
				 s->branch->meta.lower);
	have = (geteuid() == 0 ? v.f_bfree : v.f_bavail) * v.f_frsize;
	if (have >= need)
		return 0;
	return error_set(err, ERR_SYSTEM, ENOSPC,
			 "cannot copy what changed next to '%s', which is on "
			 "another file system: %llu MiB are missing",
			 s->branch->meta.lower,
			 (unsigned long long)((need - have) >> 20) + 1);
}

static int stage_all(struct tree_copy *t, struct plan *p, const struct site *s,
		     struct error *err)
{
	struct cursor upper;
	int r = 0;

	cursor_init(&upper, p, s->upper_fd, false);
	for (size_t i = 0; i < p->n_ops && r == 0; i++) {
		const struct plan_op *op = &p->ops[i];

		if (op->flags & OP_STAGED)
			branch_step("stage");
		if (op->flags & OP_MKDIR) {
			r = stage_mkdir(s, p, i);
			if (r < 0)
				r = error_set(err, ERR_SYSTEM, -r,
					      "cannot make '%s' beforehand",
					      plan_text(p, op->name));
		} else if (op->flags & OP_STAGED) {
			r = stage_copy(t, &upper, p, i, err);
		}
	}
	cursor_done(&upper);
	return r;
}

/* The copies are new: nobody else has put them on disk. */
static int sync_stage(const struct tree_copy *t, struct error *err)
{
	if ((t->sync_each ? fsync(t->stage_fd) : syncfs(t->stage_fd)) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot put the copies on disk");
	return 0;
}

int plan_stage(struct plan *p, const struct site *s, struct error *err)
{
	struct tree_copy t = { .stage_fd = s->stage_fd,
			       .prefix = s->prefix,
			       .allow_special = p->allow_special,
			       .sync_each = p->n_published <= SYNC_EACH_MAX,
			       .links = links_new() };
	int r = 0;

	if (!t.links)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot copy");
	if (p->staged)
		r = check_space(p, s, err);
	if (r == 0)
		r = stage_all(&t, p, s, err);
	if (r == 0 && p->staged)
		r = sync_stage(&t, err);
	links_free(t.links);
	return r;
}
