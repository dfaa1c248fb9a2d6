/*
 * One setter each for what a process.json asks of the calling process. All
 * act on the caller, whose namespaces and root are already the container's
 * unless said otherwise. 0 or a negative errno with @err filled.
 */
#ifndef SANDLOCK_KERNEL_PROCESS_H
#define SANDLOCK_KERNEL_PROCESS_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct log_sink;
struct spec_io_priority;
struct spec_memory_policy;
struct spec_process;
struct spec_rlimit;
struct spec_scheduler;
struct spec_time_offset;

/*
 * Every signal to its default action, and the mask. For a child before its
 * exec: async-signal-safe.
 */
void process_reset_signals(const sigset_t *mask);
/* setrlimit(2) for each. */
int process_set_rlimits(const struct spec_rlimit *v, size_t n,
			struct error *err);
/* sched_setattr(2), @pid 0 for ourselves; nothing if not given. */
int process_set_scheduler(pid_t pid, const struct spec_scheduler *s,
			  struct error *err);
/* ioprio_set(2) on our process group; nothing if not given. */
int process_set_io_priority(const struct spec_io_priority *p,
			    struct error *err);
/* set_mempolicy(2); nothing if not given. */
int process_set_memory_policy(const struct spec_memory_policy *p,
			      struct error *err);
/* personality(2) */
int process_set_personality(unsigned long persona, struct error *err);
/* sched_setaffinity(2) with a list like "0-3,7". */
int process_set_affinity(const char *list, struct error *err);
/*
 * Every processor of the cgroup: not those of whoever started us, which the
 * kernel keeps when a process changes its cgroup, since Linux 6.2. What is
 * refused stays as it is.
 */
void process_reset_affinity(void);
/*
 * A new session keyring. Where keyrings are forbidden or absent (EPERM,
 * ENOSYS, EDQUOT) the process keeps its old one, with a warning.
 */
int process_new_keyring(const char *name, const struct log_sink *log,
			struct error *err);
/*
 * Writes /proc/PID/oom_score_adj (0: our own); on the host's /proc, so before
 * the pivot. A lower value takes CAP_SYS_RESOURCE on the host.
 */
int process_set_oom_score_adj(pid_t pid, int value, struct error *err);
/* Writes /proc/self/timens_offsets, before anybody is in the namespace. */
int process_write_time_offsets(const struct spec_time_offset *monotonic,
			       const struct spec_time_offset *boottime,
			       struct error *err);
/* lo up, in a network namespace of our own. */
int process_loopback_up(struct error *err);

/*
 * AppArmor profile and SELinux label for the next exec, written below
 * @proc_fd, a procfs that nothing is mounted on (CVE-2019-16884). Asked for
 * but not in this kernel: ERR_UNSUPPORTED.
 */
int process_set_labels(const struct spec_process *p, int proc_fd,
		       struct error *err);
/* A procfs instance of our pid namespace, mounted nowhere; fd or negative. */
int process_open_proc(struct error *err);

#endif
