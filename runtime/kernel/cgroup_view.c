#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/cgroup.h"
#include "kernel/cgroup_internal.h"

enum { VIEWS_MAX = 32, LIST_MAX = 64 * 1024 };

void cgroup_views_free(struct cgroup_view *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		free(v[i].hierarchy);
		free(v[i].mountpoint);
		free(v[i].path);
	}
	free(v);
}

static bool is_cgroup_mount(const char *path)
{
	struct statfs st;

	if (statfs(path, &st) < 0)
		return false;
	return (unsigned long)st.f_type == CGROUP_SUPER_MAGIC ||
	       (unsigned long)st.f_type == CGROUP2_SUPER_MAGIC;
}

/* The sandbox's own path in a hierarchy, or NULL if it has none there. */
static const char *own_path(const struct cgroup *c, const char *names)
{
	for (int i = 0; i < CTL_COUNT; i++) {
		if (!c->node[i].dir)
			continue;
		if (i == CTL_UNIFIED
			    ? !*names
			    : cgroup_has_word(names, cgroup_ctls[i].v1))
			return c->path;
	}
	return NULL;
}

/* One of "4:memory:/path", "9:name=systemd:/", "0::/". 1: taken. */
static int add_view(const struct cgroup *c, char *line, struct cgroup_view *v)
{
	char *names = strchr(line, ':'), *path = NULL;
	const char *label, *own;
	char mountpoint[PATH_MAX];

	if (names)
		path = strchr(++names, ':');
	if (!path)
		return 0;
	*path++ = '\0';
	label = strncmp(names, "name=", 5) == 0 ? names + 5 : names;
	if (!*names && c->mode == CGROUP_HYBRID)
		label = "unified";
	if (!*label && c->mode != CGROUP_V2)
		return 0;
	if (cgroup_file_path(CGROUP_ROOT, label, mountpoint) < 0 ||
	    !is_cgroup_mount(mountpoint))
		return 0;
	own = own_path(c, *names ? label : names);
	v->hierarchy = strdup(label);
	v->mountpoint = strdup(mountpoint);
	v->path = strdup(own ? own : path);
	v->own = own;
	return v->hierarchy && v->mountpoint && v->path ? 1 : -ENOMEM;
}

int cgroup_views(const struct cgroup *c, struct cgroup_view **ret,
		 size_t *ret_n, struct error *err)
{
	struct cgroup_view *v = calloc(VIEWS_MAX, sizeof(*v));
	auto_(buf) struct buf b = BUF_INIT;
	char *line, *save = NULL;
	size_t n = 0;
	int r;

	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot list the cgroup hierarchies");
	r = fd_read_file(AT_FDCWD, "/proc/self/cgroup", LIST_MAX, &b);
	for (line = r == 0 && b.data ? strtok_r(b.data, "\n", &save) : NULL;
	     line && n < VIEWS_MAX; line = strtok_r(NULL, "\n", &save)) {
		r = add_view(c, line, &v[n]);
		if (r < 0) {
			n++;
			break;
		}
		n += (size_t)r;
	}
	if (r < 0) {
		cgroup_views_free(v, n);
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot list the cgroup hierarchies");
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

static int give(const char *dir, const char *file, uid_t uid, struct error *err)
{
	char path[PATH_MAX];

	if (cgroup_file_path(dir, file, path) < 0)
		return error_set(err, ERR_SYSTEM, ENAMETOOLONG,
				 "cannot delegate '%s'", dir);
	/* A kernel lists files that a cgroup need not have. */
	if (chown(path, uid, (gid_t)-1) < 0 && errno != ENOENT)
		return error_set(err, ERR_SYSTEM, errno, "cannot delegate '%s'",
				 path);
	return 0;
}

int cgroup_delegate(const struct cgroup *c, uid_t uid, struct error *err)
{
	const char *dir = c->node[CTL_UNIFIED].dir;
	auto_(buf) struct buf b = BUF_INIT;
	char *file, *save = NULL;
	int r;

	if (c->mode != CGROUP_V2 || !dir)
		return 0;
	if (fd_read_file(AT_FDCWD, "/sys/kernel/cgroup/delegate", LIST_MAX,
			 &b) < 0)
		buf_add_str(&b, "cgroup.procs\ncgroup.subtree_control\n"
				"cgroup.threads\n");
	if (buf_failed(&b) || !b.data)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot delegate '%s'", dir);
	r = give(dir, "", uid, err);
	for (file = strtok_r(b.data, "\n", &save); r == 0 && file;
	     file = strtok_r(NULL, "\n", &save)) {
		if (!strchr(file, '/'))
			r = give(dir, file, uid, err);
	}
	return r;
}
