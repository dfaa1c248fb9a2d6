/* The branch functions of include/sandlock.h. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "branch/change.h"
#include "branch/commit.h"

enum { LOCK_TIMEOUT_MS = 5000 };

_Static_assert((int)SANDLOCK_CHANGE_STALE_LOCK == (int)CHANGE_STALE_LOCK,
	       "change flags differ");
_Static_assert((int)SANDLOCK_WANT_META == (int)CHANGE_WANT_META,
	       "wanted changes differ");
_Static_assert((int)SANDLOCK_CONFLICT_FORCE == (int)CONFLICT_FORCE,
	       "conflict modes differ");
_Static_assert((int)SANDLOCK_RECOVERED_BACK == (int)RECOVER_BACK,
	       "recover actions differ");

struct opened {
	struct api_env a;
	struct store *store;
	struct branch *branch;
	struct error e;
};

static int open_branch(struct opened *o, const struct sandlock_env *env,
		       const char *name)
{
	int r;

	*o = (struct opened){ .e = ERROR_INIT };
	api_env_init(&o->a, env);
	r = store_open(o->a.env.store, o->a.env.log, &o->store, &o->e);
	return r == 0 ? branch_find(o->store, name, &o->branch, &o->e) : r;
}

static int close_branch(struct opened *o, int r, struct sandlock_error *err)
{
	branch_close(o->branch);
	store_close(o->store);
	return api_result(r, &o->e, err);
}

/* A branch that cannot be read is listed all the same, as what it is. */
static int fill_info(struct store *st, const char *name,
		     struct sandlock_branch_info *ret)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	struct branch_info i;

	*ret = (struct sandlock_branch_info){
		.name = strdup(name),
		.on_exit = SANDLOCK_UNSAID,
		.on_error = SANDLOCK_UNSAID,
	};
	if (branch_find(st, name, &b, NULL) < 0 ||
	    branch_get_info(b, &i, NULL) < 0) {
		ret->state = strdup("damaged");
		ret->lower = strdup("");
		ret->dir = strdup("");
		ret->upper = strdup("");
		ret->command = strdup("");
		return ret->name && ret->state && ret->lower && ret->dir &&
				       ret->upper && ret->command
			       ? 0
			       : -ENOMEM;
	}
	ret->state = strdup(branch_state_name(i.state));
	ret->lower = take_ptr(&i.lower);
	ret->dir = take_ptr(&i.dir);
	ret->upper = take_ptr(&i.upper);
	ret->command = buf_join_words(i.argv);
	ret->roots = calloc(i.n_roots, sizeof(*ret->roots));
	for (size_t k = 0; ret->roots && k < i.n_roots; k++) {
		ret->roots[k].lower = take_ptr(&i.roots[k].lower);
		ret->roots[k].upper = take_ptr(&i.roots[k].upper);
		ret->n_roots++;
	}
	ret->on_exit = (enum sandlock_disposition)i.on_exit;
	ret->on_error = (enum sandlock_disposition)i.on_error;
	ret->exit_kind = (enum sandlock_exit_kind)i.status.kind;
	ret->exit_value = i.status.value;
	ret->created = i.created;
	branch_info_done(&i);
	return ret->name && ret->state && ret->command && ret->roots ? 0
								     : -ENOMEM;
}

API int sandlock_branches(const struct sandlock_env *env,
			  struct sandlock_branch_info **ret, size_t *ret_n,
			  struct sandlock_error *err)
{
	auto_ptr(store_close) struct store *st = NULL;
	struct sandlock_branch_info *v = NULL;
	struct error e = ERROR_INIT;
	char **names = NULL;
	struct api_env a;
	size_t n = 0;
	int r;

	api_env_init(&a, env);
	r = store_open(a.env.store, a.env.log, &st, &e);
	if (r == 0)
		r = store_list(st, &names, &n, &e);
	if (r < 0)
		return api_result(r, &e, err);
	v = calloc(n + 1, sizeof(*v));
	for (size_t i = 0; v && i < n; i++)
		if (fill_info(st, names[i], &v[i]) < 0) {
			sandlock_branches_free(v, i + 1);
			v = NULL;
		}
	store_names_free(names, n);
	if (!v)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "branches"),
				  &e, err);
	*ret = v;
	*ret_n = n;
	return api_result(0, &e, err);
}

API void sandlock_branches_free(struct sandlock_branch_info *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		free(v[i].name);
		free(v[i].state);
		free(v[i].lower);
		free(v[i].dir);
		free(v[i].upper);
		free(v[i].command);
		for (size_t k = 0; k < v[i].n_roots; k++) {
			free(v[i].roots[k].lower);
			free(v[i].roots[k].upper);
		}
		free(v[i].roots);
	}
	free(v);
}

static struct sandlock_side side_of(const struct change_side *s)
{
	return (struct sandlock_side){
		.mode = s->mode,
		.uid = s->uid,
		.gid = s->gid,
		.size = s->size,
		.rdev = s->rdev,
		.mtime = s->mtime,
		.link_target = s->link_target,
	};
}

int api_forward_change(void *data, const struct change *c)
{
	const struct api_changes *f = data;
	const struct sandlock_change out = {
		.letter = change_letter(c->kind),
		.flags = c->flags,
		.path = c->path,
		.before = side_of(&c->before),
		.after = side_of(&c->after),
		.link_to = c->link_to,
		.xattrs = c->xattrs,
		.conflict = c->conflict,
		.root = c->root,
	};

	return f->fn ? f->fn(f->data, &out) : 0;
}

API int sandlock_diff(const struct sandlock_env *env, const char *name,
		      unsigned int want, const char *const *paths,
		      size_t n_paths, sandlock_change_fn *fn, void *data,
		      struct sandlock_error *err)
{
	struct api_changes f = { fn, data };
	struct opened o;
	int r = open_branch(&o, env, name);

	if (r == 0)
		r = branch_changes(o.branch, want, paths, n_paths,
				   api_forward_change, &f, &o.e);
	return close_branch(&o, r, err);
}

API int sandlock_uncovered(const struct sandlock_env *env, const char *name,
			   sandlock_change_fn *fn, void *data,
			   struct sandlock_error *err)
{
	struct api_changes f = { fn, data };
	struct opened o;
	int r = open_branch(&o, env, name);

	if (r == 0)
		r = branch_uncovered(o.branch, api_forward_change, &f, &o.e);
	return close_branch(&o, r, err);
}

API int sandlock_open_content(const struct sandlock_env *env, const char *name,
			      const char *path, bool after, int *ret_fd,
			      struct sandlock_error *err)
{
	struct opened o;
	int r = open_branch(&o, env, name);

	if (r == 0)
		r = branch_open_content(o.branch, path,
					after ? CONTENT_AFTER : CONTENT_BEFORE,
					ret_fd, &o.e);
	return close_branch(&o, r, err);
}

API int sandlock_digest(const struct sandlock_env *env, const char *name,
			const char *path, bool after, char ret[65],
			struct sandlock_error *err)
{
	struct opened o;
	int r = open_branch(&o, env, name);

	if (r == 0)
		r = branch_digest(o.branch, path,
				  after ? CONTENT_AFTER : CONTENT_BEFORE, ret,
				  &o.e);
	return close_branch(&o, r, err);
}

API int sandlock_commit(const struct sandlock_env *env, const char *name,
			struct sandlock_commit *c, struct sandlock_error *err)
{
	struct api_changes f = { c->on_conflict, c->data };
	struct commit_result result = { 0 };
	const struct commit_options options = {
		.conflicts = (enum conflict_mode)c->conflicts,
		.force_torn = c->force_torn,
		.allow_special = c->allow_special,
		.lock_timeout_ms = c->lock_timeout_ms ? c->lock_timeout_ms
						      : LOCK_TIMEOUT_MS,
		.paths = c->paths,
		.n_paths = c->n_paths,
		.on_conflict = api_forward_change,
		.data = &f,
	};
	struct opened o;
	int r = open_branch(&o, env, name);

	if (r == 0)
		r = branch_commit(o.branch, &options, &result, &o.e);
	c->n_published = result.n_published;
	c->n_skipped = result.n_skipped;
	c->gone = result.gone;
	return close_branch(&o, r, err);
}

API int sandlock_abort(const struct sandlock_env *env, const char *name,
		       const char *const *paths, size_t n_paths,
		       struct sandlock_error *err)
{
	struct opened o;
	int r = open_branch(&o, env, name);

	if (r == 0)
		r = branch_abort(o.branch, paths, n_paths, &o.e);
	return close_branch(&o, r, err);
}

API int sandlock_recover(const struct sandlock_env *env, const char *name,
			 bool rollback, enum sandlock_recovered *ret,
			 struct sandlock_error *err)
{
	enum recover_action action = RECOVER_NOTHING;
	struct opened o;
	int r = open_branch(&o, env, name);

	if (r == 0)
		r = branch_recover(o.branch, rollback, &action, &o.e);
	*ret = (enum sandlock_recovered)action;
	return close_branch(&o, r, err);
}
