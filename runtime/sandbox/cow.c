#include "sandbox/cow.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/path.h"
#include "base/uapi.h"
#include "kernel/caps.h"
#include "sandbox/cow_internal.h"

enum { STATUS_MAX = 4096 };

struct cow_bound {
	struct cow *w;
	cow_fn *fn;
};

/* clang-format off */
static const struct cow_row {
	const char *name;
	int nr;
	cow_fn *fn;
} table[] = {
#ifdef SYS_open
	{ "open", SYS_open, cow_open },
	{ "creat", SYS_creat, cow_open },
	{ "stat", SYS_stat, cow_stat },
	{ "lstat", SYS_lstat, cow_stat },
	{ "access", SYS_access, cow_access },
	{ "readlink", SYS_readlink, cow_readlink },
	{ "mkdir", SYS_mkdir, cow_make },
	{ "mknod", SYS_mknod, cow_make },
	{ "symlink", SYS_symlink, cow_make },
	{ "unlink", SYS_unlink, cow_remove },
	{ "rmdir", SYS_rmdir, cow_remove },
	{ "rename", SYS_rename, cow_rename },
	{ "link", SYS_link, cow_link },
	{ "chmod", SYS_chmod, cow_chmod },
	{ "chown", SYS_chown, cow_chown },
	{ "lchown", SYS_lchown, cow_chown },
	{ "utime", SYS_utime, cow_utimes },
	{ "utimes", SYS_utimes, cow_utimes },
	{ "futimesat", SYS_futimesat, cow_utimes },
	{ "getdents", SYS_getdents, cow_getdents },
#endif
#ifdef SYS_renameat
	{ "renameat", SYS_renameat, cow_rename },
#endif
	{ "openat", SYS_openat, cow_open },
	{ "openat2", SYS_openat2, cow_open },
	{ "newfstatat", SYS_newfstatat, cow_stat },
	{ "statx", SYS_statx, cow_statx },
	{ "faccessat", SYS_faccessat, cow_access },
	{ "faccessat2", SYS_faccessat2, cow_access },
	{ "readlinkat", SYS_readlinkat, cow_readlink },
	{ "statfs", SYS_statfs, cow_statfs },
	{ "getxattr", SYS_getxattr, cow_getxattr },
	{ "lgetxattr", SYS_lgetxattr, cow_getxattr },
	{ "listxattr", SYS_listxattr, cow_getxattr },
	{ "llistxattr", SYS_llistxattr, cow_getxattr },
	{ "fgetxattr", SYS_fgetxattr, cow_getxattr },
	{ "flistxattr", SYS_flistxattr, cow_getxattr },
	{ "getxattrat", SYS_getxattrat, cow_refuse },
	{ "listxattrat", SYS_listxattrat, cow_refuse },
	{ "inotify_add_watch", SYS_inotify_add_watch, cow_watch },
	{ "name_to_handle_at", SYS_name_to_handle_at, cow_refuse },
	{ "mkdirat", SYS_mkdirat, cow_make },
	{ "mknodat", SYS_mknodat, cow_make },
	{ "symlinkat", SYS_symlinkat, cow_make },
	{ "unlinkat", SYS_unlinkat, cow_remove },
	{ "renameat2", SYS_renameat2, cow_rename },
	{ "linkat", SYS_linkat, cow_link },
	{ "truncate", SYS_truncate, cow_truncate },
	{ "fchmod", SYS_fchmod, cow_chmod },
	{ "fchmodat", SYS_fchmodat, cow_chmod },
	{ "fchmodat2", SYS_fchmodat2, cow_chmod },
	{ "fchown", SYS_fchown, cow_chown },
	{ "fchownat", SYS_fchownat, cow_chown },
	{ "utimensat", SYS_utimensat, cow_utimes },
	{ "setxattr", SYS_setxattr, cow_setxattr },
	{ "lsetxattr", SYS_lsetxattr, cow_setxattr },
	{ "fsetxattr", SYS_fsetxattr, cow_setxattr },
	{ "removexattr", SYS_removexattr, cow_setxattr },
	{ "lremovexattr", SYS_lremovexattr, cow_setxattr },
	{ "fremovexattr", SYS_fremovexattr, cow_setxattr },
	{ "setxattrat", SYS_setxattrat, cow_refuse },
	{ "removexattrat", SYS_removexattrat, cow_refuse },
	{ "chdir", SYS_chdir, cow_chdir },
	{ "getcwd", SYS_getcwd, cow_getcwd },
	{ "getdents64", SYS_getdents64, cow_getdents },
	{ "execve", SYS_execve, cow_exec },
	{ "execveat", SYS_execveat, cow_exec },
};
/* clang-format on */

/* A container's filter refuses unshare, whatever for. */
static void find_umask(struct cow *w)
{
	mode_t mask;

	w->has_umasks = unshare(CLONE_FS) == 0;
	if (w->has_umasks)
		return;
	mask = umask(0);
	(void)umask(mask);
	for (size_t i = 0; i < w->n; i++)
		merged_set_umask(w->roots[i].merged, mask);
}

/* One may lie in another. */
static int find_nested(struct cow *w)
{
	int r = 0;

	for (size_t i = 0; i < w->n; i++)
		for (size_t k = 0; k < w->n && r == 0; k++) {
			const char *of = w->roots[i].lower;
			const char *in = w->roots[k].lower;

			if (k != i && path_is_under(in, of))
				r = merged_stop_at(w->roots[i].merged,
						   path_below(in, of) + 1);
		}
	return r;
}

struct cow *cow_new(const struct cow_root *roots, size_t n)
{
	struct cow *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->roots = calloc(n, sizeof(*roots));
	w->bound = calloc(ARRAY_LEN(table), sizeof(*w->bound));
	w->fifos = cow_fifos_new();
	if (!w->roots || !w->bound || !w->fifos) {
		cow_free(w);
		return NULL;
	}
	memcpy(w->roots, roots, n * sizeof(*roots));
	w->n = n;
	if (find_nested(w) < 0) {
		cow_free(w);
		return NULL;
	}
	find_umask(w);
	return w;
}

void cow_free(struct cow *w)
{
	if (!w)
		return;
	cow_fifos_free(w->fifos);
	cow_listing_free(w->listing);
	free(w->bound);
	free(w->denied);
	free(w->roots);
	free(w);
}

struct outcome cow_outcome(int r)
{
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_VALUE(r);
}

struct outcome cow_wait(struct call *c)
{
	call_set_deadline(c, UINT64_MAX, EIO);
	return call_retry(c);
}

int cow_umask(struct call *c, mode_t *ret)
{
	char path[40], text[STATUS_MAX];
	auto_close int fd = -1;
	const char *at;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)call_tid(c));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0 || !call_is_valid(c))
		return -ESRCH;
	text[n] = '\0';
	at = strstr(text, "\nUmask:");
	if (!at)
		return -EIO;
	*ret = (mode_t)strtoul(at + strlen("\nUmask:"), NULL, 8);
	return 0;
}

/* Of this thread alone: what is made has the mode that it is given. */
static int drop_umask(const struct cow *w)
{
	static _Thread_local bool is_dropped;

	if (is_dropped || !w->has_umasks)
		return 0;
	if (unshare(CLONE_FS) < 0)
		return -errno;
	(void)umask(0);
	is_dropped = true;
	return 0;
}

/*
 * The caller's memory, descriptors and working directory are to be seen also
 * where it has changed its ids, and is not to be looked into by who is like it
 * for that. Where root has that capability; of files it says nothing.
 */
static void look_into_it(void)
{
	uint64_t caps;

	if (caps_get_effective(&caps) == 0)
		(void)caps_set_effective(caps | UINT64_C(1) << CAP_SYS_PTRACE);
}

static struct outcome run(struct call *c, void *data)
{
	const struct cow_bound *b = data;
	struct act a = { .changed = false };
	struct outcome o;
	int r = drop_umask(b->w);

	if (r == 0 && geteuid() == 0) {
		r = act_begin(&a, c);
		if (r == 0)
			look_into_it();
	}
	if (r < 0)
		return OUTCOME_FAIL(-r);
	o = b->fn(b->w, c);
	act_end(&a);
	return o;
}

const char *cow_name(int nr, cow_fn **ret)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].nr == nr) {
			*ret = table[i].fn;
			return table[i].name;
		}
	return NULL;
}

size_t cow_rows(struct cow *w, struct handler ret[COW_ROWS])
{
	_Static_assert(ARRAY_LEN(table) <= COW_ROWS, "rows");

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		w->bound[i] = (struct cow_bound){ w, table[i].fn };
		ret[i] = (struct handler){ .name = table[i].name,
					   .nr = table[i].nr,
					   .lane = LANE_LOCAL,
					   .fn = run,
					   .data = &w->bound[i] };
	}
	return ARRAY_LEN(table);
}
