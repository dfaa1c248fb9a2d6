#include "branch/judge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/group.h"
#include "branch/internal.h"
#include "branch/links.h"
#include "branch/origin.h"
#include "branch/tree.h"

static int compare_inodes(const void *a, const void *b)
{
	const struct branch_record *x = *(const struct branch_record *const *)a;
	const struct branch_record *y = *(const struct branch_record *const *)b;

	return (x->ino > y->ino) - (x->ino < y->ino);
}

static bool is_record_of(const struct branch_record *r, const struct object *o)
{
	return r->mode == o->mode && r->uid == o->uid && r->gid == o->gid &&
	       time_compare(&r->mtime, &o->mtime) == 0 &&
	       (r->ctime.tv_sec == 0 ||
		time_compare(&r->ctime, &o->ctime) == 0);
}

/*
 * Displacing one name of an inode changes the ctime of its other names; which
 * these are nobody knows, so they are recognised by inode and contents' time.
 * What was put back has its own ctime, too: else the host has moved it.
 */
static bool is_known_inode(const struct judge *j, const struct object *o)
{
	const struct branch_record *const *v = j->by_inode;
	size_t low = 0, high = v ? j->branch->meta.n_bases : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (v[middle]->ino < o->ino)
			low = middle + 1;
		else
			high = middle;
	}
	for (; v && low < j->branch->meta.n_bases && v[low]->ino == o->ino;
	     low++)
		if (is_record_of(v[low], o))
			return true;
	return false;
}

static int index_bases(struct judge *j)
{
	const struct branch_meta *m = &j->branch->meta;

	if (m->n_bases == 0)
		return 0;
	j->by_inode = calloc(m->n_bases, sizeof(*j->by_inode));
	if (!j->by_inode)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_bases; i++)
		j->by_inode[i] = &m->bases[i];
	qsort(j->by_inode, m->n_bases, sizeof(*j->by_inode), compare_inodes);
	return 0;
}

int judge_init(struct judge *j, const struct branch *b, struct error *err)
{
	*j = (struct judge){ .branch = b, .prefix = branch_xattr_prefix(b) };
	j->links = links_new();
	j->chunk = malloc(2 * (size_t)CONTENT_CHUNK);
	if (!j->links || !j->chunk || index_bases(j) < 0) {
		judge_done(j);
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot compare");
	}
	return 0;
}

void judge_done(struct judge *j)
{
	links_free(j->links);
	origins_free(j->origins);
	free(j->chunk);
	free(j->by_inode);
	buf_done(&j->dir);
	buf_done(&j->text);
	buf_done(&j->xattrs);
	buf_done(&j->before_target);
	buf_done(&j->after_target);
	j->links = NULL;
	j->origins = NULL;
	j->chunk = NULL;
	j->by_inode = NULL;
}

/*
 * ctime cannot be set back, so what is not younger than the branch is what the
 * branch began with. A rollback or a partial commit touched objects itself and
 * recorded how it left them.
 */
bool judge_base_changed(const struct judge *j, const char *path,
			const struct object *lower)
{
	const struct branch_meta *m = &j->branch->meta;
	const struct branch_record *r;

	if (time_compare(&lower->ctime, &m->base_time) <= 0)
		return false;
	r = record_find(m->bases, m->n_bases, path);
	if (r && r->ino == lower->ino)
		return time_compare(&r->ctime, &lower->ctime) != 0;
	return S_ISDIR(lower->mode) || !is_known_inode(j, lower);
}

static uint32_t host_id(const struct idmap_list *l, uint32_t inside)
{
	uint32_t outside;

	return idmap_to_outside(l, inside, &outside) < 0 ? inside : outside;
}

static uint32_t outside_uid(const struct judge *j, uint32_t uid)
{
	return j->inside ? host_id(&j->branch->meta.idmap.uids, uid) : uid;
}

static uint32_t outside_gid(const struct judge *j, uint32_t gid)
{
	return j->inside ? host_id(&j->branch->meta.idmap.gids, gid) : gid;
}

/*
 * The runtime's own objects, as it left them. ctime does not count: the
 * overlay marks a directory when it copies something up into it.
 */
static bool is_as_made(const struct judge *j, const struct branch_record *r,
		       const struct walk_entry *e)
{
	const struct object *o = &e->upper;
	/* judge_adopt put the lower's ids where the record's were. */
	bool uid = r->uid == outside_uid(j, o->uid) || o->uid == e->lower.uid;
	bool gid = r->gid == outside_gid(j, o->gid) || o->gid == e->lower.gid;

	return r->ino == o->ino && r->mode == o->mode && uid && gid &&
	       time_compare(&r->mtime, &o->mtime) == 0;
}

/* Opened for writing only: was noted, whatever the lower has now. */
static bool is_equal_to_base(struct judge *j, const struct walk_entry *e)
{
	const struct branch_meta *m = &j->branch->meta;
	const struct branch_record *r;

	if (e->region != WALK_MERGED || !S_ISREG(e->upper.mode) ||
	    e->upper.nlink != 1)
		return false;
	r = m->n_equal ? record_find(m->equal, m->n_equal, e->path) : NULL;
	if (r && is_as_made(j, r, e) &&
	    time_compare(&r->ctime, &e->upper.ctime) == 0)
		return true;
	/* Where the lower is as it was a comparison tells. */
	return (!e->lower.mode || judge_base_changed(j, e->path, &e->lower)) &&
	       origin_is_equal(&j->origins, j->branch, e->path, e->path_len,
			       &e->upper, NULL);
}

static bool was_copied_up(struct judge *j, const struct walk_entry *e)
{
	/* Without memory for it nothing else works, either. */
	if (j->branch->meta.notify)
		return origin_was_copied(&j->origins, j->branch, e, NULL) == 1;
	return origin_find(j->branch, e);
}

static int fail(const struct walk_entry *e, int sys, const char *what,
		struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;

	path_quote(&b, e->path, e->path_len);
	return error_set(err, ERR_SYSTEM, sys, "cannot %s '%s'", what,
			 e->path_len ? buf_str(&b) : ".");
}

/* Conflicts */

static void say_conflict(struct judge *j, struct verdict *v, const char *what,
			 const char *path)
{
	buf_clear(&j->text);
	buf_add_str(&j->text, what);
	if (path) {
		buf_add_str(&j->text, ": ");
		path_quote(&j->text, path, strlen(path));
	}
	v->flags |= CHANGE_CONFLICT;
	v->conflict = buf_failed(&j->text) ? what : buf_str(&j->text);
}

/*
 * Whether the host made or changed this object inside a directory that the
 * branch deletes. A directory that only lost entries is no loss; one that is
 * younger than the branch, or was moved here (ctime without mtime), is.
 */
static bool is_hosts(const struct judge *j, const char *path,
		     const struct object *o)
{
	const struct timespec *base = &j->branch->meta.base_time;

	if (!judge_base_changed(j, path, o))
		return false;
	return !S_ISDIR(o->mode) || time_compare(&o->btime, base) > 0 ||
	       time_compare(&o->mtime, base) <= 0;
}

/*
 * A directory that the host moved here and then changed looks like one that
 * only lost entries; but the directory that it came to has changed, too. @path
 * is cut at the last slash meanwhile.
 */
static bool may_be_moved(const struct judge *j, char *path,
			 const struct walk_entry *e)
{
	char *slash = strrchr(path, '/');
	struct object above;
	bool may;

	if (!S_ISDIR(e->lower.mode) || !judge_base_changed(j, path, &e->lower))
		return false;
	if (object_stat(e->lower_dirfd, "", &above) < 0)
		return true;
	*slash = '\0';
	may = judge_base_changed(j, path, &above);
	*slash = '/';
	return may;
}

/* The first thing below a directory that must not go with it. */
static int scan_below(struct judge *j, const struct walk_entry *dir,
		      struct verdict *v, struct error *err)
{
	auto_(walk) struct walk w = { .depth = 0 };
	auto_close int fd = -1;
	auto_(buf) struct buf path = BUF_INIT;
	struct walk_entry *e;
	int r = walk_open_lower(dir, &fd);

	if (r < 0)
		return fail(dir, -r, "look into", err);
	r = walk_init(&w, -1, fd, j->prefix, err);
	while (r >= 0 && (r = walk_next_lower(&w, &e, err)) == 1) {
		if (e->leaving || e->path_len == 0)
			continue;
		v->below = tree_hash_entry(v->below, e);
		buf_clear(&path);
		buf_printf(&path, "%s/%s", dir->path, e->path);
		if (e->lower.is_mount || e->lower.is_locked) {
			say_conflict(j, v,
				     e->lower.is_mount
					     ? "holds a mount point"
					     : "holds what is immutable or "
					       "append-only",
				     buf_str(&path));
			v->hard = true;
			v->locked = !e->lower.is_mount;
			return 0;
		}
		if (!v->conflict && (is_hosts(j, buf_str(&path), &e->lower) ||
				     may_be_moved(j, path.data, e)))
			say_conflict(j, v, "new or changed on the host",
				     buf_str(&path));
	}
	return r;
}

/*
 * Copied up, but the lower has none: the sandbox moved it, or the host removed
 * the original, for which it touched the directory.
 */
static int lost_its_base(struct judge *j, const struct walk_entry *e,
			 struct error *err)
{
	auto_free char *parent = NULL;
	struct object dir;
	int r;

	if (S_ISDIR(e->upper.mode) || !was_copied_up(j, e))
		return 0;
	if (j->branch->meta.notify)
		return 1;
	parent = strndup(e->path, (size_t)(e->name - e->path));
	if (!parent)
		return fail(e, ENOMEM, "compare", err);
	if (e->name > e->path)
		parent[e->name - e->path - 1] = '\0';
	r = object_stat(e->lower_dirfd, "", &dir);
	if (r < 0)
		return fail(e, -r, "look above", err);
	if (!judge_base_changed(j, parent, &dir))
		return 0;
	return origin_is_lost(&j->origins, j->branch, e, err);
}

static const char *changed_words(struct judge *j, const struct walk_entry *e)
{
	const struct timespec *base = &j->branch->meta.base_time;

	if (!e->whiteout && !was_copied_up(j, e) &&
	    time_compare(&e->lower.btime, base) > 0)
		return "made on the host, too";
	return "changed on the host since the branch began";
}

static bool is_another_at(struct judge *j, const char *path, size_t len,
			  const struct origin_place *place)
{
	if (origin_is_known_place(&j->origins, j->branch, path, len))
		return origin_is_another(&j->origins, j->branch, path, len,
					 place->low);
	return len > 0 && judge_base_changed(j, path, place->low) &&
	       !origin_was_seen(&j->origins, j->branch, path, len,
				place->low) &&
	       origin_is_doubtful(place);
}

/* The lower had another one there, or none; or nobody saw what it had. */
static bool is_another(struct judge *j, const struct walk_entry *e)
{
	const struct origin_place place = {
		.up_dirfd = e->upper_dirfd,
		.low_dirfd = e->lower_dirfd,
		.name = e->name,
		.up = &e->upper,
		.low = &e->lower,
		.base_time = &j->branch->meta.base_time,
		.prefix = j->prefix,
	};

	return is_another_at(j, e->path, e->path_len, &place);
}

/* A directory of both sides: only its own metadata can be in conflict. */
static bool dir_in_conflict(struct judge *j, const struct walk_entry *e,
			    const struct verdict *v)
{
	if ((v->flags & CHANGE_MTIME_ONLY) ||
	    !judge_base_changed(j, e->path, &e->lower))
		return false;
	/* Entries that come and go set mtime and ctime to the same. */
	return !was_copied_up(j, e) || is_another(j, e) ||
	       time_compare(&e->lower.ctime, &e->lower.mtime) != 0;
}

/* Whether upper's directory that @e is in was copied up from the lower's. */
static bool is_in_copied_up(struct judge *j, const struct walk_entry *e)
{
	struct walk_entry dir = {
		.path = e->path,
		.path_len = (size_t)(e->name - e->path) - 1,
	};

	if (!j->branch->meta.notify)
		return origin_is_of_dir(&j->origins, j->branch, e);
	return object_stat(e->upper_dirfd, "", &dir.upper) < 0 ||
	       origin_was_copied(&j->origins, j->branch, &dir, NULL);
}

static int open_here(int dirfd, const char *name)
{
	return openat(dirfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void step_up(int *fd)
{
	int up = open_here(*fd, "..");

	(void)close(*fd);
	*fd = up;
}

/*
 * The branch made the directory that @e is in, where there was none, or copied
 * another one up (that, or one above it), and the lower has one by now: what is
 * in that is not what the branch saw, however old. So it is with a directory
 * that another branch has published meanwhile.
 */
static bool is_anothers(struct judge *j, const struct walk_entry *e, char *path)
{
	bool copied = is_in_copied_up(j, e);
	auto_close int low_fd = open_here(e->lower_dirfd, ".");
	auto_close int up_fd = open_here(e->upper_dirfd, ".");
	struct object low, up, above;
	const struct origin_place place = {
		.name = ".",
		.up = &up,
		.low = &low,
		.above = &above,
		.base_time = &j->branch->meta.base_time,
		.prefix = j->prefix,
	};
	char *end;

	while (low_fd >= 0 && up_fd >= 0 && (end = strrchr(path, '/'))) {
		struct origin_place here = place;

		*end = '\0';
		here.up_dirfd = up_fd;
		here.low_dirfd = low_fd;
		if (object_stat(low_fd, "", &low) < 0 ||
		    object_stat(up_fd, "", &up) < 0 ||
		    object_stat(low_fd, "..", &above) < 0 ||
		    (!copied && judge_base_changed(j, path, &low)) ||
		    is_another_at(j, path, strlen(path), &here))
			return true;
		step_up(&low_fd);
		step_up(&up_fd);
	}
	return false;
}

/* Asked of one entry after the other of a directory. */
static bool is_in_anothers(struct judge *j, const struct walk_entry *e)
{
	size_t len = (size_t)(e->name - e->path);
	auto_free char *path = NULL;

	if (!len || e->region != WALK_MERGED)
		return false;
	if (j->dir.len == len && memcmp(j->dir.data, e->path, len) == 0)
		return j->dir_is_anothers;
	path = strndup(e->path, len);
	buf_clear(&j->dir);
	j->dir_is_anothers = path && is_anothers(j, e, path);
	buf_add(&j->dir, e->path, len);
	return j->dir_is_anothers;
}

static int find_conflict(struct judge *j, const struct walk_entry *e,
			 struct verdict *v, struct error *err)
{
	bool upper_dir = S_ISDIR(e->upper.mode);
	bool lower_dir = S_ISDIR(e->lower.mode);
	bool copied = upper_dir && !e->opaque && was_copied_up(j, e);

	if (e->path_len > 0 && e->lower.is_mount) {
		say_conflict(j, v, "is a mount point on the host", NULL);
		v->hard = true;
	} else if (e->lower.is_locked) {
		say_conflict(j, v, "is immutable or append-only", NULL);
		v->hard = v->locked = true;
	} else if (copied && !e->lower.mode) {
		say_conflict(j, v, "removed on the host", NULL);
	} else if (copied && S_ISLNK(e->lower.mode)) {
		say_conflict(j, v, "is a symbolic link on the host now", NULL);
	} else if (copied && !lower_dir) {
		say_conflict(j, v, "is no directory on the host now", NULL);
	} else if (!e->lower.mode) {
		int r = origin_had_lower(&j->origins, j->branch, e->path,
					 e->path_len, err);

		if (r == 0)
			r = lost_its_base(j, e, err);
		if (r == 1)
			say_conflict(j, v, "removed on the host", NULL);
		return r < 0 ? r : 0;
	} else if (upper_dir && lower_dir && !e->opaque) {
		if (dir_in_conflict(j, e, v))
			say_conflict(j, v,
				     "its mode, owner or attributes "
				     "changed on the host",
				     NULL);
	} else if (lower_dir) {
		int r = scan_below(j, e, v, err);

		/* Even empty it is not what the branch saw there. */
		if (r >= 0 && !v->conflict &&
		    (is_hosts(j, e->path, &e->lower) || is_in_anothers(j, e) ||
		     is_another(j, e)))
			say_conflict(j, v, changed_words(j, e), NULL);
		return r;
	} else if (judge_base_changed(j, e->path, &e->lower)) {
		say_conflict(j, v, changed_words(j, e), NULL);
	} else if (is_another(j, e)) {
		say_conflict(j, v, "another one is there on the host now",
			     NULL);
	} else if (is_in_anothers(j, e)) {
		say_conflict(j, v,
			     is_in_copied_up(j, e)
				     ? "its directory is another one on the "
				       "host now"
				     : "made on the host, too",
			     NULL);
	} else if (content_is_open_database(e->lower_dirfd, e->name,
					    &e->lower)) {
		say_conflict(j, v, "is a database that is open on the host",
			     NULL);
	}
	return 0;
}

/* Differences */

static void tell_xattrs(struct buf *b, const struct xattrs *old,
			const struct xattrs *new)
{
	size_t i = 0, k = 0;

	buf_clear(b);
	while (i < old->n || k < new->n) {
		int order = i == old->n ? 1
			    : k == new->n
				    ? -1
				    : strcmp(old->v[i].key, new->v[k].key);
		const struct xattr *x = order > 0 ? &new->v[k] : &old->v[i];
		bool same = order == 0 &&
			    old->v[i].len ==
				    new->v[k].len &&memcmp(old->v[i].value,
							   new->v[k].value,
							   old->v[i].len) == 0;

		if (!same) {
			if (b->len > 0)
				buf_add_char(b, ' ');
			buf_add_char(b, order == 0  ? '~'
					: order > 0 ? '+'
						    : '-');
			text_escape(b, x->key, strlen(x->key));
		}
		i += order <= 0;
		k += order >= 0;
	}
}

static int compare_xattrs(struct judge *j, const struct walk_entry *e,
			  struct verdict *v, bool *ret_differ)
{
	auto_(xattrs) struct xattrs old = XATTRS_INIT;
	auto_(xattrs) struct xattrs new = XATTRS_INIT;
	int r = xattrs_read_visible(e->upper_dirfd, e->name, j->prefix, &new);

	if (r == 0 && e->lower.mode)
		r = xattrs_read_visible(e->lower_dirfd, e->name, j->prefix,
					&old);
	if (r < 0)
		return r;
	if (xattrs_find(&new, "security.capability"))
		v->flags |= CHANGE_SETID;
	*ret_differ = !xattrs_equal(&old, &new);
	if (!*ret_differ || !j->details)
		return 0;
	tell_xattrs(&j->xattrs, &old, &new);
	if (buf_failed(&j->xattrs))
		return -ENOMEM;
	v->xattrs = buf_str(&j->xattrs);
	return 0;
}

/* 1 if what the two objects of one type hold is the same. */
static int same_content(struct judge *j, const struct walk_entry *e)
{
	switch (e->upper.mode & S_IFMT) {
	case S_IFREG:
		return content_compare(e->upper_dirfd, e->name, &e->upper,
				       e->lower_dirfd, e->name, &e->lower,
				       j->chunk);
	case S_IFLNK:
		return content_same_target(e);
	case S_IFCHR:
	case S_IFBLK:
		return e->upper.rdev == e->lower.rdev;
	default:
		return 1;
	}
}

/* It was copied up for what is in it, and the host has changed its own. */
static bool is_hosts_dir(struct judge *j, const struct walk_entry *e)
{
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	struct object upper = e->upper;

	if (!S_ISDIR(upper.mode) || e->region != WALK_MERGED ||
	    !judge_base_changed(j, e->path, &e->lower) ||
	    xattrs_read_visible(e->upper_dirfd, e->name, j->prefix, &x) < 0)
		return false;
	upper.uid = outside_uid(j, upper.uid);
	upper.gid = outside_gid(j, upper.gid);
	return origin_is_equal(&j->origins, j->branch, e->path, e->path_len,
			       &upper, &x);
}

/* Same type on both sides, and no directory that replaces another. */
static int judge_pair(struct judge *j, const struct walk_entry *e,
		      struct verdict *v, struct error *err)
{
	const struct object *u = &e->upper, *l = &e->lower;
	bool attrs = u->mode != l->mode || u->uid != l->uid || u->gid != l->gid;
	bool xattrs = false;
	int same = same_content(j, e);

	if (same < 0)
		return fail(e, -same, "compare", err);
	v->changed = true;
	v->kind = same ? CHANGE_META : CHANGE_MODIFY;
	if (is_hosts_dir(j, e)) {
		attrs = false;
	} else {
		if (!j->details && (!same || attrs))
			return 0;
		same = compare_xattrs(j, e, v, &xattrs);
		if (same < 0)
			return fail(e, -same, "read the attributes of", err);
	}
	if (v->kind == CHANGE_MODIFY || attrs || xattrs)
		return 0;
	v->opened_only = S_ISREG(u->mode);
	v->changed = time_compare(&u->mtime, &l->mtime) != 0;
	/* Both sides made it so: the host's time stands. */
	if (!S_ISDIR(u->mode) && judge_base_changed(j, e->path, l))
		v->changed = false;
	if (v->changed)
		v->flags |= CHANGE_MTIME_ONLY;
	return 0;
}

/* A second name of an inode is a change unless it was one below, too. */
static int judge_link(struct judge *j, const struct walk_entry *e,
		      struct verdict *v, struct error *err)
{
	const struct link *l = links_find(j->links, e->upper.ino);

	if (!l) {
		if (!links_add(j->links, e->upper.ino, e->lower.ino, e->path))
			return fail(e, ENOMEM, "remember", err);
		return 0;
	}
	v->link_to = l->path;
	v->flags |= CHANGE_LINK;
	if (v->changed && !(v->flags & CHANGE_MTIME_ONLY))
		return 0;
	if (l->lower_ino == e->lower.ino && !v->changed)
		return 0;
	v->changed = true;
	v->opened_only = false;
	v->kind = CHANGE_META;
	v->flags &= ~(unsigned int)CHANGE_MTIME_ONLY;
	return 0;
}

static int judge_present(struct judge *j, const struct walk_entry *e,
			 struct verdict *v, struct error *err)
{
	const struct object *u = &e->upper, *l = &e->lower;
	/* Within a replaced directory the mark says nothing new. */
	bool replaces = l->mode && e->opaque && e->region == WALK_MERGED;
	bool xattrs;
	int r;

	if (l->mode && (u->mode & S_IFMT) == (l->mode & S_IFMT) && !replaces)
		return judge_pair(j, e, v, err);
	v->changed = true;
	v->kind = l->mode ? CHANGE_TYPE : CHANGE_ADD;
	if (replaces)
		v->flags |= CHANGE_OPAQUE;
	if (!j->details)
		return 0;
	r = compare_xattrs(j, e, v, &xattrs);
	return r < 0 ? fail(e, -r, "read the attributes of", err) : 0;
}

static void set_flags(const struct walk_entry *e, struct verdict *v)
{
	const struct object *u = &e->upper, *l = &e->lower;

	if (S_ISREG(u->mode) && (u->mode & (S_ISUID | S_ISGID)))
		v->flags |= CHANGE_SETID;
	if (S_ISSOCK(u->mode) || S_ISCHR(u->mode) || S_ISBLK(u->mode))
		v->flags |= CHANGE_SPECIAL;
	if (v->changed && S_ISREG(u->mode) && S_ISREG(l->mode) &&
	    l->nlink > 1 && !(v->flags & CHANGE_LINK))
		v->flags |= CHANGE_LINK_BROKEN;
	if (v->opened_only)
		v->flags |= CHANGE_CONTENT_SAME;
	if (S_ISREG(u->mode) && !l->mode && group_is_stale_lock(e->path))
		v->flags |= CHANGE_STALE_LOCK;
}

const struct walk_entry *judge_adopt(const struct judge *j,
				     const struct walk_entry *e,
				     struct walk_entry *copy)
{
	const struct branch_meta *m = &j->branch->meta;
	const struct object *u = &e->upper;
	const struct branch_record *made;

	if (!j->inside || !m->n_made || !S_ISDIR(u->mode) ||
	    !S_ISDIR(e->lower.mode) ||
	    (u->uid == e->lower.uid && u->gid == e->lower.gid))
		return e;
	made = record_find(m->made, m->n_made, e->path);
	if (!made || made->ino != u->ino)
		return e;
	*copy = *e;
	if (made->uid == outside_uid(j, u->uid))
		copy->upper.uid = e->lower.uid;
	if (made->gid == outside_gid(j, u->gid))
		copy->upper.gid = e->lower.gid;
	return copy;
}

int judge_entry(struct judge *j, const struct walk_entry *e, struct verdict *v,
		struct error *err)
{
	const struct branch_meta *m = &j->branch->meta;
	const struct branch_record *made =
		m->n_made ? record_find(m->made, m->n_made, e->path) : NULL;
	int r = 0;

	*v = (struct verdict){ .was_made = made };
	if (e->whiteout || !e->upper.mode) {
		v->kind = CHANGE_DELETE;
		v->changed = e->lower.mode != 0;
		if (!v->changed)
			v->flags |= CHANGE_ABSENT;
		if (!e->upper.mode)
			v->flags |= CHANGE_IMPLIED;
	} else if (made && is_as_made(j, made, e)) {
		v->made = true;
		return 0;
	} else if (is_equal_to_base(j, e)) {
		v->opened_only = S_ISREG(e->lower.mode);
		set_flags(e, v);
	} else {
		r = judge_present(j, e, v, err);
		if (r == 0 && !S_ISDIR(e->upper.mode) && e->upper.nlink > 1)
			r = judge_link(j, e, v, err);
		set_flags(e, v);
	}
	if (r == 0 && j->conflicts && v->changed && e->region == WALK_MERGED)
		r = find_conflict(j, e, v, err);
	return r;
}

/* Ids are told as the host knows them. */
static int fill_side(const struct judge *j, const struct object *o, int dirfd,
		     const char *name, struct buf *target,
		     struct change_side *ret)
{
	int r;

	buf_clear(target);
	*ret = (struct change_side){ .mode = o->mode };
	if (!o->mode)
		return 0;
	ret->uid = outside_uid(j, o->uid);
	ret->gid = outside_gid(j, o->gid);
	ret->size = S_ISDIR(o->mode) ? 0 : o->size;
	ret->rdev = o->rdev;
	ret->mtime = o->mtime;
	if (!S_ISLNK(o->mode))
		return 0;
	r = content_readlink(dirfd, name, target);
	if (r < 0)
		return r;
	ret->link_target = buf_str(target);
	return 0;
}

int judge_describe(struct judge *j, const struct walk_entry *e,
		   const struct verdict *v, struct change *ret)
{
	static const struct object nothing;
	bool gone = v->kind == CHANGE_DELETE;
	int r;

	*ret = (struct change){ .kind = v->kind,
				.flags = v->flags,
				.path = e->path,
				.link_to = v->link_to,
				.xattrs = v->xattrs,
				.conflict = v->conflict };
	r = fill_side(j, &e->lower, e->lower_dirfd, e->name, &j->before_target,
		      &ret->before);
	if (r == 0)
		r = fill_side(j, gone ? &nothing : &e->upper, e->upper_dirfd,
			      e->name, &j->after_target, &ret->after);
	return r;
}
