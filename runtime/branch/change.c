#include "branch/change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/internal.h"
#include "branch/judge.h"
#include "branch/layers.h"
#include "branch/recover.h"
#include "branch/select.h"
#include "branch/sink.h"
#include "branch/site.h"
#include "branch/walk.h"

char change_letter(enum change_kind k)
{
	switch (k) {
	case CHANGE_ADD:
		return 'A';
	case CHANGE_MODIFY:
		return 'M';
	case CHANGE_META:
		return 'm';
	case CHANGE_DELETE:
		return 'D';
	case CHANGE_TYPE:
		return 'T';
	}
	return '?';
}

/*
 * A directory about which nothing can be said before what is in it is known:
 * one that the runtime made is told if something in it is, one of which only
 * the mtime differs if nothing in it is.
 */
struct pending {
	bool if_below;
	bool told; /* or no longer to be told */
	size_t path_len;
	struct buf record;
};

struct differ {
	struct branch *branch;
	unsigned int want;
	struct selection selection;
	struct judge judge;
	struct walk walk;
	struct sink *sink;
	struct pending *pending;
	size_t n_pending, cap_pending;
};

static void differ_done(struct differ *d)
{
	for (size_t i = 0; i < d->n_pending; i++)
		buf_done(&d->pending[i].record);
	free(d->pending);
	walk_done(&d->walk);
	judge_done(&d->judge);
}

/* Something is told: that settles what was pending above it. */
static int settle_pending(struct differ *d)
{
	for (size_t i = 0; i < d->n_pending; i++) {
		struct pending *p = &d->pending[i];
		struct change c;
		int r;

		if (p->told)
			continue;
		p->told = true;
		if (!p->if_below)
			continue;
		r = change_unpack(p->record.data, p->record.len, &c);
		if (r == 0)
			r = sink_change(d->sink, &c);
		if (r)
			return r;
	}
	return 0;
}

static int tell(struct differ *d, const struct change *c)
{
	int r = settle_pending(d);

	return r ? r : sink_change(d->sink, c);
}

static int hold(struct differ *d, const struct change *c, bool if_below)
{
	struct pending p = { .if_below = if_below,
			     .path_len = strlen(c->path),
			     .record = BUF_INIT };

	if (d->n_pending == d->cap_pending) {
		size_t cap = d->cap_pending ? 2 * d->cap_pending : 16;
		struct pending *grown =
			reallocarray(d->pending, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		d->pending = grown;
		d->cap_pending = cap;
	}
	change_pack(&p.record, c);
	if (buf_failed(&p.record))
		return -ENOMEM;
	d->pending[d->n_pending++] = p;
	return 0;
}

/* The walk has left the directory: what was held for it is due or void. */
static int release(struct differ *d, const struct walk_entry *e)
{
	struct pending *p;
	struct change c;
	int r = 0;

	if (d->n_pending == 0 ||
	    d->pending[d->n_pending - 1].path_len != e->path_len)
		return 0;
	p = &d->pending[--d->n_pending];
	if (!p->told && !p->if_below) {
		r = change_unpack(p->record.data, p->record.len, &c);
		if (r == 0)
			r = tell(d, &c);
	}
	buf_done(&p->record);
	return r;
}

/* What of a verdict the caller wants to hear; @v->kind may be adapted. */
static bool is_wanted(const struct differ *d, const struct walk_entry *e,
		      struct verdict *v)
{
	if (v->made)
		return S_ISDIR(e->upper.mode) && !e->lower.mode;
	if (v->kind == CHANGE_DELETE && e->region != WALK_MERGED)
		v->flags |= CHANGE_IMPLIED;
	if (v->flags & CHANGE_IMPLIED)
		return v->changed && (d->want & CHANGE_WANT_CHILDREN);
	if (v->flags & CHANGE_ABSENT)
		return d->want & CHANGE_WANT_UNCHANGED;
	if (v->changed && !(v->flags & CHANGE_MTIME_ONLY))
		return true;
	if (v->changed && (d->want & CHANGE_WANT_META))
		return true;
	if (!v->opened_only || !(d->want & CHANGE_WANT_UNCHANGED))
		return false;
	v->kind = CHANGE_MODIFY;
	return true;
}

static int report(struct differ *d, const struct walk_entry *e,
		  struct verdict *v, struct error *err)
{
	bool mtime_only = v->flags & CHANGE_MTIME_ONLY;
	struct change c;
	int r;

	if (!is_wanted(d, e, v))
		return 0;
	if (v->made)
		v->kind = CHANGE_ADD;
	r = judge_describe(&d->judge, e, v, &c);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot look at '%s'",
				 e->path);
	if (v->made || (S_ISDIR(e->upper.mode) && mtime_only))
		r = hold(d, &c, v->made);
	else
		r = tell(d, &c);
	if (r == -ENOMEM)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot compare");
	return r;
}

/* How to go on below an entry; -1: not at all. */
static int region_below(const struct differ *d, const struct walk_entry *e)
{
	bool upper_dir = S_ISDIR(e->upper.mode);
	bool lower_dir = S_ISDIR(e->lower.mode) && !e->lower.is_mount;

	if (e->region == WALK_DELETED)
		return lower_dir ? WALK_DELETED : -1;
	if (upper_dir && lower_dir && e->region == WALK_MERGED && !e->opaque)
		return WALK_MERGED;
	if (upper_dir && lower_dir)
		return WALK_REPLACED;
	if (upper_dir)
		return WALK_NEW;
	if (lower_dir && (d->want & CHANGE_WANT_CHILDREN))
		return WALK_DELETED;
	return -1;
}

static int visit(struct differ *d, const struct walk_entry *e,
		 struct error *err)
{
	bool selected = selection_has(&d->selection, e->path);
	struct walk_entry adopted;
	struct verdict v;
	int r, region;

	if (e->leaving)
		return release(d, e);
	e = judge_adopt(&d->judge, e, &adopted);
	if (!selected && !selection_leads(&d->selection, e->path))
		return 0;
	if (selected) {
		r = judge_entry(&d->judge, e, &v, err);
		if (r == 0)
			r = report(d, e, &v, err);
		if (r)
			return r;
	}
	region = region_below(d, e);
	return region < 0 ? 0
			  : walk_enter(&d->walk, (enum walk_region)region,
				       WALK_NO_TAG, err);
}

static int run_diff(void *data, struct sink *s, struct error *err)
{
	struct differ *d = data;
	struct branch *b = d->branch;
	struct walk_entry *e;
	int r;

	d->sink = s;
	r = judge_init(&d->judge, b, err);
	if (r < 0)
		return r;
	d->judge.details = true;
	d->judge.inside = s->out_fd >= 0;
	d->judge.conflicts = d->want & CHANGE_WANT_CONFLICTS;
	r = layers_walk(&d->walk, b, err);
	while (r == 0 && (r = walk_next(&d->walk, &e, err)) == 1)
		r = visit(d, e, err);
	/* Settling opens it: modes.h. */
	if (r == -EACCES && !b->meta.settled && proc_is_alive(&b->meta.init))
		(void)error_hint(err, "its mode keeps you out, until the "
				      "sandbox has ended");
	else if (r == -EACCES && !b->meta.settled)
		(void)error_hint(err,
				 "its mode keeps you out: 'sandlock recover "
				 "%s' opens it",
				 b->meta.name);
	return r;
}

int root_changes(struct branch *b, unsigned int want, const char *const *paths,
		 size_t n_paths, change_fn *fn, void *data, struct error *err)
{
	auto_(differ) struct differ d = { .branch = b, .want = want };
	auto_(selection) struct selection owned = { .n = 0 };
	int r = site_check(b, err);

	if (r == 0)
		r = selection_init(&owned, b, paths, n_paths, err);
	if (r < 0)
		return r;
	d.selection = owned;
	return sink_run(b, run_diff, &d, fn, data, NULL, 0, err);
}
