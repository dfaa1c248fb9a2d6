/* linux.resources of config.json, and the file of `update`. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "spec/parse.h"

/* clang-format off */
static const struct name rule_type_rows[] = {
	{ "a", 'a' }, { "b", 'b' }, { "c", 'c' },
};
static const struct names rule_type_names =
	NAMES("device type", rule_type_rows);
/* clang-format on */

static int read_access(const struct at *at, void *obj)
{
	struct spec_device_rule *d = obj;
	const char *access;
	int r = at_string(at, STR_MAY_BE_NONE, &access);

	if (r < 0 || !access)
		return r;
	if (access[strspn(access, "rwm")] != '\0')
		return at_fail(at, "'%s' is not made of r, w and m",
			       SHOWN(access));
	d->read = strchr(access, 'r');
	d->write = strchr(access, 'w');
	d->mknod = strchr(access, 'm');
	return 0;
}

/* What is not said means all. */
static int check_rule(const struct at *at, void *obj)
{
	struct spec_device_rule *d = obj;

	if (!d->type)
		d->type = 'a';
	if (!at_has(at, "major"))
		d->major = -1;
	if (!at_has(at, "minor"))
		d->minor = -1;
	if (!d->read && !d->write && !d->mknod)
		d->read = d->write = d->mknod = true;
	return 0;
}

/* 0 is what engines write for "not given". */
static bool is_weight(uint16_t weight)
{
	return weight == 0 || weight >= 10;
}

static int check_weights(const struct at *at, void *obj)
{
	struct spec_resources *r = obj;

	if (!is_weight(r->blkio_weight) || !is_weight(r->blkio_leaf_weight))
		return at_fail(at, "a weight is out of range (10 to 1000)");
	r->has_blkio_weight = r->blkio_weight != 0;
	r->has_blkio_leaf_weight = r->blkio_leaf_weight != 0;
	return 0;
}

static int check_weight_device(const struct at *at, void *obj)
{
	const struct spec_weight_device *w = obj;

	if (!is_weight(w->weight) || !is_weight(w->leaf))
		return at_fail(at, "a weight is out of range (10 to 1000)");
	if (!w->weight && !w->leaf)
		return at_fail(at, "weight or leafWeight is required");
	return 0;
}

/* runc: "2MB", "1GB", "64KB". */
static int check_hugepage(const struct at *at, void *obj)
{
	const struct spec_hugepage *h = obj;
	size_t digits = strspn(h->page_size, "0123456789");
	const char *unit = h->page_size + digits;

	if (digits == 0 || h->page_size[0] == '0' ||
	    (strcmp(unit, "KB") != 0 && strcmp(unit, "MB") != 0 &&
	     strcmp(unit, "GB") != 0))
		return at_fail_member(at, "pageSize",
				      "'%s' is no page size like 2MB",
				      SHOWN(h->page_size));
	return 0;
}

static int check_rdma(const struct at *at, void *obj)
{
	const struct spec_rdma *r = obj;

	if (!r->has_handles && !r->has_objects)
		return at_fail(at, "hcaHandles or hcaObjects is required");
	return 0;
}

/* The key is the name of a file in the cgroup. */
static int check_unified(const struct at *at, void *obj)
{
	const struct spec_unified *u = obj;

	if (strchr(u->key, '/') || u->key[0] == '.')
		return at_fail(at, "'%s' is no name of a cgroup file",
			       SHOWN(u->key));
	return 0;
}

/* clang-format off */
#define M(type, m) MEMBER(struct spec_##type, m)

static const struct field rule_fields[] = {
	{ "allow",  FIELD_BOOL, FIELD_REQUIRED, M(device_rule, allow) },
	{ "type",   FIELD_ENUM, STR_MAY_BE_NONE, M(device_rule, type),
	  .names = &rule_type_names },
	{ "major",  FIELD_INT, 0, M(device_rule, major), .min = -1,
	  .max = UINT32_MAX },
	{ "minor",  FIELD_INT, 0, M(device_rule, minor), .min = -1,
	  .max = UINT32_MAX },
	{ "access", FIELD_CALL, 0, .check = read_access },
};
static const struct shape rule_shape = {
	SHAPE(struct spec_device_rule, rule_fields), .check = check_rule };

static const struct field weight_device_fields[] = {
	{ "major",	FIELD_INT, FIELD_REQUIRED, M(weight_device, major),
	  .min = 0, .max = UINT32_MAX },
	{ "minor",	FIELD_INT, FIELD_REQUIRED, M(weight_device, minor),
	  .min = 0, .max = UINT32_MAX },
	{ "weight",	FIELD_UINT, 0, M(weight_device, weight), .max = 1000 },
	{ "leafWeight", FIELD_UINT, 0, M(weight_device, leaf), .max = 1000 },
};
static const struct shape weight_device_shape = {
	SHAPE(struct spec_weight_device, weight_device_fields),
	.check = check_weight_device };

static const struct field throttle_fields[] = {
	{ "major", FIELD_INT, FIELD_REQUIRED, M(throttle, major), .min = 0,
	  .max = UINT32_MAX },
	{ "minor", FIELD_INT, FIELD_REQUIRED, M(throttle, minor), .min = 0,
	  .max = UINT32_MAX },
	{ "rate",  FIELD_UINT, FIELD_REQUIRED, M(throttle, rate) },
};
static const struct shape throttle_shape = {
	SHAPE(struct spec_throttle, throttle_fields) };

static const struct field hugepage_fields[] = {
	{ "pageSize", FIELD_STR, FIELD_REQUIRED, M(hugepage, page_size) },
	{ "limit",    FIELD_UINT, FIELD_REQUIRED, M(hugepage, limit) },
};
static const struct shape hugepage_shape = {
	SHAPE(struct spec_hugepage, hugepage_fields),
	.check = check_hugepage };

static const struct field net_prio_fields[] = {
	{ "name",     FIELD_STR, FIELD_REQUIRED | STR_NONEMPTY,
	  M(net_prio, name) },
	{ "priority", FIELD_UINT, FIELD_REQUIRED, M(net_prio, priority) },
};
static const struct shape net_prio_shape = {
	SHAPE(struct spec_net_prio, net_prio_fields) };

static const struct field rdma_fields[] = {
	{ "hcaHandles", FIELD_UINT, 0, M(rdma, handles),
	  HAS(struct spec_rdma, has_handles) },
	{ "hcaObjects", FIELD_UINT, 0, M(rdma, objects),
	  HAS(struct spec_rdma, has_objects) },
};
static const struct shape rdma_shape = {
	SHAPE(struct spec_rdma, rdma_fields), .check = check_rdma };

static const struct field unified_fields[] = {
	{ NULL, FIELD_STR, 0, M(unified, value) },
};
static const struct shape unified_shape = {
	SHAPE(struct spec_unified, unified_fields), .check = check_unified };

#define V(m) MEMBER(struct spec_resources, m)
#define HV(m) V(m), HAS(struct spec_resources, has_##m)
#define NV(m) COUNT(struct spec_resources, n_##m)
/* Bytes, or -1 for no limit. */
#define BYTES .min = -1, .max = INT64_MAX

static const struct field memory_fields[] = {
	{ "limit",	       FIELD_INT, 0, HV(mem_limit), BYTES },
	{ "reservation",       FIELD_INT, 0, HV(mem_reservation), BYTES },
	{ "swap",	       FIELD_INT, 0, HV(mem_swap), BYTES },
	{ "kernel",	       FIELD_INT, 0, HV(mem_kernel), BYTES },
	{ "kernelTCP",	       FIELD_INT, 0, HV(mem_kernel_tcp), BYTES },
	{ "swappiness",	       FIELD_UINT, 0, HV(mem_swappiness), .max = 100 },
	{ "disableOOMKiller",  FIELD_BOOL, 0, HV(mem_disable_oom) },
	{ "useHierarchy",      FIELD_BOOL, 0, HV(mem_use_hierarchy) },
	{ "checkBeforeUpdate", FIELD_BOOL, 0, V(mem_check_before_update) },
};
static const struct shape memory_shape = {
	SHAPE(struct spec_resources, memory_fields) };

static const struct field cpu_fields[] = {
	{ "shares",	     FIELD_UINT, 0, HV(cpu_shares) },
	{ "quota",	     FIELD_INT, 0, HV(cpu_quota), .min = -1,
	  .max = INT64_MAX },
	{ "burst",	     FIELD_UINT, 0, HV(cpu_burst), .max = INT64_MAX },
	{ "period",	     FIELD_UINT, 0, HV(cpu_period) },
	{ "realtimeRuntime", FIELD_INT, 0, HV(cpu_rt_runtime), .min = -1,
	  .max = INT64_MAX },
	{ "realtimePeriod",  FIELD_UINT, 0, HV(cpu_rt_period) },
	{ "cpus",	     FIELD_STR, STR_MAY_BE_NONE, V(cpu_cpus) },
	{ "mems",	     FIELD_STR, STR_MAY_BE_NONE, V(cpu_mems) },
	{ "idle",	     FIELD_INT, 0, HV(cpu_idle), .min = 0, .max = 1 },
};
static const struct shape cpu_shape = {
	SHAPE(struct spec_resources, cpu_fields) };

static const struct field pids_fields[] = {
	{ "limit", FIELD_INT, 0, HV(pids_limit), .min = -1, .max = INT64_MAX },
};
static const struct shape pids_shape = {
	SHAPE(struct spec_resources, pids_fields) };

#define THROTTLE(key_, m) \
	{ key_, FIELD_ARRAY, 0, V(m), NV(m), .shape = &throttle_shape, \
	  .max = LIMIT_DEVICES }
static const struct field blkio_fields[] = {
	{ "weight",	  FIELD_UINT, 0, HV(blkio_weight), .max = 1000 },
	{ "leafWeight",	  FIELD_UINT, 0, HV(blkio_leaf_weight), .max = 1000 },
	{ "weightDevice", FIELD_ARRAY, 0, V(blkio_weight_devices),
	  NV(blkio_weight_devices), .shape = &weight_device_shape,
	  .max = LIMIT_DEVICES },
	THROTTLE("throttleReadBpsDevice",   read_bps),
	THROTTLE("throttleWriteBpsDevice",  write_bps),
	THROTTLE("throttleReadIOPSDevice",  read_iops),
	THROTTLE("throttleWriteIOPSDevice", write_iops),
};
#undef THROTTLE
static const struct shape blkio_shape = {
	SHAPE(struct spec_resources, blkio_fields), .check = check_weights };

static const struct field network_fields[] = {
	{ "classID",	FIELD_UINT, 0, HV(net_class_id) },
	{ "priorities", FIELD_ARRAY, 0, V(net_prios), NV(net_prios),
	  .shape = &net_prio_shape, .max = LIMIT_DEVICES },
};
static const struct shape network_shape = {
	SHAPE(struct spec_resources, network_fields) };

static const struct field resources_fields[] = {
	{ "devices",	    FIELD_ARRAY, 0, V(devices), NV(devices),
	  .shape = &rule_shape, .max = LIMIT_DEVICES },
	{ "memory",	    FIELD_OBJ, 0, .shape = &memory_shape },
	{ "cpu",	    FIELD_OBJ, 0, .shape = &cpu_shape },
	{ "pids",	    FIELD_OBJ, 0, .shape = &pids_shape },
	{ "blockIO",	    FIELD_OBJ, 0, .shape = &blkio_shape },
	{ "hugepageLimits", FIELD_ARRAY, 0, V(hugepages), NV(hugepages),
	  .shape = &hugepage_shape, .max = 64 },
	{ "network",	    FIELD_OBJ, 0, .shape = &network_shape },
	{ "rdma",	    FIELD_MAP, 0, V(rdma), NV(rdma),
	  .shape = &rdma_shape, .max = LIMIT_DEVICES },
	{ "unified",	    FIELD_MAP, 0, V(unified), NV(unified),
	  .shape = &unified_shape, .max = 1024 },
};
const struct shape resources_shape = {
	SHAPE(struct spec_resources, resources_fields) };
/* clang-format on */

void spec_resources_free(struct spec_resources *r)
{
	if (!r)
		return;
	shape_done(&resources_shape, r);
	free(r);
}
