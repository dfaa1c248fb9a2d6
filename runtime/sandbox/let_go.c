#include "sandbox/let_go.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "branch/branch.h"
#include "branch/mountinfo.h"
#include "sandbox/create.h"
#include "spec/spec.h"

static bool has_no_disk(const char *type)
{
	static const char *const types[] = {
		"autofs",   "binfmt_misc", "bpf",    "cgroup",	 "cgroup2",
		"configfs", "debugfs",	   "devpts", "devtmpfs", "efivarfs",
		"fusectl",  "hugetlbfs",   "mqueue", "proc",	 "pstore",
		"ramfs",    "securityfs",  "sysfs",  "tmpfs",	 "tracefs",
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

/*
 * Our root is pid 1's, and no directory that somebody has mounted a file system
 * on. @all: what else is mounted on the host has no disk, or is on its disk.
 */
static bool host_has_one_disk(bool all, dev_t *ret_root)
{
	struct mountinfo m;
	struct statx root;
	bool found = false, others = false;

	if (statx(AT_FDCWD, "/", 0, STATX_MNT_ID, &root) < 0 ||
	    mountinfo_open(&m, "1") < 0)
		return false;
	*ret_root = makedev(root.stx_dev_major, root.stx_dev_minor);
	while (mountinfo_next(&m) == 1) {
		if (strcmp(m.point, "/") == 0 && m.id == root.stx_mnt_id)
			found = true;
		else if (all && m.dev != *ret_root && !has_no_disk(m.type))
			others = true;
	}
	mountinfo_done(&m);
	return found && !others;
}

/* Of a bundle: what was mounted is known, and nothing else can have been. */
static bool bundle_has_no_disk(const struct spec *s)
{
	const struct capset *caps = &s->process.caps;

	if ((caps->bounding | caps->permitted) >> CAP_SYS_ADMIN & 1)
		return false;
	for (size_t i = 0; i < SPEC_HOOK_COUNT; i++)
		if (s->hooks.n[i])
			return false;
	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].kind == SPEC_MOUNT_BIND ||
		    !s->mounts[i].type || !has_no_disk(s->mounts[i].type))
			return false;
	return true;
}

static bool nobody_can_tell(struct create *c)
{
	dev_t root;

	/* The next stage mounts what this one has mounted, which may be mounted
	 * once. */
	if (c->bundle->keep || sandbox_is_stage(c->command) ||
	    !c->plan->own_pid_ns)
		return false;
	if (!c->plan->host &&
	    (!c->branch || !bundle_has_no_disk(c->plan->spec)))
		return false;
	return host_has_one_disk(c->plan->host, &root) &&
	       (!c->branch || branch_lies_on(c->branch, root));
}

void let_go_hold(struct create *c)
{
	char path[64];

	if (!nobody_can_tell(c))
		return;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt",
		       (int)c->state->init.pid);
	c->mounts_fd = open(path, O_RDONLY | O_CLOEXEC);
}

void let_go(struct create *c)
{
	if (c->mounts_fd >= 0 &&
	    (!c->branch || branch_is_untouched(c->branch))) {
		rootfs_let_go(c->rootfs);
		fd_let_go(take_fd(&c->mounts_fd));
	}
	rootfs_free(take_ptr(&c->rootfs));
	cleanup_close(&c->mounts_fd);
	c->mounts_fd = -1;
}
