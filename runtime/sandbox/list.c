/* list, ps, state: looking at sandboxes without touching them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "sandbox/inspect.h"
#include "sandbox/lookup.h"
#include "sandbox/stale.h"
#include "spec/spec.h"

enum { CMDLINE_MAX = 128 * 1024 };

int sandbox_state_json(const struct sandbox_env *env, const char *name,
		       struct buf *ret, struct error *err)
{
	struct spec *spec = NULL;
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, err);

	if (r == 0)
		r = state_load_spec(f.slot, f.state, NULL, &spec, err);
	if (r == 0)
		r = state_to_json(
			f.state, spec, sandbox_status_name(f.status),
			f.status == STATUS_STOPPED ? 0 : f.state->init.pid,
			true, ret, err);
	spec_free(spec);
	found_done(&f);
	return r;
}

static int pids_found(struct found *f, pid_t **ret, size_t *ret_n,
		      struct error *err)
{
	/* As with runc: a container that ended has no processes. */
	if (f->status == STATUS_STOPPED) {
		*ret = NULL;
		*ret_n = 0;
		return 0;
	}
	return state_pids(f->state, ret, ret_n, err);
}

int sandbox_pids(const struct sandbox_env *env, const char *name, pid_t **ret,
		 size_t *ret_n, struct error *err)
{
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, err);

	if (r == 0)
		r = pids_found(&f, ret, ret_n, err);
	found_done(&f);
	return r;
}

/* Words of /proc/PID/cmdline with blanks between them; NULL if empty. */
static char *read_command(pid_t pid)
{
	auto_(buf) struct buf b = BUF_INIT;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	/* -EFBIG leaves the beginning in the buffer, which will do. */
	(void)fd_read_file(AT_FDCWD, path, CMDLINE_MAX, &b);
	while (b.len && !b.data[b.len - 1])
		b.len--;
	if (!b.len)
		return NULL;
	for (size_t i = 0; i < b.len; i++)
		if (!b.data[i])
			b.data[i] = ' ';
	return strndup(b.data, b.len);
}

static int64_t uptime_of(const struct proc_id *id)
{
	auto_(buf) struct buf b = BUF_INIT;
	int64_t up;

	if (fd_read_file(AT_FDCWD, "/proc/uptime", 128, &b) < 0)
		return -1;
	up = strtoll(buf_str(&b), NULL, 10) -
	     (int64_t)(id->start_time / (uint64_t)sysconf(_SC_CLK_TCK));
	return up < 0 ? 0 : up;
}

static char *branch_state_of(struct store *st, const char *name)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	enum branch_state state;

	if (!st || branch_find(st, name, &b, NULL) < 0 ||
	    branch_get_state(b, &state, NULL) < 0)
		return NULL;
	return strdup(branch_state_name(state));
}

static int fill_info(const struct sandbox_env *env, struct found *f,
		     struct store *st, struct sandbox_info *i)
{
	const struct sandbox_state *s = f->state;
	bool stopped = f->status == STATUS_STOPPED;

	i->name = strdup(s->name);
	i->bundle = strdup(s->bundle);
	i->rootfs = strdup(s->rootfs);
	i->created = strdup(s->created);
	i->status = sandbox_status_name(f->status);
	i->owner = s->owner;
	i->remaps = s->remaps && !stopped;
	i->pid = stopped ? 0 : s->init.pid;
	i->uptime_s = stopped ? -1 : uptime_of(&s->init);
	if (!stopped && f->status != STATUS_CREATED && !s->host)
		i->command = read_command(s->init.pid);
	if (!i->command && s->command)
		i->command = strdup(s->command);
	/* A stored branch of that name can only be its own. */
	if (s->store && !stopped) {
		i->branch = strdup(branch_state_name(BRANCH_OPEN));
	} else if (s->store) {
		auto_ptr(store_close) struct store *own = NULL;

		if (st && strcmp(store_path(st), s->store) == 0)
			i->branch = branch_state_of(st, s->name);
		else if (store_open(s->store, env->log, &own, NULL) == 0)
			i->branch = branch_state_of(own, s->name);
	}
	return i->name && i->bundle && i->rootfs && i->created ? 0 : -ENOMEM;
}

struct listing {
	struct sandbox_info *v;
	size_t n, cap;
};

static struct sandbox_info *next_info(struct listing *l)
{
	struct sandbox_info *more;

	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 16;
		more = realloc(l->v, l->cap * sizeof(*more));
		if (!more)
			return NULL;
		l->v = more;
	}
	l->v[l->n] = (struct sandbox_info){ .uptime_s = -1 };
	return &l->v[l->n++];
}

static int list_live(const struct sandbox_env *env, struct rundir *d,
		     struct store *st, struct listing *l, struct error *err)
{
	char **names = NULL;
	size_t n = 0;
	int r = rundir_names(d, &names, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct error local = ERROR_INIT;
		struct sandbox_info *info;
		struct found f = { 0 };
		int found = found_open(env, names[i], false, &f, &local);

		/* Not there: just being made, or just removed. */
		if (found < 0 && found != -ENOENT)
			log_warn(env->log, "left out: %s (%s)", local.msg,
				 local.hint);
		if (found < 0 ||
		    (f.state->ephemeral && f.status == STATUS_STOPPED &&
		     !stale_waits(f.slot, f.state))) {
			found_done(&f);
			(void)stale_prune(env, d, names[i], false);
			continue;
		}
		info = next_info(l);
		if (!info || fill_info(env, &f, st, info) < 0)
			r = error_set(err, ERR_SYSTEM, ENOMEM, "list");
		found_done(&f);
	}
	rundir_names_free(names, n);
	return r;
}

static bool is_listed(const struct listing *l, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return true;
	return false;
}

static int fill_ended(struct store *st, const char *name,
		      struct sandbox_info *i)
{
	auto_ptr(branch_close) struct branch *b = NULL;
	struct branch_info info;

	i->name = strdup(name);
	i->status = "ended";
	if (!i->name)
		return -ENOMEM;
	if (branch_find(st, name, &b, NULL) < 0 ||
	    branch_get_info(b, &info, NULL) < 0) {
		i->branch = strdup("damaged");
		return i->branch ? 0 : -ENOMEM;
	}
	if (info.init.pid) {
		i->status = sandbox_status_name(STATUS_RUNNING);
		i->pid = info.init.pid;
		i->uptime_s = uptime_of(&info.init);
	}
	i->branch = strdup(branch_state_name(info.state));
	i->rootfs = take_ptr(&info.lower);
	i->command = buf_join_words(info.argv);
	branch_info_done(&info);
	return i->branch ? 0 : -ENOMEM;
}

static int list_ended(struct store *st, struct listing *l, struct error *err)
{
	size_t n = 0, live = l->n;
	char **names = NULL;
	int r = store_list(st, &names, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct sandbox_info *info;

		if (is_listed(l, live, names[i]))
			continue;
		info = next_info(l);
		if (!info || fill_ended(st, names[i], info) < 0)
			r = error_set(err, ERR_SYSTEM, ENOMEM, "list");
	}
	store_names_free(names, n);
	return r;
}

static int compare_infos(const void *a, const void *b)
{
	return strcmp(((const struct sandbox_info *)a)->name,
		      ((const struct sandbox_info *)b)->name);
}

int sandbox_list(const struct sandbox_env *env, bool with_ended,
		 struct sandbox_info **ret, size_t *ret_n, struct error *err)
{
	auto_ptr(rundir_close) struct rundir *d = NULL;
	auto_ptr(store_close) struct store *st = NULL;
	struct error local = ERROR_INIT;
	struct listing l = { 0 };
	int r = rundir_open(env->root, false, &d, &local);

	(void)store_open(env->store, env->log, &st, NULL);
	if (r == 0) {
		r = list_live(env, d, st, &l, &local);
		if (r == 0)
			(void)inspect_ports(d, l.v, l.n);
	} else if (r == -ENOENT && !env->root)
		r = 0;
	if (r == 0 && with_ended && st)
		r = list_ended(st, &l, &local);
	if (r < 0) {
		if (err)
			*err = local;
		sandbox_list_free(l.v, l.n);
		return r;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_infos);
	*ret = l.v;
	*ret_n = l.n;
	return 0;
}

void sandbox_list_free(struct sandbox_info *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].name);
		free(v[i].bundle);
		free(v[i].rootfs);
		free(v[i].created);
		free(v[i].command);
		free(v[i].branch);
		free(v[i].ports);
	}
	free(v);
}
