#include "supervise/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "supervise/act.h"
#include "supervise/object.h"
#include "supervise/open.h"
#include "supervise/who.h"

enum {
	LABEL_MAX = 512,
	MODE_MASK = 07777,
	/* What is judged by who opened it, or is no open at all. */
	LEFT_FLAGS = O_PATH | (O_TMPFILE & ~O_DIRECTORY) | O_ASYNC,
};

/* What there is now where the path leads. */
struct place {
	int fd;	    /* O_PATH: the object; -1: there is none */
	int dir_fd; /* O_PATH: the directory of the last component, or -1 */
	char *name;
};

static void place_done(struct place *p)
{
	cleanup_close(&p->fd);
	cleanup_close(&p->dir_fd);
	free(p->name);
}

static ssize_t read_label(pid_t tid, char ret[LABEL_MAX])
{
	char path[48];
	auto_close int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/attr/current", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : read(fd, ret, LABEL_MAX);
}

int opener_init(struct opener *o, bool has_mounts, bool sees_execs)
{
	char label[LABEL_MAX];

	o->has_mounts = has_mounts;
	o->has_labels = read_label(getpid(), label) > 0;
	atomic_init(&o->has_domains, false);
	atomic_init(&o->self_fd, -1);
	atomic_init(&o->plain, 0);
	return callers_init(&o->callers, sees_execs);
}

void opener_done(struct opener *o)
{
	callers_done(&o->callers);
	if (atomic_load(&o->self_fd) >= 0)
		(void)close(atomic_load(&o->self_fd));
}

static bool has_our_label(const struct opener *o, struct call *c)
{
	char ours[LABEL_MAX], theirs[LABEL_MAX];
	ssize_t n, m;

	if (!o->has_labels)
		return true;
	n = read_label(getpid(), ours);
	m = read_label(call_tid(c), theirs);
	return n > 0 && n == m && memcmp(ours, theirs, (size_t)n) == 0;
}

/* File systems whose files are the same to whoever opened them. */
static bool is_plain(int fd)
{
	static const unsigned long plain[] = {
		EXT4_SUPER_MAGIC,  XFS_SUPER_MAGIC,   BTRFS_SUPER_MAGIC,
		TMPFS_MAGIC,	   RAMFS_MAGIC,	      OVERLAYFS_SUPER_MAGIC,
		F2FS_SUPER_MAGIC,  SQUASHFS_MAGIC,    EROFS_SUPER_MAGIC_V1,
		ISOFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC,
	};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if ((unsigned long)fs.f_type == plain[i])
			return true;
	return false;
}

/* /dev/null, zero, full, random and urandom know nobody. */
static bool is_plain_device(const struct stat *st)
{
	unsigned int n = minor(st->st_rdev);

	return S_ISCHR(st->st_mode) && major(st->st_rdev) == 1 &&
	       (n == 3 || n == 5 || (n >= 7 && n <= 9));
}

/* False where the kernel makes every open. */
static bool is_used(const struct opener *o)
{
	return o->has_mounts && !atomic_load(&o->has_domains);
}

static bool is_ours_to_open(const struct opener *o, const struct object *x,
			    const struct open_how *how)
{
	if (!is_used(o))
		return false;
	if (!x->real || x->is_veiled || how->flags & LEFT_FLAGS ||
	    how->resolve & ~(uint64_t)RESOLVE_NO_MAGICLINKS)
		return false;
	if (x->exists && is_plain_device(&x->st))
		return true;
	if (open_is_write(how) &&
	    (path_is_under(x->real, "/dev") || path_is_under(x->real, "/proc")))
		return false;
	if (!x->exists)
		return how->flags & O_CREAT;
	return S_ISREG(x->st.st_mode) || S_ISFIFO(x->st.st_mode) ||
	       (S_ISDIR(x->st.st_mode) && !open_is_write(how));
}

/* Set-id bits that only CAP_FSETID makes or keeps: here it is laid down. */
static bool takes_fsetid(const struct object *x, const struct open_how *how,
			 const struct who *who)
{
	const mode_t set_id = S_ISUID | S_ISGID;

	return who->caps & (UINT64_C(1) << CAP_FSETID) &&
	       (x->exists ? open_is_write(how) && x->st.st_mode & set_id
			  : how->mode & set_id);
}

/* ---------------------------------------------------------------- path -- */

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The name of a directory can lead to what is mounted there by now. */
static bool begins_there(struct call *c, int root_fd, const struct object *x,
			 int dirfd)
{
	auto_close int named = -1, held = -1;
	struct stat a, b;

	if (!x->dir)
		return true;
	named = fd_open_in_root(root_fd, x->dir, O_PATH | O_DIRECTORY, 0);
	held = call_open_dirfd(c, dirfd);
	return named >= 0 && held >= 0 && fstat(named, &a) == 0 &&
	       fstat(held, &b) == 0 && is_same_inode(&a, &b);
}

static bool leads_to(int fd, const char *real, size_t len)
{
	char text[PATH_MAX];

	return fd_path(fd, text) == 0 && strlen(text) == len &&
	       memcmp(text, real, len) == 0;
}

static bool is_shown(int fd, const struct object *x)
{
	uint64_t mount;
	struct stat st;

	return x->exists && x->mount &&
	       object_read_stat(fd, &st, &mount) == 0 &&
	       is_same_inode(&st, &x->st) && st.st_mode == x->st.st_mode &&
	       mount == x->mount && is_plain(fd);
}

/* Its directory is the one that was shown, and nothing is there. */
static bool is_free_as_shown(const struct place *p, const struct object *x)
{
	const char *slash = strrchr(x->real, '/');
	size_t len = slash > x->real ? (size_t)(slash - x->real) : 1;

	return p->fd == -ENOENT && !x->exists &&
	       strcmp(slash + 1, p->name) == 0 &&
	       leads_to(p->dir_fd, x->real, len) && is_plain(p->dir_fd);
}

static int find_object(int root_fd, const struct object *x, bool follows,
		       struct place *ret)
{
	ret->fd = fd_open_in_root(root_fd, x->walk,
				  O_PATH | (follows ? 0 : O_NOFOLLOW), 0);
	return ret->fd >= 0 && is_shown(ret->fd, x) ? 0 : -EAGAIN;
}

static bool is_name(const char *s)
{
	return *s && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

/*
 * The file that O_CREAT finds, or the place for it. A link is left to the
 * kernel, and so is a file in a directory that everybody may write to
 * (fs.protected_regular).
 */
static int find_place(int root_fd, const struct object *x, struct place *ret)
{
	const char *slash = strrchr(x->walk, '/');
	auto_free char *dir = NULL;
	struct stat st;

	if (!slash || !is_name(slash + 1))
		return -EAGAIN;
	dir = strndup(x->walk, (size_t)(slash - x->walk));
	ret->name = strdup(slash + 1);
	if (!dir || !ret->name)
		return -EAGAIN;
	ret->dir_fd = fd_open_in_root(root_fd, *dir ? dir : "/",
				      O_PATH | O_DIRECTORY, 0);
	if (ret->dir_fd < 0)
		return -EAGAIN;
	ret->fd = fd_openat2(ret->dir_fd, ret->name, O_PATH | O_NOFOLLOW, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	if (ret->fd < 0)
		return is_free_as_shown(ret, x) ? 0 : -EAGAIN;
	if (!is_shown(ret->fd, x) || S_ISDIR(x->st.st_mode) ||
	    fstat(ret->dir_fd, &st) < 0 || st.st_mode & S_ISVTX)
		return -EAGAIN;
	return 0;
}

/* ---------------------------------------------------------------- open -- */

/* A mask of its own: that of the process is everybody's. */
static bool has_own_umask(void)
{
	static _Thread_local bool has;

	has = has || unshare(CLONE_FS) == 0;
	return has;
}

static int make(const struct place *p, const struct open_how *how, mode_t mask)
{
	mode_t old;
	int fd;

	if (!has_own_umask())
		return -EAGAIN;
	old = umask(mask);
	fd = fd_openat2(p->dir_fd, p->name, (int)how->flags | O_EXCL,
			(mode_t)how->mode & MODE_MASK,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	(void)umask(old);
	return fd;
}

/*
 * /proc/self/fd, so that nobody goes there each time. Not before it is needed:
 * a process that was forked has another one.
 */
static int own_fds(struct opener *o)
{
	int dir_fd = atomic_load(&o->self_fd), none = -1;

	if (dir_fd >= 0)
		return dir_fd;
	dir_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd >= 0 &&
	    !atomic_compare_exchange_strong(&o->self_fd, &none, dir_fd)) {
		(void)close(dir_fd);
		dir_fd = none;
	}
	return dir_fd;
}

static int reopen(struct opener *o, int fd, int flags)
{
	char name[12];
	int r;

	(void)snprintf(name, sizeof(name), "%d", fd);
	r = openat(own_fds(o), name, (flags & ~O_NOFOLLOW) | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

bool opener_waits(const struct object *x, const struct open_how *how)
{
	return x->exists && S_ISFIFO(x->st.st_mode) &&
	       !(how->flags & O_NONBLOCK) && (how->flags & O_ACCMODE) != O_RDWR;
}

/* As in the kernel: until there is another end, or a signal. */
static int open_waiting(struct call *c, int fd, int flags)
{
	int r;

	call_block_begin(c, OUTCOME_RESTART_ERRNO);
	do
		r = fd_reopen(fd, flags);
	while (r == -EINTR && !call_is_abandoned(c));
	call_block_end(c);
	return r;
}

static int open_found(struct opener *o, struct call *c, const struct place *p,
		      const struct object *x, const struct open_how *how,
		      mode_t mask)
{
	const uint64_t exclusive = O_CREAT | O_EXCL;
	int flags = (int)how->flags & ~O_CREAT, r;

	if (p->fd >= 0 && (how->flags & exclusive) == exclusive)
		return -EAGAIN;
	if (opener_waits(x, how))
		return open_waiting(c, p->fd, flags);
	if (!call_effect_begin(c))
		return -EAGAIN;
	r = p->fd < 0 ? make(p, how, mask) : reopen(o, p->fd, flags);
	call_effect_end(c);
	return r;
}

static int open_as_caller(struct opener *o, struct call *c, int root_fd,
			  const struct object *x, const struct open_how *how,
			  bool follows, mode_t mask)
{
	auto_(place) struct place p = { -1, -1, NULL };
	int r = how->flags & O_CREAT ? find_place(root_fd, x, &p)
				     : find_object(root_fd, x, follows, &p);

	if (r == 0)
		r = open_found(o, c, &p, x, how, mask);
	return r < 0 ? -EAGAIN : r;
}

/*
 * The kernel finds a number first, and makes and cuts nothing where there is
 * none. How many are taken it says as of Linux 6.2.
 */
static bool has_room(struct call *c)
{
	struct rlimit limit;
	struct stat st;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)call_tid(c));
	return stat(path, &st) == 0 &&
	       prlimit(call_tid(c), RLIMIT_NOFILE, NULL, &limit) == 0 &&
	       (rlim_t)st.st_size < limit.rlim_cur;
}

int opener_open(struct opener *o, struct call *c, const struct who *who,
		const struct object *shown, int root_fd, int dirfd,
		const struct open_how *how, bool follows, bool may_wait)
{
	struct act act;
	int r;

	act_settle();
	if (!is_ours_to_open(o, shown, how) || takes_fsetid(shown, how, who) ||
	    !has_our_label(o, c))
		return -EAGAIN;
	if (how->flags & (O_CREAT | O_TRUNC) && !has_room(c))
		return -EAGAIN;
	if (!may_wait && opener_waits(shown, how))
		return -EINPROGRESS;
	if (root_fd < 0 || !begins_there(c, root_fd, shown, dirfd) ||
	    act_begin_bare(&act, who) < 0)
		return -EAGAIN;
	r = open_as_caller(o, c, root_fd, shown, how, follows, who->umask);
	act_end(&act);
	return r;
}

static bool only_reads(const struct opener *o, const struct open_how *how)
{
	return is_used(o) && !open_is_write(how) &&
	       !(how->flags & LEFT_FLAGS) &&
	       !(how->resolve & ~(uint64_t)RESOLVE_NO_MAGICLINKS);
}

/* The last one is known by the number of its mount. */
static bool is_on_plain(struct opener *o, const struct object_found *f)
{
	if (f->mount && atomic_load(&o->plain) == f->mount)
		return true;
	if (!is_plain(f->fd))
		return false;
	if (object_is_unique_mount(f->mount))
		atomic_store(&o->plain, f->mount);
	return true;
}

static bool is_file_or_dir(const struct object_found *f)
{
	return S_ISREG(f->st.st_mode) || S_ISDIR(f->st.st_mode);
}

bool opener_find(struct opener *o, struct call *c, const struct who *who,
		 int root_fd, const char *path, const struct open_how *how,
		 bool follows, struct object_found *ret, char real[PATH_MAX])
{
	struct act act;
	char name[12];

	*ret = (struct object_found){ .fd = -EAGAIN };
	if (!only_reads(o, how) || !has_our_label(o, c) ||
	    act_begin_bare(&act, who) < 0)
		return false;
	ret->fd = fd_open_in_root(root_fd, path,
				  O_PATH | (follows ? 0 : O_NOFOLLOW), 0);
	act_linger(&act);
	if (ret->fd >= 0 &&
	    object_read_stat(ret->fd, &ret->st, &ret->mount) < 0) {
		(void)close(ret->fd);
		ret->fd = -EAGAIN;
	}
	if (ret->fd < 0)
		return false;
	(void)snprintf(name, sizeof(name), "%d", ret->fd);
	if (fd_read_link(own_fds(o), name, real) == 0 && *real == '/')
		ret->real = real;
	return is_file_or_dir(ret) && is_on_plain(o, ret);
}

int opener_open_found(struct opener *o, struct call *c, const struct who *who,
		      int found_fd, const struct open_how *how)
{
	struct act act;
	int r = -EAGAIN;

	if (!is_used(o) || act_begin_bare(&act, who) < 0)
		return -EAGAIN;
	if (call_effect_begin(c)) {
		r = reopen(o, found_fd, (int)how->flags);
		call_effect_end(c);
	}
	act_linger(&act);
	return r < 0 ? -EAGAIN : r;
}

bool opener_misses(const struct who *who, int root_fd, const char *path,
		   bool follows)
{
	struct act act;
	int fd;

	if (act_begin_bare(&act, who) < 0)
		return false;
	fd = fd_open_in_root(root_fd, path, O_PATH | (follows ? 0 : O_NOFOLLOW),
			     0);
	act_end(&act);
	if (fd >= 0)
		(void)close(fd);
	return fd == -ENOENT;
}

/* Whoever it is: what descends from it has the domain, too. */
static struct outcome note_domain(struct call *c, void *data)
{
	struct opener *o = data;

	atomic_store(&o->has_domains, true);
	return OUTCOME_GO;
}

/* Its groups, or its root. */
static struct outcome note_change(struct call *c, void *data)
{
	callers_forget(&((struct opener *)data)->callers);
	return OUTCOME_GO;
}

size_t opener_rows(struct opener *o, struct handler ret[OPENER_ROWS])
{
	/* clang-format off */
	const struct handler rows[OPENER_ROWS] = {
		{ .name = "landlock_restrict_self", .fn = note_domain,
		  .nr = SYS_landlock_restrict_self },
		{ .name = "setgroups", .fn = note_change, .nr = SYS_setgroups },
		{ .name = "chroot", .fn = note_change, .nr = SYS_chroot },
		{ .name = "pivot_root", .fn = note_change,
		  .nr = SYS_pivot_root },
		{ .name = "setns", .fn = note_change, .nr = SYS_setns },
		{ .name = "unshare", .fn = note_change, .nr = SYS_unshare },
	};
	/* clang-format on */

	for (size_t i = 0; i < OPENER_ROWS; i++) {
		ret[i] = rows[i];
		ret[i].data = o;
	}
	return OPENER_ROWS;
}
