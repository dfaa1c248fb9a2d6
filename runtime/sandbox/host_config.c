/* The config.json of a host command. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "policy/syscalls.h"
#include "sandbox/host.h"

/*
 * What root keeps: to own, read and replace files of its branch as it is used
 * to (tar, package managers). Nothing that reaches beyond files, and no
 * CAP_SYS_ADMIN, which could take the branch's mount away.
 */
static const char *const root_capabilities[] = {
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",
	"CAP_KILL",  "CAP_SETGID",	 "CAP_SETUID", "CAP_NET_BIND_SERVICE",
};

static void add_strings(struct json_out *o, const char *key,
			const char *const *v, size_t n)
{
	json_out_key(o, key);
	json_out_array(o);
	for (size_t i = 0; i < n; i++)
		json_out_str(o, v[i]);
	json_out_array_end(o);
}

static void add_capabilities(const struct host_context *h, struct json_out *o)
{
	static const char *const sets[] = { "bounding", "effective",
					    "permitted" };
	bool is_root = h->privileged || (h->notify && geteuid() == 0);
	size_t n = is_root ? ARRAY_LEN(root_capabilities) : 0;

	json_out_key(o, "capabilities");
	json_out_object(o);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		add_strings(o, sets[i], root_capabilities, n);
	json_out_object_end(o);
}

static void add_rlimit(struct json_out *o, const char *type, uint64_t value)
{
	json_out_object(o);
	json_out_str_member(o, "type", type);
	json_out_uint_member(o, "soft", value);
	json_out_uint_member(o, "hard", value);
	json_out_object_end(o);
}

static void add_rlimits(const struct host_context *h, struct json_out *o)
{
	const struct request *r = h->request;
	struct rlimit now;

	json_out_key(o, "rlimits");
	json_out_array(o);
	if (r->open_files && getrlimit(RLIMIT_NOFILE, &now) == 0) {
		uint64_t n = r->open_files;

		/* Never more than the caller has. */
		n = n < now.rlim_cur ? n : now.rlim_cur;
		add_rlimit(o, "RLIMIT_NOFILE",
			   n < now.rlim_max ? n : now.rlim_max);
	}
	if (r->no_coredump)
		add_rlimit(o, "RLIMIT_CORE", 0);
	/* Counted by user namespace (5.14), so it is the sandbox's alone. The
	 * host's root is exempt and has the pids controller. */
	if (r->processes && !h->privileged && !h->notify)
		add_rlimit(o, "RLIMIT_NPROC", (uint64_t)r->processes + 1);
	/* Of each process; all of them: supervise/memory.h. */
	if (r->memory_bytes && h->traps & TRAP_MEMORY)
		add_rlimit(o, "RLIMIT_DATA", r->memory_bytes);
	json_out_array_end(o);
}

static void add_args(const struct request *r, struct json_out *o)
{
	json_out_key(o, "args");
	json_out_array(o);
	if (r->exec)
		json_out_str(o, r->exec);
	for (size_t i = 0; i < r->args.n; i++)
		json_out_str(o, r->args.v[i]);
	json_out_array_end(o);
}

static void add_process(const struct host_context *h, struct json_out *o)
{
	const struct request *r = h->request;

	json_out_key(o, "process");
	json_out_object(o);
	json_out_bool_member(o, "terminal", h->terminal);
	json_out_str_member(o, "cwd", h->cwd);
	add_args(r, o);
	add_strings(o, "env", (const char *const *)h->env.v, h->env.n);
	json_out_key(o, "user");
	json_out_object(o);
	json_out_uint_member(o, "uid", r->has_user ? r->uid : geteuid());
	json_out_uint_member(o, "gid", r->has_user ? r->gid : getegid());
	json_out_object_end(o);
	json_out_bool_member(o, "noNewPrivileges", true);
	add_capabilities(h, o);
	add_rlimits(h, o);
	json_out_object_end(o);
}

static void add_namespaces(const struct host_context *h, struct json_out *o)
{
	static const char *const names[] = { "pid",	"mount",  "ipc", "uts",
					     "network", "cgroup", "user" };
	/* The user namespace is last: root has no use for one. */
	size_t n = ARRAY_LEN(names) - (idmap_is_empty(&h->idmap) ? 1 : 0);

	json_out_key(o, "namespaces");
	json_out_array(o);
	for (size_t i = 0; i < n && !h->notify; i++) {
		if (h->shared_network && strcmp(names[i], "network") == 0)
			continue;
		json_out_object(o);
		json_out_str_member(o, "type", names[i]);
		json_out_object_end(o);
	}
	json_out_array_end(o);
	if (!idmap_is_empty(&h->idmap)) {
		spec_idmap_write(&h->idmap.uids, "uidMappings", o);
		spec_idmap_write(&h->idmap.gids, "gidMappings", o);
	}
}

/* Only what was asked for: limits cost a cgroup each. */
static void add_resources(const struct host_context *h, struct json_out *o)
{
	const struct request *r = h->request;
	bool pids = r->processes && (h->privileged || h->notify) &&
		    !(h->traps & TRAP_FORK);
	bool memory = r->memory_bytes && !(h->traps & TRAP_MEMORY);

	if (!memory && !pids)
		return;
	json_out_key(o, "resources");
	json_out_object(o);
	if (memory) {
		json_out_key(o, "memory");
		json_out_object(o);
		json_out_uint_member(o, "limit", r->memory_bytes);
		json_out_object_end(o);
	}
	if (pids) {
		json_out_key(o, "pids");
		json_out_object(o);
		/* Our pid 1 is not the command's, nor guard and standby. */
		json_out_uint_member(o, "limit",
				     (uint64_t)r->processes +
					     (h->notify ? 2 : 1));
		json_out_object_end(o);
	}
	json_out_object_end(o);
}

static void add_protections(struct json_out *o, const char *key, uint32_t mask)
{
	char text[128] = "";
	size_t used = 0;

	for (int i = 0; i < PROTECT_COUNT; i++)
		if (mask & UINT32_C(1) << i)
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s%s",
				used ? "," : "",
				protection_name((enum protection)i));
	if (used)
		json_out_str_member(o, key, text);
}

/*
 * What a kernel whose Landlock lacks it is not refused for, since something
 * else does the same: mounts that are read-only and without devices, a pid and
 * a network namespace of its own, or rules that are carried out on behalf.
 */
static uint32_t stood_in_for(const struct host_context *h)
{
	uint32_t mask = UINT32_C(1) << PROTECT_FS_TRUNCATE |
			UINT32_C(1) << PROTECT_FS_IOCTL_DEV |
			UINT32_C(1) << PROTECT_SIGNAL_SCOPE;

	if (h->notify)
		return 0;
	if (!h->shared_network || h->traps & TRAP_NETWORK)
		mask |= UINT32_C(1) << PROTECT_NET_TCP |
			UINT32_C(1) << PROTECT_ABSTRACT_UNIX_SCOPE;
	return mask;
}

static void add_annotations(const struct host_context *h, struct json_out *o)
{
	const struct request *r = h->request;

	json_out_key(o, "annotations");
	json_out_object(o);
	json_out_str_member(o, "io.sandlock.isolation",
			    isolation_name(h->notify ? ISOLATION_NOTIFY
						     : ISOLATION_NAMESPACES));
	json_out_str_member(o, "io.sandlock.landlock", "yes");
	add_protections(o, "io.sandlock.landlock.allow-degraded",
			r->allow_degraded | stood_in_for(h));
	add_protections(o, "io.sandlock.landlock.disabled", r->disabled);
	json_out_object_end(o);
}

static int add_linux(struct host_context *h, struct json_out *o,
		     struct error *err)
{
	static const char *const read_only[] = { "/proc/bus", "/proc/fs",
						 "/proc/irq", "/proc/sys",
						 "/proc/sysrq-trigger" };
	int n;

	json_out_key(o, "linux");
	json_out_object(o);
	add_namespaces(h, o);
	add_resources(h, o);
	json_out_key(o, "maskedPaths");
	n = host_view_masks(h, o, err);
	add_strings(o, "readonlyPaths", read_only,
		    h->notify ? 0 : ARRAY_LEN(read_only));
	json_out_object_end(o);
	return n;
}

int host_config(struct host_context *h, struct buf *ret, struct error *err)
{
	struct json_out *o = json_out_new(false);
	int n;

	if (!o)
		return error_set(err, ERR_SYSTEM, ENOMEM, "config.json");
	json_out_object(o);
	json_out_str_member(o, "ociVersion", SPEC_OCI_VERSION);
	json_out_key(o, "root");
	json_out_object(o);
	json_out_str_member(o, "path",
			    host_root_is_chroot(h) ? h->chroot : "/");
	json_out_bool_member(o, "readonly",
			     !h->notify && host_root_is_read_only(h));
	json_out_object_end(o);
	/* Else the host's, which its hosts file has an address for. */
	if (h->chroot)
		json_out_str_member(o, "hostname", h->name);
	add_process(h, o);
	json_out_key(o, "mounts");
	n = host_view_mounts(h, o, err);
	add_annotations(h, o);
	if (n == 0)
		n = add_linux(h, o, err);
	json_out_object_end(o);
	if (json_out_end(o, ret) < 0 && n == 0)
		n = error_set(err, ERR_SYSTEM, ENOMEM, "config.json");
	json_out_free(o);
	return n;
}

/* The end of linux, which is the last member, and of the whole. */
static const char config_end[] = "}}\n";

int host_config_add_filter(struct buf *config, const struct spec_seccomp *s,
			   struct error *err)
{
	const size_t end_len = sizeof(config_end) - 1;
	struct json_out *o = json_out_new(false);
	int n = 0;

	if (config->len < end_len ||
	    memcmp(config->data + config->len - end_len, config_end, end_len))
		n = error_say(err, ERR_SYSTEM, EPROTO,
			      "config.json does not end with linux");
	config->len -= n == 0 ? end_len : 0;
	buf_add_str(config, ",\"seccomp\":");
	if (o)
		spec_seccomp_write(s, o);
	if (n == 0 && json_out_end(o, config) < 0)
		n = error_set(err, ERR_SYSTEM, ENOMEM, "config.json");
	json_out_free(o);
	buf_add_str(config, config_end);
	return n;
}

int host_config_filter(const struct host_context *h, struct spec_seccomp **ret,
		       struct error *err)
{
	struct spec_seccomp *s = calloc(1, sizeof(*s));
	int n;

	if (!s)
		return error_set(err, ERR_SYSTEM, ENOMEM, "config.json");
	n = policy_filter(h->request, h->traps,
			  (h->shared_network ? SYSCALL_SHARED_NETWORK : 0) |
				  (h->notify ? SYSCALL_SHARED_ALL : 0),
			  s, err);
	/* Never connected to: our supervisor is there. */
	if (n == 0 && h->traps) {
		s->listener_path = strdup(SPEC_OWN_LISTENER);
		if (!s->listener_path)
			n = error_set(err, ERR_SYSTEM, ENOMEM, "config.json");
	}
	*ret = s;
	return n;
}
