#include "supervise/metadata.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/tree.h"
#include "supervise/act.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

enum { XATTR_NAME_SIZE = 256, XATTR_VALUE_MAX = 64 * 1024 };

/* What a call is about: @dirfd and the path at @addr, or fd @dirfd alone. */
struct object_args {
	int dirfd;
	uint64_t addr;
	bool is_fd, nofollow, may_be_empty;
};

/* An object, opened, and the call on it. */
typedef int change_fn(struct call *c, int fd);

struct metadata_row {
	const char *name;
	int nr;
	void (*args)(const struct call *c, struct object_args *ret);
	change_fn *change;
};

/* ------------------------------------------------------------ arguments -- */

static void path_args(const struct call *c, struct object_args *ret)
{
	*ret = (struct object_args){ AT_FDCWD, call_arg(c, 0) };
}

static void link_args(const struct call *c, struct object_args *ret)
{
	path_args(c, ret);
	ret->nofollow = true;
}

static void fd_args(const struct call *c, struct object_args *ret)
{
	*ret = (struct object_args){ (int)call_arg(c, 0), .is_fd = true };
}

static void at_args(const struct call *c, struct object_args *ret)
{
	*ret = (struct object_args){ (int)call_arg(c, 0), call_arg(c, 1) };
}

static void set_flags(struct object_args *ret, uint64_t flags)
{
	ret->nofollow = flags & AT_SYMLINK_NOFOLLOW;
	ret->may_be_empty = flags & AT_EMPTY_PATH;
}

static void at_args_flags3(const struct call *c, struct object_args *ret)
{
	at_args(c, ret);
	set_flags(ret, call_arg(c, 3));
}

static void at_args_flags4(const struct call *c, struct object_args *ret)
{
	at_args(c, ret);
	set_flags(ret, call_arg(c, 4));
}

/* Without a path the descriptor is meant. */
static void utimensat_args(const struct call *c, struct object_args *ret)
{
	at_args_flags3(c, ret);
	ret->is_fd = !ret->addr;
}

/* --------------------------------------------------------------- objects -- */

static int open_fd(struct call *c, int number)
{
	return number < 0 ? -EBADF : call_open_dirfd(c, number);
}

/* "/proc/self/fd/5" is the caller's and not ours: the number, or -1. */
static int own_fd(const char *path)
{
	static const char *const dirs[] = { "/proc/self/fd/",
					    "/proc/thread-self/fd/",
					    "/dev/fd/" };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		size_t n = strlen(dirs[i]);
		char *end;
		unsigned long number;

		if (strncmp(path, dirs[i], n) != 0 || path[n] < '0' ||
		    path[n] > '9')
			continue;
		number = strtoul(path + n, &end, 10);
		return *end || number > INT_MAX ? -1 : (int)number;
	}
	return -1;
}

static int open_path(struct call *c, const struct object_args *a,
		     const char *path)
{
	int flags = O_PATH | (a->nofollow ? O_NOFOLLOW : 0);
	auto_close int base_fd = -1;
	struct act act;
	int r;

	if (path[0] != '/') {
		base_fd = call_open_dirfd(c, a->dirfd);
		if (base_fd < 0)
			return base_fd;
	}
	r = act_begin(&act, c);
	if (r < 0)
		return r;
	/* Links of procfs that lead elsewhere are the caller's alone. */
	r = fd_openat2(base_fd, path, flags, 0, RESOLVE_NO_MAGICLINKS);
	act_end(&act);
	return r == -ELOOP ? -EACCES : r;
}

static int open_object(struct call *c, const struct object_args *a)
{
	auto_free char *path = NULL;
	int r;

	if (a->is_fd && a->dirfd == AT_FDCWD)
		return call_nr(c) == SYS_utimensat ? -EFAULT : -EBADF;
	if (a->is_fd)
		return open_fd(c, a->dirfd);
	path = malloc(PATH_MAX);
	if (!path)
		return -ENOMEM;
	r = call_read_string(c, a->addr, path, PATH_MAX);
	if (r < 0)
		return r;
	if (!*path && a->may_be_empty)
		return a->dirfd == AT_FDCWD ? call_open_cwd(c)
					    : open_fd(c, a->dirfd);
	if (!*path)
		return -ENOENT;
	r = a->nofollow ? -1 : own_fd(path);
	return r >= 0 ? open_fd(c, r) : open_path(c, a, path);
}

/* Pipes and sockets have no place, and are whoever's that has them. */
static int judge(const struct metadata_options *o, int fd)
{
	char path[PATH_MAX];
	int r = fd_path(fd, path);

	if (r < 0)
		return r;
	if (path[0] != '/')
		return 0;
	return o->is_writable(o->data, path) ? 0 : -EROFS;
}

/* --------------------------------------------------------------- changes -- */

/* All of them with the caller's rights, which may be less than ours. */
static int change_mode(struct call *c, int fd, mode_t mode)
{
	char link[FD_PATH_MAX];
	struct act act;
	int r = act_begin(&act, c);

	if (r < 0)
		return r;
	r = (int)syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH);
	/* Before 6.6; a symbolic link is EOPNOTSUPP either way. */
	if (r < 0 && errno == ENOSYS)
		r = chmod(fd_proc_path(fd, link), mode);
	r = r < 0 ? -errno : 0;
	act_end(&act);
	return r;
}

static int mode_1(struct call *c, int fd)
{
	return change_mode(c, fd, (mode_t)call_arg(c, 1));
}

static int mode_2(struct call *c, int fd)
{
	return change_mode(c, fd, (mode_t)call_arg(c, 2));
}

static int change_owner(struct call *c, int fd, uint64_t uid, uint64_t gid)
{
	struct act act;
	int r = act_begin(&act, c);

	if (r < 0)
		return r;
	r = fchownat(fd, "", (uid_t)uid, (gid_t)gid, AT_EMPTY_PATH) < 0 ? -errno
									: 0;
	act_end(&act);
	return r;
}

static int owner_1(struct call *c, int fd)
{
	return change_owner(c, fd, call_arg(c, 1), call_arg(c, 2));
}

static int owner_2(struct call *c, int fd)
{
	return change_owner(c, fd, call_arg(c, 2), call_arg(c, 3));
}

static int change_times(struct call *c, int fd, const struct timespec ts[2])
{
	struct act act;
	int r = act_begin(&act, c);

	if (r < 0)
		return r;
	r = utimensat(fd, "", ts, AT_EMPTY_PATH) < 0 ? -errno : 0;
	act_end(&act);
	return r;
}

static int from_timespecs(struct call *c, int fd)
{
	uint64_t addr = call_arg(c, 2);
	struct timespec ts[2];
	int r = addr ? call_read(c, addr, ts, sizeof(ts)) : 0;

	return r < 0 ? r : change_times(c, fd, addr ? ts : NULL);
}

/* Newer machines never had these. */
#ifdef SYS_utime

static void futimesat_args(const struct call *c, struct object_args *ret)
{
	at_args(c, ret);
	ret->is_fd = !ret->addr;
}

static int from_timevals(struct call *c, int fd, uint64_t addr)
{
	struct timeval tv[2];
	struct timespec ts[2];
	int r = addr ? call_read(c, addr, tv, sizeof(tv)) : 0;

	if (r < 0)
		return r;
	for (int i = 0; addr && i < 2; i++) {
		if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1000000)
			return -EINVAL;
		ts[i] = (struct timespec){ tv[i].tv_sec, tv[i].tv_usec * 1000 };
	}
	return change_times(c, fd, addr ? ts : NULL);
}

static int timevals_1(struct call *c, int fd)
{
	return from_timevals(c, fd, call_arg(c, 1));
}

static int timevals_2(struct call *c, int fd)
{
	return from_timevals(c, fd, call_arg(c, 2));
}

static int from_utimbuf(struct call *c, int fd)
{
	uint64_t addr = call_arg(c, 1);
	struct utimbuf t = { 0 };
	int r = addr ? call_read(c, addr, &t, sizeof(t)) : 0;
	const struct timespec ts[2] = { { .tv_sec = t.actime },
					{ .tv_sec = t.modtime } };

	return r < 0 ? r : change_times(c, fd, addr ? ts : NULL);
}

#endif

static int read_name(struct call *c, char name[XATTR_NAME_SIZE])
{
	int r = call_read_string(c, call_arg(c, 1), name, XATTR_NAME_SIZE);

	return r == -ENAMETOOLONG || (r == 0 && !*name) ? -ERANGE : r;
}

static int set_attribute(struct call *c, int fd)
{
	char name[XATTR_NAME_SIZE], link[FD_PATH_MAX];
	auto_free char *value = NULL;
	uint64_t n = call_arg(c, 3);
	struct act act;
	int r = read_name(c, name);

	if (r == 0 && n > XATTR_VALUE_MAX)
		r = -E2BIG;
	if (r < 0)
		return r;
	value = malloc(n + 1);
	r = !value ? -ENOMEM : n ? call_read(c, call_arg(c, 2), value, n) : 0;
	if (r == 0)
		r = act_begin(&act, c);
	if (r < 0)
		return r;
	r = setxattr(fd_proc_path(fd, link), name, value, n,
		     (int)call_arg(c, 4)) < 0
		    ? -errno
		    : 0;
	act_end(&act);
	return r;
}

static int remove_attribute(struct call *c, int fd)
{
	char name[XATTR_NAME_SIZE], link[FD_PATH_MAX];
	struct act act;
	int r = read_name(c, name);

	if (r == 0)
		r = act_begin(&act, c);
	if (r < 0)
		return r;
	r = removexattr(fd_proc_path(fd, link), name) < 0 ? -errno : 0;
	act_end(&act);
	return r;
}

/* clang-format off */
static const struct metadata_row table[] = {
#ifdef SYS_chmod
	{ "chmod",     SYS_chmod,     path_args,      mode_1 },
	{ "chown",     SYS_chown,     path_args,      owner_1 },
	{ "lchown",    SYS_lchown,    link_args,      owner_1 },
	{ "utime",     SYS_utime,     path_args,      from_utimbuf },
	{ "utimes",    SYS_utimes,    path_args,      timevals_1 },
	{ "futimesat", SYS_futimesat, futimesat_args, timevals_2 },
#endif
	{ "fchmod",       SYS_fchmod,       fd_args,        mode_1 },
	{ "fchmodat",     SYS_fchmodat,     at_args,        mode_2 },
	{ "fchmodat2",    SYS_fchmodat2,    at_args_flags3, mode_2 },
	{ "fchown",       SYS_fchown,       fd_args,        owner_1 },
	{ "fchownat",     SYS_fchownat,     at_args_flags4, owner_2 },
	{ "utimensat",    SYS_utimensat,    utimensat_args, from_timespecs },
	{ "setxattr",     SYS_setxattr,     path_args,      set_attribute },
	{ "lsetxattr",    SYS_lsetxattr,    link_args,      set_attribute },
	{ "fsetxattr",    SYS_fsetxattr,    fd_args,        set_attribute },
	{ "removexattr",  SYS_removexattr,  path_args,      remove_attribute },
	{ "lremovexattr", SYS_lremovexattr, link_args,      remove_attribute },
	{ "fremovexattr", SYS_fremovexattr, fd_args,        remove_attribute },
};
/* clang-format on */

static const struct metadata_row *find_row(int nr)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].nr == nr)
			return &table[i];
	return NULL;
}

static int carry_out(const struct metadata_options *o, struct call *c,
		     const struct metadata_row *row)
{
	auto_close int fd = -1;
	struct object_args a;
	int r;

	row->args(c, &a);
	fd = open_object(c, &a);
	r = fd < 0 ? fd : judge(o, fd);
	if (r == 0)
		r = call_is_valid(c) ? row->change(c, fd) : -ESRCH;
	return r;
}

static struct outcome change(struct call *c, void *data)
{
	const struct metadata_row *row = find_row(call_nr(c));
	int r = row ? carry_out(data, c, row) : -EPERM;

	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(0);
}

/* ----------------------------------------------------------------- tasks -- */

static struct outcome schedule(struct call *c, void *data)
{
	const struct metadata_options *o = data;
	pid_t pid = (pid_t)call_arg(c, 0);

	if (pid <= 0 || tree_has(o->guard, pid))
		return OUTCOME_GO;
	return OUTCOME_FAIL(EPERM);
}

size_t metadata_rows(const struct metadata_options *o,
		     struct handler ret[METADATA_ROWS])
{
	/* clang-format off */
	static const struct { const char *name; int nr; } tasks[] = {
		{ "sched_setaffinity",  SYS_sched_setaffinity },
		{ "sched_setscheduler", SYS_sched_setscheduler },
		{ "sched_setparam",     SYS_sched_setparam },
		{ "sched_setattr",      SYS_sched_setattr },
	};
	/* clang-format on */
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		ret[n++] = (struct handler){ table[i].name, table[i].nr,
					     .fn = change };
	for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
		ret[n++] = (struct handler){ tasks[i].name, tasks[i].nr,
					     .fn = schedule };
	for (size_t i = 0; i < n; i++) {
		ret[i].lane = LANE_LOCAL;
		ret[i].data = (void *)o;
	}
	return n;
}
