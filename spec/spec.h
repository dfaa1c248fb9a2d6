/*
 * What is asked: config.json and process.json of the OCI runtime
 * specification 1.3, and our annotations, as plain data.
 *
 *	spec_read -> spec_parse -> struct spec (immutable) -> spec_free
 *
 * Loading is strict: wrong types, values out of range, NUL bytes and what the
 * specification says MUST be an error are refused with the JSON path in the
 * message; unknown properties are ignored. Every pointer is owned by the spec.
 * A NULL string, a NULL pointer or n == 0 means "not given" unless said.
 */
#ifndef SANDLOCK_SPEC_H
#define SANDLOCK_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/capset.h"
#include "base/disposition.h"
#include "base/idmap.h"

struct buf;
struct error;
struct log_sink;

#define SPEC_OCI_VERSION "1.3.0"
#define SPEC_OCI_VERSION_MIN "1.0.0"

struct spec_strings {
	char **v; /* NULL-terminated */
	size_t n;
};

/* Appends a copy; the list stays NULL-terminated. 0 or -ENOMEM. */
int spec_strings_add(struct spec_strings *s, const char *text);
/* What stands between the commas of @text. */
int spec_strings_split(struct spec_strings *s, const char *text);
/* Copies of all that are in @from; -ENOMEM. */
int spec_strings_add_all(struct spec_strings *s,
			 const struct spec_strings *from);
void spec_strings_done(struct spec_strings *s);

struct spec_rlimit {
	int resource; /* RLIMIT_* */
	uint64_t soft, hard;
};

struct spec_scheduler {
	bool given;
	int policy; /* SCHED_* */
	int32_t nice, priority;
	uint64_t flags; /* SCHED_FLAG_* */
	uint64_t runtime_ns, deadline_ns, period_ns;
};

struct spec_io_priority {
	bool given;
	int class; /* IOPRIO_CLASS_* : 1 rt, 2 be, 3 idle */
	int priority;
};

struct spec_process {
	bool terminal;
	uint16_t console_width, console_height;
	char *cwd;
	struct spec_strings args;
	struct spec_strings env;
	uid_t uid;
	gid_t gid;
	bool has_umask;
	mode_t umask;
	gid_t *additional_gids;
	size_t n_additional_gids;
	struct spec_rlimit *rlimits;
	size_t n_rlimits;
	bool has_capabilities; /* else all sets are empty */
	struct capset caps;
	bool no_new_privileges;
	bool has_oom_score_adj;
	int oom_score_adj;
	struct spec_scheduler scheduler;
	struct spec_io_priority io_priority;
	char *affinity_initial, *affinity_final; /* execCPUAffinity lists */
	char *apparmor_profile, *selinux_label;
};

/* linux.namespaces and clone flags in one table, see spec_ns_* below. */
enum spec_ns {
	SPEC_NS_USER,
	SPEC_NS_MOUNT,
	SPEC_NS_PID,
	SPEC_NS_NETWORK,
	SPEC_NS_IPC,
	SPEC_NS_UTS,
	SPEC_NS_CGROUP,
	SPEC_NS_TIME,
	SPEC_NS_COUNT
};

enum spec_ns_want { SPEC_NS_INHERIT, SPEC_NS_NEW, SPEC_NS_JOIN };

struct spec_namespace {
	enum spec_ns_want want;
	char *path; /* SPEC_NS_JOIN */
};

enum spec_mount_kind { SPEC_MOUNT_FS, SPEC_MOUNT_BIND, SPEC_MOUNT_CGROUP };

struct spec_mount {
	char *destination; /* absolute (a relative one was put below "/") */
	char *source;	   /* bind: absolute (resolved against the bundle) */
	char *type;
	enum spec_mount_kind kind;
	bool recursive_bind;
	/*
	 * MS_* flags asked to be set and cleared (MS_RDONLY, MS_NOSUID, …;
	 * an atime mode is in set), and the propagation (MS_PRIVATE… with
	 * MS_REC) to apply last. rec_*: MOUNT_ATTR_* of the r-options.
	 */
	unsigned long set, clear, propagation;
	uint64_t rec_set, rec_clear;
	char *data; /* file-system options, comma-separated */
	bool tmpcopyup, copy_symlink, src_nofollow, dest_nofollow;
	bool scratch; /* what is written to a bind is lost at the end */
	bool idmap, idmap_recursive;
	bool ours; /* not asked for: it may come from a place of ours */
	struct idmap mappings;
};

struct spec_device {
	char *path;
	char type; /* 'c', 'b', 'p' ('u' is stored as 'c') */
	int64_t major, minor;
	bool has_mode;
	mode_t mode;
	uid_t uid;
	gid_t gid;
};

struct spec_device_rule {
	bool allow;
	char type;	      /* 'a', 'b', 'c' */
	int64_t major, minor; /* -1: any */
	bool read, write, mknod;
};

struct spec_weight_device {
	int64_t major, minor;
	uint16_t weight, leaf;
};
struct spec_throttle {
	int64_t major, minor;
	uint64_t rate;
};
struct spec_hugepage {
	char *page_size;
	uint64_t limit;
};
struct spec_net_prio {
	char *name;
	uint32_t priority;
};
struct spec_rdma {
	char *device;
	bool has_handles, has_objects;
	uint32_t handles, objects;
};
struct spec_unified {
	char *key, *value;
};

/* Numbers with has_ were given; -1 is "unlimited" where signed. */
struct spec_resources {
	struct spec_device_rule *devices;
	size_t n_devices;
	bool has_mem_limit, has_mem_reservation, has_mem_swap, has_mem_kernel,
		has_mem_kernel_tcp, has_mem_swappiness, has_mem_disable_oom,
		has_mem_use_hierarchy, mem_disable_oom, mem_use_hierarchy,
		mem_check_before_update;
	int64_t mem_limit, mem_reservation, mem_swap, mem_kernel,
		mem_kernel_tcp;
	uint64_t mem_swappiness;
	bool has_cpu_shares, has_cpu_quota, has_cpu_burst, has_cpu_period,
		has_cpu_rt_runtime, has_cpu_rt_period, has_cpu_idle;
	uint64_t cpu_shares, cpu_burst, cpu_period, cpu_rt_period;
	int64_t cpu_quota, cpu_rt_runtime, cpu_idle;
	char *cpu_cpus, *cpu_mems;
	bool has_pids_limit;
	int64_t pids_limit;
	bool has_blkio_weight, has_blkio_leaf_weight;
	uint16_t blkio_weight, blkio_leaf_weight;
	struct spec_weight_device *blkio_weight_devices;
	size_t n_blkio_weight_devices;
	struct spec_throttle *read_bps, *write_bps, *read_iops, *write_iops;
	size_t n_read_bps, n_write_bps, n_read_iops, n_write_iops;
	struct spec_hugepage *hugepages;
	size_t n_hugepages;
	bool has_net_class_id;
	uint32_t net_class_id;
	struct spec_net_prio *net_prios;
	size_t n_net_prios;
	struct spec_rdma *rdma;
	size_t n_rdma;
	struct spec_unified *unified;
	size_t n_unified;
};

struct spec_seccomp_arg {
	unsigned int index; /* 0..5 */
	uint64_t value, value_two;
	int op; /* SCMP_CMP_* of libseccomp, by number */
};

struct spec_seccomp_rule {
	struct spec_strings names;
	uint32_t action; /* SECCOMP_RET_* without data */
	bool has_errno;
	uint32_t errno_ret;
	struct spec_seccomp_arg *args;
	size_t n_args;
};

struct spec_seccomp {
	uint32_t default_action; /* SECCOMP_RET_* without data */
	bool has_default_errno;
	uint32_t default_errno;
	struct spec_strings architectures; /* "SCMP_ARCH_X86_64" … */
	struct spec_strings flags;	   /* "SECCOMP_FILTER_FLAG_LOG" … */
	struct spec_seccomp_rule *rules;
	size_t n_rules;
	char *listener_path, *listener_metadata;
};

/*
 * The listener path of a filter that our own supervisor listens to. In such a
 * one read and write may be SCMP_ACT_NOTIFY: who hands the listener over then
 * does without (sandbox/launcher/main.c).
 */
#define SPEC_OWN_LISTENER "/dev/null/supervisor"
/* Says whether write may be trapped, by the listener path. */
bool spec_seccomp_is_ours(const struct spec_seccomp *s);

/* What is said of a call, without looking at its arguments. */
struct spec_seccomp_said {
	const char *action; /* "SCMP_ACT_ERRNO"; of the rule, or the default */
	uint32_t ret;	    /* SECCOMP_RET_* without data */
	uint32_t errno_ret; /* of SECCOMP_RET_ERRNO */
	bool is_default;
	bool looks_at_args; /* other rules say otherwise for some arguments */
};
void spec_seccomp_look_up(const struct spec_seccomp *s, const char *call,
			  struct spec_seccomp_said *ret);

/* Frees what it holds; leaves it empty. */
void spec_seccomp_done(struct spec_seccomp *s);
struct json_out;
/* Writes it as linux.seccomp; what is written reads back as the same. */
void spec_seccomp_write(const struct spec_seccomp *s, struct json_out *o);
/* As linux.uidMappings or gidMappings, which is @key. */
void spec_idmap_write(const struct idmap_list *l, const char *key,
		      struct json_out *o);

enum spec_hook_point {
	SPEC_HOOK_PRESTART,
	SPEC_HOOK_CREATE_RUNTIME,
	SPEC_HOOK_CREATE_CONTAINER,
	SPEC_HOOK_START_CONTAINER,
	SPEC_HOOK_POSTSTART,
	SPEC_HOOK_POSTSTOP,
	SPEC_HOOK_COUNT
};

struct spec_hook {
	char *path;		  /* absolute */
	struct spec_strings args; /* n == 0: argv[0] is the path */
	bool has_env;		  /* else it has what its point says */
	struct spec_strings env;
	int timeout_s; /* 0: none */
};

struct spec_hooks {
	struct spec_hook *v[SPEC_HOOK_COUNT];
	size_t n[SPEC_HOOK_COUNT];
};

struct spec_pair {
	char *key, *value;
};
struct spec_net_device {
	char *host_name, *name;
};
struct spec_time_offset {
	bool given;
	int64_t secs;
	uint32_t nanosecs;
};

struct spec_memory_policy {
	bool given;
	int mode; /* MPOL_* */
	char *nodes;
	unsigned int flags; /* MPOL_F_* */
};

/* io.sandlock.branch.*: what a bundle says about its branch. */
enum spec_branch_want { SPEC_BRANCH_UNSAID, SPEC_BRANCH_NONE, SPEC_BRANCH_YES };

struct spec_branch {
	enum spec_branch_want want;
	enum disposition on_exit, on_error;
	char *storage;
	bool has_durable, durable;
	uint64_t quota_bytes; /* 0: none */
};

/* io.sandlock.ask.*: as the section ask of a profile. */
struct spec_ask {
	struct spec_strings exec, open, connect;
	char *timeout;
};

/* io.sandlock.landlock*: host commands have it, bundles may ask for it. */
struct spec_landlock {
	bool wanted;
	uint32_t allow_degraded, disabled; /* 1 << enum protection */
};

struct spec {
	char *oci_version;
	char *bundle;	 /* absolute, real */
	char *root_path; /* absolute; as given if it was, else below bundle */
	bool root_readonly;
	bool has_process;
	struct spec_process process;
	char *hostname, *domainname;
	struct spec_mount *mounts;
	size_t n_mounts;
	struct spec_pair *annotations; /* all, for state */
	size_t n_annotations;
	struct spec_hooks hooks;
	struct spec_branch branch;
	struct spec_landlock landlock;
	struct spec_ask ask;

	struct spec_namespace ns[SPEC_NS_COUNT];
	struct idmap idmap;
	struct spec_time_offset time_monotonic, time_boottime;
	struct spec_device *devices;
	size_t n_devices;
	struct spec_net_device *net_devices;
	size_t n_net_devices;
	char *cgroups_path;
	bool has_resources;
	struct spec_resources resources;
	struct spec_pair *sysctls;
	size_t n_sysctls;
	unsigned long root_propagation; /* MS_* with MS_REC, 0: not given */
	struct spec_strings masked_paths, readonly_paths;
	char *mount_label;
	bool has_personality;
	unsigned long personality; /* PER_* */
	struct spec_seccomp *seccomp;
	bool has_intel_rdt;
	struct spec_memory_policy memory_policy;
};

/*
 * The text of @config (NULL: "config.json" in @bundle, which is absolute; there
 * only a regular file is taken: nothing may block). ERR_BUNDLE.
 */
int spec_read(const char *bundle, const char *config, struct buf *ret,
	      struct error *err);
/* ERR_BUNDLE with the JSON path in the message. @bundle is absolute. */
int spec_parse(const char *data, size_t len, const char *bundle,
	       const struct log_sink *log, struct spec **ret,
	       struct error *err);
void spec_free(struct spec *s);

/* process.json of `exec --process`. */
int spec_process_load(const char *path, const struct log_sink *log,
		      struct spec_process **ret, struct error *err);
int spec_process_parse(const char *data, size_t len, const struct log_sink *log,
		       struct spec_process **ret, struct error *err);
void spec_process_free(struct spec_process *p);
int spec_process_copy(const struct spec_process *from,
		      struct spec_process **ret);

/* `update`: a resources object, from a file or "-" for standard input. */
int spec_resources_load(const char *path, const struct log_sink *log,
			struct spec_resources **ret, struct error *err);
int spec_resources_parse(const char *data, size_t len,
			 const struct log_sink *log,
			 struct spec_resources **ret, struct error *err);
void spec_resources_free(struct spec_resources *r);

/* One table for namespaces: "pid", CLONE_NEWPID, "pid" in /proc/PID/ns. */
struct spec_ns_row {
	const char *oci_name;
	const char *proc_name;
	int clone_flag;
};
extern const struct spec_ns_row spec_ns_table[SPEC_NS_COUNT];

/* "createRuntime" */
const char *spec_hook_name(enum spec_hook_point point);

const char *spec_annotation(const struct spec *s, const char *key);

/* SIGTERM, TERM, 15, RTMIN+3 (any case); -EINVAL. */
int spec_signal_parse(const char *text);
/* "TERM", or NULL (also for the real-time ones). */
const char *spec_signal_name(int sig);

/*
 * "uid" or "uid:gid", decimal and nothing else; *@ret_gid is untouched and
 * *@ret_has_gid false where there is none. ERR_USAGE.
 */
int spec_user_parse(const char *text, uid_t *ret_uid, bool *ret_has_gid,
		    gid_t *ret_gid, struct error *err);

/*
 * The config.json that `sandlock spec` writes. @rootless: for an ordinary
 * user, with a user namespace and the caller's ids.
 */
int spec_default_json(bool rootless, struct buf *ret, struct error *err);

#endif
