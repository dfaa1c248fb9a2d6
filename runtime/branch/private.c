/*
 * The side of a commit that only touches the branch: marks of the overlay come
 * off before objects move, and go back when the commit is taken back; what was
 * published leaves upper where something else stays pending.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "branch/internal.h"
#include "branch/move.h"
#include "branch/plan.h"
#include "branch/publish.h"
#include "branch/site.h"
#include "branch/walk.h"

struct keeper {
	const struct site *site;
	const struct plan *plan;
	struct cursor upper, lower;
};

static void keeper_init(struct keeper *k, const struct site *s,
			const struct plan *p)
{
	*k = (struct keeper){ .site = s, .plan = p };
	cursor_init(&k->upper, p, s->upper_fd, false);
	cursor_init(&k->lower, p, s->lower_fd, true);
}

static void keeper_done(struct keeper *k)
{
	cursor_done(&k->upper);
	cursor_done(&k->lower);
}

static int fail(const struct keeper *k, uint32_t dir, const char *name, int sys,
		const char *what, struct error *err)
{
	auto_(buf) struct buf path = BUF_INIT;
	auto_(buf) struct buf quoted = BUF_INIT;

	plan_path(k->plan, dir, name, &path);
	path_quote(&quoted, buf_str(&path), path.len);
	return error_set(err, ERR_SYSTEM, sys, "cannot %s '%s' of the branch",
			 what, path.len ? buf_str(&quoted) : ".");
}

enum { NUMBER_LEN = 24 };

static const char *number(const struct keeper *k, const struct plan_op *op,
			  const char *prefix, char ret[NUMBER_LEN])
{
	(void)snprintf(ret, NUMBER_LEN, "%s%zu", prefix,
		       (size_t)(op - k->plan->ops));
	return ret;
}

/* Moving things about must not show in the times that get published. */
static int restore_mtime(struct keeper *k, uint32_t dir)
{
	const struct plan_dir *d = &k->plan->dirs[dir];
	const struct timespec mtime = { .tv_sec = d->upper_mtime_s,
					.tv_nsec = d->upper_mtime_ns };
	int fd, r = cursor_open(&k->upper, dir, &fd);

	if (r == -ENOENT)
		return 0; /* it has moved */
	return r < 0 ? r : object_set_mtime(fd, "", mtime);
}

/* The object of an op where it is now: in upper, or published already. */
static int find_object(struct keeper *k, const struct plan_op *op,
		       int *ret_dirfd)
{
	const char *name = plan_text(k->plan, op->name);
	struct cursor *sides[] = { &k->upper, &k->lower };

	for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
		struct object o;
		int r = cursor_open(sides[i], op->dir, ret_dirfd);

		if (r == 0)
			r = object_stat(*ret_dirfd, name, &o);
		if (r == 0 && o.mode && o.ino == op->new_ino)
			return 0;
		if (r < 0 && r != -ENOENT && r != -ENOTDIR)
			return r;
	}
	return -ENOENT;
}

static int strip_object(struct keeper *k, int dirfd, const char *name,
			const struct xattrs *stored, bool undo)
{
	return undo ? xattrs_unstrip(dirfd, name, k->site->prefix, stored)
		    : xattrs_strip(dirfd, name, k->site->prefix, stored);
}

static int strip(struct keeper *k, const struct plan_op *op, bool undo,
		 struct error *err)
{
	auto_(xattrs) struct xattrs stored = XATTRS_INIT;
	const char *name = plan_text(k->plan, op->name);
	int dirfd, r;

	if (op->strip == PLAN_NONE || (op->flags & OP_MKDIR))
		return 0;
	r = plan_get_xattrs(k->plan, op->strip, &stored);
	if (r == 0)
		r = find_object(k, op, &dirfd);
	/* It was published, and then replaced by somebody else. */
	if (r == -ENOENT)
		return 0;
	if (r == 0) {
		branch_step("attributes");
		r = strip_object(k, dirfd, name, &stored, undo);
	}
	if (r == -EACCES) {
		struct shut shut;

		place_open_shut(&(struct place){ dirfd, name, "" }, &shut);
		r = strip_object(k, dirfd, name, &stored, undo);
		place_shut(&shut);
	}
	return r < 0 ? fail(k, op->dir, name, -r, "prepare", err) : 0;
}

static int drop(struct keeper *k, const struct plan_op *op, bool undo,
		struct error *err)
{
	const char *name = plan_text(k->plan, op->name);
	char to[NUMBER_LEN];
	int fd, r = cursor_open(&k->upper, op->dir, &fd);

	(void)number(k, op, "", to);
	if (r == -ENOENT)
		return 0; /* its directory has moved without it */
	if (r < 0)
		return fail(k, op->dir, name, -r, "set aside", err);
	branch_step("set aside");
	r = undo ? renameat2(k->site->stage_fd, to, fd, name, RENAME_NOREPLACE)
		 : renameat2(fd, name, k->site->stage_fd, to, RENAME_NOREPLACE);
	if (r < 0 && errno != ENOENT)
		return fail(k, op->dir, name, errno, "set aside", err);
	r = restore_mtime(k, op->dir);
	return r < 0 ? fail(k, op->dir, NULL, -r, "set the times of", err) : 0;
}

static int prepare_all(struct keeper *k, bool undo, struct error *err)
{
	const struct plan *p = k->plan;
	int r = 0;

	for (size_t i = 0; i < p->n_ops && r == 0; i++) {
		if (p->ops[i].kind == OP_DROP)
			r = drop(k, &p->ops[i], undo, err);
		else
			r = strip(k, &p->ops[i], undo, err);
	}
	return r;
}

int publish_prepare(const struct site *s, const struct plan *p,
		    struct error *err)
{
	struct keeper k;
	int r;

	keeper_init(&k, s, p);
	r = prepare_all(&k, false, err);
	keeper_done(&k);
	return r;
}

static int restore_mtimes(struct keeper *k, unsigned int flags,
			  struct error *err)
{
	for (uint32_t i = 0; i < k->plan->n_dirs; i++) {
		int r;

		if (!(k->plan->dirs[i].flags & flags))
			continue;
		r = restore_mtime(k, i);
		if (r < 0)
			return fail(k, i, NULL, -r, "set the times of", err);
	}
	return 0;
}

int publish_undo_prepare(const struct site *s, const struct plan *p,
			 struct error *err)
{
	struct keeper k;
	int r;

	keeper_init(&k, s, p);
	r = prepare_all(&k, true, err);
	if (r == 0)
		r = restore_mtimes(&k, DIR_TOUCHED | DIR_MOVED, err);
	keeper_done(&k);
	return r;
}

/*
 * A directory that was made in the lower for a part of it is merged from now
 * on, so it hides nothing any more.
 */
static int unmark_opaque(struct keeper *k, int dirfd, const char *name)
{
	auto_free char *key = NULL;
	int r;

	if (asprintf(&key, "%sopaque", k->site->prefix) < 0) {
		key = NULL;
		return -ENOMEM;
	}
	r = xattr_remove(dirfd, name, key);
	return r == -ENODATA ? 0 : r;
}

static int prune(struct keeper *k, const struct plan_op *op, struct error *err)
{
	const char *name = plan_text(k->plan, op->name);
	char to[NUMBER_LEN];
	struct object o;
	int fd, r = cursor_open(&k->upper, op->dir, &fd);

	if (r == 0)
		r = object_stat(fd, name, &o);
	if (r == -ENOENT || (r == 0 && !o.mode))
		return 0;
	branch_step("prune");
	if (r == 0 && (op->flags & OP_MKDIR))
		r = unmark_opaque(k, fd, name);
	else if (r == 0 &&
		 renameat2(fd, name, k->site->trash_fd, number(k, op, "u", to),
			   RENAME_NOREPLACE) < 0)
		r = -errno;
	return r < 0 ? fail(k, op->dir, name, -r, "remove", err) : 0;
}

int publish_prune(const struct site *s, const struct plan *p, struct error *err)
{
	struct keeper k;
	int r = 0;

	keeper_init(&k, s, p);
	for (size_t i = 0; i < p->n_ops && r == 0; i++)
		if (p->ops[i].kind == OP_PUT || p->ops[i].kind == OP_DELETE)
			r = prune(&k, &p->ops[i], err);
	if (r == 0)
		r = restore_mtimes(&k, DIR_TOUCHED, err);
	keeper_done(&k);
	return r;
}

/* Bases */

struct bases {
	struct branch_record *v;
	size_t n, cap;
};

static int add_base(struct bases *b, const struct plan *p, uint32_t dir,
		    const char *name, const struct stat *st)
{
	auto_(buf) struct buf path = BUF_INIT;

	if (b->n == b->cap) {
		size_t cap = b->cap ? 2 * b->cap : 64;
		struct branch_record *grown =
			reallocarray(b->v, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		b->v = grown;
		b->cap = cap;
	}
	plan_path(p, dir, name, &path);
	b->v[b->n] = (struct branch_record){ .path = buf_take(&path, NULL) };
	if (!b->v[b->n].path)
		return -ENOMEM;
	record_set(&b->v[b->n++], st);
	return 0;
}

static int compare_records(const void *a, const void *b)
{
	return strcmp(((const struct branch_record *)a)->path,
		      ((const struct branch_record *)b)->path);
}

/* Both are sorted; of two with one path the new one stays. */
static int merge_bases(struct branch_meta *m, struct bases *add)
{
	size_t i = 0, k = 0, n = 0;
	struct branch_record *all =
		calloc(m->n_bases + add->n + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	if (add->n > 1)
		qsort(add->v, add->n, sizeof(*add->v), compare_records);
	while (i < m->n_bases || k < add->n) {
		int order = i == m->n_bases ? 1
			    : k == add->n
				    ? -1
				    : strcmp(m->bases[i].path, add->v[k].path);

		if (order == 0)
			free(m->bases[i++].path);
		else if (order < 0)
			all[n++] = m->bases[i++];
		if (order >= 0)
			all[n++] = add->v[k++];
	}
	free(m->bases);
	free(add->v);
	*add = (struct bases){ .v = NULL };
	m->bases = all;
	m->n_bases = n;
	return 0;
}

/* Not the host's, which changed it while we were at work: a conflict. */
static bool is_as_we_left(const struct stat *st, const struct dir_state *d)
{
	return st->st_mode == d->mode && st->st_uid == d->uid &&
	       st->st_gid == d->gid;
}

/* The directories that we touched have a new ctime. */
static int add_dir_bases(struct keeper *k, struct bases *b, bool undone)
{
	const struct plan *p = k->plan;
	struct stat st;
	int fd, r = 0;

	for (uint32_t i = 0; i < p->n_dirs && r == 0; i++) {
		const struct plan_dir *d = &p->dirs[i];

		if (!(d->flags & (DIR_TOUCHED | DIR_META)) ||
		    (d->flags & (DIR_MOVED | DIR_LAZY | DIR_HOSTS)) ||
		    (undone && !(d->flags & DIR_IN_LOWER)))
			continue;
		r = cursor_open(&k->lower, i, &fd);
		if (r == 0 && fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
			r = -errno;
		if (r == 0 && is_as_we_left(&st, undone ? &d->old : &d->new))
			r = add_base(b, p, i, NULL, &st);
	}
	return r;
}

/*
 * Displaced for good, it matters only if the lower has other names of it, whose
 * ctime changes once more when it is removed: recorded as 0. It is where the op
 * left it, or prune.
 */
static int find_displaced(struct keeper *k, const struct plan_op *op,
			  char name[NUMBER_LEN], int *ret_dirfd,
			  struct stat *st)
{
	const struct site *s = k->site;
	bool pruned = op->kind == OP_PUT && !(op->flags & OP_STAGED);
	int r;

	*ret_dirfd = pruned ? s->trash_fd : s->stage_fd;
	(void)number(k, op, pruned ? "u" : "", name);
	r = fstatat(*ret_dirfd, name, st, AT_SYMLINK_NOFOLLOW);
	/* Or aside, where nothing could be exchanged. */
	if (r < 0 && errno == ENOENT) {
		*ret_dirfd = s->stage_fd;
		r = fstatat(s->stage_fd, number(k, op, "o", name), st,
			    AT_SYMLINK_NOFOLLOW);
	}
	if (r < 0)
		return -errno;
	st->st_ctim = (struct timespec){ .tv_sec = 0 };
	return 0;
}

/* The same of all that a directory took with it. */
static int add_bases_below(const struct keeper *k, const struct plan_op *op,
			   int dirfd, const char *name, struct bases *b)
{
	auto_(walk) struct walk w = { .depth = 0 };
	auto_(buf) struct buf path = BUF_INIT;
	struct walk_entry *e;
	auto_close int fd = fd_open_beneath(
		dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		0);
	int r = fd < 0 ? fd : walk_init(&w, -1, fd, "", NULL);

	while (r == 0 && (r = walk_next(&w, &e, NULL)) == 1) {
		struct stat st;

		r = 0;
		if (e->leaving)
			continue;
		if (S_ISDIR(e->lower.mode)) {
			r = walk_enter(&w, WALK_DELETED, WALK_NO_TAG, NULL);
			continue;
		}
		if (e->lower.nlink < 2)
			continue;
		buf_clear(&path);
		buf_printf(&path, "%s/%s", plan_text(k->plan, op->name),
			   e->path);
		r = fstatat(e->lower_dirfd, e->name, &st, AT_SYMLINK_NOFOLLOW);
		st.st_ctim = (struct timespec){ .tv_sec = 0 };
		r = r < 0 ? -errno
			  : add_base(b, k->plan, op->dir, buf_str(&path), &st);
	}
	return r;
}

static int add_displaced(struct keeper *k, const struct plan_op *op,
			 struct bases *b)
{
	char name[NUMBER_LEN];
	struct stat st;
	int dirfd, r = find_displaced(k, op, name, &dirfd, &st);

	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return add_bases_below(k, op, dirfd, name, b);
	return st.st_nlink < 2 ? 0
			       : add_base(b, k->plan, op->dir,
					  plan_text(k->plan, op->name), &st);
}

/* Put back, the old object is at its path again, with a new ctime. */
static int add_restored(struct keeper *k, const struct plan_op *op,
			struct bases *b)
{
	const char *name = plan_text(k->plan, op->name);
	struct object o = { 0 };
	struct stat st;
	int fd, r = cursor_open(&k->lower, op->dir, &fd);

	if (r == 0)
		r = object_stat(fd, name, &o);
	/* Changed by the host since it was planned: that is a conflict. */
	if (r < 0 || !o.mode || !plan_is_old(op, &o) ||
	    !plan_has_old_xattrs(op, fd, name, k->site->prefix))
		return r;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return add_base(b, k->plan, op->dir, name, &st);
}

static int collect_bases(struct keeper *k, struct bases *b, bool undone)
{
	const struct plan *p = k->plan;
	int r = add_dir_bases(k, b, undone);

	for (size_t i = 0; i < p->n_ops && r == 0; i++) {
		const struct plan_op *op = &p->ops[i];

		if (!op->old_ino || (op->flags & OP_FORCED) ||
		    (op->kind != OP_PUT && op->kind != OP_DELETE))
			continue;
		r = undone ? add_restored(k, op, b) : add_displaced(k, op, b);
		if (r == -ENOENT)
			r = 0;
	}
	return r;
}

int publish_rebase(struct branch *b, const struct site *s, const struct plan *p,
		   bool undone, struct error *err)
{
	struct bases add = { .v = NULL };
	struct keeper k;
	int r;

	keeper_init(&k, s, p);
	r = collect_bases(&k, &add, undone);
	keeper_done(&k);
	if (r == 0)
		r = merge_bases(&b->meta, &add);
	records_free(add.v, add.n);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot record what branch '%s' is based on",
				 b->meta.name)
		     : 0;
}
