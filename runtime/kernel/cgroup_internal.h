/*
 * What the files of kernel/cgroup share.
 *
 *	cgroup.c	 paths, make, join, remove, JSON
 *	cgroup_files.c	 reading and writing the files
 *	cgroup_journal.c what an update has replaced
 *	cgroup_procs.c	 the processes inside: list, freeze, signal, kill
 *	cgroup_limits.c	 which controllers a limit needs, who serves them
 *	cgroup_v1.c	 limits through v1 files
 *	cgroup_v2.c	 limits through v2 files
 *	cgroup_devices.c device rules: v1 files, or a BPF program on v2
 *	cgroup_stats.c	 numbers for `events --stats`
 *	cgroup_view.c	 what a mount of type cgroup shows, delegation
 *	cgroup_unit.c	 a scope of systemd
 *	cgroup_unit_limits.c limits as properties of it
 *	cgroup_unit_devices.c device rules as such, for v1
 *
 * Paths are strings: cgroup file systems have no symbolic links, and only root
 * or the delegate can make names there.
 */
#ifndef SANDLOCK_KERNEL_CGROUP_INTERNAL_H
#define SANDLOCK_KERNEL_CGROUP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "kernel/cgroup.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

enum {
	CGROUP_FILE_MAX = 1024 * 1024,
	CGROUP_NUMBER_MAX = 32,
	CGROUP_CPU_PERIOD_US = 100000, /* where none is said */
};

/* The hierarchies and controllers that we know. */
enum cgroup_ctl {
	CTL_UNIFIED, /* the v2 hierarchy itself */
	CTL_FREEZER,
	CTL_MEMORY,
	CTL_CPU,
	CTL_CPUACCT, /* counts, limits nothing */
	CTL_CPUSET,
	CTL_PIDS,
	CTL_DEVICES,
	CTL_BLKIO, /* "io" on v2 */
	CTL_HUGETLB,
	CTL_NET_CLS,
	CTL_NET_PRIO,
	CTL_RDMA,
	CTL_SYSTEMD, /* v1: its own hierarchy, of no controller */
	CTL_COUNT,
};

#define CTL_BIT(ctl) (1u << (ctl))

struct cgroup_ctl_row {
	const char *v1, *v2;  /* v2 NULL: not there, or no controller */
	const char *property; /* of linux.resources */
};
extern const struct cgroup_ctl_row cgroup_ctls[CTL_COUNT];

/* One directory in one hierarchy. */
struct cgroup_node {
	char *dir;    /* absolute; NULL: not used */
	size_t made;  /* the first @made bytes of dir: the topmost directory
			 that we made; 0: it was all there */
	int tasks_fd; /* v1 `tasks`, opened before privileges go; or -1 */
};

struct cgroup {
	enum cgroup_mode mode;
	char *path; /* below the mount points, "/NAME"; NULL: no cgroup */
	int membership_fd;
	struct cgroup_node node[CTL_COUNT];
	const struct log_sink *log;
	char *unit;   /* the scope of systemd that it is; or NULL */
	bool user;    /* of the user's own systemd */
	uint64_t id;  /* of the scope's directory: its inode; 0: not known */
	pid_t holder; /* see cgroup_unit.c; 0: none */
	struct cgroup_journal *journal; /* of an update, meanwhile; or NULL */
};

/* Where limits are written, and where what they replace is noted, or NULL. */
struct cgroup_target {
	const char *dir;
	struct cgroup_journal *journal;
};

struct systemd_props;

/* The node that membership is read from, or NULL. */
const struct cgroup_node *cgroup_member_node(const struct cgroup *c);

/* Makes the cgroup in hierarchy @ctl (parents too) and opens what is needed. */
int cgroup_node_make(struct cgroup *c, enum cgroup_ctl ctl, struct error *err);

/* What processes are in: unified, or the freezer. */
int cgroup_make_membership(struct cgroup *c, struct error *err);

/* Forgets it and removes what was made of it. */
void cgroup_node_drop(struct cgroup *c, enum cgroup_ctl ctl);

/* "DIR/FILE" in @ret of PATH_MAX bytes; -ENAMETOOLONG. */
int cgroup_file_path(const char *dir, const char *file, char *ret);
int cgroup_read(const char *dir, const char *file, struct buf *b);
/* The number in a file; "max" and overflow are UINT64_MAX. */
int cgroup_read_number(const char *dir, const char *file, uint64_t *ret);
/* True if the file has the line "KEY VALUE". */
int cgroup_read_key(const char *dir, const char *file, const char *key,
		    uint64_t *ret);
/* Without a message: 0 or a negative errno. */
int cgroup_write_raw(const char *dir, const char *file, const char *text);
/* The same, noted in the journal of @to: what an update that fails puts back.
 */
int cgroup_replace(const struct cgroup_target *to, const char *file,
		   const char *text);
/* The same with a message: "cannot set 'pids.max' to '7'". */
int cgroup_write(const struct cgroup_target *to, const char *file,
		 const char *text, struct error *err);
int cgroup_write_number(const struct cgroup_target *to, const char *file,
			int64_t v, struct error *err);
/* The same, -1 (any negative number) written as "max". */
int cgroup_write_max(const struct cgroup_target *to, const char *file,
		     int64_t v, struct error *err);
/* What an update has replaced; all zero to begin with. */
struct cgroup_journal {
	struct cgroup_note *notes;
	size_t n;
};
/* Before each write: 1 if it was noted, else 0; or -ENOMEM. */
int cgroup_journal_note(struct cgroup_journal *j, const char *dir,
			const char *file, const char *text);
/* What was noted last is not replaced: the write was refused. */
void cgroup_journal_drop(struct cgroup_journal *j);
/* Puts all back with @undo: what cannot be is a hint of @err. Frees @j. */
void cgroup_journal_end(struct cgroup_journal *j, bool undo, struct error *err);
bool cgroup_has_file(const char *dir, const char *file);
bool cgroup_has_word(const char *text, const char *word);

/*
 * Calls @fn with a descriptor of @dir and of each below it, parents first,
 * until it returns anything but 0, which is returned. cgroup_walk.c.
 */
typedef int cgroup_walk_fn(int dirfd, void *data);
int cgroup_walk(const char *dir, cgroup_walk_fn *fn, void *data);
/*
 * Removes @dir and everything below, however deep, once the last tasks are
 * gone; -EBUSY where they do not go. cgroup_remove.c.
 */
int cgroup_remove_tree(const char *dir, bool v2);

/* Controllers that @r asks for, as bits. */
unsigned int cgroup_needs(const struct spec_resources *r, bool rootless);
/* Makes the controllers' cgroups and writes the limits. */
int cgroup_apply(struct cgroup *c, const struct spec_resources *r,
		 bool rootless, struct error *err);

/*
 * Quota and period are one value for v2 and for systemd: an update of one says
 * the other as it is.
 */
int cgroup_complete_bandwidth(const struct cgroup *c, struct spec_resources *r,
			      struct error *err);

/*
 * On v1, one in every hierarchy but systemd's own. An engine that says where
 * the cgroup is reads what it likes there (podman stats), limit or not.
 */
int cgroup_make_all(struct cgroup *c, struct error *err);

int cgroup_v1_apply(const struct cgroup *c, enum cgroup_ctl ctl,
		    const struct spec_resources *r, struct error *err);
int cgroup_v2_apply(const struct cgroup *c, unsigned int ctls,
		    const struct spec_resources *r, struct error *err);
/*
 * "+memory" in every directory from the root to the parent. A cgroup that has
 * controllers on has no processes of its own: with @rootless those of our own
 * cgroup, which was delegated to us, all move into a leaf of it.
 */
int cgroup_v2_enable(const struct cgroup *c, const char *const *names, size_t n,
		     bool rootless, struct error *err);

/* The same on v1 and v2. */
int cgroup_check_shares(uint64_t shares, struct error *err);
/* Both are asked: the weight of idle holds. */
bool cgroup_idle_wins(const struct spec_resources *r);
/*
 * A burst is at most the quota, so one that shrinks goes before it: true in
 * @ret_later if the kernel does not take it yet.
 */
int cgroup_burst_before(const struct cgroup_target *to, const char *file,
			const struct spec_resources *r, bool *ret_later,
			struct error *err);
int cgroup_write_cpuset(const struct cgroup_target *to,
			const struct spec_resources *r, struct error *err);
int cgroup_write_pids(const struct cgroup_target *to,
		      const struct spec_resources *r, struct error *err);
int cgroup_write_rdma(const struct cgroup_target *to,
		      const struct spec_resources *r, struct error *err);
int cgroup_write_hugetlb(const struct cgroup_target *to, const char *suffix,
			 const struct spec_resources *r, struct error *err);

/* memory.swap.max, -1: "max". 1: there is one, 0: nothing was asked. */
int cgroup_v2_swap(const struct spec_resources *r, int64_t *ret,
		   struct error *err);
/* checkBeforeUpdate: a memory limit below what is used is refused (-EBUSY),
 * before anybody, systemd included, sets it. */
int cgroup_v2_check_usage(const struct cgroup *c,
			  const struct spec_resources *r, struct error *err);
uint64_t cgroup_weight_of(uint64_t shares);
uint64_t cgroup_io_weight_of(uint16_t weight);

/* The device rules: those of @r, then what every container gets. */
size_t cgroup_rule_count(const struct spec_resources *r);
const struct spec_device_rule *cgroup_rule_at(const struct spec_resources *r,
					      size_t i);
bool cgroup_rule_decides_all(const struct spec_device_rule *r);

int cgroup_v1_devices(const char *dir, const struct spec_resources *r,
		      struct error *err);
int cgroup_v2_devices(const char *dir, const struct spec_resources *r,
		      struct error *err);

/*
 * Starts the scope and fills in what of it is there. With c->unit it is to be
 * stopped, also where this failed.
 */
int cgroup_unit_make(struct cgroup *c, const struct cgroup_options *o,
		     struct error *err);
int cgroup_unit_update(const struct cgroup *c, const struct spec_resources *r,
		       struct error *err);
int cgroup_unit_attach(const struct cgroup *c, pid_t pid, struct error *err);
int cgroup_unit_stop(struct cgroup *c, struct error *err);
/* Ours has ended, and another sandbox has one of that name. */
bool cgroup_unit_is_anothers(const struct cgroup *c);
/* Of the form that we make. */
bool cgroup_unit_is_valid(const char *unit);
int cgroup_unit_devices(const struct spec_resources *r, struct systemd_props *p,
			struct error *err);
int cgroup_unit_limits(const struct cgroup *c, const struct spec_resources *r,
		       struct systemd_props *p, struct error *err);

/* The path of @pid (0: ours) in a hierarchy ("" for v2); malloc'ed. */
int cgroup_path_of(pid_t pid, const char *hierarchy, char **ret);

#endif
