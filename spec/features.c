#include "spec/features.h"

#include <errno.h>

#include "base/capset.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "spec/parse.h"

CLEANUP_PTR(struct json_out, json_out_free);

static void add_list(struct json_out *o, const char *key,
		     const char *const *list)
{
	json_out_key(o, key);
	json_out_array(o);
	for (; *list; list++)
		json_out_str(o, *list);
	json_out_array_end(o);
}

static void add_names(struct json_out *o, const char *key,
		      const struct names *t)
{
	json_out_key(o, key);
	json_out_array(o);
	for (size_t i = 0; i < t->n; i++)
		json_out_str(o, t->v[i].name);
	json_out_array_end(o);
}

/* "key": { "enabled": yes } */
static void add_enabled(struct json_out *o, const char *key, bool yes)
{
	json_out_key(o, key);
	json_out_object(o);
	json_out_bool_member(o, "enabled", yes);
	json_out_object_end(o);
}

static void add_hooks(struct json_out *o)
{
	json_out_key(o, "hooks");
	json_out_array(o);
	for (int i = 0; i < SPEC_HOOK_COUNT; i++)
		json_out_str(o, spec_hook_name((enum spec_hook_point)i));
	json_out_array_end(o);
}

static void add_mount_options(struct json_out *o)
{
	json_out_key(o, "mountOptions");
	json_out_array(o);
	for (size_t i = 0; i < mount_option_count(); i++)
		json_out_str(o, mount_option_name(i));
	json_out_array_end(o);
}

static void add_namespaces(struct json_out *o)
{
	json_out_key(o, "namespaces");
	json_out_array(o);
	for (int i = 0; i < SPEC_NS_COUNT; i++)
		json_out_str(o, spec_ns_table[i].oci_name);
	json_out_array_end(o);
}

static void add_capabilities(struct json_out *o)
{
	const char *name;

	json_out_key(o, "capabilities");
	json_out_array(o);
	for (int i = 0; (name = capset_name(i)); i++)
		json_out_str(o, name);
	json_out_array_end(o);
}

static void add_cgroup(struct json_out *o)
{
	json_out_key(o, "cgroup");
	json_out_object(o);
	json_out_bool_member(o, "v1", true);
	json_out_bool_member(o, "v2", true);
	json_out_bool_member(o, "systemd", true);
	json_out_bool_member(o, "systemdUser", true);
	json_out_bool_member(o, "rdma", true);
	json_out_object_end(o);
}

static void add_seccomp(struct json_out *o, const struct features_input *in)
{
	json_out_key(o, "seccomp");
	json_out_object(o);
	json_out_bool_member(o, "enabled", true);
	add_list(o, "actions", in->seccomp_actions);
	add_list(o, "operators", in->seccomp_operators);
	add_list(o, "archs", in->seccomp_archs);
	add_list(o, "knownFlags", in->seccomp_known_flags);
	add_list(o, "supportedFlags", in->seccomp_supported_flags);
	json_out_object_end(o);
}

static void add_memory_policy(struct json_out *o)
{
	json_out_key(o, "memoryPolicy");
	json_out_object(o);
	add_names(o, "modes", &memory_policy_mode_names);
	add_names(o, "flags", &memory_policy_flag_names);
	json_out_object_end(o);
}

static void add_linux(struct json_out *o, const struct features_input *in)
{
	json_out_key(o, "linux");
	json_out_object(o);
	add_namespaces(o);
	add_capabilities(o);
	add_cgroup(o);
	add_seccomp(o, in);
	add_enabled(o, "apparmor", in->apparmor);
	add_enabled(o, "selinux", in->selinux);
	add_enabled(o, "intelRdt", false);
	add_memory_policy(o);
	json_out_key(o, "mountExtensions");
	json_out_object(o);
	add_enabled(o, "idmap", true);
	json_out_object_end(o);
	add_enabled(o, "netDevices", true);
	json_out_object_end(o);
}

static void add_annotations(struct json_out *o, const struct features_input *in)
{
	json_out_key(o, "annotations");
	json_out_object(o);
	json_out_str_member(o, "io.github.seccomp.libseccomp.version",
			    in->libseccomp_version);
	json_out_str_member(o, "io.sandlock.version", in->version);
	json_out_object_end(o);
	/* With the dot at the end: everything that begins so. */
	add_list(o, "potentiallyUnsafeConfigAnnotations",
		 (const char *const[]){ "io.sandlock.", NULL });
}

int features_json(const struct features_input *in, struct buf *ret)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	if (!o)
		return -ENOMEM;
	json_out_object(o);
	json_out_str_member(o, "ociVersionMin", SPEC_OCI_VERSION_MIN);
	json_out_str_member(o, "ociVersionMax", SPEC_OCI_VERSION);
	add_hooks(o);
	add_mount_options(o);
	add_linux(o, in);
	add_annotations(o, in);
	json_out_object_end(o);
	return json_out_end(o, ret);
}
