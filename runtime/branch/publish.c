#include "branch/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/internal.h"
#include "branch/modes.h"
#include "branch/move.h"
#include "branch/plan.h"
#include "branch/site.h"
#include "branch/walk.h"

/* A directory and what is moved there may differ that much in their times. */
enum { NS_PER_S = 1000 * 1000 * 1000, HEED_AFTER_NS = 20 * 1000 * 1000 };

void (*branch_step_hook)(const char *step);

struct publisher {
	const struct site *site;
	const struct plan *plan;
	struct cursor lower, upper;
	bool strict, undo;
	bool touches; /* an exchange changes the mtime of a directory */
};

/* XFS takes its new ".." for a change of what is in it. */
static bool touches_exchanged(const struct site *s)
{
	struct statfs sfs;

	if (move_touches)
		return true;
	return fstatfs(s->lower_fd, &sfs) == 0 && sfs.f_type == XFS_SUPER_MAGIC;
}

static void publisher_init(struct publisher *pub, const struct site *s,
			   const struct plan *p)
{
	*pub = (struct publisher){
		.site = s,
		.plan = p,
		.touches = touches_exchanged(s),
	};
	cursor_init(&pub->lower, p, s->lower_fd, true);
	cursor_init(&pub->upper, p, s->upper_fd, false);
}

static void publisher_done(struct publisher *pub)
{
	cursor_done(&pub->lower);
	cursor_done(&pub->upper);
}

static int op_error(const struct publisher *pub, uint32_t dir, const char *name,
		    enum error_kind kind, int sys, const char *what,
		    struct error *err)
{
	auto_(buf) struct buf path = BUF_INIT;
	auto_(buf) struct buf quoted = BUF_INIT;

	plan_path(pub->plan, dir, name, &path);
	path_quote(&quoted, buf_str(&path), path.len);
	return error_set(err, kind, sys, "%s '%s'", what,
			 path.len ? buf_str(&quoted) : ".");
}

static int fail(const struct publisher *pub, const struct plan_op *op, int sys,
		const char *what, struct error *err)
{
	struct statfs sfs;

	(void)op_error(pub, op->dir, plan_text(pub->plan, op->name), ERR_SYSTEM,
		       sys, what, err);
	if (sys != EXDEV)
		return -sys;
	(void)(fstatfs(pub->site->lower_fd, &sfs) == 0 &&
			       sfs.f_type == OVERLAYFS_SUPER_MAGIC
		       ? error_hint(err,
				    "an overlay, as containers have for a "
				    "root, does not let go of a directory of "
				    "its lower layers: commit all else by "
				    "its PATH, and that by hand; or keep such "
				    "directories on a volume")
		       : error_hint(err,
				    "is it in a directory that hands on "
				    "another project (lsattr -pd)? take that "
				    "off with chattr -P, and commit again"));
	return -sys;
}

static int meddled(const struct publisher *pub, const struct plan_op *op,
		   struct error *err)
{
	(void)op_error(pub, op->dir, plan_text(pub->plan, op->name),
		       ERR_CONFLICT, EBUSY, "somebody else has changed", err);
	/* Else it is taken back by itself. */
	return pub->strict ? -EBUSY
			   : error_hint(err,
					"%s is possible: sandlock recover %s%s",
					pub->undo ? "going on" : "going back",
					pub->undo ? "" : "--rollback ",
					pub->site->branch->meta.name);
}

/* Errors of opening a directory that somebody else has replaced. */
static bool is_meddling(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV ||
	       r == -ESTALE;
}

static void numbered(const struct publisher *pub, const struct plan_op *op,
		     const char *prefix, struct place *ret)
{
	ret->dirfd = pub->site->stage_fd;
	(void)snprintf(ret->number, sizeof(ret->number), "%s%zu", prefix,
		       (size_t)(op - pub->plan->ops));
	ret->name = ret->number;
}

/*
 * Where a file system cannot exchange, what an op replaces is here. True if it
 * is, so that at its place there is nothing, or what the op put there.
 */
static bool find_aside(const struct publisher *pub, const struct plan_op *op,
		       struct place *ret)
{
	struct object o;

	numbered(pub, op, "o", ret);
	return op->old_ino && object_stat(ret->dirfd, ret->name, &o) == 0 &&
	       o.mode && o.ino == op->old_ino;
}

static int find_source(struct publisher *pub, const struct plan_op *op,
		       struct place *ret)
{
	if (op->flags & OP_STAGED) {
		numbered(pub, op, "", ret);
		return 0;
	}
	ret->name = plan_text(pub->plan, op->name);
	return cursor_open(&pub->upper, op->dir, &ret->dirfd);
}

static int find_target(struct publisher *pub, const struct plan_op *op,
		       struct place *ret)
{
	ret->name = plan_text(pub->plan, op->name);
	return cursor_open(&pub->lower, op->dir, &ret->dirfd);
}

static bool is_mtime(const struct object *o, int64_t sec, uint32_t nsec)
{
	return o->mtime.tv_sec == sec && o->mtime.tv_nsec == (long)nsec;
}

static bool is_as_planned(const struct publisher *pub, const struct plan_op *op,
			  const struct place *at, const struct object *o)
{
	/* Going back leaves it where it is. */
	if ((pub->undo || (op->flags & OP_ANYHOW)) && op->old_ino && o->mode)
		return o->ino == op->old_ino;
	return plan_is_old(op, o) &&
	       (pub->strict || plan_has_old_xattrs(op, at->dirfd, at->name,
						   pub->site->prefix));
}

/*
 * Whether an op that is cut off was carried out, or not, whatever somebody has
 * put at its place since: what it moves is no more where it came from.
 */
static bool has_left(struct publisher *pub, const struct plan_op *op)
{
	struct place from;
	struct object o = { .mode = 0 };
	uint64_t kept = op->kind == OP_PUT ? op->new_ino : op->old_ino;
	bool there;

	if (op->kind == OP_DELETE)
		numbered(pub, op, "", &from);
	else if (find_source(pub, op, &from) < 0)
		return false;
	there = object_stat(from.dirfd, from.name, &o) == 0 && o.mode &&
		o.ino == kept;
	return op->kind == OP_PUT ? !there : there;
}

/* Where what an op has displaced is. */
static int find_displaced(struct publisher *pub, const struct plan_op *op,
			  struct place *ret)
{
	if (op->kind == OP_PUT && !find_aside(pub, op, ret))
		return find_source(pub, op, ret);
	numbered(pub, op, op->kind == OP_PUT ? "o" : "", ret);
	return 0;
}

/*
 * Whether that, which nobody will see again, is what the plan saw: the host may
 * have changed it until it was moved, and through what it has open after that.
 */
static bool is_displaced_old(struct publisher *pub, const struct plan_op *op)
{
	struct place at;
	struct object o;

	if (!op->old_ino || (op->flags & OP_ANYHOW) ||
	    find_displaced(pub, op, &at) < 0 ||
	    object_stat(at.dirfd, at.name, &o) < 0 || !o.mode ||
	    o.ino != op->old_ino)
		return true;
	return (S_ISDIR(o.mode) || plan_is_old(op, &o)) &&
	       plan_has_old_tree(op, at.dirfd, at.name);
}

/* The exchange was atomic, so what it brought us was the lower's. */
static int put(struct publisher *pub, const struct plan_op *op,
	       const struct place *target, struct error *err)
{
	struct place source, aside;
	struct object o;
	bool in_steps = false;
	int r = find_source(pub, op, &source);

	if (r < 0)
		return fail(pub, op, -r, "cannot find what is to become", err);
	r = op->old_ino ? move_exchange(&source, target)
			: move_new(&source, target);
	if (r == -EINVAL && op->old_ino) {
		in_steps = true;
		numbered(pub, op, "o", &aside);
		r = move_over(&source, target, &aside, op->old_ino);
	}
	if (r == -EEXIST || r == -ENOENT || r == -ESTALE)
		return meddled(pub, op, err);
	if (r < 0)
		return fail(pub, op, -r, "cannot publish", err);
	if (!op->old_ino)
		return 0;
	r = in_steps ? 0 : object_stat(source.dirfd, source.name, &o);
	if (r == 0 && (in_steps || o.ino == op->old_ino) &&
	    is_displaced_old(pub, op))
		return 0;
	if (in_steps)
		(void)move_back(&source, target, &aside, op->new_ino);
	else
		(void)move_exchange(&source, target);
	return meddled(pub, op, err);
}

static int delete (struct publisher *pub, const struct plan_op *op,
		   const struct place *target, struct error *err)
{
	struct place stage;
	struct object o;
	int r;

	numbered(pub, op, "", &stage);
	r = move_new(target, &stage);
	if (r == -EEXIST || r == -ENOENT)
		return meddled(pub, op, err);
	if (r < 0)
		return fail(pub, op, -r, "cannot delete", err);
	r = object_stat(stage.dirfd, stage.name, &o);
	if (r == 0 && o.ino == op->old_ino && is_displaced_old(pub, op))
		return 0;
	(void)move_new(&stage, target);
	return meddled(pub, op, err);
}

/*
 * Carried out before the commit was killed, maybe before it could look at what
 * it had displaced. What was to be overwritten in any case may go.
 */
static int was_done(struct publisher *pub, const struct plan_op *op,
		    struct error *err)
{
	if (pub->strict ||
	    (!(op->flags & OP_FORCED) && !is_displaced_old(pub, op)))
		return meddled(pub, op, err);
	return 0;
}

static int publish_op(struct publisher *pub, const struct plan_op *op,
		      struct error *err)
{
	struct place target, aside;
	struct object o;
	bool planned;
	int r;

	if (op->kind != OP_PUT && op->kind != OP_DELETE)
		return 0;
	r = find_target(pub, op, &target);
	if (is_meddling(r))
		return meddled(pub, op, err);
	if (r == 0)
		r = object_stat(target.dirfd, target.name, &o);
	if (r < 0)
		return fail(pub, op, -r, "cannot look at", err);
	if (op->kind == OP_PUT && !o.mode && find_aside(pub, op, &aside))
		return put(pub, op, &target, err);
	if (op->kind == OP_PUT ? o.mode && o.ino == op->new_ino : !o.mode)
		return was_done(pub, op, err);
	planned = is_as_planned(pub, op, &target, &o);
	/* It was carried out, and the host went on from there. */
	if (!pub->strict && (!planned || !o.mode) && has_left(pub, op))
		return was_done(pub, op, err);
	if (!planned)
		return meddled(pub, op, err);
	if (op->kind == OP_PUT)
		return put(pub, op, &target, err);
	return delete (pub, op, &target, err);
}

static int set_mtime(int dirfd, const char *name, int64_t sec, uint32_t nsec)
{
	const struct timespec mtime = { .tv_sec = sec, .tv_nsec = nsec };

	return object_set_mtime(dirfd, name, mtime);
}

static bool is_published(const struct plan *p, uint64_t ino)
{
	for (size_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].kind == OP_PUT && p->ops[i].new_ino == ino)
			return true;
	return false;
}

static int keep_mtime(struct publisher *pub, uint32_t dir)
{
	const struct plan_dir *d = &pub->plan->dirs[dir];
	struct object o = { .mode = 0 };
	int fd, r = cursor_open(&pub->lower, dir, &fd);

	if (r == 0)
		r = object_stat(fd, "", &o);
	if (r < 0 || is_mtime(&o, d->upper_mtime_s, d->upper_mtime_ns) ||
	    !is_published(pub->plan, o.ino))
		return r;
	return set_mtime(fd, "", d->upper_mtime_s, d->upper_mtime_ns);
}

/*
 * The directories that were published have the times that they had; what the
 * host has put in their places has its own.
 */
static int keep_mtimes(struct publisher *pub, struct error *err)
{
	const struct plan *p = pub->plan;

	for (uint32_t i = 0; pub->touches && i < p->n_dirs; i++) {
		const struct plan_dir *d = &p->dirs[i];
		int r;

		if (!(d->flags & DIR_MOVED) || d->parent == PLAN_NONE ||
		    (p->dirs[d->parent].flags & DIR_MOVED))
			continue;
		r = keep_mtime(pub, i);
		if (r < 0 && !is_meddling(r))
			return op_error(pub, i, NULL, ERR_SYSTEM, -r,
					"cannot set the time of", err);
	}
	return 0;
}

int publish_ops(const struct site *s, const struct plan *p, bool strict,
		struct error *err)
{
	struct publisher pub;
	int r = 0;

	publisher_init(&pub, s, p);
	pub.strict = strict;
	for (size_t i = 0; i < p->n_ops && r == 0; i++)
		r = publish_op(&pub, &p->ops[i], err);
	if (r == 0)
		r = keep_mtimes(&pub, err);
	publisher_done(&pub);
	return r;
}

/* The time of the directory that an op had replaced. */
static int keep_old_mtime(struct publisher *pub, const struct plan_op *op,
			  const struct place *target)
{
	struct object o;
	int r = pub->touches && op->old_ino
			? object_stat(target->dirfd, target->name, &o)
			: 1;

	if (r || !S_ISDIR(o.mode) || o.ino != op->old_ino ||
	    is_mtime(&o, op->old_mtime_s, op->old_mtime_ns))
		return r < 0 ? r : 0;
	return set_mtime(target->dirfd, target->name, op->old_mtime_s,
			 op->old_mtime_ns);
}

/* Is it where the op would have put it? Then take it back. */
static int undo_put(struct publisher *pub, const struct plan_op *op,
		    const struct place *target, const struct object *o,
		    struct error *err)
{
	struct place source, aside;
	bool has_aside = find_aside(pub, op, &aside);
	int r;

	if (o->mode && o->ino != op->new_ino) {
		if (!is_as_planned(pub, op, target, o))
			return has_aside || has_left(pub, op)
				       ? meddled(pub, op, err)
				       : 0;
		/* A second name, to be kept while the first is replaced. */
		r = has_aside ? move_new(&aside, target)
			      : keep_old_mtime(pub, op, target);
		return r < 0 ? fail(pub, op, -r, "cannot take back", err) : 0;
	}
	if (!o->mode && !has_aside)
		return op->old_ino && has_left(pub, op) ? meddled(pub, op, err)
							: 0;
	r = find_source(pub, op, &source);
	if (r == 0 && has_aside)
		r = move_back(&source, target, &aside, op->new_ino);
	else if (r == 0)
		r = op->old_ino ? move_exchange(target, &source)
				: move_new(target, &source);
	if (r == 0)
		r = keep_old_mtime(pub, op, target);
	return r < 0 ? fail(pub, op, -r, "cannot take back", err) : 0;
}

static int undo_delete(struct publisher *pub, const struct plan_op *op,
		       const struct place *target, const struct object *o,
		       struct error *err)
{
	struct place stage;
	struct object kept;
	int r;

	numbered(pub, op, "", &stage);
	r = object_stat(stage.dirfd, stage.name, &kept);
	if (r < 0)
		return fail(pub, op, -r, "cannot look at", err);
	if (!kept.mode || kept.ino != op->old_ino)
		return 0; /* not deleted, or deleted by somebody else */
	/* If that is the same file still, there was one more step to go. */
	if (o->mode && o->ino != op->old_ino)
		return meddled(pub, op, err);
	r = move_new(&stage, target);
	return r < 0 ? fail(pub, op, -r, "cannot put back", err) : 0;
}

static int undo_op(struct publisher *pub, const struct plan_op *op,
		   struct error *err)
{
	struct place target;
	struct object o;
	int r;

	if (op->kind != OP_PUT && op->kind != OP_DELETE)
		return 0;
	r = find_target(pub, op, &target);
	if (r == -ENOENT && !pub->plan->dirs[op->dir].old.mode)
		return 0; /* its directory was not made, or is back already */
	if (is_meddling(r))
		return meddled(pub, op, err);
	if (r == 0)
		r = object_stat(target.dirfd, target.name, &o);
	if (r < 0)
		return fail(pub, op, -r, "cannot look at", err);
	if (op->kind == OP_PUT)
		return undo_put(pub, op, &target, &o, err);
	return undo_delete(pub, op, &target, &o, err);
}

int publish_undo_ops(const struct site *s, const struct plan *p,
		     struct error *err)
{
	struct publisher pub;
	int r = 0;

	publisher_init(&pub, s, p);
	pub.undo = true;
	for (size_t i = p->n_ops; i > 0 && r == 0; i--)
		r = undo_op(&pub, &p->ops[i - 1], err);
	publisher_done(&pub);
	return r;
}

/* Modes */

/* A copy has inodes of its own, but is known by that of its top. */
static int change_copy(struct publisher *pub, const struct plan_op *op,
		       bool open)
{
	const struct branch *b = pub->site->branch;
	auto_(buf) struct buf path = BUF_INIT;
	struct place target;
	struct object o = { .mode = 0 };
	int r = find_target(pub, op, &target);

	if (r == 0)
		r = object_stat(target.dirfd, target.name, &o);
	if (r < 0 || !o.mode || o.ino != op->new_ino)
		return r < 0 && !is_meddling(r) ? r : 0;
	plan_path(pub->plan, op->dir, target.name, &path);
	if (buf_failed(&path))
		return -ENOMEM;
	return open ? modes_reopen_copy(b, buf_str(&path), target.dirfd,
					target.name)
		    : modes_close_copy(b, buf_str(&path), target.dirfd,
				       target.name);
}

int publish_modes(const struct site *s, const struct plan *p, bool open)
{
	const struct branch *b = s->branch;
	struct publisher pub;
	int r = 0;

	if (b->meta.n_modes == 0)
		return 0;
	if (!p->staged)
		return open ? modes_reopen(b, s->lower_fd)
			    : modes_close(b, s->lower_fd);
	publisher_init(&pub, s, p);
	for (size_t i = 0; i < p->n_ops && r == 0; i++)
		if (p->ops[i].kind == OP_PUT && !(p->ops[i].flags & OP_MKDIR))
			r = change_copy(&pub, &p->ops[i], open);
	publisher_done(&pub);
	return r;
}

/* Directories */

static bool has_owner(const struct stat *st, const struct dir_state *d)
{
	return st->st_uid == d->uid && st->st_gid == d->gid;
}

/*
 * Whether the mode is one that we have set or met, and not the host's, which
 * stands: modes_let_in adds bits, and an ACL is told by those of the group.
 */
static bool is_our_mode(mode_t now, const struct dir_state *from,
			const struct dir_state *to, bool has_acl)
{
	const mode_t mask = has_acl ? 07707 : 07777;

	return ((now ^ from->mode) & mask) == 0 ||
	       ((now ^ to->mode) & mask) == 0 ||
	       ((now ^ (from->mode | S_IRWXU)) & mask) == 0 ||
	       ((now ^ (to->mode | S_IRWXU)) & mask) == 0;
}

/*
 * What the host has changed since the plan was made is left as it is. An ACL
 * changes the mode, so that is last.
 */
static int set_state(int dirfd, const struct dir_state *from,
		     const struct dir_state *to, const struct xattrs *from_x,
		     const struct xattrs *to_x)
{
	const struct timespec mtime = { .tv_sec = to->mtime_s,
					.tv_nsec = to->mtime_ns };
	auto_close int fd =
		openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	mode_t mode;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	branch_step("directory");
	mode = is_our_mode(st.st_mode, from, to, from_x->n || to_x->n)
		       ? to->mode
		       : st.st_mode;
	if (has_owner(&st, from) && !has_owner(&st, to) &&
	    fchown(fd, to->uid, to->gid) < 0)
		return -errno;
	r = xattrs_apply(fd, "", from_x, to_x);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 07777) != (mode & 07777) &&
	    fchmod(fd, mode & 07777) < 0)
		return -errno;
	return object_set_mtime(fd, "", mtime);
}

static int set_dir(const struct publisher *pub, uint32_t dir, int dirfd,
		   bool undo)
{
	const struct plan_dir *d = &pub->plan->dirs[dir];
	auto_(xattrs) struct xattrs old = XATTRS_INIT;
	auto_(xattrs) struct xattrs new = XATTRS_INIT;
	int r = plan_get_xattrs(pub->plan, d->old_xattrs, &old);

	if (r == 0)
		r = plan_get_xattrs(pub->plan, d->new_xattrs, &new);
	if (r < 0)
		return r;
	if (undo)
		return set_state(dirfd, &d->new, &d->old, &new, &old);
	return set_state(dirfd, &d->old, &d->new, &old, &new);
}

static bool is_to_set(const struct plan_dir *d, bool undo)
{
	if (!(d->flags & (DIR_TOUCHED | DIR_META)))
		return false;
	if (d->flags & (DIR_MOVED | DIR_LAZY))
		return false;
	/* What this commit made is gone again. */
	return !undo || (d->flags & DIR_IN_LOWER);
}

static int set_dirs(const struct site *s, const struct plan *p, bool undo,
		    struct error *err)
{
	struct publisher pub;
	int r = 0, fd;

	publisher_init(&pub, s, p);
	for (uint32_t i = (uint32_t)p->n_dirs; i > 0 && r == 0; i--) {
		if (!is_to_set(&p->dirs[i - 1], undo))
			continue;
		r = cursor_open(&pub.lower, i - 1, &fd);
		if (r == 0)
			r = set_dir(&pub, i - 1, fd, undo);
		if (r < 0)
			r = op_error(&pub, i - 1, NULL,
				     is_meddling(r) ? ERR_CONFLICT : ERR_SYSTEM,
				     -r, "cannot set the metadata of", err);
	}
	publisher_done(&pub);
	return r;
}

static void look_for_newest(const struct plan_op *op, const struct place *at,
			    struct timespec *newest)
{
	struct object o;

	if (object_stat(at->dirfd, at->name, &o) == 0 && o.mode &&
	    (o.ino == op->old_ino || o.ino == op->new_ino) &&
	    time_compare(&o.ctime, newest) > 0)
		*newest = o.ctime;
}

/* When something was moved last: a rename changes the ctime of what it moves.
 */
static void find_newest(struct publisher *pub, struct timespec *newest)
{
	for (size_t i = 0; i < pub->plan->n_ops; i++) {
		const struct plan_op *op = &pub->plan->ops[i];
		struct place at;

		if (op->kind != OP_PUT && op->kind != OP_DELETE)
			continue;
		numbered(pub, op, "", &at);
		look_for_newest(op, &at, newest);
		numbered(pub, op, "o", &at);
		look_for_newest(op, &at, newest);
		if (find_target(pub, op, &at) == 0)
			look_for_newest(op, &at, newest);
		if (op->kind == OP_PUT && find_source(pub, op, &at) == 0)
			look_for_newest(op, &at, newest);
	}
}

void publish_heed_times(const struct site *s, struct plan *p)
{
	struct timespec newest = { .tv_sec = 0 };
	struct publisher pub;

	publisher_init(&pub, s, p);
	find_newest(&pub, &newest);
	newest.tv_nsec += HEED_AFTER_NS;
	newest.tv_sec += newest.tv_nsec / NS_PER_S;
	newest.tv_nsec %= NS_PER_S;
	for (uint32_t i = 0; i < p->n_dirs; i++) {
		struct plan_dir *d = &p->dirs[i];
		struct object o;
		int fd;

		if (!is_to_set(d, true) ||
		    cursor_open(&pub.lower, i, &fd) < 0 ||
		    object_stat(fd, "", &o) < 0 ||
		    time_compare(&o.mtime, &newest) <= 0 ||
		    is_mtime(&o, d->old.mtime_s, d->old.mtime_ns) ||
		    is_mtime(&o, d->new.mtime_s, d->new.mtime_ns))
			continue;
		d->old.mtime_s = d->new.mtime_s = o.mtime.tv_sec;
		d->old.mtime_ns = d->new.mtime_ns = (uint32_t)o.mtime.tv_nsec;
	}
	publisher_done(&pub);
}

int publish_open_dirs(const struct site *s, const struct plan *p,
		      struct error *err)
{
	struct publisher pub;
	int r = 0, fd;

	publisher_init(&pub, s, p);
	for (uint32_t i = 0; i < p->n_dirs && r == 0; i++) {
		if (!is_to_set(&p->dirs[i], false))
			continue;
		r = cursor_open(&pub.lower, i, &fd);
		/* Not made yet; what somebody else replaced is met later. */
		if (is_meddling(r))
			r = 0;
		else if (r == 0)
			r = modes_let_in(fd);
		if (r < 0)
			r = op_error(&pub, i, NULL, ERR_SYSTEM, -r,
				     "cannot get into", err);
	}
	publisher_done(&pub);
	return r;
}

int publish_dirs(const struct site *s, const struct plan *p, struct error *err)
{
	return set_dirs(s, p, false, err);
}

int publish_undo_dirs(const struct site *s, const struct plan *p,
		      struct error *err)
{
	return set_dirs(s, p, true, err);
}
