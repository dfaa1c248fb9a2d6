#include "base/idmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static void list_done(struct idmap_list *l)
{
	free(l->extents);
	*l = (struct idmap_list){ NULL, 0 };
}

void idmap_done(struct idmap *m)
{
	list_done(&m->uids);
	list_done(&m->gids);
}

bool idmap_is_empty(const struct idmap *m)
{
	return m->uids.n == 0 && m->gids.n == 0;
}

static bool is_equal(const struct idmap_list *a, const struct idmap_list *b)
{
	return a->n == b->n &&
	       (!a->n || memcmp(a->extents, b->extents,
				a->n * sizeof(*a->extents)) == 0);
}

bool idmap_is_equal(const struct idmap *a, const struct idmap *b)
{
	return is_equal(&a->uids, &b->uids) && is_equal(&a->gids, &b->gids);
}

static int list_copy(const struct idmap_list *from, struct idmap_list *ret)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct idmap_extent *e = &from->extents[i];
		int r = idmap_add(ret, e->inside, e->outside, e->count);

		if (r < 0)
			return r;
	}
	return 0;
}

int idmap_copy(const struct idmap *from, struct idmap *ret)
{
	auto_(idmap) struct idmap copy = IDMAP_INIT;
	int r;

	r = list_copy(&from->uids, &copy.uids);
	if (r < 0)
		return r;
	r = list_copy(&from->gids, &copy.gids);
	if (r < 0)
		return r;
	*ret = copy;
	copy = (struct idmap)IDMAP_INIT;
	return 0;
}

int idmap_add(struct idmap_list *l, uint32_t inside, uint32_t outside,
	      uint32_t count)
{
	struct idmap_extent *extents;

	extents = reallocarray(l->extents, l->n + 1, sizeof(*extents));
	if (!extents)
		return -ENOMEM;
	l->extents = extents;
	extents[l->n++] = (struct idmap_extent){ inside, outside, count };
	return 0;
}

int idmap_to_outside(const struct idmap_list *l, uint32_t inside, uint32_t *ret)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct idmap_extent *e = &l->extents[i];

		if (inside < e->inside || inside - e->inside >= e->count)
			continue;
		if (__builtin_add_overflow(e->outside, inside - e->inside, ret))
			return -ERANGE;
		return 0;
	}
	return -ERANGE;
}

bool idmap_has_outside(const struct idmap_list *l, uint32_t outside)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct idmap_extent *e = &l->extents[i];

		if (outside >= e->outside && outside - e->outside < e->count)
			return true;
	}
	return false;
}
