/*
 * Who a task is to the kernel, as it judges files: read from procfs, in the ids
 * of the user namespace that the reader is in. A caller's number may be reused:
 * what was read counts if the call is valid afterwards.
 */
#ifndef SANDLOCK_SUPERVISE_WHO_H
#define SANDLOCK_SUPERVISE_WHO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WHO_GROUPS_MAX = 1024 };

struct who {
	pid_t tgid, ppid;
	uid_t uid;
	gid_t gid;
	gid_t groups[WHO_GROUPS_MAX]; /* sorted, as the kernel has them */
	size_t n_groups;
	mode_t umask;
	uint64_t caps; /* effective */
};

/* 0; -ESRCH, -EIO, -ENOMEM. */
int who_read(pid_t tid, struct who *ret);

#endif
