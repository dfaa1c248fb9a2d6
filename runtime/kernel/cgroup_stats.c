/* The "data" of `runc events --stats`, member by member. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "kernel/cgroup.h"
#include "kernel/cgroup_internal.h"

enum { NS_PER_US = 1000, NS_PER_TICK = 10 * 1000 * 1000 };

static uint64_t number(const char *dir, const char *file)
{
	uint64_t v = 0;

	return dir && cgroup_read_number(dir, file, &v) == 0 ? v : 0;
}

static uint64_t keyed(const char *dir, const char *file, const char *key)
{
	uint64_t v = 0;

	return dir && cgroup_read_key(dir, file, key, &v) == 0 ? v : 0;
}

/* runc leaves these out where they are zero. */
static void put_nonzero(struct json_out *o, const char *key, uint64_t v)
{
	if (v)
		json_out_uint_member(o, key, v);
}

static void put_percpu(const char *dir, struct json_out *o)
{
	auto_(buf) struct buf b = BUF_INIT;
	char *p, *end;

	if (!dir || cgroup_read(dir, "cpuacct.usage_percpu", &b) < 0)
		return;
	json_out_key(o, "percpu");
	json_out_array(o);
	for (p = b.data; p; p = end) {
		uint64_t v = strtoull(p, &end, 10);

		if (end == p)
			break;
		json_out_uint(o, v);
	}
	json_out_array_end(o);
}

static void put_cpu(const struct cgroup *c, struct json_out *o)
{
	const char *v1 = c->node[CTL_CPU].dir, *v2 = c->node[CTL_UNIFIED].dir;
	/* cpuacct often shares the mount of cpu. */
	const char *acct = c->node[CTL_CPUACCT].dir ?: v1;
	/* cpu.stat is in every v2 cgroup. */
	uint64_t total = v2 ? keyed(v2, "cpu.stat", "usage_usec") * NS_PER_US
			    : number(acct, "cpuacct.usage");
	uint64_t user = v2 ? keyed(v2, "cpu.stat", "user_usec") * NS_PER_US
			   : keyed(acct, "cpuacct.stat", "user") * NS_PER_TICK;
	uint64_t sys = v2 ? keyed(v2, "cpu.stat", "system_usec") * NS_PER_US
			  : keyed(acct, "cpuacct.stat", "system") * NS_PER_TICK;
	const char *dir = v1 ? v1 : v2;

	json_out_key(o, "cpu");
	json_out_object(o);
	json_out_key(o, "usage");
	json_out_object(o);
	put_nonzero(o, "total", total);
	put_percpu(acct, o);
	json_out_uint_member(o, "kernel", sys);
	json_out_uint_member(o, "user", user);
	json_out_object_end(o);
	json_out_key(o, "throttling");
	json_out_object(o);
	put_nonzero(o, "periods", keyed(dir, "cpu.stat", "nr_periods"));
	put_nonzero(o, "throttledPeriods",
		    keyed(dir, "cpu.stat", "nr_throttled"));
	put_nonzero(o, "throttledTime",
		    v1 ? keyed(v1, "cpu.stat", "throttled_time")
		       : keyed(v2, "cpu.stat", "throttled_usec") * NS_PER_US);
	json_out_object_end(o);
	json_out_object_end(o);
}

/* "0-2,4" as [0,1,2,4]. */
static void put_list(const char *dir, const char *file, const char *key,
		     struct json_out *o)
{
	auto_(buf) struct buf b = BUF_INIT;
	char *p, *end;

	if (!dir || cgroup_read(dir, file, &b) < 0 || b.len < 2)
		return;
	json_out_key(o, key);
	json_out_array(o);
	for (p = b.data; *p; p = end + (*end == ',')) {
		unsigned long first = strtoul(p, &end, 10), last = first;

		if (end == p)
			break;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < 65536; first++)
			json_out_uint(o, first);
	}
	json_out_array_end(o);
}

static void put_cpuset(const struct cgroup *c, struct json_out *o)
{
	static const char *const flags[] = {
		"cpu_exclusive",   "mem_hardwall",	 "mem_exclusive",
		"memory_migrate",  "memory_spread_page", "memory_spread_slab",
		"memory_pressure", "sched_load_balance",
	};
	const char *v1 = c->node[CTL_CPUSET].dir;
	const char *dir = v1 ? v1 : c->node[CTL_UNIFIED].dir;

	json_out_key(o, "cpuset");
	json_out_object(o);
	put_list(dir, v1 ? "cpuset.cpus" : "cpuset.cpus.effective", "cpus", o);
	put_list(dir, v1 ? "cpuset.mems" : "cpuset.mems.effective", "mems", o);
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		char file[64];

		(void)snprintf(file, sizeof(file), "cpuset.%s", flags[i]);
		json_out_uint_member(o, flags[i], number(v1, file));
	}
	json_out_uint_member(o, "sched_relax_domain_level",
			     number(v1, "cpuset.sched_relax_domain_level"));
	json_out_object_end(o);
}

static void put_entry(struct json_out *o, const char *key, uint64_t limit,
		      uint64_t usage, uint64_t max, uint64_t failcnt)
{
	json_out_key(o, key);
	json_out_object(o);
	json_out_uint_member(o, "limit", limit);
	put_nonzero(o, "usage", usage);
	put_nonzero(o, "max", max);
	json_out_uint_member(o, "failcnt", failcnt);
	json_out_object_end(o);
}

static void put_entry_v1(struct json_out *o, const char *key, const char *dir,
			 const char *prefix)
{
	static const char *const suffixes[] = { "limit_in_bytes",
						"usage_in_bytes",
						"max_usage_in_bytes",
						"failcnt" };
	uint64_t v[ARRAY_LEN(suffixes)];

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		char file[64];

		(void)snprintf(file, sizeof(file), "%s.%s", prefix,
			       suffixes[i]);
		v[i] = number(dir, file);
	}
	put_entry(o, key, v[0], v[1], v[2], v[3]);
}

static void put_raw(const char *dir, struct json_out *o)
{
	auto_(buf) struct buf b = BUF_INIT;
	char *line, *save = NULL;

	if (!dir || cgroup_read(dir, "memory.stat", &b) < 0 || !b.data)
		return;
	json_out_key(o, "raw");
	json_out_object(o);
	for (line = strtok_r(b.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *blank = strchr(line, ' ');

		if (!blank)
			continue;
		*blank = '\0';
		json_out_uint_member(o, line, strtoull(blank + 1, NULL, 10));
	}
	json_out_object_end(o);
}

static void put_memory(const struct cgroup *c, struct json_out *o)
{
	const char *v1 = c->node[CTL_MEMORY].dir;
	const char *v2 = c->node[CTL_UNIFIED].dir;

	json_out_key(o, "memory");
	json_out_object(o);
	if (v1) {
		put_nonzero(o, "cache", keyed(v1, "memory.stat", "cache"));
		put_entry_v1(o, "usage", v1, "memory");
		put_entry_v1(o, "swap", v1, "memory.memsw");
		put_entry_v1(o, "kernel", v1, "memory.kmem");
		put_entry_v1(o, "kernelTCP", v1, "memory.kmem.tcp");
	} else {
		put_nonzero(o, "cache", keyed(v2, "memory.stat", "file"));
		put_entry(o, "usage", number(v2, "memory.max"),
			  number(v2, "memory.current"),
			  number(v2, "memory.peak"),
			  keyed(v2, "memory.events", "max"));
		put_entry(o, "swap", number(v2, "memory.swap.max"),
			  number(v2, "memory.swap.current"),
			  number(v2, "memory.swap.peak"),
			  keyed(v2, "memory.swap.events", "max"));
		put_entry(o, "kernel", 0, 0, 0, 0);
		put_entry(o, "kernelTCP", 0, 0, 0, 0);
	}
	put_raw(v1 ? v1 : v2, o);
	json_out_object_end(o);
}

static void put_pids(const struct cgroup *c, struct json_out *o)
{
	const char *v1 = c->node[CTL_PIDS].dir;
	const char *dir = v1 ? v1 : c->node[CTL_UNIFIED].dir;
	uint64_t limit = number(dir, "pids.max");
	uint64_t current = number(dir, "pids.current");
	auto_free pid_t *pids = NULL;
	size_t n = 0;

	/* Nobody counts: the processes are what there is. */
	if (!current && cgroup_pids(c, &pids, &n, NULL) == 0)
		current = n;
	json_out_key(o, "pids");
	json_out_object(o);
	put_nonzero(o, "current", current);
	put_nonzero(o, "limit", limit == UINT64_MAX ? 0 : limit);
	json_out_object_end(o);
}

static void put_io(struct json_out *o, unsigned long major, unsigned long minor,
		   const char *op, uint64_t value)
{
	json_out_object(o);
	put_nonzero(o, "major", major);
	put_nonzero(o, "minor", minor);
	json_out_str_member(o, "op", op);
	put_nonzero(o, "value", value);
	json_out_object_end(o);
}

/* v1: "8:0 Read 4096"; v2: "8:0 rbytes=4096 wbytes=0 rios=1 …". */
static void put_io_line(struct json_out *o, const char *line, bool v2,
			const char *read_key, const char *write_key)
{
	unsigned long major, minor;
	unsigned long long v;
	char op[16];
	const char *p;

	if (!v2) {
		if (sscanf(line, "%lu:%lu %15s %llu", &major, &minor, op, &v) ==
		    4)
			put_io(o, major, minor, op, v);
		return;
	}
	if (sscanf(line, "%lu:%lu", &major, &minor) != 2)
		return;
	p = strstr(line, read_key);
	if (p)
		put_io(o, major, minor, "Read",
		       strtoull(p + strlen(read_key), NULL, 10));
	p = strstr(line, write_key);
	if (p)
		put_io(o, major, minor, "Write",
		       strtoull(p + strlen(write_key), NULL, 10));
}

static void put_io_file(const struct cgroup *c, struct json_out *o,
			const char *key, const char *v1_file,
			const char *read_key, const char *write_key)
{
	const char *v1 = c->node[CTL_BLKIO].dir;
	const char *dir = v1 ? v1 : c->node[CTL_UNIFIED].dir;
	auto_(buf) struct buf b = BUF_INIT;
	char *line, *save = NULL;

	if (!dir || cgroup_read(dir, v1 ? v1_file : "io.stat", &b) < 0 ||
	    b.len == 0)
		return;
	json_out_key(o, key);
	json_out_array(o);
	for (line = strtok_r(b.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		put_io_line(o, line, !v1, read_key, write_key);
	json_out_array_end(o);
}

static void put_blkio(const struct cgroup *c, struct json_out *o)
{
	json_out_key(o, "blkio");
	json_out_object(o);
	put_io_file(c, o, "ioServiceBytesRecursive",
		    "blkio.throttle.io_service_bytes_recursive",
		    "rbytes=", "wbytes=");
	put_io_file(c, o, "ioServicedRecursive",
		    "blkio.throttle.io_serviced_recursive", "rios=", "wios=");
	json_out_object_end(o);
}

static void put_hugetlb(const struct cgroup *c, struct json_out *o)
{
	static const char *const sizes[] = { "64KB",  "2MB", "16MB", "32MB",
					     "512MB", "1GB", "16GB" };
	const char *v1 = c->node[CTL_HUGETLB].dir;
	const char *dir = v1 ? v1 : c->node[CTL_UNIFIED].dir;

	json_out_key(o, "hugetlb");
	json_out_object(o);
	for (size_t i = 0; dir && i < ARRAY_LEN(sizes); i++) {
		char file[64], events[64];
		uint64_t usage;

		(void)snprintf(file, sizeof(file), "hugetlb.%s.%s", sizes[i],
			       v1 ? "usage_in_bytes" : "current");
		if (cgroup_read_number(dir, file, &usage) < 0)
			continue;
		json_out_key(o, sizes[i]);
		json_out_object(o);
		put_nonzero(o, "usage", usage);
		(void)snprintf(file, sizeof(file), "hugetlb.%s.%s", sizes[i],
			       v1 ? "max_usage_in_bytes" : "peak");
		put_nonzero(o, "max", number(dir, file));
		(void)snprintf(events, sizeof(events), "hugetlb.%s.%s",
			       sizes[i], v1 ? "failcnt" : "events");
		json_out_uint_member(o, "failcnt",
				     v1 ? number(dir, events)
					: keyed(dir, events, "max"));
		json_out_object_end(o);
	}
	json_out_object_end(o);
}

uint64_t cgroup_oom_kills(const struct cgroup *c)
{
	const char *v1 = c->node[CTL_MEMORY].dir;

	return v1 ? keyed(v1, "memory.oom_control", "oom_kill")
		  : keyed(c->node[CTL_UNIFIED].dir, "memory.events",
			  "oom_kill");
}

/*
 * "oom" counts where the limit is that was hit, "oom_kill" where the victim is,
 * whoever's memory had run out. v1 only says whether the limit was hit.
 */
uint64_t cgroup_limit_kills(const struct cgroup *c)
{
	const char *v1 = c->node[CTL_MEMORY].dir;
	uint64_t hits = v1 ? number(v1, "memory.failcnt") +
					number(v1, "memory.memsw.failcnt")
			   : keyed(c->node[CTL_UNIFIED].dir,
				   "memory.events.local", "oom");

	return hits ? cgroup_oom_kills(c) : 0;
}

uint64_t cgroup_fork_failures(const struct cgroup *c)
{
	const char *v1 = c->node[CTL_PIDS].dir;

	return keyed(v1 ? v1 : c->node[CTL_UNIFIED].dir, "pids.events", "max");
}

int cgroup_stats(const struct cgroup *c, struct json_out *o, struct error *err)
{
	const struct cgroup_node *n = cgroup_member_node(c);

	if (!n) {
		(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				"the sandbox has no cgroup to read from");
		return error_hint(err, "it takes root or a delegated cgroup "
				       "when the sandbox is made");
	}
	put_cpu(c, o);
	put_cpuset(c, o);
	put_memory(c, o);
	put_pids(c, o);
	put_blkio(c, o);
	put_hugetlb(c, o);
	json_out_key(o, "intel_rdt");
	json_out_object(o);
	json_out_object_end(o);
	json_out_key(o, "network_interfaces");
	json_out_null(o);
	return 0;
}
