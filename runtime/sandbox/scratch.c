#include "sandbox/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "branch/branch.h"
#include "branch/trash.h"
#include "kernel/landlock.h"
#include "sandbox/create.h"

static const char record_name[] = "scratch";

static int add_upper(struct plan *p, const char *path)
{
	return !path || spec_strings_add(&p->uppers, path) < 0
		       ? -ENOMEM
		       : plan_add_path(p, path, LANDLOCK_READ | LANDLOCK_EXEC);
}

/* What the command wrote, and the stages before it, it may read: the kernel
 * opens it, by Landlock's leave. */
static int add_uppers(struct create *c, struct error *err)
{
	size_t n = c->branch ? branch_n_roots(c->branch) : 0;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct branch *b = branch_root(c->branch, i);

		r = add_upper(c->plan, branch_upper(b));
		for (size_t k = 0; k < branch_n_layers(b) && r == 0; k++) {
			auto_free char *layer = branch_layer(b, k);

			r = add_upper(c->plan, layer);
		}
	}
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "branch") : 0;
}

static bool suits(const struct plan *p, const char *dir)
{
	auto_free char *real = dir && *dir == '/' ? realpath(dir, NULL) : NULL;

	if (!real || access(real, W_OK) < 0)
		return false;
	for (size_t i = 0; i < p->n_shown; i++)
		if (path_is_under(real, p->shown[i].host) ||
		    path_is_under(real, p->shown[i].inside))
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
 * What it will be is in the runtime directory before it is there: who is killed
 * before the state is written leaves nothing behind. Nobody else knows the
 * name.
 */
static int make_dir(const struct create *c, const char *in, char **ret)
{
	auto_free char *real = realpath(in, NULL);
	auto_free char *path = NULL;
	uint64_t salt;

	if (!real)
		return -errno;
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return -errno;
	if (asprintf(&path, "%s/sandlock-tmp.%016" PRIx64, real, salt) < 0)
		return -ENOMEM;
	if (c->slot &&
	    symlinkat(path, rundir_slot_fd(c->slot), record_name) < 0)
		return -errno;
	if (mkdir(path, 0700) < 0)
		return -errno;
	*ret = take_ptr(&path);
	return 0;
}

/*
 * Tier C has no tmpfs of its own: a directory of the host takes the place of
 * /tmp, which is said by TMPDIR.
 */
int scratch_make(struct create *c, struct error *err)
{
	const char *dir = find_place(c->plan);
	auto_free char *entry = NULL;
	int r = add_uppers(c, err);

	if (r < 0)
		return r;
	r = make_dir(c, dir, &c->state->scratch);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot make a directory in '%s'", dir);
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

void scratch_remove_unrecorded(const struct rundir_slot *slot)
{
	char path[PATH_MAX];

	if (fd_read_link(rundir_slot_fd(slot), record_name, path) >= 0)
		trash_remove_tree(AT_FDCWD, path);
}
