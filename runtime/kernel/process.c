#include "kernel/process.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <linux/mount.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/uapi.h"
#include "spec/spec.h"

enum { IOPRIO_WHO_PGRP = 2, IOPRIO_CLASS_SHIFT = 13, NODES_MAX = 1024 };

/* sched_setattr(2); linux/sched/types.h cannot stand beside sched.h. */
struct sched_attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period; /* ns */
};

/*
 * By the system call: glibc does not let go of signals 32 and 33, which its
 * posix_spawn leaves ignored. All zeros is SIG_DFL everywhere.
 */
void process_reset_signals(const sigset_t *mask)
{
	static const long dfl[16];

	for (int sig = 1; sig < NSIG; sig++)
		(void)syscall(SYS_rt_sigaction, sig, dfl, NULL, (NSIG - 1) / 8);
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
}

int process_set_rlimits(const struct spec_rlimit *v, size_t n,
			struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		struct rlimit64 l = { .rlim_cur = v[i].soft,
				      .rlim_max = v[i].hard };

		if (setrlimit64((__rlimit_resource_t)v[i].resource, &l) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "process.rlimits[%zu]: cannot set the "
					 "limit",
					 i);
	}
	return 0;
}

int process_set_scheduler(pid_t pid, const struct spec_scheduler *s,
			  struct error *err)
{
	struct sched_attributes a = {
		.size = sizeof(a),
		.policy = (uint32_t)s->policy,
		.flags = s->flags,
		.nice = s->nice,
		.priority = (uint32_t)s->priority,
		.runtime = s->runtime_ns,
		.deadline = s->deadline_ns,
		.period = s->period_ns,
	};

	if (!s->given)
		return 0;
	if (syscall(SYS_sched_setattr, pid, &a, 0) < 0) {
		int r = error_set(err, ERR_SYSTEM, errno,
				  "process.scheduler: cannot set it");

		if (r == -EPERM)
			(void)error_hint(err, "it needs CAP_SYS_NICE, and a "
					      "deadline all processors: this "
					      "process scheduler can't be used "
					      "together with AllowedCPUs");
		if (r == -EINVAL && s->policy == SCHED_DEADLINE)
			(void)error_hint(err, "1024 ns <= runtime <= deadline "
					      "<= period, and a period from "
					      "0.1 ms to 4 s, is what a "
					      "deadline takes");
		return r;
	}
	return 0;
}

int process_set_io_priority(const struct spec_io_priority *p, struct error *err)
{
	if (!p->given)
		return 0;
	if (syscall(SYS_ioprio_set, IOPRIO_WHO_PGRP, 0,
		    p->class << IOPRIO_CLASS_SHIFT | p->priority) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "process.ioPriority: cannot set it");
	return 0;
}

/*
 * "0-3,7" into a bit mask of @bits bits. Uneven input and numbers past the
 * mask are -EINVAL.
 */
static int parse_list(const char *list, unsigned long *mask, size_t bits)
{
	const size_t word = 8 * sizeof(*mask);
	const char *p = list;
	char *end;

	do {
		unsigned long lo, hi;

		if (*p < '0' || *p > '9')
			return -EINVAL;
		lo = hi = strtoul(p, &end, 10);
		if (*end == '-') {
			p = end + 1;
			if (*p < '0' || *p > '9')
				return -EINVAL;
			hi = strtoul(p, &end, 10);
		}
		if (lo > hi || hi >= bits)
			return -EINVAL;
		for (unsigned long i = lo; i <= hi; i++)
			mask[i / word] |= 1UL << i % word;
		p = end + 1;
	} while (*end == ',');
	return *end ? -EINVAL : 0;
}

int process_set_memory_policy(const struct spec_memory_policy *p,
			      struct error *err)
{
	unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };
	bool any = p->given && p->nodes && *p->nodes;

	if (!p->given)
		return 0;
	if (any && parse_list(p->nodes, nodes, NODES_MAX) < 0)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "linux.memoryPolicy.nodes: '%s' is no list",
				 p->nodes);
	if (syscall(SYS_set_mempolicy, (unsigned int)p->mode | p->flags,
		    any ? nodes : NULL, any ? NODES_MAX : 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "linux.memoryPolicy: cannot set it");
	return 0;
}

int process_set_personality(unsigned long persona, struct error *err)
{
	if (personality(persona) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "linux.personality: cannot set it");
	return 0;
}

int process_set_affinity(const char *list, struct error *err)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (parse_list(list, (unsigned long *)&set, CPU_SETSIZE) < 0)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "execCPUAffinity: '%s' is no list", list);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot run on the processors '%s'", list);
	return 0;
}

void process_reset_affinity(void)
{
	cpu_set_t set;

	memset(&set, 0xff, sizeof(set));
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static bool join_keyring(const char *name)
{
	return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name, 0, 0,
		       0) >= 0;
}

int process_new_keyring(const char *name, const struct log_sink *log,
			struct error *err)
{
	struct timespec nap = { .tv_nsec = 5 * 1000 * 1000 };
	bool joined = join_keyring(name);

	/* The kernel takes a moment to collect those of before: longer on a
	 * busy machine, and 0.6 s is all that a start may lose by it. */
	for (int i = 0; !joined && errno == EDQUOT && i < 7; i++) {
		(void)nanosleep(&nap, NULL);
		nap.tv_nsec *= 2;
		joined = join_keyring(name);
	}
	if (joined)
		return 0;
	if (errno == EPERM || errno == ENOSYS || errno == EDQUOT) {
		log_warn(log, "no session keyring of its own: %m");
		return 0;
	}
	return error_set(err, ERR_SYSTEM, errno,
			 "cannot make session keyring '%s'", name);
}

int process_set_oom_score_adj(pid_t pid, int value, struct error *err)
{
	char path[48], text[16];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	(void)snprintf(text, sizeof(text), "%d", value);
	r = fd_write_file(AT_FDCWD, pid ? path : "/proc/self/oom_score_adj",
			  text);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "process.oomScoreAdj: cannot set %d", value);
	return 0;
}

int process_write_time_offsets(const struct spec_time_offset *monotonic,
			       const struct spec_time_offset *boottime,
			       struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r;

	if (monotonic->given)
		buf_printf(&b, "monotonic %lld %u\n",
			   (long long)monotonic->secs, monotonic->nanosecs);
	if (boottime->given)
		buf_printf(&b, "boottime %lld %u\n", (long long)boottime->secs,
			   boottime->nanosecs);
	if (!b.len)
		return 0;
	r = fd_write_file(AT_FDCWD, "/proc/self/timens_offsets", buf_str(&b));
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "linux.timeOffsets: cannot set them");
	return 0;
}

int process_loopback_up(struct error *err)
{
	struct ifreq req = { .ifr_name = "lo" };
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot open a socket");
	if (ioctl(fd, SIOCGIFFLAGS, &req) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot find the loopback device");
	req.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &req) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set the loopback device up");
	return 0;
}

int process_open_proc(struct error *err)
{
	auto_close int fs_fd = (int)syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);
	int fd;

	if (fs_fd < 0 || syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL,
				 NULL, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot mount a procfs");
	fd = (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC,
			  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				  MOUNT_ATTR_NOEXEC);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot mount a procfs");
	return fd;
}

/* Opens below a procfs that is one, through no link and no other mount. */
static int open_attr(int proc_fd, const char *path, int *ret_fd,
		     struct error *err)
{
	auto_close int self_fd = -1;
	auto_close int fd = -1;
	char self[32];
	struct statfs fs;

	(void)snprintf(self, sizeof(self), "%d", (int)getpid());
	self_fd = fd_open_beneath(proc_fd, self, O_PATH | O_DIRECTORY, 0);
	if (self_fd >= 0)
		fd = fd_open_beneath(self_fd, path, O_WRONLY, 0);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, self_fd < 0 ? -self_fd : -fd,
				 "cannot open '/proc/self/%s'", path);
	if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return error_say(err, ERR_SYSTEM, EINVAL,
				 "'/proc/self/%s' is not on a procfs", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int set_apparmor(const char *profile, int proc_fd, struct error *err)
{
	auto_free char *text = NULL;
	auto_close int fd = -1;
	int r = open_attr(proc_fd, "attr/apparmor/exec", &fd, err);

	if (r == -ENOENT)
		return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				 "process.apparmorProfile: apparmor is not "
				 "enabled on this system");
	if (r < 0)
		return r;
	if (asprintf(&text, "exec %s", profile) < 0) {
		text = NULL;
		return error_set(err, ERR_SYSTEM, ENOMEM, "AppArmor");
	}
	r = fd_write_full(fd, text, strlen(text));
	if (r == -ENOENT) {
		(void)error_say(err, ERR_BUNDLE, ENOENT,
				"process.apparmorProfile: '%s' is not loaded",
				profile);
		return error_hint(err, "apparmor_parser -r FILE loads it");
	}
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "process.apparmorProfile '%s'", profile)
		     : 0;
}

static int set_selinux(const char *label, int proc_fd, struct error *err)
{
	auto_close int fd = -1;
	int r = open_attr(proc_fd, "attr/exec", &fd, err);

	if (r == 0)
		r = fd_write_full(fd, label, strlen(label));
	if (r == -EINVAL || r == -ENOENT)
		return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				 "process.selinuxLabel: selinux is not enabled "
				 "on this system, or knows no '%s'",
				 label);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "process.selinuxLabel '%s'", label)
		     : 0;
}

int process_set_labels(const struct spec_process *p, int proc_fd,
		       struct error *err)
{
	int r = 0;

	if (p->apparmor_profile)
		r = set_apparmor(p->apparmor_profile, proc_fd, err);
	if (r == 0 && p->selinux_label)
		r = set_selinux(p->selinux_label, proc_fd, err);
	return r;
}
