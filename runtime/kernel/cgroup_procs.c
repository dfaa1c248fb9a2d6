#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "kernel/cgroup.h"
#include "kernel/cgroup_internal.h"

enum {
	FREEZE_TIMEOUT_MS = 10 * 1000,
	FREEZE_STEP_MS = 100,
	POLL_STEP_MS = 20,
	V1_STEP_MS = 2,
};

static int no_membership(struct error *err)
{
	(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
			"the sandbox has no cgroup");
	return error_hint(err, "it takes root or a delegated cgroup when the "
			       "sandbox is made");
}

struct pid_list {
	pid_t *v;
	size_t n, room;
};

static int add_pid(struct pid_list *l, pid_t pid)
{
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		pid_t *v = realloc(l->v, room * sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->room = room;
	}
	l->v[l->n++] = pid;
	return 0;
}

/* A cgroup_walk_fn of a struct pid_list. */
static int add_pids_of(int dirfd, void *data)
{
	struct pid_list *l = data;
	auto_(buf) struct buf b = BUF_INIT;
	char *p, *end;
	int r = fd_read_file(dirfd, "cgroup.procs", CGROUP_FILE_MAX, &b);

	/* Gone, or a threaded one, whose processes the parent shows. */
	if (r == -ENOENT || r == -ENODEV || r == -EOPNOTSUPP)
		return 0;
	if (r < 0)
		return r;
	for (p = b.data; p && *p; p = end) {
		long pid = strtol(p, &end, 10);

		if (end == p)
			break;
		/* 0: in a pid namespace that we cannot see into. */
		if (pid > 0 && (r = add_pid(l, (pid_t)pid)) < 0)
			return r;
		end += *end == '\n';
	}
	return 0;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

static void sort_unique(struct pid_list *l)
{
	size_t n = 0;

	if (l->n == 0)
		return;
	qsort(l->v, l->n, sizeof(*l->v), compare_pids);
	for (size_t i = 0; i < l->n; i++) {
		if (n == 0 || l->v[n - 1] != l->v[i])
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

static int list_pids(const char *dir, struct pid_list *ret)
{
	struct pid_list l = { .v = NULL };
	int r = cgroup_walk(dir, add_pids_of, &l);

	if (r < 0 && r != -ENOENT) {
		free(l.v);
		return r;
	}
	sort_unique(&l);
	*ret = l;
	return 0;
}

int cgroup_pids(const struct cgroup *c, pid_t **ret, size_t *ret_n,
		struct error *err)
{
	const struct cgroup_node *n = cgroup_member_node(c);
	struct pid_list l;
	int r;

	if (!n)
		return no_membership(err);
	r = list_pids(n->dir, &l);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot read the processes of '%s'", n->dir);
	*ret = l.v;
	*ret_n = l.n;
	return 0;
}

static bool is_v2(const struct cgroup *c)
{
	return c->node[CTL_UNIFIED].dir != NULL;
}

bool cgroup_can_freeze(const struct cgroup *c)
{
	const struct cgroup_node *n = cgroup_member_node(c);

	return n && cgroup_has_file(n->dir, is_v2(c) ? "cgroup.freeze"
						     : "freezer.state");
}

static bool is_state_v1(const char *dir, const char *state)
{
	auto_(buf) struct buf b = BUF_INIT;

	return cgroup_read(dir, "freezer.state", &b) == 0 &&
	       strncmp(buf_str(&b), state, strlen(state)) == 0;
}

bool cgroup_is_frozen(const struct cgroup *c)
{
	const struct cgroup_node *n = cgroup_member_node(c);
	uint64_t v;

	if (!n)
		return false;
	/* What was ordered: a task on its way there counts. */
	if (is_v2(c))
		return cgroup_read_number(n->dir, "cgroup.freeze", &v) == 0 &&
		       v == 1;
	return is_state_v1(n->dir, "FROZEN") || is_state_v1(n->dir, "FREEZING");
}

/* Waits for "KEY VALUE" in cgroup.events, which can be polled. */
static int wait_event(const char *dir, const char *key, uint64_t value,
		      int timeout_ms)
{
	int64_t end = clock_now_ms() + timeout_ms;
	auto_close int fd = -1;
	char path[PATH_MAX];

	if (cgroup_file_path(dir, "cgroup.events", path) == 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLPRI };
		char text[256];
		int64_t left;
		uint64_t v;
		int r;

		/* Read by this fd before the look: no change is missed. */
		(void)!pread(fd, text, sizeof(text), 0);
		r = cgroup_read_key(dir, "cgroup.events", key, &v);
		if (r == -ENOENT || r == -ENODEV)
			return 0;
		if (r < 0)
			return r;
		if (v == value)
			return 0;
		left = end - clock_now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		(void)poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left);
	}
}

/*
 * A task whose system call a supervisor holds (seccomp notification) does not
 * freeze until it was answered, but does nothing until then either; nor does
 * who waits in vfork for such a one. The others must stand in the freezer.
 */
static bool has_stopped(pid_t pid, const char *tid)
{
	static const char *const places[] = {
		"get_signal",	       "do_freezer_trap",
		"__refrigerator",      "seccomp_do_user_notification",
		"__seccomp_filter",    "kernel_clone",
		"wait_for_vfork_done",
	};
	auto_(buf) struct buf where = BUF_INIT;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%.16s/wchan",
		       (int)pid, tid);
	if (fd_read_file(AT_FDCWD, path, PATH_MAX, &where) < 0)
		return access(path, F_OK) < 0 && errno == ENOENT;
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (strncmp(buf_str(&where), places[i], strlen(places[i])) == 0)
			return true;
	return false;
}

static bool have_threads_stopped(pid_t pid)
{
	auto_dir DIR *d = NULL;
	const struct dirent *e;
	bool all = true;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && all && (e = readdir(d)))
		all = e->d_name[0] == '.' || has_stopped(pid, e->d_name);
	return all;
}

static bool have_all_stopped(const char *dir)
{
	struct pid_list l = { .v = NULL };
	bool all = list_pids(dir, &l) == 0;

	for (size_t i = 0; all && i < l.n; i++)
		all = have_threads_stopped(l.v[i]);
	free(l.v);
	return all;
}

static int wait_frozen(const char *dir)
{
	int64_t end = clock_now_ms() + FREEZE_TIMEOUT_MS;
	int r;

	do {
		r = wait_event(dir, "frozen", 1, FREEZE_STEP_MS);
		if (r == -ETIMEDOUT && have_all_stopped(dir))
			return 0;
	} while (r == -ETIMEDOUT && clock_now_ms() < end);
	return r;
}

/* FREEZING may last for ever unless it is written again and again. */
static int set_state_v1(const char *dir, const char *state)
{
	int64_t end = clock_now_ms() + FREEZE_TIMEOUT_MS;
	int64_t next = clock_now_ms() + FREEZE_STEP_MS;

	for (;;) {
		int r = cgroup_write_raw(dir, "freezer.state", state);

		if (r < 0)
			return r;
		if (is_state_v1(dir, state))
			return 0;
		if (clock_now_ms() >= next) {
			if (strcmp(state, "FROZEN") == 0 &&
			    have_all_stopped(dir))
				return 0;
			next += FREEZE_STEP_MS;
		}
		if (clock_now_ms() >= end)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, V1_STEP_MS);
	}
}

static int set_frozen(const struct cgroup *c, bool frozen)
{
	const char *dir = cgroup_member_node(c)->dir;
	int r;

	if (!is_v2(c))
		return set_state_v1(dir, frozen ? "FROZEN" : "THAWED");
	r = cgroup_write_raw(dir, "cgroup.freeze", frozen ? "1" : "0");
	if (r < 0)
		return r;
	return frozen ? wait_frozen(dir)
		      : wait_event(dir, "frozen", 0, FREEZE_TIMEOUT_MS);
}

int cgroup_freeze(const struct cgroup *c, struct error *err)
{
	int r;

	if (!cgroup_member_node(c))
		return no_membership(err);
	r = set_frozen(c, true);
	if (r == 0)
		return 0;
	/* Half frozen is neither: let go what stands still. */
	(void)set_frozen(c, false);
	return error_set(err, ERR_SYSTEM, -r, "cannot freeze the cgroup '%s'",
			 cgroup_member_node(c)->dir);
}

int cgroup_thaw(const struct cgroup *c, struct error *err)
{
	int r;

	if (!cgroup_member_node(c))
		return no_membership(err);
	r = set_frozen(c, false);
	if (r == 0)
		return 0;
	return error_set(err, ERR_SYSTEM, -r, "cannot thaw the cgroup '%s'",
			 cgroup_member_node(c)->dir);
}

struct signalling {
	const struct cgroup *c;
	int sig;
	size_t n;
};

/* The kernel does not say one that is deeper than a path can be. */
static bool is_member(const struct cgroup *c, int dirfd, pid_t pid)
{
	auto_free char *path = NULL;
	struct pid_list l = { .v = NULL };
	int r = cgroup_path_of(pid, is_v2(c) ? "" : "freezer", &path);
	bool found = r == 0 && path_is_under(path, c->path);

	if (r == -ENAMETOOLONG && add_pids_of(dirfd, &l) == 0)
		for (size_t i = 0; i < l.n; i++)
			found = found || l.v[i] == pid;
	free(l.v);
	return found;
}

/*
 * Between the list and the signal the pid may have been given to a stranger:
 * what the pidfd stands for is signalled only if the pid is in the cgroup
 * after it was opened.
 */
static void signal_member(const struct cgroup *c, int dirfd, pid_t pid, int sig)
{
	auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0 && is_member(c, dirfd, pid))
		(void)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
}

static int signal_members(int dirfd, void *data)
{
	struct pid_list l = { .v = NULL };
	struct signalling *s = data;
	int r = add_pids_of(dirfd, &l);

	sort_unique(&l);
	for (size_t i = 0; r == 0 && i < l.n; i++)
		signal_member(s->c, dirfd, l.v[i], s->sig);
	s->n += l.n;
	free(l.v);
	return r;
}

static int signal_all(const struct cgroup *c, int sig, size_t *ret_n)
{
	struct signalling s = { .c = c, .sig = sig };
	int r = cgroup_walk(cgroup_member_node(c)->dir, signal_members, &s);

	*ret_n = s.n;
	return r == -ENOENT ? 0 : r;
}

int cgroup_signal(const struct cgroup *c, int sig, struct error *err)
{
	const struct cgroup_node *n = cgroup_member_node(c);
	size_t count;
	int r;

	if (!n)
		return no_membership(err);
	r = signal_all(c, sig, &count);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot signal the processes of '%s'", n->dir);
	return 0;
}

/* Without cgroup.kill: whoever forks meanwhile is met in the next round. */
static int kill_by_rounds(const struct cgroup *c, int timeout_ms)
{
	const char *dir = cgroup_member_node(c)->dir;
	int64_t end = clock_now_ms() + timeout_ms;

	for (;;) {
		size_t count = 0;
		int r;

		/* A fork bomb stands still, and the signals wait for it. */
		if (!is_v2(c))
			(void)cgroup_write_raw(dir, "freezer.state", "FROZEN");
		r = signal_all(c, SIGKILL, &count);
		if (!is_v2(c))
			(void)cgroup_write_raw(dir, "freezer.state", "THAWED");
		if (r < 0)
			return r;
		if (count == 0)
			return 0;
		if (clock_now_ms() >= end)
			return -ETIMEDOUT;
		if (!is_v2(c))
			(void)poll(NULL, 0, V1_STEP_MS);
		else
			(void)wait_event(dir, "populated", 0, POLL_STEP_MS);
	}
}

/*
 * Who forks between the kernel's look at it and the signal leaves a child that
 * the walk has passed and that is not killed at birth: until nobody is left, it
 * is asked again.
 */
static int kill_v2(const char *dir, int timeout_ms)
{
	int64_t end = clock_now_ms() + timeout_ms;
	int64_t left = timeout_ms;
	int r;

	do {
		r = cgroup_write_raw(dir, "cgroup.kill", "1");
		if (r < 0)
			return r;
		r = wait_event(dir, "populated", 0,
			       left < POLL_STEP_MS ? (int)left : POLL_STEP_MS);
		left = end - clock_now_ms();
	} while (r == -ETIMEDOUT && left > 0);
	return r;
}

int cgroup_kill(const struct cgroup *c, int timeout_ms, struct error *err)
{
	const struct cgroup_node *n = cgroup_member_node(c);
	int r;

	if (!n)
		return no_membership(err);
	/* cgroup.kill (5.14) kills frozen tasks as well. */
	r = is_v2(c) ? kill_v2(n->dir, timeout_ms) : -ENOENT;
	/* -ENODEV: removed by somebody else meanwhile. */
	if (r == -ENOENT || r == -ENODEV || r == -EOPNOTSUPP)
		r = cgroup_has_file(n->dir, "cgroup.procs")
			    ? kill_by_rounds(c, timeout_ms)
			    : 0;
	if (r == 0 && is_v2(c) && cgroup_is_frozen(c))
		(void)cgroup_write_raw(n->dir, "cgroup.freeze", "0");
	if (r == 0)
		return 0;
	return error_set(err, r == -ETIMEDOUT ? ERR_TIMEOUT : ERR_SYSTEM, -r,
			 "cannot kill the processes of '%s'", n->dir);
}
