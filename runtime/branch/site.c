#include "branch/site.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "branch/internal.h"
#include "branch/judge.h"
#include "branch/modes.h"
#include "branch/onemount.h"
#include "branch/plan.h"
#include "branch/publish.h"
#include "branch/recover.h"
#include "branch/tree.h"

enum {
	LOCK_POLL_MAX_MS = 20,
	SYNC_EACH_MAX = 256, /* above, one syncfs is cheaper */
};

int site_check(const struct branch *b, struct error *err)
{
	if (b->upper_fd < 0)
		return error_say(err, ERR_STATE, ENOENT,
				 "branch '%s' has lost its upper directory",
				 b->meta.name);
	if (b->lower_fd < 0) {
		(void)error_say(err, ERR_STATE, ESTALE,
				"'%s' is not the directory that branch '%s' "
				"was made on",
				b->meta.lower, b->meta.name);
		return error_hint(err, "put the directory back, or abort");
	}
	if (faccessat(b->dir_fd, "intent", F_OK, 0) == 0 ||
	    faccessat(b->dir_fd, "done", F_OK, 0) == 0) {
		(void)error_say(err, ERR_STATE, EBUSY,
				"a commit of branch '%s' was interrupted",
				b->meta.name);
		return error_hint(err, "sandlock recover %s", b->meta.name);
	}
	return 0;
}

void site_done(struct site *s)
{
	cleanup_close(&s->view_fd);
	cleanup_close(&s->lower_fd);
	cleanup_close(&s->upper_fd);
	cleanup_close(&s->dir_fd);
	if (s->stage_fd != s->trash_fd)
		cleanup_close(&s->stage_fd);
	cleanup_close(&s->trash_fd);
	cleanup_close(&s->lock_fd);
	*s = (struct site)SITE_INIT;
}

static void sleep_ms(int ms)
{
	const struct timespec t = { .tv_sec = ms / 1000,
				    .tv_nsec = ms % 1000 * 1000000L };

	(void)nanosleep(&t, NULL);
}

/* Among commits, of whatever program, by the directory itself: no litter. */
static int lock_lower(struct site *s, int timeout_ms, struct error *err)
{
	const struct branch *b = s->branch;
	int64_t end = clock_now_ms() + timeout_ms;
	int wait_ms = 1;

	s->lock_fd =
		openat(b->lower_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 b->meta.lower);
	while (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot lock '%s'", b->meta.lower);
		if (clock_now_ms() >= end) {
			(void)error_say(err, ERR_LOCKED, EWOULDBLOCK,
					"'%s' is locked by another process: "
					"deferred, branch '%s' is untouched",
					b->meta.lower, b->dir);
			return error_hint(err, "try again: sandlock commit %s",
					  b->meta.name);
		}
		sleep_ms(wait_ms);
		wait_ms = wait_ms * 2 < LOCK_POLL_MAX_MS ? wait_ms * 2
							 : LOCK_POLL_MAX_MS;
	}
	return 0;
}

static int check_root(const struct site *s, struct error *err)
{
	const struct branch_meta *m = &s->branch->meta;
	struct stat st;

	if (fstat(s->lower_fd, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 m->lower);
	if (st.st_ino == m->lower_ino)
		return 0;
	return error_say(err, ERR_STATE, ESTALE,
			 "'%s' is not the directory that branch '%s' was made "
			 "on",
			 m->lower, m->name);
}

static int open_again(int fd, int *ret_fd)
{
	*ret_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* Looks through one mount at both, if there is one. */
static int join_mounts(struct site *s)
{
	auto_close int lower = -1;
	auto_close int dir = -1;
	auto_close int upper = -1;
	int r = onemount_open(s->lower_fd, s->dir_fd, &lower, &dir);

	if (r < 0)
		return r;
	upper = openat(dir, "upper",
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0)
		return -errno;
	(void)close(s->lower_fd);
	(void)close(s->dir_fd);
	(void)close(s->upper_fd);
	s->lower_fd = take_fd(&lower);
	s->dir_fd = take_fd(&dir);
	s->upper_fd = take_fd(&upper);
	return 0;
}

/* The project that a directory belongs to, which may hand it on. */
static uint32_t project_of(int fd, bool *ret_inherited)
{
	struct fsxattr x = { 0 };

	*ret_inherited = ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0 &&
			 (x.fsx_xflags & FS_XFLAG_PROJINHERIT);
	return x.fsx_projid;
}

/* Then a rename from the one to the other is EXDEV. */
static bool has_other_project(const struct site *s)
{
	bool lower, upper;

	return project_of(s->lower_fd, &lower) !=
		       project_of(s->upper_fd, &upper) &&
	       (lower || upper);
}

static int find_mounts(struct site *s)
{
	uint64_t lower_mnt, upper_mnt, lower_dev, upper_dev;
	int r = mount_id_of(s->lower_fd, &lower_mnt, &lower_dev);

	if (r == 0)
		r = mount_id_of(s->upper_fd, &upper_mnt, &upper_dev);
	if (r < 0)
		return r;
	if (lower_dev != upper_dev)
		s->staged = true;
	else if (lower_mnt != upper_mnt)
		s->staged = join_mounts(s) < 0;
	if (!s->staged)
		s->staged = has_other_project(s);
	return 0;
}

int site_open(struct site *s, struct branch *b, int timeout_ms,
	      struct error *err)
{
	int r;

	s->branch = b;
	s->prefix = branch_xattr_prefix(b);
	r = lock_lower(s, timeout_ms, err);
	if (r < 0)
		return r;
	r = open_again(b->lower_fd, &s->view_fd);
	if (r == 0)
		r = open_again(b->lower_fd, &s->lower_fd);
	if (r == 0)
		r = open_again(b->upper_fd, &s->upper_fd);
	if (r == 0)
		r = open_again(b->dir_fd, &s->dir_fd);
	if (r == 0)
		r = find_mounts(s);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot open branch '%s'",
				 b->meta.name);
	return check_root(s, err);
}

static int open_dir(int dirfd, const char *name, int *ret_fd)
{
	*ret_fd = openat(dirfd, name,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* Tells before the first write where nothing can be written. */
static int probe_renames(const struct site *s, struct error *err)
{
	int fd = s->stage_fd, r = 0;

	if (mkdirat(fd, "a", 0700) < 0 || renameat(fd, "a", fd, "b") < 0)
		r = errno;
	(void)unlinkat(fd, "a", AT_REMOVEDIR);
	(void)unlinkat(fd, "b", AT_REMOVEDIR);
	return r ? error_set(err, ERR_SYSTEM, r, "cannot write to '%s'",
			     s->branch->dir)
		 : 0;
}

/*
 * The stage beside the lower must not show in the root's mtime, nor fail by its
 * mode, nor count as a change of the host's. So that a kill between the system
 * calls cannot make it, the file "mtime" of the branch holds all three for as
 * long as they are wrong.
 */
struct root_time {
	struct branch *branch;
	int root_fd;
	struct root_state {
		struct timespec mtime;
		uint32_t mode;
		uint32_t is_base; /* the host has not changed it */
	} is;
};

static int read_mtime(const struct branch *b, struct root_state *ret)
{
	auto_(buf) struct buf bytes = BUF_INIT;
	int r = fd_read_file(b->dir_fd, "mtime", sizeof(*ret), &bytes);

	if (r < 0)
		return r;
	if (bytes.len != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, bytes.data, sizeof(*ret));
	return 0;
}

static bool is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

static void keep_hosts_mode(struct root_state *is, uint32_t now)
{
	if (now != is->mode && now != (is->mode | S_IRWXU))
		is->mode = now;
}

static int hold_mtime(struct root_time *t, struct branch *b, int root_fd,
		      bool removes)
{
	const struct judge j = { .branch = b };
	struct object o;
	int r = object_stat(root_fd, "", &o);

	if (r < 0)
		return r;
	*t = (struct root_time){ b,
				 root_fd,
				 { o.mtime, o.mode & 07777,
				   !judge_base_changed(&j, "", &o) } };
	/*
	 * What a killed process was about to set is still due, but for a mode
	 * that is neither that nor ours.
	 */
	if (read_mtime(b, &t->is) == 0)
		keep_hosts_mode(&t->is, o.mode & 07777);
	else
		r = fd_write_atomic(b->dir_fd, "mtime", &t->is, sizeof(t->is),
				    0600, true);
	/* What frees room takes none: only who is killed leaves another time.
	 */
	if (removes && is_full(r))
		r = 0;
	return r < 0 ? r : modes_let_in(root_fd);
}

/* The root as it is now is what the branch is based on. */
static int rebase_root(const struct root_time *t)
{
	struct branch_meta *m = &t->branch->meta;
	struct stat st;
	int r;

	if (!t->is.is_base || root_has(t->branch, "done"))
		return 0;
	if (fstat(t->root_fd, &st) < 0)
		return -errno;
	r = record_put(&m->bases, &m->n_bases, "", &st);
	return r < 0 ? r : branch_save(t->branch, false, NULL);
}

static int release_mtime(const struct root_time *t)
{
	int r = object_set_mtime(t->root_fd, "", t->is.mtime);
	char path[FD_PATH_MAX];
	struct stat st;

	if (r < 0)
		return r;
	if (fstat(t->root_fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 07777) != t->is.mode &&
	    chmod(fd_proc_path(t->root_fd, path), (mode_t)t->is.mode) < 0)
		return -errno;
	branch_step("root");
	r = rebase_root(t);
	if (r < 0)
		return r;
	branch_step("root's base");
	return unlinkat(t->branch->dir_fd, "mtime", 0) < 0 && errno != ENOENT
		       ? -errno
		       : 0;
}

enum {
	STAGE_NAME_LEN = LIMIT_NAME + 32,
	STAGE_NAMES = 8, /* that are tried, should others have taken some */
};

static const char *stage_name(const struct branch *b, int i,
			      char ret[STAGE_NAME_LEN])
{
	if (i == 0)
		(void)snprintf(ret, STAGE_NAME_LEN, ".sandlock-%s",
			       b->meta.name);
	else
		(void)snprintf(ret, STAGE_NAME_LEN, ".sandlock-%s~%d",
			       b->meta.name, i);
	return ret;
}

static bool has_entry(int fd, const char *name)
{
	return fd >= 0 &&
	       (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		errno != ENOENT);
}

/*
 * It says whose it is, so that nobody else's directory is ever removed; all at
 * once, where the file system can.
 */
static int claim_stage(const struct site *s)
{
	const char *dir = s->branch->dir;
	auto_close int fd = openat(s->stage_fd, ".",
				   O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	char link[FD_PATH_MAX];
	int r;

	if (fd < 0)
		return fd_write_atomic(s->stage_fd, "branch", dir, strlen(dir),
				       0600, false);
	r = fd_write_full(fd, dir, strlen(dir));
	if (r == 0 && linkat(AT_FDCWD, fd_proc_path(fd, link), s->stage_fd,
			     "branch", AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	return r;
}

/*
 * Who owns the lower may have put a directory in the place of the one that we
 * have made, in which copies would become links to other things. Ours belongs
 * to whom a new file in it belongs to: not all file systems know owners.
 */
static int check_stage(int stage_fd)
{
	/* Without a name: it is not found empty if we are killed. */
	auto_close int fd =
		openat(stage_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	bool is_named = fd < 0;
	struct stat dir, file;

	if (is_named) {
		(void)unlinkat(stage_fd, "check", 0);
		fd = openat(stage_fd, "check",
			    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	}
	branch_step("stage checked");
	if (fd < 0 || fstat(stage_fd, &dir) < 0 || fstat(fd, &file) < 0 ||
	    (is_named && unlinkat(stage_fd, "check", 0) < 0))
		return -errno;
	return dir.st_uid == file.st_uid && !(dir.st_mode & ~file.st_mode & 022)
		       ? 0
		       : -ESTALE;
}

/* Where owners are told no new file is needed: there may be no room. */
static bool is_of_ours(int stage_fd)
{
	struct stat st;

	if (fstat(stage_fd, &st) < 0)
		return false;
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return true;
	return check_stage(stage_fd) == 0;
}

/* It may be anybody's: to open a FIFO or a device would do something. */
static bool is_our_stage(const struct branch *b, int fd)
{
	auto_(buf) struct buf text = BUF_INIT;
	auto_close int file = object_open_file(fd, "branch", O_RDONLY);
	int r = file < 0 ? file : fd_read_all(file, PATH_MAX, &text);

	return r == 0 && text.len == strlen(b->dir) &&
	       memcmp(text.data, b->dir, text.len) == 0 && is_of_ours(fd);
}

/* Opens the one that is ours, and tells its name; -ENOENT. */
static int open_stage(const struct branch *b, int root,
		      char ret_name[STAGE_NAME_LEN], int *ret_fd)
{
	for (int i = 0; i < STAGE_NAMES; i++) {
		auto_close int fd =
			fd_open_beneath(root, stage_name(b, i, ret_name),
					O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

		if (fd >= 0 && is_our_stage(b, fd)) {
			*ret_fd = take_fd(&fd);
			return 0;
		}
	}
	return -ENOENT;
}

/* A name that neither the host nor the sandbox has given to anything. */
static int make_stage(const struct site *s, char ret_name[STAGE_NAME_LEN])
{
	for (int i = 0; i < STAGE_NAMES; i++) {
		(void)stage_name(s->branch, i, ret_name);
		if (has_entry(s->upper_fd, ret_name))
			continue;
		if (mkdirat(s->lower_fd, ret_name, 0700) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

bool site_has_lower_stage(const struct branch *b)
{
	char name[STAGE_NAME_LEN];

	if (b->lower_fd < 0)
		return false;
	if (has_entry(b->dir_fd, "mtime"))
		return true;
	for (int i = 0; i < STAGE_NAMES; i++)
		if (has_entry(b->lower_fd, stage_name(b, i, name)))
			return true;
	return false;
}

/* @cut_off: somebody was killed while one was made, or removed. */
static int remove_stage(const struct branch *b, int root, bool cut_off)
{
	char name[STAGE_NAME_LEN];
	auto_close int fd = -1;

	if (open_stage(b, root, name, &fd) == 0)
		return tree_remove(root, name);
	/* Then it may be empty, and does not say whose it is. */
	for (int i = 0; cut_off && i < STAGE_NAMES; i++) {
		if (has_entry(b->upper_fd, stage_name(b, i, name)))
			continue;
		if (unlinkat(root, name, AT_REMOVEDIR) < 0 &&
		    errno != ENOTEMPTY && errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	return 0;
}

int site_clear_lower(struct branch *b, struct error *err)
{
	auto_close int root = -1;
	struct root_time t;
	bool cut_off;
	int r;

	if (!site_has_lower_stage(b))
		return 0;
	cut_off = has_entry(b->dir_fd, "mtime");
	r = hold_mtime(&t, b, b->lower_fd, true);
	if (r == 0)
		r = open_again(b->lower_fd, &root);
	if (r == 0)
		r = remove_stage(b, root, cut_off);
	if (r == 0) {
		r = release_mtime(&t);
		/* Only the base could not be saved, which is still due. */
		if (is_full(r))
			r = 0;
	}
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot remove '.sandlock-%s' from '%s'",
				 b->meta.name, b->meta.lower)
		     : 0;
}

static int make_lower_stage(struct site *s, struct error *err)
{
	char name[STAGE_NAME_LEN];
	struct root_time t;
	int r = hold_mtime(&t, s->branch, s->lower_fd, false);

	if (r == 0)
		r = make_stage(s, name);
	branch_step("stage made");
	if (r == 0)
		r = open_dir(s->lower_fd, name, &s->stage_fd);
	if (r == 0)
		r = check_stage(s->stage_fd);
	if (r == 0)
		r = claim_stage(s);
	if (r == 0)
		r = release_mtime(&t);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot make '%s/%s'",
				 s->branch->meta.lower, name)
		     : 0;
}

int site_make_stage(struct site *s, struct error *err)
{
	int r;

	if (mkdirat(s->dir_fd, "trash", 0700) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make '%s/trash'", s->branch->dir);
	r = open_dir(s->dir_fd, "trash", &s->trash_fd);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot open '%s/trash'",
				 s->branch->dir);
	s->stage_fd = s->trash_fd;
	r = s->staged ? make_lower_stage(s, err) : 0;
	return r < 0 ? r : probe_renames(s, err);
}

int site_find_stage(struct site *s, struct error *err)
{
	char name[STAGE_NAME_LEN];
	int r = open_dir(s->dir_fd, "trash", &s->trash_fd);

	s->stage_fd = s->trash_fd;
	if (r == 0 && s->staged)
		r = open_stage(s->branch, s->lower_fd, name, &s->stage_fd);
	return r < 0 ? error_set(err, ERR_TORN, -r,
				 "what the interrupted commit displaced is "
				 "gone from '%s'",
				 s->staged ? s->branch->meta.lower
					   : s->branch->dir)
		     : 0;
}

int site_discard_stage(struct site *s, struct branch *b, struct error *err)
{
	int r = 0, cleared;

	if (unlinkat(b->dir_fd, "trash", AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = store_discard(b, b->dir_fd, "trash", err);
	if (s->stage_fd != s->trash_fd)
		cleanup_close(&s->stage_fd);
	cleanup_close(&s->trash_fd);
	s->trash_fd = s->stage_fd = -1;
	cleared = s->staged ? site_clear_lower(b, r < 0 ? NULL : err) : 0;
	return r < 0 ? r : cleared;
}

static int sync_dirs(const struct site *s, const struct plan *p)
{
	struct cursor c;
	int r = 0, fd;

	cursor_init(&c, p, s->lower_fd, true);
	for (uint32_t i = 0; i < p->n_dirs && r == 0; i++) {
		auto_close int real = -1;

		if (!(p->dirs[i].flags & (DIR_TOUCHED | DIR_META)) ||
		    (p->dirs[i].flags & (DIR_MOVED | DIR_LAZY)))
			continue;
		r = cursor_open(&c, i, &fd);
		if (r == -ENOENT && !(p->dirs[i].flags & DIR_IN_LOWER)) {
			r = 0; /* taken back */
			continue;
		}
		if (r == 0)
			r = open_again(fd, &real);
		if (r == 0 && fsync(real) < 0)
			r = -errno;
	}
	cursor_done(&c);
	if (r == 0 && fsync(s->stage_fd) < 0)
		r = -errno;
	return r;
}

int site_sync(const struct site *s, const struct plan *p, struct error *err)
{
	int r = -EACCES;

	if (p->n_ops <= SYNC_EACH_MAX && p->n_dirs <= SYNC_EACH_MAX &&
	    s->branch->meta.n_modes == 0)
		r = sync_dirs(s, p);
	/* Or its mode does not let us open one. */
	if (r == -EACCES)
		r = syncfs(s->lower_fd) < 0 ? -errno : 0;
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "cannot put '%s' on disk",
				 s->branch->meta.lower)
		     : 0;
}
