/*
 * A branch that outlives its sandbox for the next one. The volatile marker goes
 * without a sync, or the kernel would not mount it again; until it is settled a
 * reboot makes it torn all the same.
 */
#include <errno.h>

#include "base/error.h"
#include "branch/internal.h"
#include "branch/layers.h"

enum { LOCK_WAIT_MS = 5000 };

static int hand_on_root(struct branch *b, const struct proc_id *owner,
			struct error *err)
{
	int r = branch_lock(b, LOCK_WAIT_MS, err);

	if (r < 0)
		return r;
	r = branch_remove_marker(b);
	if (r < 0)
		r = error_set(err, ERR_SYSTEM, -r, "cannot hand on branch '%s'",
			      b->meta.name);
	if (r == 0) {
		b->meta.init = *owner;
		r = branch_save(b, false, err);
	}
	branch_unlock(b);
	return r;
}

int branch_hand_on(struct branch *b, const struct proc_id *owner,
		   struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++)
		r = hand_on_root(branch_root(b, i), owner, err);
	return r;
}

static int join_root(struct branch *b, const struct proc_id *owner,
		     struct error *err)
{
	const struct proc_id *init = &b->meta.init;
	int r = branch_lock(b, LOCK_WAIT_MS, err);

	if (r < 0)
		return r;
	b->joined = true;
	if (!b->meta.settled && init->pid == owner->pid &&
	    init->start_time == owner->start_time)
		return 0;
	return error_say(err, ERR_STATE, EBUSY,
			 "branch '%s' belongs to somebody else by now",
			 b->meta.name);
}

int branch_join(struct branch *b, const struct proc_id *owner,
		struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++)
		r = join_root(branch_root(b, i), owner, err);
	return r;
}

int branch_save_stage(struct branch *b, size_t n, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++) {
		struct branch *root = branch_root(b, i);

		if (root->n_layers < n)
			r = root_push(root, err);
	}
	return r;
}

int branch_roll_back(struct branch *b, size_t n, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++)
		r = root_roll_back(branch_root(b, i), n, err);
	return r;
}

void branch_set_disposition(struct branch *b, enum disposition d)
{
	b->meta.on_exit = b->meta.on_error = d;
}
