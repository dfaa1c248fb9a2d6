/*
 * Savepoints: the upper of each stage of a transaction by itself. Below
 * `upper`, to which the stage that runs writes, lie layers/N.INO, those of the
 * stages before it (1 is the oldest), and then the lower:
 *
 *	join at N+1:  upper <-> layers/N.INO, an empty one
 *	roll back:    upper <-> layers/N.INO, and what was upper goes
 *	collapse:     all into upper, once the last stage has ended
 *
 * Each step is one exchange. INO is the inode of the directory that belongs
 * there: what has another number was not exchanged yet, or not any more, and
 * is no layer.
 */
#ifndef SANDLOCK_BRANCH_LAYERS_H
#define SANDLOCK_BRANCH_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

struct branch;
struct error;
struct walk;

/* Opens what is there; 0 or a negative errno. */
int layers_open(struct branch *b);
void layers_close(struct branch *b);
/* Path of layer @i (0 is the oldest) relative to the branch; malloc'ed. */
char *layers_path(const struct branch *b, size_t i);

/* A walk over all uppers and the lower; as walk_init. */
int layers_walk(struct walk *w, const struct branch *b, struct error *err);
/*
 * Where the object at @path is, as walk_lookup tells it, in the newest upper
 * that has it. -ENOENT if none does, or a newer one hides it.
 */
int layers_lookup(const struct branch *b, const char *path, int *ret_dirfd,
		  const char **ret_name);

/* One root, whose lock is held: the present upper becomes a layer. */
int root_push(struct branch *b, struct error *err);
/* The upper of stage @n (1 is the first) is upper again; 0: an empty one. */
int root_roll_back(struct branch *b, size_t n, struct error *err);

/*
 * collapse.c: makes one upper of all, which then is what a single one would be,
 * and removes the layers. May be repeated after it was cut off anywhere. The
 * lock is held; nothing where there are no layers.
 */
int root_collapse(struct branch *b, struct error *err);

#endif
