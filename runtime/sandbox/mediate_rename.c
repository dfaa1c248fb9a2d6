/* Renames of directories in the branch; --no-supervisor does without. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/movable.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/rename.h"

struct rename_state {
	struct rename_branch *branches;
	struct renames *renames;
};

static void free_renames(void *p)
{
	struct rename_state *s = p;

	renames_free(s->renames);
	free(s->branches);
	free(s);
}

static bool is_lower(const void *data, const char *path)
{
	return branch_has_lower_dir(data, path);
}

static int make_movable(const void *data, int parent_fd, const char *name,
			const char *path)
{
	return branch_make_movable(data, parent_fd, name, path);
}

static unsigned int wanted(const struct host_context *h)
{
	return host_has_branch(h) && !h->notify ? TRAP_RENAME : 0;
}

static unsigned int wanted_of_bundle(const struct plan *p,
				     const struct request *q)
{
	return p->branch ? TRAP_RENAME : 0;
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct rename_state *s = calloc(1, sizeof(*s));
	struct handler rows[RENAMES_ROWS];
	bool own;
	const char *top = c->plan->chroot ? c->plan->chroot : "/";
	size_t n_roots, n;
	int r;

	r = mediation_own(m, s, free_renames, err);
	if (r < 0)
		return r;
	n_roots = branch_n_roots(c->branch);
	s->branches = calloc(n_roots, sizeof(*s->branches));
	if (!s->branches)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	for (size_t i = 0; i < n_roots; i++) {
		struct branch *root = branch_root(c->branch, i);

		s->branches[i] = (struct rename_branch){
			.path = c->plan->skeleton
					? path_below(branch_lower(root), top)
					: "/",
			.is_lower = is_lower,
			.make_movable = make_movable,
			.data = root,
		};
	}
	/* Root's overlay belongs to the host, also where the sandbox has a
	 * user namespace. */
	own = !idmap_is_empty(&c->plan->branch_idmap);
	s->renames = renames_new(s->branches, n_roots,
				 own ? c->state->init.pid : 0, c->denials);
	if (!s->renames)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	n = renames_rows(s->renames, rows);
	return r == 0 ? mediation_add_rows(m, rows, n, err) : r;
}

const struct mediate_feature mediate_rename = {
	.flag = "--workdir",
	.optional = true,
	.traps = wanted,
	.bundle_traps = wanted_of_bundle,
	.begin = begin,
};
