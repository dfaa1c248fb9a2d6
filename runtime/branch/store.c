/*
 * Where branches are.
 *
 *	<store>/branches/<name>		a branch, or a link to one elsewhere
 *	<store>/trash/			what is being removed
 *	<store>/cradles/		see cradles.c
 *
 * A name is claimed by mkdir or symlink in branches/ of the default store, so
 * that two processes never get the same one and every verb finds it there.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "base/uapi.h"
#include "branch/cradles.h"
#include "branch/internal.h"
#include "kernel/userns.h"

enum {
	LIMIT_MOUNT_DEPTH = 4096, /* PATH_MAX / 1 */
	OPEN_TRIES = 16,
};

void storage_done(struct storage *s)
{
	free(s->path);
	free(s->branches);
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->branches_fd >= 0)
		(void)close(s->branches_fd);
	*s = (struct storage)STORAGE_INIT;
}

/* The path behind @fd; malloc'ed. */
static char *path_of_fd(int fd)
{
	char path[PATH_MAX];

	return fd_path(fd, path) == 0 && path[0] == '/' ? strdup(path) : NULL;
}

int mount_id_of(int fd, uint64_t *ret_mnt, uint64_t *ret_dev)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID,
		  &stx) < 0)
		return -errno;
	if (!(stx.stx_mask & STATX_MNT_ID))
		return -EOPNOTSUPP;
	*ret_mnt = stx.stx_mnt_id;
	if (ret_dev)
		*ret_dev =
			(uint64_t)stx.stx_dev_major << 32 | stx.stx_dev_minor;
	return 0;
}

int storage_advise(int sys, struct error *err)
{
	if (sys == EMFILE || sys == ENFILE)
		return -sys;
	return error_hint(err, sys == ENOSPC || sys == EDQUOT
				       ? "free some space there, or choose "
					 "another place with --storage"
				       : "choose a writable place with "
					 "--storage");
}

int storage_open_private(int dirfd, const char *where, const char *name,
			 bool make, int *ret_fd, struct error *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	auto_close int fd = openat(dirfd, name, flags);
	struct stat st;

	if (fd < 0 && errno == ENOENT) {
		if (!make)
			return -ENOENT;
		if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST) {
			int sys = errno;

			(void)error_set(err, ERR_SYSTEM, sys,
					"cannot make '%s/%s'", where, name);
			(void)storage_advise(sys, err);
			return -sys;
		}
		fd = openat(dirfd, name, flags);
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		int sys = errno;

		(void)error_set(err, ERR_SYSTEM, sys, "cannot open '%s/%s'",
				where, name);
		(void)storage_advise(sys, err);
		return -sys;
	}
	if (st.st_uid != geteuid()) {
		(void)error_say(err, ERR_SYSTEM, EPERM,
				"'%s/%s' belongs to user %u", where, name,
				(unsigned int)st.st_uid);
		return error_hint(err, "choose another directory with "
				       "--storage or SANDLOCK_STORE");
	}
	if ((st.st_mode & 077) && fchmod(fd, 0700) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make '%s/%s' private", where, name);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* mkdir -p with mode 0700. Counts what is new at the end of @path. */
static int make_path(const char *path, unsigned int *ret_n)
{
	auto_free char *copy = strdup(path);
	unsigned int n = 0;

	if (!copy)
		return -ENOMEM;
	for (char *p = copy + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, 0700) == 0)
			n++;
		else if (errno == EEXIST)
			n = 0;
		else
			return -errno;
		*p = c;
		if (c == '\0') {
			*ret_n = n;
			return 0;
		}
	}
}

static int make_trash(const struct storage *s, struct error *err)
{
	auto_close int fd = -1;

	return storage_open_private(s->fd, s->path, "trash", true, &fd, err);
}

/* Fills what the fd stands for; @fd is taken over in any case. */
static int fill_storage(int fd, bool make, struct storage *ret,
			struct error *err)
{
	struct storage s = { .fd = fd, .branches_fd = -1 };
	int r;

	s.path = path_of_fd(fd);
	s.branches = s.path ? path_join(s.path, "branches") : NULL;
	if (!s.branches)
		r = error_set(err, ERR_SYSTEM, errno,
			      "cannot tell the path of the branch store");
	else
		r = storage_open_private(fd, s.path, "branches", make,
					 &s.branches_fd, err);
	/* Made early, so that a full disk stops no removal. */
	if (r == 0 && make)
		r = make_trash(&s, err);
	if (r < 0) {
		storage_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

static int open_once(const char *path, bool make, struct storage *ret,
		     struct error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned int n_made = 0;
	int sys;

	if (fd < 0 && errno == ENOENT) {
		int r;

		if (!make)
			return -ENOENT;
		r = make_path(path, &n_made);
		if (r < 0) {
			(void)error_set(err, ERR_SYSTEM, -r,
					"cannot make the branch store '%s'",
					path);
			(void)storage_advise(-r, err);
			return r;
		}
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0) {
		sys = errno;
		(void)error_set(err, ERR_SYSTEM, sys,
				"cannot open the branch store '%s'", path);
		(void)storage_advise(sys, err);
		return -sys;
	}
	sys = fill_storage(fd, make, ret, err);
	if (sys == 0)
		ret->n_made = n_made;
	return sys;
}

int storage_open(const char *path, bool make, struct storage *ret,
		 struct error *err)
{
	int r = open_once(path, make, ret, err);

	/* Whoever had made it takes it away just now, see storage_drop. */
	for (int i = 0; make && r == -ENOENT && i < OPEN_TRIES; i++)
		r = open_once(path, make, ret, err);
	return r;
}

void storage_drop(const struct storage *s, unsigned int n)
{
	auto_free char *path = n ? strdup(s->path) : NULL;

	/* The trash of one that stays is there for a disk that is full. */
	if (!path || unlinkat(s->fd, "branches", AT_REMOVEDIR) < 0)
		return;
	if (unlinkat(s->fd, "trash", AT_REMOVEDIR) < 0) {
		(void)mkdirat(s->fd, "branches", 0700);
		return;
	}
	cradles_remove(s->fd);
	for (; n > 0 && rmdir(path) == 0; n--)
		*strrchr(path, '/') = '\0';
}

void branch_drop_storage(const struct branch *b)
{
	if (b->home->fd >= 0)
		storage_drop(b->home, b->meta.storage_dirs);
}

char *store_default_path(void)
{
	const char *env = getenv("SANDLOCK_STORE");
	auto_free char *state = NULL;

	if (env && *env)
		return strdup(env);
	if (geteuid() == 0 && userns_initial_uid() == 0)
		return strdup("/var/lib/sandlock");
	env = getenv("XDG_STATE_HOME");
	if (env && env[0] == '/')
		return path_join(env, "sandlock");
	env = getenv("HOME");
	if (!env || env[0] != '/') {
		errno = ENOENT;
		return NULL;
	}
	state = path_join(env, ".local/state");
	return state ? path_join(state, "sandlock") : NULL;
}

/* Made absolute, lexically. */
static char *absolute_path(const char *path)
{
	auto_free char *cwd = NULL, *joined = NULL;

	if (path[0] == '/')
		return path_normalize(path);
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return NULL;
	joined = path_join(cwd, path);
	return joined ? path_normalize(joined) : NULL;
}

/* Here --storage helps nobody: what is elsewhere is found by the store, too. */
static int advise_store(int r, struct error *err)
{
	switch (r) {
	case -EMFILE:
	case -ENFILE:
		break;
	case -ENOSPC:
	case -EDQUOT:
		(void)error_hint(err, "free some space there, or set "
				      "SANDLOCK_STORE to another place");
		break;
	default:
		(void)error_hint(err, "set SANDLOCK_STORE to a directory that "
				      "you may write to");
		break;
	}
	return r;
}

int store_open(const char *dir, const struct log_sink *log, struct store **ret,
	       struct error *err)
{
	auto_ptr(store_close) struct store *st = calloc(1, sizeof(*st));
	auto_free char *path = NULL;
	const char *env;
	int r;

	if (!st)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot open the branch store");
	st->home = (struct storage)STORAGE_INIT;
	st->log = log;
	if (!dir && path_from_env("SANDLOCK_STORE", &env, err) < 0)
		return -EINVAL;
	path = dir ? strdup(dir) : store_default_path();
	st->wanted = path ? absolute_path(path) : NULL;
	if (!st->wanted) {
		(void)error_set(err, ERR_SYSTEM, errno,
				"cannot tell where the branch store is");
		return error_hint(err, "set SANDLOCK_STORE or HOME");
	}
	r = storage_open(st->wanted, false, &st->home, err);
	if (r < 0 && r != -ENOENT)
		return advise_store(r, err);
	if (r == 0)
		trash_resume(&st->home, TRASH_LAZY_MAX);
	*ret = take_ptr(&st);
	return 0;
}

void store_close(struct store *st)
{
	if (!st)
		return;
	storage_done(&st->home);
	free(st->wanted);
	free(st);
}

const char *store_path(const struct store *st)
{
	return st->home.path ? st->home.path : st->wanted;
}

int store_make(struct store *st, struct error *err)
{
	int r;

	if (st->home.branches_fd >= 0)
		return 0;
	storage_done(&st->home);
	r = storage_open(st->wanted, true, &st->home, err);
	return r < 0 ? advise_store(r, err) : 0;
}

enum fs_use { FS_GOOD, FS_VOLATILE, FS_UNFIT, FS_REMOTE };

/*
 * An overlay takes neither another one for upper nor what looks its entries up
 * again (networks, FUSE), nor what has no attributes.
 */
static enum fs_use use_of_fs(int fd)
{
	struct statfs sfs;

	if (fstatfs(fd, &sfs) < 0)
		return FS_GOOD;
	switch ((uint32_t)sfs.f_type) {
	case OVERLAYFS_SUPER_MAGIC:
		return FS_UNFIT;
	case NFS_SUPER_MAGIC:
	case FUSE_SUPER_MAGIC:
	case CIFS_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
	case V9FS_MAGIC:
	case CEPH_SUPER_MAGIC:
	case AFS_FS_MAGIC:
	case MSDOS_SUPER_MAGIC:
	case EXFAT_SUPER_MAGIC:
		return FS_REMOTE;
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
		return FS_VOLATILE;
	default:
		return FS_GOOD;
	}
}

static int refuse_storage(const char *path, enum fs_use use, struct error *err)
{
	(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
			"'%s' is on %s, which cannot hold a branch", path,
			use == FS_UNFIT ? "an overlay file system"
					: "a file system of a network, FUSE "
					  "or FAT");
	return error_hint(err, "name a directory on a disk or volume with "
			       "--storage");
}

/*
 * Walks up from @lower_fd to the root of its mount. -EXDEV if the lower is
 * that root: what is made there would be part of the lower.
 */
static int open_mount_point(int lower_fd, uint64_t mnt, int *ret_fd)
{
	auto_close int fd = -1;

	for (int i = 0; i < LIMIT_MOUNT_DEPTH; i++) {
		auto_close int up = openat(fd < 0 ? lower_fd : fd, "..",
					   O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct stat a, b;
		uint64_t id = 0;

		if (up < 0)
			return -errno;
		if (mount_id_of(up, &id, NULL) < 0 ||
		    fstat(fd < 0 ? lower_fd : fd, &a) < 0 || fstat(up, &b) < 0)
			return -EIO;
		if (id != mnt ||
		    (a.st_ino == b.st_ino && a.st_dev == b.st_dev)) {
			if (fd < 0)
				return -EXDEV;
			*ret_fd = take_fd(&fd);
			return 0;
		}
		if (fd >= 0)
			(void)close(fd);
		fd = take_fd(&up);
	}
	return -ELOOP;
}

/* <mount point>/.sandlock-<uid>/, if it can be made and is ours. */
static int open_beside_lower(int lower_fd, uint64_t mnt, struct storage *ret)
{
	auto_close int top = -1;
	char name[32];
	int fd, r;

	if (use_of_fs(lower_fd) != FS_GOOD)
		return -EOPNOTSUPP;
	r = open_mount_point(lower_fd, mnt, &top);
	if (r < 0)
		return r;
	(void)snprintf(name, sizeof(name), ".sandlock-%u",
		       (unsigned int)userns_initial_uid());
	r = storage_open_private(top, "", name, true, &fd, NULL);
	if (r < 0)
		return r;
	return fill_storage(fd, true, ret, NULL);
}

static int choose_named(const char *path, uint64_t lower_mnt,
			struct storage *ret, bool *ret_staged,
			struct error *err)
{
	auto_(storage) struct storage s = STORAGE_INIT;
	auto_free char *absolute = absolute_path(path);
	uint64_t mnt = 0;
	enum fs_use use;
	int r;

	if (!*path)
		return error_say(err, ERR_USAGE, EINVAL,
				 "--storage: nothing is given");
	if (!absolute)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 path);
	r = storage_open(absolute, true, &s, err);
	if (r < 0)
		return r;
	use = use_of_fs(s.branches_fd);
	if (use == FS_UNFIT || use == FS_REMOTE) {
		storage_drop(&s, s.n_made);
		return refuse_storage(s.path, use, err);
	}
	r = mount_id_of(s.branches_fd, &mnt, NULL);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot stat '%s'",
				 s.path);
	*ret_staged = mnt != lower_mnt;
	*ret = s;
	s = (struct storage)STORAGE_INIT;
	return 0;
}

/* Fills @ret (fd -1: the default store itself). */
int store_choose(struct store *st, const struct branch_options *o, int lower_fd,
		 const char *lower, struct storage *ret, bool *ret_staged,
		 struct error *err)
{
	uint64_t lower_mnt = 0, mnt = 0;
	enum fs_use use;
	int r;

	r = mount_id_of(lower_fd, &lower_mnt, NULL);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot stat '%s'",
				 lower);
	if (o->storage)
		return choose_named(o->storage, lower_mnt, ret, ret_staged,
				    err);
	r = mount_id_of(st->home.branches_fd, &mnt, NULL);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot stat '%s'",
				 st->home.path);
	*ret = (struct storage)STORAGE_INIT;
	*ret_staged = mnt != lower_mnt;
	if (*ret_staged && open_beside_lower(lower_fd, lower_mnt, ret) == 0) {
		if (mount_id_of(ret->branches_fd, &mnt, NULL) == 0 &&
		    mnt == lower_mnt) {
			*ret_staged = false;
			return 0;
		}
		storage_done(ret);
	}
	use = use_of_fs(st->home.branches_fd);
	if (use == FS_UNFIT || use == FS_REMOTE)
		return refuse_storage(st->home.path, use, err);
	if (use == FS_VOLATILE)
		log_warn(st->log,
			 "'%s' is in memory: branches are lost at a reboot",
			 st->home.path);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A claim that died half made is no branch, and is cleared away. */
static bool is_branch(struct store *st, const struct dirent *d)
{
	if (strchr(d->d_name, '~'))
		clear_orphan_root(st, d->d_name);
	if (name_check(d->d_name, NULL) < 0)
		return false;
	if (d->d_type != DT_DIR && d->d_type != DT_LNK &&
	    d->d_type != DT_UNKNOWN)
		return false;
	return !store_is_stale(st, d->d_name);
}

void store_names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

static int read_names(struct store *st, DIR *dir, char ***ret, size_t *ret_n)
{
	char **names = NULL;
	size_t n = 0, cap = 0;
	const struct dirent *d;

	for (errno = 0; (d = readdir(dir)); errno = 0) {
		char **grown;

		if (!is_branch(st, d))
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			grown = reallocarray(names, cap, sizeof(*names));
			if (!grown)
				break;
			names = grown;
		}
		names[n] = strdup(d->d_name);
		if (!names[n])
			break;
		n++;
	}
	if (errno) {
		int r = -errno;

		store_names_free(names, n);
		return r;
	}
	if (n > 0)
		qsort(names, n, sizeof(*names), compare_names);
	*ret = names;
	*ret_n = n;
	return 0;
}

int store_list(struct store *st, char ***ret_names, size_t *ret_n,
	       struct error *err)
{
	auto_dir DIR *dir = NULL;
	auto_close int fd = -1;
	int r;

	if (st->home.branches_fd < 0) {
		*ret_names = NULL;
		*ret_n = 0;
		return 0;
	}
	fd = openat(st->home.branches_fd, ".",
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot read '%s/branches'", st->home.path);
	(void)take_fd(&fd);
	trash_resume(&st->home, 1);
	r = read_names(st, dir, ret_names, ret_n);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot read '%s/branches'", st->home.path);
	return 0;
}
