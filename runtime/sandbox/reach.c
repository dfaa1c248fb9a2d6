#include "sandbox/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "kernel/landlock.h"
#include "sandbox/plan.h"
#include "spec/request.h"
#include "spec/spec.h"

#define SAY(a, ...) \
	((void)snprintf((a)->because, sizeof((a)->because), __VA_ARGS__))
#define RECOMMEND(a, ...) \
	((void)snprintf((a)->remedy, sizeof((a)->remedy), __VA_ARGS__))

static void begin(struct reach_answer *a, enum reach_verdict verdict, int error)
{
	a->verdict = verdict;
	a->error = error;
	a->ours = verdict == REACH_DENIED;
	a->because[0] = a->remedy[0] = '\0';
	a->where = NULL;
}

static int open_inside(const struct reach *r, const char *path, struct stat *st)
{
	int fd = fd_open_in_root(r->root_fd, path, O_PATH, 0);

	if (fd >= 0 && fstat(fd, st) < 0) {
		int sys = errno;

		(void)close(fd);
		return -sys;
	}
	return fd;
}

/* A device where there are none: what --fs-deny is over, rootfs_masks.c. */
static bool refuses(const struct reach *r, const char *path)
{
	struct stat st;
	struct statvfs v;
	auto_close int fd = open_inside(r, path, &st);

	return fd >= 0 && S_ISCHR(st.st_mode) && fstatvfs(fd, &v) == 0 &&
	       v.f_flag & ST_NODEV;
}

/* Hidden by the caller's own words, or by ours. */
bool reach_hidden(const struct reach *r, const char *path, int error,
		  struct reach_answer *a)
{
	const struct spec_strings *masks =
		r->plan ? &r->plan->denied : &r->spec->masked_paths;
	const char *mask = NULL;

	for (size_t i = 0; i < masks->n && !mask; i++)
		if (path_is_under(path, masks->v[i]))
			mask = masks->v[i];
	if (!mask)
		return false;
	/* Below a directory there is nothing. */
	begin(a, REACH_DENIED,
	      r->plan || refuses(r, path) ? EACCES
	      : strcmp(mask, path) == 0	  ? error
					  : ENOENT);
	if (r->request)
		a->where = request_origin(r->request, "filesystem.deny", mask);
	if (!r->request)
		SAY(a, "linux.maskedPaths hides '%s'", mask);
	else if (a->where)
		SAY(a, "filesystem.deny hides '%s'", mask);
	else
		SAY(a, "builtin:secrets hides '%s' from every sandbox", mask);
	return true;
}

/* The narrowest option. */
static void recommend(const struct reach *r, const char *path, int mode,
		      struct reach_answer *a)
{
	/* --fs-read takes the place of what is seen without one. */
	if (mode == W_OK)
		RECOMMEND(a, "--fs-write %s", path);
	else if (r->request->read.n)
		RECOMMEND(a, "--fs-read %s", path);
	else
		RECOMMEND(a, "--fs-mount %s:%s:ro", path, path);
}

/* What could not be opened with @sys. */
static void judge_absent(const struct reach *r, const char *path, int sys,
			 int mode, struct reach_answer *a)
{
	struct stat st;

	if (sys != ENOENT && sys != ENOTDIR) {
		begin(a, REACH_UNKNOWN, sys);
		SAY(a, "%s", strerrordesc_np(sys));
		return;
	}
	if (r->request && r->request->chroot) {
		begin(a, REACH_UNKNOWN, sys);
		SAY(a, "not sandlock: the new root does not have it");
		return;
	}
	if (lstat(path, &st) < 0) {
		begin(a, REACH_UNKNOWN, sys);
		SAY(a, "not sandlock: on the host, too: %s",
		    strerrordesc_np(errno));
		return;
	}
	begin(a, REACH_DENIED, sys);
	SAY(a, "it is not among what the sandbox sees");
	if (r->request && access(path, mode) == 0)
		recommend(r, path, mode, a);
}

/* What the host says of who we are, which is who the payload is. */
static bool may_access(int fd, int mode)
{
	char path[FD_PATH_MAX];

	return faccessat(AT_FDCWD, fd_proc_path(fd, path), mode, AT_EACCESS) ==
	       0;
}

static void judge_mode(const struct stat *st, struct reach_answer *a)
{
	begin(a, REACH_DENIED, EACCES);
	a->ours = false;
	SAY(a, "not sandlock: mode %04o of owner %u, group %u",
	    st->st_mode & 07777, (unsigned int)st->st_uid,
	    (unsigned int)st->st_gid);
}

/* Where a file would be made that exists nowhere; malloc'ed or NULL. */
static char *parent_of(const char *path)
{
	struct stat st;
	char *parent = lstat(path, &st) < 0 ? strdup(path) : NULL;
	char *slash = parent ? strrchr(parent, '/') : NULL;

	if (slash)
		slash[slash == parent] = '\0';
	return parent;
}

static bool has_rule(const struct plan *p, const char *path, unsigned int right)
{
	for (size_t i = 0; i < p->n_paths; i++)
		if ((p->paths[i].access & right) == right &&
		    path_is_under(path, p->paths[i].path))
			return true;
	return false;
}

bool reach_in_branch(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->workdirs.n; i++)
		if (path_is_under(path, p->workdirs.v[i]))
			return true;
	for (size_t i = 0; i < p->uppers.n; i++)
		if (path_is_under(path, p->uppers.v[i]))
			return true;
	return false;
}

/* What a rule would be for: where nothing is yet, what it would lie in. */
static char *subject_of(const char *path, int mode)
{
	char *parent = mode == W_OK ? parent_of(path) : NULL;

	return parent ? parent : strdup(path);
}

/* By the rules of tier C. */
static void judge_rules(const struct reach *r, const char *path, int mode,
			struct reach_answer *a)
{
	auto_free char *subject = subject_of(path, mode);
	struct stat st = { .st_mode = 0 };
	unsigned int right = mode == W_OK ? LANDLOCK_WRITE : LANDLOCK_READ;

	if (reach_hidden(r, path, EACCES, a))
		return;
	if (!subject || lstat(subject, &st) < 0) {
		judge_absent(r, path, ENOENT, mode, a);
		return;
	}
	if (mode == R_OK && S_ISDIR(st.st_mode))
		right = LANDLOCK_LIST;
	if (!reach_in_branch(r->plan, path) &&
	    !has_rule(r->plan, subject, right) &&
	    (right != LANDLOCK_LIST ||
	     !has_rule(r->plan, subject, LANDLOCK_READ))) {
		begin(a, REACH_DENIED, EACCES);
		SAY(a, "no rule allows it");
		if (access(subject, mode) == 0)
			recommend(r, subject, mode, a);
		return;
	}
	if (access(subject, mode) < 0) {
		judge_mode(&st, a);
		return;
	}
	begin(a, REACH_ALLOWED, 0);
	SAY(a, "%s",
	    reach_in_branch(r->plan, path) ? "it is of the branch"
					   : "a rule allows it");
}

void reach_read(const struct reach *r, const char *path,
		struct reach_answer *ret)
{
	auto_close int fd = -1;
	struct stat st;

	if (r->plan) {
		judge_rules(r, path, R_OK, ret);
		return;
	}
	if (reach_hidden(r, path, 0, ret))
		return;
	fd = open_inside(r, path, &st);
	if (fd < 0) {
		judge_absent(r, path, -fd, R_OK, ret);
		return;
	}
	if (!may_access(fd, R_OK)) {
		judge_mode(&st, ret);
		return;
	}
	begin(ret, REACH_ALLOWED, 0);
	SAY(ret, "the sandbox sees it");
}

void reach_write(const struct reach *r, const char *path,
		 struct reach_answer *ret)
{
	auto_free char *parent = NULL;
	auto_close int fd = -1;
	struct statvfs v;
	struct statfs f;
	struct stat st;
	int sys;

	if (r->plan) {
		judge_rules(r, path, W_OK, ret);
		return;
	}
	if (reach_hidden(r, path, EACCES, ret))
		return;
	fd = open_inside(r, path, &st);
	sys = -fd;
	if (fd == -ENOENT)
		parent = parent_of(path);
	if (parent)
		fd = open_inside(r, parent, &st);
	if (fd < 0) {
		judge_absent(r, path, sys, W_OK, ret);
		return;
	}
	if (fstatvfs(fd, &v) < 0 || fstatfs(fd, &f) < 0) {
		begin(ret, REACH_UNKNOWN, errno);
		SAY(ret, "%s", strerrordesc_np(errno));
		return;
	}
	if (v.f_flag & ST_RDONLY) {
		begin(ret, REACH_DENIED, EROFS);
		SAY(ret, "it is mounted read-only");
		if (parent)
			path = parent;
		if (r->request && access(path, W_OK) == 0)
			RECOMMEND(ret, "--fs-write %s", path);
		return;
	}
	if (!may_access(fd, W_OK)) {
		judge_mode(&st, ret);
		return;
	}
	begin(ret, REACH_ALLOWED, 0);
	if (f.f_type == OVERLAYFS_SUPER_MAGIC)
		SAY(ret, "it goes to the branch");
	else if (f.f_type == TMPFS_MAGIC && r->request)
		SAY(ret, "the place is the sandbox's own, and ends with it");
	else
		SAY(ret, "it is written through");
}
