#include "supervise/exec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "kernel/pidfd.h"
#include "policy/ask.h"
#include "spec/spec.h"
#include "supervise/act.h"
#include "supervise/callers.h"
#include "supervise/denied_paths.h"
#include "supervise/internal.h"
#include "supervise/interpreter.h"
#include "supervise/object.h"
#include "supervise/redirect.h"
#include "supervise/words.h"

/* What was read of a call, once. */
struct snapshot {
	char path[PATH_MAX];
	struct buf argv;
	struct object object;
	struct interpreters by;
};

/* What is kept of it until it is answered. */
struct exec {
	const struct exec_asker *asker;
	struct snapshot s;
	struct ask ask;
	const char *rule; /* that it is asked for; NULL: none */
	/* The command itself: what is executed was read by us and stands in
	 * memory of ours, so there is nothing to hold still. */
	bool is_first;
	bool is_launcher; /* that, or of exec */
};

static void snapshot_done(struct snapshot *s)
{
	buf_done(&s->argv);
	object_done(&s->object);
	interpreters_done(&s->by);
}

static void exec_free(void *data)
{
	struct exec *x = data;

	ask_done(&x->ask);
	snapshot_done(&x->s);
	free(x);
}

static bool is_execveat(const struct call *c)
{
	return call_nr(c) == SYS_execveat;
}

/* Where the arguments are: execveat has a directory before them. */
static unsigned int first_arg(const struct call *c)
{
	return is_execveat(c) ? 1 : 0;
}

/* @places: it is read again. */
static int read_snapshot(const struct exec_asker *a, struct call *c,
			 struct snapshot *s, struct ranges *places)
{
	unsigned int i = first_arg(c);
	int dirfd = is_execveat(c) ? (int)call_arg(c, 0) : AT_FDCWD;
	uint64_t flags = is_execveat(c) ? call_arg(c, 4) : 0;
	int r = call_read_string(c, call_arg(c, i), s->path, sizeof(s->path));

	if (r == 0)
		r = words_read(c, call_arg(c, i + 1), &s->argv, places);
	if (r == 0 && places)
		r = words_read(c, call_arg(c, i + 2), NULL, places);
	if (r == 0 && places)
		r = ranges_add(places, call_arg(c, i), strlen(s->path) + 1);
	if (r == 0)
		r = ask_find_object(a->asker, c, dirfd,
				    places ? 0 : call_arg(c, i), s->path,
				    !(flags & AT_SYMLINK_NOFOLLOW), &s->object);
	if (r == 0)
		r = interpreters_find(a->asker, c, s->path, &s->object, &s->by);
	return r;
}

/* The kernel executes what interprets a script, or loads a program, without a
 * call. */
static const char *match(const struct exec_asker *a, const struct snapshot *s)
{
	size_t n = interpreters_asked(&s->by);
	const char *rule =
		ask_match_exec(a->rules, s->object.path, s->object.real);

	for (size_t i = 0; i < n && !rule; i++)
		rule = ask_match_exec(a->rules, s->by.v[i].path,
				      s->by.v[i].real);
	if (!rule && s->by.is_unknown && a->rules->n)
		rule = "(its interpreter cannot be known)";
	return rule;
}

static bool is_launcher(struct exec_asker *a, struct call *c)
{
	pid_t pid = call_tgid(c);
	char link[32];
	struct stat st;

	if (pid && atomic_compare_exchange_strong(&a->first_pid, &pid, 0))
		return true;
	(void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)call_tgid(c));
	return a->launcher_ino && stat(link, &st) == 0 &&
	       st.st_dev == a->launcher_dev && st.st_ino == a->launcher_ino &&
	       call_is_valid(c);
}

/* A listener comes with one process, which was ours until it executes what it
 * is for. */
static bool is_first_of_listener(struct call *c)
{
	return !atomic_exchange(&c->l->has_executed, true);
}

static int capture(const struct exec_asker *a, struct call *c,
		   struct exec **ret)
{
	struct exec *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return -ENOMEM;
	x->asker = a;
	call_keep(c, x, exec_free);
	r = read_snapshot(a, c, &x->s, NULL);
	if (r < 0)
		return r;
	x->rule = match(a, &x->s);
	*ret = x;
	return 0;
}

static const char *name_of(const struct call *c)
{
	return is_execveat(c) ? "execveat" : "execve";
}

/*
 * What is denied is not executed as an interpreter of something else either.
 * What we cannot look into could name any.
 */
static bool has_denied_interpreter(const struct exec_asker *a, struct call *c,
				   const struct interpreters *by)
{
	for (size_t i = 0; i < by->n; i++)
		if (ask_is_denied(a->asker, c, name_of(c), &by->v[i]))
			return true;
	return by->is_unknown && denied_paths_any(a->asker->denied_paths);
}

/* ------------------------------------------------------ another path -- */

/* What an exec that was allowed is to come back as (supervise/redirect.h). */
struct passed {
	char path[PATH_MAX];
	struct buf argv;
	struct object object; /* to be executed; only if that is the same */
	bool is_same;
};

/* Is what is executed what was asked about? */
static int check_object(struct call *c, const struct exec *x,
			const struct object *now)
{
	struct interpreters by;
	int r = interpreters_find(x->asker->asker, c, x->s.path, now, &by);

	if (r == 0 && (!object_is_unchanged(&x->s.object, now) ||
		       !interpreters_are_unchanged(&x->s.by, &by)))
		r = -EPERM;
	interpreters_done(&by);
	return r;
}

static void passed_free(void *data)
{
	struct passed *p = data;

	buf_done(&p->argv);
	object_done(&p->object);
	free(p);
}

static void passed_name(void *data, const char *path)
{
	path_copy(((struct passed *)data)->path, path);
}

static void add_words(struct passed *p, const struct redirect *to,
		      const struct buf *argv)
{
	size_t first = argv->len ? strlen(argv->data) + 1 : 0;

	for (size_t i = 0; i < to->n_words; i++)
		buf_add(&p->argv, to->words[i], strlen(to->words[i]) + 1);
	if (!to->n_words)
		first = 0;
	if (argv->len > first)
		buf_add(&p->argv, argv->data + first, argv->len - first);
}

int exec_pass(struct call *c, struct redirect *to)
{
	const struct exec *x = call_kept_by(c, exec_free);
	bool at = is_execveat(c);
	struct passed *p;
	int r;

	if (!x)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	r = ask_find_object(x->asker->asker, c,
			    at ? (int)call_arg(c, 0) : AT_FDCWD, 0, x->s.path,
			    !at || !(call_arg(c, 4) & AT_SYMLINK_NOFOLLOW),
			    &p->object);
	if (r == 0)
		r = check_object(c, x, &p->object);
	path_copy(p->path, to->path);
	p->is_same = to->n_words == 0;
	add_words(p, to, &x->s.argv);
	if (r == 0 && buf_failed(&p->argv))
		r = -ENOMEM;
	if (r < 0) {
		passed_free(p);
		return r;
	}
	to->pass = p;
	to->free_pass = passed_free;
	to->name_pass = passed_name;
	return 0;
}

static bool is_as_passed(const struct passed *p, const struct snapshot *s)
{
	return strcmp(p->path, s->path) == 0 && p->argv.len == s->argv.len &&
	       (!s->argv.len ||
		memcmp(p->argv.data, s->argv.data, s->argv.len) == 0) &&
	       (!p->is_same || object_has_same_file(&p->object, &s->object));
}

/* It was asked about under its own name. */
static struct outcome come_back(const struct exec_asker *a, struct call *c,
				struct passed *p)
{
	struct exec *x;
	int r = capture(a, c, &x);

	if (r == 0 && !is_as_passed(p, &x->s))
		r = -EPERM;
	passed_free(p);
	return r < 0 ? OUTCOME_FAIL(-r) : OUTCOME_GO;
}

/* Of what does not exist; but not everybody comes that far. */
static int errno_of_missing(struct call *c, const struct object *o)
{
	auto_close int root_fd = o->walk ? call_open_root(c) : -ENOENT;
	auto_close int fd = -1;
	struct act act;
	int r = root_fd < 0 ? root_fd : act_begin(&act, c);

	if (r < 0)
		return ENOENT;
	fd = fd_open_in_root(root_fd, o->walk, O_PATH | O_CLOEXEC, 0);
	act_end(&act);
	return fd == -EACCES ? EACCES : ENOENT;
}

static struct outcome before_exec(struct call *c, void *data)
{
	struct exec_asker *a = data;
	struct event e = { .syscall = name_of(c), .category = EVENT_PROCESS };
	struct exec *x = call_kept_by(c, exec_free);
	struct passed *p = x ? NULL : redirect_take(c);
	int r;

	if (p)
		return come_back(a, c, p);
	if (!x) {
		bool is_new = is_first_of_listener(c);
		bool is_first = is_launcher(a, c);

		/* Rules are for what the command does, not for itself, under
		 * another path neither. */
		if (is_first && !a->asker->asks_all && !a->asker->finder)
			return OUTCOME_GO;
		r = capture(a, c, &x);
		if (r < 0)
			return OUTCOME_FAIL(-r);
		x->is_first = is_first;
		x->is_launcher = is_first || is_new;
		if (is_first)
			x->rule = NULL;
		/* As for every directory of $PATH but one. What is executed by
		 * its descriptor is there, whatever its name (a memfd). */
		if (*x->s.path && !x->s.object.exists && x->s.object.real)
			return OUTCOME_FAIL(errno_of_missing(c, &x->s.object));
		if (has_denied_interpreter(a, c, &x->s.by))
			return OUTCOME_FAIL(EACCES);
	}
	e.starts = x->is_first;
	e.is_launcher = x->is_launcher;
	e.argv = x->s.argv.data;
	e.argv_len = x->s.argv.len;
	e.interpreter = interpreters_shown(&x->s.by);
	return ask_about_object(a->asker, &x->ask, c, &e, &x->s.object,
				x->rule);
}

/* ------------------------------------------------------------- freeze -- */

static bool is_fork(int nr)
{
#ifdef SYS_vfork
	if (nr == SYS_vfork)
		return true;
#endif
	return nr == SYS_clone || nr == SYS_clone3;
}

/* One of its threads is suspended until a child of it is on its own. */
static bool waits_for_child(pid_t pid)
{
	char path[32];
	auto_dir DIR *d = NULL;
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

		if (tid > 0 && is_fork(task_blocked_in(tid)))
			return true;
	}
	return false;
}

/* Of stopped processes only one may share our memory: who waits in vfork. */
static int check_sharing(const struct exec_asker *a, struct call *c)
{
	size_t n;
	const pid_t *pids = freezer_processes(a->freezer, &n);
	pid_t tgid = call_tgid(c);
	struct proc_stat st;

	if (proc_read_stat(tgid, &st) < 0)
		return -ESRCH;
	for (size_t i = 0; i < n; i++) {
		int r = pids[i] == tgid ? 0
					: freezer_shares(a->freezer, pids[i]);

		if (r < 0)
			return r;
		if (r && !(pids[i] == st.ppid && waits_for_child(pids[i])))
			return -EPERM;
	}
	return 0;
}

static bool is_equal(const struct snapshot *a, const struct snapshot *b)
{
	return strcmp(a->path, b->path) == 0 && a->argv.len == b->argv.len &&
	       (!a->argv.len ||
		memcmp(a->argv.data, b->argv.data, a->argv.len) == 0) &&
	       object_is_unchanged(&a->object, &b->object) &&
	       interpreters_are_unchanged(&a->by, &b->by);
}

/* With everybody frozen. */
static int check_again(const struct exec_asker *a, struct call *c,
		       const struct exec *x)
{
	struct snapshot *now = calloc(1, sizeof(*now));
	struct ranges places = { .n = 0 };
	int r = now ? read_snapshot(a, c, now, &places) : -ENOMEM;

	if (r == 0 && (!is_equal(&x->s, now) ||
		       ask_is_denied(a->asker, c, name_of(c), &now->object)))
		r = -EPERM;
	if (r == 0 && has_denied_interpreter(a, c, &now->by))
		r = -EACCES;
	if (r == 0)
		r = words_are_private(c, &places);
	if (r == 0)
		r = check_sharing(a, c);
	if (now)
		snapshot_done(now);
	free(now);
	ranges_done(&places);
	return r;
}

/* What was held for an exec to be let go on, which it has been, or not. */
static void let_all_go(const struct exec_asker *a)
{
	ask_hold_objects(a->asker, false);
	if (a->callers)
		callers_exec_end(a->callers);
}

/* NULL: nobody has to be frozen for it. */
static const struct exec *to_freeze(struct call *c)
{
	const struct exec *x = call_kept_by(c, exec_free);

	return x && !x->is_first ? x : NULL;
}

static int settle(struct call *c, void *data)
{
	const struct exec_asker *a = data;
	const struct exec *x = call_kept_by(c, exec_free);
	int e, r;

	if (!x)
		return 0;
	/* Whoever was asked may have denied the path before the answer. */
	if (x->is_first)
		return ask_is_denied(a->asker, c, name_of(c), &x->s.object) ||
				       has_denied_interpreter(a, c, &x->s.by)
			       ? EACCES
			       : 0;
	if (a->callers)
		callers_exec_begin(a->callers);
	ask_hold_objects(a->asker, true);
	e = freezer_begin(a->freezer, c, FREEZE_SEIZE);
	r = e ? 0 : check_again(a, c, x);
	if (r < 0) {
		freezer_cancel(a->freezer, c);
		e = r == -EACCES ? EACCES : EPERM;
	}
	if (e)
		let_all_go(a);
	return e;
}

static void sent(struct call *c, void *data)
{
	const struct exec_asker *a = data;

	if (!to_freeze(c))
		return;
	freezer_end(a->freezer, c);
	let_all_go(a);
}

static void undo(struct call *c, void *data)
{
	const struct exec_asker *a = data;

	if (!to_freeze(c))
		return;
	freezer_cancel(a->freezer, c);
	let_all_go(a);
}

static const struct account account = { settle, sent, undo };

size_t exec_rows(struct exec_asker *a, struct handler ret[EXEC_ROWS])
{
	ret[0] = (struct handler){ "execve",	SYS_execve, LANE_LOCAL,
				   before_exec, a,	    &account };
	ret[1] = (struct handler){ "execveat", SYS_execveat,
				   LANE_LOCAL, before_exec,
				   a,	       &account };
	return EXEC_ROWS;
}
