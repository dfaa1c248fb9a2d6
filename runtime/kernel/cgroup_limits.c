#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "base/log.h"
#include "kernel/cgroup.h"
#include "kernel/cgroup_internal.h"
#include "spec/spec.h"

static unsigned int memory_needs(const struct spec_resources *r)
{
	/* useHierarchy and the kernel limits are no longer the kernel's. */
	if (r->has_mem_limit || r->has_mem_reservation || r->has_mem_swap ||
	    r->has_mem_swappiness ||
	    (r->has_mem_disable_oom && r->mem_disable_oom))
		return CTL_BIT(CTL_MEMORY);
	return 0;
}

static unsigned int cpu_needs(const struct spec_resources *r)
{
	unsigned int need = 0;

	if (r->has_cpu_shares || r->has_cpu_quota || r->has_cpu_burst ||
	    r->has_cpu_period || r->has_cpu_rt_runtime ||
	    r->has_cpu_rt_period || r->has_cpu_idle)
		need |= CTL_BIT(CTL_CPU);
	if (r->cpu_cpus || r->cpu_mems)
		need |= CTL_BIT(CTL_CPUSET);
	return need;
}

static bool needs_blkio(const struct spec_resources *r)
{
	return r->has_blkio_weight || r->has_blkio_leaf_weight ||
	       r->n_blkio_weight_devices || r->n_read_bps || r->n_write_bps ||
	       r->n_read_iops || r->n_write_iops;
}

unsigned int cgroup_needs(const struct spec_resources *r, bool rootless)
{
	unsigned int need;

	if (!r)
		return 0;
	need = memory_needs(r) | cpu_needs(r);
	if (r->has_pids_limit)
		need |= CTL_BIT(CTL_PIDS);
	if (needs_blkio(r))
		need |= CTL_BIT(CTL_BLKIO);
	if (r->n_hugepages)
		need |= CTL_BIT(CTL_HUGETLB);
	if (r->has_net_class_id)
		need |= CTL_BIT(CTL_NET_CLS);
	if (r->n_net_prios)
		need |= CTL_BIT(CTL_NET_PRIO);
	if (r->n_rdma)
		need |= CTL_BIT(CTL_RDMA);
	if (r->n_unified)
		need |= CTL_BIT(CTL_UNIFIED);
	/*
	 * An ordinary user cannot make device nodes, and opens the host's with
	 * the rights of the host: there is nothing left for rules to refuse.
	 */
	if (r->n_devices && !rootless)
		need |= CTL_BIT(CTL_DEVICES);
	return need;
}

static bool is_v1_mounted(enum cgroup_ctl ctl)
{
	char path[PATH_MAX];
	struct statfs st;

	return cgroup_file_path(CGROUP_ROOT, cgroup_ctls[ctl].v1, path) == 0 &&
	       statfs(path, &st) == 0 &&
	       (unsigned long)st.f_type == CGROUP_SUPER_MAGIC;
}

static bool is_writable(const char *dir, const char *file)
{
	char path[PATH_MAX];

	return cgroup_file_path(dir, file, path) == 0 &&
	       faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

/* Below the root for root, else below the own cgroup, if it was delegated. */
static bool can_limit_v2(enum cgroup_mode mode, const char *name, bool rootless)
{
	auto_(buf) struct buf available = BUF_INIT;
	auto_free char *own = NULL;
	char dir[PATH_MAX];

	if (!name || (rootless && cgroup_path_of(0, "", &own) < 0) ||
	    cgroup_file_path(mode == CGROUP_V2 ? CGROUP_ROOT
					       : CGROUP_ROOT "/unified",
			     own ? own : "", dir) < 0 ||
	    cgroup_read(dir, "cgroup.controllers", &available) < 0)
		return false;
	return cgroup_has_word(buf_str(&available), name) &&
	       is_writable(dir, "") &&
	       is_writable(dir, "cgroup.subtree_control");
}

bool cgroup_can_limit(const char *name, bool rootless)
{
	enum cgroup_mode mode = cgroup_host_mode();
	enum cgroup_ctl ctl = CTL_FREEZER;

	while (ctl < CTL_COUNT && strcmp(cgroup_ctls[ctl].property, name) != 0)
		ctl++;
	if (ctl == CTL_COUNT || mode == CGROUP_NONE)
		return false;
	if (mode != CGROUP_V2 && is_v1_mounted(ctl))
		return is_writable(CGROUP_ROOT, cgroup_ctls[ctl].v1);
	return mode != CGROUP_V1 &&
	       can_limit_v2(mode, cgroup_ctls[ctl].v2, rootless);
}

static int not_available(const char *property, const char *name,
			 struct error *err)
{
	(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
			"linux.resources.%s: the cgroup controller '%s' is not "
			"available",
			property, name);
	return error_hint(err, "see /proc/cgroups and the cgroup.controllers "
			       "of the parent cgroup");
}

static const char *unified_root(const struct cgroup *c)
{
	return c->mode == CGROUP_V2 ? CGROUP_ROOT : CGROUP_ROOT "/unified";
}

/* The names of v2 controllers to enable; borrowed or of @r's keys. */
struct names {
	const char *v[CTL_COUNT * 4];
	size_t n;
};

static void add_name(struct names *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i], name) == 0)
			return;
	}
	if (l->n < ARRAY_LEN(l->v))
		l->v[l->n++] = name;
}

/*
 * "hugetlb.2MB.max" needs the controller hugetlb; "cgroup.max.depth" and what
 * every cgroup has (cpu.pressure) needs none.
 */
static int add_unified_name(const struct cgroup *c, const char *key,
			    const char *available, struct names *l,
			    struct error *err)
{
	size_t len = strcspn(key, ".");
	char name[32], property[96];

	if (strchr(key, '/') || !key[len] || len == 0 || len >= sizeof(name))
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "linux.resources.unified: '%s' is no name of "
				 "a cgroup file",
				 key);
	if (c->mode == CGROUP_V1)
		return error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				 "invalid configuration: cannot use unified on "
				 "cgroup v1");
	if (strncmp(key, "cgroup.", 7) == 0)
		return 0;
	(void)snprintf(name, sizeof(name), "%.*s", (int)len, key);
	if (!cgroup_has_word(available, name)) {
		if (cgroup_has_file(c->node[CTL_UNIFIED].dir, key))
			return 0;
		(void)snprintf(property, sizeof(property), "unified['%.64s']",
			       key);
		return not_available(property, name, err);
	}
	for (int i = 0; i < CTL_COUNT; i++) {
		if (cgroup_ctls[i].v2 && strcmp(cgroup_ctls[i].v2, name) == 0)
			add_name(l, cgroup_ctls[i].v2);
	}
	return 0;
}

/* What of @need v1 does, as bits. */
static unsigned int served_by_v1(const struct cgroup *c, unsigned int need)
{
	unsigned int v1 = 0;

	for (int i = CTL_FREEZER; c->mode != CGROUP_V2 && i < CTL_COUNT; i++) {
		if ((need & CTL_BIT(i)) && is_v1_mounted((enum cgroup_ctl)i))
			v1 |= CTL_BIT(i);
	}
	return v1;
}

/* Checks that v2 can do the controllers @v2, and names them for enabling. */
static int check_v2(const struct cgroup *c, unsigned int v2,
		    const char *available, struct names *enable,
		    struct error *err)
{
	for (int i = CTL_FREEZER; i < CTL_COUNT; i++) {
		const char *name = cgroup_ctls[i].v2;

		if (!(v2 & CTL_BIT(i)))
			continue;
		/* Devices are a program there, which is always possible. */
		if (!c->node[CTL_UNIFIED].dir ||
		    (i != CTL_DEVICES &&
		     (!name || !cgroup_has_word(available, name))))
			return not_available(cgroup_ctls[i].property,
					     name ? name : cgroup_ctls[i].v1,
					     err);
		if (name)
			add_name(enable, name);
	}
	return 0;
}

static int prepare_v2(const struct cgroup *c, unsigned int v2,
		      const struct spec_resources *r, bool rootless,
		      struct error *err)
{
	auto_(buf) struct buf available = BUF_INIT;
	struct names enable = { .n = 0 };
	int e;

	if (c->node[CTL_UNIFIED].dir)
		(void)cgroup_read(unified_root(c), "cgroup.controllers",
				  &available);
	e = check_v2(c, v2, buf_str(&available), &enable, err);
	for (size_t i = 0; e == 0 && i < r->n_unified; i++)
		e = add_unified_name(c, r->unified[i].key, buf_str(&available),
				     &enable, err);
	return e < 0 ? e
		     : cgroup_v2_enable(c, enable.v, enable.n, rootless, err);
}

static void warn_ignored(const struct cgroup *c, const struct spec_resources *r)
{
	if (cgroup_idle_wins(r))
		log_warn(c->log, "linux.resources.cpu: unable to apply both "
				 "shares and idle: shares are ignored");
	if (r->has_mem_kernel || r->has_mem_kernel_tcp)
		log_warn(c->log, "linux.resources.memory: kernel and kernelTCP "
				 "are ignored: Linux 5.16 removed them");
}

int cgroup_apply(struct cgroup *c, const struct spec_resources *r,
		 bool rootless, struct error *err)
{
	unsigned int need = cgroup_needs(r, rootless);
	unsigned int v1 = served_by_v1(c, need), v2 = need & ~v1;
	const unsigned int devices = CTL_BIT(CTL_DEVICES);
	int e = 0;

	warn_ignored(c, r);
	for (int i = CTL_FREEZER; e == 0 && i < CTL_COUNT; i++) {
		if (v1 & CTL_BIT(i))
			e = cgroup_node_make(c, (enum cgroup_ctl)i, err);
	}
	if (e == 0 && v2)
		e = prepare_v2(c, v2, r, rootless && !c->unit, err);
	for (int i = CTL_FREEZER; e == 0 && i < CTL_COUNT; i++) {
		if (v1 & ~devices & CTL_BIT(i))
			e = cgroup_v1_apply(c, (enum cgroup_ctl)i, r, err);
	}
	if (e == 0 && (v2 & ~devices))
		e = cgroup_v2_apply(c, v2 & ~devices, r, err);
	/* Last: what an update that fails has done of it is not undone. */
	if (e == 0 && (v1 & devices))
		e = cgroup_v1_apply(c, CTL_DEVICES, r, err);
	return e == 0 && (v2 & devices) ? cgroup_v2_apply(c, devices, r, err)
					: e;
}

int cgroup_make_all(struct cgroup *c, struct error *err)
{
	for (int i = CTL_FREEZER; c->mode != CGROUP_V2 && i < CTL_COUNT; i++) {
		struct error e = ERROR_INIT;

		if (i == CTL_SYSTEMD || c->node[i].dir ||
		    !is_v1_mounted((enum cgroup_ctl)i) ||
		    cgroup_node_make(c, (enum cgroup_ctl)i, &e) == 0)
			continue;
		if (e.kind != ERR_UNSUPPORTED) {
			if (err)
				*err = e;
			return error_code(&e);
		}
		cgroup_node_drop(c, (enum cgroup_ctl)i);
	}
	return 0;
}

/* Processes that run already follow into the cgroups made just now. */
static int move_members(const struct cgroup *c, unsigned int had,
			struct error *err)
{
	auto_free pid_t *pids = NULL;
	size_t n;
	int r = cgroup_pids(c, &pids, &n, err);

	if (r < 0)
		return r;
	for (int i = CTL_FREEZER; i < CTL_COUNT; i++) {
		if (!c->node[i].dir || (had & CTL_BIT(i)))
			continue;
		for (size_t j = 0; j < n; j++) {
			char text[CGROUP_NUMBER_MAX];

			(void)snprintf(text, sizeof(text), "%d", (int)pids[j]);
			r = cgroup_write_raw(c->node[i].dir, "cgroup.procs",
					     text);
			if (r < 0 && r != -ESRCH)
				return error_set(err, ERR_SYSTEM, -r,
						 "cannot move process %d to "
						 "'%s'",
						 (int)pids[j], c->node[i].dir);
		}
	}
	return 0;
}

/* -ENOENT: there is no limit of CPU time yet. */
static int read_bandwidth(const struct cgroup *c, int64_t *quota,
			  uint64_t *period)
{
	const char *v1 = c->node[CTL_CPU].dir, *v2 = c->node[CTL_UNIFIED].dir;
	auto_(buf) struct buf b = BUF_INIT;
	const char *text;
	int r;

	if (v1) {
		r = cgroup_read(v1, "cpu.cfs_quota_us", &b);
		buf_add_char(&b, ' ');
		if (r == 0)
			r = cgroup_read(v1, "cpu.cfs_period_us", &b);
	} else {
		r = v2 ? cgroup_read(v2, "cpu.max", &b) : -ENOENT;
	}
	if (r < 0)
		return r;
	text = buf_str(&b);
	*quota = -1;
	if (sscanf(text, "max %" SCNu64, period) != 1 &&
	    sscanf(text, "%" SCNd64 " %" SCNu64, quota, period) != 2)
		return -EBADMSG;
	return 0;
}

int cgroup_complete_bandwidth(const struct cgroup *c, struct spec_resources *r,
			      struct error *err)
{
	bool has_quota = r->has_cpu_quota && r->cpu_quota != 0;
	bool has_period = r->has_cpu_period && r->cpu_period != 0;
	uint64_t period = 0;
	int64_t quota = 0;
	int e;

	if (has_quota == has_period)
		return 0;
	e = read_bandwidth(c, &quota, &period);
	if (e == -ENOENT)
		return 0;
	if (e < 0)
		return error_set(err, ERR_SYSTEM, -e,
				 "cannot read the limit of CPU time");
	if (has_quota) {
		r->has_cpu_period = true;
		r->cpu_period = period;
	} else {
		r->has_cpu_quota = true;
		r->cpu_quota = quota;
	}
	return 0;
}

int cgroup_update(struct cgroup *c, const struct spec_resources *what,
		  struct error *err)
{
	/* Borrows what @what points to. */
	struct spec_resources all = *what, *r = &all;
	struct cgroup_journal j = { .n = 0 };
	unsigned int had = 0;
	int e;

	if (cgroup_needs(r, geteuid() != 0) == 0)
		return 0;
	if (!c->path) {
		(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				"the sandbox has no cgroup to limit");
		return error_hint(err, "limits need root or a delegated "
				       "cgroup");
	}
	e = cgroup_v2_check_usage(c, r, err);
	if (e == 0)
		e = cgroup_complete_bandwidth(c, r, err);
	if (e == 0 && c->unit)
		e = cgroup_unit_update(c, r, err);
	if (e < 0)
		return e;
	for (int i = 0; i < CTL_COUNT; i++)
		had |= c->node[i].dir ? CTL_BIT(i) : 0;
	c->journal = &j;
	e = cgroup_apply(c, r, geteuid() != 0, err);
	c->journal = NULL;
	cgroup_journal_end(&j, e < 0, err);
	/* The state that others read knows nothing of cgroups made now. */
	for (int i = 0; e < 0 && i < CTL_COUNT; i++) {
		if (c->node[i].dir && !(had & CTL_BIT(i)))
			cgroup_node_drop(c, (enum cgroup_ctl)i);
	}
	if (e < 0)
		return c->unit ? error_hint(err,
					    "systemd has the new limits of "
					    "'%s': set them back",
					    c->unit)
			       : e;
	e = move_members(c, had, err);
	return e < 0 ? error_hint(err, "the limits were set, but not all "
				       "processes are below them")
		     : 0;
}
