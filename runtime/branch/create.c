/*
 * Making a branch: on the path of every `sandlock run`, so nothing is synced,
 * nothing is read twice, and on one file system no path is walked.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "base/uapi.h"
#include "branch/internal.h"
#include "branch/walk.h"
#include "kernel/userns.h"

enum {
	STALE_AFTER_S = 2,
	MAKE_TRIES = 16,
	XATTR_BYTES = 64 * 1024, /* XATTR_LIST_MAX, XATTR_SIZE_MAX */
};

/*
 * An overlay compares names byte by byte, and so do we: "a" and "A" would be
 * two files in upper and one below. What cannot be asked (O_PATH) is not.
 */
static int check_names(int fd, const char *path, struct error *err)
{
	unsigned int flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 || !(flags & FS_CASEFOLD_FL))
		return 0;
	(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
			"names in '%s' are the same in upper and lower case, "
			"which no branch can be made over",
			path);
	return error_hint(err, "chattr -F it while it is empty, or write to "
			       "it without a branch");
}

static int open_lower(const char *path, int *ret_fd, char **ret_path,
		      struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char real[PATH_MAX];
	int r;

	if (fd < 0 && errno == EACCES)
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int sys = errno;

		(void)error_set(err, ERR_BUNDLE, sys,
				"cannot open the lower directory '%s'", path);
		(void)error_hint(err, "root.path of config.json, or the "
				      "workdir, must be a directory");
		return -sys;
	}
	r = check_names(fd, path, err);
	if (r < 0)
		return r;
	r = fd_path(fd, real);
	if (r == 0 && real[0] != '/')
		r = -ENOENT;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot tell the path of '%s'", path);
	*ret_path = strdup(real);
	if (!*ret_path)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot open '%s'",
				 path);
	*ret_fd = take_fd(&fd);
	return 0;
}

int branch_say_taken(struct store *st, const char *name, struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	struct error why = ERROR_INIT;
	int r = root_find(st, name, &b, &why);

	if (r < 0 && why.kind == ERR_TORN) {
		(void)error_say(err, ERR_EXISTS, EEXIST,
				"the name '%s' is taken by a damaged branch",
				name);
		return error_hint(err, "%s", why.hint);
	}
	if (r == 0 && root_is_running(b)) {
		(void)error_say(err, ERR_EXISTS, EEXIST,
				"the name '%s' is taken by a running sandbox",
				name);
		return branch_hint_running(b, err);
	}
	(void)error_say(err, ERR_EXISTS, EEXIST,
			"the name '%s' is taken by a branch", name);
	return error_hint(err,
			  "commit or abort it first: see 'sandlock diff "
			  "%s'",
			  name);
}

static bool is_old(const struct stat *st)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - st->st_ctim.tv_sec > STALE_AFTER_S;
}

/*
 * A branch gets its name when it is whole: what lacks meta.json is the rest of
 * one whose remover died, unless that is still at it.
 */
static bool is_stale_dir(struct storage *s, const char *name)
{
	auto_close int fd =
		openat(s->branches_fd, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_close int lock = -1;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT;
	if (fstatat(fd, "meta.json", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return false;
	lock = openat(fd, "lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (lock < 0 || lock_now(lock) == 0)
		(void)trash_put(s, s->branches_fd, name, true, NULL, NULL);
	return true;
}

/* The storage is there and the branch is not: its creator or remover died. */
static bool is_stale_link(struct store *st, const char *name,
			  const struct stat *link)
{
	char target[PATH_MAX];
	auto_close int parent = -1;
	char *slash;

	if (fd_read_link(st->home.branches_fd, name, target) < 0 ||
	    !is_old(link))
		return false;
	if (access(target, F_OK) == 0 || errno != ENOENT)
		return false;
	slash = strrchr(target, '/');
	if (!slash)
		return false;
	*slash = '\0';
	parent = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return false;
	(void)unlinkat(st->home.branches_fd, name, 0);
	return true;
}

bool store_is_stale(struct store *st, const char *name)
{
	struct stat s;

	if (fstatat(st->home.branches_fd, name, &s, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (S_ISLNK(s.st_mode))
		return is_stale_link(st, name, &s);
	return S_ISDIR(s.st_mode) ? is_stale_dir(&st->home, name) : true;
}

static bool is_overlay_xattr(const char *name)
{
	return strncmp(name, "user.overlay.", 13) == 0 ||
	       strncmp(name, "trusted.overlay.", 16) == 0;
}

struct root_copy {
	struct branch *b;
	int from_fd, to_fd;
	const struct stat *from;
};

static void copy_xattr(const struct root_copy *c, const char *from,
		       const char *name)
{
	auto_free char *value = malloc(XATTR_BYTES);
	ssize_t n = value ? getxattr(from, name, value, XATTR_BYTES) : -1;

	if (n >= 0 && fsetxattr(c->to_fd, name, value, (size_t)n, 0) < 0)
		log_debug(c->b->log, "cannot copy '%s' of '%s': %s", name,
			  c->b->meta.lower, strerror(errno));
}

/*
 * Best effort: the root of upper is recorded as it is and what could not be
 * copied is no change. Through /proc, since the lower may be O_PATH.
 */
static void copy_xattrs(const struct root_copy *c)
{
	char from[FD_PATH_MAX];
	auto_free char *names = NULL;
	ssize_t n;

	if (listxattr(fd_proc_path(c->from_fd, from), NULL, 0) <= 0)
		return;
	names = malloc(XATTR_BYTES);
	n = names ? listxattr(from, names, XATTR_BYTES) : -1;
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		if (!is_overlay_xattr(names + i))
			copy_xattr(c, from, names + i);
	}
}

static int copy_root(void *data, int out_fd, struct error *err)
{
	const struct root_copy *c = data;
	const struct stat *from = c->from;
	const struct timespec times[2] = { from->st_atim, from->st_mtim };
	struct stat st;
	int r = 0;

	if (fstat(c->to_fd, &st) < 0)
		return -errno;
	if ((st.st_uid != from->st_uid || st.st_gid != from->st_gid) &&
	    fchown(c->to_fd, from->st_uid, from->st_gid) < 0)
		r = -errno;
	copy_xattrs(c);
	if (fchmod(c->to_fd, from->st_mode & 07777) < 0 ||
	    futimens(c->to_fd, times) < 0)
		return -errno;
	return r;
}

/* As the map shows it to the child, where it has to be one. */
static int copy_root_inside(void *data, int out_fd, struct error *err)
{
	struct root_copy *c = data;
	struct stat st;

	if (fstat(c->from_fd, &st) < 0)
		return -errno;
	c->from = &st;
	return copy_root(c, out_fd, err);
}

int branch_copy_root(struct branch *b, int from_fd, const struct stat *from,
		     int to_fd, struct error *err)
{
	struct root_copy c = { b, from_fd, to_fd, from };
	int r = copy_root(&c, -1, err);

	/*
	 * A root that a subordinate id owns is given to it by root of the
	 * namespace; one of a stranger's stays ours.
	 */
	if (r == -EPERM && branch_needs_userns(&b->meta) &&
	    idmap_has_outside(&b->meta.idmap.uids, from->st_uid) &&
	    idmap_has_outside(&b->meta.idmap.gids, from->st_gid))
		r = branch_enter(b, copy_root_inside, NULL, &c, err);
	else if (r == -EPERM)
		r = 0;
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot prepare '%s'",
				 b->upper);
	return 0;
}

static int make_dir(int dir_fd, const char *name, int *ret_fd)
{
	if (mkdirat(dir_fd, name, 0700) < 0)
		return -errno;
	*ret_fd = openat(dir_fd, name,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/*
 * From a file of ours, which the same clock stamps. From Linux 6.13 on a file
 * that was looked at is stamped with a finer time when it changes, and no file
 * with an older one from then on: so all that the host does in the rest of the
 * tick is as young as that, and all that it did before is older.
 */
static int find_base_time(int fd, struct timespec *ret)
{
	struct stat before, after;

	if (fstat(fd, &before) < 0 || fchmod(fd, 0600) < 0 ||
	    fstat(fd, &after) < 0)
		return -errno;
	*ret = before.st_ctim;
	if (time_compare(&after.st_ctim, &before.st_ctim) <= 0)
		return 0;
	*ret = after.st_ctim;
	if (ret->tv_nsec > 0)
		ret->tv_nsec--;
	return 0;
}

static int make_lock(struct branch *b)
{
	int r;

	b->lock_fd = openat(b->dir_fd, "lock",
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (b->lock_fd < 0)
		return -errno;
	r = lock_now(b->lock_fd);
	if (r < 0)
		return r;
	b->locked = true;
	return find_base_time(b->lock_fd, &b->meta.base_time);
}

static int cannot_make(const struct branch *b, int sys, struct error *err)
{
	(void)error_set(err, ERR_SYSTEM, sys, "cannot make '%s'", b->dir);
	return storage_advise(sys, err);
}

/* By it every verb finds a branch that lies elsewhere. */
static int cannot_link(const struct branch *b, int sys, struct error *err)
{
	(void)error_set(err, ERR_SYSTEM, sys,
			"cannot make the link '%s/branches/%s'",
			b->store->home.path, b->meta.name);
	return error_hint(err, "choose a writable store with SANDLOCK_STORE");
}

static int make_parts(struct branch *b, const struct stat *lower,
		      struct error *err)
{
	int r = make_lock(b);

	if (r == 0)
		r = make_dir(b->dir_fd, "upper", &b->upper_fd);
	if (r == 0)
		r = make_dir(b->dir_fd, "work", &b->work_fd);
	if (r < 0)
		return cannot_make(b, -r, err);
	r = branch_copy_root(b, b->lower_fd, lower, b->upper_fd, err);
	if (r < 0)
		return r;
	(void)clock_gettime(CLOCK_REALTIME, &b->meta.created);
	return branch_save(b, false, err);
}

/*
 * A branch is built in the trash: if its creator dies the next verb clears it
 * away, and nobody ever finds half of one under its name.
 */
struct cradle {
	int trash_fd;
	char name[TRASH_NAME_MAX];
};

static void cradle_done(struct cradle *c)
{
	if (c->trash_fd >= 0)
		(void)close(c->trash_fd);
}

static int open_cradle(struct branch *b, struct cradle *c, struct error *err)
{
	int r = trash_new(b->home, &c->trash_fd, c->name, &b->dir_fd);

	return r < 0 ? cannot_make(b, -r, err) : 0;
}

/*
 * A rename or a symlink claims the name: neither replaces anything but an
 * empty directory, which is no branch.
 */
static int claim(struct branch *b, const struct cradle *c, struct error *err)
{
	int home = b->store->home.branches_fd;
	const char *name = b->meta.name;

	if (b->linked && symlinkat(b->dir, home, name) < 0)
		return errno == EEXIST ? -EEXIST : cannot_link(b, errno, err);
	if (renameat(c->trash_fd, c->name, b->home->branches_fd, name) < 0) {
		int sys = errno;

		if (b->linked)
			(void)unlinkat(home, name, 0);
		return sys == ENOTEMPTY || sys == ENOTDIR
			       ? -EEXIST
			       : cannot_make(b, sys, err);
	}
	/* In the trash it belonged to us by this. */
	unlock(b->dir_fd);
	return 0;
}

static int build_and_claim(struct branch *b, const struct stat *lower,
			   struct error *err)
{
	auto_(cradle) struct cradle c = { .trash_fd = -1 };
	int r = open_cradle(b, &c, err);

	if (r < 0)
		return r;
	r = make_parts(b, lower, err);
	if (r == 0) {
		r = claim(b, &c, err);
		if (r == -EEXIST)
			(void)branch_say_taken(b->store, b->meta.name, err);
	}
	if (r < 0)
		(void)remove_small(b, c.trash_fd, c.name);
	return r;
}

static char **copy_argv(const char *const *argv)
{
	size_t n = 0;
	char **copy;

	while (argv[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(argv[i]);
		if (copy[i])
			continue;
		while (i > 0)
			free(copy[--i]);
		free(copy);
		return NULL;
	}
	return copy;
}

static int fill_meta(struct branch_meta *m, const struct branch_options *o,
		     char *lower, const struct stat *st)
{
	bool nested = geteuid() != 0 || userns_initial_uid() != 0;
	int r;

	m->version = BRANCH_META_VERSION;
	m->lower = lower;
	m->lower_dev = st->st_dev;
	m->lower_ino = st->st_ino;
	m->notify = o->notify;
	m->hidden = o->hidden;
	/* Who acts for a caller that is root has no more capabilities. */
	m->userxattr = nested || o->notify || !idmap_is_empty(&o->idmap);
	m->durable = o->durable;
	m->quota_bytes = o->quota_bytes;
	m->n_roots = o->n_more_lowers ? (unsigned int)o->n_more_lowers + 1 : 0;
	m->on_exit = o->on_exit;
	m->on_error = o->on_error;
	m->name = strdup(o->name);
	if (!m->name)
		return -ENOMEM;
	if (o->bundle) {
		m->bundle = strdup(o->bundle);
		if (!m->bundle)
			return -ENOMEM;
	}
	if (o->argv) {
		m->argv = copy_argv(o->argv);
		if (!m->argv)
			return -ENOMEM;
	}
	r = idmap_copy(&o->idmap, &m->idmap);
	return r < 0 ? r : proc_boot_id(m->boot_id);
}

static int set_home(struct branch *b, const struct branch_options *o,
		    struct error *err)
{
	int r = store_choose(b->store, o, b->lower_fd, b->meta.lower,
			     &b->elsewhere, &b->meta.staged, err);

	if (r < 0)
		return r;
	b->home = &b->store->home;
	if (b->elsewhere.branches_fd >= 0 &&
	    strcmp(b->elsewhere.path, b->store->home.path) != 0) {
		b->home = &b->elsewhere;
		b->linked = true;
		b->meta.storage_dirs = b->elsewhere.n_made;
		trash_resume(b->home, TRASH_LAZY_MAX);
	}
	return branch_set_paths(b, o->name)
		       ? 0
		       : error_set(err, ERR_SYSTEM, ENOMEM,
				   "cannot make branch '%s'", o->name);
}

static int prepare(struct branch *b, const struct branch_options *o,
		   struct error *err)
{
	struct stat st;
	char *lower = NULL;
	int r = open_lower(o->lower, &b->lower_fd, &lower, err);

	if (r < 0)
		return r;
	if (fstat(b->lower_fd, &st) < 0) {
		free(lower);
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 o->lower);
	}
	r = fill_meta(&b->meta, o, lower, &st);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot make branch '%s'",
				 o->name);
	return set_home(b, o, err);
}

int root_begin(struct store *st, const struct branch_options *o,
	       struct branch **ret, struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	int r;

	r = store_make(st, err);
	if (r < 0)
		return r;
	b = branch_alloc(st);
	if (!b)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot make branch '%s'", o->name);
	r = prepare(b, o, err);
	if (r == 0 && !store_is_stale(st, o->name))
		r = branch_say_taken(st, o->name, err);
	if (r < 0) {
		branch_drop_storage(b);
		return r;
	}
	*ret = take_ptr(&b);
	return 0;
}

static void close_parts(struct branch *b)
{
	int *const fds[] = { &b->dir_fd, &b->lock_fd, &b->upper_fd,
			     &b->work_fd };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		cleanup_close(fds[i]);
		*fds[i] = -1;
	}
	b->locked = false;
}

/* Its storage was taken away with the branch that it had been made for. */
static int make_storage_again(struct branch *b, struct error *err)
{
	auto_(storage) struct storage s = STORAGE_INIT;
	int r = storage_open(b->home->path, true, &s, err);

	if (r < 0)
		return r;
	storage_done(b->home);
	*b->home = s;
	s = (struct storage)STORAGE_INIT;
	b->meta.storage_dirs = b->home->n_made;
	return 0;
}

int root_make(struct branch *b, struct error *err)
{
	struct stat lower;
	int r;

	if (fstat(b->lower_fd, &lower) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 b->meta.lower);
	r = build_and_claim(b, &lower, err);
	for (int i = 0; r == -ENOENT && b->linked && i < MAKE_TRIES; i++) {
		close_parts(b);
		r = make_storage_again(b, err);
		if (r == 0)
			r = build_and_claim(b, &lower, err);
	}
	/* Nothing is there to be discarded: the name may be somebody's. */
	if (r < 0) {
		close_parts(b);
		branch_drop_storage(b);
	}
	return r;
}
