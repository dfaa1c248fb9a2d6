#include "sandbox/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/branch.h"
#include "branch/trash.h"
#include "kernel/landlock.h"
#include "sandbox/create.h"

/* What the command wrote it may read: the kernel opens it, by Landlock's leave.
 */
static int add_uppers(struct create *c, struct error *err)
{
	size_t n = c->branch ? branch_n_roots(c->branch) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *upper = branch_upper(branch_root(c->branch, i));

		if (spec_strings_add(&c->plan->uppers, upper) < 0 ||
		    plan_add_path(c->plan, upper,
				  LANDLOCK_READ | LANDLOCK_EXEC) < 0)
			return error_set(err, ERR_SYSTEM, ENOMEM, "branch");
	}
	return 0;
}

static bool suits(const struct plan *p, const char *dir)
{
	auto_free char *real = dir && *dir == '/' ? realpath(dir, NULL) : NULL;

	if (!real || access(real, W_OK) < 0)
		return false;
	/* There it would be of the branch. */
	for (size_t i = 0; i < p->workdirs.n; i++)
		if (path_is_under(real, p->workdirs.v[i]))
			return false;
	return true;
}

static const char *find_place(const struct plan *p)
{
	const char *const places[] = { getenv("TMPDIR"), "/tmp", "/var/tmp",
				       "/dev/shm" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (suits(p, places[i]))
			return places[i];
	return "/tmp";
}

/*
 * Tier C has no tmpfs of its own: a directory of the host takes the place of
 * /tmp, which is said by TMPDIR.
 */
int scratch_make(struct create *c, struct error *err)
{
	const char *dir = find_place(c->plan);
	auto_free char *path = NULL;
	auto_free char *entry = NULL;
	int r = add_uppers(c, err);

	if (r < 0)
		return r;
	if (asprintf(&path, "%s/sandlock-tmp.XXXXXX", dir) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "TMPDIR");
	if (!mkdtemp(path))
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a directory in '%s'", dir);
	c->state->scratch = realpath(path, NULL);
	if (!c->state->scratch) {
		(void)rmdir(path);
		return error_set(err, ERR_SYSTEM, errno, "TMPDIR");
	}
	if (asprintf(&entry, "TMPDIR=%s", c->state->scratch) < 0 ||
	    spec_strings_add(&c->plan->spec->process.env, entry) < 0 ||
	    plan_add_path(c->plan, c->state->scratch, LANDLOCK_ALL) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "TMPDIR");
	return 0;
}

void scratch_remove(const struct sandbox_state *s)
{
	if (s->scratch)
		trash_remove_tree(AT_FDCWD, s->scratch);
}
