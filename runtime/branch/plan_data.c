/* A plan as data: its text, paths, attributes, and the final order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "branch/origin.h"
#include "branch/plan.h"
#include "branch/tree.h"

void plan_done(struct plan *p)
{
	free(p->ops);
	free(p->dirs);
	buf_done(&p->text);
	*p = (struct plan){ .n_ops = 0 };
}

const char *plan_text(const struct plan *p, uint32_t offset)
{
	return p->text.data + offset;
}

static void reverse(char *s, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		char c = s[i];

		s[i] = s[n - 1 - i];
		s[n - 1 - i] = c;
	}
}

static void add_reversed(struct buf *b, const char *s)
{
	if (b->len > 0)
		buf_add_char(b, '/');
	for (size_t i = strlen(s); i > 0; i--)
		buf_add_char(b, s[i - 1]);
}

void plan_path(const struct plan *p, uint32_t dir, const char *name,
	       struct buf *ret)
{
	buf_clear(ret);
	if (name)
		add_reversed(ret, name);
	while (dir != PLAN_NONE && p->dirs[dir].parent != PLAN_NONE) {
		add_reversed(ret, plan_text(p, p->dirs[dir].name));
		dir = p->dirs[dir].parent;
	}
	if (ret->len > 0)
		reverse(ret->data, ret->len);
}

struct xattr_head {
	uint32_t key_len, len; /* the key's without its NUL */
};

int plan_add_xattrs(struct plan *p, const struct xattrs *x, uint32_t *ret)
{
	uint32_t n = (uint32_t)x->n;

	if (p->text.len > UINT32_MAX - 1)
		return -EFBIG;
	*ret = (uint32_t)p->text.len;
	buf_add(&p->text, &n, sizeof(n));
	for (size_t i = 0; i < x->n; i++) {
		struct xattr_head h = {
			.key_len = (uint32_t)strlen(x->v[i].key),
			.len = (uint32_t)x->v[i].len,
		};

		buf_add(&p->text, &h, sizeof(h));
		buf_add(&p->text, x->v[i].key, h.key_len + 1);
		buf_add(&p->text, x->v[i].value, h.len);
	}
	return buf_failed(&p->text) ? -ENOMEM : 0;
}

static uint32_t fold(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

int plan_hash_xattrs(int dirfd, const char *name, const char *prefix,
		     uint32_t *ret)
{
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	int r = xattrs_read_visible(dirfd, name, prefix, &x);
	uint64_t hash;

	if (r < 0)
		return r;
	hash = origin_hash_xattrs(0, &x);
	*ret = fold(hash);
	return 0;
}

uint32_t plan_fold_tree(uint64_t hash)
{
	uint32_t folded = fold(hash);

	return folded ? folded : 1;
}

uint32_t plan_hash_owner(uid_t uid, gid_t gid)
{
	return (uint32_t)uid * 2654435761u ^ (uint32_t)gid;
}

bool plan_is_old(const struct plan_op *op, const struct object *o)
{
	if (!op->old_ino || !o->mode)
		return !op->old_ino && !o->mode;
	return o->ino == op->old_ino &&
	       plan_hash_owner(o->uid, o->gid) == op->old_owner &&
	       o->mtime.tv_sec == op->old_mtime_s &&
	       o->mtime.tv_nsec == (long)op->old_mtime_ns &&
	       (!op->old_mode || op->old_mode == o->mode);
}

bool plan_has_old_xattrs(const struct plan_op *op, int dirfd, const char *name,
			 const char *prefix)
{
	uint32_t now;

	return !op->old_mode ||
	       (plan_hash_xattrs(dirfd, name, prefix, &now) == 0 &&
		now == op->old_xattrs);
}

bool plan_has_old_tree(const struct plan_op *op, int dirfd, const char *name)
{
	uint64_t now;

	if (!op->old_ino || op->old_mode || !op->old_xattrs)
		return true;
	return tree_hash(dirfd, name, &now) == 0 &&
	       plan_fold_tree(now) == op->old_xattrs;
}

static int take_bytes(const char **at, size_t *left, void *to, size_t n)
{
	if (*left < n)
		return -EINVAL;
	memcpy(to, *at, n);
	*at += n;
	*left -= n;
	return 0;
}

static int take_xattr(const char **at, size_t *left, struct xattr *x)
{
	struct xattr_head h;

	if (take_bytes(at, left, &h, sizeof(h)) < 0 || h.key_len >= *left ||
	    h.len > *left - h.key_len - 1 || (*at)[h.key_len] != '\0')
		return -EINVAL;
	x->key = strdup(*at);
	x->value = malloc((size_t)h.len + 1);
	if (!x->key || !x->value)
		return -ENOMEM;
	x->len = h.len;
	*at += h.key_len + 1;
	*left -= h.key_len + 1;
	return take_bytes(at, left, x->value, h.len);
}

int plan_get_xattrs(const struct plan *p, uint32_t offset, struct xattrs *ret)
{
	auto_(xattrs) struct xattrs x = XATTRS_INIT;
	const char *at;
	size_t left;
	uint32_t n;

	*ret = (struct xattrs)XATTRS_INIT;
	if (offset == PLAN_NONE)
		return 0;
	if (offset > p->text.len)
		return -EINVAL;
	at = p->text.data + offset;
	left = p->text.len - offset;
	if (take_bytes(&at, &left, &n, sizeof(n)) < 0 ||
	    n > left / sizeof(struct xattr_head))
		return -EINVAL;
	if (n == 0)
		return 0;
	x.v = calloc(n, sizeof(*x.v));
	if (!x.v)
		return -ENOMEM;
	while (x.n < n) {
		int r = take_xattr(&at, &left, &x.v[x.n++]);

		if (r < 0)
			return r;
	}
	*ret = x;
	x = (struct xattrs)XATTRS_INIT;
	return 0;
}

/* Ops of one class stay in the order in which they were found. */
static int sort_ops(struct plan *p)
{
	struct plan_op *sorted = calloc(p->n_ops, sizeof(*sorted));
	size_t n = 0;

	if (!sorted)
		return -ENOMEM;
	for (int class = CLASS_PREPARE; class <= CLASS_DELETE; class ++)
		for (size_t i = 0; i < p->n_ops; i++)
			if (p->ops[i].class == class)
				sorted[n++] = p->ops[i];
	free(p->ops);
	p->ops = sorted;
	p->cap_ops = p->n_ops;
	return 0;
}

static void use_dir(struct plan *p, uint32_t dir)
{
	while (dir != PLAN_NONE && !(p->dirs[dir].flags & DIR_USED)) {
		p->dirs[dir].flags |= DIR_USED;
		dir = p->dirs[dir].parent;
	}
}

static void mark_dirs(struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];

		use_dir(p, op->dir);
		if (op->flags & OP_MKDIR)
			use_dir(p, op->strip);
	}
	for (size_t i = 0; i < p->n_dirs; i++)
		if (p->dirs[i].flags & (DIR_TOUCHED | DIR_META))
			use_dir(p, (uint32_t)i);
}

/* Directories that nothing refers to do not belong into the intent. */
static int compact_dirs(struct plan *p)
{
	auto_free uint32_t *moved = calloc(p->n_dirs + 1, sizeof(*moved));
	uint32_t n = 0;

	if (!moved)
		return -ENOMEM;
	mark_dirs(p);
	for (size_t i = 0; i < p->n_dirs; i++) {
		struct plan_dir d = p->dirs[i];

		if (!(d.flags & DIR_USED))
			continue;
		if (d.parent != PLAN_NONE)
			d.parent = moved[d.parent];
		moved[i] = n;
		p->dirs[n++] = d;
	}
	p->n_dirs = n;
	for (size_t i = 0; i < p->n_ops; i++) {
		struct plan_op *op = &p->ops[i];

		op->dir = moved[op->dir];
		if (op->flags & OP_MKDIR)
			op->strip = moved[op->strip];
	}
	return 0;
}

int plan_finish(struct plan *p, struct error *err)
{
	int r = p->n_ops > 0 ? sort_ops(p) : 0;

	if (r == 0)
		r = compact_dirs(p);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot plan") : 0;
}
