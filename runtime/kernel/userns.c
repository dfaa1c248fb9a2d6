#include "kernel/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/limits.h"
#include "base/uapi.h"

enum { MAP_FILE_MAX = 64 * 1024 };

/* What differs between users and groups. */
struct id_kind {
	const char *map; /* in /proc/PID */
	const char *helper;
	const char *subid;
	const char *what;
};

/* clang-format off */
static const struct id_kind user_ids = {
	"uid_map", "newuidmap", "/etc/subuid", "user"
};
static const struct id_kind group_ids = {
	"gid_map", "newgidmap", "/etc/subgid", "group"
};
/* clang-format on */

/* Reads "inside outside count" lines. */
static int read_map(const char *path, struct idmap_list *ret)
{
	auto_(buf) struct buf b = BUF_INIT;
	char *line, *save = NULL;
	int r = fd_read_file(AT_FDCWD, path, MAP_FILE_MAX, &b);

	if (r < 0)
		return r;
	if (!b.data)
		return 0;
	for (line = strtok_r(b.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		unsigned int in, out, count;

		if (sscanf(line, "%u %u %u", &in, &out, &count) != 3)
			return -EIO;
		r = idmap_add(ret, in, out, count);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A stat, where reading the map takes five times as long. */
static bool is_initial_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/user", &st) == 0 &&
	       st.st_ino == USER_NS_INIT_INO;
}

bool userns_is_initial(void)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;

	return is_initial_ns() ||
	       (read_map("/proc/self/uid_map", &m.uids) == 0 && m.uids.n == 1 &&
		m.uids.extents[0].inside == 0 &&
		m.uids.extents[0].outside == 0 &&
		m.uids.extents[0].count == UINT32_MAX);
}

uid_t userns_initial_uid(void)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;
	uint32_t out;

	if (is_initial_ns() || read_map("/proc/self/uid_map", &m.uids) < 0)
		return geteuid();
	if (idmap_to_outside(&m.uids, geteuid(), &out) < 0)
		return geteuid();
	return out;
}

static bool is_single(const struct idmap_list *l, uint32_t id)
{
	return l->n == 1 && l->extents[0].count == 1 &&
	       l->extents[0].outside == id;
}

static int write_proc(pid_t pid, const char *file, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return fd_write_file(AT_FDCWD, path, text);
}

/* One write(2): the kernel takes a map only whole. */
static int write_map(pid_t pid, const struct id_kind *kind,
		     const struct idmap_list *l)
{
	auto_(buf) struct buf b = BUF_INIT;

	for (size_t i = 0; i < l->n; i++)
		buf_printf(&b, "%u %u %u\n", l->extents[i].inside,
			   l->extents[i].outside, l->extents[i].count);
	if (buf_failed(&b))
		return -ENOMEM;
	return write_proc(pid, kind->map, buf_str(&b));
}

/* "PROGRAM PID inside outside count ..." */
static void add_words(struct buf *words, const char *path, pid_t pid,
		      const struct idmap_list *l)
{
	buf_printf(words, "%s%c%d%c", path, 0, (int)pid, 0);
	for (size_t i = 0; i < l->n; i++)
		buf_printf(words, "%u%c%u%c%u%c", l->extents[i].inside, 0,
			   l->extents[i].outside, 0, l->extents[i].count, 0);
}

static int start_helper(struct helper *h, const struct id_kind *kind, pid_t pid,
			const struct idmap_list *l, struct error *err)
{
	auto_(buf) struct buf words = BUF_INIT;
	char path[HELPER_PATH_MAX];
	int r;

	if (!helper_find(kind->helper, path)) {
		(void)error_say(err, ERR_UNSUPPORTED, ENOENT,
				"cannot map %s ids: '%s' is not installed",
				kind->what, kind->helper);
		return error_hint(err, "install the package 'uidmap', or map "
				       "only your own id");
	}
	add_words(&words, path, pid, l);
	r = helper_start(h, &words);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot run '%s'", path);
	return 0;
}

static int wait_helper(struct helper *h, const struct id_kind *kind,
		       struct error *err)
{
	char text[HELPER_TEXT_MAX] = "";
	int r;

	if (h->pid <= 0)
		return 0;
	r = helper_wait(h, text, sizeof(text));
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "'%s' does not answer",
				 kind->helper);
	if (r == 0)
		return 0;
	(void)error_say(err, ERR_UNSUPPORTED, EPERM, "cannot map %s ids: %s",
			kind->what, *text ? text : "the helper was refused");
	return error_hint(err,
			  "the range must be given to you in '%s'; "
			  "without, map your own id alone",
			  kind->subid);
}

static int map_error(const struct id_kind *kind, int sys, struct error *err)
{
	(void)error_set(err, sys == EPERM ? ERR_UNSUPPORTED : ERR_SYSTEM, sys,
			"cannot write the %s id map", kind->what);
	if (sys == EPERM && geteuid() == 0)
		return error_hint(err, "the ids outside must be mapped in the "
				       "user namespace we run in");
	if (sys == EINVAL)
		return error_hint(err, "the ranges must not overlap, and 340 "
				       "is the largest number of them");
	return error_code(err);
}

/* Direct, or with @h started. */
static int map_ids(pid_t pid, const struct id_kind *kind,
		   const struct idmap_list *l, uint32_t own, struct helper *h,
		   struct error *err)
{
	int r = write_map(pid, kind, l);

	if (r == -EPERM && is_single(l, own) && kind == &group_ids) {
		/* user_namespaces(7): an own gid needs setgroups denied. */
		r = write_proc(pid, "setgroups", "deny");
		if (r == 0)
			r = write_map(pid, kind, l);
	}
	if (r == 0)
		return 0;
	if (r != -EPERM || is_single(l, own) || geteuid() == 0)
		return map_error(kind, -r, err);
	return start_helper(h, kind, pid, l, err);
}

int userns_write_maps(pid_t pid, const struct idmap *m, struct error *err)
{
	auto_(helper) struct helper users = HELPER_INIT, groups = HELPER_INIT;
	int r;

	r = map_ids(pid, &user_ids, &m->uids, geteuid(), &users, err);
	if (r < 0)
		return r;
	r = map_ids(pid, &group_ids, &m->gids, getegid(), &groups, err);
	if (r < 0)
		return r;
	r = wait_helper(&users, &user_ids, err);
	if (r < 0)
		return r;
	return wait_helper(&groups, &group_ids, err);
}

static int unshare_error(int sys, bool user, struct error *err)
{
	if (!user)
		return error_set(err, ERR_SYSTEM, sys,
				 "cannot make a mount namespace");
	if (sys != EPERM && sys != ENOSPC && sys != EUSERS && sys != EINVAL)
		return error_set(err, ERR_SYSTEM, sys,
				 "cannot make a user namespace");
	(void)error_set(err, ERR_UNSUPPORTED, sys,
			"cannot make a user namespace");
	if (sys == EINVAL)
		return error_hint(err, "the process has threads, or the kernel "
				       "lacks CONFIG_USER_NS");
	if (sys == EPERM)
		return error_hint(err, "see the sysctls kernel.apparmor_"
				       "restrict_unprivileged_userns and "
				       "kernel.unprivileged_userns_clone");
	return error_hint(err, "see the sysctl user.max_user_namespaces");
}

/* The helper child: writes the maps of its parent when told to. */
static void write_parent_maps(pid_t parent, const struct idmap *m, int sock)
{
	struct error e = ERROR_INIT;
	char c;

	if (fd_read_full(sock, &c, 1) == 1)
		(void)userns_write_maps(parent, m, &e);
	else
		(void)error_say(&e, ERR_SYSTEM, EPIPE, "the parent is gone");
	(void)send(sock, &e, sizeof(e), MSG_NOSIGNAL);
}

/* Unshares, tells the child on @sock, and waits for its answer. */
static int unshare_and_wait(int flags, int sock, struct error *err)
{
	struct error e = ERROR_INIT;

	if (unshare(flags) < 0)
		return unshare_error(errno, true, err);
	(void)send(sock, "", 1, MSG_NOSIGNAL);
	if (fd_read_full(sock, &e, sizeof(e)) != (ssize_t)sizeof(e))
		return error_say(err, ERR_SYSTEM, EIO,
				 "the child that writes the id maps has died");
	if (e.kind == ERR_NONE)
		return 0;
	if (err)
		*err = e;
	return error_code(&e);
}

/* The child stays in the old namespace and so may write the maps. */
static int unshare_mapped_by_child(const struct idmap *m, int flags,
				   struct error *err)
{
	auto_close int ours = -1, theirs = -1;
	pid_t parent = getpid(), child;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	child = fork();
	if (child < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot fork");
	if (child == 0) {
		(void)close(take_fd(&ours));
		write_parent_maps(parent, m, theirs);
		_exit(0);
	}
	(void)close(take_fd(&theirs));
	r = unshare_and_wait(flags, ours, err);
	(void)close(take_fd(&ours));
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

/* A process may map its own single ids itself. */
static int unshare_own(const struct idmap *m, int flags, struct error *err)
{
	int r;

	if (unshare(flags) < 0)
		return unshare_error(errno, true, err);
	r = write_map(getpid(), &user_ids, &m->uids);
	if (r < 0)
		return map_error(&user_ids, -r, err);
	r = write_proc(getpid(), "setgroups", "deny");
	if (r == 0)
		r = write_map(getpid(), &group_ids, &m->gids);
	if (r < 0)
		return map_error(&group_ids, -r, err);
	return 0;
}

static int become_root(const struct idmap *m, struct error *err)
{
	uint32_t out;

	/* EPERM: "deny" was written, and nothing can be dropped. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot drop the supplementary groups");
	if (idmap_to_outside(&m->gids, 0, &out) == 0 && setresgid(0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot become group 0");
	if (idmap_to_outside(&m->uids, 0, &out) == 0 && setresuid(0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot become user 0");
	return 0;
}

static int enter_mapped(const struct idmap *m, int flags, struct error *err)
{
	int r, dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

	/* Else /proc/PID is root's, and neither we nor newuidmap may write. */
	if (dumpable != 1 && geteuid() != 0 &&
	    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make /proc/self ours");
	if (geteuid() != 0 && is_single(&m->uids, geteuid()) &&
	    is_single(&m->gids, getegid()))
		r = unshare_own(m, flags, err);
	else
		r = unshare_mapped_by_child(m, flags, err);
	if (dumpable == 0 && geteuid() != 0)
		(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (r < 0)
		return r;
	return become_root(m, err);
}

int userns_enter(const struct idmap *m, bool mounts, struct error *err)
{
	int flags = mounts ? CLONE_NEWNS : 0;
	int r;

	if (!idmap_is_empty(m)) {
		r = enter_mapped(m, flags | CLONE_NEWUSER, err);
		if (r < 0)
			return r;
	} else if (mounts && unshare(CLONE_NEWNS) < 0) {
		return unshare_error(errno, false, err);
	}
	if (mounts && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make the mounts private");
	return 0;
}
