/*
 * Branches over several directories. The first root is the branch that the
 * name stands for, and what decides: it is made last and goes last. The others
 * are branches of their own, named NAME~2, NAME~3, …, wherever their lowers
 * want them to be. One that is missing has no changes.
 */
#include "branch/roots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/change.h"
#include "branch/internal.h"
#include "branch/recover.h"
#include "branch/select.h"

enum { LOCK_WAIT_MS = 5000, ORPHAN_S = 60 };

size_t branch_n_roots(const struct branch *b)
{
	return b->n_others + 1;
}

struct branch *branch_root(struct branch *b, size_t i)
{
	return i == 0 ? b : b->others[i - 1];
}

void roots_forget(struct branch *b, size_t i)
{
	branch_close(b->others[i - 1]);
	b->n_others--;
	memmove(b->others + i - 1, b->others + i,
		(b->n_others + 1 - i) * sizeof(*b->others));
}

/* A path in the store stays what it is. */
static void drop_numbers(const char *name, char *text)
{
	char *at = text;

	while ((at = strstr(at, name))) {
		bool word = at > text && (at[-1] == '\'' || at[-1] == ' ');
		size_t n;

		at += strlen(name);
		n = *at == '~' ? strspn(at + 1, "0123456789") : 0;
		if (word && n)
			memmove(at, at + 1 + n, strlen(at + 1 + n) + 1);
	}
}

int roots_said(const struct branch *b, int r, struct error *err)
{
	if (r < 0 && err) {
		drop_numbers(b->meta.name, err->msg);
		drop_numbers(b->meta.name, err->hint);
	}
	return r;
}

static void name_root(const char *name, size_t i, char ret[ROOT_NAME_MAX])
{
	(void)snprintf(ret, ROOT_NAME_MAX, "%s~%zu", name, i + 1);
}

bool is_root_name(const char *name)
{
	const char *tilde = strchr(name, '~');
	char first[LIMIT_NAME + 1];

	if (!tilde)
		return name_check(name, NULL) == 0;
	if ((size_t)(tilde - name) >= sizeof(first) || !tilde[1] ||
	    tilde[1 + strspn(tilde + 1, "0123456789")])
		return false;
	memcpy(first, name, (size_t)(tilde - name));
	first[tilde - name] = '\0';
	return name_check(first, NULL) == 0;
}

/* -------------------------------------------------------------- creation -- */

/*
 * What is left of a creator that died before the first root: nobody ever wrote
 * to it.
 */
static int clear_orphan(struct store *st, const char *name, struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	enum branch_state state;
	int r = root_find(st, name, &b, NULL);

	if (r < 0)
		return 0;
	r = branch_lock(b, 0, err);
	if (r == 0)
		r = root_get_state(b, &state, err);
	if (r == 0 && state == BRANCH_OPEN)
		return error_say(err, ERR_EXISTS, EEXIST,
				 "the branch '%s' is being made", name);
	return r < 0 ? r : branch_remove_all(b, err);
}

void clear_orphan_root(struct store *st, const char *name)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	char first[LIMIT_NAME + 1];
	size_t n = strcspn(name, "~");
	struct timespec now;
	struct stat there;

	if (!is_root_name(name) || n >= sizeof(first))
		return;
	memcpy(first, name, n);
	first[n] = '\0';
	if (fstatat(st->home.branches_fd, first, &there, AT_SYMLINK_NOFOLLOW) ==
		    0 ||
	    root_find(st, name, &b, NULL) < 0)
		return;
	/* One that somebody lived in holds changes, whatever became of the
	 * first: nobody but a person removes it. */
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (b->meta.init.pid || now.tv_sec - b->meta.created.tv_sec < ORPHAN_S)
		return;
	if (branch_lock(b, 0, NULL) == 0)
		(void)branch_remove_all(b, NULL);
}

static int begin_other(struct store *st, const struct branch_options *o,
		       size_t i, unsigned int storage_dirs, struct branch **ret,
		       struct error *err)
{
	struct branch_options part = *o;
	char name[ROOT_NAME_MAX];
	int r;

	name_root(o->name, i, name);
	part.name = name;
	part.lower = o->more_lowers[i - 1];
	part.more_lowers = NULL;
	part.n_more_lowers = 0;
	r = clear_orphan(st, name, err);
	if (r == 0)
		r = root_begin(st, &part, ret, err);
	/* The last of them takes away what the first has made. */
	if (r == 0 && !(*ret)->meta.storage_dirs)
		(*ret)->meta.storage_dirs = storage_dirs;
	return r;
}

static int check_options(struct store *st, const struct branch_options *o,
			 struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	int r = name_check(o->name, err);

	if (r < 0 || !o->n_more_lowers)
		return r;
	if (o->n_more_lowers >= ROOTS_MAX)
		return error_say(err, ERR_USAGE, E2BIG,
				 "a branch has at most %d directories",
				 ROOTS_MAX);
	if (strlen(o->name) + 4 > LIMIT_NAME)
		return error_say(err, ERR_NAME, ENAMETOOLONG,
				 "the name '%s' is too long for a branch over "
				 "several directories",
				 o->name);
	/* Before the others are touched: they may be somebody's. */
	if (root_find(st, o->name, &b, NULL) != 0)
		return 0;
	return branch_say_taken(st, o->name, err);
}

int branch_begin(struct store *st, const struct branch_options *o,
		 struct branch **ret, struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	int r = check_options(st, o, err);

	if (r == 0)
		r = root_begin(st, o, &b, err);
	if (r == 0 && o->n_more_lowers) {
		b->others = calloc(o->n_more_lowers, sizeof(struct branch *));
		if (!b->others)
			r = error_set(err, ERR_SYSTEM, ENOMEM,
				      "cannot make branch '%s'", o->name);
	}
	while (r == 0 && b->n_others < o->n_more_lowers) {
		r = begin_other(st, o, b->n_others + 1, b->meta.storage_dirs,
				&b->others[b->n_others], err);
		b->n_others += r == 0;
	}
	if (r < 0) {
		if (b)
			branch_drop_storage(b);
		return r;
	}
	*ret = take_ptr(&b);
	return 0;
}

int branch_make(struct branch *b, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_others; i++)
		r = root_make(b->others[i], err);
	if (r == 0)
		r = root_make(b, err);
	if (r < 0)
		branch_discard(b);
	return r;
}

int branch_create(struct store *st, const struct branch_options *o,
		  struct branch **ret, struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	int r = branch_begin(st, o, &b, err);

	if (r == 0)
		r = branch_make(b, err);
	if (r < 0)
		return r;
	*ret = take_ptr(&b);
	return 0;
}

/* 1, or 0 if it has gone because nothing was in it. */
static int find_other(struct store *st, const char *name, struct branch **ret,
		      struct error *err)
{
	struct stat there;
	int r;

	if (fstatat(st->home.branches_fd, name, &there, AT_SYMLINK_NOFOLLOW) <
		    0 &&
	    errno == ENOENT)
		return 0;
	r = root_find(st, name, ret, err);
	return r < 0 ? r : 1;
}

int branch_find(struct store *st, const char *name, struct branch **ret,
		struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	int r = name_check(name, err);

	if (r == 0)
		r = root_find(st, name, &b, err);
	if (r == 0 && b->meta.n_roots > 1) {
		b->others = calloc(b->meta.n_roots, sizeof(struct branch *));
		if (!b->others)
			r = error_set(err, ERR_SYSTEM, ENOMEM,
				      "cannot open branch '%s'", name);
	}
	for (size_t i = 1; r >= 0 && i < b->meta.n_roots; i++) {
		char other[ROOT_NAME_MAX];

		name_root(name, i, other);
		r = find_other(st, other, &b->others[b->n_others], err);
		b->n_others += r == 1;
	}
	if (r < 0)
		return r;
	*ret = take_ptr(&b);
	return 0;
}

void branch_discard(struct branch *b)
{
	for (size_t i = 0; b && i < b->n_others; i++)
		root_discard(b->others[i]);
	root_discard(b);
}

static bool is_empty(int dir_fd)
{
	auto_close int fd =
		openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;

	if (!dir)
		return false;
	(void)take_fd(&fd);
	while (n <= 2 && readdir(dir))
		n++;
	return n == 2;
}

bool branch_is_untouched(struct branch *b)
{
	for (size_t i = 0; i < branch_n_roots(b); i++) {
		const struct branch *root = branch_root(b, i);

		if (root->n_layers || !is_empty(root->upper_fd))
			return false;
	}
	return true;
}

static bool lies_on(int dir_fd, dev_t dev)
{
	struct stat st;

	return fstat(dir_fd, &st) == 0 && st.st_dev == dev;
}

bool branch_lies_on(struct branch *b, dev_t dev)
{
	for (size_t i = 0; i < branch_n_roots(b); i++) {
		const struct branch *root = branch_root(b, i);

		if (!lies_on(root->lower_fd, dev) ||
		    !lies_on(root->upper_fd, dev))
			return false;
	}
	return true;
}

void branch_expect_running(struct branch *b)
{
	for (size_t i = 0; i < branch_n_roots(b); i++)
		meta_expect(branch_root(b, i)->dir_fd);
}

int branch_set_running(struct branch *b, const char *const *paths, size_t n,
		       const struct proc_id *init, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_others; i++)
		r = root_set_running(b->others[i], NULL, 0, init, err);
	return r < 0 ? r : root_set_running(b, paths, n, init, err);
}

/* ---------------------------------------------------------------- state -- */

/* Of several roots the one that is furthest from being decided on. */
static int rank_of(enum branch_state s)
{
	switch (s) {
	case BRANCH_COMMITTED:
		return 0;
	case BRANCH_PENDING:
		return 1;
	case BRANCH_INTERRUPTED:
		return 2;
	case BRANCH_TORN:
		return 3;
	case BRANCH_OPEN:
		return 4;
	case BRANCH_COMMITTING:
		return 5;
	}
	return 0;
}

int branch_get_state(struct branch *b, enum branch_state *ret,
		     struct error *err)
{
	enum branch_state all, one;
	int r = root_get_state(b, &all, err);
	bool committing = r == 0 && all == BRANCH_COMMITTING;

	for (size_t i = 0; r == 0 && i < b->n_others; i++) {
		r = root_get_state(b->others[i], &one, err);
		if (r == 0 && rank_of(one) > rank_of(all))
			all = one;
	}
	if (r == 0)
		*ret = committing ? BRANCH_COMMITTING : all;
	return r;
}

static char *copy_str(const char *s, bool *failed)
{
	char *copy = s ? strdup(s) : NULL;

	if (s && !copy)
		*failed = true;
	return copy;
}

static char **copy_argv(char *const *argv, bool *failed)
{
	size_t n = 0;
	char **copy;

	if (!argv)
		return NULL;
	while (argv[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	if (!copy)
		*failed = true;
	for (size_t i = 0; copy && i < n; i++)
		copy[i] = copy_str(argv[i], failed);
	return copy;
}

int branch_get_info(struct branch *b, struct branch_info *ret,
		    struct error *err)
{
	struct branch_info i = {
		.on_exit = b->meta.on_exit,
		.on_error = b->meta.on_error,
		.status = b->meta.status,
		.created = b->meta.created,
		.staged = b->meta.staged,
		.hidden = b->meta.hidden,
	};
	bool failed = false;
	int r = branch_get_state(b, &i.state, err);

	if (r < 0)
		return r;
	if (i.state == BRANCH_OPEN && proc_is_alive(&b->meta.init))
		i.init = b->meta.init;
	i.name = copy_str(b->meta.name, &failed);
	i.lower = copy_str(b->meta.lower, &failed);
	i.dir = copy_str(b->dir, &failed);
	i.upper = copy_str(b->upper, &failed);
	i.bundle = copy_str(b->meta.bundle, &failed);
	i.argv = copy_argv(b->meta.argv, &failed);
	i.n_roots = branch_n_roots(b);
	i.roots = calloc(i.n_roots, sizeof(*i.roots));
	failed |= !i.roots;
	for (size_t k = 0; i.roots && k < i.n_roots; k++) {
		const struct branch *root = branch_root(b, k);

		i.roots[k].lower = copy_str(root->meta.lower, &failed);
		i.roots[k].upper = copy_str(root->upper, &failed);
	}
	if (failed) {
		branch_info_done(&i);
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot describe branch '%s'", b->meta.name);
	}
	*ret = i;
	return 0;
}

void branch_info_done(struct branch_info *i)
{
	free(i->name);
	free(i->lower);
	free(i->dir);
	free(i->upper);
	free(i->bundle);
	for (size_t k = 0; i->argv && i->argv[k]; k++)
		free(i->argv[k]);
	free(i->argv);
	for (size_t k = 0; i->roots && k < i->n_roots; k++) {
		free(i->roots[k].lower);
		free(i->roots[k].upper);
	}
	free(i->roots);
	*i = (struct branch_info){ 0 };
}

int branch_settle(struct branch *b, const struct exit_status *status,
		  bool caller_waited, struct branch_settled *ret,
		  struct error *err)
{
	struct branch_settled part, all = { .gone = false };
	int r = 0;

	for (size_t i = 1; r == 0 && i <= b->n_others;) {
		r = root_settle(branch_root(b, i), status, caller_waited, &part,
				err);
		all.n_changes += r == 0 ? part.n_changes : 0;
		if (r == 0 && part.gone)
			roots_forget(b, i);
		else
			i++;
	}
	if (r < 0)
		return roots_said(b, r, err);
	b->keep = b->n_others > 0;
	r = root_settle(b, status, caller_waited, &part, err);
	b->keep = false;
	if (r < 0)
		return r;
	all.n_changes += part.n_changes;
	all.gone = part.gone;
	*ret = all;
	return 0;
}

/* --------------------------------------------------------------- changes -- */

size_t roots_select(struct branch *b, size_t i, const char *const *paths,
		    size_t n, const char **ret)
{
	size_t n_ret = 0;

	for (size_t k = 0; k < n; k++) {
		auto_free char *whole = path_normalize(paths[k]);
		const char *best_path = NULL;
		size_t best = 0;

		for (size_t j = 0; whole && j < branch_n_roots(b); j++) {
			const char *lower = branch_lower(branch_root(b, j));

			if (paths[k][0] != '/' ||
			    !path_is_under(whole, lower) ||
			    (best_path && !path_is_under(lower, best_path)))
				continue;
			best_path = lower;
			best = j;
		}
		if (best == i)
			ret[n_ret++] = paths[k];
	}
	return n_ret;
}

struct forward {
	change_fn *fn;
	void *data;
	const char *root;
};

static int add_root(void *data, const struct change *c)
{
	const struct forward *f = data;
	struct change out = *c;

	out.root = f->root;
	return f->fn ? f->fn(f->data, &out) : 0;
}

int branch_changes(struct branch *b, unsigned int want,
		   const char *const *paths, size_t n_paths, change_fn *fn,
		   void *data, struct error *err)
{
	auto_free const char **part = NULL;
	int r = 0;

	if (b->meta.n_roots < 2)
		return root_changes(b, want, paths, n_paths, fn, data, err);
	part = calloc(n_paths + 1, sizeof(*part));
	if (!part)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot compare");
	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++) {
		struct branch *root = branch_root(b, i);
		struct forward f = { fn, data, root->meta.lower };
		size_t n = roots_select(b, i, paths, n_paths, part);

		if (n_paths == 0 || n > 0)
			r = root_changes(root, want, part, n, add_root, &f,
					 err);
	}
	return r;
}

struct uncovered {
	struct forward forward;
	struct branch *branch;
	size_t i; /* which root is asked */
};

/* What another root covers, or has to tell of itself, is left out. */
static int add_uncovered(void *data, const struct change *c)
{
	const struct uncovered *u = data;
	struct branch *root = branch_root(u->branch, u->i);
	auto_free char *whole = path_join(root->meta.lower, c->path);
	const char *path = whole, *one;

	if (!whole)
		return -ENOMEM;
	if (roots_select(u->branch, u->i, &path, 1, &one) == 0)
		return 0;
	return add_root((void *)&u->forward, c);
}

int branch_uncovered(struct branch *b, change_fn *fn, void *data,
		     struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++) {
		struct branch *root = branch_root(b, i);
		struct uncovered u = {
			.forward = { fn, data, NULL },
			.branch = b,
			.i = i,
		};

		if (b->meta.n_roots > 1)
			u.forward.root = root->meta.lower;
		r = root_uncovered(root, add_uncovered, &u, err);
	}
	return r;
}

/* The root that an absolute path lies in, and the rest of the path. */
static struct branch *find_root(struct branch *b, const char **path)
{
	const char *one;

	if (b->meta.n_roots < 2)
		return b;
	for (size_t i = 0; i < branch_n_roots(b); i++) {
		struct branch *root = branch_root(b, i);
		const char *lower = root->meta.lower;

		if (roots_select(b, i, path, 1, &one) == 0 ||
		    !path_is_under(*path, lower))
			continue;
		*path = path_below(*path, lower) + 1;
		return root;
	}
	return b;
}

int branch_open_content(struct branch *b, const char *path,
			enum change_content side, int *ret_fd,
			struct error *err)
{
	struct branch *root = find_root(b, &path);

	return root_open_content(root, path, side, ret_fd, err);
}

int branch_digest_bytes(struct branch *b, const char *path,
			enum change_content side,
			unsigned char ret[CHANGE_DIGEST], struct error *err)
{
	struct branch *root = find_root(b, &path);

	return root_digest(root, path, side, ret, err);
}

/* -------------------------------------------------------------- discarding --
 */

/* Of all roots: the first one alone may look as if nobody had decided. */
static int check_undecided(struct branch *b, struct error *err)
{
	enum recover_action what;
	enum branch_state state;
	int r = 0;

	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++)
		r = root_wait_state(branch_root(b, i), &state, err);
	if (r == 0)
		r = branch_get_state(b, &state, err);
	if (r == 0 && state == BRANCH_COMMITTED)
		r = branch_recover(b, false, &what, err);
	return r < 0 ? r : root_check_undecided(b, state, err);
}

static int abort_whole(struct branch *b, struct error *err)
{
	int r = check_undecided(b, err);

	while (r == 0 && b->n_others) {
		r = root_abort(b->others[b->n_others - 1], NULL, 0, err);
		if (r == 0)
			roots_forget(b, b->n_others);
	}
	return r < 0 ? r : root_abort(b, NULL, 0, err);
}

/* It was kept for the sake of another one. */
static int remove_unused(struct branch *b, struct error *err)
{
	enum branch_state state;
	int r = root_get_state(b, &state, err);
	bool gone;

	return r < 0 || state != BRANCH_PENDING
		       ? r
		       : branch_remove_if_empty(b, true, &gone, err);
}

/* Nothing is discarded where one of the paths is wrong. */
static int check_parts(struct branch *b, const char *const *paths, size_t n,
		       const char **part, struct error *err)
{
	bool gone = false;
	int r = check_undecided(b, err);

	if (r == 0)
		r = roots_make_ready(b, true, LOCK_WAIT_MS, &gone, err);
	if (r == 0 && gone)
		return selection_say_unchanged(b->meta.name, paths[0], err);
	for (size_t i = 0; r == 0 && i < branch_n_roots(b); i++) {
		size_t n_part = roots_select(b, i, paths, n, part);

		if (n_part)
			r = root_check_paths(branch_root(b, i), part, n_part,
					     err);
	}
	return r;
}

static int abort_parts(struct branch *b, const char *const *paths, size_t n,
		       struct error *err)
{
	auto_free const char **part = calloc(n, sizeof(*part));
	auto_free const char **first = calloc(n, sizeof(*first));
	int r = part && first
			? 0
			: error_set(err, ERR_SYSTEM, ENOMEM, "cannot select");
	size_t n_first = 0;

	if (r == 0)
		r = check_parts(b, paths, n, part, err);
	/* As long as the others have what is theirs. */
	if (r == 0)
		n_first = roots_select(b, 0, paths, n, first);
	for (size_t i = b->n_others; r == 0 && i > 0; i--) {
		struct branch *root = b->others[i - 1];
		size_t n_part = roots_select(b, i, paths, n, part);

		if (n_part)
			r = root_abort(root, part, n_part, err);
		if (r == 0 && !branch_is_there(root))
			roots_forget(b, i);
	}
	if (r == 0) {
		b->keep = b->n_others > 0;
		if (n_first)
			r = root_abort(b, first, n_first, err);
		else if (!b->keep)
			r = remove_unused(b, err);
		b->keep = false;
	}
	return r;
}

int branch_abort(struct branch *b, const char *const *paths, size_t n_paths,
		 struct error *err)
{
	bool held = b->locked;
	int r;

	if (!b->n_others)
		return root_abort(b, paths, n_paths, err);
	r = branch_lock(b, LOCK_WAIT_MS, err);
	if (r < 0)
		return r;
	r = n_paths ? abort_parts(b, paths, n_paths, err) : abort_whole(b, err);
	if (!held)
		branch_unlock(b);
	return roots_said(b, r, err);
}
