/*
 * What a sandbox is called, and what nobody else may be: its place in the
 * runtime directory and its branch in the store, claimed together.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "sandbox/create.h"
#include "sandbox/quota.h"
#include "sandbox/stale.h"

enum { NAME_ATTEMPTS = 64 };

/*
 * A host command does not need a directory: without one it is in no list and
 * cannot be asked or killed by name, which is said once.
 */
static int do_without_directory(const struct create *c, int r,
				const struct error *why, struct error *err)
{
	if (c->plan->host && why->kind == ERR_SYSTEM) {
		log_warn(c->env->log,
			 "%s: ps, inspect and kill will not find '%s' (choose "
			 "another directory with --root)",
			 why->msg, c->plan->name);
		return 0;
	}
	if (err)
		*err = *why;
	return r;
}

int create_open_places(struct create *c, struct error *err)
{
	bool branch = c->plan->branch;
	struct error local = ERROR_INIT;
	/* Also one that is not used here is hidden from the payload. */
	int r = rundir_open(c->env->root, !c->plan->hidden, &c->rundir, &local);

	if (r < 0 && !c->plan->hidden)
		r = do_without_directory(c, r, &local, err);
	if (r < 0 && !c->plan->hidden)
		return r;
	/* Without a branch the store is only asked whether a name is free. */
	r = store_open(c->env->store, c->env->log, &c->store,
		       branch ? err : NULL);
	return branch ? r : 0;
}

static int claim_once(struct create *c, struct error *err)
{
	struct error local = ERROR_INIT;
	int r;

	if (!c->rundir || c->plan->hidden)
		return 0;
	r = rundir_claim(c->rundir, c->plan->name, &c->slot, &local);
	if (r != -EEXIST)
		return r < 0 ? do_without_directory(c, r, &local, err) : 0;
	if (err)
		*err = local;
	/* What a killed create or run left behind does not hold the name. */
	if (stale_prune(c->env, c->rundir, c->plan->name, true) != 1)
		return r;
	return rundir_claim(c->rundir, c->plan->name, &c->slot, err);
}

/*
 * Names are unique among sandboxes and stored branches: also a sandbox that
 * has no branch of its own may not take the name of one that waits.
 */
static int check_branch_name(struct create *c, struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;

	if (!c->store || c->plan->branch ||
	    branch_find(c->store, c->plan->name, &b, NULL) == -ENOENT)
		return 0;
	return branch_say_taken(c->store, c->plan->name, err);
}

/* That of an earlier stage, which another bundle may have made. */
static int check_root(const struct create *c, const struct branch *b,
		      struct error *err)
{
	const struct plan *p = c->plan;
	struct stat ours, its;
	int r = branch_stat_lower(b, &its, err);

	if (r < 0)
		return r;
	if (stat(p->spec->root_path, &ours) < 0)
		return error_set(err, ERR_BUNDLE, errno, "root.path '%s'",
				 p->spec->root_path);
	if (ours.st_dev != its.st_dev || ours.st_ino != its.st_ino)
		return error_say(err, ERR_USAGE, EINVAL,
				 "all stages have the root file system of the "
				 "first one, '%s', not '%s'",
				 branch_lower(b), p->spec->root_path);
	if (!branch_has_idmap(b, &p->branch_idmap))
		return error_say(err, ERR_USAGE, EINVAL,
				 "all stages have the linux.uidMappings and "
				 "gidMappings of the first one");
	return 0;
}

static int join_branch(struct create *c, struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	int r = branch_find(c->store, c->plan->name, &b, err);

	if (r == 0 && !c->plan->host)
		r = check_root(c, b, err);
	if (r == 0)
		r = branch_join(b, &c->command->owner, err);
	/* Somebody else's is not ours to hand on. */
	if (r < 0)
		return r;
	c->branch = take_ptr(&b);
	r = quota_check(c->branch, c->plan->quota_bytes, err);
	return r == 0 && c->command->savepoints
		       ? branch_save_stage(c->branch, c->command->stage, err)
		       : r;
}

static int begin_branch(struct create *c, struct error *err)
{
	const struct plan *p = c->plan;
	struct branch_options o = {
		.name = p->name,
		.lower = p->lowers.n ? p->lowers.v[0] : p->spec->root_path,
		.more_lowers = (const char *const *)p->lowers.v + 1,
		.n_more_lowers = p->lowers.n ? p->lowers.n - 1 : 0,
		.storage = p->storage,
		.durable = p->durable,
		.notify = p->notify,
		.hidden = p->hidden,
		.quota_bytes = p->quota_bytes,
		.on_exit = p->on_exit,
		.on_error = p->on_error,
		.idmap = p->branch_idmap,
		.argv = p->spec->has_process
				? (const char *const *)p->spec->process.args.v
				: NULL,
		.bundle = p->spec->bundle,
	};

	if (!p->branch)
		return check_branch_name(c, err);
	if (create_is_later(c))
		return join_branch(c, err);
	return branch_begin(c->store, &o, &c->branch, err);
}

int create_make_branch(struct create *c, struct error *err)
{
	int r = 0;

	if (c->branch && !create_is_later(c) && !c->branch_is_made)
		r = branch_make(c->branch, err);
	c->branch_is_made = r == 0;
	return r;
}

int create_claim_name(struct create *c, struct error *err)
{
	/* A host command's name is in its plan already. */
	bool given = c->bundle->name || c->plan->host;
	int r = -EEXIST;

	for (unsigned int i = 0; r == -EEXIST && i < NAME_ATTEMPTS; i++) {
		if (!given)
			plan_make_name(c->plan->name, i);
		r = claim_once(c, err);
		if (r == 0) {
			r = begin_branch(c, err);
			if (r < 0) {
				if (c->slot)
					(void)rundir_remove(c->slot, NULL);
				rundir_slot_close(take_ptr(&c->slot));
			}
		}
		if (given)
			break;
	}
	return r;
}
