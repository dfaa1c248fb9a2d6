/* linux.* of config.json, but for resources, sysctl and seccomp. */
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/uapi.h"
#include "spec/parse.h"

/* clang-format off */
const struct spec_ns_row spec_ns_table[SPEC_NS_COUNT] = {
	[SPEC_NS_USER]	  = { "user",	 "user",   CLONE_NEWUSER },
	[SPEC_NS_MOUNT]	  = { "mount",	 "mnt",	   CLONE_NEWNS },
	[SPEC_NS_PID]	  = { "pid",	 "pid",	   CLONE_NEWPID },
	[SPEC_NS_NETWORK] = { "network", "net",	   CLONE_NEWNET },
	[SPEC_NS_IPC]	  = { "ipc",	 "ipc",	   CLONE_NEWIPC },
	[SPEC_NS_UTS]	  = { "uts",	 "uts",	   CLONE_NEWUTS },
	[SPEC_NS_CGROUP]  = { "cgroup",	 "cgroup", CLONE_NEWCGROUP },
	[SPEC_NS_TIME]	  = { "time",	 "time",   CLONE_NEWTIME },
};

static const struct name propagation_rows[] = {
	{ "shared",	 MS_SHARED },
	{ "rshared",	 MS_SHARED | MS_REC },
	{ "slave",	 MS_SLAVE },
	{ "rslave",	 MS_SLAVE | MS_REC },
	{ "private",	 MS_PRIVATE },
	{ "rprivate",	 MS_PRIVATE | MS_REC },
	{ "unbindable",	 MS_UNBINDABLE },
	{ "runbindable", MS_UNBINDABLE | MS_REC },
};
static const struct names propagation_names =
	NAMES("propagation", propagation_rows);

static const struct name device_type_rows[] = {
	{ "c", 'c' }, { "u", 'c' }, { "b", 'b' }, { "p", 'p' },
};
static const struct names device_type_names =
	NAMES("device type", device_type_rows);

static const struct name domain_rows[] = {
	{ "LINUX",   PER_LINUX },
	{ "LINUX32", PER_LINUX32 },
};
static const struct names domain_names =
	NAMES("personality domain", domain_rows);

static const struct name policy_mode_rows[] = {
	{ "MPOL_DEFAULT",	     MPOL_DEFAULT },
	{ "MPOL_BIND",		     MPOL_BIND },
	{ "MPOL_INTERLEAVE",	     MPOL_INTERLEAVE },
	{ "MPOL_WEIGHTED_INTERLEAVE", MPOL_WEIGHTED_INTERLEAVE },
	{ "MPOL_PREFERRED",	     MPOL_PREFERRED },
	{ "MPOL_PREFERRED_MANY",     MPOL_PREFERRED_MANY },
	{ "MPOL_LOCAL",		     MPOL_LOCAL },
};
const struct names memory_policy_mode_names =
	NAMES("memory policy", policy_mode_rows);

static const struct name policy_flag_rows[] = {
	{ "MPOL_F_NUMA_BALANCING", MPOL_F_NUMA_BALANCING },
	{ "MPOL_F_RELATIVE_NODES", MPOL_F_RELATIVE_NODES },
	{ "MPOL_F_STATIC_NODES",   MPOL_F_STATIC_NODES },
};
const struct names memory_policy_flag_names =
	NAMES("memory policy flag", policy_flag_rows);
/* clang-format on */

static int ns_index(const char *type)
{
	for (int i = 0; i < SPEC_NS_COUNT; i++)
		if (strcmp(spec_ns_table[i].oci_name, type) == 0)
			return i;
	return -1;
}

/*
 * Joining the namespace we are in is no private one. A path that changes until
 * it is joined was ours to trust anyway: it comes from the bundle's author. One
 * that is gone cannot be joined; what was made with it has to be read still.
 */
bool ns_is_private(const struct spec *s, enum spec_ns ns)
{
	const struct spec_namespace *n = &s->ns[ns];
	struct stat own, joined;
	char path[64];

	if (n->want != SPEC_NS_JOIN)
		return n->want == SPEC_NS_NEW;
	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s",
		       spec_ns_table[ns].proc_name);
	if (stat(path, &own) < 0)
		return false;
	if (stat(n->path, &joined) < 0)
		return errno == ENOENT;
	return own.st_dev != joined.st_dev || own.st_ino != joined.st_ino;
}

struct ns_entry {
	char *type, *path;
};

static const struct field ns_fields[] = {
	{ "type", FIELD_STR, FIELD_REQUIRED, MEMBER(struct ns_entry, type) },
	{ "path", FIELD_STR, STR_MAY_BE_NONE | STR_ABSOLUTE,
	  MEMBER(struct ns_entry, path) },
};
static const struct shape ns_shape = { SHAPE(struct ns_entry, ns_fields) };

static int store_namespace(const struct at *at, struct spec *s,
			   struct ns_entry *e)
{
	int i = ns_index(e->type);

	if (i < 0)
		return at_fail_member(at, "type", "unknown namespace '%s'",
				      SHOWN(e->type));
	if (s->ns[i].want != SPEC_NS_INHERIT)
		return at_fail_member(at, "type", "duplicate namespace '%s'",
				      e->type);
	s->ns[i].want = e->path ? SPEC_NS_JOIN : SPEC_NS_NEW;
	s->ns[i].path = take_ptr(&e->path);
	return 0;
}

static int read_namespaces(const struct at *at, void *obj)
{
	int r = at_expect(at, JSON_ARRAY);

	for (size_t i = 0; r >= 0 && i < at->v->n; i++) {
		struct at item = at_item(at, i);
		struct ns_entry e = { 0 };

		r = shape_read(&item, &ns_shape, &e);
		if (r >= 0)
			r = store_namespace(&item, obj, &e);
		shape_done(&ns_shape, &e);
	}
	return r;
}

static bool fits(uint32_t first, uint32_t count)
{
	return (uint64_t)first + count <= UINT64_C(1) << 32;
}

static int check_extent(const struct at *at, void *obj)
{
	const struct idmap_extent *e = obj;

	if (!fits(e->inside, e->count) || !fits(e->outside, e->count))
		return at_fail_member(at, "size",
				      "%u ids do not fit in 32 bits", e->count);
	return 0;
}

/* clang-format off */
#define E(m) FIELD_REQUIRED, MEMBER(struct idmap_extent, m)
static const struct field extent_fields[] = {
	{ "containerID", FIELD_UINT, E(inside) },
	{ "hostID",	 FIELD_UINT, E(outside) },
	{ "size",	 FIELD_UINT, E(count), .min = 1 },
};
#undef E
/* clang-format on */
const struct shape idmap_extent_shape = {
	SHAPE(struct idmap_extent, extent_fields), .check = check_extent
};

static bool overlap(uint32_t a, uint32_t an, uint32_t b, uint32_t bn)
{
	return (uint64_t)a < (uint64_t)b + bn && (uint64_t)b < (uint64_t)a + an;
}

int check_extents(const struct at *at, const struct idmap_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct idmap_extent *a = &l->extents[i];

		if (a->count == 0)
			return at_fail(at, "a mapping is empty");
		if (!fits(a->inside, a->count) || !fits(a->outside, a->count))
			return at_fail(at, "a mapping does not fit in 32 bits");
		for (size_t j = 0; j < i; j++) {
			const struct idmap_extent *b = &l->extents[j];

			if (overlap(a->inside, a->count, b->inside, b->count) ||
			    overlap(a->outside, a->count, b->outside, b->count))
				return at_fail(at,
					       "mappings %zu and %zu "
					       "overlap",
					       j, i);
		}
	}
	return 0;
}

static void drop_map(struct idmap *m)
{
	idmap_done(m);
	*m = (struct idmap)IDMAP_INIT;
}

int check_id_maps(const struct at *at, struct spec *s)
{
	struct at linux_at = { .p = at->p, .up = at, .key = "linux" };
	struct at uids = { .p = at->p, .up = &linux_at, .key = "uidMappings" };
	struct at gids = { .p = at->p, .up = &linux_at, .key = "gidMappings" };
	bool given = s->idmap.uids.n || s->idmap.gids.n;
	int r;

	if (s->ns[SPEC_NS_USER].want == SPEC_NS_INHERIT) {
		if (given)
			at_warn(&uids, "ignored: there is no user namespace");
		drop_map(&s->idmap);
		return 0;
	}
	if (s->ns[SPEC_NS_USER].want == SPEC_NS_NEW && !s->idmap.uids.n)
		return at_fail(&uids, "a new user namespace needs mappings");
	if (!s->idmap.uids.n != !s->idmap.gids.n)
		return at_fail(s->idmap.uids.n ? &gids : &uids,
			       "both mappings must be given, or none");
	r = check_extents(&uids, &s->idmap.uids);
	return r < 0 ? r : check_extents(&gids, &s->idmap.gids);
}

static int check_device(const struct at *at, void *obj)
{
	struct spec_device *d = obj;

	if (d->type != 'p' && !(at_has(at, "major") && at_has(at, "minor")))
		return at_fail(at, "major and minor are required for a device "
				   "of this type");
	d->mode &= 07777;
	return 0;
}

/* clang-format off */
#define D(m) MEMBER(struct spec_device, m)
/* dev_t of the kernel: 12 and 20 bits. Engines leave S_IFMT in fileMode. */
static const struct field device_fields[] = {
	{ "path",     FIELD_STR, FIELD_REQUIRED | STR_NONEMPTY | STR_ABSOLUTE,
	  D(path) },
	{ "type",     FIELD_ENUM, FIELD_REQUIRED, D(type),
	  .names = &device_type_names },
	{ "major",    FIELD_INT, 0, D(major), .min = 0, .max = 0xfff },
	{ "minor",    FIELD_INT, 0, D(minor), .min = 0, .max = 0xfffff },
	{ "fileMode", FIELD_UINT, 0, D(mode),
	  HAS(struct spec_device, has_mode), .max = 0177777 },
	{ "uid",      FIELD_UINT, 0, D(uid), .max = UINT32_MAX - 1 },
	{ "gid",      FIELD_UINT, 0, D(gid), .max = UINT32_MAX - 1 },
};
#undef D
/* clang-format on */
static const struct shape device_shape = {
	SHAPE(struct spec_device, device_fields), .check = check_device
};

/* As dev_valid_name() of the kernel; "%d" makes it choose a number. */
static bool is_interface_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n < 16 && strcmp(s, ".") != 0 && strcmp(s, "..") != 0 &&
	       !strpbrk(s, "/: \t\n\v\f\r");
}

static int check_net_device(const struct at *at, void *obj)
{
	const struct spec_net_device *d = obj;

	if (!is_interface_name(d->host_name))
		return at_fail(at, "'%s' is no name of a network interface",
			       SHOWN(d->host_name));
	if (d->name && !is_interface_name(d->name))
		return at_fail_member(at, "name",
				      "'%s' is no name of a network interface",
				      SHOWN(d->name));
	return 0;
}

static const struct field net_device_fields[] = {
	{ "name", FIELD_STR, STR_MAY_BE_NONE,
	  MEMBER(struct spec_net_device, name) },
};
static const struct shape net_device_shape = { SHAPE(struct spec_net_device,
						     net_device_fields),
					       .check = check_net_device };

static const char *inner_name(const struct spec_net_device *d)
{
	return d->name ? d->name : d->host_name;
}

static int check_net_devices(const struct at *at, void *obj)
{
	const struct spec *s = obj;

	for (size_t i = 0; i < s->n_net_devices; i++) {
		const char *name = inner_name(&s->net_devices[i]);

		if (strchr(name, '%'))
			continue;
		for (size_t j = 0; j < i; j++)
			if (strcmp(inner_name(&s->net_devices[j]), name) == 0)
				return at_fail(at,
					       "two devices get the name "
					       "'%s'",
					       SHOWN(name));
	}
	return 0;
}

/* clang-format off */
#define T(m) MEMBER(struct spec_time_offset, m)
static const struct field time_fields[] = {
	{ "secs",     FIELD_INT, 0, T(secs), .min = INT64_MIN,
	  .max = INT64_MAX },
	{ "nanosecs", FIELD_UINT, 0, T(nanosecs), .max = 999999999 },
};
#undef T
static const struct shape time_shape = {
	SHAPE(struct spec_time_offset, time_fields) };

static const struct field clock_fields[] = {
	{ "monotonic", FIELD_OBJ, 0, MEMBER(struct spec, time_monotonic),
	  HAS(struct spec, time_monotonic.given), .shape = &time_shape },
	{ "boottime",  FIELD_OBJ, 0, MEMBER(struct spec, time_boottime),
	  HAS(struct spec, time_boottime.given), .shape = &time_shape },
};
/* clang-format on */

/* The members are a map by clock: another name is a value, not a property. */
static int check_clocks(const struct at *at, void *obj)
{
	for (size_t i = 0; i < at->v->n; i++)
		if (strcmp(at->v->keys[i], "monotonic") != 0 &&
		    strcmp(at->v->keys[i], "boottime") != 0)
			return at_fail(at, "unknown clock '%s'",
				       SHOWN(at->v->keys[i]));
	return 0;
}

static const struct shape clock_shape = { SHAPE(struct spec, clock_fields),
					  .check = check_clocks };

/* The specification defines none yet. */
static int check_personality_flags(const struct at *at, void *obj)
{
	int r = at_expect(at, JSON_ARRAY);

	if (r >= 0 && at->v->n > 0)
		return at_fail(at, "must be empty");
	return r;
}

/* clang-format off */
static const struct field personality_fields[] = {
	{ "domain", FIELD_ENUM, FIELD_REQUIRED, MEMBER(struct spec, personality),
	  HAS(struct spec, has_personality), .names = &domain_names },
	{ "flags",  FIELD_CALL, 0, .check = check_personality_flags },
};
/* clang-format on */
static const struct shape personality_shape = { SHAPE(struct spec,
						      personality_fields) };

static int check_memory_policy(const struct at *at, void *obj)
{
	const struct spec_memory_policy *m = obj;
	const unsigned int both = MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES;
	bool takes_none = m->mode == MPOL_DEFAULT || m->mode == MPOL_LOCAL;

	if (takes_none && (m->nodes || m->flags))
		return at_fail(at, "this mode takes neither nodes nor flags");
	if (!takes_none && m->mode != MPOL_PREFERRED && !m->nodes)
		return at_fail_member(at, "nodes", "is required for this mode");
	if (m->nodes && strspn(m->nodes, "0123456789,-") != strlen(m->nodes))
		return at_fail_member(at, "nodes", "'%s' is no list of nodes",
				      SHOWN(m->nodes));
	if ((m->flags & both) == both)
		return at_fail_member(at, "flags",
				      "MPOL_F_STATIC_NODES excludes "
				      "MPOL_F_RELATIVE_NODES");
	return 0;
}

/* clang-format off */
#define MP(m) MEMBER(struct spec_memory_policy, m)
static const struct field memory_policy_fields[] = {
	{ "mode",  FIELD_ENUM, FIELD_REQUIRED, MP(mode),
	  HAS(struct spec_memory_policy, given),
	  .names = &memory_policy_mode_names },
	{ "nodes", FIELD_STR, STR_MAY_BE_NONE, MP(nodes) },
	{ "flags", FIELD_FLAGS, 0, MP(flags),
	  .names = &memory_policy_flag_names },
};
#undef MP
/* clang-format on */
static const struct shape memory_policy_shape = {
	SHAPE(struct spec_memory_policy, memory_policy_fields),
	.check = check_memory_policy
};

/* What is in it is checked although the plan refuses it: no resctrl. */
struct intel_rdt {
	char *clos_id, *l3, *bandwidth;
	struct spec_strings schemata;
	bool monitoring, cmt, mbm;
};

/* clang-format off */
#define R(m) MEMBER(struct intel_rdt, m)
static const struct field intel_rdt_fields[] = {
	{ "closID",	      FIELD_STR, 0, R(clos_id) },
	{ "l3CacheSchema",    FIELD_STR, 0, R(l3) },
	{ "memBwSchema",      FIELD_STR, 0, R(bandwidth) },
	{ "schemata",	      FIELD_STRS, 0, R(schemata) },
	{ "enableMonitoring", FIELD_BOOL, 0, R(monitoring) },
	{ "enableCMT",	      FIELD_BOOL, 0, R(cmt) },
	{ "enableMBM",	      FIELD_BOOL, 0, R(mbm) },
};
#undef R
/* clang-format on */
static const struct shape intel_rdt_shape = { SHAPE(struct intel_rdt,
						    intel_rdt_fields) };

static int read_intel_rdt(const struct at *at, void *obj)
{
	struct intel_rdt rdt = { 0 };
	int r = shape_read(at, &intel_rdt_shape, &rdt);

	shape_done(&intel_rdt_shape, &rdt);
	return r;
}

static int check_cgroups_path(const struct at *at, void *obj)
{
	const struct spec *s = obj;
	const char *p = s->cgroups_path;

	while (p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && strncmp(p, "..", 2) == 0)
			return at_fail(at, "'%s' must not contain '..'",
				       SHOWN(s->cgroups_path));
		p = p[n] ? p + n + 1 : NULL;
	}
	return 0;
}

static void done_linux(void *obj)
{
	struct spec *s = obj;

	for (int i = 0; i < SPEC_NS_COUNT; i++) {
		free(s->ns[i].path);
		s->ns[i].path = NULL;
	}
}

/* clang-format off */
#define L(m) MEMBER(struct spec, m)
static const struct field linux_fields[] = {
	{ "namespaces",	   FIELD_CALL, 0, .check = read_namespaces },
	{ "uidMappings",   FIELD_ARRAY, 0, L(idmap.uids.extents),
	  COUNT(struct spec, idmap.uids.n), .shape = &idmap_extent_shape,
	  .max = LIMIT_ID_MAPPINGS },
	{ "gidMappings",   FIELD_ARRAY, 0, L(idmap.gids.extents),
	  COUNT(struct spec, idmap.gids.n), .shape = &idmap_extent_shape,
	  .max = LIMIT_ID_MAPPINGS },
	{ "timeOffsets",   FIELD_OBJ, 0, .shape = &clock_shape },
	{ "devices",	   FIELD_ARRAY, 0, L(devices),
	  COUNT(struct spec, n_devices), .shape = &device_shape,
	  .max = LIMIT_DEVICES },
	{ "netDevices",	   FIELD_MAP, 0, L(net_devices),
	  COUNT(struct spec, n_net_devices), .shape = &net_device_shape,
	  .max = LIMIT_DEVICES, .check = check_net_devices },
	{ "cgroupsPath",   FIELD_STR, STR_MAY_BE_NONE, L(cgroups_path),
	  .check = check_cgroups_path },
	{ "resources",	   FIELD_OBJ, 0, L(resources),
	  HAS(struct spec, has_resources), .shape = &resources_shape },
	{ "sysctl",	   FIELD_MAP, 0, L(sysctls),
	  COUNT(struct spec, n_sysctls), .shape = &pair_shape, .max = 4096 },
	{ "rootfsPropagation", FIELD_ENUM, STR_MAY_BE_NONE,
	  L(root_propagation), .names = &propagation_names },
	{ "maskedPaths",   FIELD_STRS, STR_NONEMPTY | STR_ABSOLUTE,
	  L(masked_paths) },
	{ "readonlyPaths", FIELD_STRS, STR_NONEMPTY | STR_ABSOLUTE,
	  L(readonly_paths) },
	{ "mountLabel",	   FIELD_STR, STR_MAY_BE_NONE, L(mount_label) },
	{ "personality",   FIELD_OBJ, 0, .shape = &personality_shape },
	{ "seccomp",	   FIELD_NEW, 0, L(seccomp), .shape = &seccomp_shape },
	{ "intelRdt",	   FIELD_CALL, 0, HAS(struct spec, has_intel_rdt),
	  .check = read_intel_rdt },
	{ "memoryPolicy",  FIELD_OBJ, 0, L(memory_policy),
	  .shape = &memory_policy_shape },
};
#undef L
/* clang-format on */
const struct shape linux_shape = { SHAPE(struct spec, linux_fields),
				   .done = done_linux };
