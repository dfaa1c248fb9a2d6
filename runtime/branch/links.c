#include "branch/links.h"

#include <stdlib.h>
#include <string.h>

/* Open addressing, a power of two, at most half full; ino 0 is free. */
struct link_table {
	struct link *slots;
	size_t cap, n;
};

struct link_table *links_new(void)
{
	return calloc(1, sizeof(struct link_table));
}

void links_free(struct link_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->cap; i++)
		free(t->slots[i].path);
	free(t->slots);
	free(t);
}

static struct link *slot_of(const struct link_table *t, uint64_t ino)
{
	size_t i = (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15) >> 20);

	for (i &= t->cap - 1; t->slots[i].ino && t->slots[i].ino != ino;)
		i = (i + 1) & (t->cap - 1);
	return &t->slots[i];
}

struct link *links_find(const struct link_table *t, uint64_t ino)
{
	struct link *l = t->cap ? slot_of(t, ino) : NULL;

	return l && l->ino ? l : NULL;
}

static int grow(struct link_table *t)
{
	struct link_table bigger = { .cap = t->cap ? t->cap * 2 : 64,
				     .n = t->n };

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -1;
	for (size_t i = 0; i < t->cap; i++)
		if (t->slots[i].ino)
			*slot_of(&bigger, t->slots[i].ino) = t->slots[i];
	free(t->slots);
	*t = bigger;
	return 0;
}

struct link *links_add(struct link_table *t, uint64_t ino, uint64_t lower_ino,
		       const char *path)
{
	struct link *l;
	char *copy;

	if (t->n * 2 >= t->cap && grow(t) < 0)
		return NULL;
	copy = strdup(path);
	if (!copy)
		return NULL;
	l = slot_of(t, ino);
	*l = (struct link){ .ino = ino, .lower_ino = lower_ino, .path = copy };
	t->n++;
	return l;
}
