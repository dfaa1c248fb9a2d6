/*
 * User and group id maps as data. kernel/userns.h writes and enters them.
 */
#ifndef SANDLOCK_BASE_IDMAP_H
#define SANDLOCK_BASE_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct idmap_extent {
	uint32_t inside;
	uint32_t outside;
	uint32_t count;
};

struct idmap_list {
	struct idmap_extent *extents; /* owned */
	size_t n;
};

/* Both lists empty: the namespace we are in, nothing is mapped. */
struct idmap {
	struct idmap_list uids;
	struct idmap_list gids;
};

#define IDMAP_INIT                  \
	{                           \
		.uids = { NULL, 0 } \
	}

void idmap_done(struct idmap *m);
bool idmap_is_empty(const struct idmap *m);
bool idmap_is_equal(const struct idmap *a, const struct idmap *b);
/* 0 or -ENOMEM. */
int idmap_copy(const struct idmap *from, struct idmap *ret);
int idmap_add(struct idmap_list *l, uint32_t inside, uint32_t outside,
	      uint32_t count);
/* The id outside that @inside stands for; -ERANGE if it is not mapped. */
int idmap_to_outside(const struct idmap_list *l, uint32_t inside,
		     uint32_t *ret);
bool idmap_has_outside(const struct idmap_list *l, uint32_t outside);

#endif
