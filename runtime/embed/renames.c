/* Which files were only moved. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

/* A file that is on one side only, with bytes that say something. */
static const struct sandlock_entry *only_side(const struct sandlock_changed *c,
					      bool before)
{
	const struct sandlock_entry *here = before ? &c->before : &c->after;
	const struct sandlock_entry *there = before ? &c->after : &c->before;

	if (here->kind != SANDLOCK_ENTRY_FILE || !here->has_digest ||
	    here->size == 0 || there->kind != SANDLOCK_ENTRY_NONE)
		return NULL;
	return here;
}

struct side {
	const unsigned char *digest;
	size_t index;
};

static int compare_sides(const void *a, const void *b)
{
	const struct side *x = a, *y = b;
	int r = memcmp(x->digest, y->digest, 32);

	if (r)
		return r;
	return x->index < y->index ? -1 : x->index > y->index;
}

static size_t collect(const struct sandlock_changed *v, size_t n, bool before,
		      struct side *ret)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sandlock_entry *e = only_side(&v[i], before);

		if (e)
			ret[found++] = (struct side){ e->digest, i };
	}
	if (found)
		qsort(ret, found, sizeof(*ret), compare_sides);
	return found;
}

static int compare_renames(const void *a, const void *b)
{
	const struct sandlock_rename *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

API int sandlock_renames(const struct sandlock_changed *changes, size_t n,
			 struct sandlock_rename **ret, size_t *ret_n,
			 struct sandlock_error *err)
{
	auto_free struct side *from = calloc(n + 1, sizeof(*from));
	auto_free struct side *to = calloc(n + 1, sizeof(*to));
	struct sandlock_rename *v = calloc(n + 1, sizeof(*v));
	size_t n_from, n_to, found = 0;
	struct error e = ERROR_INIT;

	if (!from || !to || !v) {
		free(v);
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "renames"),
				  &e, err);
	}
	n_from = collect(changes, n, true, from);
	n_to = collect(changes, n, false, to);
	for (size_t i = 0, k = 0; i < n_from && k < n_to;) {
		int r = memcmp(from[i].digest, to[k].digest, 32);

		if (r == 0)
			v[found++] = (struct sandlock_rename){ from[i].index,
							       to[k].index };
		i += r <= 0;
		k += r >= 0;
	}
	if (found)
		qsort(v, found, sizeof(*v), compare_renames);
	*ret = v;
	*ret_n = found;
	return api_result(0, &e, err);
}
