/*
 * linux.resources as properties of a unit: systemd.resource-control(5). What
 * it has no property for is written to the cgroup alone; the rest is, too, for
 * the exact value, and is a property so that systemd does not undo it when it
 * applies its own settings again.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/cgroup_internal.h"
#include "kernel/systemd.h"
#include "spec/spec.h"

enum {
	SET_MAX = 8192, /* CPUs or memory nodes of a kernel */
	USEC_PER_SEC = 1000000,
	QUOTA_STEP_USEC = 10000, /* of a second: what systemd rounds to */
};

static uint64_t or_infinity(int64_t v)
{
	return v < 0 ? UINT64_MAX : (uint64_t)v;
}

/* "0-3,7": bit n of the set is bit n % 8 of byte n / 8. */
static int parse_set(const char *text, uint8_t bits[SET_MAX / 8], size_t *ret_n)
{
	*ret_n = 0;
	while (*text) {
		unsigned long first, last;
		char *end;

		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		first = last = strtoul(text, &end, 10);
		if (*end == '-' && isdigit((unsigned char)end[1]))
			last = strtoul(end + 1, &end, 10);
		if (last < first || last >= SET_MAX)
			return -EINVAL;
		for (unsigned long i = first; i <= last; i++)
			bits[i / 8] |= (uint8_t)(1 << i % 8);
		if (last / 8 + 1 > *ret_n)
			*ret_n = last / 8 + 1;
		if (*end && (*end != ',' || !end[1]))
			return -EINVAL;
		text = end + (*end == ',');
	}
	return *ret_n ? 0 : -EINVAL;
}

static int add_set(struct systemd_props *p, const char *name, const char *what,
		   const char *text, struct error *err)
{
	uint8_t bits[SET_MAX / 8] = { 0 };
	size_t n;

	if (!text || !*text)
		return 0;
	if (parse_set(text, bits, &n) < 0)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "linux.resources.%s: '%s' is no list of "
				 "numbers and ranges",
				 what, text);
	systemd_add_bytes(p, name, bits, n);
	return 0;
}

/* The quota is a share of each second, whatever the period. */
static void add_quota(struct systemd_props *p, int64_t quota, uint64_t period)
{
	uint64_t usec = UINT64_MAX;

	if (period)
		systemd_add_number(p, "CPUQuotaPeriodUSec", period);
	if (quota == 0)
		return;
	if (!period)
		period = CGROUP_CPU_PERIOD_US;
	if (quota > 0 && (uint64_t)quota < UINT64_MAX / USEC_PER_SEC) {
		usec = (uint64_t)quota * USEC_PER_SEC / period;
		usec += QUOTA_STEP_USEC - 1;
		usec -= usec % QUOTA_STEP_USEC;
	}
	systemd_add_number(p, "CPUQuotaPerSecUSec", usec);
}

static int add_cpu(const struct cgroup *c, const struct spec_resources *r,
		   struct systemd_props *p, struct error *err)
{
	bool v2 = c->mode == CGROUP_V2;
	int e = 0;

	if (r->has_cpu_shares && r->cpu_shares) {
		e = cgroup_check_shares(r->cpu_shares, err);
		if (e < 0)
			return e;
		if (cgroup_idle_wins(r))
			;
		else if (v2)
			systemd_add_number(p, "CPUWeight",
					   cgroup_weight_of(r->cpu_shares));
		else
			systemd_add_number(p, "CPUShares", r->cpu_shares);
	}
	add_quota(p, r->has_cpu_quota ? r->cpu_quota : 0,
		  r->has_cpu_period ? r->cpu_period : 0);
	/* Of cpusets systemd knows those of v2 alone. */
	if (v2)
		e = add_set(p, "AllowedCPUs", "cpu.cpus", r->cpu_cpus, err);
	if (v2 && e == 0)
		e = add_set(p, "AllowedMemoryNodes", "cpu.mems", r->cpu_mems,
			    err);
	return e;
}

static int add_memory(const struct cgroup *c, const struct spec_resources *r,
		      struct systemd_props *p, struct error *err)
{
	int64_t swap;
	int e;

	if (c->mode != CGROUP_V2) {
		if (r->has_mem_limit && r->mem_limit)
			systemd_add_number(p, "MemoryLimit",
					   or_infinity(r->mem_limit));
		return 0;
	}
	e = cgroup_v2_swap(r, &swap, err);
	if (e < 0)
		return e;
	if (e > 0)
		systemd_add_number(p, "MemorySwapMax", or_infinity(swap));
	if (r->has_mem_limit && r->mem_limit)
		systemd_add_number(p, "MemoryMax", or_infinity(r->mem_limit));
	if (r->has_mem_reservation && r->mem_reservation)
		systemd_add_number(p, "MemoryLow",
				   or_infinity(r->mem_reservation));
	return 0;
}

/* "max", or a number and nothing else. */
static bool read_number(const char *text, uint64_t *ret)
{
	char *end;

	if (strcmp(text, "max") == 0) {
		*ret = UINT64_MAX;
		return true;
	}
	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !*end && !errno;
}

/* "max 100000", "50000 100000", "50000" */
static void add_cpu_max(const char *text, struct systemd_props *p)
{
	auto_free char *quota = strndup(text, strcspn(text, " "));
	const char *period = text + strcspn(text, " ");
	uint64_t q, t = 0;

	if (quota && read_number(quota, &q) &&
	    (!*period || read_number(period + 1, &t)) && q && t < INT64_MAX)
		add_quota(p, q > INT64_MAX ? -1 : (int64_t)q, t);
}

/*
 * What is no value for systemd is left to the kernel, which says what is wrong
 * when it is written.
 */
static int add_unified(const struct spec_unified *u, struct systemd_props *p,
		       struct error *err)
{
	/* clang-format off */
	static const struct {
		const char *key, *name;
	} numbers[] = {
		{ "memory.min",      "MemoryMin" },
		{ "memory.low",      "MemoryLow" },
		{ "memory.high",     "MemoryHigh" },
		{ "memory.max",      "MemoryMax" },
		{ "memory.swap.max", "MemorySwapMax" },
		{ "pids.max",        "TasksMax" },
		{ "cpu.weight",      "CPUWeight" },
		{ "io.weight",       "IOWeight" },
	};
	/* clang-format on */
	uint64_t v;

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (strcmp(u->key, numbers[i].key) == 0 &&
		    read_number(u->value, &v))
			systemd_add_number(p, numbers[i].name, v);
	if (strcmp(u->key, "cpu.max") == 0)
		add_cpu_max(u->value, p);
	if (strcmp(u->key, "cpuset.cpus") == 0)
		return add_set(p, "AllowedCPUs", "unified['cpuset.cpus']",
			       u->value, err);
	if (strcmp(u->key, "cpuset.mems") == 0)
		return add_set(p, "AllowedMemoryNodes",
			       "unified['cpuset.mems']", u->value, err);
	return 0;
}

int cgroup_unit_limits(const struct cgroup *c, const struct spec_resources *r,
		       struct systemd_props *p, struct error *err)
{
	bool v2 = c->mode == CGROUP_V2;
	int e = add_memory(c, r, p, err);

	if (e == 0)
		e = add_cpu(c, r, p, err);
	if (r->has_pids_limit)
		systemd_add_number(p, "TasksMax",
				   r->pids_limit ? or_infinity(r->pids_limit)
						 : 1);
	if (r->has_blkio_weight && r->blkio_weight && v2)
		systemd_add_number(p, "IOWeight",
				   cgroup_io_weight_of(r->blkio_weight));
	else if (r->has_blkio_weight && r->blkio_weight)
		systemd_add_number(p, "BlockIOWeight", r->blkio_weight);
	if (e == 0 && r->n_devices && !v2 && !c->user)
		e = cgroup_unit_devices(r, p, err);
	for (size_t i = 0; v2 && e == 0 && i < r->n_unified; i++)
		e = add_unified(&r->unified[i], p, err);
	return e;
}
