/*
 * Removal that nobody waits for. What is to go is renamed to
 * <storage>/trash/<unique>/ and removed by a detached child that holds a flock
 * on that directory; whoever meets an entry with a free lock goes on with it.
 * An entry holds meta.json where id maps are needed to remove it: last to go.
 *
 * An empty branch is a handful of directories, and the fork would cost a run
 * more than everything else that is done about it. Those are left until
 * TRASH_LAZY_MAX of them are there, or a verb other than run and create comes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "branch/cradles.h"
#include "branch/internal.h"
#include "branch/trash.h"
#include "kernel/mount.h"
#include "kernel/pidfd.h"
#include "kernel/userns.h"

#define META_NAME "meta.json"
#define NEW_PREFIX "~new-"

enum {
	UNIQUE_LEN = 24,
	SWEEP_TRIES = 5,
	SWEEP_NAP_NS = 200 * 1000 * 1000,
	IOPRIO_LOW = 2 << 13 | 7, /* IOPRIO_CLASS_BE, the lowest of it */
	NICE = 5,		  /* 19 would starve it on a busy host */
	REMOVAL_WAIT_MS = 1000,
};

static int unique_name(char ret[UNIQUE_LEN])
{
	uint64_t salt;

	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return -errno;
	(void)snprintf(ret, UNIQUE_LEN, "~%016llx", (unsigned long long)salt);
	return 0;
}

static bool is_dot(const char *name)
{
	return name[0] == '.' &&
	       (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/*
 * Directories are emptied level by level: a directory below the entry that is
 * not empty is moved up into the entry and gets its turn. So neither depth nor
 * width costs memory or fds, and a kill at any point leaves a smaller entry.
 */
struct sweep {
	int top_fd;
	uint64_t serial;
	const char *last; /* goes when all else has, or NULL */
};

static int move_up(struct sweep *s, int dir_fd, const char *name)
{
	for (int i = 0; i < 64; i++) {
		char to[UNIQUE_LEN];

		(void)snprintf(to, sizeof(to), "~%016llx",
			       (unsigned long long)s->serial++);
		if (renameat2(dir_fd, name, s->top_fd, to, RENAME_NOREPLACE) ==
		    0)
			return 0;
		/* Moving a directory takes write permission on it. */
		if (errno == EACCES && fchmodat(dir_fd, name, 0700, 0) < 0)
			return -errno;
		if (errno != EEXIST && errno != EACCES)
			return -errno;
	}
	return -EEXIST;
}

/*
 * What a commit displaced may be immutable, or lie in a directory that is.
 * Returns true if a flag was taken away.
 */
static bool clear_flags(int dir_fd, const char *name)
{
	auto_close int fd = openat(
		dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const int fixed = FS_IMMUTABLE_FL | FS_APPEND_FL;
	struct stat st;
	int flags;

	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
	    ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 || !(flags & fixed))
		return false;
	flags &= ~fixed;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

static int remove_once(struct sweep *s, int dir_fd, const struct dirent *d)
{
	if (d->d_type != DT_DIR) {
		if (unlinkat(dir_fd, d->d_name, 0) == 0)
			return 0;
		if (errno != EISDIR && errno != EPERM)
			return -errno;
	}
	if (unlinkat(dir_fd, d->d_name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno == ENOTDIR)
		return -EPERM;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	return dir_fd == s->top_fd ? -ENOTEMPTY : move_up(s, dir_fd, d->d_name);
}

static bool is_file_or_dir(const struct dirent *d)
{
	return d->d_type == DT_REG || d->d_type == DT_DIR;
}

static int remove_one(struct sweep *s, int dir_fd, const struct dirent *d)
{
	int r = remove_once(s, dir_fd, d);
	bool cleared;

	if (r != -EPERM)
		return r;
	cleared = clear_flags(dir_fd, ".");
	if (is_file_or_dir(d) && clear_flags(dir_fd, d->d_name))
		cleared = true;
	return cleared ? remove_once(s, dir_fd, d) : r;
}

static int open_to_empty(int dir_fd, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir_fd, name, flags);

	if (fd < 0 && errno == EACCES && fchmodat(dir_fd, name, 0700, 0) == 0)
		fd = openat(dir_fd, name, flags);
	return fd < 0 ? -errno : fd;
}

/* Empties @name in the entry, one level. Returns how many objects went. */
static size_t empty_dir(struct sweep *s, const char *name)
{
	auto_close int fd = open_to_empty(s->top_fd, name);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;
	bool forced = false;
	size_t n = 0;

	if (!dir)
		return 0;
	fd = -1;
	while ((d = readdir(dir))) {
		int r;

		if (is_dot(d->d_name))
			continue;
		r = remove_one(s, dirfd(dir), d);
		if (r == -EACCES && !forced) {
			forced = true;
			(void)fchmod(dirfd(dir), 0700);
			r = remove_one(s, dirfd(dir), d);
		}
		n += r == 0;
	}
	return n;
}

/* One pass over the entry. Returns how many objects went. */
static size_t sweep_once(struct sweep *s, size_t *ret_left)
{
	auto_close int fd =
		openat(s->top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;
	size_t n = 0, left = 0;

	if (dir)
		fd = -1;
	while (dir && (d = readdir(dir))) {
		int r;

		if (is_dot(d->d_name) ||
		    (s->last && strcmp(d->d_name, s->last) == 0))
			continue;
		r = remove_one(s, s->top_fd, d);
		if (r == -ENOTEMPTY) {
			n += empty_dir(s, d->d_name);
			r = unlinkat(s->top_fd, d->d_name, AT_REMOVEDIR);
		}
		n += r == 0;
		left += r != 0;
	}
	*ret_left = left;
	return n;
}

/* Stops when it is empty, or when nothing more can be removed for a while. */
static void remove_with_last(int trash_fd, const char *name, int entry_fd,
			     const char *last)
{
	const struct timespec nap = { .tv_nsec = SWEEP_NAP_NS };
	struct sweep s = { .top_fd = entry_fd, .last = last };
	size_t left = 0;

	if (getrandom(&s.serial, sizeof(s.serial), 0) != sizeof(s.serial))
		return;
	for (int tries = 0; tries < SWEEP_TRIES; tries++) {
		while (sweep_once(&s, &left) > 0)
			;
		if (left == 0)
			break;
		(void)nanosleep(&nap, NULL);
	}
	if (left > 0)
		return;
	if (last)
		(void)unlinkat(entry_fd, last, 0);
	(void)unlinkat(trash_fd, name, AT_REMOVEDIR);
}

static void remove_entry(int trash_fd, const char *name, int entry_fd)
{
	remove_with_last(trash_fd, name, entry_fd, META_NAME);
}

void trash_remove_tree(int parent_fd, const char *name)
{
	auto_close int fd =
		openat(parent_fd, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* Whatever is called so is somebody else's. */
	if (fd >= 0)
		remove_with_last(parent_fd, name, fd, NULL);
}

/* In a child of its own where the objects need a user namespace. */
static void remove_with_maps(int trash_fd, const char *name, int entry_fd)
{
	auto_(meta) struct branch_meta m = { 0 };
	pid_t pid;

	if (meta_read(entry_fd, &m, NULL) < 0 || !branch_needs_userns(&m)) {
		remove_entry(trash_fd, name, entry_fd);
		return;
	}
	pid = fork();
	if (pid < 0)
		remove_entry(trash_fd, name, entry_fd);
	if (pid == 0) {
		(void)userns_enter(&m.idmap, false, NULL);
		remove_entry(trash_fd, name, entry_fd);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/*
 * In the instant between making and locking the directory of a new branch its
 * name alone tells that somebody is about to fill it.
 */
static bool is_being_made(const char *name)
{
	char *end;
	long pid;

	if (strncmp(name, NEW_PREFIX, strlen(NEW_PREFIX)) != 0)
		return false;
	pid = strtol(name + strlen(NEW_PREFIX), &end, 10);
	return *end == '-' && pid > 0 && pid <= INT_MAX &&
	       (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

/* The fd of an entry with its lock held, or -1. */
static int lock_entry(int trash_fd, const char *name)
{
	auto_close int fd = -1;

	if (is_being_made(name))
		return -1;
	fd = openat(trash_fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || lock_now(fd) < 0)
		return -1;
	return take_fd(&fd);
}

static DIR *open_trash_dir(int trash_fd)
{
	auto_close int fd =
		openat(trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		(void)take_fd(&fd);
	return dir;
}

/* The first entry nobody is at work on; its name in @ret_name. */
static int find_free(int trash_fd, char ret_name[NAME_MAX + 1])
{
	auto_dir DIR *dir = open_trash_dir(trash_fd);
	const struct dirent *d;

	while (dir && (d = readdir(dir))) {
		int fd;

		if (is_dot(d->d_name))
			continue;
		fd = lock_entry(trash_fd, d->d_name);
		if (fd < 0)
			continue;
		(void)snprintf(ret_name, NAME_MAX + 1, "%s", d->d_name);
		return fd;
	}
	return -1;
}

void trash_remove_free(int dir_fd)
{
	auto_dir DIR *dir = open_trash_dir(dir_fd);
	const struct dirent *d;

	while (dir && (d = readdir(dir))) {
		auto_close int fd = -1;

		if (is_dot(d->d_name))
			continue;
		fd = lock_entry(dir_fd, d->d_name);
		if (fd >= 0)
			remove_with_maps(dir_fd, d->d_name, fd);
	}
}

/*
 * Nothing of the caller stays with the child: no pipe that somebody reads to
 * its end, no lock, no terminal, no working directory, and later no signal
 * handler. The caller waits for it: a directory may be unmounted afterwards.
 */
static void let_go_of_all(int *trash_fd, int *entry_fd)
{
	int null_fd;

	/* Above what is about to be replaced. */
	*trash_fd = fcntl(*trash_fd, F_DUPFD_CLOEXEC, 16);
	*entry_fd = fcntl(*entry_fd, F_DUPFD_CLOEXEC, 16);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2; fd++) {
		(void)close(fd);
		if (null_fd >= 0 && null_fd != fd)
			(void)dup2(null_fd, fd);
	}
	if (*trash_fd < 0 || *entry_fd < 0)
		_exit(1);
	(void)dup3(*trash_fd, 3, O_CLOEXEC);
	(void)dup3(*entry_fd, 4, O_CLOEXEC);
	*trash_fd = 3;
	*entry_fd = 4;
	(void)syscall(SYS_close_range, 5, ~0u, 0);
	(void)!chdir("/");
}

static void become_remover(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &dfl, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_NAME, "sandlock-trash");
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	(void)syscall(SYS_ioprio_set, 1, 0, IOPRIO_LOW);
}

/* That nobody unmounts. */
static bool is_on_root(int fd)
{
	auto_close int root_fd = open("/", O_PATH | O_CLOEXEC);
	uint64_t root, id;

	return root_fd >= 0 && mount_id(root_fd, &root) == 0 &&
	       mount_id(fd, &id) == 0 && id == root;
}

/*
 * Who has worked on a disk may unmount it when we have returned. We should not
 * be what keeps it in use, unless there is much to remove.
 */
static void wait_a_little(int trash_fd, pid_t pid)
{
	auto_close int fd = is_on_root(trash_fd) ? -1 : pidfd_open_pid(pid);

	if (fd >= 0)
		(void)pidfd_wait(fd, REMOVAL_WAIT_MS);
}

/* Before the last entry goes: until then nobody takes the storage away. */
static void make_cradles(int trash_fd)
{
	auto_close int fd =
		openat(trash_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		cradles_make(fd);
}

static _Noreturn void remover(int trash_fd, const char *name, int entry_fd,
			      bool many)
{
	pid_t pid;

	(void)setsid();
	let_go_of_all(&trash_fd, &entry_fd);
	pid = fork();
	if (pid > 0)
		wait_a_little(trash_fd, pid);
	if (pid != 0)
		_exit(pid < 0);
	become_remover();
	if (many)
		make_cradles(trash_fd);
	remove_with_maps(trash_fd, name, entry_fd);
	trash_remove_free(trash_fd);
	_exit(0);
}

/*
 * @many: branches come and go here. Where no child can be made there is nobody
 * else to do it.
 */
static void start_remover(int trash_fd, const char *name, int entry_fd,
			  bool many)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		remover(trash_fd, name, entry_fd, many);
	while (pid > 0 && waitpid(pid, &status, 0) < 0) {
		if (errno == EINTR)
			continue;
		/* The caller ignores SIGCHLD: not known, so it went well. */
		status = 0;
		break;
	}
	if (pid < 0 || status != 0)
		remove_with_maps(trash_fd, name, entry_fd);
}

/* Link counts tell, except where the file system does not count (btrfs). */
static bool has_entries(int trash_fd, size_t n)
{
	auto_dir DIR *dir = NULL;
	const struct dirent *d;
	struct stat st;

	if (fstat(trash_fd, &st) < 0)
		return false;
	if (st.st_nlink >= 2)
		return st.st_nlink - 2 >= n;
	dir = open_trash_dir(trash_fd);
	while (dir && n > 0 && (d = readdir(dir)))
		n -= !is_dot(d->d_name);
	return n == 0;
}

static void resume(int trash_fd, size_t at_least)
{
	auto_close int entry_fd = -1;
	char name[NAME_MAX + 1];

	if (!has_entries(trash_fd, at_least))
		return;
	entry_fd = find_free(trash_fd, name);
	if (entry_fd >= 0)
		start_remover(trash_fd, name, entry_fd,
			      at_least >= TRASH_LAZY_MAX);
}

void trash_resume(struct storage *s, size_t at_least)
{
	auto_close int trash_fd = -1;

	if (s->fd < 0 || storage_open_private(s->fd, s->path, "trash", false,
					      &trash_fd, NULL) < 0)
		return;
	resume(trash_fd, at_least);
}

/* An entry that is ours, unlike one that a remover has found before the lock
 * was on it. */
static int make_entry(int trash_fd, char ret_name[UNIQUE_LEN])
{
	for (int i = 0; i < 64; i++) {
		auto_close int fd = -1;
		struct stat st;
		int r = unique_name(ret_name);

		if (r < 0)
			return r;
		if (mkdirat(trash_fd, ret_name, 0700) < 0)
			return -errno;
		fd = lock_entry(trash_fd, ret_name);
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
			return take_fd(&fd);
		(void)unlinkat(trash_fd, ret_name, AT_REMOVEDIR);
	}
	return -EIO;
}

/* Makes an entry that holds the id maps, and moves @name into it. */
static int put_in_entry(int trash_fd, char unique[UNIQUE_LEN], int dirfd,
			const char *name, const struct branch_meta *m,
			int *ret_entry_fd)
{
	auto_close int fd = make_entry(trash_fd, unique);
	int r;

	if (fd < 0)
		return fd;
	r = meta_write(fd, m, false, NULL);
	if (r == 0 && renameat(dirfd, name, fd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(fd, META_NAME, 0);
		(void)unlinkat(trash_fd, unique, AT_REMOVEDIR);
		return r;
	}
	*ret_entry_fd = take_fd(&fd);
	return 0;
}

static int put_whole(int trash_fd, const char *unique, int dirfd,
		     const char *name, int *ret_entry_fd)
{
	if (renameat2(dirfd, name, trash_fd, unique, RENAME_NOREPLACE) < 0)
		return -errno;
	*ret_entry_fd = lock_entry(trash_fd, unique);
	return 0;
}

int trash_new(struct storage *s, int *ret_trash_fd,
	      char ret_name[TRASH_NAME_MAX], int *ret_fd)
{
	auto_close int trash_fd = -1;
	auto_close int fd = -1;
	uint64_t salt;
	int r = storage_open_private(s->fd, s->path, "trash", true, &trash_fd,
				     NULL);

	if (r < 0)
		return r;
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return -errno;
	(void)snprintf(ret_name, TRASH_NAME_MAX, NEW_PREFIX "%d-%016llx",
		       (int)getpid(), (unsigned long long)salt);
	r = cradles_mkdir(s->fd, (unsigned int)salt, trash_fd, ret_name);
	if (r < 0)
		return r;
	fd = openat(trash_fd, ret_name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : lock_now(fd);
	if (r < 0) {
		(void)unlinkat(trash_fd, ret_name, AT_REMOVEDIR);
		return r;
	}
	*ret_trash_fd = take_fd(&trash_fd);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* The trash, and a name that nothing in it has. */
static int open_trash(struct storage *s, int *ret_fd, char unique[UNIQUE_LEN],
		      struct error *err)
{
	int r = storage_open_private(s->fd, s->path, "trash", true, ret_fd,
				     err);

	if (r < 0)
		return r;
	r = unique_name(unique);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "trash") : 0;
}

static int cannot_move(int r, const struct storage *s, const char *name,
		       struct error *err)
{
	return error_set(err, ERR_SYSTEM, -r, "cannot move '%s' to '%s/trash'",
			 name, s->path);
}

int trash_put(struct storage *s, int dirfd, const char *name, bool whole,
	      const struct branch_meta *m, struct error *err)
{
	auto_close int trash_fd = -1;
	auto_close int entry_fd = -1;
	char unique[UNIQUE_LEN];
	int r = open_trash(s, &trash_fd, unique, err);

	if (r < 0)
		return r;
	r = whole ? put_whole(trash_fd, unique, dirfd, name, &entry_fd)
		  : put_in_entry(trash_fd, unique, dirfd, name, m, &entry_fd);
	if (r < 0)
		return cannot_move(r, s, name, err);
	/* Without the lock somebody else is at it already. */
	if (entry_fd >= 0)
		start_remover(trash_fd, unique, entry_fd, false);
	return 0;
}

int trash_put_lazily(struct storage *s, int dirfd, const char *name,
		     struct error *err)
{
	auto_close int trash_fd = -1;
	char unique[UNIQUE_LEN];
	int r = open_trash(s, &trash_fd, unique, err);

	if (r < 0)
		return r;
	if (renameat2(dirfd, name, trash_fd, unique, RENAME_NOREPLACE) < 0)
		return cannot_move(-errno, s, name, err);
	resume(trash_fd, TRASH_LAZY_MAX);
	return 0;
}

int store_discard(struct branch *b, int dirfd, const char *name,
		  struct error *err)
{
	return trash_put(b->home, dirfd, name, false, &b->meta, err);
}

/*
 * What the runtime made, deepest first. Each parent is opened without links:
 * a payload may have put one where the runtime made a directory.
 */
static int remove_made(const struct branch *b)
{
	const struct branch_meta *m = &b->meta;

	for (size_t i = m->n_made; i > 0; i--) {
		const char *path = m->made[i - 1].path;
		const char *slash = strrchr(path, '/');
		auto_free char *parent = NULL;
		auto_close int fd = -1;
		int flags = S_ISDIR(m->made[i - 1].mode) ? AT_REMOVEDIR : 0;

		if (path[0] == '\0')
			continue;
		if (slash) {
			parent = strndup(path, (size_t)(slash - path));
			fd = parent ? fd_open_beneath(b->upper_fd, parent,
						      O_PATH | O_DIRECTORY, 0)
				    : -ENOMEM;
			if (fd < 0)
				return fd;
		}
		if (unlinkat(slash ? fd : b->upper_fd, slash ? slash + 1 : path,
			     flags) < 0 &&
		    errno != ENOENT)
			return -errno;
	}
	return 0;
}

static int remove_work(const struct branch *b)
{
	static const char *const parts[] = { "work/incompat", "work" };
	int r = branch_remove_marker(b);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		r = unlinkat(b->work_fd, parts[i], AT_REMOVEDIR);
		/* The kernel makes work/work with mode 000. */
		if (r < 0 && errno == EACCES &&
		    fchmodat(b->work_fd, "work", 0700, 0) == 0)
			r = unlinkat(b->work_fd, parts[i], AT_REMOVEDIR);
		if (r < 0 && errno != ENOENT)
			return -errno;
	}
	return 0;
}

static int unlink_if_there(int dir_fd, const char *name, int flags)
{
	return unlinkat(dir_fd, name, flags) < 0 && errno != ENOENT ? -errno
								    : 0;
}

/* Nothing would keep the directory once what describes it is gone. */
static bool is_removable(const struct branch *b, int parent_fd)
{
	static const char *const small[] = {
		".",	  "..",	      "lock",	   "meta.json",
		META_NEW, NOTES_FILE, COPIED_FILE,
	};
	auto_close int fd =
		openat(b->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;

	if (!dir)
		return false;
	fd = -1;
	while ((d = readdir(dir))) {
		size_t i = 0;

		while (i < ARRAY_LEN(small) && strcmp(small[i], d->d_name) != 0)
			i++;
		if (i == ARRAY_LEN(small))
			return false;
	}
	return faccessat(parent_fd, ".", W_OK, AT_EACCESS) == 0;
}

int remove_small(struct branch *b, int parent_fd, const char *name)
{
	int r;

	if (b->layers_fd >= 0)
		return -ENOTEMPTY;
	r = b->upper_fd < 0 ? 0 : remove_made(b);
	/* Not empty: upper is whole but for what nobody asked for. */
	if (r == 0)
		r = unlink_if_there(b->dir_fd, "upper", AT_REMOVEDIR);
	if (r == 0 && b->work_fd >= 0)
		r = remove_work(b);
	if (r == 0)
		r = unlink_if_there(b->dir_fd, "work", AT_REMOVEDIR);
	if (r == 0 && !is_removable(b, parent_fd))
		r = -ENOTEMPTY;
	if (r == 0)
		r = unlink_if_there(b->dir_fd, NOTES_FILE, 0);
	if (r == 0)
		r = unlink_if_there(b->dir_fd, COPIED_FILE, 0);
	if (r == 0)
		r = unlink_if_there(b->dir_fd, META_NEW, 0);
	if (r == 0)
		r = unlink_if_there(b->dir_fd, "meta.json", 0);
	if (r == 0)
		r = unlink_if_there(b->dir_fd, "lock", 0);
	if (r == 0)
		r = unlink_if_there(parent_fd, name, AT_REMOVEDIR);
	return r;
}
