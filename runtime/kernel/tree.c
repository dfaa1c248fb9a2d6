#include "kernel/tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "kernel/pidfd.h"

enum { STEP = 256, ANCESTORS_MAX = 4096 };

struct process {
	pid_t pid, parent;
	bool is_below;
};

struct table {
	struct process *v;
	size_t n;
};

static int add(struct table *t, pid_t pid)
{
	struct proc_stat st;

	if (proc_read_stat(pid, &st) < 0)
		return 0;
	if (t->n % STEP == 0) {
		struct process *v = reallocarray(t->v, t->n + STEP, sizeof(*v));

		if (!v)
			return -ENOMEM;
		t->v = v;
	}
	t->v[t->n++] = (struct process){ .pid = pid, .parent = st.ppid };
	return 0;
}

static int read_all(struct table *t)
{
	auto_dir DIR *d = opendir("/proc");
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0)
			r = add(t, pid);
	}
	return r;
}

static bool is_parent_below(const struct table *t, pid_t parent)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].pid == parent)
			return t->v[i].is_below;
	return false;
}

/* Parents have lower numbers, mostly: a pass or two are enough. */
static size_t mark(struct table *t, pid_t root)
{
	bool changed = true;
	size_t n = 0;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < t->n; i++) {
			struct process *p = &t->v[i];

			if (p->is_below || p->pid == root ||
			    (p->parent != root &&
			     !is_parent_below(t, p->parent)))
				continue;
			p->is_below = changed = true;
			n++;
		}
	}
	return n;
}

int tree_list(pid_t root, pid_t **ret, size_t *ret_n)
{
	struct table t = { NULL, 0 };
	size_t n = 0, found;
	int r = read_all(&t);

	*ret = NULL;
	*ret_n = 0;
	found = r == 0 ? mark(&t, root) : 0;
	if (found)
		*ret = calloc(found, sizeof(**ret));
	if (found && !*ret)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && n < found && i < t.n; i++)
		if (t.v[i].is_below)
			(*ret)[n++] = t.v[i].pid;
	*ret_n = n;
	free(t.v);
	return r;
}

bool tree_has(pid_t root, pid_t pid)
{
	struct proc_stat st;

	for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
		if (proc_read_stat(pid, &st) < 0)
			return false;
		if (st.ppid == root)
			return true;
		pid = st.ppid;
	}
	return false;
}
