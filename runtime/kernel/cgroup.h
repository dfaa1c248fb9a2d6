/*
 * The cgroup of a sandbox on a v2, hybrid or v1 host (DESIGN section 10).
 *
 *	cgroup_open -> cgroup_make -> (child) cgroup_child_join
 *		-> cgroup_freeze/thaw/kill/pids -> cgroup_remove
 *
 * The membership is one cgroup in the unified hierarchy where there is one,
 * entered by CLONE_INTO_CGROUP with cgroup_membership_fd(); v1 controllers are
 * made only where a limit asks and joined by the single-threaded child through
 * `tasks`. Where nothing can be made (rootless without delegation) and nothing
 * was asked, the object is empty and says so; asked but impossible is an error.
 */
#ifndef SANDLOCK_KERNEL_CGROUP_H
#define SANDLOCK_KERNEL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct json;
struct json_out;
struct log_sink;
struct spec_pair;
struct spec_resources;

struct cgroup;

enum cgroup_mode { CGROUP_NONE, CGROUP_V1, CGROUP_HYBRID, CGROUP_V2 };

struct cgroup_options {
	const char *path; /* linux.cgroupsPath or NULL for the default /NAME */
	const char *name; /* of the sandbox */
	const struct spec_resources *resources; /* may be NULL */
	bool rootless;
	bool systemd; /* it is a scope that systemd makes: @path names it */
	/* With @systemd: properties of the scope; spec/unit_property.h. */
	const struct spec_pair *annotations;
	size_t n_annotations;
	const struct log_sink *log;
};

enum cgroup_mode cgroup_host_mode(void);

/*
 * True if a sandbox's own cgroup can have the controller of the property
 * @name of linux.resources ("memory", "pids"), as far as looking tells.
 */
bool cgroup_can_limit(const char *name, bool rootless);

/*
 * Makes the cgroups and writes the limits. On failure nothing is left. A path
 * is taken from the mount point of each hierarchy, also a relative one; one
 * with ".." or of systemd's form is refused, and a cgroup that exists with
 * processes in it or frozen (ERR_STATE). With @systemd the path is
 * "slice:prefix:name" and nothing else.
 */
int cgroup_make(const struct cgroup_options *o, struct cgroup **ret,
		struct error *err);
void cgroup_free(struct cgroup *c); /* closes fds; removes nothing */

/* To be called once a process of the sandbox is inside. */
void cgroup_settle(struct cgroup *c);

/* For CLONE_INTO_CGROUP; -1 if there is no unified cgroup. Borrowed. */
int cgroup_membership_fd(const struct cgroup *c);

/*
 * In the single-threaded child: joins the v1 hierarchies, and v2 unless it is
 * there @already, by its clone. Before a user namespace is entered, and before
 * a cgroup namespace is made: its root is where the process is then.
 */
int cgroup_child_join(const struct cgroup *c, bool already, struct error *err);
/* By the parent, for a process that already runs (exec). */
int cgroup_attach(const struct cgroup *c, pid_t pid, struct error *err);

/* Stored in state.json and read back by other processes. */
void cgroup_to_json(const struct cgroup *c, struct json_out *o);
int cgroup_from_json(const struct json *j, struct cgroup **ret,
		     struct error *err);

/* True if systemd made it. */
bool cgroup_is_scope(const struct cgroup *c);
/* True if there is a cgroup that membership can be read from. */
bool cgroup_has_membership(const struct cgroup *c);
/* True where freeze works. */
bool cgroup_can_freeze(const struct cgroup *c);
int cgroup_freeze(const struct cgroup *c, struct error *err);
int cgroup_thaw(const struct cgroup *c, struct error *err);
bool cgroup_is_frozen(const struct cgroup *c);

/* The pids in the cgroup and below; malloc'ed array. */
int cgroup_pids(const struct cgroup *c, pid_t **ret, size_t *ret_n,
		struct error *err);
/* SIGKILL to every member, also those that fork meanwhile; thaws. Returns when
 * the cgroup is empty or after @timeout_ms (-ETIMEDOUT). */
int cgroup_kill(const struct cgroup *c, int timeout_ms, struct error *err);
/* Signals every member once. */
int cgroup_signal(const struct cgroup *c, int sig, struct error *err);

/* Applies new limits to a running sandbox (`update`). */
int cgroup_update(struct cgroup *c, const struct spec_resources *r,
		  struct error *err);

/* Removes what was made, bottom-up, sub-cgroups included. Missing is fine. A
 * scope is stopped. */
int cgroup_remove(struct cgroup *c, struct error *err);

/*
 * The host directories that a mount of type "cgroup" shows inside: for the
 * mount code. One entry per hierarchy.
 */
struct cgroup_view {
	char *hierarchy; /* "memory", "cpu,cpuacct", "unified", or "" on pure v2
			  */
	char *mountpoint; /* where the host has it */
	char *path;	  /* of the sandbox's cgroup below it, "/x" */
	bool own; /* else it has none there, and @path is the runtime's */
};
int cgroup_views(const struct cgroup *c, struct cgroup_view **ret,
		 size_t *ret_n, struct error *err);
void cgroup_views_free(struct cgroup_view *v, size_t n);

/*
 * Makes @uid the owner of the cgroup and of the files in it that
 * /sys/kernel/cgroup/delegate lists, by which it is divided; limits stay ours
 * (cgroups(7)). Does nothing on v1. ERR_SYSTEM.
 */
int cgroup_delegate(const struct cgroup *c, uid_t uid, struct error *err);

/* The numbers of `events --stats`, as members of "data". */
int cgroup_stats(const struct cgroup *c, struct json_out *o, struct error *err);
/* How many processes in it the kernel killed for want of memory; 0 where that
 * is not counted. */
uint64_t cgroup_oom_kills(const struct cgroup *c);
/* How many of them because its own limit was hit. */
uint64_t cgroup_limit_kills(const struct cgroup *c);
/* How many forks in it the limit of processes made fail. */
uint64_t cgroup_fork_failures(const struct cgroup *c);

#endif
