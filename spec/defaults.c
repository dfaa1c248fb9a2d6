/*
 * The config.json of `sandlock spec`: runc's, but for a writable root (what is
 * written goes to a branch).
 */
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/subid.h"
#include "spec/spec.h"

CLEANUP_PTR(struct json_out, json_out_free);

enum { OPTIONS_MAX = 8 };

struct default_mount {
	const char *destination, *type, *source;
	const char *options[OPTIONS_MAX];
};

/* clang-format off */
static const struct default_mount mounts[] = {
	{ "/proc", "proc", "proc", { NULL } },
	{ "/dev", "tmpfs", "tmpfs",
	  { "nosuid", "strictatime", "mode=755", "size=65536k" } },
	{ "/dev/pts", "devpts", "devpts",
	  { "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620",
	    "gid=5" } },
	{ "/dev/shm", "tmpfs", "shm",
	  { "nosuid", "noexec", "nodev", "mode=1777", "size=65536k" } },
	{ "/dev/mqueue", "mqueue", "mqueue",
	  { "nosuid", "noexec", "nodev" } },
	{ "/sys", "sysfs", "sysfs",
	  { "nosuid", "noexec", "nodev", "ro" } },
	{ "/sys/fs/cgroup", "cgroup", "cgroup",
	  { "nosuid", "noexec", "nodev", "relatime", "ro" } },
};

/*
 * Without a network namespace of its own the container cannot mount sysfs;
 * group 5 need not be mapped.
 */
static const struct default_mount rootless_pts = {
	"/dev/pts", "devpts", "devpts",
	{ "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620" } };
static const struct default_mount rootless_sys = {
	"/sys", "none", "/sys",
	{ "rbind", "nosuid", "noexec", "nodev", "ro" } };

static const char *const capabilities[] = {
	"CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE", NULL,
};

static const char *const masked_paths[] = {
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys",
	"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
	"/proc/sched_debug", "/sys/firmware", "/proc/scsi", NULL,
};

static const char *const readonly_paths[] = {
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
	"/proc/sysrq-trigger", NULL,
};
/* clang-format on */

static void add_list(struct json_out *o, const char *key,
		     const char *const *list)
{
	json_out_key(o, key);
	json_out_array(o);
	for (; *list; list++)
		json_out_str(o, *list);
	json_out_array_end(o);
}

static void add_user(struct json_out *o)
{
	json_out_key(o, "user");
	json_out_object(o);
	json_out_int_member(o, "uid", 0);
	json_out_int_member(o, "gid", 0);
	json_out_object_end(o);
}

static void add_rlimits(struct json_out *o)
{
	json_out_key(o, "rlimits");
	json_out_array(o);
	json_out_object(o);
	json_out_str_member(o, "type", "RLIMIT_NOFILE");
	json_out_int_member(o, "hard", 1024);
	json_out_int_member(o, "soft", 1024);
	json_out_object_end(o);
	json_out_array_end(o);
}

static void add_process(struct json_out *o)
{
	json_out_key(o, "process");
	json_out_object(o);
	json_out_bool_member(o, "terminal", true);
	add_user(o);
	add_list(o, "args", (const char *const[]){ "sh", NULL });
	add_list(o, "env",
		 (const char *const[]){
			 "PATH=/usr/local/sbin:/usr/local/bin:"
			 "/usr/sbin:/usr/bin:/sbin:/bin",
			 "TERM=xterm",
			 NULL,
		 });
	json_out_str_member(o, "cwd", "/");
	json_out_key(o, "capabilities");
	json_out_object(o);
	add_list(o, "bounding", capabilities);
	add_list(o, "effective", capabilities);
	add_list(o, "permitted", capabilities);
	json_out_object_end(o);
	add_rlimits(o);
	json_out_bool_member(o, "noNewPrivileges", true);
	json_out_object_end(o);
}

static void add_root(struct json_out *o)
{
	json_out_key(o, "root");
	json_out_object(o);
	json_out_str_member(o, "path", "rootfs");
	json_out_bool_member(o, "readonly", false);
	json_out_object_end(o);
}

static void add_mount(struct json_out *o, const struct default_mount *m)
{
	json_out_object(o);
	json_out_str_member(o, "destination", m->destination);
	json_out_str_member(o, "type", m->type);
	json_out_str_member(o, "source", m->source);
	if (m->options[0])
		add_list(o, "options", m->options);
	json_out_object_end(o);
}

static const struct default_mount *choose(const struct default_mount *m,
					  bool rootless)
{
	const struct default_mount *other[] = { &rootless_pts, &rootless_sys };

	for (size_t i = 0; rootless && i < ARRAY_LEN(other); i++)
		if (strcmp(m->destination, other[i]->destination) == 0)
			return other[i];
	return m;
}

static void add_mounts(struct json_out *o, bool rootless)
{
	json_out_key(o, "mounts");
	json_out_array(o);
	for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
		add_mount(o, choose(&mounts[i], rootless));
	json_out_array_end(o);
}

void spec_idmap_write(const struct idmap_list *l, const char *key,
		      struct json_out *o)
{
	json_out_key(o, key);
	json_out_array(o);
	for (size_t i = 0; i < l->n; i++) {
		json_out_object(o);
		json_out_uint_member(o, "containerID", l->extents[i].inside);
		json_out_uint_member(o, "hostID", l->extents[i].outside);
		json_out_uint_member(o, "size", l->extents[i].count);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

/* Nothing may be used that is not asked for: all devices are denied. */
static void add_resources(struct json_out *o)
{
	json_out_key(o, "resources");
	json_out_object(o);
	json_out_key(o, "devices");
	json_out_array(o);
	json_out_object(o);
	json_out_bool_member(o, "allow", false);
	json_out_str_member(o, "access", "rwm");
	json_out_object_end(o);
	json_out_array_end(o);
	json_out_object_end(o);
}

static void add_namespace(struct json_out *o, enum spec_ns ns)
{
	json_out_object(o);
	json_out_str_member(o, "type", spec_ns_table[ns].oci_name);
	json_out_object_end(o);
}

static bool is_cgroup2_host(void)
{
	struct statfs st;

	return statfs("/sys/fs/cgroup", &st) == 0 &&
	       st.f_type == CGROUP2_SUPER_MAGIC;
}

static void add_namespaces(struct json_out *o, bool rootless)
{
	json_out_key(o, "namespaces");
	json_out_array(o);
	add_namespace(o, SPEC_NS_PID);
	if (!rootless)
		add_namespace(o, SPEC_NS_NETWORK);
	add_namespace(o, SPEC_NS_IPC);
	add_namespace(o, SPEC_NS_UTS);
	add_namespace(o, SPEC_NS_MOUNT);
	if (is_cgroup2_host())
		add_namespace(o, SPEC_NS_CGROUP);
	if (rootless)
		add_namespace(o, SPEC_NS_USER);
	json_out_array_end(o);
}

static void add_linux(struct json_out *o, const struct idmap *maps)
{
	json_out_key(o, "linux");
	json_out_object(o);
	if (maps) {
		spec_idmap_write(&maps->uids, "uidMappings", o);
		spec_idmap_write(&maps->gids, "gidMappings", o);
	} else {
		add_resources(o);
	}
	add_namespaces(o, maps);
	add_list(o, "maskedPaths", masked_paths);
	add_list(o, "readonlyPaths", readonly_paths);
	json_out_object_end(o);
}

int spec_default_json(bool rootless, struct buf *ret, struct error *err)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);
	auto_(idmap) struct idmap maps = IDMAP_INIT;
	int r = rootless ? subid_default_maps(&maps, err) : 0;

	if (r < 0)
		return r;
	json_out_object(o);
	json_out_str_member(o, "ociVersion", SPEC_OCI_VERSION);
	add_process(o);
	add_root(o);
	json_out_str_member(o, "hostname", "sandlock");
	add_mounts(o, rootless);
	add_linux(o, rootless ? &maps : NULL);
	json_out_object_end(o);
	if (!o || json_out_end(o, ret) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot write a specification");
	return 0;
}
