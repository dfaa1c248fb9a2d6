/*
 * The paths of a host command in tier C. Nothing is mounted: what tier A shows
 * read-only has a Landlock rule to read and execute it, what it shows writable
 * one for everything, and the rest has none.
 *
 * Landlock only allows. What is denied within something that may be read is
 * left out by giving rules to what lies beside it, as it is now: such a
 * directory itself can only be listed, and not even that where a directory in
 * it is denied, because the right to list goes down to that one as well. Within
 * what may be written nothing can be left out: what is made there would need a
 * rule of its own. That is refused. In a workdir nobody but the supervisor
 * writes, which knows what is denied and lists what Landlock cannot: cow.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/branch.h"
#include "control/rundir.h"
#include "kernel/landlock.h"
#include "sandbox/host.h"

enum { PATHS_MAX = 16384, LINK_DIRS_MAX = 1 << 18 };

static const unsigned int look = LANDLOCK_READ | LANDLOCK_EXEC;

/* Files that everything needs, and that lead nowhere. */
static const char *const devices[] = {
	"/dev/null",	"/dev/zero", "/dev/full", "/dev/random",
	"/dev/urandom", "/dev/tty",  "/dev/ptmx",
};

struct denied {
	char *path; /* real */
	bool is_dir;
	bool is_ours;	/* the store, the runtime directory */
	bool has_links; /* a file, and this is one of its names */
	dev_t dev;
	ino_t ino;
};

struct paths {
	const struct host_context *h;
	struct plan *plan;
	struct denied *denied;
	size_t n_denied;
	struct error *err;
};

static void paths_done(struct paths *p)
{
	for (size_t i = 0; i < p->n_denied; i++)
		free(p->denied[i].path);
	free(p->denied);
}

static int no_memory(struct paths *p)
{
	return error_set(p->err, ERR_SYSTEM, ENOMEM, "paths");
}

/*
 * What the command, who has the same ids and no capability, cannot open anyway
 * need not be left out; but an owner could change that.
 */
static bool is_out_of_reach(const char *path, const struct stat *st)
{
	int mode = S_ISDIR(st->st_mode) ? X_OK : R_OK;

	if (geteuid() == 0 || st->st_uid == geteuid() ||
	    faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0)
		return false;
	return !S_ISDIR(st->st_mode) ||
	       faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0;
}

/* The real path of a directory that may be made later; malloc'ed or NULL. */
static char *real_or_will_be(const char *path)
{
	auto_free char *here = *path == '/' ? strdup("/") : realpath(".", NULL);
	auto_free char *named = here ? path_join(here, path) : NULL;
	auto_free char *dir = named ? path_normalize(named) : NULL;
	auto_free char *rest = strdup("");
	char *whole;

	for (;;) {
		auto_free char *real = dir ? realpath(dir, NULL) : NULL;
		char *slash = dir ? strrchr(dir, '/') : NULL;

		if (real)
			return *rest ? path_join(real, rest) : take_ptr(&real);
		if (!slash || !slash[1] || !rest)
			return NULL;
		whole = *rest ? path_join(slash + 1, rest) : strdup(slash + 1);
		free(rest);
		rest = whole;
		slash[slash == dir] = '\0';
	}
}

static int deny(struct paths *p, const char *path, bool is_ours)
{
	auto_free char *real =
		is_ours ? real_or_will_be(path) : realpath(path, NULL);
	struct stat st = { .st_mode = S_IFDIR, .st_uid = geteuid() };
	struct denied *v;

	/* What is not there is not shown, as in tier A. */
	if (!real || (stat(real, &st) < 0 && !is_ours) ||
	    is_out_of_reach(real, &st))
		return 0;
	v = reallocarray(p->denied, p->n_denied + 1, sizeof(*v));
	if (!v)
		return no_memory(p);
	p->denied = v;
	if (spec_strings_add(&p->plan->denied, real) < 0)
		return no_memory(p);
	v[p->n_denied++] = (struct denied){
		.path = take_ptr(&real),
		.is_dir = S_ISDIR(st.st_mode),
		.is_ours = is_ours,
		.has_links = S_ISREG(st.st_mode) && st.st_nlink > 1,
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	return 0;
}

static int deny_secret(void *data, const char *path)
{
	return deny(data, path, false);
}

static int deny_ours(struct paths *p, const struct sandbox_env *env)
{
	auto_free char *root = NULL;
	auto_free char *store =
		env->store ? strdup(env->store) : store_default_path();
	int n = rundir_default(env->root, &root);

	if (n < 0)
		return no_memory(p);
	n = deny(p, root, true);
	if (n == 0 && store)
		n = deny(p, store, true);
	return n == 0 && p->h->request->storage
		       ? deny(p, p->h->request->storage, true)
		       : n;
}

static bool is_denied(const struct paths *p, const char *path)
{
	for (size_t i = 0; i < p->n_denied; i++)
		if (path_is_under(path, p->denied[i].path))
			return true;
	return false;
}

/* The first that lies in @dir, or NULL. */
static const struct denied *denied_in(const struct paths *p, const char *dir)
{
	for (size_t i = 0; i < p->n_denied; i++)
		if (path_is_under(p->denied[i].path, dir))
			return &p->denied[i];
	return NULL;
}

static bool can_be_listed(const struct paths *p, const char *dir)
{
	for (size_t i = 0; i < p->n_denied; i++)
		if (p->denied[i].is_dir &&
		    path_is_under(p->denied[i].path, dir))
			return false;
	return true;
}

static int add(struct paths *p, const char *path, unsigned int access)
{
	if (p->plan->n_paths >= PATHS_MAX)
		return error_say(p->err, ERR_UNSUPPORTED, E2BIG,
				 "there is more beside what is denied than "
				 "%d rules could be for",
				 PATHS_MAX);
	return plan_add_path(p->plan, path, access) < 0 ? no_memory(p) : 0;
}

/* What lies in @dir but is neither denied nor has something denied in it. */
static int add_siblings(struct paths *p, const char *dir)
{
	auto_dir DIR *d = opendir(dir);
	int n = 0;

	if (!d)
		return 0;
	for (struct dirent *e = readdir(d); e && n == 0; e = readdir(d)) {
		auto_free char *path = NULL;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		path = path_join(dir, e->d_name);
		if (!path)
			return no_memory(p);
		if (!is_denied(p, path) && !denied_in(p, path))
			n = add(p, path, look);
	}
	return n;
}

static bool has(const struct spec_strings *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], text) == 0)
			return true;
	return false;
}

/* From above @path, which is denied, up to @top: each directory once. */
static int split_to(struct paths *p, const char *path, const char *top,
		    struct spec_strings *done)
{
	auto_free char *dir = strdup(path);
	char *slash;
	int n = 0;

	if (!dir)
		return no_memory(p);
	while (n == 0 && strcmp(dir, top) != 0) {
		slash = strrchr(dir, '/');
		slash[slash == dir] = '\0';
		/* Within something else that is denied there is nothing. */
		if (is_denied(p, dir) || has(done, dir))
			break;
		if (spec_strings_add(done, dir) < 0)
			return no_memory(p);
		n = add_siblings(p, dir);
		if (n == 0 && can_be_listed(p, dir))
			n = add(p, dir, LANDLOCK_LIST);
	}
	return n;
}

/* @path is real. */
static int add_readable(struct paths *p, const char *path)
{
	struct spec_strings done = { 0 };
	int n = 0;

	if (is_denied(p, path))
		return 0;
	if (!denied_in(p, path))
		return add(p, path, look);
	for (size_t i = 0; n == 0 && i < p->n_denied; i++)
		if (path_is_under(p->denied[i].path, path))
			n = split_to(p, p->denied[i].path, path, &done);
	spec_strings_done(&done);
	return n;
}

static int add_real(void *data, const char *path)
{
	auto_free char *real = realpath(path, NULL);

	return real ? add_readable(data, real) : 0;
}

/*
 * As add_whole_root of host_view.c: what the kernel makes up is not meant. "/"
 * itself cannot be listed: that would go down to all of those.
 */
static int add_whole_root(struct paths *p)
{
	static const char *const never[] = { ".",   "..",  "proc",	"dev",
					     "tmp", "run", "lost+found" };
	auto_dir DIR *d = opendir("/");
	int n = 0;

	if (!d)
		return error_set(p->err, ERR_SYSTEM, errno, "cannot read '/'");
	for (struct dirent *e = readdir(d); e && n == 0; e = readdir(d)) {
		char path[NAME_MAX + 2];
		struct stat st;
		bool skip = false;

		for (size_t i = 0; i < ARRAY_LEN(never); i++)
			skip |= strcmp(e->d_name, never[i]) == 0;
		(void)snprintf(path, sizeof(path), "/%s", e->d_name);
		if (!skip && lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
			n = add_readable(p, path);
	}
	return n;
}

static int add_listed(struct paths *p)
{
	const struct spec_strings *l = &p->h->request->read;
	int n = 0;

	for (size_t i = 0; n == 0 && i < l->n; i++) {
		auto_free char *real = realpath(l->v[i], NULL);

		if (!real)
			return error_set(p->err, ERR_USAGE, errno, "-r '%s'",
					 l->v[i]);
		n = strcmp(real, "/") == 0 ? add_whole_root(p)
					   : add_readable(p, real);
	}
	return n;
}

static int refuse_denied(struct paths *p, const char *flag, const char *path,
			 const struct denied *d)
{
	(void)error_say(p->err, ERR_UNSUPPORTED, ENOTSUP,
			d->is_ours ? "%s '%s' has sandlock's own '%s' in it, "
				     "which Landlock cannot take away"
				   : "%s '%s' has '%s' in it, which is denied: "
				     "Landlock cannot take it away",
			flag, path, d->path);
	return error_hint(p->err,
			  "name what is to be written in '%s' instead "
			  "of all of it",
			  path);
}

static int add_writable(struct paths *p, const char *flag, const char *path)
{
	const struct host_context *h = p->h;
	const struct denied *d;

	if (strcmp(path, "/") == 0) {
		(void)error_say(p->err, ERR_UNSUPPORTED, ENOTSUP,
				"%s '/': without a mount namespace there is no "
				"telling the kernel's own files apart",
				flag);
		return error_hint(p->err, "name the directories that are to be "
					  "written");
	}
	for (size_t i = 0; i < h->workdirs.n; i++)
		if (path_is_under(h->workdirs.v[i], path) ||
		    path_is_under(path, h->workdirs.v[i]))
			return error_say(p->err, ERR_UNSUPPORTED, ENOTSUP,
					 "%s '%s' and the workdir '%s' cannot "
					 "both be had without a mount "
					 "namespace: one lies in the other",
					 flag, path, h->workdirs.v[i]);
	if (is_denied(p, path))
		return 0;
	d = denied_in(p, path);
	if (d)
		return refuse_denied(p, flag, path, d);
	return add(p, path,
		   path_is_under(path, "/dev")
			   ? LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_IOCTL
			   : LANDLOCK_ALL);
}

static bool is_in_workdir(const struct host_context *h, const char *path)
{
	for (size_t i = 0; i < h->workdirs.n; i++)
		if (path_is_under(path, h->workdirs.v[i]))
			return true;
	return false;
}

static int add_written(struct paths *p)
{
	const struct spec_strings *l = &p->h->request->write;
	int n = 0;

	for (size_t i = 0; n == 0 && i < l->n; i++) {
		auto_free char *real = realpath(l->v[i], NULL);

		if (!real)
			return error_set(p->err, ERR_USAGE, errno, "-w '%s'",
					 l->v[i]);
		/* The branch takes it: create.c says so. */
		if (!is_in_workdir(p->h, real))
			n = add_writable(p, "-w", real);
	}
	return n;
}

static bool is_link_of(const struct paths *p, const struct stat *st)
{
	for (size_t i = 0; i < p->n_denied; i++)
		if (p->denied[i].has_links && p->denied[i].ino == st->st_ino &&
		    p->denied[i].dev == st->st_dev)
			return true;
	return false;
}

static int look_for_links(struct paths *p, const char *dir,
			  struct spec_strings *todo)
{
	auto_dir DIR *d = opendir(dir);
	int n = 0;

	if (!d)
		return 0;
	for (struct dirent *e = readdir(d); e && n == 0; e = readdir(d)) {
		auto_free char *path = NULL;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0 ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (!S_ISDIR(st.st_mode) &&
		    (!S_ISREG(st.st_mode) || st.st_nlink < 2))
			continue;
		path = path_join(dir, e->d_name);
		if (!path)
			return no_memory(p);
		if (is_denied(p, path))
			continue;
		if (S_ISDIR(st.st_mode))
			n = spec_strings_add(todo, path) < 0 ? no_memory(p) : 0;
		else if (is_link_of(p, &st))
			n = deny(p, path, false);
	}
	return n;
}

/* Other names in @top of files that are denied. */
static int deny_links(struct paths *p, const char *top)
{
	struct spec_strings todo = { 0 };
	bool wanted = false;
	int n = 0;

	for (size_t i = 0; i < p->n_denied; i++)
		wanted |= p->denied[i].has_links;
	if (!wanted)
		return 0;
	if (spec_strings_add(&todo, top) < 0)
		return no_memory(p);
	for (size_t i = 0; n == 0 && i < todo.n; i++)
		n = i == LINK_DIRS_MAX
			    ? error_say(p->err, ERR_UNSUPPORTED, E2BIG,
					"what is denied has other names, and "
					"'%s' more than %d directories to look "
					"for them in",
					top, LINK_DIRS_MAX)
			    : look_for_links(p, todo.v[i], &todo);
	spec_strings_done(&todo);
	return n;
}

/* What is read there is the kernel's to open, and what is written the
 * supervisor's. */
static int add_workdirs(struct paths *p)
{
	const struct spec_strings *l = &p->h->workdirs;
	int n = 0;

	for (size_t i = 0; n == 0 && i < l->n; i++) {
		if (is_denied(p, l->v[i]))
			return error_say(p->err, ERR_UNSUPPORTED, ENOTSUP,
					 "--workdir '%s' lies in what is "
					 "denied",
					 l->v[i]);
		n = add_readable(p, l->v[i]);
	}
	return n;
}

static int add_asked_mounts(struct paths *p)
{
	const struct request *r = p->h->request;
	int n = 0;

	for (size_t i = 0; n == 0 && i < r->n_mounts; i++) {
		const struct request_mount *m = &r->mounts[i];
		auto_free char *real = realpath(m->host, NULL);

		if (!real)
			return error_set(p->err, ERR_USAGE, errno,
					 "--fs-mount '%s'", m->host);
		if (strcmp(real, m->inside) != 0)
			continue;
		n = m->read_only ? add_readable(p, real)
				 : add_writable(p, "--fs-mount", real);
	}
	return n;
}

/* In other places, once it is known what is shown in its own. */
static int add_moved_mounts(struct paths *p)
{
	const struct request *r = p->h->request;
	int n = 0;

	for (size_t i = 0; n == 0 && i < r->n_mounts; i++) {
		const struct request_mount *m = &r->mounts[i];
		auto_free char *real = realpath(m->host, NULL);
		const struct denied *d;

		if (!real || strcmp(real, m->inside) == 0)
			continue;
		d = denied_in(p, real);
		if (d)
			return refuse_denied(p, "--fs-mount", real, d);
		if (is_denied(p, real) || is_denied(p, m->inside))
			return error_say(p->err, ERR_UNSUPPORTED, ENOTSUP,
					 "--fs-mount '%s:%s' lies in what is "
					 "denied",
					 m->inside, real);
		n = host_show(m, p->plan, p->err);
	}
	return n;
}

/* A socket of ours is nobody's inside, whatever a rule says. */
static int check_sockets(struct paths *p)
{
	const struct net_list *l = &p->h->net.connect;

	for (size_t i = 0; !l->is_deny && i < l->n; i++) {
		if (l->rules[i].target != NET_TARGET_PATH)
			continue;
		for (size_t k = 0; k < p->n_denied; k++)
			if (p->denied[k].is_ours &&
			    path_is_under(l->rules[i].name, p->denied[k].path))
				return error_say(p->err, ERR_UNSUPPORTED,
						 ENOTSUP,
						 "--net-allow unix:%s: no "
						 "sandbox may use sandlock's "
						 "own sockets",
						 l->rules[i].name);
	}
	return 0;
}

int host_paths(const struct host_context *h, const struct sandbox_env *env,
	       struct plan *plan, struct error *err)
{
	struct paths p = { .h = h, .plan = plan, .err = err };
	int n = deny_ours(&p, env);

	if (n == 0)
		n = host_each_secret(h, deny_secret, &p);
	for (size_t i = 0; n == 0 && i < h->workdirs.n; i++)
		n = deny_links(&p, h->workdirs.v[i]);
	for (size_t i = 0; n == 0 && i < ARRAY_LEN(devices); i++)
		n = add(&p, devices[i],
			LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_IOCTL);
	/* Of others only what is no secret: see docs/threats.md. */
	if (n == 0)
		n = add(&p, "/proc", LANDLOCK_READ);
	if (n == 0 && !h->request->read.n)
		n = host_each_readable(h, add_real, &p);
	if (n == 0)
		n = add_listed(&p);
	if (n == 0)
		n = add_written(&p);
	if (n == 0)
		n = add_workdirs(&p);
	if (n == 0)
		n = add_asked_mounts(&p);
	if (n == 0)
		n = add_moved_mounts(&p);
	if (n == 0)
		n = check_sockets(&p);
	paths_done(&p);
	return n;
}
