/*
 * Where new branches are put on the disk.
 *
 *	<storage>/cradles/<00..7f>/	directories that stay empty
 *
 * ext4 puts a new directory beside its parent, and without a journal it looks
 * at every inode there that was deleted in the last minute before it takes one:
 * where branches come and go that takes longer than all else. FS_TOPDIR_FL
 * (chattr +T) spreads what is made in a directory over the disk, but looks at
 * every group of it for each. So what is spread is made once, by a remover that
 * has found many empty branches, and a new branch is made in one of those and
 * moved to the trash at once.
 */
#include "branch/cradles.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "branch/internal.h"

#define DIR_NAME "cradles"

enum { CRADLE_NAME_MAX = 4 };

static void cradle_name(char ret[CRADLE_NAME_MAX], unsigned int i)
{
	(void)snprintf(ret, CRADLE_NAME_MAX, "%02x", i % CRADLES);
}

static int open_cradle(int fd, const char *name)
{
	return openat(fd, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_ext4(int fd)
{
	struct statfs sfs;

	return fstatfs(fd, &sfs) == 0 && sfs.f_type == EXT4_SUPER_MAGIC;
}

static bool spread(int dir_fd)
{
	int flags;

	if (ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) < 0)
		return false;
	flags |= FS_TOPDIR_FL;
	return ioctl(dir_fd, FS_IOC_SETFLAGS, &flags) == 0;
}

static void remove_orphans(int fd, const char *name)
{
	auto_close int cradle_fd = open_cradle(fd, name);

	if (cradle_fd >= 0)
		trash_remove_free(cradle_fd);
}

void cradles_make(int storage_fd)
{
	auto_close int fd = -1;

	if (!is_ext4(storage_fd) ||
	    storage_open_private(storage_fd, "", DIR_NAME, true, &fd, NULL) <
		    0 ||
	    !spread(fd))
		return;
	for (unsigned int i = 0; i < CRADLES; i++) {
		char name[CRADLE_NAME_MAX];
		struct stat st;

		cradle_name(name, i);
		if (mkdirat(fd, name, 0700) == 0 || errno != EEXIST)
			continue;
		/* Whoever was killed here has left an empty directory. */
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_nlink > 2)
			remove_orphans(fd, name);
	}
}

void cradles_remove(int storage_fd)
{
	auto_close int fd = -1;
	char name[CRADLE_NAME_MAX];

	if (storage_open_private(storage_fd, "", DIR_NAME, false, &fd, NULL) <
	    0)
		return;
	for (unsigned int i = 0; i < CRADLES; i++) {
		cradle_name(name, i);
		(void)unlinkat(fd, name, AT_REMOVEDIR);
	}
	(void)unlinkat(storage_fd, DIR_NAME, AT_REMOVEDIR);
}

static int mkdir_in_cradle(int storage_fd, unsigned int which, int trash_fd,
			   const char *name)
{
	auto_close int fd = -1;
	auto_close int cradle_fd = -1;
	char cradle[CRADLE_NAME_MAX];
	int r = storage_open_private(storage_fd, "", DIR_NAME, false, &fd,
				     NULL);

	if (r < 0)
		return r;
	cradle_name(cradle, which);
	cradle_fd = open_cradle(fd, cradle);
	if (cradle_fd < 0 || mkdirat(cradle_fd, name, 0700) < 0)
		return -errno;
	if (renameat(cradle_fd, name, trash_fd, name) == 0)
		return 0;
	r = -errno;
	(void)unlinkat(cradle_fd, name, AT_REMOVEDIR);
	return r;
}

int cradles_mkdir(int storage_fd, unsigned int which, int trash_fd,
		  const char *name)
{
	/* Most stores have none, and a storage that goes away loses them. */
	if (mkdir_in_cradle(storage_fd, which, trash_fd, name) == 0 ||
	    mkdirat(trash_fd, name, 0700) == 0)
		return 0;
	return -errno;
}
