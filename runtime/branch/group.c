#include "branch/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "branch/plan.h"

static const char *const journal_ends[] = { "-wal", "-shm", "-journal" };

/* Behind "/.git/", or NULL. */
static const char *inside_git(const char *path)
{
	const char *p = path;

	while ((p = strstr(p, ".git/"))) {
		if (p == path || p[-1] == '/')
			return p + strlen(".git/");
		p++;
	}
	return NULL;
}

/* How long the name of the database is that @path is a journal of; or 0. */
static size_t journal_base(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < ARRAY_LEN(journal_ends); i++) {
		size_t m = strlen(journal_ends[i]);

		if (n > m && strcmp(path + n - m, journal_ends[i]) == 0 &&
		    path[n - m - 1] != '/')
			return n - m;
	}
	return 0;
}

/* How much of @path names its group: the whole path where it is alone. */
static size_t name_length(const char *path)
{
	const char *git = inside_git(path);
	size_t n = git ? (size_t)(git - path) - 1 : journal_base(path);

	return n ? n : strlen(path);
}

bool group_is_pointer(const char *path)
{
	static const char *const names[] = {
		"package-lock.json", "pnpm-lock.yaml", "yarn.lock",
		"Cargo.lock",	     "poetry.lock",    "go.sum",
	};
	const char *git = inside_git(path);
	const char *base = strrchr(path, '/');

	if (git)
		return strncmp(git, "objects/", strlen("objects/")) != 0;
	base = base ? base + 1 : path;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(base, names[i]) == 0)
			return true;
	return journal_base(path) > 0;
}

bool group_is_stale_lock(const char *path)
{
	const char *git = inside_git(path);
	size_t n = git ? strlen(git) : 0;

	return n > strlen(".lock") &&
	       strcmp(git + n - strlen(".lock"), ".lock") == 0;
}

void groups_done(struct groups *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->names[i]);
	free(g->names);
	*g = (struct groups){ .n = 0 };
}

int groups_add(struct groups *g, const char *path)
{
	char *name = strndup(path, name_length(path));
	char **grown = reallocarray(g->names, g->n + 1, sizeof(*grown));

	if (grown)
		g->names = grown;
	if (!name || !grown) {
		free(name);
		return -ENOMEM;
	}
	g->names[g->n++] = name;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void groups_sort(struct groups *g)
{
	if (g->n > 1)
		qsort(g->names, g->n, sizeof(*g->names), compare_names);
}

static bool has_group(const struct groups *g, const char *path)
{
	char *name = strndup(path, name_length(path));
	bool found = g->n > 0 && name &&
		     bsearch(&name, g->names, g->n, sizeof(*g->names),
			     compare_names);

	free(name);
	return found;
}

/* Which directories are touched depends on the ops that are left. */
static void touch_again(struct plan *p)
{
	for (size_t i = 0; i < p->n_dirs; i++)
		p->dirs[i].flags &= (uint8_t)~DIR_TOUCHED;
	for (size_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].kind == OP_PUT || p->ops[i].kind == OP_DELETE)
			p->dirs[p->ops[i].dir].flags |= DIR_TOUCHED;
}

int group_leave_out(struct plan *p, const struct groups *g)
{
	auto_(buf) struct buf path = BUF_INIT;
	size_t kept = 0;

	for (size_t i = 0; i < p->n_ops; i++) {
		struct plan_op op = p->ops[i];

		plan_path(p, op.dir, plan_text(p, op.name), &path);
		if (buf_failed(&path))
			return -ENOMEM;
		if (!has_group(g, buf_str(&path))) {
			p->ops[kept++] = op;
		} else if (op.kind == OP_PUT || op.kind == OP_DELETE) {
			p->n_published -= p->n_published > 0;
			p->n_skipped++;
		}
	}
	p->n_ops = kept;
	for (uint32_t i = 0; i < p->n_dirs; i++) {
		plan_path(p, i, NULL, &path);
		if (buf_failed(&path))
			return -ENOMEM;
		if (has_group(g, buf_str(&path)))
			p->dirs[i].flags &= (uint8_t)~DIR_META;
	}
	touch_again(p);
	return 0;
}

int group_join_databases(struct plan *p)
{
	auto_(groups) struct groups g = { .n = 0 };
	auto_(buf) struct buf path = BUF_INIT;

	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];

		if (op->class != CLASS_POINTER ||
		    !journal_base(plan_text(p, op->name)))
			continue;
		plan_path(p, op->dir, plan_text(p, op->name), &path);
		if (buf_failed(&path) || groups_add(&g, buf_str(&path)) < 0)
			return -ENOMEM;
	}
	groups_sort(&g);
	for (size_t i = 0; g.n > 0 && i < p->n_ops; i++) {
		struct plan_op *op = &p->ops[i];

		plan_path(p, op->dir, plan_text(p, op->name), &path);
		if (buf_failed(&path))
			return -ENOMEM;
		if (op->kind == OP_PUT && has_group(&g, buf_str(&path)))
			op->class = CLASS_POINTER;
	}
	return 0;
}
