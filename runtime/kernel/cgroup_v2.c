/* Documentation/admin-guide/cgroup-v2.rst of the kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "kernel/cgroup_internal.h"
#include "spec/spec.h"

enum { MOVE_TRIES = 16, LOG_BITS = 24, LOG_SLACK = 8 };

/* No name of a sandbox begins so. */
static const char leaf_name[] = ".sandlock";

static int enable_error(const char *dir, const char *names, int sys,
			struct error *err)
{
	(void)error_set(err, ERR_UNSUPPORTED, sys,
			"cannot enable the cgroup controllers '%s' in '%s'",
			names, dir);
	if (sys == EBUSY)
		return error_hint(err, "move the processes of that cgroup into "
				       "a child of it first, or start in one "
				       "of your own: systemd-run --user "
				       "--scope -p Delegate=yes");
	return error_hint(err, "they must be enabled in every parent, and "
			       "delegated to you if you are not root");
}

/* Some may fork meanwhile: their children are moved in the next round. */
static int move_into_leaf(const char *dir)
{
	auto_free char *leaf = path_join(dir, leaf_name);

	if (!leaf)
		return -ENOMEM;
	if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
		return -errno;
	for (int i = 0; i < MOVE_TRIES; i++) {
		auto_(buf) struct buf b = BUF_INIT;
		auto_free char *pids = NULL;
		char *save = NULL;
		int r = cgroup_read(dir, "cgroup.procs", &b);

		if (r < 0 || !b.len)
			return r;
		pids = buf_take(&b, NULL);
		for (char *p = pids ? strtok_r(pids, "\n", &save) : NULL; p;
		     p = strtok_r(NULL, "\n", &save)) {
			r = cgroup_write_raw(leaf, "cgroup.procs", p);
			if (r < 0 && r != -ESRCH)
				return r;
		}
	}
	return -EBUSY;
}

static int enable_in(const char *dir, const char *const *names, size_t n,
		     bool may_move, struct error *err)
{
	auto_(buf) struct buf now = BUF_INIT, missing = BUF_INIT;
	int r = cgroup_read(dir, "cgroup.subtree_control", &now);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!cgroup_has_word(buf_str(&now), names[i]))
			buf_printf(&missing, "%s+%s", missing.len ? " " : "",
				   names[i]);
	}
	if (buf_failed(&missing))
		r = -ENOMEM;
	if (r == 0 && missing.len)
		r = cgroup_write_raw(dir, "cgroup.subtree_control",
				     buf_str(&missing));
	if (r == -EBUSY && may_move && move_into_leaf(dir) == 0)
		r = cgroup_write_raw(dir, "cgroup.subtree_control",
				     buf_str(&missing));
	return r < 0 ? enable_error(dir, buf_str(&missing), -r, err) : 0;
}

int cgroup_v2_enable(const struct cgroup *c, const char *const *names, size_t n,
		     bool rootless, struct error *err)
{
	const char *dir = c->node[CTL_UNIFIED].dir;
	auto_free char *path = NULL, *own = NULL;
	size_t root;

	if (n == 0)
		return 0;
	path = strdup(dir);
	if (!path)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot enable cgroup controllers");
	if (rootless && cgroup_path_of(0, "", &own) < 0)
		own = NULL;
	root = strlen(dir) - strlen(c->path);
	for (size_t i = root; path[i]; i++) {
		int r;

		if (path[i] != '/')
			continue;
		path[i] = '\0';
		r = enable_in(path, names, n,
			      own && strcmp(path + root, own) == 0, err);
		path[i] = '/';
		if (r < 0)
			return r;
	}
	return 0;
}

static int no_equivalent(const char *what, struct error *err)
{
	return error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
			 "cgroup v2 cannot limit '%s'", what);
}

int cgroup_v2_check_usage(const struct cgroup *c,
			  const struct spec_resources *r, struct error *err)
{
	const char *dir = c->node[CTL_UNIFIED].dir;
	uint64_t usage = 0;

	if (!dir || !r->mem_check_before_update || !r->has_mem_limit ||
	    r->mem_limit <= 0)
		return 0;
	if (cgroup_read_number(dir, "memory.current", &usage) < 0 ||
	    usage <= (uint64_t)r->mem_limit)
		return 0;
	return error_say(err, ERR_SYSTEM, EBUSY,
			 "rejecting memory limit %lld: the current usage is "
			 "%llu",
			 (long long)r->mem_limit, (unsigned long long)usage);
}

/* OCI's swap is memory and swap together, v2's is swap alone. */
int cgroup_v2_swap(const struct spec_resources *r, int64_t *ret,
		   struct error *err)
{
	int64_t limit = r->has_mem_limit ? r->mem_limit : 0;
	int64_t swap = r->has_mem_swap ? r->mem_swap : 0;

	if (swap == 0 && limit != -1)
		return 0;
	*ret = -1;
	if (swap == -1 || limit == -1)
		return 1;
	if (limit == 0)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "unable to set swap limit without memory "
				 "limit");
	if (swap < limit)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "memory+swap limit should be >= memory limit");
	*ret = swap - limit;
	return 1;
}

static int set_swap(const struct cgroup_target *to,
		    const struct spec_resources *r, struct error *err)
{
	bool said = r->has_mem_swap && r->mem_swap != 0;
	int64_t swap;
	int e = cgroup_v2_swap(r, &swap, err);

	if (e <= 0)
		return e;
	/* Without swap in the kernel "none of it" holds anyway. */
	if ((swap == 0 || !said) &&
	    !cgroup_has_file(to->dir, "memory.swap.max"))
		return 0;
	return cgroup_write_max(to, "memory.swap.max", swap, err);
}

static int apply_memory(const struct cgroup_target *to,
			const struct spec_resources *r, struct error *err)
{
	int e;

	if (r->has_mem_swappiness)
		return no_equivalent("memory.swappiness", err);
	if (r->has_mem_disable_oom && r->mem_disable_oom)
		return no_equivalent("memory.disableOOMKiller", err);
	e = set_swap(to, r, err);
	if (e == 0 && r->has_mem_limit && r->mem_limit != 0)
		e = cgroup_write_max(to, "memory.max", r->mem_limit, err);
	if (e == 0 && r->has_mem_reservation && r->mem_reservation != 0)
		e = cgroup_write_max(to, "memory.low", r->mem_reservation, err);
	return e;
}

/* The binary logarithm of @v > 0 with LOG_BITS binary places. */
static uint64_t log2_of(uint64_t v)
{
	unsigned int whole = 63 - (unsigned int)__builtin_clzll(v);
	uint64_t log = whole, x = v << (63 - whole) >> 32;

	/* x is in [1, 2) with 31 places: each square shows one more bit. */
	for (int i = 0; i < LOG_BITS; i++) {
		x = x * x >> 31;
		log = log << 1 | x >> 32;
		x >>= x >> 32;
	}
	return log;
}

/*
 * [2, 262144] to [1, 10000], as runc 1.4 and crun 1.23 have it, by which the
 * defaults are each other's: 1024 shares are a weight of 100. With l as the
 * binary logarithm of the shares it is 10 ^ ((l * l + 125 * l) / 612 - 7 / 34),
 * rounded up.
 */
uint64_t cgroup_weight_of(uint64_t shares)
{
	int64_t l = (int64_t)log2_of(shares);
	int64_t ten = (int64_t)log2_of(10);
	int64_t power =
		((l * l >> LOG_BITS) + 125 * l) / 612 - (7 << LOG_BITS) / 34;
	/* What is a power of ten must not be one more for a last place. */
	int64_t wanted = (power * ten >> LOG_BITS) - LOG_SLACK;
	uint64_t low = 1, high = 10000;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if ((int64_t)log2_of(middle) < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int set_weight(const struct cgroup_target *to, uint64_t shares,
		      struct error *err)
{
	int e = cgroup_check_shares(shares, err);

	if (e < 0)
		return e;
	return cgroup_write_number(to, "cpu.weight",
				   (int64_t)cgroup_weight_of(shares), err);
}

static int set_max(const struct cgroup_target *to,
		   const struct spec_resources *r, struct error *err)
{
	uint64_t period = r->has_cpu_period && r->cpu_period
				  ? r->cpu_period
				  : CGROUP_CPU_PERIOD_US;
	char text[96];

	if (r->has_cpu_quota && r->cpu_quota > 0)
		(void)snprintf(text, sizeof(text), "%lld %llu",
			       (long long)r->cpu_quota,
			       (unsigned long long)period);
	else
		(void)snprintf(text, sizeof(text), "max %llu",
			       (unsigned long long)period);
	return cgroup_write(to, "cpu.max", text, err);
}

static int set_bandwidth(const struct cgroup_target *to,
			 const struct spec_resources *r, struct error *err)
{
	bool later;
	int e = cgroup_burst_before(to, "cpu.max.burst", r, &later, err);

	if (e == 0 && ((r->has_cpu_quota && r->cpu_quota != 0) ||
		       (r->has_cpu_period && r->cpu_period != 0)))
		e = set_max(to, r, err);
	if (e == 0 && later)
		e = cgroup_write_number(to, "cpu.max.burst",
					(int64_t)r->cpu_burst, err);
	return e;
}

static int apply_cpu(const struct cgroup_target *to,
		     const struct spec_resources *r, struct error *err)
{
	int e = 0;

	if ((r->has_cpu_rt_runtime && r->cpu_rt_runtime) ||
	    (r->has_cpu_rt_period && r->cpu_rt_period))
		return no_equivalent("cpu.realtimeRuntime", err);
	if (r->has_cpu_idle)
		e = cgroup_write_number(to, "cpu.idle", r->cpu_idle, err);
	if (e == 0 && r->has_cpu_shares && r->cpu_shares != 0 &&
	    !cgroup_idle_wins(r))
		e = set_weight(to, r->cpu_shares, err);
	if (e == 0)
		e = set_bandwidth(to, r, err);
	return e;
}

static int write_io_max(const struct cgroup_target *to, const char *key,
			const struct spec_throttle *v, size_t n,
			struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		char text[128], rate[CGROUP_NUMBER_MAX] = "max";
		int e;

		if (v[i].rate)
			(void)snprintf(rate, sizeof(rate), "%llu",
				       (unsigned long long)v[i].rate);
		(void)snprintf(text, sizeof(text), "%lld:%lld %s=%s",
			       (long long)v[i].major, (long long)v[i].minor,
			       key, rate);
		e = cgroup_write(to, "io.max", text, err);
		if (e < 0)
			return e;
	}
	return 0;
}

/* bfq takes OCI's [10, 1000] as it is, io.weight [1, 10000]. */
uint64_t cgroup_io_weight_of(uint16_t weight)
{
	return weight < 10 ? 1 : 1 + (uint64_t)(weight - 10) * 9999 / 990;
}

static int apply_io_weight(const struct cgroup_target *to,
			   const struct spec_resources *r, struct error *err)
{
	bool bfq = cgroup_has_file(to->dir, "io.bfq.weight");
	const char *file = bfq ? "io.bfq.weight" : "io.weight";
	int e = 0;

	if (r->has_blkio_leaf_weight && r->blkio_leaf_weight)
		return no_equivalent("blockIO.leafWeight", err);
	if (r->has_blkio_weight && r->blkio_weight) {
		int64_t w = r->blkio_weight;

		if (!bfq)
			w = (int64_t)cgroup_io_weight_of(r->blkio_weight);
		e = cgroup_write_number(to, file, w, err);
	}
	for (size_t i = 0; e == 0 && i < r->n_blkio_weight_devices; i++) {
		const struct spec_weight_device *d =
			&r->blkio_weight_devices[i];
		char text[96];

		if (d->leaf)
			return no_equivalent("blockIO.leafWeight", err);
		(void)snprintf(text, sizeof(text), "%lld:%lld %u",
			       (long long)d->major, (long long)d->minor,
			       d->weight);
		e = cgroup_write(to, "io.bfq.weight", text, err);
	}
	return e;
}

static int apply_io(const struct cgroup_target *to,
		    const struct spec_resources *r, struct error *err)
{
	int e = apply_io_weight(to, r, err);

	if (e == 0)
		e = write_io_max(to, "rbps", r->read_bps, r->n_read_bps, err);
	if (e == 0)
		e = write_io_max(to, "wbps", r->write_bps, r->n_write_bps, err);
	if (e == 0)
		e = write_io_max(to, "riops", r->read_iops, r->n_read_iops,
				 err);
	if (e == 0)
		e = write_io_max(to, "wiops", r->write_iops, r->n_write_iops,
				 err);
	return e;
}

/* Of a file with a line for each device the kernel takes one at a time. */
static int write_lines(const struct cgroup_target *to, const char *file,
		       const char *text, struct error *err)
{
	int e = 0;

	do {
		size_t len = strcspn(text, "\n");
		auto_free char *line = strndup(text, len);

		if (!line)
			return error_set(err, ERR_SYSTEM, ENOMEM,
					 "cannot set '%s'", file);
		e = cgroup_replace(to, file, line);
		if (e < 0)
			e = error_set(err, ERR_SYSTEM, -e,
				      "linux.resources.unified['%s']: cannot "
				      "set it to '%s'",
				      file, line);
		text += len + (text[len] == '\n');
	} while (e == 0 && *text);
	return e;
}

static int apply_unified(const struct cgroup_target *to,
			 const struct spec_resources *r, struct error *err)
{
	for (size_t i = 0; i < r->n_unified; i++) {
		int e = write_lines(to, r->unified[i].key, r->unified[i].value,
				    err);

		if (e < 0)
			return e;
	}
	return 0;
}

static int apply_one(const struct cgroup_target *to, enum cgroup_ctl ctl,
		     const struct spec_resources *r, struct error *err)
{
	switch (ctl) {
	case CTL_MEMORY:
		return apply_memory(to, r, err);
	case CTL_CPU:
		return apply_cpu(to, r, err);
	case CTL_CPUSET:
		return cgroup_write_cpuset(to, r, err);
	case CTL_PIDS:
		return cgroup_write_pids(to, r, err);
	case CTL_DEVICES:
		return cgroup_v2_devices(to->dir, r, err);
	case CTL_BLKIO:
		return apply_io(to, r, err);
	case CTL_HUGETLB:
		return cgroup_write_hugetlb(to, "max", r, err);
	case CTL_RDMA:
		return cgroup_write_rdma(to, r, err);
	case CTL_UNIFIED:
		return apply_unified(to, r, err);
	case CTL_NET_CLS:
	case CTL_NET_PRIO:
	case CTL_FREEZER:
	case CTL_SYSTEMD:
	case CTL_CPUACCT:
	case CTL_COUNT:
		break;
	}
	return 0;
}

int cgroup_v2_apply(const struct cgroup *c, unsigned int ctls,
		    const struct spec_resources *r, struct error *err)
{
	const struct cgroup_target to = { c->node[CTL_UNIFIED].dir,
					  c->journal };
	int e;

	for (int i = CTL_FREEZER; i < CTL_COUNT; i++) {
		if (!(ctls & CTL_BIT(i)))
			continue;
		e = apply_one(&to, (enum cgroup_ctl)i, r, err);
		if (e < 0)
			return e;
	}
	/* Last: what is written as it is has the last word. */
	if (ctls & CTL_BIT(CTL_UNIFIED))
		return apply_unified(&to, r, err);
	return 0;
}
