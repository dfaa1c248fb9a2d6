/*
 * "/" as a workdir. An overlay of the root directory itself would show what is
 * below its mounts, and could not be mounted on "/" either: so each directory
 * in it is a root of the branch, and each file system that is mounted further
 * below. What the kernel makes up, and what is private to a sandbox, is none.
 */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/mountinfo.h"
#include "sandbox/host.h"

#ifndef ZFS_SUPER_MAGIC
#define ZFS_SUPER_MAGIC 0x2fc12fc1
#endif
#ifndef BCACHEFS_STATFS_MAGIC
#define BCACHEFS_STATFS_MAGIC 0xca451a4e
#endif

/* Mounted anew in every sandbox, or no place for data. */
static const char *const never[] = { "proc", "sys", "dev",
				     "run",  "tmp", "lost+found" };

static bool is_disk(const char *path)
{
	struct statfs here, root;

	if (statfs(path, &here) < 0)
		return false;
	switch (here.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case ZFS_SUPER_MAGIC:
	case BCACHEFS_STATFS_MAGIC:
		return true;
	default:
		/* Of a container, whose root is an overlay itself. */
		return statfs("/", &root) == 0 &&
		       memcmp(&root.f_fsid, &here.f_fsid,
			      sizeof(root.f_fsid)) == 0 &&
		       root.f_type == here.f_type;
	}
}

static bool is_directory(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_skipped(const char *name)
{
	if (name[0] == '.')
		return true;
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (strcmp(name, never[i]) == 0)
			return true;
	return false;
}

static int add(struct host_context *h, const char *path)
{
	for (size_t i = 0; i < h->workdirs.n; i++)
		if (strcmp(h->workdirs.v[i], path) == 0)
			return 0;
	return spec_strings_add(&h->workdirs, path);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_directories(struct host_context *h)
{
	auto_dir DIR *dir = opendir("/");
	size_t before = h->workdirs.n;
	int r = dir ? 0 : -errno;

	for (struct dirent *d = dir ? readdir(dir) : NULL; d && r == 0;
	     d = readdir(dir)) {
		char path[sizeof(d->d_name) + 2];

		(void)snprintf(path, sizeof(path), "/%s", d->d_name);
		if (!is_skipped(d->d_name) && is_directory(path) &&
		    is_disk(path))
			r = add(h, path);
	}
	if (h->workdirs.n > before)
		qsort(h->workdirs.v + before, h->workdirs.n - before,
		      sizeof(*h->workdirs.v), compare);
	return r;
}

/* @n: how many there are without what is found here. */
static bool is_below_one(const struct host_context *h, size_t n,
			 const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (path_is_under(path, h->workdirs.v[i]))
			return true;
	return false;
}

static int add_mounts(struct host_context *h)
{
	size_t n = h->workdirs.n;
	struct mountinfo m;
	int r = mountinfo_open(&m, "self");

	if (r < 0)
		return r;
	while (r == 0 && mountinfo_next(&m) == 1)
		if (is_below_one(h, n, m.point) && is_directory(m.point) &&
		    is_disk(m.point))
			r = add(h, m.point);
	mountinfo_done(&m);
	return r;
}

int host_add_root(struct host_context *h, struct error *err)
{
	int r;

	if (!h->privileged && !(h->notify && geteuid() == 0)) {
		(void)error_say(err, ERR_UNSUPPORTED, EPERM,
				"only root can work in '/': what is in it "
				"belongs to others");
		return error_hint(err, "name the directories that are to be "
				       "changed with --workdir");
	}
	r = add_directories(h);
	if (r == 0)
		r = add_mounts(h);
	if (r == 0 && !h->workdirs.n)
		return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				 "there is no directory in '/' that a branch "
				 "could be made of");
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot read '/'") : 0;
}
