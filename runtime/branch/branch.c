#include "branch/branch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/uapi.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/merged.h"
#include "branch/origin.h"
#include "branch/recover.h"

enum {
	LOCK_POLL_NS = 5 * 1000 * 1000,
	DISCARD_WAIT_MS = 5000,
	OPEN_TRIES = 16,
};

const char *branch_state_name(enum branch_state s)
{
	switch (s) {
	case BRANCH_OPEN:
		return "open";
	case BRANCH_INTERRUPTED:
		return "interrupted";
	case BRANCH_TORN:
		return "torn";
	case BRANCH_PENDING:
		return "pending";
	case BRANCH_COMMITTING:
		return "committing";
	case BRANCH_COMMITTED:
		return "committed";
	}
	return "unknown";
}

struct branch *branch_alloc(struct store *st)
{
	struct branch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->store = st;
	b->log = st->log;
	b->home = &st->home;
	b->elsewhere = (struct storage)STORAGE_INIT;
	b->dir_fd = b->upper_fd = b->work_fd = b->lower_fd = b->lock_fd = -1;
	b->layers_fd = -1;
	return b;
}

bool branch_set_paths(struct branch *b, const char *name)
{
	b->dir = path_join(b->home->branches, name);
	b->upper = b->dir ? path_join(b->dir, "upper") : NULL;
	return b->upper;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

void branch_close(struct branch *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->n_others; i++)
		branch_close(b->others[i]);
	free(b->others);
	branch_unlock(b);
	layers_close(b);
	close_if_open(b->dir_fd);
	close_if_open(b->upper_fd);
	close_if_open(b->work_fd);
	close_if_open(b->lower_fd);
	close_if_open(b->lock_fd);
	storage_done(&b->elsewhere);
	meta_done(&b->meta);
	free(b->dir);
	free(b->upper);
	free(b);
}

const char *branch_name(const struct branch *b)
{
	return b->meta.name;
}

const char *branch_dir(const struct branch *b)
{
	return b->dir;
}

const char *branch_upper(const struct branch *b)
{
	return b->upper;
}

bool branch_has_idmap(const struct branch *b, const struct idmap *m)
{
	return idmap_is_equal(&b->meta.idmap, m);
}

const char *branch_lower(const struct branch *b)
{
	return b->meta.lower;
}

int branch_stat_lower(const struct branch *b, struct stat *ret,
		      struct error *err)
{
	if (fstat(b->lower_fd, ret) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 b->meta.lower);
	return 0;
}

const char *branch_storage(const struct branch *b)
{
	return b->home->branches;
}

size_t branch_n_layers(const struct branch *b)
{
	return b->n_layers;
}

char *branch_layer(const struct branch *b, size_t i)
{
	return layers_path(b, b->n_layers - 1 - i);
}

struct merged *branch_merged(const struct branch *b)
{
	auto_ptr(merged_free) struct merged *m = merged_new(
		b->lower_fd, b->upper_fd, b->work_fd, branch_xattr_prefix(b));
	int r = 0;

	if (m)
		origin_note_copies(b, m);
	for (size_t i = 0; m && i < b->n_layers && r == 0; i++)
		r = merged_add_layer(m, b->layers[b->n_layers - 1 - i].fd);
	errno = r < 0 ? -r : errno;
	return r < 0 ? NULL : take_ptr(&m);
}

const char *branch_xattr_prefix(const struct branch *b)
{
	return b->meta.userxattr ? "user.overlay." : "trusted.overlay.";
}

/* -1 where it is gone, unreadable, or not the directory of the start. */
static int open_lower_again(const struct branch_meta *m)
{
	auto_close int fd = open(m->lower, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == EACCES)
		fd = open(m->lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	return st.st_ino == m->lower_ino ? take_fd(&fd) : -1;
}

static const int dir_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/* A mode the caller may not read: as root of the user namespace. */
static void open_upper(struct branch *b)
{
	close_if_open(b->upper_fd);
	b->upper_fd = openat(b->dir_fd, "upper", dir_flags);
	if (b->upper_fd < 0 && errno == EACCES)
		b->upper_fd = openat(b->dir_fd, "upper", dir_flags | O_PATH);
}

static bool is_still_upper(const struct branch *b)
{
	struct stat st, now;

	return b->upper_fd < 0 || fstat(b->upper_fd, &st) < 0 ||
	       fstatat(b->dir_fd, "upper", &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	       st.st_ino == now.st_ino;
}

/* Without the lock: a stage may begin, or be undone, between the two. */
static int open_uppers(struct branch *b, struct error *err)
{
	int r = 0;

	for (int i = 0; i < OPEN_TRIES && r == 0; i++) {
		open_upper(b);
		r = layers_open(b);
		if (r == 0 && is_still_upper(b))
			return 0;
	}
	return error_set(err, ERR_SYSTEM, r < 0 ? -r : EBUSY,
			 "cannot open the layers of branch '%s'", b->meta.name);
}

/* On a disk that became read-only a branch can still be looked at. */
static int open_lock(int dir_fd)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = openat(dir_fd, "lock", O_RDWR | flags);

	return fd < 0 && errno == EROFS
		       ? openat(dir_fd, "lock", O_RDONLY | flags)
		       : fd;
}

/* Opens what is in dir_fd: lock, upper, layers, work, lower. */
static int open_parts(struct branch *b, struct error *err)
{
	b->lock_fd = open_lock(b->dir_fd);
	if (b->lock_fd < 0)
		return error_set(err, ERR_TORN, errno,
				 "cannot open the lock of branch '%s'",
				 b->meta.name);
	b->work_fd = openat(b->dir_fd, "work", dir_flags);
	b->lower_fd = open_lower_again(&b->meta);
	return open_uppers(b, err);
}

static int open_dir_of(struct branch *b, const char *name)
{
	b->dir_fd = openat(b->home->branches_fd, name,
			   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return b->dir_fd < 0 ? -errno : 0;
}

static int not_found(const char *name, struct error *err)
{
	(void)error_say(err, ERR_NOT_FOUND, ENOENT, "no branch named '%s'",
			name);
	(void)error_hint(err, "committed, discarded or empty? 'sandlock "
			      "branches' lists what waits");
	/* Callers that only ask whether it exists pass no @err. */
	return -ENOENT;
}

/* The default store holds a link "<storage>/branches/<name>". */
static int follow_link(struct branch *b, const char *name, struct error *err)
{
	char target[PATH_MAX], tail[LIMIT_NAME + 16];
	size_t n_tail;
	ssize_t n;
	int r;

	n = readlinkat(b->home->branches_fd, name, target, sizeof(target));
	if (n < 0)
		return errno == ENOENT
			       ? not_found(name, err)
			       : error_set(err, ERR_TORN, errno,
					   "'%s' in the store is no branch",
					   name);
	n_tail = (size_t)snprintf(tail, sizeof(tail), "/branches/%s", name);
	if ((size_t)n == sizeof(target) || (size_t)n <= n_tail ||
	    target[0] != '/' || memcmp(target + n - n_tail, tail, n_tail) != 0)
		return error_say(err, ERR_TORN, EINVAL,
				 "the link '%s' in the store leads to no "
				 "branch",
				 name);
	target[(size_t)n - n_tail] = '\0';
	r = storage_open(target, false, &b->elsewhere, err);
	if (r == 0) {
		b->home = &b->elsewhere;
		b->linked = true;
		trash_resume(b->home, 1);
		r = open_dir_of(b, name);
		if (r == 0)
			return 0;
	} else if (r != -ENOENT) {
		return r;
	}
	(void)error_set(err, ERR_NOT_FOUND, -r,
			"branch '%s' is not in its storage '%s'", name, target);
	return error_hint(err,
			  "is that file system mounted? if it is lost, remove "
			  "the link '%s/branches/%s'",
			  b->store->home.path, name);
}

static int set_paths(struct branch *b, const char *name, struct error *err)
{
	return branch_set_paths(b, name)
		       ? 0
		       : error_set(err, ERR_SYSTEM, ENOMEM,
				   "cannot open branch '%s'", name);
}

/* An inode number alone may be used again. */
static void note_meta(struct branch *b, const struct stat *st)
{
	b->meta_ino = st->st_ino;
	b->meta_ctime = st->st_ctim;
}

static int read_meta(struct branch *b, const char *name, struct error *err)
{
	struct stat st;
	int r;

	if (fstatat(b->dir_fd, "meta.json", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
			       ? not_found(name, err)
			       : error_set(err, ERR_TORN, errno,
					   "cannot read branch '%s'", name);
	r = meta_read(b->dir_fd, &b->meta, err);
	if (r < 0) {
		(void)error_wrap(err, "branch '%s'", name);
		if (err && err->kind == ERR_TORN)
			(void)error_hint(err,
					 "what it wrote is in '%s'; who gives "
					 "it up removes '%s'",
					 b->upper, b->dir);
		return r;
	}
	if (strcmp(b->meta.name, name) != 0)
		return error_say(err, ERR_TORN, EINVAL,
				 "the branch in '%s' is named '%s'", b->dir,
				 b->meta.name);
	note_meta(b, &st);
	return 0;
}

int root_find(struct store *st, const char *name, struct branch **ret,
	      struct error *err)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	int r;

	if (st->home.branches_fd < 0) {
		r = storage_open(st->wanted, false, &st->home, err);
		if (r < 0)
			return r == -ENOENT ? not_found(name, err) : r;
	}
	b = branch_alloc(st);
	if (!b)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot open branch '%s'", name);
	r = open_dir_of(b, name);
	if (r == -ENOENT)
		return not_found(name, err);
	if (r == -ELOOP || r == -ENOTDIR)
		r = follow_link(b, name, err);
	else if (r < 0)
		r = error_set(err, ERR_SYSTEM, -r, "cannot open branch '%s'",
			      name);
	if (r == 0)
		r = set_paths(b, name, err);
	if (r == 0)
		r = read_meta(b, name, err);
	if (r == 0)
		r = open_parts(b, err);
	if (r < 0)
		return r;
	*ret = take_ptr(&b);
	return 0;
}

int branch_save(struct branch *b, bool durable, struct error *err)
{
	struct stat st;
	int r = meta_write(b->dir_fd, &b->meta, durable, err);

	if (r == 0 && fstatat(b->dir_fd, "meta.json", &st, 0) == 0)
		note_meta(b, &st);
	return r;
}

/* What was removed is in the trash for a while, whole. */
bool branch_is_there(const struct branch *b)
{
	struct stat here, now;

	return fstatat(b->home->branches_fd, b->meta.name, &now,
		       AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(b->dir_fd, &here) == 0 && here.st_ino == now.st_ino &&
	       here.st_dev == now.st_dev;
}

/*
 * Who removes a branch tells those that wait for its lock what became of it, in
 * the file that they hold.
 */
static const char committed_note[] = "committed\n";

static void note_end(const struct branch *b)
{
	ssize_t n = 0;

	if (root_has(b, "done"))
		n = pwrite(b->lock_fd, committed_note,
			   sizeof(committed_note) - 1, 0);
	/* What is not written is called gone, as what was aborted. */
	(void)n;
}

static bool was_committed(const struct branch *b)
{
	char text[sizeof(committed_note)];
	ssize_t n = pread(b->lock_fd, text, sizeof(text), 0);

	return n == sizeof(committed_note) - 1 &&
	       memcmp(text, committed_note, (size_t)n) == 0;
}

static int say_gone(struct branch *b, struct error *err)
{
	b->was_committed = was_committed(b);
	return error_say(err, ERR_NOT_FOUND, ENOENT,
			 b->was_committed
				 ? "branch '%s' was committed meanwhile"
				 : "branch '%s' is gone: committed or "
				   "aborted meanwhile",
			 b->meta.name);
}

int branch_refresh(struct branch *b, struct error *err)
{
	auto_(meta) struct branch_meta fresh = { 0 };
	struct stat st;
	int r;

	if (!branch_is_there(b) ||
	    fstatat(b->dir_fd, "meta.json", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return say_gone(b, err);
	if (st.st_ino == b->meta_ino &&
	    st.st_ctim.tv_sec == b->meta_ctime.tv_sec &&
	    st.st_ctim.tv_nsec == b->meta_ctime.tv_nsec)
		return 0;
	r = meta_read(b->dir_fd, &fresh, err);
	if (r < 0)
		return error_wrap(err, "branch '%s'", b->meta.name);
	meta_done(&b->meta);
	b->meta = fresh;
	fresh = (struct branch_meta){ 0 };
	note_meta(b, &st);
	return open_uppers(b, err);
}

int lock_now(int fd)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

void unlock(int fd)
{
	while (flock(fd, LOCK_UN) < 0 && errno == EINTR)
		;
}

static int wait_for_lock(int fd, int timeout_ms)
{
	const struct timespec nap = { .tv_nsec = LOCK_POLL_NS };
	int64_t deadline = 0;
	int r;

	while ((r = lock_now(fd)) < 0) {
		if (r != -EWOULDBLOCK)
			return r;
		if (!deadline)
			deadline = clock_now_ms() + timeout_ms;
		if (clock_now_ms() >= deadline)
			return -EWOULDBLOCK;
		(void)nanosleep(&nap, NULL);
	}
	return 0;
}

int branch_lock(struct branch *b, int timeout_ms, struct error *err)
{
	int r;

	if (b->locked)
		return 0;
	r = wait_for_lock(b->lock_fd, timeout_ms);
	if (r == -EWOULDBLOCK)
		return error_say(err, ERR_LOCKED, EWOULDBLOCK,
				 "branch '%s' is in use by another process "
				 "('%s/lock')",
				 b->meta.name, b->dir);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot lock branch '%s'",
				 b->meta.name);
	b->locked = true;
	r = branch_refresh(b, err);
	if (r < 0)
		branch_unlock(b);
	return r;
}

/* LOCK_UN, not close: a child that was forked meanwhile shares the lock. */
void branch_unlock(struct branch *b)
{
	if (b->locked)
		unlock(b->lock_fd);
	b->locked = false;
}

/*
 * What is in upper when a later stage begins is what earlier ones wrote, or is
 * recorded: a parent, or the root, may have been changed since.
 */
static int record_new(struct branch *b, const char *path)
{
	struct branch_meta *m = &b->meta;
	struct stat st;

	if (!*path || record_find(m->made, m->n_made, path) ||
	    fstatat(b->upper_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return record_put(&m->made, &m->n_made, path, &st);
}

/* Records @path and its parents as they are in upper now. */
static int record_made(struct branch *b, const char *path)
{
	struct branch_meta *m = &b->meta;
	auto_free char *part = strdup(path);
	struct stat st;

	if (!part)
		return -ENOMEM;
	if (b->joined)
		return record_new(b, path);
	for (;;) {
		char *slash = strrchr(part, '/');
		int flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;

		if (fstatat(b->upper_fd, part, &st, flags) == 0) {
			int r = record_put(&m->made, &m->n_made, part, &st);

			if (r < 0)
				return r;
		}
		if (part[0] == '\0')
			return 0;
		*(slash ? slash : part) = '\0';
		/* The parents of a recorded parent are recorded. */
		if (part[0] && record_find(m->made, m->n_made, part))
			return 0;
	}
}

static int record_all(struct branch *b, const char *const *paths, size_t n,
		      struct error *err)
{
	int r = record_made(b, "");

	for (size_t i = 0; r == 0 && i < n; i++) {
		auto_free char *normal = path_normalize(paths[i]);
		const char *p = normal;

		while (p && *p == '/')
			p++;
		if (!p)
			r = -ENOMEM;
		else if (strcmp(p, "..") != 0 && strncmp(p, "../", 3) != 0)
			r = record_made(b, strcmp(p, ".") == 0 ? "" : p);
	}
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot record what was made in branch '%s'",
				 b->meta.name);
	return 0;
}

int root_set_running(struct branch *b, const char *const *paths, size_t n,
		     const struct proc_id *init, struct error *err)
{
	int r = branch_lock(b, 0, err);

	if (r == 0)
		r = record_all(b, paths, n, err);
	if (r < 0)
		return r;
	b->meta.init = *init;
	r = branch_save(b, false, err);
	branch_unlock(b);
	return r;
}

static bool has_file(const struct branch *b, const char *name)
{
	struct stat st;

	return fstatat(b->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_other_boot(const struct branch *b)
{
	char now[BOOT_ID_LEN + 1];

	return proc_boot_id(now) < 0 || strcmp(now, b->meta.boot_id) != 0;
}

int root_get_state(struct branch *b, enum branch_state *ret, struct error *err)
{
	int r;

	if (has_file(b, "done")) {
		*ret = BRANCH_COMMITTED;
		return 0;
	}
	if (has_file(b, "intent")) {
		*ret = BRANCH_COMMITTING;
		return 0;
	}
	/*
	 * The marker goes when everything is on disk: a branch that has it
	 * still may have lost data at a reboot, settled or not.
	 */
	if (is_other_boot(b) && (!b->meta.settled || branch_has_marker(b))) {
		*ret = BRANCH_TORN;
		return 0;
	}
	if (b->meta.settled) {
		*ret = BRANCH_PENDING;
		return 0;
	}
	r = branch_is_alive(b, err);
	if (r < 0)
		return r;
	*ret = r ? BRANCH_OPEN : BRANCH_INTERRUPTED;
	return 0;
}

bool root_is_running(struct branch *b)
{
	enum branch_state state;

	return root_get_state(b, &state, NULL) == 0 && state == BRANCH_OPEN &&
	       proc_is_alive(&b->meta.init);
}

static int remove_link(struct branch *b, struct error *err)
{
	if (!b->linked)
		return 0;
	if (unlinkat(b->store->home.branches_fd, b->meta.name, 0) == 0 ||
	    errno == ENOENT)
		return 0;
	return error_set(err, ERR_SYSTEM, errno,
			 "cannot remove the link to branch '%s'", b->meta.name);
}

static int finish_removal(struct branch *b, int r, struct error *err)
{
	if (r < 0)
		r = remove_small(b, b->home->branches_fd, b->meta.name) == 0
			    ? 0
			    : r;
	if (r == 0)
		r = remove_link(b, err);
	if (r == 0)
		branch_drop_storage(b);
	branch_unlock(b);
	return r;
}

/*
 * Not in place, however small: freeing a few directories takes 20 us on one
 * disk and 20 ms on another (ext4 without a journal discards each at once).
 * The name is free only when the directory is gone: the link goes last.
 */
int branch_remove(struct branch *b, struct error *err)
{
	int r;

	note_end(b);
	r = trash_put(b->home, b->home->branches_fd, b->meta.name, true,
		      &b->meta, err);
	return finish_removal(b, r, err);
}

int branch_remove_empty(struct branch *b, struct error *err)
{
	int r = -ENOTEMPTY;

	/* From the trash it would go later, and keep the storage. */
	if (b->meta.storage_dirs)
		r = remove_small(b, b->home->branches_fd, b->meta.name);
	if (r < 0)
		r = trash_put_lazily(b->home, b->home->branches_fd,
				     b->meta.name, err);
	return finish_removal(b, r, err);
}

/* Of a creation that failed nothing is left when that is reported. */
void root_discard(struct branch *b)
{
	/* Not while a waiter settles it; what is gone needs nothing. */
	if (!b)
		return;
	if (b->dir_fd < 0) {
		branch_drop_storage(b);
		return;
	}
	if (branch_lock(b, DISCARD_WAIT_MS, NULL) < 0)
		return;
	if (remove_small(b, b->home->branches_fd, b->meta.name) < 0)
		(void)branch_remove(b, NULL);
	else
		(void)finish_removal(b, 0, NULL);
}
