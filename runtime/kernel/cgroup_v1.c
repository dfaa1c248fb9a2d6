/* Documentation/admin-guide/cgroup-v1/ of the kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/cgroup_internal.h"
#include "spec/spec.h"

static int limit_error(const char *dir, int sys, int64_t limit,
		       struct error *err)
{
	uint64_t usage = 0, peak = 0;

	if (sys != EBUSY)
		return error_set(err, ERR_SYSTEM, sys,
				 "linux.resources.memory.limit: unable to set "
				 "memory limit to %lld",
				 (long long)limit);
	(void)cgroup_read_number(dir, "memory.usage_in_bytes", &usage);
	(void)cgroup_read_number(dir, "memory.max_usage_in_bytes", &peak);
	return error_say(err, ERR_SYSTEM, sys,
			 "linux.resources.memory.limit: unable to set memory "
			 "limit to %lld (current usage: "
			 "%llu, peak usage: %llu)",
			 (long long)limit, (unsigned long long)usage,
			 (unsigned long long)peak);
}

static int write_number(const struct cgroup_target *to, const char *file,
			int64_t v)
{
	char text[CGROUP_NUMBER_MAX];

	(void)snprintf(text, sizeof(text), "%lld", (long long)v);
	return cgroup_replace(to, file, text);
}

/*
 * The limit must never be above the limit with swap: which of the two can be
 * written first depends on whether they grow or shrink.
 */
static int set_memory(const struct cgroup_target *to,
		      const struct spec_resources *r, struct error *err)
{
	static const char limit[] = "memory.limit_in_bytes";
	static const char memsw[] = "memory.memsw.limit_in_bytes";
	bool has_swap = r->has_mem_swap && r->mem_swap != 0;
	int64_t swap = r->mem_swap;
	int e;

	if (r->has_mem_limit && r->mem_limit == -1 && !has_swap &&
	    cgroup_has_file(to->dir, memsw)) {
		has_swap = true;
		swap = -1;
	}
	if (has_swap && swap == -1) {
		e = cgroup_write_number(to, memsw, -1, err);
		if (e < 0)
			return e;
	}
	if (r->has_mem_limit && r->mem_limit != 0) {
		e = write_number(to, limit, r->mem_limit);
		if (e == -EINVAL && has_swap && swap > 0) {
			e = cgroup_write_number(to, memsw, swap, err);
			if (e < 0)
				return e;
			e = write_number(to, limit, r->mem_limit);
		}
		if (e < 0)
			return limit_error(to->dir, -e, r->mem_limit, err);
	}
	if (has_swap && swap != -1)
		return cgroup_write_number(to, memsw, swap, err);
	return 0;
}

static int apply_memory(const struct cgroup_target *to,
			const struct spec_resources *r, struct error *err)
{
	int e = set_memory(to, r, err);

	if (e == 0 && r->has_mem_reservation && r->mem_reservation != 0)
		e = cgroup_write_number(to, "memory.soft_limit_in_bytes",
					r->mem_reservation, err);
	if (e == 0 && r->has_mem_swappiness)
		e = cgroup_write_number(to, "memory.swappiness",
					(int64_t)r->mem_swappiness, err);
	if (e == 0 && r->has_mem_disable_oom && r->mem_disable_oom)
		e = cgroup_write(to, "memory.oom_control", "1", err);
	return e;
}

int cgroup_check_shares(uint64_t shares, struct error *err)
{
	if (shares < 2)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "linux.resources.cpu.shares: the minimum "
				 "allowed cpu-shares is 2");
	if (shares > 262144)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "linux.resources.cpu.shares: the maximum "
				 "allowed cpu-shares is 262144");
	return 0;
}

/* Which of period and quota goes first depends on the values of now. */
static int set_bandwidth(const struct cgroup_target *to,
			 const char *period_file, uint64_t period,
			 const char *quota_file, int64_t quota,
			 struct error *err)
{
	int e = 0;

	if (period) {
		e = write_number(to, period_file, (int64_t)period);
		if (e < 0 && (e != -EINVAL || quota == 0))
			return cgroup_write_number(to, period_file,
						   (int64_t)period, err);
	}
	if (quota) {
		int q = cgroup_write_number(to, quota_file, quota, err);

		if (q < 0)
			return q;
	}
	if (e < 0)
		return cgroup_write_number(to, period_file, (int64_t)period,
					   err);
	return 0;
}

/* A weight cannot be set while idle is, and has no meaning then. */
bool cgroup_idle_wins(const struct spec_resources *r)
{
	return r->has_cpu_idle && r->cpu_idle == 1 && r->has_cpu_shares &&
	       r->cpu_shares != 0;
}

int cgroup_burst_before(const struct cgroup_target *to, const char *file,
			const struct spec_resources *r, bool *ret_later,
			struct error *err)
{
	int e;

	*ret_later = false;
	if (!r->has_cpu_burst)
		return 0;
	/* Without a quota any is taken, and the quota is refused then. */
	if (r->has_cpu_quota && r->cpu_quota > 0 &&
	    r->cpu_burst > (uint64_t)r->cpu_quota)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "linux.resources.cpu.burst: %llu is more than "
				 "the quota, '%lld'",
				 (unsigned long long)r->cpu_burst,
				 (long long)r->cpu_quota);
	e = write_number(to, file, (int64_t)r->cpu_burst);
	*ret_later = e == -EINVAL;
	if (e < 0 && !*ret_later)
		return cgroup_write_number(to, file, (int64_t)r->cpu_burst,
					   err);
	return 0;
}

static int set_cfs(const struct cgroup_target *to,
		   const struct spec_resources *r, struct error *err)
{
	bool later;
	int e = cgroup_burst_before(to, "cpu.cfs_burst_us", r, &later, err);

	if (e == 0)
		e = set_bandwidth(to, "cpu.cfs_period_us",
				  r->has_cpu_period ? r->cpu_period : 0,
				  "cpu.cfs_quota_us",
				  r->has_cpu_quota ? r->cpu_quota : 0, err);
	if (e == 0 && later)
		e = cgroup_write_number(to, "cpu.cfs_burst_us",
					(int64_t)r->cpu_burst, err);
	return e;
}

static int set_shares(const struct cgroup_target *to,
		      const struct spec_resources *r, struct error *err)
{
	int e;

	if (!r->has_cpu_shares || r->cpu_shares == 0)
		return 0;
	e = cgroup_check_shares(r->cpu_shares, err);
	if (e < 0 || cgroup_idle_wins(r))
		return e;
	return cgroup_write_number(to, "cpu.shares", (int64_t)r->cpu_shares,
				   err);
}

static int apply_cpu(const struct cgroup_target *to,
		     const struct spec_resources *r, struct error *err)
{
	int e = 0;

	if (r->has_cpu_idle)
		e = cgroup_write_number(to, "cpu.idle", r->cpu_idle, err);
	if (e == 0)
		e = set_shares(to, r, err);
	if (e == 0)
		e = set_cfs(to, r, err);
	if (e == 0)
		e = set_bandwidth(to, "cpu.rt_period_us",
				  r->has_cpu_rt_period ? r->cpu_rt_period : 0,
				  "cpu.rt_runtime_us",
				  r->has_cpu_rt_runtime ? r->cpu_rt_runtime : 0,
				  err);
	return e;
}

static int write_rates(const struct cgroup_target *to, const char *file,
		       const struct spec_throttle *v, size_t n,
		       struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		char text[96];
		int e;

		(void)snprintf(text, sizeof(text), "%lld:%lld %llu",
			       (long long)v[i].major, (long long)v[i].minor,
			       (unsigned long long)v[i].rate);
		e = cgroup_write(to, file, text, err);
		if (e < 0)
			return e;
	}
	return 0;
}

/* The bfq scheduler has its weights under its own name. */
static const char *weight_file(const char *dir, const char *file,
			       const char *bfq)
{
	return !cgroup_has_file(dir, file) && cgroup_has_file(dir, bfq) ? bfq
									: file;
}

static int write_weight(const struct cgroup_target *to, const char *file,
			const struct spec_weight_device *d, uint16_t weight,
			struct error *err)
{
	char text[96];

	if (weight == 0)
		return 0;
	(void)snprintf(text, sizeof(text), "%lld:%lld %u", (long long)d->major,
		       (long long)d->minor, weight);
	return cgroup_write(to, file, text, err);
}

static int apply_weights(const struct cgroup_target *to,
			 const struct spec_resources *r, struct error *err)
{
	const char *weight =
		weight_file(to->dir, "blkio.weight", "blkio.bfq.weight");
	const char *device = weight_file(to->dir, "blkio.weight_device",
					 "blkio.bfq.weight_device");
	int e = 0;

	if (r->has_blkio_weight && r->blkio_weight)
		e = cgroup_write_number(to, weight, r->blkio_weight, err);
	if (e == 0 && r->has_blkio_leaf_weight && r->blkio_leaf_weight)
		e = cgroup_write_number(to, "blkio.leaf_weight",
					r->blkio_leaf_weight, err);
	for (size_t i = 0; e == 0 && i < r->n_blkio_weight_devices; i++) {
		const struct spec_weight_device *d =
			&r->blkio_weight_devices[i];

		e = write_weight(to, device, d, d->weight, err);
		if (e == 0)
			e = write_weight(to, "blkio.leaf_weight_device", d,
					 d->leaf, err);
	}
	return e;
}

static int apply_blkio(const struct cgroup_target *to,
		       const struct spec_resources *r, struct error *err)
{
	int e = apply_weights(to, r, err);

	if (e == 0)
		e = write_rates(to, "blkio.throttle.read_bps_device",
				r->read_bps, r->n_read_bps, err);
	if (e == 0)
		e = write_rates(to, "blkio.throttle.write_bps_device",
				r->write_bps, r->n_write_bps, err);
	if (e == 0)
		e = write_rates(to, "blkio.throttle.read_iops_device",
				r->read_iops, r->n_read_iops, err);
	if (e == 0)
		e = write_rates(to, "blkio.throttle.write_iops_device",
				r->write_iops, r->n_write_iops, err);
	return e;
}

static int apply_net_prio(const struct cgroup_target *to,
			  const struct spec_resources *r, struct error *err)
{
	for (size_t i = 0; i < r->n_net_prios; i++) {
		char text[96];
		int e;

		(void)snprintf(text, sizeof(text), "%.32s %u",
			       r->net_prios[i].name, r->net_prios[i].priority);
		e = cgroup_write(to, "net_prio.ifpriomap", text, err);
		if (e < 0)
			return e;
	}
	return 0;
}

static int write_hugetlb(const struct cgroup_target *to,
			 const struct spec_hugepage *h, const char *suffix,
			 struct error *err)
{
	char file[96], text[CGROUP_NUMBER_MAX];
	int e;

	(void)snprintf(text, sizeof(text), "%llu",
		       (unsigned long long)h->limit);
	/* Reservations first: they are what mmap is refused by. */
	(void)snprintf(file, sizeof(file), "hugetlb.%.32s.rsvd.%s",
		       h->page_size, suffix);
	e = cgroup_replace(to, file, text);
	if (e < 0 && e != -ENOENT)
		return cgroup_write(to, file, text, err);
	(void)snprintf(file, sizeof(file), "hugetlb.%.32s.%s", h->page_size,
		       suffix);
	if (!cgroup_has_file(to->dir, file)) {
		(void)error_say(err, ERR_UNSUPPORTED, ENOENT,
				"linux.resources.hugepageLimits: there are no "
				"pages of size '%s'",
				h->page_size);
		return error_hint(err, "see /sys/kernel/mm/hugepages, and "
				       "write sizes as 2MB and 1GB");
	}
	return cgroup_write(to, file, text, err);
}

int cgroup_write_cpuset(const struct cgroup_target *to,
			const struct spec_resources *r, struct error *err)
{
	int e = 0;

	if (r->cpu_cpus && *r->cpu_cpus)
		e = cgroup_write(to, "cpuset.cpus", r->cpu_cpus, err);
	if (e == 0 && r->cpu_mems && *r->cpu_mems)
		e = cgroup_write(to, "cpuset.mems", r->cpu_mems, err);
	return e;
}

/* No process at all cannot be meant: the init must be one. */
int cgroup_write_pids(const struct cgroup_target *to,
		      const struct spec_resources *r, struct error *err)
{
	return cgroup_write_max(to, "pids.max",
				r->pids_limit == 0 ? 1 : r->pids_limit, err);
}

int cgroup_write_hugetlb(const struct cgroup_target *to, const char *suffix,
			 const struct spec_resources *r, struct error *err)
{
	for (size_t i = 0; i < r->n_hugepages; i++) {
		int e = write_hugetlb(to, &r->hugepages[i], suffix, err);

		if (e < 0)
			return e;
	}
	return 0;
}

int cgroup_write_rdma(const struct cgroup_target *to,
		      const struct spec_resources *r, struct error *err)
{
	for (size_t i = 0; i < r->n_rdma; i++) {
		const struct spec_rdma *d = &r->rdma[i];
		auto_(buf) struct buf b = BUF_INIT;
		int e;

		buf_add_str(&b, d->device);
		if (d->has_handles)
			buf_printf(&b, " hca_handle=%u", d->handles);
		if (d->has_objects)
			buf_printf(&b, " hca_object=%u", d->objects);
		e = cgroup_write(to, "rdma.max", buf_str(&b), err);
		if (e < 0)
			return e;
	}
	return 0;
}

int cgroup_v1_apply(const struct cgroup *c, enum cgroup_ctl ctl,
		    const struct spec_resources *r, struct error *err)
{
	const struct cgroup_target at = { c->node[ctl].dir, c->journal };
	const struct cgroup_target *to = &at;

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
		return cgroup_v1_devices(to->dir, r, err);
	case CTL_BLKIO:
		return apply_blkio(to, r, err);
	case CTL_HUGETLB:
		return cgroup_write_hugetlb(to, "limit_in_bytes", r, err);
	case CTL_NET_CLS:
		return cgroup_write_number(to, "net_cls.classid",
					   r->net_class_id, err);
	case CTL_NET_PRIO:
		return apply_net_prio(to, r, err);
	case CTL_RDMA:
		return cgroup_write_rdma(to, r, err);
	case CTL_UNIFIED:
	case CTL_FREEZER:
	case CTL_SYSTEMD:
	case CTL_CPUACCT:
	case CTL_COUNT:
		break;
	}
	return 0;
}
