#include "control/rundir.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "kernel/userns.h"

struct rundir {
	char *path;
	int fd;
};

struct rundir_slot {
	char *name;
	char *path;
	int parent_fd;
	int fd;
	int lock_fd;
	ino_t ino;
};

int rundir_default(const char *given, char **ret)
{
	const char *env = getenv("SANDLOCK_ROOT");
	char *path;

	if (given)
		path = strdup(given);
	else if (env && *env)
		path = strdup(env);
	else if (asprintf(&path, "/dev/shm/sandlock-%u",
			  (unsigned int)userns_initial_uid()) < 0)
		path = NULL;
	if (!path)
		return -ENOMEM;
	*ret = path;
	return 0;
}

/*
 * Who may write there could give us a state to believe. Only our own default
 * is known to be nobody else's: the mode of another, which may be /tmp, stays.
 */
static int check_owner(int fd, const char *path, bool is_default,
		       struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 path);
	if (st.st_uid != geteuid()) {
		(void)error_say(err, ERR_SYSTEM, EPERM,
				"runtime directory '%s' belongs to uid %u, "
				"not to uid %u",
				path, (unsigned int)st.st_uid,
				(unsigned int)geteuid());
		return error_hint(err, "choose another one with --root");
	}
	if (!is_default && (st.st_mode & 022)) {
		(void)error_say(err, ERR_SYSTEM, EPERM,
				"runtime directory '%s' may be written to by "
				"others: its mode is %04o",
				path, (unsigned int)st.st_mode & 07777);
		return error_hint(
			err,
			"choose another one with --root, '%s/sandlock'"
			" say, or chmod go-w it if it is yours alone",
			path);
	}
	if (is_default && (st.st_mode & 077) && fchmod(fd, 0700) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot close '%s' to other users", path);
	return 0;
}

static int make_with_parents(const char *path)
{
	auto_free char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(copy, 0711) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_root(const char *path, struct error *err)
{
	int r = 0;

	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	r = errno == ENOENT ? make_with_parents(path) : -errno;
	if (r == 0)
		return 0;
	(void)error_set(err, ERR_SYSTEM, -r,
			"cannot make runtime directory '%s'", path);
	return error_hint(err, "choose another one with --root");
}

static int cannot_open(const char *path, int sys, struct error *err)
{
	struct stat st;

	if (sys == ENOTDIR && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		(void)error_say(err, ERR_SYSTEM, ENOTDIR,
				"runtime directory '%s' is a symbolic link",
				path);
	else
		(void)error_set(err, sys == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM,
				sys, "cannot open runtime directory '%s'",
				path);
	(void)error_hint(err, "choose another one with --root");
	return -sys;
}

/* runc's text, which engines look for. */
static int not_found(const char *name, struct error *err)
{
	int r = error_say(err, ERR_NOT_FOUND, ENOENT,
			  "container \"%s\" does not exist", name);

	(void)error_hint(err, "'sandlock ps -a' lists them");
	return r;
}

int rundir_open(const char *root, bool create, struct rundir **ret,
		struct error *err)
{
	auto_ptr(rundir_close) struct rundir *d = calloc(1, sizeof(*d));
	const char *env = NULL;
	int r;

	if (!d)
		return error_set(err, ERR_SYSTEM, ENOMEM, "runtime directory");
	d->fd = -1;
	if (!root && path_from_env("SANDLOCK_ROOT", &env, err) < 0)
		return -EINVAL;
	if (root && (!*root || strcmp(root, "/") == 0))
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%s' cannot be the runtime directory", root);
	r = rundir_default(root, &d->path);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "runtime directory");
	r = create ? make_root(d->path, err) : 0;
	if (r < 0)
		return r;
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d->fd < 0)
		return cannot_open(d->path, errno, err);
	r = check_owner(d->fd, d->path, !root && !env, err);
	if (r < 0)
		return r;
	*ret = take_ptr(&d);
	return 0;
}

int rundir_open_for(const char *root, const char *name, struct rundir **ret,
		    struct error *err)
{
	int r = rundir_open(root, false, ret, err);

	if (r != -ENOENT)
		return r;
	r = name_check(name, err);
	return r < 0 ? r : not_found(name, err);
}

void rundir_close(struct rundir *d)
{
	if (!d)
		return;
	cleanup_close(&d->fd);
	free(d->path);
	free(d);
}

const char *rundir_path(const struct rundir *d)
{
	return d->path;
}

static int slot_new(struct rundir *d, const char *name,
		    struct rundir_slot **ret)
{
	auto_ptr(rundir_slot_close) struct rundir_slot *s =
		calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->parent_fd = s->fd = s->lock_fd = -1;
	s->name = strdup(name);
	s->path = path_join(d->path, name);
	if (!s->name || !s->path)
		return -ENOMEM;
	s->parent_fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 3);
	if (s->parent_fd < 0)
		return -errno;
	*ret = take_ptr(&s);
	return 0;
}

static int slot_open(struct rundir_slot *s)
{
	struct stat st;

	s->fd = openat(s->parent_fd, s->name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return -errno;
	s->ino = st.st_ino;
	return 0;
}

static int slot_make_lock(struct rundir_slot *s)
{
	s->lock_fd = openat(s->fd, "lock",
			    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return -errno;
	/* Somebody may just look whether it is held. */
	return rundir_lock(s, 100, NULL);
}

int rundir_claim(struct rundir *d, const char *name, struct rundir_slot **ret,
		 struct error *err)
{
	auto_ptr(rundir_slot_close) struct rundir_slot *s = NULL;
	int r = name_check(name, err);

	if (r < 0)
		return r;
	r = slot_new(d, name, &s);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "runtime directory");
	if (mkdirat(d->fd, name, 0700) < 0) {
		if (errno == EEXIST) {
			(void)error_say(err, ERR_EXISTS, EEXIST,
					"container with given ID already "
					"exists: '%s'",
					name);
			return error_hint(err, "take another name, or kill "
					       "and delete that one first");
		}
		(void)error_set(err, ERR_SYSTEM, errno, "cannot make '%s'",
				s->path);
		return error_hint(err, "choose a writable place with --root");
	}
	r = slot_open(s);
	if (r == 0)
		r = slot_make_lock(s);
	if (r < 0) {
		(void)error_set(err, ERR_SYSTEM, -r, "cannot set up '%s'",
				s->path);
		(void)rundir_remove(s, NULL);
		/* Which goes by what was opened. */
		if (s->fd < 0)
			(void)unlinkat(d->fd, name, AT_REMOVEDIR);
		return r;
	}
	*ret = take_ptr(&s);
	return 0;
}

int rundir_find(struct rundir *d, const char *name, struct rundir_slot **ret,
		struct error *err)
{
	auto_ptr(rundir_slot_close) struct rundir_slot *s = NULL;
	int r = name_check(name, err);

	if (r < 0)
		return r;
	r = slot_new(d, name, &s);
	if (r == 0)
		r = slot_open(s);
	if (r == -ENOENT)
		return not_found(name, err);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot open '%s/%s'",
				 d->path, name);
	*ret = take_ptr(&s);
	return 0;
}

void rundir_slot_close(struct rundir_slot *s)
{
	if (!s)
		return;
	cleanup_close(&s->lock_fd);
	cleanup_close(&s->fd);
	cleanup_close(&s->parent_fd);
	free(s->name);
	free(s->path);
	free(s);
}

const char *rundir_slot_name(const struct rundir_slot *s)
{
	return s->name;
}

const char *rundir_slot_path(const struct rundir_slot *s)
{
	return s->path;
}

int rundir_slot_fd(const struct rundir_slot *s)
{
	return s->fd;
}

int rundir_lock(struct rundir_slot *s, int timeout_ms, struct error *err)
{
	const struct timespec pause = { .tv_nsec = 2 * 1000 * 1000 };
	int64_t end = clock_now_ms() + timeout_ms;

	if (s->lock_fd < 0) {
		s->lock_fd =
			openat(s->fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
		if (s->lock_fd < 0)
			return error_set(err, ERR_STATE, errno,
					 "'%s' has no lock of ours", s->path);
	}
	while (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot lock '%s'", s->path);
		if (clock_now_ms() >= end) {
			(void)error_say(err, ERR_LOCKED, ETIMEDOUT,
					"another command works on '%s'",
					s->name);
			return error_hint(err, "try again when it has ended");
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

void rundir_unlock(struct rundir_slot *s)
{
	if (s->lock_fd >= 0)
		(void)flock(s->lock_fd, LOCK_UN);
}

void rundir_forget_lock(struct rundir_slot *s)
{
	cleanup_close(&s->lock_fd);
	s->lock_fd = -1;
}

bool rundir_is_locked(const struct rundir_slot *s)
{
	auto_close int fd =
		openat(s->fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 &&
	       errno == EWOULDBLOCK;
}

int rundir_age_ms(const struct rundir_slot *s)
{
	struct timespec now;
	struct stat st;
	int64_t age;

	if (fstat(s->fd, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
		return 0;
	age = ((int64_t)now.tv_sec - st.st_mtim.tv_sec) * 1000 +
	      (now.tv_nsec - st.st_mtim.tv_nsec) / 1000000;
	if (age < 0)
		return 0;
	return age > INT_MAX ? INT_MAX : (int)age;
}

bool rundir_is_ours(const struct rundir_slot *s)
{
	return faccessat(s->fd, "lock", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int rundir_write_pids(struct rundir_slot *s, pid_t init, pid_t server,
		      struct error *err)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%d\n%d\n", (int)init,
			 (int)server);
	int r = fd_write_atomic(s->fd, "pid", text, (size_t)n, 0600, false);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot write '%s/pid'",
				 s->path);
	return 0;
}

int rundir_read_pids(const struct rundir_slot *s, pid_t *ret_init,
		     pid_t *ret_server)
{
	auto_(buf) struct buf b = BUF_INIT;
	long init, server;
	char *end;
	int r = fd_read_own(s->fd, "pid", 64, &b);

	if (r < 0)
		return r;
	init = strtol(buf_str(&b), &end, 10);
	if (end == buf_str(&b) || init <= 0 || init > INT_MAX)
		return -EINVAL;
	server = strtol(end, NULL, 10);
	if (server <= 0 || server > INT_MAX)
		server = init;
	*ret_init = (pid_t)init;
	*ret_server = (pid_t)server;
	return 0;
}

/*
 * A payload with CAP_SYS_ADMIN may have written to one of ours (notify/), and
 * made directories of any depth: they move up and are met again.
 */
static void move_up(int from_fd, const char *name, int to_fd, unsigned int *n)
{
	char to[32];

	do
		(void)snprintf(to, sizeof(to), "gone.%u", (*n)++);
	while (renameat2(from_fd, name, to_fd, to, RENAME_NOREPLACE) < 0 &&
	       errno == EEXIST);
}

/* *@n counts what has moved up. */
static int remove_directory(int dir_fd, const char *name, unsigned int *n)
{
	auto_close int fd = openat(
		dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	(void)take_fd(&fd);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		if (strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0 &&
		    unlinkat(dirfd(dir), e->d_name, 0) < 0)
			move_up(dirfd(dir), e->d_name, dir_fd, n);
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT
		       ? -errno
		       : 0;
}

/*
 * What goes last: the state, so that a delete that was killed can be repeated;
 * and until the lock goes the directory is recognisably ours and locked.
 */
static const char *const last_names[] = { "state.json", "lock" };

static bool goes_last(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(last_names); i++)
		if (strcmp(name, last_names[i]) == 0)
			return true;
	return false;
}

/* All but that, and what moved up meanwhile. */
static int remove_first(int dir_fd, unsigned int *n)
{
	auto_close int fd =
		openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r;

	if (!dir)
		return -errno;
	(void)take_fd(&fd);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		if (strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0 || goes_last(e->d_name))
			continue;
		if (unlinkat(dir_fd, e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		r = remove_directory(dir_fd, e->d_name, n);
		if (r < 0)
			return r;
	}
	return 0;
}

static int remove_contents(int dir_fd)
{
	unsigned int n = 0, before;
	int r;

	do {
		before = n;
		r = remove_first(dir_fd, &n);
	} while (r == 0 && n != before);
	/* With no descriptor to look: rmdir tells whether there was more. */
	if (r < 0 && r != -EMFILE && r != -ENFILE)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(last_names); i++)
		if (unlinkat(dir_fd, last_names[i], 0) < 0 && errno != ENOENT)
			return -errno;
	return 0;
}

int rundir_take(struct rundir_slot *s, bool *ret_ours, struct error *err)
{
	struct stat st;
	int r;

	*ret_ours = false;

	if (fstatat(s->parent_fd, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return 0;
		return error_set(err, ERR_SYSTEM, errno, "cannot stat '%s'",
				 s->path);
	}
	if (st.st_ino != s->ino)
		return 0;
	r = remove_contents(s->fd);
	if (r == 0 && unlinkat(s->parent_fd, s->name, AT_REMOVEDIR) < 0)
		r = -errno;
	*ret_ours = r == 0;
	if (r < 0 && r != -ENOENT)
		return error_set(err, ERR_SYSTEM, -r, "cannot remove '%s'",
				 s->path);
	return 0;
}

int rundir_remove(struct rundir_slot *s, struct error *err)
{
	bool ours;

	return rundir_take(s, &ours, err);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int rundir_names(struct rundir *d, char ***ret, size_t *ret_n,
		 struct error *err)
{
	auto_close int fd =
		openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char **names = NULL, **more;
	size_t n = 0, cap = 0;

	if (!dir)
		return error_set(err, ERR_SYSTEM, errno, "cannot read '%s'",
				 d->path);
	(void)take_fd(&fd);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		if (name_check(e->d_name, NULL) < 0)
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			more = realloc(names, cap * sizeof(*names));
			if (!more)
				goto no_memory;
			names = more;
		}
		names[n] = strdup(e->d_name);
		if (!names[n])
			goto no_memory;
		n++;
	}
	if (n)
		qsort(names, n, sizeof(*names), compare_names);
	*ret = names;
	*ret_n = n;
	return 0;

no_memory:
	rundir_names_free(names, n);
	return error_set(err, ERR_SYSTEM, ENOMEM, "cannot list '%s'", d->path);
}

void rundir_names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}
