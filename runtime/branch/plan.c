#include "branch/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/group.h"
#include "branch/internal.h"
#include "branch/judge.h"
#include "branch/links.h"
#include "branch/select.h"
#include "branch/sink.h"
#include "branch/site.h"

/* Why nothing may be put into a directory of the lower. */
enum dir_block {
	BLOCK_NONE,
	BLOCK_MOUNT,
	BLOCK_LOCKED,
	BLOCK_DENIED,
	BLOCK_READ_ONLY,
};

struct planner {
	struct plan *plan;
	struct branch *branch;
	const struct commit_options *options;
	struct selection selection;
	struct judge judge;
	struct walk walk;
	struct sink *sink;
	size_t n_conflicts;
	bool refused;	    /* a conflict that ends the commit */
	bool hard, locked;  /* one of them cannot be forced, and why */
	struct error first; /* conflict */
	struct groups skipped;
};

static void planner_done(struct planner *pl)
{
	walk_done(&pl->walk);
	judge_done(&pl->judge);
	selection_done(&pl->selection);
	groups_done(&pl->skipped);
}

static int no_memory(struct error *err)
{
	return error_set(err, ERR_SYSTEM, ENOMEM, "cannot plan the commit");
}

static int complain(const struct walk_entry *e, int sys, const char *what,
		    struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;

	path_quote(&b, e->path, e->path_len);
	return error_set(err, ERR_SYSTEM, sys, "'%s' %s",
			 e->path_len ? buf_str(&b) : ".", what);
}

/* Growing */

static int add_text(struct plan *p, const char *s, uint32_t *ret,
		    struct error *err)
{
	if (p->text.len > UINT32_MAX - 1)
		return error_set(err, ERR_SYSTEM, EFBIG,
				 "cannot plan the commit");
	*ret = (uint32_t)p->text.len;
	buf_add(&p->text, s, strlen(s) + 1);
	return buf_failed(&p->text) ? no_memory(err) : 0;
}

static int grow(void *array, size_t *cap, size_t n, size_t size,
		struct error *err)
{
	size_t wanted = *cap ? *cap + *cap / 2 : 64;
	void *grown;

	if (n < *cap)
		return 0;
	grown = reallocarray(*(void **)array, wanted, size);
	if (!grown || n >= PLAN_NONE)
		return no_memory(err);
	*(void **)array = grown;
	*cap = wanted;
	return 0;
}

static struct dir_state state_of(const struct object *o,
				 const struct timespec *mtime)
{
	return (struct dir_state){ .mode = o->mode,
				   .uid = o->uid,
				   .gid = o->gid,
				   .mtime_s = mtime->tv_sec,
				   .mtime_ns = (uint32_t)mtime->tv_nsec };
}

static enum dir_block find_block(const struct walk_entry *e)
{
	int flags =
		AT_EACCESS | (e->name[0] ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH);

	if (e->path_len > 0 && e->lower.is_mount)
		return BLOCK_MOUNT;
	if (e->lower.is_locked)
		return BLOCK_LOCKED;
	if (faccessat(e->lower_dirfd, e->name, W_OK | X_OK, flags) == 0)
		return BLOCK_NONE;
	if (errno == EROFS)
		return BLOCK_READ_ONLY;
	/* publish_open_dirs: for its owner a mode is no obstacle. */
	return e->lower.uid == geteuid() ? BLOCK_NONE : BLOCK_DENIED;
}

/*
 * The mtime that the directory has when all is done: the one that the sandbox
 * saw; a later one of the host's stands.
 */
static const struct timespec *final_mtime(const struct planner *pl,
					  const struct walk_entry *e, bool made)
{
	const struct timespec *u = &e->upper.mtime, *l = &e->lower.mtime;

	if (!e->lower.mode)
		return u;
	if (made || (judge_base_changed(&pl->judge, e->path, &e->lower) &&
		     time_compare(l, u) > 0))
		return l;
	return u;
}

/* Makes the record of a directory and tells its index. */
static int add_dir(struct planner *pl, const struct walk_entry *e, int flags,
		   bool made, uint32_t *ret, struct error *err)
{
	struct plan *p = pl->plan;
	struct plan_dir d = {
		.ino = flags & DIR_IN_LOWER ? e->lower.ino : 0,
		.parent = e->path_len > 0 ? e->tag : PLAN_NONE,
		.upper_mtime_s = e->upper.mtime.tv_sec,
		.upper_mtime_ns = (uint32_t)e->upper.mtime.tv_nsec,
		.old_xattrs = PLAN_NONE,
		.new_xattrs = PLAN_NONE,
		.flags = (uint8_t)flags,
	};
	const struct timespec *mtime = final_mtime(pl, e, made);
	int r = grow(&p->dirs, &p->cap_dirs, p->n_dirs, sizeof(d), err);

	if (r == 0)
		r = add_text(p, e->name, &d.name, err);
	if (r < 0)
		return r;
	if (flags & DIR_IN_LOWER) {
		d.old = state_of(&e->lower, &e->lower.mtime);
		d.new = state_of(&e->lower, mtime);
		d.blocked = (uint8_t)find_block(e);
		if (judge_base_changed(&pl->judge, e->path, &e->lower))
			d.flags |= DIR_HOSTS;
	} else {
		d.new = state_of(&e->upper, mtime);
	}
	*ret = (uint32_t)p->n_dirs;
	p->dirs[p->n_dirs++] = d;
	return 0;
}

static const char cannot_read_xattrs[] = "has attributes that cannot be read";

static int keep_xattrs(struct planner *pl, int dirfd, const char *name,
		       uint32_t *ret)
{
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	int r = xattrs_read_visible(dirfd, name, pl->judge.prefix, &x);

	return r < 0 ? r : plan_add_xattrs(pl->plan, &x, ret);
}

/* The directory takes upper's mode, owner and attributes. */
static int add_meta(struct planner *pl, const struct walk_entry *e,
		    uint32_t dir, struct error *err)
{
	struct plan_dir *d = &pl->plan->dirs[dir];
	struct timespec mtime = { .tv_sec = d->new.mtime_s,
				  .tv_nsec = d->new.mtime_ns };
	int r;

	d->flags |= DIR_META;
	d->new = state_of(&e->upper, &mtime);
	r = keep_xattrs(pl, e->upper_dirfd, e->name, &d->new_xattrs);
	if (r == 0 && e->lower.mode)
		r = keep_xattrs(pl, e->lower_dirfd, e->name, &d->old_xattrs);
	return r < 0 ? complain(e, -r, cannot_read_xattrs, err) : 0;
}

/* Conflicts */

static void remember_first(struct planner *pl, const struct walk_entry *e,
			   const struct verdict *v)
{
	auto_(buf) struct buf b = BUF_INIT;

	if (pl->n_conflicts++ > 0)
		return;
	path_quote(&b, e->path, e->path_len);
	(void)error_say(&pl->first, ERR_CONFLICT, v->hard ? EPERM : EEXIST,
			"'%s': %s", e->path_len ? buf_str(&b) : ".",
			v->conflict);
}

/* 1: it is left out, 0: it goes on all the same, or a negative errno. */
static int meet_conflict(struct planner *pl, const struct walk_entry *e,
			 const struct verdict *v, struct error *err)
{
	struct change c;
	int r;

	if (pl->options->conflicts == CONFLICT_FORCE && !v->hard)
		return 0;
	remember_first(pl, e, v);
	pl->hard = pl->hard || v->hard;
	pl->locked = pl->locked || v->locked;
	r = judge_describe(&pl->judge, e, v, &c);
	if (r == 0)
		r = sink_change(pl->sink, &c);
	if (r)
		return r < 0 ? complain(e, -r, "cannot be described", err) : r;
	if (pl->options->conflicts != CONFLICT_SKIP) {
		pl->refused = true;
		return 1;
	}
	pl->plan->n_skipped++;
	pl->plan->partial = true;
	return groups_add(&pl->skipped, e->path) < 0 ? no_memory(err) : 1;
}

/* Reasons that lie in the directory: 1 left out, 0 none, negative errno. */
static int meet_block(struct planner *pl, const struct walk_entry *e,
		      uint32_t dir, struct error *err)
{
	struct verdict v = { .kind = e->whiteout     ? CHANGE_DELETE
				     : e->lower.mode ? CHANGE_MODIFY
						     : CHANGE_ADD,
			     .flags = CHANGE_CONFLICT,
			     .hard = true };

	switch ((enum dir_block)pl->plan->dirs[dir].blocked) {
	case BLOCK_NONE:
		return 0;
	case BLOCK_DENIED:
		return complain(e, EACCES,
				"lies in a directory that cannot be written",
				err);
	case BLOCK_READ_ONLY:
		(void)complain(e, EROFS, "cannot be published", err);
		return error_hint(err, "nothing was published: mount the root "
				       "writable, then commit again");
	case BLOCK_MOUNT:
		v.conflict = "lies below a mount point of the host";
		break;
	case BLOCK_LOCKED:
		v.conflict = "lies in an immutable or append-only directory";
		v.locked = true;
		break;
	}
	return meet_conflict(pl, e, &v, err);
}

/* Ops */

static int push_op(struct planner *pl, const struct plan_op *op,
		   struct error *err)
{
	struct plan *p = pl->plan;
	int r = grow(&p->ops, &p->cap_ops, p->n_ops, sizeof(*op), err);

	if (r == 0)
		p->ops[p->n_ops++] = *op;
	return r;
}

static int make_parent(struct planner *pl, uint32_t dir, struct error *err)
{
	struct plan_dir *d = &pl->plan->dirs[dir];
	const struct plan_op op = { .dir = d->parent,
				    .name = d->name,
				    .strip = dir,
				    .kind = OP_PUT,
				    .class = CLASS_NEW,
				    .flags = OP_IS_DIR | OP_STAGED | OP_MKDIR };

	d->flags &= (uint8_t)~DIR_LAZY;
	pl->plan->dirs[op.dir].flags |= DIR_TOUCHED;
	return push_op(pl, &op, err);
}

/*
 * Makes the directories that the lower lacks above a selected object: those
 * that were not needed before are a chain that ends at one that is there.
 */
static int make_parents(struct planner *pl, uint32_t dir, struct error *err)
{
	const struct plan_dir *dirs = pl->plan->dirs;
	auto_free uint32_t *chain = NULL;
	size_t n = 0;
	int r = 0;

	for (uint32_t d = dir; dirs[d].flags & DIR_LAZY; d = dirs[d].parent)
		n++;
	if (n == 0)
		return 0;
	chain = calloc(n, sizeof(*chain));
	if (!chain)
		return no_memory(err);
	for (size_t i = 0; i < n; i++, dir = dirs[dir].parent)
		chain[i] = dir;
	while (n > 0 && r == 0)
		r = make_parent(pl, chain[--n], err);
	return r;
}

static uint32_t existing_parent(const struct plan *p, uint32_t dir)
{
	while (!(p->dirs[dir].flags & DIR_IN_LOWER))
		dir = p->dirs[dir].parent;
	return dir;
}

static enum op_class class_of(const struct walk_entry *e, enum op_kind kind)
{
	if (kind == OP_DROP || kind == OP_CLEAN)
		return CLASS_PREPARE;
	if (kind == OP_DELETE)
		return CLASS_DELETE;
	if (group_is_pointer(e->path))
		return CLASS_POINTER;
	return e->lower.mode ? CLASS_CHANGED : CLASS_NEW;
}

static int add_op(struct planner *pl, const struct walk_entry *e,
		  enum op_kind kind, int flags, struct error *err)
{
	struct plan *p = pl->plan;
	bool moves = kind == OP_PUT || kind == OP_DELETE;
	bool is_file = moves && e->lower.mode && !S_ISDIR(e->lower.mode);
	struct plan_op op = {
		.old_ino = moves ? e->lower.ino : 0,
		.new_ino = kind == OP_DELETE ? 0 : e->upper.ino,
		.old_mtime_s = e->lower.mtime.tv_sec,
		.old_mtime_ns = (uint32_t)e->lower.mtime.tv_nsec,
		.dir = e->tag,
		.strip = PLAN_NONE,
		.old_mode = is_file ? e->lower.mode : 0,
		.old_owner = plan_hash_owner(e->lower.uid, e->lower.gid),
		.kind = (uint8_t)kind,
		.class = (uint8_t)class_of(e, kind),
		.flags = (uint8_t)flags,
	};
	int r = 0;

	if (moves && !(flags & OP_MAYBE)) {
		r = make_parents(pl, e->tag, err);
		p->dirs[e->tag].flags |= DIR_TOUCHED;
	}
	if (r == 0)
		r = add_text(p, e->name, &op.name, err);
	if (r < 0)
		return r;
	if (is_file)
		r = plan_hash_xattrs(e->lower_dirfd, e->name, pl->judge.prefix,
				     &op.old_xattrs);
	if (r < 0)
		return complain(e, -r, cannot_read_xattrs, err);
	if (kind != OP_DELETE && kind != OP_DROP && e->private.n > 0 &&
	    !p->staged && plan_add_xattrs(p, &e->private, &op.strip) < 0)
		return no_memory(err);
	if (S_ISDIR(e->upper.mode))
		op.flags |= OP_IS_DIR;
	else if (kind != OP_DELETE && e->upper.nlink > 1)
		op.flags |= OP_LINKED;
	if (p->staged && kind == OP_PUT)
		op.flags |= OP_STAGED;
	return push_op(pl, &op, err);
}

/* One that displaces a directory notes what that holds. */
static int add_change(struct planner *pl, const struct walk_entry *e,
		      const struct verdict *v, enum op_kind kind, int flags,
		      struct error *err)
{
	int r;

	if (v->conflict)
		flags |= OP_FORCED;
	if (pl->options->conflicts == CONFLICT_FORCE)
		flags |= OP_ANYHOW;
	r = add_op(pl, e, kind, flags, err);
	if (r == 0 && S_ISDIR(e->lower.mode))
		pl->plan->ops[pl->plan->n_ops - 1].old_xattrs =
			plan_fold_tree(v->below);
	return r;
}

static void count(struct planner *pl, const struct walk_entry *e)
{
	pl->plan->n_published++;
	if (pl->plan->staged && S_ISREG(e->upper.mode))
		pl->plan->copy_bytes += e->upper.blocks * 512;
}

/* A name of this inode goes to the lower: so do all the others. */
static int mark_link(struct planner *pl, const struct walk_entry *e,
		     struct error *err)
{
	struct link *l;

	if (S_ISDIR(e->upper.mode) || e->upper.nlink < 2)
		return 0;
	l = links_find(pl->judge.links, e->upper.ino);
	if (!l)
		l = links_add(pl->judge.links, e->upper.ino, 0, e->path);
	if (!l)
		return no_memory(err);
	l->mark = 1;
	return 0;
}

/*
 * A socket is of no use to anybody, and stays behind, as does a lock of git
 * whose holder is dead; a device is power, and nobody publishes one unawares.
 * 1: leave it out.
 */
static int meet_special(struct planner *pl, const struct walk_entry *e,
			struct error *err)
{
	mode_t mode = e->upper.mode;
	int r;

	if (e->whiteout)
		return 0;
	if (S_ISREG(mode) && !e->lower.mode && group_is_stale_lock(e->path)) {
		pl->plan->n_skipped++;
		return 1;
	}
	if (pl->options->allow_special)
		return 0;
	if (S_ISSOCK(mode)) {
		pl->plan->n_skipped++;
		return 1;
	}
	if (!S_ISCHR(mode) && !S_ISBLK(mode))
		return 0;
	r = complain(e, EPERM, "is a device, which a commit does not publish",
		     err);
	(void)error_hint(err, "allow it (--special), or abort that path");
	if (err)
		err->kind = ERR_STATE;
	return r;
}

/* Visits */

/* Inside a directory that moves as a whole. */
static int visit_moved(struct planner *pl, const struct walk_entry *e,
		       struct error *err)
{
	uint32_t dir;
	int r = meet_special(pl, e, err);

	if (r < 0)
		return r;
	if (r == 1 || e->whiteout)
		return pl->plan->staged ? 0 : add_op(pl, e, OP_DROP, 0, err);
	count(pl, e);
	r = mark_link(pl, e, err);
	if (r == 0 && e->private.n > 0 && !pl->plan->staged)
		r = add_op(pl, e, OP_CLEAN, 0, err);
	if (r < 0 || !S_ISDIR(e->upper.mode))
		return r;
	r = add_dir(pl, e, DIR_MOVED, false, &dir, err);
	return r < 0 ? r : walk_enter(&pl->walk, WALK_NEW, dir, err);
}

/* On both sides a directory, and merged in place. */
static int visit_both(struct planner *pl, const struct walk_entry *e,
		      const struct verdict *v, bool selected, struct error *err)
{
	uint32_t dir;
	int r = add_dir(pl, e, DIR_IN_LOWER, v->made, &dir, err);

	if (r < 0)
		return r;
	if (selected && v->changed && (v->flags & CHANGE_MTIME_ONLY)) {
		pl->plan->dirs[dir].flags |= DIR_TOUCHED;
	} else if (selected && v->changed) {
		r = v->conflict ? meet_conflict(pl, e, v, err) : 0;
		if (r == 0) {
			r = add_meta(pl, e, dir, err);
			pl->plan->n_published++;
		}
		if (r < 0)
			return r;
	}
	return walk_enter(&pl->walk,
			  pl->plan->dirs[dir].blocked == BLOCK_MOUNT
				  ? WALK_NEW
				  : WALK_MERGED,
			  dir, err);
}

/*
 * New, but it cannot move as it is: only a part was asked for, or it holds
 * things of the runtime. A new one is made when the first thing goes into it.
 */
static int visit_lazy(struct planner *pl, const struct walk_entry *e,
		      const struct verdict *v, bool selected, struct error *err)
{
	uint32_t dir;
	int r;

	if (e->lower.mode)
		return complain(e, EINVAL,
				"was replaced as a whole, so it is committed "
				"as a whole",
				err);
	/* Of what was put into it, and is not looked at again, nobody could
	 * tell any more. */
	if (geteuid() != 0 &&
	    (e->upper.mode & (S_IRUSR | S_IXUSR)) != (S_IRUSR | S_IXUSR))
		return complain(e, EACCES,
				"keeps its owner out, so it is committed as a "
				"whole",
				err);
	r = add_dir(pl, e, DIR_LAZY, false, &dir, err);
	if (r == 0)
		r = add_meta(pl, e, dir, err);
	if (r == 0 && selected && !v->made) {
		pl->plan->n_published++;
		r = make_parents(pl, dir, err);
	}
	return r < 0 ? r : walk_enter(&pl->walk, WALK_NEW, dir, err);
}

/* The object goes from upper to lower, or the lower's goes. */
static int visit_change(struct planner *pl, const struct walk_entry *e,
			const struct verdict *v, struct error *err)
{
	uint32_t dir;
	int r = meet_special(pl, e, err);

	if (r)
		return r < 0 ? r : 0;
	r = meet_block(pl, e, existing_parent(pl->plan, e->tag), err);
	if (r == 0 && v->conflict)
		r = meet_conflict(pl, e, v, err);
	if (r)
		return r < 0 ? r : 0;
	if (!(v->flags & CHANGE_MTIME_ONLY))
		count(pl, e);
	if (v->kind == CHANGE_DELETE)
		return add_change(pl, e, v, OP_DELETE,
				  S_ISDIR(e->lower.mode) ? OP_IS_DIR : 0, err);
	r = mark_link(pl, e, err);
	if (r == 0)
		r = add_change(pl, e, v, OP_PUT, 0, err);
	if (r < 0 || !S_ISDIR(e->upper.mode))
		return r;
	/* Its mtime must survive an exchange: keep_mtimes. */
	r = add_dir(pl, e, DIR_MOVED | (e->lower.mode ? DIR_USED : 0), false,
		    &dir, err);
	return r < 0 ? r : walk_enter(&pl->walk, WALK_NEW, dir, err);
}

static int visit(struct planner *pl, const struct walk_entry *e,
		 struct error *err)
{
	bool upper_dir = S_ISDIR(e->upper.mode);
	bool selected, both;
	struct verdict v = { .changed = false };
	struct walk_entry adopted;
	int r;

	if (e->leaving)
		return 0;
	e = judge_adopt(&pl->judge, e, &adopted);
	if (e->path_len > 0 && pl->plan->dirs[e->tag].flags & DIR_MOVED)
		return visit_moved(pl, e, err);
	selected = selection_has(&pl->selection, e->path);
	if (!selected &&
	    (!upper_dir || !selection_leads(&pl->selection, e->path)))
		return 0;
	r = judge_entry(&pl->judge, e, &v, err);
	if (r < 0)
		return r;
	both = upper_dir && S_ISDIR(e->lower.mode) && !e->opaque;
	if (both)
		return visit_both(pl, e, &v, selected, err);
	if (upper_dir && (!selected || v.was_made))
		return visit_lazy(pl, e, &v, selected, err);
	if (v.changed)
		return visit_change(pl, e, &v, err);
	if (!upper_dir && !v.made && !e->whiteout && e->upper.nlink > 1 &&
	    e->lower.mode)
		return add_op(pl, e, OP_PUT, OP_MAYBE, err);
	return 0;
}

/* Unchanged names go along where another name of their inode goes. */
static int resolve_links(struct planner *pl, struct error *err)
{
	struct plan *p = pl->plan;
	size_t kept = 0;

	for (size_t i = 0; i < p->n_ops; i++) {
		struct plan_op op = p->ops[i];

		if (op.flags & OP_MAYBE) {
			const struct link *l =
				links_find(pl->judge.links, op.new_ino);

			if (!l || !l->mark)
				continue;
			op.flags &= (uint8_t)~OP_MAYBE;
			p->dirs[op.dir].flags |= DIR_TOUCHED;
		}
		p->ops[kept++] = op;
	}
	p->n_ops = kept;
	return 0;
}

/* Of files that belong together all stay where one has to. */
static int settle_groups(struct planner *pl, struct error *err)
{
	int r = 0;

	groups_sort(&pl->skipped);
	if (pl->skipped.n > 0)
		r = group_leave_out(pl->plan, &pl->skipped);
	if (r == 0)
		r = group_join_databases(pl->plan);
	return r < 0 ? no_memory(err) : 0;
}

static int check_conflicts(const struct planner *pl, struct error *err)
{
	if (!pl->refused)
		return 0;
	if (!err)
		return error_code(&pl->first);
	*err = pl->first;
	if (pl->n_conflicts > 1) {
		size_t n = strlen(err->msg);

		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       " (and %zu more)", pl->n_conflicts - 1);
	}
	return error_hint(err,
			  "nothing was published; see 'sandlock diff %s', "
			  "then commit with --skip-conflicts%s%s",
			  pl->branch->meta.name, pl->hard ? "" : " or --force",
			  pl->locked ? ", or with --force after chattr -ia"
			  : pl->hard ? ": --force does not overrule this"
				     : "");
}

int plan_commit(struct plan *p, struct branch *b, const struct site *s,
		const struct commit_options *o, struct sink *sink,
		struct error *err)
{
	auto_(planner) struct planner pl = {
		.plan = p, .branch = b, .options = o, .sink = sink
	};
	struct walk_entry *e;
	int r = selection_init(&pl.selection, b, o->paths, o->n_paths, err);

	p->staged = s->staged;
	p->allow_special = o->allow_special;
	p->partial = o->n_paths > 0;
	if (r == 0)
		r = selection_check(&pl.selection, b->meta.name, s->upper_fd,
				    err);
	if (r == 0)
		r = judge_init(&pl.judge, b, err);
	pl.judge.conflicts = true;
	pl.judge.inside = sink->out_fd >= 0;
	if (r == 0)
		r = walk_init(&pl.walk, s->upper_fd, s->view_fd, s->prefix,
			      err);
	pl.walk.noted = &b->meta;
	while (r == 0 && (r = walk_next(&pl.walk, &e, err)) == 1)
		r = visit(&pl, e, err);
	if (r == 0)
		r = check_conflicts(&pl, err);
	if (r == 0)
		r = settle_groups(&pl, err);
	if (r == 0)
		r = resolve_links(&pl, err);
	/* The stage comes and goes in the root. */
	if (r == 0 && p->staged && p->n_ops > 0)
		p->dirs[0].flags |= DIR_TOUCHED;
	return r == 0 ? plan_finish(p, err) : r;
}
