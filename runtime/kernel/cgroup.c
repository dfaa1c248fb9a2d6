#include "kernel/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "kernel/cgroup_internal.h"
#include "spec/spec.h"

enum { PROC_FILE_MAX = 64 * 1024 };

/* clang-format off */
const struct cgroup_ctl_row cgroup_ctls[CTL_COUNT] = {
	[CTL_UNIFIED]  = { "unified",  NULL,      "unified" },
	[CTL_FREEZER]  = { "freezer",  NULL,      "" },
	[CTL_MEMORY]   = { "memory",   "memory",  "memory" },
	[CTL_CPU]      = { "cpu",      "cpu",     "cpu" },
	[CTL_CPUACCT]  = { "cpuacct",  NULL,      "" },
	[CTL_CPUSET]   = { "cpuset",   "cpuset",  "cpu" },
	[CTL_PIDS]     = { "pids",     "pids",    "pids" },
	[CTL_DEVICES]  = { "devices",  NULL,      "devices" },
	[CTL_BLKIO]    = { "blkio",    "io",      "blockIO" },
	[CTL_HUGETLB]  = { "hugetlb",  "hugetlb", "hugepageLimits" },
	[CTL_NET_CLS]  = { "net_cls",  NULL,      "network" },
	[CTL_NET_PRIO] = { "net_prio", NULL,      "network" },
	[CTL_RDMA]     = { "rdma",     "rdma",    "rdma" },
	[CTL_SYSTEMD]  = { "systemd",  NULL,      "" },
};

static const char *const mode_names[] = {
	[CGROUP_NONE] = "none", [CGROUP_V1] = "v1",
	[CGROUP_HYBRID] = "hybrid", [CGROUP_V2] = "v2",
};
/* clang-format on */

static bool has_magic(const char *path, unsigned long magic)
{
	struct statfs st;

	return statfs(path, &st) == 0 && (unsigned long)st.f_type == magic;
}

enum cgroup_mode cgroup_host_mode(void)
{
	struct statfs st;

	if (statfs(CGROUP_ROOT, &st) < 0)
		return CGROUP_NONE;
	if ((unsigned long)st.f_type == CGROUP2_SUPER_MAGIC)
		return CGROUP_V2;
	if ((unsigned long)st.f_type != TMPFS_MAGIC)
		return CGROUP_NONE;
	if (has_magic(CGROUP_ROOT "/unified", CGROUP2_SUPER_MAGIC))
		return CGROUP_HYBRID;
	return CGROUP_V1;
}

static void node_done(struct cgroup_node *n)
{
	free(n->dir);
	if (n->tasks_fd >= 0)
		(void)close(n->tasks_fd);
	*n = (struct cgroup_node){ .tasks_fd = -1 };
}

void cgroup_free(struct cgroup *c)
{
	if (!c)
		return;
	cgroup_settle(c);
	for (int i = 0; i < CTL_COUNT; i++)
		node_done(&c->node[i]);
	free(c->unit);
	if (c->membership_fd >= 0)
		(void)close(c->membership_fd);
	free(c->path);
	free(c);
}

CLEANUP_PTR(struct cgroup, cgroup_free);

static struct cgroup *cgroup_new(enum cgroup_mode mode)
{
	struct cgroup *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->mode = mode;
	c->membership_fd = -1;
	for (int i = 0; i < CTL_COUNT; i++)
		c->node[i].tasks_fd = -1;
	return c;
}

int cgroup_path_of(pid_t pid, const char *hierarchy, char **ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	char file[64], *line, *save = NULL;
	int r;

	if (pid)
		(void)snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
	else
		(void)snprintf(file, sizeof(file), "/proc/self/cgroup");
	r = fd_read_file(AT_FDCWD, file, PROC_FILE_MAX, &b);
	if (r < 0)
		return r;
	if (!b.data)
		return -ENOENT;
	for (line = strtok_r(b.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		/* "4:memory:/path", "0::/path" */
		char *names = strchr(line, ':'), *path;

		path = names ? strchr(++names, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (*hierarchy ? !cgroup_has_word(names, hierarchy)
			       : *names != '\0')
			continue;
		*ret = strdup(path);
		return *ret ? 0 : -ENOMEM;
	}
	return -ENOENT;
}

/* "slice:prefix:name" is an order to systemd, not a path. */
static bool is_systemd_form(const char *path)
{
	const char *first = strchr(path, ':');

	return !strchr(path, '/') && first && strchr(first + 1, ':');
}

static int check_path(const char *path, struct error *err)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		p += strspn(p, "/");
		if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2]))
			return error_say(err, ERR_BUNDLE, EINVAL,
					 "cgroupsPath '%s' has a '..'", path);
	}
	if (!is_systemd_form(path))
		return 0;
	(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
			"cgroupsPath '%s' asks for a unit of systemd", path);
	return error_hint(err, "use --cgroup-manager=systemd, or a path");
}

/* Where an ordinary user may make cgroups: below the own one, if delegated. */
static int default_path(const struct cgroup_options *o, enum cgroup_mode mode,
			char **ret)
{
	auto_free char *own = NULL;
	const char *base = "/";

	if (o->rootless && mode != CGROUP_V1 &&
	    cgroup_path_of(0, "", &own) == 0)
		base = own;
	*ret = path_join(base, o->name);
	return *ret ? 0 : -ENOMEM;
}

static int choose_path(const struct cgroup_options *o, struct cgroup *c,
		       struct error *err)
{
	auto_free char *joined = NULL;
	int r;

	if (o->path && *o->path) {
		r = check_path(o->path, err);
		if (r < 0)
			return r;
		joined = path_join("/", o->path);
	} else if (default_path(o, c->mode, &joined) < 0) {
		joined = NULL;
	}
	c->path = joined ? path_normalize(joined) : NULL;
	if (!c->path)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot choose a cgroup");
	if (strcmp(c->path, "/") == 0)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "cgroupsPath '%s' is the root cgroup",
				 o->path);
	return 0;
}

static int mountpoint_of(const struct cgroup *c, enum cgroup_ctl ctl, char *ret)
{
	if (ctl == CTL_UNIFIED && c->mode == CGROUP_V2)
		return cgroup_file_path(CGROUP_ROOT, "", ret);
	return cgroup_file_path(CGROUP_ROOT, cgroup_ctls[ctl].v1, ret);
}

/* A new v1 cpuset is empty, and no task may enter an empty one. */
static int inherit_cpuset(const char *dir)
{
	static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
	char parent[PATH_MAX];
	char *slash;

	(void)snprintf(parent, sizeof(parent), "%s", dir);
	slash = strrchr(parent, '/');
	if (!slash)
		return -EINVAL;
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_(buf) struct buf own = BUF_INIT, theirs = BUF_INIT;
		int r = cgroup_read(dir, files[i], &own);

		if (r == 0 && strspn(buf_str(&own), "\n") < own.len)
			continue;
		if (r == 0)
			r = cgroup_read(parent, files[i], &theirs);
		if (r == 0)
			r = cgroup_write_raw(dir, files[i], buf_str(&theirs));
		if (r < 0)
			return r;
	}
	return 0;
}

/* mkdir -p from byte @from on; remembers the topmost that was missing. */
static int make_dirs(struct cgroup_node *n, size_t from, bool cpuset)
{
	for (char *p = n->dir + from + 1;; p++) {
		char c = *p;
		int r = 0;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (mkdir(n->dir, 0755) < 0)
			r = errno == EEXIST ? 0 : -errno;
		else if (!n->made)
			n->made = (size_t)(p - n->dir);
		if (r == 0 && cpuset)
			r = inherit_cpuset(n->dir);
		*p = c;
		if (r < 0 || !c)
			return r;
	}
}

static int count_procs(int dirfd, const char *path, size_t *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	size_t n = 0;
	int r = fd_read_file(dirfd, path, CGROUP_FILE_MAX, &b);

	if (r < 0)
		return r;
	for (size_t i = 0; i < b.len; i++)
		n += b.data[i] == '\n';
	*ret = n;
	return 0;
}

/* A cgroup that was there already may hold somebody else's processes. */
static int check_unused(const struct cgroup *c, const struct cgroup_node *n,
			bool v2, struct error *err)
{
	uint64_t frozen = 0;
	char path[PATH_MAX];
	size_t procs = 0;

	/* A scope is ours alone, and our holder is in it. */
	if (!c->unit && cgroup_file_path(n->dir, "cgroup.procs", path) == 0 &&
	    count_procs(AT_FDCWD, path, &procs) == 0 && procs > 0)
		return error_say(err, ERR_STATE, EBUSY,
				 "container's cgroup is not empty: %zu "
				 "process(es) found",
				 procs);
	if (v2 && cgroup_read_number(n->dir, "cgroup.freeze", &frozen) == 0 &&
	    frozen)
		return error_say(err, ERR_STATE, EBUSY,
				 "container's cgroup unexpectedly frozen");
	if (n == &c->node[CTL_FREEZER]) {
		auto_(buf) struct buf b = BUF_INIT;

		if (cgroup_read(n->dir, "freezer.state", &b) == 0 &&
		    strncmp(buf_str(&b), "THAWED", 6) != 0)
			return error_say(err, ERR_STATE, EBUSY,
					 "container's cgroup unexpectedly "
					 "frozen");
	}
	return 0;
}

static int make_error(const struct cgroup_node *n, int sys, struct error *err)
{
	bool denied = sys == EACCES || sys == EPERM || sys == EROFS;

	(void)error_set(err, denied ? ERR_UNSUPPORTED : ERR_SYSTEM, sys,
			"cannot make the cgroup '%s'", n->dir);
	if (denied)
		return error_hint(err, "limits need root or a delegated "
				       "cgroup");
	return error_code(err);
}

static bool may_join(const char *dir)
{
	char path[PATH_MAX];

	return cgroup_file_path(dir, "cgroup.procs", path) == 0 &&
	       faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static int open_tasks(struct cgroup_node *n, struct error *err)
{
	char path[PATH_MAX];

	if (cgroup_file_path(n->dir, "tasks", path) < 0)
		return error_set(err, ERR_SYSTEM, ENAMETOOLONG,
				 "cannot open the tasks of '%s'", n->dir);
	n->tasks_fd = open(path, O_WRONLY | O_CLOEXEC);
	if (n->tasks_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 path);
	return 0;
}

int cgroup_node_make(struct cgroup *c, enum cgroup_ctl ctl, struct error *err)
{
	struct cgroup_node *n = &c->node[ctl];
	char mountpoint[PATH_MAX];
	int r;

	if (n->dir)
		return 0;
	r = mountpoint_of(c, ctl, mountpoint);
	n->dir = r == 0 ? path_join(mountpoint, c->path + 1) : NULL;
	if (!n->dir)
		return error_set(err, ERR_SYSTEM, r < 0 ? -r : ENOMEM,
				 "cannot make a cgroup");
	r = make_dirs(n, strlen(mountpoint), ctl == CTL_CPUSET);
	/*
	 * One that was there already may be root's, of a sandbox of that name,
	 * but that of a scope is as its systemd has made it.
	 */
	if (r == 0 && !n->made && !c->unit && !may_join(n->dir))
		r = -EACCES;
	if (r < 0)
		return make_error(n, -r, err);
	/* made covers the whole path: nobody can have been in it before. */
	if (!n->made) {
		r = check_unused(c, n, ctl == CTL_UNIFIED, err);
		if (r < 0)
			return r;
	}
	if (ctl != CTL_UNIFIED)
		return open_tasks(n, err);
	c->membership_fd = open(n->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->membership_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 n->dir);
	return 0;
}

int cgroup_make_membership(struct cgroup *c, struct error *err)
{
	switch (c->mode) {
	case CGROUP_V2:
	case CGROUP_HYBRID:
		return cgroup_node_make(c, CTL_UNIFIED, err);
	case CGROUP_V1:
		return cgroup_node_make(c, CTL_FREEZER, err);
	case CGROUP_NONE:
		break;
	}
	return error_say(err, ERR_UNSUPPORTED, ENOENT,
			 "no cgroup file system is mounted at '%s'",
			 CGROUP_ROOT);
}

static int remove_node(const struct cgroup_node *n, bool v2)
{
	auto_free char *dir = strdup(n->dir);
	int r;

	if (!dir)
		return -ENOMEM;
	r = cgroup_remove_tree(dir, v2);
	if (r < 0)
		return r;
	/* Parents of ours, as far as nobody else lives in them. */
	for (;;) {
		char *slash = strrchr(dir, '/');

		if (!slash || (size_t)(slash - dir) < n->made || !n->made)
			return 0;
		*slash = '\0';
		if (rmdir(dir) < 0 && errno != ENOENT)
			return 0;
	}
}

/* After a failure: what was there before stays. */
static void remove_made(const struct cgroup *c)
{
	for (int i = 0; i < CTL_COUNT; i++) {
		if (c->node[i].dir && c->node[i].made)
			(void)remove_node(&c->node[i], i == CTL_UNIFIED);
	}
}

void cgroup_node_drop(struct cgroup *c, enum cgroup_ctl ctl)
{
	if (c->node[ctl].dir && c->node[ctl].made)
		(void)remove_node(&c->node[ctl], ctl == CTL_UNIFIED);
	node_done(&c->node[ctl]);
}

/* Forgets everything: an object without a cgroup. */
static void make_empty(struct cgroup *c)
{
	for (int i = 0; i < CTL_COUNT; i++)
		node_done(&c->node[i]);
	free(take_ptr(&c->path));
}

/* Puts the controllers that were asked for in front of the message. */
static int name_limits(const struct cgroup_options *o, struct error *err)
{
	unsigned int need = cgroup_needs(o->resources, o->rootless);
	auto_(buf) struct buf names = BUF_INIT;

	for (int i = 0; i < CTL_COUNT; i++) {
		if (need & CTL_BIT(i))
			buf_printf(&names, "%s%s", names.len ? ", " : "",
				   cgroup_ctls[i].v1);
	}
	return error_wrap(err, "cannot limit %s", buf_str(&names));
}

static int fill(struct cgroup *c, const struct cgroup_options *o,
		struct error *err)
{
	bool asked = cgroup_needs(o->resources, o->rootless) != 0;
	struct error e = ERROR_INIT;
	int r = choose_path(o, c, err);

	if (r < 0)
		return r;
	r = cgroup_make_membership(c, &e);
	if (r < 0 && e.kind == ERR_UNSUPPORTED && !asked &&
	    (o->rootless || !o->path)) {
		log_debug(o->log, "no cgroup: %s", e.msg);
		remove_made(c);
		make_empty(c);
		return 0;
	}
	if (r < 0) {
		if (err)
			*err = e;
		return asked ? name_limits(o, err) : r;
	}
	if (asked)
		r = cgroup_apply(c, o->resources, o->rootless, err);
	return r == 0 && o->path && !o->rootless ? cgroup_make_all(c, err) : r;
}

static int fill_scope(struct cgroup *c, const struct cgroup_options *o,
		      struct error *err)
{
	int r = cgroup_unit_make(c, o, err);

	if (r < 0 || !cgroup_needs(o->resources, o->rootless))
		return r;
	return cgroup_apply(c, o->resources, o->rootless, err);
}

int cgroup_make(const struct cgroup_options *o, struct cgroup **ret,
		struct error *err)
{
	auto_ptr(cgroup_free) struct cgroup *c = cgroup_new(cgroup_host_mode());
	int r;

	if (!c)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot make a cgroup");
	c->log = o->log;
	r = o->systemd ? fill_scope(c, o, err) : fill(c, o, err);
	c->log = NULL;
	if (r < 0) {
		if (c->unit)
			(void)cgroup_unit_stop(c, NULL);
		remove_made(c);
		return r;
	}
	*ret = take_ptr(&c);
	return 0;
}

int cgroup_membership_fd(const struct cgroup *c)
{
	return c->membership_fd;
}

const struct cgroup_node *cgroup_member_node(const struct cgroup *c)
{
	if (c->node[CTL_UNIFIED].dir)
		return &c->node[CTL_UNIFIED];
	if (c->node[CTL_FREEZER].dir)
		return &c->node[CTL_FREEZER];
	return NULL;
}

bool cgroup_is_scope(const struct cgroup *c)
{
	return c->unit != NULL;
}

bool cgroup_has_membership(const struct cgroup *c)
{
	return cgroup_member_node(c) && !cgroup_unit_is_anothers(c);
}

static int join_error(const char *dir, int sys, struct error *err)
{
	return error_set(err, ERR_SYSTEM, sys, "cannot join the cgroup '%s'",
			 dir);
}

/*
 * A cgroup whose controllers are given on to its children takes no processes:
 * the init inside has moved itself below, and there a newcomer goes too.
 */
static int attach_to_first(int dirfd, void *data)
{
	const char *const *pid = data;
	size_t n;
	int r;

	if (count_procs(dirfd, "cgroup.procs", &n) < 0 || n == 0)
		return 0;
	r = fd_write_file(dirfd, "cgroup.procs", *pid);
	return r < 0 ? r : 1;
}

static int attach_below(const char *dir, const char *pid)
{
	int r = cgroup_walk(dir, attach_to_first, &pid);

	if (r == 0)
		return -EBUSY;
	return r < 0 ? r : 0;
}

/*
 * To move processes takes rights on the cgroup that both places are in, and
 * between a user's session and the units of his systemd root alone has them.
 */
static bool is_denied(int r)
{
	return r == -EACCES || r == -EPERM;
}

/* Writing when we are there already would cost a grace period of RCU. */
static int join_unified(const struct cgroup *c, struct error *err)
{
	const char *dir = c->node[CTL_UNIFIED].dir;
	auto_free char *own = NULL;
	int r;

	if (!dir)
		return 0;
	if (cgroup_path_of(0, "", &own) == 0 && strcmp(own, c->path) == 0)
		return 0;
	r = cgroup_write_raw(dir, "cgroup.procs", "0");
	if (r == -EBUSY)
		r = attach_below(dir, "0");
	if (is_denied(r) && c->unit)
		return cgroup_unit_attach(c, getpid(), err);
	return r < 0 ? join_error(dir, -r, err) : 0;
}

int cgroup_child_join(const struct cgroup *c, bool already, struct error *err)
{
	for (int i = 0; i < CTL_COUNT; i++) {
		const struct cgroup_node *n = &c->node[i];
		int r;

		if (!n->dir || i == CTL_UNIFIED)
			continue;
		r = n->tasks_fd >= 0 ? fd_write_full(n->tasks_fd, "0", 1)
				     : cgroup_write_raw(n->dir, "tasks", "0");
		if (r < 0)
			return join_error(n->dir, -r, err);
	}
	return already ? 0 : join_unified(c, err);
}

int cgroup_attach(const struct cgroup *c, pid_t pid, struct error *err)
{
	char text[CGROUP_NUMBER_MAX];

	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	for (int i = 0; i < CTL_COUNT; i++) {
		const char *dir = c->node[i].dir;
		int r;

		if (!dir)
			continue;
		r = cgroup_write_raw(dir, "cgroup.procs", text);
		if (r == -EBUSY && i == CTL_UNIFIED)
			r = attach_below(dir, text);
		if (is_denied(r) && c->unit && i == CTL_UNIFIED)
			r = cgroup_unit_attach(c, pid, err);
		else if (r < 0)
			r = join_error(dir, -r, err);
		if (r < 0)
			return r;
	}
	return 0;
}

void cgroup_to_json(const struct cgroup *c, struct json_out *o)
{
	json_out_object(o);
	json_out_str_member(o, "mode", mode_names[c->mode]);
	if (c->path)
		json_out_str_member(o, "path", c->path);
	if (c->unit) {
		json_out_str_member(o, "unit", c->unit);
		json_out_bool_member(o, "user", c->user);
		json_out_uint_member(o, "id", c->id);
	}
	json_out_key(o, "nodes");
	json_out_array(o);
	for (int i = 0; i < CTL_COUNT; i++) {
		const struct cgroup_node *n = &c->node[i];

		if (!n->dir)
			continue;
		json_out_object(o);
		json_out_str_member(o, "hierarchy", cgroup_ctls[i].v1);
		json_out_str_member(o, "dir", n->dir);
		json_out_uint_member(o, "made", n->made);
		json_out_object_end(o);
	}
	json_out_array_end(o);
	json_out_object_end(o);
}

static int node_from_json(struct cgroup *c, const struct json *j)
{
	const char *name = json_str_or(j, "hierarchy", "");
	const char *dir = json_str_or(j, "dir", "");
	int64_t made = json_int_or(j, "made", 0);
	size_t len = strlen(dir);

	if (!path_is_under(dir, CGROUP_ROOT) || strstr(dir, "/..") ||
	    made < 0 || (size_t)made > len ||
	    (made && (size_t)made < len && dir[made] != '/'))
		return -EINVAL;
	for (int i = 0; i < CTL_COUNT; i++) {
		if (strcmp(cgroup_ctls[i].v1, name) != 0)
			continue;
		free(c->node[i].dir);
		c->node[i].dir = strdup(dir);
		c->node[i].made = (size_t)made;
		/* For exec; it may be gone already. */
		if (i == CTL_UNIFIED && c->membership_fd < 0)
			c->membership_fd =
				open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return c->node[i].dir ? 0 : -ENOMEM;
	}
	return -EINVAL;
}

int cgroup_from_json(const struct json *j, struct cgroup **ret,
		     struct error *err)
{
	auto_ptr(cgroup_free) struct cgroup *c = cgroup_new(CGROUP_NONE);
	const char *mode = json_str_or(j, "mode", "");
	const char *path = json_str_or(j, "path", NULL);
	const char *unit = json_str_or(j, "unit", NULL);
	const struct json *nodes = json_get(j, "nodes");
	const struct json *id = json_get(j, "id");
	int r = unit && !cgroup_unit_is_valid(unit) ? -EINVAL : 0;

	if (!c)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot read the cgroup of the state");
	for (size_t i = 0; i < ARRAY_LEN(mode_names); i++) {
		if (strcmp(mode, mode_names[i]) == 0)
			c->mode = (enum cgroup_mode)i;
	}
	if (path && !(c->path = strdup(path)))
		r = -ENOMEM;
	if (unit && !(c->unit = strdup(unit)))
		r = -ENOMEM;
	c->user = json_bool_or(j, "user", false);
	if (id && json_uint64(id, &c->id) < 0)
		r = -EINVAL;
	for (size_t i = 0; r == 0 && nodes && i < nodes->n; i++)
		r = node_from_json(c, &nodes->items[i]);
	if (r < 0)
		return error_set(err, ERR_TORN, -r,
				 "the cgroup in the state is not valid");
	*ret = take_ptr(&c);
	return 0;
}

int cgroup_remove(struct cgroup *c, struct error *err)
{
	int first = c->unit ? cgroup_unit_stop(c, err) : 0;

	for (int i = 0; i < CTL_COUNT && !cgroup_unit_is_anothers(c); i++) {
		const struct cgroup_node *n = &c->node[i];
		int r;

		if (!n->dir)
			continue;
		/* An empty one that we found was taken over, as runc does. */
		r = remove_node(n, i == CTL_UNIFIED);
		if (r < 0 && first == 0)
			first = error_set(err, ERR_SYSTEM, -r,
					  "cannot remove the cgroup '%s'",
					  n->dir);
	}
	return first;
}
